// What a client says to calls that wait, given to the session: to the wait it was asked for, in the version of the session it was looked up in, and under
// a key, so that the same answer sent again is the same answer.

import type { Json, PendingToolCall } from "../../model/internal.ts";
import type { DurableOptions, Runtime, SessionView, TurnHandle } from "../../runtime/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { UiAnswer } from "./request.ts";

import { answersByReason, RuntimeError, SessionError } from "../../model/internal.ts";
import { approvalIdOf } from "./parts.ts";

/** How turns are run that begin with an answer. */
type AnswerOptions = Omit<DurableOptions, "key" | "version">;

/** An answer, as what is said to the session and under which key. */
export type Said = { readonly answer: UiAnswer; readonly key: string } & (
  | { readonly type: "decision"; readonly decision: DecisionInput }
  | { readonly type: "result"; readonly content: Json }
);

export function sayingOf(answer: UiAnswer, by: string | null): Said {
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

export function isOpenNow({ session }: SessionView, { toolCallId }: UiAnswer): boolean {
  return session.pendingToolCalls.some(({ id, decision }) => id === toolCallId && decision === null);
}

/** The call that an answer is for, if it waits as it did when the answer was asked for. */
export function waitOf({ session }: SessionView, answer: UiAnswer): PendingToolCall | null {
  const open = session.pendingToolCalls.filter(({ decision }) => decision === null);
  const call = open.find(({ id }) => id === answer.toolCallId) ?? null;
  const lastTurn = session.lastRun?.turnId ?? null;
  if (call === null) return null;
  const takes = answersByReason[call.reason];
  switch (answer.type) {
    case "decision":
      return takes.includes("approve") && approvalIdOf(lastTurn, call) === answer.approvalId ? call : null;
    case "result":
      return takes.includes("result") && answer.turnId === lastTurn && answer.toolName === call.name ? call : null;
  }
}

/** Gives an answer to the session as it is now, if the call still waits in it. */
export async function give(sessions: Runtime, chatId: string, said: Said, options: AnswerOptions): Promise<TurnHandle> {
  const view = await sessions.get(chatId, { messages: 0 });
  const call = view === null ? null : waitOf(view, said.answer);
  if (view !== null && call !== null) return tell(sessions, chatId, said, { ...options, version: view.version });
  // Somebody else was quicker: with the same answer, sent twice, or with another one.
  const repeated = await accepted(sessions, chatId, said, options);
  if (repeated !== null) return repeated;
  throw new RuntimeError("conflict", {
    message: `somebody else answered the call ${JSON.stringify(said.answer.toolCallId)} in this moment; load the chat again`,
  });
}

/** No session ever has it: whatever is said to it is refused, but for what was accepted before. */
const neverVersion = -1;

/** The turn that an answer was accepted with before; `null`: it was not. */
export async function accepted(
  sessions: Runtime,
  chatId: string,
  said: Said,
  options: AnswerOptions,
): Promise<TurnHandle | null> {
  try {
    return await tell(sessions, chatId, said, { ...options, version: neverVersion });
  } catch (error) {
    if (error instanceof RuntimeError && error.failure.metadata["wanted"] === neverVersion) return null;
    throw error;
  }
}

function tell(sessions: Runtime, chatId: string, said: Said, options: DurableOptions): Promise<TurnHandle> {
  const { toolCallId } = said.answer;
  const under = { ...options, key: said.key };
  switch (said.type) {
    case "decision":
      return sessions.decide(chatId, toolCallId, said.decision, under);
    case "result":
      return sessions.submitToolResults(chatId, [[toolCallId, said.content]], under);
  }
}

export function nobodyWaits(approvalId: string): SessionError {
  return new SessionError("no_pending_tool_call", {
    message: `nothing waits for the approval ${JSON.stringify(approvalId)}: it has been answered, or was for another wait; load the chat again`,
  });
}
