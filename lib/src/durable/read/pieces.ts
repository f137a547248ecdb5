// Writes live events to the table `pieces`, for readers in other processes.
//
// Theory of operation
//   `add` buffers the live events of all turns of this process. They are written together in one batch, `everyMs` after
//   the first of them, or sooner when `bytes` characters per turn are buffered. The batch is not flushed to disk and
//   not fenced by the lease, because a lost or superfluous piece is harmless: the stored event repeats the text. With
//   many turns the interval grows to `turns / turnsPerMs`, which bounds the share of time that is spent on readers that
//   may not exist. A commit removes the pieces that its events replace: `settle` before the batch, `dropped` after it.
//
// Invariants
//   1. A write failure loses live text only; readers get it with the stored event.
//   2. Positions of a turn grow across takeovers, because they begin at epoch * `positionsPerEpoch`. A reader that
//      continues after a position misses nothing of the next holder.

import type { Clock } from "../../core/engine/internal.ts";
import type { HostStorage, Key, Put, Query, Removal } from "../rows/storage.ts";
import type { Piece } from "../rows/values.ts";
import type { LiveItem } from "./live.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { deltaText } from "../../core/model/internal.ts";
import { writeValue } from "../rows/stored.ts";
import { mergeDeltas } from "./live.ts";

/** When pieces are written: every `everyMs` milliseconds, or when `bytes` characters per turn are buffered. */
export type PieceTimings = { readonly everyMs: number; readonly bytes: number };

/** The default timings. */
export const pieceTimings: PieceTimings = { everyMs: 50, bytes: 4096 };

/** The average number of turns that are written in a millisecond: 1,000 turns are written every 250 ms. */
const turnsPerMs = 4;

/** Buffered live events of one turn, which follow the stored event `after`. */
type Unwritten = { readonly turn: Key; readonly after: number; readonly items: LiveItem[] };

/** The positions of an epoch are above those of all earlier epochs (invariant 2). */
const positionsPerEpoch = 1_000_000_000;

/** The writer of live text, one for each runtime. */
export class PieceWriter {
  readonly #storage: HostStorage;
  readonly #clock: Clock;
  readonly #timings: PieceTimings | null;
  readonly #unwritten = new Map<string, Unwritten>();
  readonly #positions = new Map<string, number>();
  /** Keys of written pieces that are not settled yet, by turn. */
  readonly #written = new Map<string, Key[]>();
  /** Keys of pieces that a commit in progress removes, by turn. */
  readonly #settling = new Map<string, readonly Key[]>();
  /** Buffered characters; an event without text counts 64. */
  #bytes = 0;
  /** The number of turns in the last write. */
  #turns = 0;
  #timer: AbortController | null = null;
  /** When events were buffered while there were none, on the monotonic clock. */
  #since = 0;
  #writing: Promise<void> = Promise.resolve();

  /** `timings` is `null`: nothing is written. */
  constructor(storage: HostStorage, clock: Clock, timings: PieceTimings | null) {
    this.#storage = storage;
    this.#clock = clock;
    this.#timings = timings;
  }

