// One run of a column: its turn, what it shows so far, and how long it took. Pure, so that it can be tested without a
// page.

import type { SeenEvent } from "../data/session-events.ts";
import type { TurnCall, TurnSnapshot } from "everturn/advanced";
import type { ClientTurn } from "everturn/client";

import { messageText } from "everturn";

type TurnEnd = Awaited<ClientTurn["result"]>;

/** The state of a run. Times are in milliseconds, measured by the page. */
export type Run = {
  readonly sessionId: string | null;
  readonly startedAt: number;
  /** When the first text arrived. */
  readonly firstAt: number | null;
  readonly endedAt: number | null;
  /** The turn after its newest event; `null`: no event has arrived. */
  readonly snapshot: TurnSnapshot | null;
  /** The calls of all steps, each with its newest state. */
  readonly calls: readonly TurnCall[];
  readonly end: Pick<TurnEnd, "haltedReason" | "usage" | "steps"> | null;
  readonly failure: string | null;
};

/** A run that begins. */
export function beginRun(startedAt: number): Run {
  return {
    sessionId: null,
    startedAt,
    firstAt: null,
    endedAt: null,
    snapshot: null,
    calls: [],
    end: null,
    failure: null,
  };
}

/** The run after one more event. `snapshot`: the view of its turn after the event. */
export function withEvent(run: Run, { changes }: SeenEvent, snapshot: TurnSnapshot, now: number): Run {
  const hasText = changes.some(({ type }) => type === "text");
  const calls = changes.reduce(
    (before, change) => (change.type === "call_changed" ? withCall(before, change.call) : before),
    run.calls,
  );
  return { ...run, snapshot, calls, firstAt: run.firstAt ?? (hasText ? now : null) };
}

/** The texts of the replies so far. */
export function runText({ snapshot }: Run): string {
  const replies = snapshot?.messages.flatMap((message) => (message.role === "assistant" ? [messageText(message)] : []));
  const open = snapshot?.blocks.map(({ type, text }) => (type === "text" ? text : "")).join("");
  return [...(replies ?? []), open ?? ""].filter((text) => text !== "").join("\n\n");
}

/** The run after its turn has ended. */
export function withEnd(run: Run, { haltedReason, usage, steps, failure }: TurnEnd, now: number): Run {
  return { ...run, end: { haltedReason, usage, steps }, failure: failure?.message ?? null, endedAt: now };
}

function withCall(calls: readonly TurnCall[], call: TurnCall): readonly TurnCall[] {
  const index = calls.findIndex(({ id }) => id === call.id);
  return index === -1 ? [...calls, call] : calls.with(index, call);
}
