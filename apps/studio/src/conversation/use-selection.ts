// The selection of the conversation: which message and call the URL names, through the timeline of the turn, and how a click on a message becomes an effect.

import type { SessionRoute } from "../route.ts";
import type { ConversationPlace } from "../selection.ts";
import type { ConversationState } from "./session-store.ts";
import type { TurnSummaryView, TurnTimeline } from "everturn/client";
import type { Message } from "everturn/model";

import { useCallback, useMemo } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { effectAt, placeOf, selectMessage } from "../selection.ts";
import { attempt } from "../shell/toasts.tsx";
import { recoveryText } from "./recovery-text.ts";

export type ConversationSelection = {
  readonly message: number | null;
  readonly toolCallId: string | null;
  /** What is known about a takeover of the turn that is shown; `null`: there was none. */
  readonly recovery: string | null;
};

/** Rows of a timeline that are read to find the effect of a message. */
const maxRows = 500;

export function useConversationSelection(
  route: SessionRoute,
  state: ConversationState,
): {
  readonly selection: ConversationSelection;
  readonly select: (index: number, toolCallId: string | null) => void;
} {
  const { inspector } = useConnection();
  const { sessionId } = route;
  const version = state.head?.version ?? null;
  const turns = useQuery(version === null ? null : `turns:${sessionId}:${version}`, async (signal) =>
    inspector.turns(sessionId, { limit: 100, signal }),
  );
  const turnId = route.turnId ?? turns.data?.items[0]?.turnId ?? null;
  const timeline = useQuery(turnId === null ? null : `timeline:${sessionId}:${turnId}:${version}`, async (signal) =>
    inspector.timeline(sessionId, turnId ?? "", { limit: maxRows, signal }),
  );
  const { messages, length } = state;
  const selection = useMemo((): ConversationSelection => {
    const recovery = timeline.data === null ? null : recoveryText(timeline.data);
    const place = route.effect === null || timeline.data === null ? null : placeOf(timeline.data.effects, route.effect);
    const toolCallId = place?.type === "call" ? place.toolCallId : null;
    if (route.message !== null) return { message: route.message, toolCallId, recovery };
    const message = place === null || timeline.data === null ? null : messageAt(messages, length, timeline.data, place);
    return { message, toolCallId, recovery };
  }, [route.effect, route.message, timeline.data, messages, length]);

  const known = turns.data?.items;
  const select = useCallback(
    (index: number, toolCallId: string | null) => {
      const owner = turnOf(known ?? [], index);
      selectMessage(route, index, { turnId: owner?.turnId ?? null, effect: null });
      if (owner === null) return;
      const place: ConversationPlace =
        toolCallId === null
          ? { type: "reply", reply: replyNumber(messages, owner.base, index) }
          : { type: "call", toolCallId };
      if (toolCallId === null && messages.get(index)?.role !== "assistant") return;
      attempt(async () => {
        const { effects } = await inspector.timeline(sessionId, owner.turnId, { limit: maxRows });
        const effect = effectAt(effects, place)?.ordinal ?? null;
        selectMessage({ ...route, message: index }, index, { turnId: owner.turnId, effect });
      });
    },
    [route, known, messages, inspector, sessionId],
  );
  return { selection, select };
}

/** The turn that added a message: the newest one that began before it. Turns are newest first. */
export function turnOf(turns: readonly TurnSummaryView[], index: number): TurnSummaryView | null {
  return turns.find(({ base }) => base <= index) ?? null;
}

/** The number of a reply among those of its turn, from 0. */
function replyNumber(messages: ReadonlyMap<number, Message>, base: number, index: number): number {
  let replies = 0;
  for (let before = base; before < index; before += 1) if (messages.get(before)?.role === "assistant") replies += 1;
  return replies;
}

/** The index of the message that a place belongs to; `null`: it is not loaded. */
function messageAt(
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
