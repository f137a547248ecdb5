// The selection of a session: a message, a tool card, a bar of the timeline and a row of the journal select the same
// effect everywhere. The URL holds it: the turn, the ordinal of the effect in the journal of the turn, and the index of
// the message.
//
// A message of the model belongs to the model call that replied it: the n-th reply of the turn is the n-th model call
// that succeeded and was not superseded. A tool card belongs to the tool effect of its call. Other messages belong to
// no effect.

import type { SessionRoute } from "./route.ts";
import type { TimelineEffect } from "everturn/advanced";

import { isReply } from "./inspector/effect-parts.ts";
import { navigate, sessionRoute } from "./route.ts";

/** What the reader has clicked in the conversation. */
export type ConversationPlace =
  /** `reply`: the number of the reply among those of the turn, from 0. */
  { readonly type: "reply"; readonly reply: number } | { readonly type: "call"; readonly toolCallId: string };

/** The effect of a place in the conversation; `null`: the journal has none yet. */
export function effectAt(effects: readonly TimelineEffect[], place: ConversationPlace): TimelineEffect | null {
  if (place.type === "call") {
    const ofCall = effects.filter(({ kind, toolCallId }) => kind === "tool" && toolCallId === place.toolCallId);
    return ofCall.findLast(({ state }) => state !== "superseded") ?? ofCall.at(-1) ?? null;
  }
  return effects.filter(isReply)[place.reply] ?? null;
}

/** The place in the conversation that an effect belongs to; `null`: it has none, for example a checkpoint. */
export function placeOf(effects: readonly TimelineEffect[], ordinal: number): ConversationPlace | null {
  const effect = effects.find((other) => other.ordinal === ordinal);
  if (effect === undefined) return null;
  if (effect.kind === "tool" && effect.toolCallId !== null) return { type: "call", toolCallId: effect.toolCallId };
  if (!isReply(effect)) return null;
  return { type: "reply", reply: effects.filter(isReply).findIndex((other) => other.ordinal === ordinal) };
}

/** Selects an effect of a turn. The playhead stays where it is if the turn is the same. */
export function selectEffect(route: SessionRoute, turnId: string, effect: number | null): void {
  const at = route.turnId === turnId ? route.at : null;
  navigate(sessionRoute(route.sessionId, { turnId, effect, at }), { replace: route.effect !== null });
}

/** Selects a message, with the effect that it belongs to, if that is known. */
export function selectMessage(
  route: SessionRoute,
  message: number | null,
  owner: { readonly turnId: string | null; readonly effect: number | null },
): void {
  navigate(sessionRoute(route.sessionId, { ...owner, message, at: route.at }), { replace: route.message !== null });
}

/** Removes the selection. */
export function clearSelection(route: SessionRoute): void {
  navigate(sessionRoute(route.sessionId), { replace: true });
}
