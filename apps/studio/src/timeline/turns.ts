// The turns of a session, for the switcher and for finding the turn that is shown.

import type { TurnSummaryView } from "everturn/advanced";
import type { Inspector } from "everturn/client";

import { useCallback, useEffect, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { listenToSession } from "../data/session-events.ts";

export type Turns = {
  /** Newest first. */
  readonly turns: readonly TurnSummaryView[];
  /** There are older turns that are not read. */
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly error: Error | null;
  readonly loadMore: () => void;
};

const pageSize = 50;

/** The newest turns of a session; read again when a turn begins or ends. */
export function useTurns(sessionId: string): Turns {
  const { inspector } = useConnection();
  const [pages, setPages] = useState(1);
  const query = useQuery(`turns ${sessionId} ${pages}`, async (signal) =>
    readTurns(inspector, sessionId, pages, signal),
  );
  const { refresh } = query;
  useEffect(
    () =>
      listenToSession(sessionId, (events) => {
        if (events.some(({ event }) => event.type === "turn_started" || event.type === "chat_completed")) refresh();
      }),
    [sessionId, refresh],
  );
  // Doubled, because all pages are read again.
  const loadMore = useCallback(() => setPages((count) => count * 2), []);
  return {
    turns: query.data?.turns ?? [],
    hasMore: query.data?.hasMore ?? false,
    isLoading: query.data === null && query.error === null,
    error: query.error,
    loadMore,
  };
}

async function readTurns(
  inspector: Inspector,
  sessionId: string,
  pages: number,
  signal: AbortSignal,
): Promise<Pick<Turns, "turns" | "hasMore">> {
  const turns: TurnSummaryView[] = [];
  let after: string | null = null;
  do {
    // The server limits a page, so many turns are several pages.
    const limit = pageSize * pages - turns.length;
    const cursor: { readonly after?: string } = after === null ? {} : { after };
    const page: Awaited<ReturnType<Inspector["turns"]>> = await inspector.turns(sessionId, {
      limit,
      ...cursor,
      signal,
    });
    turns.push(...page.items);
    after = page.next;
  } while (after !== null && turns.length < pageSize * pages);
  return { turns, hasMore: after !== null };
}

/** The turn that a route names, its neighbours, and its number. */
export type ShownTurn = {
  readonly turnId: string | null;
  readonly turn: TurnSummaryView | null;
  /** From 1; `null`: not known, because older turns are not read. */
  readonly number: number | null;
  /** When the next turn was accepted; `null`: it is the newest. */
  readonly nextTurnAt: number | null;
};

/** Finds the turn of a route; `null`: the newest. */
export function shownTurn({ turns, hasMore }: Pick<Turns, "turns" | "hasMore">, turnId: string | null): ShownTurn {
  const index = turnId === null ? 0 : turns.findIndex((turn) => turn.turnId === turnId);
  const turn = turns[index] ?? null;
  return {
    turnId: turnId ?? turn?.turnId ?? null,
    turn,
    number: hasMore || turn === null ? null : turns.length - index,
    nextTurnAt: index > 0 ? (turns[index - 1]?.acceptedAt ?? null) : null,
  };
}

/** Whether a turn runs inside a tool call: its id begins with that of the call. */
export function isInnerTurn(turnId: string): boolean {
  return turnId.includes("/");
}

/** The id of the turn that a turn runs in, at the outermost; the turn itself if it is no child. */
export function outermostTurn(turnId: string): string {
  const end = turnId.indexOf("/");
  return end === -1 ? turnId : turnId.slice(0, end);
}

/**
 * The name of a turn in headings: its number, or the beginning of its id. A turn inside of a tool call has the id of
 * that call in its own.
 */
export function turnName({ number, turnId }: Pick<ShownTurn, "number" | "turnId">): string {
  if (turnId !== null && isInnerTurn(turnId)) return "Child agent";
  return number === null ? `Turn ${(turnId ?? "").slice(0, 8)}` : `Turn ${number}`;
}

/** What a turn is doing or how it ended, in a few words, and the class of its status mark. */
export function turnStatus(turn: TurnSummaryView): { readonly text: string; readonly className: string } {
  if (turn.status === "parked") return { text: "parked", className: "bad" };
  if (turn.status === "queued")
    return { text: turn.limitWait === null ? "queued" : "waits for a limit", className: "" };
  // The end of a child turn is part of the call in which it ran.
  if (turn.end === null) {
    return turn.status === "ended" ? { text: "ended", className: "done" } : { text: "running", className: "run" };
  }
  const { type } = turn.end.outcome;
  const text = turn.end.haltedReason.replaceAll("_", " ");
  switch (type) {
    case "assistant_message":
    case "final_value":
    case "tool_value":
      return { text: "completed", className: "done" };
    case "approval":
    case "ask_user":
    case "manual_tool_calls":
    case "outcome_unknown":
      return { text: waitingWords[type], className: "wait" };
    case "provider_error":
    case "runtime_error":
    case "tool_error":
    case "submitted_error":
      return { text: "failed", className: "bad" };
    default:
      return { text, className: "" };
  }
}

const waitingWords = {
  approval: "waits for approval",
  ask_user: "asks a question",
  manual_tool_calls: "waits for a result",
  outcome_unknown: "outcome unknown",
};
