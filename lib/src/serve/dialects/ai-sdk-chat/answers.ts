// Submits a client's answers to pending calls: approvals, denials and tool results.
//
// Invariants
//   1. An answer counts only for the wait it was requested for: the approval id (or, for results, the turn id and tool
//      name) must match the pending call in the session.
//   2. Compare-and-swap: the answer is submitted for the session version in which the pending call was found. If
//      another client changed the session in between, the submission is a conflict.
//   3. The idempotency key follows from the wait, so an answer that is sent again returns the turn of the first one.
//   4. Arguments that differ from those that were shown are an edit by the user. The call runs with them, after they
//      were validated, or the answer is refused: an approval of edited arguments never runs others, and never counts as
//      a repetition of an approval of others.
//   5. The approval id carries the digest of what was shown. If the pending call has another one, the answer is refused
//      with what changed (A1).

import type { Json, PendingToolCall } from "../../../core/model/internal.ts";
import type { DecisionInput } from "../../../core/session/internal.ts";
import type { DurableOptions, SessionView, TurnHandle } from "../../../durable/internal.ts";
import type { CallerSessions } from "../../http/internal.ts";
import type { UiAnswer } from "./request.ts";

import { answersByReason, canonicalJson, isEdited, RuntimeError, SessionError } from "../../../core/model/internal.ts";
import { isPlainObject } from "../../../core/model/parse/reading.ts";
import { callChanged } from "../../../core/session/internal.ts";
import { invalid } from "../shared/foreign-fields.ts";
import { approvalIdOf, digestOfApproval, pendingInput } from "./parts.ts";

/** The options of a turn that an answer starts. */
type AnswerOptions = Omit<DurableOptions, "key" | "version">;

/** An answer in terms of the runtime, with its idempotency key. */
export type KeyedAnswer = { readonly answer: UiAnswer; readonly key: string } & (
  | { readonly type: "decision"; readonly decision: DecisionInput }
  | { readonly type: "result"; readonly content: Json }
);

/** Translates an answer. `by` is recorded with a decision. */
export function keyedAnswerOf(answer: UiAnswer, by: string | null): KeyedAnswer {
  switch (answer.type) {
    case "decision": {
      const { approvalId, approved, reason } = answer;
      const decision: DecisionInput = approved ? { type: "approve", by } : { type: "deny", reason, by };
      return { type: "decision", answer, decision, key: `ui-decision:${approvalId}` };
    }
    case "result": {
      const { turnId, toolCallId, content } = answer;
      return { type: "result", answer, content, key: `ui-result:${turnId ?? ""}:${toolCallId}` };
    }
  }
}

/** Whether a call of that id is pending and undecided, whatever wait it is. */
export function isCallOpen({ session }: SessionView, { toolCallId }: UiAnswer): boolean {
  return session.pendingToolCalls.some(({ id, decision }) => id === toolCallId && decision === null);
}

/**
 * The pending call that an answer is for; `null` if it is not pending, or not with the same wait as when the answer was
 * requested.
 */
export function pendingCallOf({ session }: SessionView, answer: UiAnswer): PendingToolCall | null {
  const openCalls = session.pendingToolCalls.filter(({ decision }) => decision === null);
  const call = openCalls.find(({ id }) => id === answer.toolCallId) ?? null;
  const lastTurn = session.lastRun?.turnId ?? null;
  if (call === null) return null;
  const allowedAnswers = answersByReason[call.reason];
  switch (answer.type) {
    case "decision":
      return allowedAnswers.includes("approve") && approvalIdOf(lastTurn, call) === answer.approvalId ? call : null;
    case "result":
      return allowedAnswers.includes("result") && answer.turnId === lastTurn && answer.toolName === call.name
        ? call
        : null;
  }
}

/**
 * Submits an answer to the current version of the session. Throws a conflict if the call was answered differently in
 * the meantime.
 */
export async function submitAnswer(
  sessions: CallerSessions,
  chatId: string,
  keyedAnswer: KeyedAnswer,
  options: AnswerOptions,
): Promise<TurnHandle> {
  const view = await sessions.get(chatId, { messages: 0 });
  if (view !== null && pendingCallOf(view, keyedAnswer.answer) !== null)
    return submit(sessions, chatId, keyedAnswer, { ...options, version: view.version });
  // The call was answered in the meantime: by the same answer sent twice, or by another one.
  const acceptedTurn = await acceptedBefore(sessions, chatId, keyedAnswer, options);
  if (acceptedTurn !== null) return acceptedTurn;
  throw answeredByAnother(keyedAnswer.answer);
}

