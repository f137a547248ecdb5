// Finds cancels that other processes have stored for the turns driven here (H6). One watch serves all turns: after a
// write to `cancels` the table is read once, at most every `pollMs`, so the cost does not grow with the number of
// turns. The table holds only unsettled cancels. A turn that this process accepts is watched from before its batch is
// written (`expect`), so the table is not read when its drive begins. A read that fails is repeated, and so is one
// without an answer: one lost answer must not delay a cancel until the connection times out.

import type { Clock } from "../../core/engine/internal.ts";
import type { HostStorage, Key, Row } from "../rows/storage.ts";

import { ChangeSignal } from "../rows/change-signal.ts";
import { readOne } from "./context.ts";

/** The shortest time between two reads of the table `cancels`, in milliseconds. */
const pollMs = 100;

/**
 * How long the answer to a read is awaited before the table is read again, in milliseconds. Doubled up to
 * `longestAnswerMs`, so that a slow storage is not flooded.
 */
const firstAnswerMs = 400;
const longestAnswerMs = 6400;
/** How many reads may be without an answer at a time. */
const maxUnanswered = 5;

/** Delivers each stored cancel of a watched turn once. */
export class CancelWatch {
  readonly #storage: HostStorage;
  readonly #clock: Clock;
  /** Callbacks of the watched turns, by the JSON of the turn's key. */
  readonly #turns = new Map<string, (row: Row) => void>();
  /** Turns that are about to be stored, and their cancels. */
  readonly #expected = new Map<string, Row | null>();
  #watching: AbortController | null = null;
  #changes: ChangeSignal | null = null;
  readonly #unanswered = new Set<Promise<"done" | "failed">>();

  constructor(storage: HostStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /**
   * Begins to watch a turn before it is stored. Call the returned function when `watch` was called for the turn, or
   * when the turn was not stored.
   */
  expect(turn: Key): () => void {
    const name = JSON.stringify(turn);
    this.#expected.set(name, null);
    this.#begin();
    return () => {
      this.#expected.delete(name);
      this.#endIfUnused();
    };
  }

  /** Calls back once with the cancel row of the turn, when there is one. Returns the function that ends the watch. */
  watch(turn: Key, onCancel: (row: Row) => void): () => void {
    const name = JSON.stringify(turn);
    this.#turns.set(name, onCancel);
    this.#begin();
    const expected = this.#expected.get(name);
    if (expected === undefined) this.#readFirst(turn);
    else if (expected !== null) this.#deliver(name, expected);
    return () => {
      // Compares the callback: a later drive of the same turn may have replaced it.
      if (this.#turns.get(name) === onCancel) this.#turns.delete(name);
      this.#endIfUnused();
    };
  }

  /** A cancel may have been stored between the load of the turn and the start of the watch. */
  #readFirst(turn: Key): void {
    readOne(this.#storage, { table: "cancels", prefix: turn }).then(
      (row) => row !== null && this.#deliver(JSON.stringify(turn), row),
      () => this.#changes?.notify(),
    );
  }

  #begin(): void {
    if (this.#watching !== null) return;
    this.#watching = new AbortController();
    this.#watch(this.#watching.signal).catch(() => undefined);
  }

  #endIfUnused(): void {
    if (this.#turns.size + this.#expected.size > 0) return;
    this.#watching?.abort();
    this.#watching = null;
  }

  #deliver(name: string, row: Row): void {
    if (this.#expected.has(name)) this.#expected.set(name, row);
    const onCancel = this.#turns.get(name);
    this.#turns.delete(name);
    try {
      onCancel?.(row);
    } catch {
      // A row that cannot be read cancels nothing, and must not prevent the delivery of other cancels.
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const changes = new ChangeSignal(this.#storage, null, ["cancels"]);
    this.#changes = changes;
    signal.addEventListener("abort", changes.notify);
    try {
      for (let answerMs = firstAnswerMs; ;) {
        await changes.changed();
        changes.clear();
        if (signal.aborted) return;
        const read = await this.#read(answerMs, signal);
        answerMs = read === "unanswered" ? Math.min(longestAnswerMs, 2 * answerMs) : firstAnswerMs;
        // The storage does not report the same write again, so the read is repeated after the pause.
        if (read !== "done") changes.notify();
        await this.#clock.sleep(pollMs, signal).catch(() => undefined);
      }
    } finally {
      changes.stop();
      signal.removeEventListener("abort", changes.notify);
    }
  }

  /**
   * Reads the table and delivers its cancels. Waits at most `answerMs` for the answer; a later answer is still
   * delivered.
   */
  async #read(answerMs: number, signal: AbortSignal): Promise<"done" | "failed" | "unanswered"> {
    const waiting = new AbortController();
    const stopWaiting = (): void => waiting.abort();
    signal.addEventListener("abort", stopWaiting);
    if (this.#unanswered.size >= maxUnanswered) await Promise.race(this.#unanswered);
    const read = this.#storage
      .read([{ table: "cancels", prefix: [] }])
      .then(
        ([rows = []]) => {
          for (const row of rows) this.#deliver(JSON.stringify(row.key), row);
          return "done" as const;
        },
        () => "failed" as const,
      )
      .finally(() => this.#unanswered.delete(read));
    this.#unanswered.add(read);
    const timeout = this.#clock.sleep(answerMs, waiting.signal).then(
      () => "unanswered" as const,
      () => "unanswered" as const,
    );
    try {
      return await Promise.race([read, timeout]);
    } finally {
      waiting.abort();
      signal.removeEventListener("abort", stopWaiting);
    }
  }
}
