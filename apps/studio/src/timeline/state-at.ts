// The state of a conversation at a moment of a turn: which messages were committed, and how much of the open reply had
// arrived. The playhead of the timeline uses it.
//
// Messages are stored in the order of their commits: those that started the turn, then for each step the reply, its
// tool results, and input that arrived at the checkpoint. So the messages at a moment are always a prefix of the
// session. The journal stores when a reply began and ended, not when each token arrived: in between, its text grows
// evenly.

import type { Message } from "everturn";
import type { TimelineEffect } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { isReply } from "../inspector/effect-parts.ts";

/** The conversation at a moment. */
export type ConversationState = {
  /** The number of messages of the session that were committed at that moment. */
  readonly length: number;
  /**
   * The reply that was arriving: the index of its message, and the share of its text that had arrived, from 0 to 1;
   * `null`: none.
   */
  readonly partial: { readonly index: number; readonly share: number } | null;
  /** An attempt that was later discarded was running: its text is not stored. */
  readonly isDiscardedAttempt: boolean;
  /** The ids of the tool calls that were running. */
  readonly runningCalls: readonly string[];
  /** The ids of the tool calls that waited for a person. */
  readonly waitingCalls: readonly string[];
};

/**
 * The conversation of a session at a moment of a turn.
 *
 * @param timeline All rows of the turn.
 * @param messages The messages of the turn: those of the session from the index `timeline.turn.base` on. Messages of
 * later turns may follow.
 * @param at The moment, in milliseconds since the turn was accepted.
 */
export function conversationAt(timeline: TurnTimeline, messages: readonly Message[], at: number): ConversationState {
  const { turn, effects } = timeline;
  const moment = turn.acceptedAt + at;
  const times = commitTimes(timeline, messages);
  const length = turn.base + countWhile(times, (time) => time <= moment);
  const running = effects.filter((effect) => isRunning(effect, moment));
  const reply = running.find(({ kind }) => kind === "model");
  return {
    length,
    partial: reply === undefined ? null : partialOf(reply, messages, length - turn.base, turn.base, moment),
    isDiscardedAttempt: effects.some(({ discarded }) =>
      discarded.some(({ startedAt, endedAt }) => isBetween(startedAt, endedAt, moment)),
    ),
    runningCalls: running.flatMap(({ kind, toolCallId }) =>
      kind === "tool" && toolCallId !== null ? [toolCallId] : [],
    ),
    waitingCalls: effects.flatMap(({ state, toolCallId, endedAt }) =>
      state === "waits" && toolCallId !== null && (endedAt ?? 0) <= moment ? [toolCallId] : [],
    ),
  };
}

/**
 * When each message was committed. Never decreases: a message whose row is not found has the time of the one before.
 */
function commitTimes({ turn, effects }: TurnTimeline, messages: readonly Message[]): readonly number[] {
  const replies = effects.filter(isReply);
  const checkpoints = effects.filter(({ kind, text }) => kind === "checkpoint" && text !== "");
  let time = turn.acceptedAt;
  let replied = 0;
  let delivered = 0;
  return messages.map((message) => {
    let row: TimelineEffect | undefined;
    if (message.role === "assistant") {
      row = replies[replied];
      replied += 1;
    } else if (message.role === "tool") {
      row = effects.findLast(({ toolCallId, state }) => toolCallId === message.toolCallId && state !== "superseded");
    } else if (replied > 0) {
      // Input that arrived during the turn: the next checkpoint that delivered some.
      row = checkpoints[Math.min(delivered, checkpoints.length - 1)];
      delivered += 1;
    }
    if (message.role === "assistant" && row === undefined) {
      // A message of a later turn, or of a reply that is not committed yet.
      time = Number.POSITIVE_INFINITY;
    }
    time = Math.max(time, row?.endedAt ?? time);
    return time;
  });
}

function isRunning({ startedAt, endedAt }: TimelineEffect, moment: number): boolean {
  return isBetween(startedAt, endedAt, moment);
}

function isBetween(start: number | null, end: number | null, moment: number): boolean {
  return start !== null && end !== null && start <= moment && moment < end;
}

function partialOf(
  { firstAt, endedAt }: TimelineEffect,
  messages: readonly Message[],
  committed: number,
  base: number,
  moment: number,
): ConversationState["partial"] {
  if (messages[committed]?.role !== "assistant" || endedAt === null) return null;
  const share = firstAt === null || moment < firstAt ? 0 : (moment - firstAt) / Math.max(1, endedAt - firstAt);
  return { index: base + committed, share: Math.min(1, share) };
}

function countWhile<T>(items: readonly T[], holds: (item: T) => boolean): number {
  const first = items.findIndex((item) => !holds(item));
  return first === -1 ? items.length : first;
}