  /** Buffers live events that follow the stored event `after`. */
  add(turn: Key, after: number, items: readonly LiveItem[]): void {
    if (this.#timings === null || items.length === 0) return;
    const name = JSON.stringify(turn);
    const unwritten = this.#unwritten.get(name);
    if (this.#unwritten.size === 0) {
      this.#since = monotonicNow(this.#clock);
      this.#bytes = 0;
    }
    if (unwritten?.after === after) unwritten.items.push(...items);
    else this.#unwritten.set(name, { turn, after, items: [...items] });
    for (const { event } of items) this.#bytes += deltaText(event)?.delta.length ?? 64;
    if (this.#bytes >= this.#timings.bytes * this.#unwritten.size) this.flush();
    else if (this.#timer === null) this.#wait(this.#delayMs(this.#timings));
  }

  /**
   * Call it before the commit that settles an attempt: drops buffered events, and waits for writes in flight. Returns
   * whether pieces were written, which the commit then removes.
   */
  async settle(turn: Key): Promise<boolean> {
    const name = JSON.stringify(turn);
    this.#unwritten.delete(name);
    const keys = this.#written.get(name);
    if (keys === undefined) return false;
    this.#written.delete(name);
    this.#settling.set(name, [...(this.#settling.get(name) ?? []), ...keys]);
    await this.#writing;
    return true;
  }

  /** Call it after that commit: its pieces are removed. */
  dropped(turn: Key): void {
    this.#settling.delete(JSON.stringify(turn));
  }

  /**
   * Call it when the turn is no longer driven here. Removes pieces that no commit has removed: the next holder does not
   * know their keys.
   */
  forget(turn: Key): void {
    const name = JSON.stringify(turn);
    const remaining = [...(this.#settling.get(name) ?? []), ...(this.#written.get(name) ?? [])];
    for (const map of [this.#unwritten, this.#written, this.#settling, this.#positions]) map.delete(name);
    if (remaining.length === 0) return;
    const removals = remaining.map((prefix): Removal => ({ table: "pieces", prefix }));
    const batch = { checks: [], removals, puts: [], lasting: false };
    this.#writing = this.#writing
      .then(() => this.#storage.write(batch))
      .then(
        () => undefined,
        () => undefined,
      );
  }

  /** Writes all buffered events now. */
  flush(): void {
    this.#timer?.abort();
    this.#timer = null;
    this.#bytes = 0;
    const puts: Put[] = [];
    for (const [name, { turn, after, items }] of this.#unwritten) {
      for (const piece of piecesOf(items, after)) {
        const position = (this.#positions.get(name) ?? piece.epoch * positionsPerEpoch) + 1;
        this.#positions.set(name, position);
        const key = [...turn, position];
        const keys = this.#written.get(name);
        if (keys === undefined) this.#written.set(name, [key]);
        else keys.push(key);
        puts.push({ table: "pieces", key, tag: 0, value: writeValue("pieces", piece) });
      }
    }
    this.#turns = this.#unwritten.size;
    this.#unwritten.clear();
    if (puts.length === 0) return;
    const batch = { checks: [], removals: [], puts, lasting: false };
    // A failed write is ignored (invariant 1).
    const written = this.#storage.write(batch).then(
      () => undefined,
      () => undefined,
    );
    this.#writing = Promise.all([this.#writing, written]).then(() => undefined);
  }

  /** Writes after a delay. */
  #wait(ms: number): void {
    const timer = new AbortController();
    this.#timer = timer;
    this.#clock.sleep(ms, timer.signal).then(
      () => this.#due(),
      () => undefined,
    );
  }

  /**
   * Writes if the buffered events have waited long enough. The events for which the timer was started may have been
   * settled since: the replies of quick steps are never written.
   */
  #due(): void {
    this.#timer = null;
    if (this.#timings === null || this.#unwritten.size === 0) return;
    const restMs = this.#since + this.#delayMs(this.#timings) - monotonicNow(this.#clock);
    if (restMs > 0) this.#wait(restMs);
    else this.flush();
  }

  #delayMs({ everyMs }: PieceTimings): number {
    return Math.max(everyMs, this.#turns / turnsPerMs);
  }
}

/** The query for the pieces of a turn that were written before an epoch. `turn`: the key of the turn. */
export function piecesBefore(turn: Key, epoch: number): Query {
  return { table: "pieces", prefix: turn, before: epoch * positionsPerEpoch };
}

/** Splits items into pieces of one attempt each, with merged deltas. */
function piecesOf(items: readonly LiveItem[], after: number): readonly Piece[] {
  const pieces: (Piece & { readonly items: LiveItem[] })[] = [];
  for (const item of mergeDeltas(items)) {
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
