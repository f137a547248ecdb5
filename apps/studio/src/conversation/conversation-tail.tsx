// The end of a conversation: what the turn does now, why it failed, and what the reader can do next.

import type { Failure } from "everturn";
import type { ReactNode } from "react";

import { messageText } from "everturn";
import { sessionError } from "everturn/advanced";

import { useConnection } from "../data/connection.tsx";
import { refreshSession } from "../data/session-feed.ts";
import { count } from "../parts/format.ts";
import { Button } from "../shell/button.tsx";
import { attempt, notify } from "../shell/toasts.tsx";
import { FailureCard } from "./failure-card.tsx";
import { MessageContent } from "./message-content.tsx";
import { PendingCard } from "./pending-form.tsx";
import { waitingCallsOf } from "./session-store.ts";
import { useConversation } from "./use-conversation.ts";

export function ConversationTail(): ReactNode {
  const state = useConversation();
  const { client } = useConnection();
  const { head, turn, sessionId } = state;
  if (head === null) return null;
  const { openTurn, session, queuedTurns } = head;
  const act = (run: () => Promise<unknown>): void =>
    attempt(async () => {
      await run();
      refreshSession(client, sessionId);
    });
  const recover = (from: "step" | null): void =>
    act(async () => {
      const { mayRunTwice } = await client.recover(sessionId, from === null ? {} : { from });
      if (mayRunTwice.length > 0) notify(`May run twice: ${mayRunTwice.join(", ")}`);
    });
  const retry = (): void =>
    act(async () => {
      await client.recover(sessionId);
      await client.continue(sessionId);
    });
  const failure: Failure | null = openTurn?.status === "parked" ? openTurn.failure : sessionError(session);
  const isParked = openTurn?.status === "parked";
  const stop = stopText(state);
  const outside = waitingCallsOf(state).filter(({ isLast }) => !isLast);
  return (
    <div className="tail">
      {outside.map(({ pending }) => (
        <PendingCard key={pending.id} pending={pending} hasQuestion={!isLastText(state, pending.question)} />
      ))}
      {state.steered.map(({ message, isSent, startsTurn }, index) => (
        <article
          key={index}
          className="msg user steered"
          aria-label={startsTurn ? "Message that is being sent" : "Message that waits for the next step"}
        >
          <div className="who">user</div>
          <div className="msg-body">
            <MessageContent message={message} />
            <p className="muted">
              {!isSent ? "Sending…" : startsTurn ? "Sent." : "Sent. The turn reads it before its next step."}
            </p>
          </div>
        </article>
      ))}
      {turn !== null && turn.open === null && !turn.hasEnded && !isParked && (
        <p className="working" role="status">
          <span className="caret" aria-hidden="true" />
          {openTurn?.status === "queued"
            ? openTurn.limitWait === null
              ? "Queued"
              : `Queued: the ${openTurn.limitWait.limit} limit is reached`
            : turn.compaction.running === null
              ? "Working"
              : summarizingText(turn.compaction.running)}
        </p>
      )}
      {turn === null && (session.contextWindow?.requested ?? null) !== null && (
        <p className="muted">The next turn begins with a summary of the older messages</p>
      )}
      {queuedTurns.length > 0 && (
        <p className="muted">
          {queuedTurns.length === 1 ? "1 message waits" : `${queuedTurns.length} messages wait`} for the next turn
        </p>
      )}
      {failure !== null && (
        <FailureCard title={isParked ? "parked" : "failed"} failure={failure}>
          <div className="actions">
            <Button
              look="primary"
              title={isParked ? "Restarts the step that was open" : "Starts a turn that answers the last message again"}
              onClick={isParked ? () => recover("step") : retry}
            >
              {isParked ? "Recover" : "Retry"}
            </Button>
            <Button
              title={
                isParked
                  ? "Ends the turn as failed. Calls without a result are answered as cancelled"
                  : "The session accepts messages again. No turn is started"
              }
              onClick={() => recover(null)}
            >
              {isParked ? "End the turn" : "Clear the failure"}
            </Button>
          </div>
        </FailureCard>
      )}
      {openTurn === null && turn === null && failure === null && stop !== null && (
        <div className="actions">
          <Button onClick={() => act(async () => client.continue(sessionId))}>Continue</Button>
          <span className="muted">{stop}</span>
        </div>
      )}
    </div>
  );
}

/** The messages that a compaction summarizes, as people count them. */
function summarizingText({ from, to }: { readonly from: number; readonly to: number }): string {
  return `Summarizing messages ${count(from + 1)} to ${count(to)} for the model`;
}

/**
 * Why the session can be continued without a message: its last turn stopped early, or its last message has no reply.
 * `null`: it cannot.
 */
function stopText({ head, messages, length }: ReturnType<typeof useConversation>): string | null {
  if (head === null) return null;
  const { status, lastRun, pendingToolCalls } = head.session;
  if (pendingToolCalls.length > 0 || status === "awaiting_user" || status === "error") return null;
  const reason = lastRun?.haltedReason ?? null;
  const texts: { readonly [reason: string]: string } = {
    cancelled: "The turn was stopped",
    budget: "A budget of the turn is used up",
    max_turns: "The turn has made as many model calls as allowed",
  };
  if (reason !== null && Object.hasOwn(texts, reason)) return texts[reason] ?? null;
  const role = messages.get(length - 1)?.role;
  return role === "user" || role === "tool" ? "The last message has no reply yet" : null;
}

/** Whether the last message is the question itself, so that the form need not repeat it. */
function isLastText({ messages, length }: ReturnType<typeof useConversation>, question: string | null): boolean {
  const last = messages.get(length - 1);
  return last !== undefined && question !== null && messageText(last).trim() === question.trim();
}
