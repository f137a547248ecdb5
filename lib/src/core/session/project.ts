// Applies the result of a run or of a step to the session it was for: thread, status, pending calls, question, pending
// output, usage, last run.

import type { ChatOptions } from "../engine/internal.ts";
import type {
  CallerContext,
  ChatResult,
  Failure,
  JsonObject,
  LastRun,
  PendingToolCall,
  Session,
  SessionStatus,
  StepResult,
  TurnOutcome,
} from "../model/internal.ts";

import { checkRule, numberIn, runOptionTable, toJsonSchema } from "../engine/internal.ts";
import { outcomeOfText } from "../kernel/internal.ts";
import {
  addMessage,
  boundedSum,
  assistant,
  haltedReasonOf,
  replyText,
  newSession,
  sessionStatusOf,
  toolFailure,
} from "../model/internal.ts";
import { isOpen } from "./preconditions.ts";

/** Returns the session after a run with this result. */
export function applyChatResult<Context extends CallerContext>(
  session: Session<Context>,
  result: ChatResult,
): Session<Context> {
  const { outcome, thread, suspendedCell, usage } = result;
  const pendingToolCalls = pendingOf(result);
  const status = sessionStatusOf(outcome, { callsWait: pendingToolCalls.some(isOpen) });
  const lastRun: LastRun = {
    turnId: null,
    haltedReason: result.haltedReason,
    outcome,
    steps: result.steps.length,
    usage,
    budget: outcome.type === "budget" ? outcome.budget : null,
    metadata: result.metadata,
    partial: result.partial,
  };
  const { pendingQuestion, pendingToolCallId } = result;
  // A run that ended for another reason may still have left questions: the first of them becomes the question of the
  // session.
  const next = pendingQuestion === null && status !== "error" ? nextQuestion(pendingToolCalls) : null;
  const after = {
    ...session,
    thread,
    status,
    pendingToolCalls,
    suspendedCell,
    lastRun,
    pendingQuestion,
    pendingToolCallId,
    pendingOutput: isWait(status) || pendingToolCalls.length > 0 ? session.pendingOutput : null,
  };
  return {
    ...(next === null ? after : withQuestion(after, next)),
    usage: boundedSum(session.usage, usage),
    contextWindow: result.contextWindow,
    protocolEvents:
      result.protocolEvents.length === 0
        ? session.protocolEvents
        : [...session.protocolEvents, ...result.protocolEvents],
    metadata: withError(session.metadata, status, result.metadata.error),
  };
}

function isWait(status: SessionStatus): boolean {
  return status === "awaiting_user" || status === "awaiting_tools";
}

/**
 * Returns the session with the structured output that its next run asks for: `output` and `repair` of the call; without
 * an `output`, what the session has. If the run waits for an answer, the session keeps it. Throws `MisuseError` if the
 * schema cannot be converted to JSON Schema.
 */
export function withPendingOutput<Context extends CallerContext>(
  session: Session<Context>,
  { output, repair }: OutputOptions,
): Session<Context> {
  const { pendingOutput } = session;
  const schema = output === undefined ? (pendingOutput?.schema ?? null) : toJsonSchema(output, "output");
  if (schema === null) return session;
  if (repair !== undefined) checkRule("", ["repair"], repair, numberIn(runOptionTable.repair.number));
  const repairs = repair ?? pendingOutput?.repair ?? null;
  return { ...session, pendingOutput: { schema, repair: repairs } };
}

/** The options of a run about its structured output. */
export type OutputOptions = Pick<ChatOptions, "output" | "repair">;

/**
 * Returns the pending calls of a result. A result that only lists manual calls in its metadata has them pending too.
 */
function pendingOf({ pendingToolCalls, outcome, metadata, finalResponse }: ChatResult): readonly PendingToolCall[] {
  if (outcome.type !== "manual_tool_calls" || pendingToolCalls.length > 0) return pendingToolCalls;
  return newSession({ pendingToolCalls: metadata.manualToolCalls ?? finalResponse?.toolCalls ?? [] }).pendingToolCalls;
}

