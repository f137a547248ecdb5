// Everything that comes before a handler: is there one, does a hook have another idea, do the arguments fit, does somebody have to consent. What
// a hook or a gate decided is written down before anything follows from it (Q3), and is not asked for again.

import type { PreparedCall } from "../../engine/internal.ts";
import type { CallerContext, Failure, Json, JsonObject } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { Outcome, Ran, ToolAnswers } from "./tool-answer.ts";
import type { ToolJob } from "./tool-job.ts";

import { renderIssue, truncateMiddle } from "../../model/internal.ts";
import {
  failureShape,
  jsonObject,
  object,
  oneOf,
  required,
  toolAnswerFields,
  toolOutcomeShape,
  variant,
} from "../../model/parse/reading.ts";
import { readRecord } from "./records.ts";

/** A call that can be run. */
export type Runnable<Context extends CallerContext> = Extract<PreparedCall<Context>, { readonly ok: true }>;

type Ready<Context extends CallerContext> =
  | { readonly type: "ready"; readonly prepared: Runnable<Context>; readonly args: JsonObject }
  | { readonly type: "waits" }
  | Ran;

/** The same as data. What can be run is worked out again from the arguments. */
export type Prepared = { readonly type: "ready"; readonly arguments: JsonObject } | { readonly type: "waits" } | Ran;

const preparedName = "prepared";

type Stored = Exclude<Prepared, { readonly type: "failed" }> | { readonly type: "failed"; readonly failure: Failure };

const storedShape: Shape<Stored> = variant<Stored, "type">("type", {
  ready: object<Extract<Stored, { readonly type: "ready" }>>({
    type: required(oneOf(["ready"])),
    arguments: required(jsonObject),
  }),
  waits: object<{ readonly type: "waits" }>({ type: required(oneOf(["waits"])) }),
  failed: object<Extract<Stored, { readonly type: "failed" }>>({
    type: required(oneOf(["failed"])),
    failure: required(failureShape),
  }),
  outcome: object<Outcome>({
    type: required(oneOf(["outcome"])),
    outcome: required(toolOutcomeShape),
    content: toolAnswerFields.content,
  }),
});

/** What a process that had the call before wrote down. */
export function recallPrepared<Context extends CallerContext>({ ports, effect }: ToolJob<Context>): Prepared | null {
  const stored = readRecord(storedShape, ports.scope.find(effect.id, preparedName));
  if (stored?.type !== "failed") return stored;
  return stored.failure.type === "tool_error" ? { type: "failed", failure: stored.failure } : null;
}

export async function prepareTool<Context extends CallerContext>(
  job: ToolJob<Context>,
  answers: ToolAnswers<Context>,
  known: Prepared | null,
): Promise<Ready<Context>> {
  if (known !== null && known.type !== "ready") return known;
  const ready = await prepare(job, answers, known?.arguments ?? null);
  if (known === null && isAsked(job)) await job.ports.scope.record(job.effect.id, preparedName, storedOf(ready));
  return ready;
}

async function prepare<Context extends CallerContext>(
  { tool, plan, effect: { call, decision }, context }: ToolJob<Context>,
  answers: ToolAnswers<Context>,
  decided: JsonObject | null,
): Promise<Ready<Context>> {
  if (tool === null || !tool.hasHandler) {
    return answers.failed("not_found", `nobody here can run the tool ${call.name}`);
  }
  try {
    // Run again because a turn inside went on: what was decided about it holds.
    const again = decision?.type === "forward";
    const hooked = decided === null && !again ? await plan.hooks.beforeTool?.(call, context) : null;
    if (hooked?.type === "deny") return answers.failed("denied", hooked.reason);
    if (hooked?.type === "skip") return answers.replaced(hooked.value);
    const given = decided ?? decision?.arguments ?? call.arguments;
    const args = hooked?.type === "replace_arguments" ? hooked.arguments : given;
    if (args === null) {
      const raw = truncateMiddle(call.rawArguments ?? "", 200);
      return answers.failed("invalid_arguments", `the arguments are not a JSON object: ${raw}`);
    }
    const prepared = await tool.prepare(args);
    if (!prepared.ok) {
      const issues = prepared.issues.map(renderIssue).join("; ");
      return answers.failed("invalid_arguments", `the arguments do not fit: ${issues}`);
    }
    const gated = decided === null && decision === null && (await prepared.needsApproval(context));
    return gated ? { type: "waits" } : { type: "ready", prepared, args };
  } catch (error) {
    return answers.raised(error);
  }
}

/** Does anybody have a say in what becomes of the call? Without that it can be worked out again at any time. */
function isAsked<Context extends CallerContext>({ tool, plan, effect }: ToolJob<Context>): boolean {
  if (tool === null || !tool.hasHandler) return false;
  return plan.hooks.beforeTool !== undefined || (tool.needsApproval && effect.decision === null);
}

function storedOf<Context extends CallerContext>(ready: Ready<Context>): Json {
  return ready.type === "ready" ? { type: "ready", arguments: ready.args } : ready;
}
