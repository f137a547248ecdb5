// Applies each response to a turn: environment, model and checkpoint. transitions.ts maps phase and response type to
// these functions; responses to tool calls are in batch.ts, those of code cells in cells.ts.
//
// Order inside a response: usage is added first (an overflow ends the turn), then the trace is logged, then the
// protocol decides. So the cost of a reply is recorded even if the protocol rejects the reply.

import type { AssistantMessage, CancelEvidence, Failure, ModelReply } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";
import type {
  CheckpointDelivered,
  EnvironmentFailed,
  EnvironmentSynced,
  ModelFailed,
  ModelReplied,
} from "./response.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { Turn } from "./turn.ts";

import {
  adapterFailure,
  assistant,
  eventMessage,
  messageText,
  replyOf,
  replyText,
  runtimeFailure,
} from "../../model/internal.ts";
import { ending, outcomeOfText } from "../protocol/ending.ts";
import { isTurnLimitDue } from "../protocol/protocol.ts";
import { replyMessage, replyStepEnd, storableReply } from "../protocol/reply-message.ts";
import { terminalReasonOf } from "../protocol/terminal-reason.ts";
import { withUniqueCallIds } from "../protocol/unique-calls.ts";
import { applyActions, finish } from "./actions.ts";
import { countRequest, repeatShorter } from "./context.ts";
import { deliver } from "./deliver.ts";
import { environmentFields, withoutForcedChoice } from "./environment.ts";
import { llmDebug, llmError } from "./log.ts";
import { prepare } from "./prepare.ts";
import { isLastCheckpoint } from "./turn.ts";

/** `environment_synced`: replaces the environment if the response has one, then starts the step. */
export function syncEnvironment<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { environment }: EnvironmentSynced,
): void {
  const { phase, step, revision } = builder.turn;
  // Under revision 1 the first sync could not replace the environment that the turn starts with.
  const mayReplace = revision > 1 || (phase.type === "awaiting_environment" && phase.update);
  if (environment !== null && mayReplace) {
    builder.update(environmentFields(environment));
  }
  builder.update({ syncedStep: step });
  prepare(builder);
}

/** `environment_failed`: ends the turn. */
export function syncFailed<P extends TurnProtocol>(builder: TransitionBuilder<P>, response: EnvironmentFailed): void {
  const message = `Failed to refresh execution environment: ${response.message}`;
  builder.fail(runtimeFailure("reconfigure_failed", { message }));
}

/**
 * `model_replied`: a reply with an error, or one that only shows that the prompt filled the context window, ends the
 * turn; the reply of the structured call completes it; any other reply goes to the protocol.
 */
export function modelReplied<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { reply: receivedReply, model, requestBody, spent }: ModelReplied,
): void {
  const { phase, finalize, policy, step, revision } = builder.turn;
  const storable = storableReply(receivedReply);
  const reply = revision > 2 ? withUniqueCallIds(storable) : storable;
  if (!builder.spend(spent) || !builder.spend(reply.usage)) return;
  if (model !== null) builder.update(environmentFields({ ...builder.turn.environment, model }));
  const { emitLlmTrace, sessionId } = builder.config;
  if (emitLlmTrace) builder.log(llmDebug({ sessionId, protocolIteration: step, requestBody }, reply));
  const reason = terminalReasonOf(reply, policy.maxContextTokens);
  if (isTooLong(reason, reply.error) && repeatShorter(builder)) return;
  if (reason === "provider_error") {
    const failure = reply.error ?? adapterFailure("unknown", { message: "the model call ended in an error" });
    return endWithFailure(builder, reply, failure);
  }
  if (reason === "context_overflow") {
    const message = "Model produced no output because the prompt reached the configured context window.";
    return endWithFailure(builder, reply, adapterFailure("context_length_exceeded", { message }));
  }
  countRequest(builder, reply);
  if (finalize !== null) return finalized(builder, reply, finalize);
  if (revision > 2) {
    const { environment } = builder.turn;
    const released = withoutForcedChoice(environment);
    if (released !== environment) builder.update(environmentFields(released));
  }
  const driverState = phase.type === "awaiting_model" ? phase.driverState : null;
  builder.update({ openReply: reply });
  applyActions(builder, builder.config.protocolDriver.handleLlmSuccess(builder.view, reply, driverState));
}

/**
 * `model_failed`: ends the turn, as failed or, if the call was stopped on purpose, as cancelled. The text that arrived
 * stays in the history.
 */
