// The performer of `call_tool`: runs one tool call to a response.
//
// Stages
//   1. recover   read the records of the call: a start mark without a result is answered by the replay policy
//                (start-mark.ts)
//   2. prepare   find the tool, run the `beforeTool` hook, validate the arguments, ask the approval gate
//                (prepare-tool.ts); recorded as `prepared`
//   3. run       acquire a permit, commit the start mark, run the handler through the middleware of the engine, with a
//                time limit and retries (run-tool.ts)
//   4. settle    run the `afterTool` hook and `onToolError`, encode the content for the model (tool-answer.ts)
//
// Execution guarantees, by the replay policy of the tool:
//   safe    at-least-once: a call without a recorded result runs again, with the same idempotency key
//   never   at-most-once: a call with a start mark and without a result is answered `outcome_unknown` and not run again
//   ask     at-most-once without a person: such a call waits for a decision
// Exactly-once needs the tool's help: it deduplicates by the idempotency key. A recorded result is never computed again
// (H1).
//
// Crash points (durable scope)
//   before `prepared`                  hook and gate run again
//   after `prepared`, before the mark  hook and gate do not run again; the handler runs
//   after the mark, before the result is committed  the replay policy decides: the handler may have run in part,
//                                                   completely, or not at all
//
// After a cancel, the result of a handler that has started is settled within the cancel grace (cancel-grace.ts). Every
// other call gets no response.
//
// Everything wrong with a call, and everything a handler returns or throws, becomes a response. The promise rejects
// only if a record cannot be written or the lease is lost.

import type { CallTool, ToolReturned, ToolWaits } from "../../kernel/internal.ts";
import type { CallerContext, JsonObject, ShownCall, ToolMessage } from "../../model/internal.ts";
import type { Plan } from "../plan/plan.ts";
import type { Prepared } from "./prepare-tool.ts";
import type { Answer } from "./tool-answer.ts";
import type { InnerWait, ToolPorts } from "./tool-job.ts";

import { toolReturned, toolWaits } from "../../kernel/internal.ts";
import { decidedArguments, textPart, truncateMiddle } from "../../model/internal.ts";
import { cutContent } from "./encode-result.ts";
import { isApproved, prepareTool, recallPrepared } from "./prepare-tool.ts";
import { attemptName } from "./records.ts";
import { ToolRun } from "./run-tool.ts";
import { isSameJson, replayPolicyOfStart, startRecordName } from "./start-mark.ts";
import { ToolAnswers } from "./tool-answer.ts";
import { innerHints, ToolJob } from "./tool-job.ts";