function answeredByAnother({ toolCallId }: UiAnswer): RuntimeError {
  return new RuntimeError("conflict", {
    message: `the call ${JSON.stringify(toolCallId)} was answered by another request; load the chat again`,
  });
}

/** The answer with the arguments that the user edited. Throws if they are not an object. */
export function withEdit(keyedAnswer: KeyedAnswer, call: PendingToolCall): KeyedAnswer {
  const { answer } = keyedAnswer;
  if (answer.type !== "decision" || !answer.approved || answer.input === undefined) return keyedAnswer;
  const sent = canonicalJson(answer.input);
  // A client may send back the arguments of the part, or those of the call that was shown: they differ for a call of a
  // child agent.
  const areShown = [pendingInput(call) ?? call.rawArguments ?? {}, call.shown.arguments].some(
    (args) => canonicalJson(args) === sent,
  );
  return areShown ? keyedAnswer : withArguments(keyedAnswer, answer.input);
}

function withArguments(keyedAnswer: KeyedAnswer, args: Json): KeyedAnswer {
  if (keyedAnswer.type !== "decision" || keyedAnswer.decision.type !== "approve") return keyedAnswer;
  const id = JSON.stringify(keyedAnswer.answer.toolCallId);
  if (!isPlainObject(args)) throw invalid(["input"], `the edited arguments of the call ${id} must be an object`);
  return { ...keyedAnswer, decision: { ...keyedAnswer.decision, arguments: args } };
}

/** A version that no session has: a submission for it is rejected, unless its idempotency key was accepted before. */
const impossibleVersion = -1;

/**
 * The turn of an answer that was accepted before, found by its idempotency key; `null` if it was not. The call is not
 * pending any more, so the approval id says whether the arguments were edited. Throws a conflict if the call was
 * answered otherwise, also if it was approved with other arguments.
 */
export async function acceptedBefore(
  sessions: CallerSessions,
  chatId: string,
  keyedAnswer: KeyedAnswer,
  options: AnswerOptions,
): Promise<TurnHandle | null> {
  const { answer } = keyedAnswer;
  try {
    return await submit(sessions, chatId, asAccepted(keyedAnswer), { ...options, version: impossibleVersion });
  } catch (error) {
    if (!(error instanceof RuntimeError)) throw error;
    if (error.failure.metadata["wanted"] === impossibleVersion) return null;
    throw error.reason === "conflict" ? answeredByAnother(answer) : error;
  }
}

/** The answer as it would have been accepted: with the arguments, if they are not those that were shown. */
function asAccepted(keyedAnswer: KeyedAnswer): KeyedAnswer {
  const { answer } = keyedAnswer;
  if (answer.type !== "decision" || !answer.approved || answer.input === undefined) return keyedAnswer;
  const digest = digestOfApproval(answer.approvalId, answer.toolCallId);
  return digest !== null && isEdited(digest, answer.input) ? withArguments(keyedAnswer, answer.input) : keyedAnswer;
}

function submit(
  sessions: CallerSessions,
  chatId: string,
  keyedAnswer: KeyedAnswer,
  options: DurableOptions,
): Promise<TurnHandle> {
  const { toolCallId } = keyedAnswer.answer;
  const keyedOptions = { ...options, key: keyedAnswer.key };
  switch (keyedAnswer.type) {
    case "decision":
      return sessions.decide(chatId, toolCallId, keyedAnswer.decision, keyedOptions);
    case "result":
      return sessions.submitToolResults(chatId, [[toolCallId, keyedAnswer.content]], keyedOptions);
  }
}

/** The error for an approval whose wait does not exist (any more), or whose call has changed since it was shown. */
export function noPendingApproval(
  { session }: SessionView,
  { approvalId, toolCallId }: Extract<UiAnswer, { readonly type: "decision" }>,
): SessionError {
  const call = session.pendingToolCalls.find(({ id, decision }) => id === toolCallId && decision === null);
  const digest = digestOfApproval(approvalId, toolCallId);
  const changed = call === undefined || digest === null ? null : callChanged(call, digest);
  if (changed !== null) return changed;
  return new SessionError("no_pending_tool_call", {
    message: `no call is pending for the approval ${JSON.stringify(approvalId)}: it was answered, or belongs to an earlier wait; load the chat again`,
  });
}
