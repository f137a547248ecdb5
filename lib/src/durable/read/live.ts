// Live events of a turn: deltas of a reply that is not settled, tools that started, progress, retries. They are not
// stored in the event log. The tail holds them until the next commit, so that a reader that connects late or reconnects
// gets the missing ones and none twice.
//
// Every delta gets a part and an offset: the part of the reply it belongs to, and the number of characters of that part
// before it. A reader compares offsets instead of counting events, so merged deltas, repeated deltas and deltas read
// from pieces are all handled alike.
//
// Bounds: text is kept completely, as merged deltas; of the other events the newest `maxItems / 2` are kept. Readers
// pull, so there is no backpressure on the turn.

import type { TurnEvent } from "../../core/model/internal.ts";
import type { LiveOrigin } from "../../core/run/internal.ts";
import type { PieceItem } from "../rows/values.ts";

import { deltaText, ReplyParts } from "../../core/model/internal.ts";

/** A live event with its attempt and, if it is text, with its part of the reply and its offset there. */
export type LiveItem = PieceItem & { readonly effectId: string; readonly epoch: number; readonly n: number };

/** The tail is compacted when it has twice this many items. */
const maxItems = 4096;

/**
 * The live events since the last commit. A place is the index of an item in the sequence of all items of the tail;
 * places only grow.
 */
export class LiveTail {
  /** The sequence number of the stored event that the items follow. */
  after: number;
  #items: LiveItem[] = [];
  /** The place of the first item. */
  #first = 0;
  #parts = new ReplyParts();
  #origin: LiveOrigin | null = null;

  constructor(after: number) {
    this.after = after;
  }

  /** The number of the newest attempt at an effect that produced a live event; 1: none did. */
  attemptOf(effectId: string): number {
    return this.#origin?.effectId === effectId ? this.#origin.attempt.n : 1;
  }

  /** The attempt that produced the last live event; `null`: there was none. */
  get lastAttempt(): { readonly effectId: string; readonly epoch: number; readonly n: number } | null {
    return this.#origin === null ? null : { effectId: this.#origin.effectId, ...this.#origin.attempt };
  }

  /** Appends events of an attempt, and returns them with their parts and offsets. */
  add(events: readonly TurnEvent[], of: LiveOrigin): readonly LiveItem[] {
    if (this.#origin === null || !isSameAttempt(this.#origin, of)) this.#parts = new ReplyParts();
    this.#origin = of;
    const { effectId, attempt } = of;
    const items = events.map((event): LiveItem => ({ effectId, ...attempt, ...this.#parts.locate(event), event }));
    for (const item of items) this.#items.push(item);
    if (this.#items.length > 2 * maxItems) this.#shrink();
    return items;
  }

  /** The items from a place on, at most `limit`, and the place after the last one. */
  from(place: number, limit = Infinity): { readonly items: readonly LiveItem[]; readonly next: number } {
    const end = this.#first + this.#items.length;
    if (place >= end) return { items: [], next: end };
    const start = Math.max(0, place - this.#first);
    const items = this.#items.slice(start, start + limit);
    return { items, next: this.#first + start + items.length };
  }

  /** Drops all items: a commit has stored events that replace them. */
  clear(after: number): void {
    this.#first += this.#items.length;
    this.#items = [];
    this.after = after;
  }

  /**
   * Compacts the tail: merges adjacent deltas, then drops the oldest events without text, then groups deltas by part.
   * Called when the tail has doubled, so the cost is amortised constant for each event.
   */
  #shrink(): void {
    let compacted = mergeDeltas(this.#items);
    if (compacted.length > maxItems) {
      const others = compacted.filter(({ part }) => part === null);
      const recent = new Set(others.slice(-maxItems / 2));
      compacted = mergeDeltas(compacted.filter((item) => item.part !== null || recent.has(item)));
    }
    const isInterleaved = compacted.length > maxItems;
    if (isInterleaved) compacted = groupByPart(compacted);
    // The last place stays the same, so a reader that has read everything reads nothing again. If the items were
    // reordered, all of them get new places; readers read them again and skip the text they have, by its offset.
    this.#first += this.#items.length - (isInterleaved ? 0 : compacted.length);
    this.#items = compacted;
  }
}

function isSameAttempt(left: LiveOrigin, right: LiveOrigin): boolean {
  const [a, b] = [left.attempt, right.attempt];
  return left.effectId === right.effectId && a.epoch === b.epoch && a.n === b.n;
}

/** The event with its text replaced. */
export function withText(event: TurnEvent, delta: string): TurnEvent {
  switch (event.type) {
    case "text_delta":
    case "reasoning_delta":
      return { ...event, delta };
    case "tool_call_delta":
      return { ...event, argumentsDelta: delta };
    default:
      return event;
  }
}

/**
 * Groups the deltas of each part at the position of its first delta, and merges them. For replies whose parts alternate
 * often.
 */
function groupByPart(items: readonly LiveItem[]): LiveItem[] {
  const parts = new Map<string, LiveItem[]>();
  for (const [index, item] of items.entries()) {
    const { effectId, epoch, n, part } = item;
    const name = part === null ? `${index}` : JSON.stringify([effectId, epoch, n, part]);
    const group = parts.get(name);
    if (group === undefined) parts.set(name, [item]);
    else group.push(item);
  }
  return mergeDeltas([...parts.values()].flat());
}

/** Merges adjacent deltas of one part of one attempt. */
export function mergeDeltas(items: readonly LiveItem[]): LiveItem[] {
  const merged: LiveItem[] = [];
  for (const item of items) {
    const last = merged.at(-1);
    const [previous, added] = [last === undefined ? null : deltaText(last.event), deltaText(item.event)];
    const isMergeable =
      last !== undefined &&
      previous !== null &&
      added !== null &&
      last.part === item.part &&
      last.effectId === item.effectId &&
      last.epoch === item.epoch &&
      last.n === item.n;
    if (isMergeable) merged[merged.length - 1] = { ...last, event: withText(last.event, previous.delta + added.delta) };
    else merged.push(item);
  }
  return merged;
}
