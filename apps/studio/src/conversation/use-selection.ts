// The selection of the conversation: which message and call the URL names, through the timeline of the turn, and how a
// click on a message becomes an effect.

import type { SessionRoute } from "../route.ts";
import type { ConversationPlace } from "../selection.ts";
import type { Turns } from "../timeline/turns.ts";
import type { CallTime, CallTimes } from "./message-row.tsx";
import type { ConversationState } from "./session-store.ts";
import type { Message } from "everturn";
import type { TurnSummaryView } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { useCallback, useMemo } from "react";

import { useConnection } from "../data/connection.tsx";
import { effectAt, placeOf, selectMessage } from "../selection.ts";
import { attempt } from "../shell/toasts.tsx";
import { useTurnData } from "../timeline/turn-data.ts";
import { useTurns } from "../timeline/turns.ts";
import { recoveriesOf } from "./recovery-text.ts";

export type ConversationSelection = {
  readonly message: number | null;
  readonly toolCallId: string | null;
  /** The last takeover of the turn that is shown, in words; `null`: there was none. */
  readonly recovery: string | null;
  /** Durations and attempts of the calls of a message, if it belongs to the turn that is shown. */
  readonly times: (message: number) => CallTimes | null;
};

/** Rows of a timeline that are read to find the effect of a message. */
const maxRows = 500;

export function useConversationSelection(
  route: SessionRoute,
  state: ConversationState,
): {
  readonly selection: ConversationSelection;
  readonly select: (index: number, toolCallId: string | null) => void;
  /** The timeline of the turn that is shown; `null`: not loaded. */
  readonly timeline: TurnTimeline | null;
  readonly turns: Turns;
} {
  const { sessionId } = route;
  const { inspector } = useConnection();
  const known = useTurns(sessionId);
  const { turns } = known;
  const turnId = route.turnId ?? turns[0]?.turnId ?? null;
  const { timeline } = useTurnData(sessionId, turnId);
  const { messages, length } = state;
  const times = useMemo(() => (timeline === null ? null : callTimes(timeline)), [timeline]);
  const selection = useMemo((): ConversationSelection => {
    const base = timeline?.turn.base ?? 0;
    const until = nextBase(turns, base);
    const timesOf = (message: number): CallTimes | null => (message >= base && message < until ? times : null);
    const recovery = timeline === null ? null : (recoveriesOf(timeline).at(-1)?.text ?? null);
    const place = route.effect === null || timeline === null ? null : placeOf(timeline.effects, route.effect);
    const toolCallId = place?.type === "call" ? place.toolCallId : null;
    if (route.message !== null) return { message: route.message, toolCallId, recovery, times: timesOf };
    const message = place === null || timeline === null ? null : messageAt(messages, length, timeline, place);
    return { message, toolCallId, recovery, times: timesOf };
  }, [route.effect, route.message, timeline, turns, times, messages, length]);

  const select = useCallback(
    (index: number, toolCallId: string | null) => {
      const owner = turnOf(turns, index);
      selectMessage(route, index, { turnId: owner?.turnId ?? null, effect: null });
      if (owner === null) return;
      const place: ConversationPlace =
        toolCallId === null
          ? { type: "reply", reply: replyNumber(messages, owner.base, index) }
          : { type: "call", toolCallId };
      if (toolCallId === null && messages.get(index)?.role !== "assistant") return;
      const address = location.href;
      attempt(async () => {
        const { effects } = await inspector.timeline(sessionId, owner.turnId, { limit: maxRows });
        // The reader may have selected something else, or opened another session, while the journal was read.
        if (location.href !== address) return;
        const effect = effectAt(effects, place)?.ordinal ?? null;
        selectMessage({ ...route, message: index }, index, { turnId: owner.turnId, effect });
      });
    },
    [route, turns, messages, inspector, sessionId],
  );
  return { selection, select, timeline, turns: known };
}

/** The turn that added a message: the newest one that began before it. Turns are newest first. */
function turnOf(turns: readonly TurnSummaryView[], index: number): TurnSummaryView | null {
  return turns.find(({ base }) => base <= index) ?? null;
}

/** The index of the first message of the turn after the one that begins at `base`. */
function nextBase(turns: readonly TurnSummaryView[], base: number): number {
  return turns.reduce((next, turn) => (turn.base > base && turn.base < next ? turn.base : next), Infinity);
}

/** Durations, attempts and child agents of tool calls by their ids. Of a call that runs only its child agents are known. */
export function callTimes({ effects, open }: TurnTimeline): CallTimes {
  const times = new Map<string, CallTime>();
  for (const { toolCallId, children } of open) {
    if (toolCallId !== null && children.length > 0) times.set(toolCallId, { durationMs: null, attempts: 1, children });
  }
  for (const { toolCallId, startedAt, endedAt, attempt: attempts, state, children } of effects) {
    if (toolCallId === null || state === "waits") continue;
    times.set(toolCallId, {
      durationMs: startedAt === null || endedAt === null ? null : endedAt - startedAt,
      attempts,
      children,
    });
  }
  return times;
}

/** The number of a reply among those of its turn, from 0. */
function replyNumber(messages: ReadonlyMap<number, Message>, base: number, index: number): number {
  let replies = 0;
  for (let before = base; before < index; before += 1) if (messages.get(before)?.role === "assistant") replies += 1;
  return replies;
}

/** The index of the message that a place belongs to; `null`: it is not loaded. */
export function messageAt(
  messages: ReadonlyMap<number, Message>,
  length: number,
  { turn: { base } }: TurnTimeline,
  place: ConversationPlace,
): number | null {
  let replies = 0;
  for (let index = base; index < length; index += 1) {
    const message = messages.get(index);
    if (message?.role !== "assistant") continue;
    if (place.type === "reply" && replies === place.reply) return index;
    if (place.type === "call" && message.toolCalls.some(({ id }) => id === place.toolCallId)) return index;
    replies += 1;
  }
  if (place.type === "reply") return null;
  // A turn that continues after an answer runs a call of the reply before it.
  for (let index = base - 1; index >= 0 && index > base - 50; index -= 1) {
    const message = messages.get(index);
    if (message?.role === "assistant" && message.toolCalls.some(({ id }) => id === place.toolCallId)) return index;
  }
  return null;
}
