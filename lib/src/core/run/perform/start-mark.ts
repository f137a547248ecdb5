// Start marks: records that a tool handler may have started (Q3, H4).
//
// A process can stop at any point between the start of a handler and the commit of its result. Exactly-once execution
// is then impossible for the library: recovery cannot know whether the handler had its side effect. The replay policy
// of the tool decides:
//
//   replay policy   before the handler runs        recovery, if no result is recorded
//   safe            no mark                        runs it again with the same idempotency key (at-least-once)
//   never           commits a start mark           with a mark: answers `outcome_unknown` (at-most-once); without: runs
//                                                  it
//   ask             commits a start mark           with a mark: the call becomes pending for a person; without: runs it
//
// The mark is written ahead of the effect it guards: a call without a mark has not started. It carries the replay
// policy at the time of the start, because a deploy may change the policy of the tool, and the lease epoch of the
// process that ran it.
//
// Do not confuse the replay policy `never` (do not run again after a crash) with the retry policy `{ type: "never" }`
// (do not retry after a failure).

import type { CallTool } from "../../kernel/internal.ts";
import type { Json, JsonObject, ToolSpec } from "../../model/internal.ts";
import type { Infer, Shape } from "../../model/parse/reading.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { decidedArguments } from "../../model/internal.ts";
import { jsonObject, number, object, oneOf, required, string } from "../../model/parse/reading.ts";
import { readRecord } from "./records.ts";

/** The name of the start mark among the records of its effect. */
export const startRecordName = "started";

const startMarkFields = {
  /** The lease epoch (fencing token) of the process that ran the tool. */
  epoch: required(number),
  /** The replay policy of the tool when it started. */
  policy: required(oneOf(["never", "ask"])),
  /** The name of the tool. */
  name: required(string),
  /** The arguments it ran with. A mark for other arguments does not apply. */
  arguments: required(jsonObject),
};

/** A start mark. Stored. */
type StartMark = Infer<typeof startMarkFields>;

const markShape: Shape<StartMark> = object(startMarkFields);

/**
 * The mark that a driver may write in the commit that orders a call, which saves a commit before the tool runs. `null`
 * if no mark may be written yet: the replay policy is `safe`, the call may have to wait for an approval or for the
 * caller, or its arguments are not an object. The performer then writes the mark when the call is prepared. A
 * `beforeTool` hook can change the arguments and is not known here; with one, the driver must leave the mark to the
 * performer.
 */
export function startMark(
  { call, decision }: Pick<CallTool, "call" | "decision">,
  tool: Pick<ToolSpec, "name" | "replay" | "needsApproval" | "manual">,
  epoch: number,
): StartMark | null {
  const args = decidedArguments(call, decision);
  const mayWait = decision === null && (tool.needsApproval || tool.manual);
  return args === null || mayWait ? null : runMark(args, tool, epoch);
}

/**
 * The mark of a call that is about to run. `null` for the replay policy `safe`, and in memory (epoch 0), where no
 * process can recover the turn.
 */
export function runMark(
  args: JsonObject,
  { name, replay }: Pick<ToolSpec, "name" | "replay">,
  epoch: number,
): StartMark | null {
  return replay === "safe" || epoch === 0 ? null : { epoch, policy: replay, name, arguments: args };
}

/**
 * The replay policy that applies to a call because its handler may have started; `null`: there is no mark for this
 * call.
 */
export function replayPolicyOfStart(record: Json, name: string, args: JsonObject): StartMark["policy"] | null {
  if (record === null) return null;
  const mark = readRecord(markShape, record);
  // A mark that cannot be read proves that something started. The safe assumption is that it was this call.
  if (mark === null) return "never";
  return mark.name === name && isSameJson(mark.arguments, args) ? mark.policy : null;
}

/** Are both values equal as canonical JSON? */
export function isSameJson(left: Json, right: Json): boolean {
  return left === right || canonicalJson(left) === canonicalJson(right);
}
