// What each response does to a turn; transitions.ts says in which phase. The responses to calls of tools and cells are in batch.ts.

import type { AssistantMessage, Failure, Message, ModelReply } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type {
  CheckpointDelivered,
  CheckpointDelivery,
  CodeFailed,
  CodeFinished,
  EnvironmentFailed,
  EnvironmentSynced,
  ModelFailed,
  ModelReplied,
} from "./effect.ts";
import type { Turn } from "./turn.ts";
import type { Work } from "./work.ts";

import { adapterFailure, assistant, modelReply, replyText, runtimeFailure } from "../../model/internal.ts";
import { renderPrompt } from "../history/prompt.ts";
import { ending, outcomeOfText } from "../protocol/ending.ts";
import { isTurnLimitDue } from "../protocol/protocol.ts";
import { replyMessage, replyStepEnd, storableReply } from "../protocol/reply-message.ts";
import { terminalReasonOf } from "../protocol/terminal-reason.ts";
import { applyActions, finish } from "./actions.ts";
import { leaveCell } from "./batch.ts";
import { environmentFields } from "./environment.ts";
import { llmDebug, llmError } from "./log.ts";
import { prepare } from "./prepare.ts";
import { isLastCheckpoint } from "./turn.ts";

export function syncEnvironment<P extends TurnProtocol>(work: Work<P>, { environment }: EnvironmentSynced): void {
  const { phase, step } = work.turn;
  // What a turn starts with was pinned at its start: only a later sync may replace it.
  if (environment !== null && phase.type === "awaiting_environment" && phase.update) {
    work.update(environmentFields(environment));
  }
  work.update({ syncedStep: step });
  prepare(work);
}

export function syncFailed<P extends TurnProtocol>(work: Work<P>, response: EnvironmentFailed): void {
  const message = `Failed to refresh execution environment: ${response.message}`;
  work.fail({ type: "runtime_error", failure: runtimeFailure("reconfigure_failed", { message }) });
}

export function modelReplied<P extends TurnProtocol>(
  work: Work<P>,
  { reply: given, model, requestBody, spent }: ModelReplied,
): void {
  const reply = storableReply(given);
  const { phase, finalize, policy, step } = work.turn;
  if (!work.spend(spent) || !work.spend(reply.usage)) return;
  if (model !== null) work.update(environmentFields({ ...work.turn.environment, model }));
  work.log(llmDebug({ sessionId: work.config.sessionId, protocolIteration: step, requestBody }, reply));
  const reason = terminalReasonOf(reply, policy.maxContextTokens);
  if (reason === "provider_error") {
    const failure = reply.error ?? adapterFailure("unknown", { message: "the model call ended in an error" });
    return broken(work, reply, failure);
  }
  if (reason === "context_overflow") {
    const message = "Model produced no output because the prompt reached the configured context window.";
    return broken(work, reply, adapterFailure("context_length_exceeded", { message }));
  }
  if (finalize !== null) return finalized(work, reply, finalize);
  const driverState = phase.type === "awaiting_model" ? phase.driverState : null;
  work.update({ openReply: reply });
  applyActions(work, work.config.protocolDriver.handleLlmSuccess(work.view, reply, driverState));
}

export function modelFailed<P extends TurnProtocol>(work: Work<P>, { error, spent }: ModelFailed): void {
  const { failure, partial, requestBody, terminalReason } = error;
  const { step } = work.turn;
  const heard = partial === null ? modelReply() : storableReply(partial);
  if (!work.spend(spent) || !work.spend(heard.usage)) return;
  const reply: ModelReply = { ...heard, finishReason: "error", error: failure, toolCalls: [] };
  const where = { sessionId: work.config.sessionId, protocolIteration: step, requestBody };
  work.log(llmError(where, failure, terminalReason));
  if (terminalReason !== "cancelled") return broken(work, reply, failure);
  keepPartial(work, reply);
  const requestId = `internal:provider-cancelled:${step}`;
  work.end(ending({ type: "cancelled", evidence: { requestId, origin: "provider", reason: failure.message } }));
}

/** A reply that came to nothing: what was said of it stays, its calls are never run. */
function broken<P extends TurnProtocol>(work: Work<P>, reply: ModelReply, failure: Failure): void {
  const { finalize } = work.turn;
  work.emit({ type: "error", error: failure });
  if (finalize !== null) return work.end({ ...finalize.pass1, pass2Error: failure });
  keepPartial(work, reply);
  work.endStep(replyStepEnd({ ...reply, finishReason: "error", error: failure, toolCalls: [] }));
  work.end(ending({ type: "provider_error", failure }));
}

function keepPartial<P extends TurnProtocol>(work: Work<P>, reply: ModelReply): void {
  const { turnId, step, finalize } = work.turn;
  const text = replyText(reply) ?? "";
  if (text.trim() === "" || finalize !== null) return;
  const said: AssistantMessage = assistant(text, {
    id: `${turnId}/${step}/reply`,
    finishReason: reply.finishReason,
  });
  work.append([said]);
}

/** The structured reply is there: it and the nudge that asked for it enter history together. */
function finalized<P extends TurnProtocol>(
  work: Work<P>,
  reply: ModelReply,
  { nudge }: NonNullable<Turn["finalize"]>,
): void {
  const text = replyText(reply) ?? "";
  const said = replyMessage({ ...reply, toolCalls: [] }, `${work.turn.turnId}/${work.turn.step}/structured`);
  work.append([...(nudge === null ? [] : [nudge]), said]);
  work.endStep(replyStepEnd(reply));
  work.end(ending(outcomeOfText(reply, text)));
}

export function codeEnded<P extends TurnProtocol>(work: Work<P>, result: CodeFinished | CodeFailed): void {
  const { phase } = work.turn;
  if (phase.type !== "awaiting_code") return;
  const { calls, driverState } = phase.cell;
  leaveCell(work, phase.cell);
  applyActions(work, work.config.protocolDriver.handleExecResult(work.view, result, calls, driverState));
}

export function deliverCheckpoint<P extends TurnProtocol>(
  work: Work<P>,
  { verdict, delivery }: CheckpointDelivered,
): void {
  const { phase } = work.turn;
  if (phase.type !== "awaiting_checkpoint") return;
  if (verdict.type === "halt_when") return finish(work, ending({ type: "halt_when" }));
  if (verdict.type === "budget") return finish(work, ending({ type: "budget", budget: verdict.budget }));
  if (isLastCheckpoint(work.turn) || !deliver(work, delivery, phase.checkpoint)) {
    return phase.onEmpty.type === "finish" ? finish(work, phase.onEmpty.ending) : prepare(work);
  }
  if (phase.checkpoint === "before_completion") {
    work.nextStep(0);
    if (isTurnLimitDue(work.turn)) work.grantGraceTurn();
  }
  prepare(work);
}

/** Adds what a host delivered; false when, after what may not be delivered is left out, there was nothing. */
function deliver<P extends TurnProtocol>(
  work: Work<P>,
  { messages, transientMessages, turnCauses }: CheckpointDelivery,
  at: string,
): boolean {
  const allowed = messages.filter(mayBeDelivered);
  const passing = transientMessages.filter(mayBeDelivered);
  work.addInput(allowed, `${work.turn.step}/${at}`);
  work.show(passing);
  return work.addCauses(turnCauses) || allowed.length > 0 || passing.length > 0;
}

/** Hosts speak for users and for the runtime, not for the model; and what a model would not get to see is nothing. */
function mayBeDelivered(message: Message): boolean {
  return (message.role === "user" || message.role === "system") && renderPrompt([message]).length > 0;
}
