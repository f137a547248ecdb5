// The conversation as it was at a moment of a turn: the playhead of the timeline shows it. Pure.

import type { ConversationState } from "./session-store.ts";
import type { Message } from "everturn";
import type { TurnCall } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { messageText } from "everturn";

import { beginning } from "../parts/text.ts";
import { conversationAt } from "../timeline/state-at.ts";
import { callKey, unanswered } from "./session-store.ts";

/** A conversation at a moment, and the text of the reply that was arriving; `null`: none was. */
export type Scrubbed = { readonly state: ConversationState; readonly partial: string | null };

/**
 * The conversation at a moment, in milliseconds since the turn was accepted. Messages of the turn that are not loaded
 * end it.
 */
export function scrubbed(state: ConversationState, timeline: TurnTimeline, at: number): Scrubbed {
  const { base } = timeline.turn;
  const ofTurn: Message[] = [];
  for (let index = base; index < state.length; index += 1) {
    const message = state.messages.get(index);
    if (message === undefined) break;
    ofTurn.push(message);
  }
  const { length, partial, runningCalls, waitingCalls } = conversationAt(timeline, ofTurn, at);
  const shown = Math.min(length, state.length);
  const messages = new Map([...state.messages].filter(([index]) => index < shown));
  const reply = lastReply(messages, shown);
  const calls = new Map(state.calls);
  for (const [key, call] of calls) calls.set(key, { ...call, answer: null });
  for (const id of runningCalls) calls.set(callKey(reply, id), stateOf(id, "running"));
  for (const id of waitingCalls) calls.set(callKey(reply, id), stateOf(id, "waiting"));
  const arriving = partial === null ? undefined : state.messages.get(partial.index);
  const whole = arriving === undefined ? "" : messageText(arriving);
  return {
    state: { ...state, length: shown, messages, calls, turn: null },
    partial: partial === null ? null : beginning(whole, Math.round(whole.length * partial.share)),
  };
}

function stateOf(id: string, state: TurnCall["state"]): TurnCall {
  return { ...unanswered, id, name: "", state, attempts: 1 };
}

function lastReply(messages: ReadonlyMap<number, Message>, length: number): number {
  for (let index = length - 1; index >= 0; index -= 1) {
    const role = messages.get(index)?.role;
    if (role === "assistant") return index;
    if (role === undefined) break;
  }
  return -1;
}