/** Runs a tool call and returns its result, or what it waits for. */
export async function performTool<Context extends CallerContext>(
  plan: Plan<Context>,
  ports: ToolPorts,
  effect: CallTool,
): Promise<ToolReturned | ToolWaits> {
  const startedAt = plan.clock.now();
  const { id, call } = effect;
  const job = new ToolJob(plan, ports, effect);
  const answers = new ToolAnswers(job);
  const isStructured = job.tool?.providerTool !== undefined;
  const response = await run();
  if (!ports.grace.isCancelled || isAnswerAfterCancel(response)) return response;
  // The call has no response: the cancel answers it.
  ports.grace.end(id);
  return new Promise(() => undefined);

  async function run(): Promise<ToolReturned | ToolWaits> {
    try {
      const recordedPreparation = recallPrepared(job);
      const args = expectedArguments(effect, recordedPreparation);
      const replayPolicy =
        args === null ? null : replayPolicyOfStart(ports.scope.find(id, startRecordName), call.name, args);
      if (replayPolicy === "ask" || replayPolicy === "never") {
        await traceLostAttempt(args ?? {});
        if (replayPolicy === "never") return returned(answers.outcomeUnknown(), args);
        return toolWaits(id, "outcome_unknown", { shown: shownCall(args) });
      }
      const preparation = await prepareTool(job, answers, recordedPreparation);
      if (preparation.type === "waits")
        return toolWaits(id, "approval", { shown: shownCall(preparation.arguments ?? call.arguments) });
      if (preparation.type !== "ready") return returned(await answers.settle(preparation, job), null);
      const running = new ToolRun(job, answers, preparation.prepared, preparation.args).run();
      // A handler that runs a turn inside ends here as soon as that turn has to wait, whether or not the handler
      // returns. A handler that asked waits too.
      const result = await Promise.race([running, job.waiting]);
      if (job.inner !== null) {
        await job.waiting;
        return waiting(job.inner, preparation.args);
      }
      const answer = await answers.settle(result ?? (await running), job);
      return returned(answer, job.changedArguments ?? preparation.args);
    } finally {
      job.end();
    }
  }

  /**
   * The span of an attempt that an earlier process started and did not record. Spans inside it may have ended there,
   * and need their parent.
   */
  async function traceLostAttempt(args: JsonObject): Promise<void> {
    while (ports.scope.find(id, attemptName(job.attempt)) !== null) job.attempt += 1;
    const span = job.startSpan(args);
    for (const key of await ports.openChildren(job.attempt)) ports.spans.lostChild(key, span);
    span.stop({ error: "outcome_unknown" });
  }

  /**
   * Within the cancel grace: is the response settled? Only the result of a handler that has started is. The error of an
   * aborted handler is no result, and nothing may start to wait for a person in a turn that is being cancelled.
   */
  function isAnswerAfterCancel(answer: ToolReturned | ToolWaits): boolean {
    if (answer.type !== "tool_returned" || answer.outcome.type === "ask_user") return false;
    return ports.grace.hasStarted(id) && !job.isStopped;
  }

  /**
   * The response of a call whose inner turn waits. The handler is aborted; the arguments it ran with are kept in
   * `opts.inner.ran` for its next run.
   */
  function waiting({ reason, question, opts, path, shown: inner }: InnerWait, ran: JsonObject): ToolWaits {
    job.stop.abort(new DOMException("this call waits for input", "AbortError"));
    const hints = innerHints(opts);
    const storedHints = {
      ...hints,
      ...(isSameJson(ran, call.arguments) ? {} : { ran }),
      ...(isApproved(job) ? { approved: true } : {}),
    };
    const shown = inner === null ? shownCall(ran) : { ...inner, parents: [call.name, ...inner.parents] };
    return toolWaits(id, reason, { question, path, opts: { ...opts, inner: storedHints }, shown, spent: job.spent });
  }

  /** What runs if the call itself is approved. */
  function shownCall(args: JsonObject | null): ShownCall {
    return { name: call.name, arguments: args, parents: [], replay: job.tool?.replay ?? null };
  }

  function returned({ outcome, content, stops }: Answer, ranWith: JsonObject | null): ToolReturned {
    return toolReturned(id, outcome, {
      content: withEditNote(effect, cutContent(content, plan.limits.maxToolResultLength, isStructured)),
      // A cancelled turn ends as cancelled: a failure that the abort may have caused does not halt it.
      stops: stops && !ports.grace.isCancelled,
      ranArguments: ranWith !== null && !isSameJson(ranWith, call.arguments) ? ranWith : null,
      spent: job.spent,
      durationMs: plan.clock.now() - startedAt,
      ...job.middleware?.noted,
    });
  }
}

/**
 * The content of a result, preceded by the arguments that a person changed when the call was approved: the history
 * keeps the call as the model made it, so without the note the model would take the result for that of its own
 * arguments. Arguments that a hook replaced are not shown to the model. The metadata of the note lets user interfaces
 * recognise it.
 */
function withEditNote({ call, decision }: CallTool, content: ToolMessage["content"]): ToolMessage["content"] {
  const edited = decision?.type === "approve" ? decision.arguments : null;
  if (edited === null || isSameJson(edited, call.arguments)) return content;
  const text = truncateMiddle(JSON.stringify(edited), maxEditNoteLength);
  const note = textPart(`[The call was approved with changed arguments: ${text}]\n`, {
    metadata: { approvedArguments: edited },
  });
  return [note, ...(typeof content === "string" ? [textPart(content)] : content)];
}

const maxEditNoteLength = 4000;

/**
 * The arguments a call would run with, before hooks and the gate are asked; `null`: by its recorded preparation it does
 * not run.
 */
function expectedArguments({ call, decision }: CallTool, recorded: Prepared | null): JsonObject | null {
  if (recorded === null) return decidedArguments(call, decision);
  return recorded.type === "ready" ? recorded.arguments : null;
}
