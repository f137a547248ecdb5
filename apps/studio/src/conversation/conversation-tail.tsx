// The end of a conversation: what the turn does now, why it failed, and what the reader can do next.

import type { Failure } from "everturn/model";
import type { ReactNode } from "react";

import { sessionError } from "everturn/model";

import { useConnection } from "../data/connection.tsx";
import { refreshSession } from "../data/session-feed.ts";
import { attempt, notify } from "../shell/toasts.tsx";
import { FailureCard } from "./failure-card.tsx";
import { PendingForm } from "./pending-form.tsx";
import { waitingCalls } from "./session-store.ts";
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
  const failure: Failure | null = openTurn?.status === "parked" ? openTurn.failure : sessionError(session);
  const isParked = openTurn?.status === "parked";
  const outside = callsOutsideOfReplies(state);
  return (
    <div className="tail">
      {outside.map((pending) => (
        <section key={pending.id} className="card approval" aria-label={`Tool ${pending.name}`}>
          <div className="head">
            <span className="name">{pending.name}</span>
            <span className="tag wait">{pending.reason}</span>
          </div>
          <PendingForm pending={pending} />
        </section>
      ))}
      {turn !== null && turn.open === null && !turn.hasEnded && !isParked && (
        <p className="working" role="status">
          <span className="caret" aria-hidden="true" />
          {openTurn?.status === "queued"
            ? openTurn.limitWait === null
              ? "Queued"
              : `Queued: the ${openTurn.limitWait.limit} limit is reached`
            : "Working"}
        </p>
      )}
      {queuedTurns.length > 0 && (
        <p className="muted">
          {queuedTurns.length === 1 ? "1 message waits" : `${queuedTurns.length} messages wait`} for the next turn
        </p>
      )}
      {failure !== null && (
        <FailureCard title={isParked ? "parked" : "failed"} failure={failure}>
          <div className="actions">
            <button type="button" className="btn primary" onClick={() => recover(null)}>
              {isParked ? "Recover" : "Retry"}
            </button>
            {isParked && (
              <button type="button" className="btn" onClick={() => recover("step")}>
                Restart the step
              </button>
            )}
            {!isParked && (
              <button
                type="button"
                className="btn"
                onClick={() =>
                  act(async () => {
                    await client.recover(sessionId);
                    await client.continue(sessionId);
                  })
                }
              >
                Retry and continue
              </button>
            )}
          </div>
        </FailureCard>
      )}
      {openTurn === null && failure === null && canContinue(session) && (
        <div className="actions">
          <button type="button" className="btn" onClick={() => act(async () => client.continue(sessionId))}>
            Continue
          </button>
          <span className="muted">{stopText(session.lastRun?.haltedReason ?? "")}</span>
        </div>
      )}
    </div>
  );
}

type Session = NonNullable<ReturnType<typeof useConversation>["head"]>["session"];

/** Whether the last turn stopped before the model had finished. */
function canContinue({ status, lastRun, pendingToolCalls }: Session): boolean {
  if (lastRun === null || pendingToolCalls.length > 0 || status === "awaiting_user" || status === "error") return false;
  return lastRun.haltedReason !== "completed";
}

function stopText(haltedReason: string): string {
  const texts: { readonly [reason: string]: string } = {
    cancelled: "The turn was stopped",
    budget: "A budget of the turn is used up",
    max_turns: "The turn has made as many model calls as allowed",
  };
  return texts[haltedReason] ?? `The turn ended: ${haltedReason}`;
}

/** Calls that wait and are not calls of the last reply, for example those of a code cell. */
function callsOutsideOfReplies({ head, messages, length, turn }: ReturnType<typeof useConversation>) {
  if (turn !== null) return [];
  const shown = new Set<string>();
  for (let index = length - 1; index >= 0; index -= 1) {
    const message = messages.get(index);
    if (message === undefined) return [];
    if (message.role !== "assistant") continue;
    for (const call of message.toolCalls) shown.add(call.id);
    break;
  }
  return [...waitingCalls(head).values()].filter(({ id }) => !shown.has(id));
}
