// What this process knows about the sessions it drives, for readers in the same process: they need not ask the storage for what they can be told.

import type { NumberedEvent } from "../rows/session-write.ts";

import { LiveTail } from "./live.ts";

/** How many entries are kept at hand. */
const kept = 1024;

/** One session that is being driven here. */
export class Channel {
  readonly tail: LiveTail;
  readonly turn: string;
  #sequence: number;
  #recent: NumberedEvent[];
  readonly #listeners = new Set<() => void>();

  /** `recent`: the newest events of the log, up to `sequence`, as far as this process knows them. */
  constructor(turn: string, sequence: number, recent: readonly NumberedEvent[] = []) {
    this.turn = turn;
    this.#recent = [...recent];
    this.#sequence = sequence;
    this.tail = new LiveTail(sequence);
  }

  get sequence(): number {
    return this.#sequence;
  }

  /** Entries behind that one; `null` when they are not at hand. */
  behind(sequence: number): readonly NumberedEvent[] | null {
    if (sequence >= this.#sequence) return [];
    const first = this.#recent[0]?.sequence ?? this.#sequence + 1;
    return sequence + 1 < first ? null : this.#recent.slice(sequence + 1 - first);
  }

  publish(events: readonly NumberedEvent[]): void {
    for (const one of events) {
      this.#recent.push(one);
      this.#sequence = one.sequence;
    }
    if (this.#recent.length > 2 * kept) this.#recent = this.#recent.slice(-kept);
    this.tail.clear(this.#sequence);
    this.wake();
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  wake(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** All sessions that are being driven here, by their keys. */
export class Hub {
  readonly #channels = new Map<string, Channel>();
  readonly #waiting = new Map<string, Set<() => void>>();

  open(session: string, channel: Channel): void {
    this.#channels.set(session, channel);
    for (const listener of this.#waiting.get(session) ?? []) listener();
  }

  close(session: string, channel: Channel): void {
    if (this.#channels.get(session) === channel) this.#channels.delete(session);
    channel.wake();
  }

  get(session: string): Channel | null {
    return this.#channels.get(session) ?? null;
  }

  /** Calls back when that session begins to be driven here. */
  onOpen(session: string, listener: () => void): () => void {
    const listeners = this.#waiting.get(session) ?? new Set();
    this.#waiting.set(session, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#waiting.get(session) === listeners) this.#waiting.delete(session);
    };
  }
}
