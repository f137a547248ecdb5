// Prepares a tool call before its handler runs: finds the tool, runs the `beforeTool` hook, validates the arguments,
// asks the approval gate.
//
// Order: hook, gate, person, run. The gate and the person see the arguments that the hook produced. After an approval
// the hook runs once more, with the approved arguments, and may only deny: what a person approves is what runs (A1).
// Turns of kernel revision 2 and earlier keep their order (Q6): there the hook also replaces arguments after an
// approval.
//
// The decision of a hook or a gate is recorded as `prepared` before anything follows from it (Q3). A process that takes
// over reads the record and does not ask again, so a hook runs once for a call unless the process stops before its
// record is written.

import type { PreparedCall } from "../../engine/internal.ts";
import type { CallerContext, Json, JsonObject } from "../../model/internal.ts";
import type { HandlerResult, ToolAnswers } from "./tool-answer.ts";
import type { ToolJob } from "./tool-job.ts";

import { decidedArguments, truncateMiddle } from "../../model/internal.ts";
import {
  failureShape,
  fallback,
  jsonObject,
  nullable,
  required,
  toolAnswerFields,
  toolOutcomeShape,
  variant,
} from "../../model/parse/reading.ts";
import { readRecord } from "./records.ts";

/** A prepared call whose handler can run. */
export type Runnable<Context extends CallerContext> = Extract<PreparedCall<Context>, { readonly ok: true }>;

/** The result of the preparation: run the handler, wait for an approval, or answer the call without running it. */
type Preparation<Context extends CallerContext> =
  | { readonly type: "ready"; readonly prepared: Runnable<Context>; readonly args: JsonObject }
  | Waits
  | HandlerResult;

/**
 * The call waits for an approval. `arguments`: what it would run with; `null`: recorded by an older release, those of
 * the call.
 */
type Waits = { readonly type: "waits"; readonly arguments: JsonObject | null };

/** A preparation as data, for its record. The runnable call is computed again from the arguments. */
export type Prepared = { readonly type: "ready"; readonly arguments: JsonObject } | Waits | HandlerResult;

const preparedRecordName = "prepared";

/** A preparation as the record is parsed: `failed` may hold any kind of failure. */
const storedShape = variant("type", {
  ready: { arguments: required(jsonObject) },
  waits: { arguments: fallback(nullable(jsonObject), null) },
  failed: { failure: required(failureShape) },
  outcome: { outcome: required(toolOutcomeShape), content: toolAnswerFields.content },
});

/** The recorded preparation of an earlier process; `null`: none, or not readable. */
export function recallPrepared<Context extends CallerContext>({ ports, effect }: ToolJob<Context>): Prepared | null {
  const stored = readRecord(storedShape, ports.scope.find(effect.id, preparedRecordName));
  if (stored?.type !== "failed") return stored;
  return stored.failure.type === "tool_error" ? { type: "failed", failure: stored.failure } : null;
}

/** Prepares a call, or applies its recorded preparation. Records the result if a hook or a gate took part. */
export async function prepareTool<Context extends CallerContext>(
  job: ToolJob<Context>,
  answers: ToolAnswers<Context>,
  recorded: Prepared | null,
): Promise<Preparation<Context>> {
  if (recorded !== null && recorded.type !== "ready") return recorded;
  const preparation = await prepare(job, answers, recorded?.arguments ?? null);
  if (recorded === null && hasHookOrGate(job))
    await job.ports.scope.record(job.effect.id, preparedRecordName, storedOf(preparation));
  return preparation;
}

async function prepare<Context extends CallerContext>(
  { tool, plan, effect, context }: ToolJob<Context>,
  answers: ToolAnswers<Context>,
  recordedArguments: JsonObject | null,
): Promise<Preparation<Context>> {
  const { call, decision } = effect;
  if (tool === null || !tool.hasHandler) {
    return answers.failed("not_found", `the engine has no handler for the tool ${call.name}`);
  }
  try {
    // `forward`: the call runs again because its inner turn continues. The hook and the gate were asked the first time.
    const isContinued = decision?.type === "forward";
    const onlyDenies = isApproved({ plan, effect });
    // Programs may change the objects that they get: the call of a hook, `context.toolCall`, the arguments of a
    // middleware or an executor. So an approved call gives them copies, and the handler gets one that nothing else
    // refers to.
    const copied = <T extends JsonObject | null>(value: T): T => (onlyDenies ? structuredClone(value) : value);
    const requested = copied(recordedArguments ?? decidedArguments(call, decision));
    const hookCall = onlyDenies ? { ...call, arguments: copied(requested) } : call;
    const hookResult =
      recordedArguments === null && !isContinued ? await plan.hooks.beforeTool?.(hookCall, context) : null;
    if (hookResult?.type === "deny") return answers.failed("denied", hookResult.reason);
    if (hookResult?.type === "skip" && !onlyDenies) return answers.replaced(hookResult.value);
    const args = hookResult?.type === "replace_arguments" && !onlyDenies ? hookResult.arguments : requested;
    if (args === null) {
      const raw = truncateMiddle(call.rawArguments ?? "", 200);
      return answers.failed("invalid_arguments", `the arguments are not a JSON object: ${raw}`);
    }
    const prepared = await tool.prepare(copied(args));
    if (!prepared.ok) return answers.invalidArguments(prepared.issues);
    const needsApproval = recordedArguments === null && decision === null && (await prepared.needsApproval(context));
    return needsApproval ? { type: "waits", arguments: args } : { type: "ready", prepared, args };
  } catch (error) {
    return answers.raised(error);
  }
}

/**
 * Was the call approved, so that no hook and no middleware may change its arguments any more (A1)? Not for turns of
 * kernel revision 2 and earlier (Q6).
 */
export function isApproved<Context extends CallerContext>({
  plan,
  effect,
}: Pick<ToolJob<Context>, "plan" | "effect">): boolean {
  const { decision } = effect;
  const wasApproved = decision?.type === "approve" || (decision?.type === "forward" && decision.approved === true);
  return wasApproved && plan.input.revision >= 3;
}

/**
 * Does a hook or a gate take part in the preparation? Without one the preparation can be computed again and needs no
 * record.
 */
function hasHookOrGate<Context extends CallerContext>({ tool, plan, effect }: ToolJob<Context>): boolean {
  if (tool === null || !tool.hasHandler) return false;
  return plan.hooks.beforeTool !== undefined || (tool.needsApproval && effect.decision === null);
}

function storedOf<Context extends CallerContext>(preparation: Preparation<Context>): Json {
  return preparation.type === "ready" ? { type: "ready", arguments: preparation.args } : preparation;
}
