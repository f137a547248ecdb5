// That a handler may have begun: written before it does, for tools that must not simply be run again (Q3, H4). A call without a mark has not
// begun; one with a mark may have had its effect, whatever came of the process that ran it.

import type { CallTool } from "../../kernel/internal.ts";
import type { Json, JsonObject, ReplayPolicy, ToolSpec } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { jsonObject, number, object, oneOf, required, string } from "../../model/parse/reading.ts";
import { readRecord } from "./records.ts";

/** The name it is written down under, in the records of the effect. */
export const startName = "started";

type StartMark = {
  /** Who ran it, as a number that only grows. */
  readonly epoch: number;
  /** What recovery is to do, as the tool had it then. */
  readonly policy: Exclude<ReplayPolicy, "safe">;
  readonly name: string;
  readonly arguments: JsonObject;
};

const markShape: Shape<StartMark> = object<StartMark>({
  epoch: required(number),
  policy: required(oneOf(["never", "ask"])),
  name: required(string),
  arguments: required(jsonObject),
});

/**
 * The mark that may be written together with what ordered a call, before anybody has looked at it; `null`: nothing is to be written then. That
 * is so for calls that may be run again, for those that somebody may have to consent to first, which whoever performs them marks, and for those
 * that nobody runs. A hook that may change arguments is not known here: where there is one, leave the mark to whoever performs the call.
 */
export function startMark(
  { call, decision }: Pick<CallTool, "call" | "decision">,
  tool: Pick<ToolSpec, "name" | "replay" | "needsApproval" | "manual">,
  epoch: number,
): StartMark | null {
  const args = decision?.arguments ?? call.arguments;
  const mayWait = decision === null && (tool.needsApproval || tool.manual);
  return args === null || mayWait ? null : markOf(args, tool, epoch);
}

/** The mark of a call that is about to run; `null`: it needs none. */
export function markOf(
  args: JsonObject,
  { name, replay }: Pick<ToolSpec, "name" | "replay">,
  epoch: number,
): StartMark | null {
  return replay === "safe" || epoch === 0 ? null : { epoch, policy: replay, name, arguments: args };
}

/** What is to be done about a call because it may have begun; `null`: it has not, as far as anybody knows. */
export function startedPolicy(found: Json, name: string, args: JsonObject): StartMark["policy"] | null {
  if (found === null) return null;
  const mark = readRecord(markShape, found);
  // That something began is sure, and what is not: the careful reading is that it was this.
  if (mark === null) return "never";
  return mark.name === name && isSameJson(mark.arguments, args) ? mark.policy : null;
}

export function isSameJson(one: Json, other: Json): boolean {
  return one === other || canonicalJson(one) === canonicalJson(other);
}