/** Returns the session after a single step with this result. A step that did not end changes nothing. */
export function applyStepResult<Context extends CallerContext>(
  session: Session<Context>,
  result: StepResult,
): Session<Context> {
  if (result.metadata.haltedReason === "cancelled") return session;
  const { metadata, thread, usage, pendingToolCalls, suspendedCell } = result;
  const status = statusOfStep(result);
  const asks = status === "awaiting_user";
  const next = nextQuestion(pendingToolCalls);
  const question = asks ? (metadata.pendingQuestion ?? next?.question ?? null) : null;
  const error = metadata.error ?? result.response.error ?? undefined;
  return {
    ...session,
    thread,
    status,
    pendingToolCalls,
    pendingQuestion: question,
    pendingToolCallId: asks ? (metadata.pendingToolCallId ?? next?.id ?? null) : null,
    suspendedCell,
    // A run of single steps still has to produce its output after a step that does not end it.
    pendingOutput: isWait(status) || status === "idle" ? session.pendingOutput : null,
    usage: boundedSum(session.usage, usage),
    lastRun: lastStep(result, status, error ?? null),
    metadata: withError(session.metadata, status, error),
  };
}

function lastStep(result: StepResult, status: SessionStatus, error: Failure | null): LastRun {
  const outcome = outcomeOfStep(result, status, error);
  const { haltedReason: _, mode: __, ...metadata } = result.metadata;
  const fixedFields = { turnId: null, steps: 1, usage: result.usage, budget: null, partial: null };
  return { ...fixedFields, haltedReason: haltedReasonOf(outcome), outcome, metadata };
}

/** Returns the outcome of a turn that consists of this one step. */
function outcomeOfStep(
  { metadata, response, done }: StepResult,
  status: SessionStatus,
  error: Failure | null,
): TurnOutcome {
  const { haltedReason, haltToolCallId: toolCallId = null, pendingQuestion, pendingToolCallId } = metadata;
  if (status === "awaiting_user") {
    return { type: "ask_user", question: pendingQuestion ?? "", toolCallId: pendingToolCallId ?? "" };
  }
  if (status === "awaiting_tools") return { type: "manual_tool_calls" };
  if (error?.type === "tool_error")
    return { type: "tool_error", toolName: error.toolName ?? "", toolCallId, failure: error };
  if (error !== null) return { type: "provider_error", failure: error };
  if (haltedReason !== undefined && haltedReason !== "completed") {
    return { type: "halted", reason: haltedReason, toolCallId: toolCallId ?? "", value: metadata.haltResult ?? null };
  }
  return done ? outcomeOfText(response, replyText(response) ?? "") : { type: "stop_after" };
}

function statusOfStep({ metadata, response, pendingToolCalls, done }: StepResult): SessionStatus {
  if (metadata.haltedReason === "ask_user") return "awaiting_user";
  if (metadata.haltedReason === "tool_error") return "error";
  if (nextQuestion(pendingToolCalls) !== null) return "awaiting_user";
  if (pendingToolCalls.some(isOpen)) return "awaiting_tools";
  if (response.finishReason === "error" || metadata.error !== undefined) return "error";
  return done ? "completed" : "idle";
}

/** Returns the metadata with `error` set in the status `error`, and without it otherwise. */
function withError(metadata: JsonObject, status: SessionStatus, error: Failure | undefined): JsonObject {
  const { error: _, ...otherKeys } = metadata;
  if (status !== "error") return otherKeys;
  return { ...otherKeys, error: { ...(error ?? toolFailure("handler_failed")) } };
}

/**
 * Returns the session waiting for the answer to the question of this call. The question is added to the thread as an
 * assistant message.
 */
export function withQuestion<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
): Session<Context> {
  const { id: pendingToolCallId, question: pendingQuestion } = call;
  const message = assistant(pendingQuestion ?? "", { metadata: { askUser: true, toolCallId: pendingToolCallId } });
  const thread = addMessage(session.thread, message);
  return { ...session, thread, status: "awaiting_user", pendingQuestion, pendingToolCallId };
}

/** Returns the first pending question without an answer, or `null`. */
export function nextQuestion(calls: readonly PendingToolCall[]): PendingToolCall | null {
  return calls.find((call) => call.reason === "question" && isOpen(call)) ?? null;
}
