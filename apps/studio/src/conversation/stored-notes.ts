// Notes between the messages of a conversation, from stored timelines: attempts that were thrown away, with their text,
// waits between attempts, and takeovers. Events report the same while a turn runs (session-store.ts), but a page that
// is opened later does not receive them. Pure.

import type { Recovery } from "./recovery-text.ts";
import type { LiveNote } from "./session-store.ts";
import type { Message } from "everturn";
import type { DiscardedAttempt, TimelineEffect } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { isReply } from "../inspector/effect-parts.ts";
import { recoveriesOf } from "./recovery-text.ts";

/** Notes by the index of the message that they precede. */
export type Notes = ReadonlyMap<number, readonly LiveNote[]>;

/**
 * The notes of a turn.
 *
 * @param messages The loaded messages by their index. A note before a message that is not loaded is left out.
 * @param until The index after the last message of the turn.
 */
export function storedNotes(timeline: TurnTimeline, messages: ReadonlyMap<number, Message>, until: number): Notes {
  const { effects, turn } = timeline;
  const replies = effects.filter(isReply);
  const indexes = replyIndexes(messages, turn.base, until, replies.length);
  const recoveries = new Map(recoveriesOf(timeline).map((recovery) => [recovery.epoch, recovery]));
  const notes = new Map<number, LiveNote[]>();
  for (const effect of effects) {
    if (effect.kind !== "model") continue;
    const recovery = recoveries.get(effect.epoch) ?? null;
    const ofEffect = notesOf(effect, recovery);
    if (effect.discarded.some(({ reason }) => reason === "crash")) recoveries.delete(effect.epoch);
    if (ofEffect.length === 0) continue;
    // A call that failed or was superseded has no message: its notes precede the next reply, or follow the last
    // message.
    const next = replies.findIndex(({ ordinal }) => ordinal >= effect.ordinal);
    const index = next === -1 ? until : indexes.get(next);
    if (index !== undefined) notes.set(index, [...(notes.get(index) ?? []), ...ofEffect]);
  }
  // Takeovers that interrupted no model call.
  for (const { text, ordinal } of recoveries.values()) {
    const effect = effects.find((other) => other.ordinal === ordinal);
    if (effect === undefined) {
      // The new process has recorded nothing yet.
      notes.set(until, [...(notes.get(until) ?? []), { type: "recovered", line: text }]);
      continue;
    }
    const isCall = effect.kind === "tool";
    const next = replies.findIndex((reply) => reply.ordinal >= effect.ordinal);
    const before = replies.findLastIndex((reply) => reply.ordinal < effect.ordinal);
    // A tool that the new process has run is shown in the card of its reply: the line follows the card.
    const after = before === -1 ? turn.base - 1 : indexes.get(before);
    const index = isCall ? (after === undefined ? undefined : after + 1) : next === -1 ? until : indexes.get(next);
    if (index !== undefined) notes.set(index, [{ type: "recovered", line: text }, ...(notes.get(index) ?? [])]);
  }
  return notes;
}

function notesOf(effect: TimelineEffect, recovery: Recovery | null): readonly LiveNote[] {
  const discarded = effect.discarded.flatMap((attempt, position) => {
    if (attempt.reason === "retry") return retryNotes(attempt);
    // Several processes may have died one after the other: only the takeover that succeeded has a line.
    const isLast = !effect.discarded.some(({ reason }, other) => reason === "crash" && other > position);
    if (attempt.text === "" && !isLast) return [];
    if (attempt.text === "" && recovery !== null) return [{ type: "recovered", line: recovery.text } as const];
    return [discardedNote("recovery", wholeText(attempt), recovery?.text ?? null)];
  });
  return effect.state === "superseded" ? [...discarded, discardedNote("restart", effect.text, null)] : discarded;
}

function retryNotes(attempt: DiscardedAttempt): readonly LiveNote[] {
  const text = attempt.text === "" ? [] : [discardedNote("retry", wholeText(attempt), null)];
  const { failure, delayMs, attempt: number } = attempt;
  return failure === null ? text : [...text, { type: "retry", failure, delayMs, attempt: number }];
}

function discardedNote(reason: "retry" | "recovery" | "restart", text: string, line: string | null): LiveNote {
  return { type: "discarded", reason, text, isReplaced: true, line };
}

/** The stored text of an attempt, and how much of it was not stored. */
function wholeText({ text, textLength }: DiscardedAttempt): string {
  const missing = textLength - text.length;
  return missing > 0 ? `${text}\n\n… ${missing.toLocaleString("en")} more characters were not stored` : text;
}

/**
 * The index of the message of each reply of a turn, as far as the messages between it and one end of the turn are
 * loaded.
 *
 * @param count The number of replies of the turn.
 */
export function replyIndexes(
  messages: ReadonlyMap<number, Message>,
  base: number,
  until: number,
  count: number,
): ReadonlyMap<number, number> {
  const indexes = new Map<number, number>();
  let reply = 0;
  let index = base;
  for (; index < until; index += 1) {
    const role = messages.get(index)?.role;
    if (role === undefined) break;
    if (role !== "assistant") continue;
    indexes.set(reply, index);
    reply += 1;
  }
  if (index === until) return indexes;
  reply = count - 1;
  for (let last = until - 1; last > index; last -= 1) {
    const role = messages.get(last)?.role;
    if (role === undefined) break;
    if (role !== "assistant") continue;
    indexes.set(reply, last);
    reply -= 1;
  }
  return indexes;
}

/** The notes before a message. What is stored replaces what events have reported about attempts. */
export function notesAt(
  live: readonly LiveNote[] | undefined,
  stored: readonly LiveNote[] | undefined,
): readonly LiveNote[] {
  if (stored === undefined || stored.length === 0) return live ?? [];
  return [...stored, ...(live ?? []).filter(({ type }) => type === "warning" || type === "failure")];
}
