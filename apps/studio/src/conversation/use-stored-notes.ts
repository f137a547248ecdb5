// Reads the timelines that the notes of a conversation come from: those of turns in view whose attempts were partly
// thrown away. Most turns have none, and cost no request.

import type { Turns } from "../timeline/turns.ts";
import type { ConversationState, LiveItem, LiveNote } from "./session-store.ts";
import type { Notes } from "./stored-notes.ts";
import type { Message } from "everturn";
import type { TurnSummaryView } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { toolResult } from "everturn";
import { readTimeline } from "everturn/client";
import { useEffect, useMemo, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { nextIndex } from "./session-store.ts";
import { storedNotes } from "./stored-notes.ts";

/** Older turns are read while the reader scrolls up, until so many are known. */
const maxTurns = 500;

/**
 * The notes of the messages in view.
 *
 * @param shown The timeline of the turn that the reader has selected, or of the newest one.
 * @param range The indexes of the messages in view.
 */
export function useStoredNotes(
  state: ConversationState,
  { turns, hasMore, isLoading, loadMore }: Turns,
  shown: TurnTimeline | null,
  range: { readonly from: number; readonly until: number },
): Notes {
  const oldest = turns.at(-1)?.base ?? 0;
  const needsOlder = hasMore && !isLoading && range.from < oldest && turns.length < maxTurns;
  useEffect(() => {
    if (needsOlder) loadMore();
  }, [needsOlder, turns.length, loadMore]);
  const wanted = turns.filter(
    (turn, position) =>
      turn.discarded > 0 &&
      turn.status === "ended" &&
      turn.turnId !== shown?.turn.turnId &&
      turn.base <= range.until &&
      endOf(turns, position) >= range.from,
  );
  const ended = useEndedTimelines(state.sessionId, wanted);
  const { messages, length } = state;
  // A delta changes the open turn, but not its items.
  const liveTurnId = state.turn?.turnId ?? null;
  const items = state.turn?.items ?? noItems;
  return useMemo(() => {
    const notes = new Map<number, readonly LiveNote[]>();
    for (const timeline of [...ended, ...(shown === null ? [] : [shown])]) {
      const { turn } = timeline;
      if (turn.discarded === 0 && !timeline.claims.some(({ takesOver }) => takesOver)) continue;
      const position = turns.findIndex(({ turnId }) => turnId === turn.turnId);
      const isLive = liveTurnId === turn.turnId;
      const until = isLive ? endOfLive(items, length) : Math.min(length, endOf(turns, position));
      const loaded = isLive ? withLive(messages, items, turn.base, length) : messages;
      for (const [index, list] of storedNotes(timeline, loaded, until)) {
        notes.set(index, [...(notes.get(index) ?? []), ...list]);
      }
    }
    return notes;
  }, [ended, shown, turns, messages, length, liveTurnId, items]);
}

const noItems: readonly LiveItem[] = [];

/** The loaded messages of an open turn: those that are committed, and those that its events have reported. */
function withLive(
  messages: ReadonlyMap<number, Message>,
  items: readonly LiveItem[],
  base: number,
  length: number,
): ReadonlyMap<number, Message> {
  const loaded = new Map<number, Message>();
  for (let index = base; index < length; index += 1) {
    const message = messages.get(index);
    if (message !== undefined) loaded.set(index, message);
  }
  for (const item of items) {
    if (item.type !== "message") continue;
    loaded.set(item.index, item.message);
    // The answers to its calls are not committed yet, and follow it.
    if (item.message.role !== "assistant") continue;
    for (const [offset, { id }] of item.message.toolCalls.entries()) {
      loaded.set(item.index + 1 + offset, toolResult(id, ""));
    }
  }
  return loaded;
}

function endOfLive(items: readonly LiveItem[], length: number): number {
  return Math.max(length, nextIndex(length, items));
}

/** The index after the last message of a turn. Turns are newest first. */
function endOf(turns: readonly TurnSummaryView[], position: number): number {
  return turns[position - 1]?.base ?? Infinity;
}

/** The timelines of ended turns, which do not change any more: each is read once. */
function useEndedTimelines(sessionId: string, turns: readonly TurnSummaryView[]): readonly TurnTimeline[] {
  const { inspector } = useConnection();
  const [timelines, setTimelines] = useState<readonly TurnTimeline[]>([]);
  const names = turns.map(({ turnId }) => turnId).join("\n");
  useEffect(() => {
    const reading = { isOver: false };
    const read = async (): Promise<void> => {
      for (const turnId of names.split("\n")) {
        if (turnId === "" || reading.isOver || timelines.some(({ turn }) => turn.turnId === turnId)) continue;
        // Notes are an addition: a timeline that cannot be read is tried again when its turn comes into view again.
        const timeline = await readTimeline(inspector, sessionId, turnId).catch(() => null);
        if (timeline !== null && !reading.isOver) setTimelines((known) => [...known, timeline]);
      }
    };
    void read();
    return () => {
      reading.isOver = true;
    };
  }, [inspector, sessionId, names]);
  return timelines;
}
