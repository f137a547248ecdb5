// Lets readers in other processes hear what is being said: what all turns of this process heard is written together, every few milliseconds or
// kilobytes, without waiting for the disk. It is dropped when it is settled: then entries say it. Where very many turns speak at once it is written
// less often, so that readers elsewhere, who may not be there, never cost most of the time.

import type { Clock } from "../../engine/internal.ts";
import type { HostStorage, Key, Put, Removal } from "../rows/storage.ts";
import type { Piece } from "../rows/values.ts";
import type { LiveItem } from "./live.ts";

import { writeValue } from "../rows/stored.ts";
import { runTogether, textOf } from "./live.ts";

export type PieceTimings = { readonly everyMs: number; readonly bytes: number };

export const pieceTimings: PieceTimings = { everyMs: 50, bytes: 4096 };

/** How many turns are written of in a millisecond, on the average: more of them are written of less often. */
const turnsAMs = 4;

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
  /** What is written, by its turn: what has not been settled, and what is being dropped by the commit that settles it. */
  readonly #written = new Map<string, Key[]>();
  readonly #settling = new Map<string, readonly Key[]>();
  #bytes = 0;
  /** How many turns were written of the last time. */
  #turns = 0;
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
    if (this.#bytes >= this.#timings.bytes * this.#waiting.size) this.flush();
    else if (this.#timer === null) this.#wait(Math.max(this.#timings.everyMs, this.#turns / turnsAMs));
  }

  /** What was heard of a turn has been settled: nothing of it is written any more. Says whether something had been. */
  async settle(turn: Key): Promise<boolean> {
    const name = JSON.stringify(turn);
    this.#waiting.delete(name);
    const keys = this.#written.get(name);
    if (keys === undefined) return false;
    this.#written.delete(name);
    this.#settling.set(name, [...(this.#settling.get(name) ?? []), ...keys]);
    await this.#writing;
    return true;
  }

  /** What was settled is no longer there. */
  dropped(turn: Key): void {
    this.#settling.delete(JSON.stringify(turn));
  }

  /** The turn is no longer driven here. If somebody else has it, nobody there knows of what was written here: it is dropped. */
  forget(turn: Key): void {
    const name = JSON.stringify(turn);
    const left = [...(this.#settling.get(name) ?? []), ...(this.#written.get(name) ?? [])];
    for (const known of [this.#waiting, this.#written, this.#settling, this.#places]) known.delete(name);
    if (left.length === 0) return;
    const removals = left.map((prefix): Removal => ({ table: "pieces", prefix }));
    const batch = { checks: [], removals, puts: [], lasting: false };
    this.#writing = this.#writing
      .then(() => this.#events.write(batch))
      .then(
        () => undefined,
        () => undefined,
      );
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
        const key = [...turn, place];
        const keys = this.#written.get(name);
        if (keys === undefined) this.#written.set(name, [key]);
        else keys.push(key);
        puts.push({ table: "pieces", key, tag: 0, value: writeValue("pieces", piece) });
      }
    }
    this.#turns = this.#waiting.size;
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
