// Channels from the turns that this process drives to readers in this process. A channel has the newest stored events
// and the live events of the open attempt, so a local reader needs no read of the storage while it keeps up. Readers
// pull; a channel never waits for a reader, and a slow reader costs no memory of its own (it falls back to the
// storage).

import type { NumberedEvent } from "../rows/session-write.ts";

import { LiveTail } from "./live.ts";

/**
 * How many stored events a channel keeps in memory, and their length in characters; older ones are read from the
 * storage.
 */
const maxRecentEvents = 1024;
const maxRecentLength = 1_048_576;

/** The events of one turn that is driven here. */
export class Channel {
  /** Live events since the last commit. */
  readonly tail: LiveTail;
  readonly turn: string;
  #sequence: number;
  #recent: NumberedEvent[];
  /** The length of `#recent`, in characters. */
  #recentLength: number;
  readonly #listeners = new Set<() => void>();

  /** `recent`: the newest stored events, up to `sequence`, as far as this process has them. */
  constructor(turn: string, sequence: number, recent: readonly NumberedEvent[] = []) {
    this.turn = turn;
    this.#recent = [...recent];
    this.#recentLength = lengthOf(recent);
    this.#sequence = sequence;
    this.tail = new LiveTail(sequence);
  }

  /** The sequence number of the newest stored event. */
  get sequence(): number {
    return this.#sequence;
  }

  /**
   * The stored events after a sequence number, of at most `maxLength` characters together, and at least one; `null`:
   * some are not in memory, and the reader has to use the storage.
   */
  eventsAfter(sequence: number, maxLength: number): readonly NumberedEvent[] | null {
    if (sequence >= this.#sequence) return [];
    const first = this.#recent[0]?.sequence ?? this.#sequence + 1;
    if (sequence + 1 < first) return null;
    const start = sequence + 1 - first;
    let end = start;
    for (let length = 0; end < this.#recent.length; end += 1) {
      length += this.#recent[end]?.length ?? 0;
      if (end > start && length > maxLength) break;
    }
    return this.#recent.slice(start, end);
  }

  /** Publishes events after their commit (H2), and clears the live events that they replace. */
  publish(events: readonly NumberedEvent[]): void {
    for (const event of events) {
      this.#recent.push(event);
      this.#recentLength += event.length;
      this.#sequence = event.sequence;
    }
    // Trimmed at twice the limit, so that the cost is amortised constant for each event.
    if (this.#recent.length > 2 * maxRecentEvents) this.#keep(maxRecentEvents);
    if (this.#recentLength > 2 * maxRecentLength) this.#keep(this.#recent.length);
    this.tail.clear(this.#sequence);
    this.wake();
  }

  /**
   * Drops the oldest events: all but the last `count`, and those that make the rest too long. The newest event is kept.
   */
  #keep(count: number): void {
    let start = Math.max(0, this.#recent.length - count);
    let length = lengthOf(this.#recent.slice(start));
    while (length > maxRecentLength && start < this.#recent.length - 1) {
      length -= this.#recent[start]?.length ?? 0;
      start += 1;
    }
    this.#recent = this.#recent.slice(start);
    this.#recentLength = length;
  }

  /** Calls back when there may be something new. Returns the function that ends it. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Wakes the readers. */
  wake(): void {
    for (const listener of this.#listeners) listener();
  }
}

function lengthOf(events: readonly NumberedEvent[]): number {
  return events.reduce((sum, { length }) => sum + length, 0);
}

/** The channels of this process, by session name (`nameOf`). */
export class Hub {
  readonly #channels = new Map<string, Channel>();
  /** Callbacks of readers that wait for a session to be driven here. */
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Adds the channel of a turn that begins to be driven. */
  open(session: string, channel: Channel): void {
    this.#channels.set(session, channel);
    for (const listener of this.#waiting.get(session) ?? []) listener();
  }

  /** Removes a channel, unless a later one has replaced it, and wakes its readers: they continue from the storage. */
  close(session: string, channel: Channel): void {
    if (this.#channels.get(session) === channel) this.#channels.delete(session);
    channel.wake();
  }

  /** The channel of a session; `null`: this process does not drive it. */
  get(session: string): Channel | null {
    return this.#channels.get(session) ?? null;
  }

  /** Calls back when a turn of the session begins to be driven here. Returns the function that ends it. */
  onOpen(session: string, listener: () => void): () => void {
    const listeners = this.#waiting.get(session) ?? new Set();
    this.#waiting.set(session, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#waiting.get(session) === listeners) this.#waiting.delete(session);
    };
  }
}
