// The conversation of a session: all messages, of which only those in view are in the document, then the open turn,
// what waits, and the composer.

import type { FrameMark } from "../context/frame-marks.ts";
import type { SessionRoute } from "../route.ts";
import type { ConversationState, LiveItem, WaitingCall } from "./session-store.ts";
import type { Following } from "./use-follow.ts";
import type { VirtualItem, Virtualizer } from "@tanstack/react-virtual";
import type { Message } from "everturn";
import type { ReactNode, RefObject } from "react";

import { defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useFrameMarks } from "../context/use-frames.ts";
import { useOnline } from "../data/online.ts";
import { duration } from "../parts/format.ts";
import { navigate } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { useShortcuts } from "../shell/keyboard.ts";
import { Composer } from "./composer.tsx";
import { ConversationRow } from "./conversation-row.tsx";
import { focusComposer } from "./pending-form.tsx";
import { scrubbed } from "./scrubbed.ts";
import { nextIndex, waitingCallsOf } from "./session-store.ts";
import { useConversation, useFeedState, useLoadRange } from "./use-conversation.ts";
import { useFollow } from "./use-follow.ts";
import { useConversationSelection } from "./use-selection.ts";
import { useStoredNotes } from "./use-stored-notes.ts";

const noWaiting: ReadonlyMap<number, ReadonlyMap<string, WaitingCall>> = new Map();
const noItems: readonly LiveItem[] = [];
/** What requests contained at a moment of the past is not known here. */
const noFrames: ReadonlyMap<number, readonly FrameMark[]> = new Map();

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
  const { scroller, rows, following, setFocusedKey } = useRows(state, route.message, ofEffect);
  const visible = rows.getVirtualItems();
  const inView = { from: visible[0]?.index ?? 0, until: visible.at(-1)?.index ?? 0 };
  const storedNotes = useStoredNotes(present, turns, timeline, inView);
  useLoadRange(visible[0]?.index ?? Math.max(0, length - 1), (visible.at(-1)?.index ?? length) + 1);
  const waiting = useMemo(
    () => (past === null ? waitingByReply(waitingCallsOf({ head, messages, length, turn })) : noWaiting),
    [past, head, messages, length, turn],
  );
  const shared = useMemo(() => ({ messages, calls }), [messages, calls]);
  const frames = useFrameMarks(present);
  const view = {
    state,
    past,
    selection,
    select,
    waiting,
    shared,
    storedNotes,
    frames: past === null ? frames : noFrames,
    stay: following.stay,
  };

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
      {!following.isFollowing && (
        <Button look="small to-end" onClick={following.toEnd}>
          To the end <span aria-hidden="true">↓</span>
        </Button>
      )}
    </div>
  );
}

/**
 * The rows that are in the document. The view follows the end, unless the reader has scrolled away from it. A selection
 * scrolls to `selected`, or else to the message `ofEffect`.
 */
function useRows(
  { length, messages, turn, steered }: ConversationState,
  selected: number | null,
  ofEffect: number | null,
): {
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly rows: Virtualizer<HTMLDivElement, Element>;
  readonly following: Following;
  /** A row with the focus stays in the document when it is scrolled out of view. */
  readonly setFocusedKey: (key: string | null) => void;
} {
  const scroller = useRef<HTMLDivElement>(null);
  const items = turn?.items ?? noItems;
  // The reply that arrives has the key of the message that it becomes: the list keeps its measured height, and with it
  // the place of a reader who reads the reply.
  const open = turn === null || turn.open === null ? null : nextIndex(turn.base, turn.items);
  // Stable functions: the list measures all rows again when they change, which a delta must not cause.
  const getItemKey = useCallback((row: number) => rowKey(row, length, items, open), [length, items, open]);
  const estimateSize = useCallback((row: number) => estimatedHeight(messages.get(row)), [messages]);
  const count = length + items.length + (open === null ? 0 : 1) + 1;
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
  const following = useFollow(scroller, rows, count, selected === null && ofEffect === null);
  const { stay, toEnd } = following;
  const target = selected ?? ofEffect;
  useEffect(() => {
    if (target === null || target >= count) return;
    stay();
    rows.scrollToIndex(target, { align: "center" });
    // Only a new selection scrolls, not a new length.
  }, [target, rows]);
  const steeredCount = steered.length;
  useEffect(() => {
    // The reader has sent a message and looks for it.
    if (steeredCount > 0) toEnd();
  }, [steeredCount, toEnd]);
  return { scroller, rows, following, setFocusedKey };
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

/** A message keeps its key when it is committed, so it is not rendered again. `open`: the index of the open reply. */
function rowKey(row: number, length: number, items: readonly LiveItem[], open: number | null): string {
  if (row < length) return `m${row}`;
  const item = items[row - length];
  if (item !== undefined) return item.type === "message" ? `m${item.index}` : `n${row - length}`;
  return open !== null && row === length + items.length ? `m${open}` : "tail";
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
