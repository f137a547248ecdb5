// Lets readers in other processes hear what is being said: what all turns of this process heard is written together, every few milliseconds or
// kilobytes, without waiting for the disk. It is dropped when it is settled: then entries say it.

import type { Clock } from "../engine/index.ts";
import type { LiveItem } from "./live.ts";
import type { Key, Put, HostStorage } from "./storage.ts";
import type { Piece } from "./stored.ts";

import { runTogether, textOf } from "./live.ts";
import { writeValue } from "./stored.ts";

export type PieceTimings = { readonly everyMs: number; readonly bytes: number };

export const pieceTimings: PieceTimings = { everyMs: 50, bytes: 4096 };

/** What one turn has to say. */
type Waiting = { readonly turn: Key; readonly after: number; readonly items: LiveItem[] };

/** Places of one epoch are all above those of the ones before, so that a reader who goes on misses nothing after a takeover. */
const placesAnEpoch = 1_000_000_000;

export class PieceWriter {
  readonly #events: HostStorage;
  readonly #clock: Clock;
  readonly #timings: PieceTimings | null;
  readonly #waiting = new Map<string, Waiting>();
  readonly #places = new Map<string, number>();
  /** Turns of which something is written that has not been settled. */
  readonly #written = new Set<string>();
  #bytes = 0;
  #timer: AbortController | null = null;
  #writing: Promise<void> = Promise.resolve();

  /** `null`: nobody elsewhere listens. */
  constructor(events: HostStorage, clock: Clock, timings: PieceTimings | null) {
    this.#events = events;
    this.#clock = clock;
    this.#timings = timings;
  }

  add(turn: Key, after: number, items: readonly LiveItem[]): void {
    if (this.#timings === null || items.length === 0) return;
    const name = JSON.stringify(turn);
    const waiting = this.#waiting.get(name);
    if (waiting?.after === after) waiting.items.push(...items);
    else this.#waiting.set(name, { turn, after, items: [...items] });
    for (const { event } of items) this.#bytes += textOf(event)?.delta.length ?? 64;
    if (this.#bytes >= this.#timings.bytes) this.flush();
    else if (this.#timer === null) this.#wait(this.#timings.everyMs);
  }

  /** What was heard of a turn has been settled: nothing of it is written any more. Says whether something had been. */
  async settle(turn: Key): Promise<boolean> {
    const name = JSON.stringify(turn);
    this.#waiting.delete(name);
    if (!this.#written.delete(name)) return false;
    await this.#writing;
    return true;
  }

  /** The turn is no longer driven here. */
  forget(turn: Key): void {
    const name = JSON.stringify(turn);
    this.#waiting.delete(name);
    this.#written.delete(name);
    this.#places.delete(name);
  }

  /** Writes what there is. */
  flush(): void {
    this.#timer?.abort();
    this.#timer = null;
    this.#bytes = 0;
    const puts: Put[] = [];
    for (const [name, { turn, after, items }] of this.#waiting) {
      for (const piece of piecesOf(items, after)) {
        const place = (this.#places.get(name) ?? piece.epoch * placesAnEpoch) + 1;
        this.#places.set(name, place);
        this.#written.add(name);
        puts.push({ table: "pieces", key: [...turn, place], tag: 0, value: writeValue("pieces", piece) });
      }
    }
    this.#waiting.clear();
    if (puts.length === 0) return;
    const batch = { checks: [], removals: [], puts, lasting: false };
    // What cannot be shown now is told when it is settled.
    const written = this.#events.write(batch).then(
      () => undefined,
      () => undefined,
    );
    this.#writing = Promise.all([this.#writing, written]).then(() => undefined);
  }

  #wait(ms: number): void {
    const timer = new AbortController();
    this.#timer = timer;
    this.#clock.sleep(ms, timer.signal).then(
      () => this.flush(),
      () => undefined,
    );
  }
}

/** Items of one try each, text run together. */
function piecesOf(items: readonly LiveItem[], after: number): readonly Piece[] {
  const pieces: (Piece & { readonly items: LiveItem[] })[] = [];
  for (const item of runTogether(items)) {
    const { effectId, epoch, n } = item;
    const last = pieces.at(-1);
    if (last?.effectId === effectId && last.epoch === epoch && last.n === n) last.items.push(item);
    else pieces.push({ effectId, epoch, n, after, items: [item] });
  }
  return pieces.map((piece) => ({
    ...piece,
    items: piece.items.map(({ part, offset, event }) => ({ part, offset, event })),
  }));
}
