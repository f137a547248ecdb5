// Submits a client's answers to pending calls: approvals, denials and tool results.
//
// Invariants
//   1. An answer counts only for the wait it was requested for: the approval id (or, for results, the turn id and tool
//      name) must match the pending call in the session.
//   2. Compare-and-swap: the answer is submitted for the session version in which the pending call was found. If
//      another client changed the session in between, the submission is a conflict.
//   3. The idempotency key follows from the wait, so an answer that is sent again returns the turn of the first one.
//   4. Arguments that differ from those that were shown are an edit by the user. The call runs with them, after they
//      were validated.
//   5. The approval id carries the digest of what was shown. If the pending call has another one, the answer is refused
//      with what changed (A1).

import type { Json, JsonObject, PendingToolCall } from "../../../core/model/internal.ts";
import type { DecisionInput } from "../../../core/session/internal.ts";
import type { DurableOptions, SessionView, TurnHandle } from "../../../durable/internal.ts";
import type { CallerSessions } from "../../http/internal.ts";
import type { UiAnswer } from "./request.ts";

import { answersByReason, canonicalJson, RuntimeError, SessionError } from "../../../core/model/internal.ts";
import { callChanged } from "../../../core/session/internal.ts";
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
  const call = view === null ? null : pendingCallOf(view, keyedAnswer.answer);
  if (view !== null && call !== null)
    return submit(sessions, chatId, withEdit(keyedAnswer, call), { ...options, version: view.version });
  // The call was answered in the meantime: by the same answer sent twice, or by another one.
  const acceptedTurn = await acceptedBefore(sessions, chatId, keyedAnswer, options);
  if (acceptedTurn !== null) return acceptedTurn;
  throw new RuntimeError("conflict", {
    message: `the call ${JSON.stringify(keyedAnswer.answer.toolCallId)} was answered by another request; load the chat again`,
  });
}

/** The answer with the arguments that the user edited. */
function withEdit(keyedAnswer: KeyedAnswer, call: PendingToolCall): KeyedAnswer {
  const { answer } = keyedAnswer;
  if (answer.type !== "decision" || answer.input === null) return keyedAnswer;
  const sent = canonicalJson(answer.input);
  // A client may send back the arguments of the part, or those of the call that was shown: they differ for a call of a
  // child agent.
  const isEdited = [pendingInput(call) ?? call.rawArguments ?? {}, call.shown.arguments].every(
    (args) => canonicalJson(args) !== sent,
  );
  return isEdited ? withArguments(keyedAnswer, answer.input) : keyedAnswer;
}

function withArguments(keyedAnswer: KeyedAnswer, args: JsonObject): KeyedAnswer {
  return keyedAnswer.type === "decision" && keyedAnswer.decision.type === "approve"
    ? { ...keyedAnswer, decision: { ...keyedAnswer.decision, arguments: args } }
    : keyedAnswer;
}

/** A version that no session has: a submission for it is rejected, unless its idempotency key was accepted before. */
const impossibleVersion = -1;

/**
 * The turn of an answer that was accepted before, found by its idempotency key; `null` if it was not. The call is not
 * pending any more, so whether the accepted answer had edited arguments is found out by trying: a key that is repeated
 * with other arguments is a conflict.
 */
export async function acceptedBefore(
  sessions: CallerSessions,
  chatId: string,
  keyedAnswer: KeyedAnswer,
  options: AnswerOptions,
): Promise<TurnHandle | null> {
  const { answer } = keyedAnswer;
  const input = answer.type === "decision" && answer.approved ? answer.input : null;
  const variants = input === null ? [keyedAnswer] : [withArguments(keyedAnswer, input), keyedAnswer];
  let conflict: unknown = null;
  for (const variant of variants) {
    try {
      return await submit(sessions, chatId, variant, { ...options, version: impossibleVersion });
    } catch (error) {
      if (!(error instanceof RuntimeError)) throw error;
      if (error.failure.metadata["wanted"] === impossibleVersion) return null;
      conflict = error;
    }
  }
  throw conflict;
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
