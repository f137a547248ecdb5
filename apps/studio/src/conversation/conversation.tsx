// The conversation of a session: all messages, of which only those in view are in the document, then the open turn,
// what waits, and the composer.

import type { SessionRoute } from "../route.ts";
import type { ConversationState, LiveItem, WaitingCall } from "./session-store.ts";
import type { VirtualItem, Virtualizer } from "@tanstack/react-virtual";
import type { Message } from "everturn";
import type { ReactNode, RefObject } from "react";

import { defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { useOnline } from "../data/online.ts";
import { duration } from "../parts/format.ts";
import { navigate } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { useShortcuts } from "../shell/keyboard.ts";
import { Composer } from "./composer.tsx";
import { ConversationRow } from "./conversation-row.tsx";
import { focusComposer } from "./pending-form.tsx";
import { scrubbed } from "./scrubbed.ts";
import { waitingCallsOf } from "./session-store.ts";
import { useConversation, useFeedState, useLoadRange } from "./use-conversation.ts";
import { useConversationSelection } from "./use-selection.ts";
import { useStoredNotes } from "./use-stored-notes.ts";

/** A reader within this distance of the end stays at the end while text arrives, in CSS pixels. */
const endDistance = 80;
const noWaiting: ReadonlyMap<number, ReadonlyMap<string, WaitingCall>> = new Map();
const noItems: readonly LiveItem[] = [];

export function Conversation({ route }: { readonly route: SessionRoute }): ReactNode {
  const state = useConversation();
  const feed = useFeedState();
  const isOnline = useOnline();
  if (feed === "gone") {
    return (
      <div className="notice" role="alert">
        <h2>There is no such session</h2>
        <p className="muted">It was deleted, or belongs to another tenant.</p>
      </div>
    );
  }
  return (
    <>
      {state.head === null ? (
        <p className="loading" role="status">
          Loading…
        </p>
      ) : (
        <Messages route={route} state={state} />
      )}
      <div className="composer-area">
        {(feed === "reconnecting" || !isOnline) && (
          <p className="reconnecting" role="status">
            The server does not answer. Reconnecting…
          </p>
        )}
        <Composer />
      </div>
    </>
  );
}

function Messages({
  route,
  state: present,
}: {
  readonly route: SessionRoute;
  readonly state: ConversationState;
}): ReactNode {
  const { selection, select, timeline, turns } = useConversationSelection(route, present);
  const past = useMemo(
    () => (route.at === null || timeline === null ? null : scrubbed(present, timeline, route.at)),
    [present, timeline, route.at],
  );
  const state = past?.state ?? present;
  const { length, messages, turn, calls, head } = state;
  // A link to an effect names no message: the first message of the turn is shown, which loads the others, and then the
  // message of the effect.
  const ofEffect = route.effect === null ? null : (selection.message ?? timeline?.turn.base ?? null);
  const { scroller, rows, isAtEnd, setFocusedKey } = useRows(state, route.message, ofEffect);
  const visible = rows.getVirtualItems();
  const inView = { from: visible[0]?.index ?? 0, until: visible.at(-1)?.index ?? 0 };
  const storedNotes = useStoredNotes(present, turns, timeline, inView);
  useLoadRange(visible[0]?.index ?? Math.max(0, length - 1), (visible.at(-1)?.index ?? length) + 1);
  const waiting = useMemo(
    () => (past === null ? waitingByReply(waitingCallsOf({ head, messages, length, turn })) : noWaiting),
    [past, head, messages, length, turn],
  );
  const shared = useMemo(() => ({ messages, calls }), [messages, calls]);
  const view = { state, past, selection, select, waiting, shared, storedNotes };

  const move = useCallback(
    (step: number) => {
      let index = (selection.message ?? (step < 0 ? length : -1)) + step;
      while (index >= 0 && index < length && messages.get(index)?.role === "tool") index += step;
      if (index >= 0 && index < length) select(index, null);
    },
    [selection.message, length, messages, select],
  );
  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    s: focusComposer,
  });
  return (
    <div className="talk-frame">
      {past !== null && route.at !== null && (
        <p className="past" role="status">
          As it was {duration(route.at)} after the turn began
          <Button look="small" onClick={() => navigate({ ...route, at: null }, { replace: true })}>
            Back to now
          </Button>
        </p>
      )}
      <div
        className="talk"
        ref={scroller}
        tabIndex={-1}
        onFocus={({ target }) => setFocusedKey(target.closest("[data-row]")?.getAttribute("data-row") ?? null)}
        onBlur={() => setFocusedKey(null)}
        onScroll={() => {
          // The list knows these numbers; reading them from the element would force a layout.
          const { scrollOffset, scrollRect } = rows;
          isAtEnd.current = rows.getTotalSize() - (scrollOffset ?? 0) - (scrollRect?.height ?? 0) < endDistance;
        }}
      >
        <div className="talk-col" style={{ height: rows.getTotalSize() }}>
          {visible.map(({ key, index, start }: VirtualItem) => (
            <div
              key={key}
              ref={rows.measureElement}
              data-index={index}
              data-row={key}
              className="talk-row"
              style={{ transform: `translateY(${start}px)` }}
            >
              <ConversationRow row={index} view={view} />
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/**
 * The rows that are in the document. The view follows the end, unless the reader has scrolled away from it. A selection
 * scrolls to `selected`, or else to the message `ofEffect`.
 */
function useRows(
  { length, messages, turn }: ConversationState,
  selected: number | null,
  ofEffect: number | null,
): {
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly rows: Virtualizer<HTMLDivElement, Element>;
  /** Whether the reader is at the end. */
  readonly isAtEnd: RefObject<boolean>;
  /** A row with the focus stays in the document when it is scrolled out of view. */
  readonly setFocusedKey: (key: string | null) => void;
} {
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(selected === null);
  const items = turn?.items ?? noItems;
  const isOpen = turn !== null && turn.open !== null;
  // Stable functions: the list measures all rows again when they change, which a delta must not cause.
  const getItemKey = useCallback((row: number) => rowKey(row, length, items, isOpen), [length, items, isOpen]);
  const estimateSize = useCallback((row: number) => estimatedHeight(messages.get(row)), [messages]);
  const count = length + items.length + (isOpen ? 1 : 0) + 1;
  // The removal of the row with the focus would move the focus, and what is typed, to the page.
  const [focusedKey, setFocusedKey] = useState<string | null>(null);
  const focusedRow = focusedKey === null ? -1 : rowOfKey(focusedKey, count, getItemKey);
  const rows = useVirtualizer<HTMLDivElement, Element>({
    count,
    rangeExtractor: (range) => {
      const inView = defaultRangeExtractor(range);
      if (focusedRow === -1 || inView.includes(focusedRow)) return inView;
      return [...inView, focusedRow].toSorted((one, other) => one - other);
    },
    getScrollElement: () => scroller.current,
    estimateSize,
    getItemKey,
    overscan: 6,
  });
  const size = rows.getTotalSize();
  useLayoutEffect(() => {
    const element = scroller.current;
    if (isAtEnd.current && element !== null) element.scrollTop = element.scrollHeight;
  }, [size, count]);
  const target = selected ?? ofEffect;
  useEffect(() => {
    if (target === null || target >= count) return;
    isAtEnd.current = false;
    rows.scrollToIndex(target, { align: "center" });
    // Only a new selection scrolls, not a new length.
  }, [target, rows]);
  return { scroller, rows, isAtEnd, setFocusedKey };
}

/** The height of a message before it is measured, in CSS pixels: its lines, and its tool cards. */
function estimatedHeight(message: Message | undefined): number {
  if (message === undefined) return 60;
  if (message.role === "tool") return 0;
  const { content } = message;
  const length = typeof content === "string" ? content.length : 200 * content.length;
  // Cards are side by side, each with its name, its arguments on one line, and a short result. An estimate that is
  // right saves a second layout of the row.
  const cards = message.role === "assistant" ? Math.ceil(message.toolCalls.length / 2) * 104 : 0;
  return 16 + Math.min(2000, Math.ceil(length / 75) * 22.4) + cards;
}

/** A message keeps its key when it is committed, so it is not rendered again. */
function rowKey(row: number, length: number, items: readonly LiveItem[], isOpen: boolean): string {
  if (row < length) return `m${row}`;
  const item = items[row - length];
  if (item !== undefined) return item.type === "message" ? `m${item.index}` : `n${row - length}`;
  return isOpen && row === length + items.length ? "open" : "tail";
}

/** The row with a key; -1: there is none. The rows with the focus are those at the end, so the search begins there. */
function rowOfKey(key: string, count: number, getItemKey: (row: number) => string): number {
  for (let row = count - 1; row >= 0; row -= 1) if (getItemKey(row) === key) return row;
  return -1;
}

/** The calls that wait, by the index of their reply and their id. */
function waitingByReply(calls: readonly WaitingCall[]): ReadonlyMap<number, ReadonlyMap<string, WaitingCall>> {
  const byReply = new Map<number, Map<string, WaitingCall>>();
  for (const call of calls) {
    if (call.reply === null) continue;
    const ofReply = byReply.get(call.reply) ?? new Map<string, WaitingCall>();
    ofReply.set(call.pending.id, call);
    byReply.set(call.reply, ofReply);
  }
  return byReply;
}