export function modelFailed<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { error, spent }: ModelFailed,
): void {
  const { failure, partial, requestBody, terminalReason } = error;
  const { step } = builder.turn;
  const partialReply = partial === null ? replyOf({}) : storableReply(partial);
  if (!builder.spend(spent) || !builder.spend(partialReply.usage)) return;
  const reply: ModelReply = { ...partialReply, finishReason: "error", error: failure, toolCalls: [] };
  const identity = { sessionId: builder.config.sessionId, protocolIteration: step, requestBody };
  builder.log(llmError(identity, failure, terminalReason));
  if (isTooLong(terminalReason, failure) && repeatShorter(builder)) return;
  if (terminalReason !== "cancelled") return endWithFailure(builder, reply, failure);
  keepPartial(builder, reply);
  const requestId = `internal:provider-cancelled:${step}`;
  builder.end(ending({ type: "cancelled", evidence: { requestId, origin: "provider", reason: failure.message } }));
}

/** Did the call fail because its request has more tokens than the model accepts? */
function isTooLong(reason: LlmTerminalReason, failure: Failure | null): boolean {
  if (reason === "context_overflow") return true;
  return reason !== "cancelled" && failure?.type === "adapter_error" && failure.reason === "context_length_exceeded";
}

/**
 * Ends a turn whose model call failed. The text of the reply stays in the history; its calls are dropped and never run.
 * If the structured call failed, the turn ends as the loop did, and `pass2Error` holds the failure.
 */
function endWithFailure<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  reply: ModelReply,
  failure: Failure,
): void {
  const { finalize } = builder.turn;
  builder.emit({ type: "error", error: failure });
  if (finalize !== null) return builder.end({ ...finalize.pass1, pass2Error: failure });
  keepPartial(builder, reply);
  builder.endStep(replyStepEnd({ ...reply, finishReason: "error", error: failure, toolCalls: [] }));
  builder.end(ending({ type: "provider_error", failure }));
}

/** Appends the text of an incomplete reply to the history, unless it is blank or belongs to the structured call. */
function keepPartial<P extends TurnProtocol>(builder: TransitionBuilder<P>, reply: ModelReply): void {
  const { turnId, step, finalize } = builder.turn;
  const text = replyText(reply) ?? "";
  if (text.trim() === "" || finalize !== null) return;
  const message: AssistantMessage = assistant(text, {
    id: `${turnId}/${step}/reply`,
    finishReason: reply.finishReason,
  });
  builder.append([message]);
}

/**
 * Completes the turn with the structured reply. The nudge and the reply enter the history together or not at all (Q13).
 * The nudge is a user message, as the model read it; under revisions 1 and 2 the history kept it as an event.
 */
function finalized<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  reply: ModelReply,
  { nudge }: NonNullable<Turn["finalize"]>,
): void {
  const text = replyText(reply) ?? "";
  const { turnId, step, revision } = builder.turn;
  const message = replyMessage({ ...reply, toolCalls: [] }, `${turnId}/${step}/structured`);
  const nudges = nudge === null ? [] : [revision > 2 ? nudge : eventMessage(messageText(nudge), { id: nudge.id })];
  builder.append([...nudges, message]);
  builder.endStep(replyStepEnd(reply));
  builder.end(ending(outcomeOfText(reply, text)));
}

/**
 * `checkpoint_delivered`: the verdict comes first, then the input (Q11). Without input the turn does what the protocol
 * chose for an empty checkpoint. Input at `before_completion` starts another step; if that step exceeds `maxTurns`, it
 * is the grace turn. Input at `before_turn` of a turn that resumes calls is held until they are answered: a message
 * between a call and its result would make the history invalid (S2).
 */
export function deliverCheckpoint<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { verdict, delivery }: CheckpointDelivered,
): void {
  const { phase } = builder.turn;
  if (phase.type !== "awaiting_checkpoint") return;
  if (verdict.type === "halt_when") return finish(builder, ending({ type: "halt_when" }));
  if (verdict.type === "budget") return finish(builder, ending({ type: "budget", budget: verdict.budget }));
  if (verdict.type === "abort") return abort(builder, verdict.evidence);
  if (phase.checkpoint === "before_turn" && resumesWork(builder.turn)) {
    builder.update({ deferredInput: delivery });
    return prepare(builder);
  }
  if (isLastCheckpoint(builder.turn) || !deliver(builder, delivery, phase.checkpoint)) {
    return phase.onEmpty.type === "finish" ? finish(builder, phase.onEmpty.ending) : prepare(builder);
  }
  if (phase.checkpoint === "before_completion") {
    builder.nextStep(0);
    if (isTurnLimitDue(builder.turn)) builder.grantGraceTurn();
  }
  prepare(builder);
}

/**
 * Ends the turn as cancelled, because a hook of the program aborts it. Approved calls that have not run are answered as
 * cancelled.
 */
function abort<P extends TurnProtocol>(builder: TransitionBuilder<P>, evidence: CancelEvidence): void {
  const pendingToolCalls = builder.breakOff(evidence.reason ?? "the turn was aborted");
  builder.end({ ...ending({ type: "cancelled", evidence }), pendingToolCalls });
}

/** Does the turn begin with approved calls or a suspended cell? */
function resumesWork<P extends TurnProtocol>({ approved, resumes }: Turn<P>): boolean {
  return approved.length > 0 || resumes !== null;
}
