// Remembers which pinned configurations this process has stored. All turns with one configuration share a row of
// `contents`. Each accepted turn would rewrite it, and on a storage with many writers the batches would wait for each
// other. So a process writes the row once in `trustMs`, and its other batches only check that the row exists and has
// not expired.
//
// Safety against `work/collect.ts`, which removes expired rows that no open turn uses
//   The check is part of the batch that accepts the turn, so the row exists when the turn is stored. From then on the
//   turn is open, which keeps the row. After the turn has ended, its row is kept for at least two retention times and
//   half a day, because rows live half a day longer than `trustMs`. If the row is missing or expired, the check fails,
//   and the acceptance is repeated with the row.

import type { Clock } from "../../core/clock/clock.ts";
import type { NewTurn } from "./session-write.ts";

import { monotonicNow } from "../../core/clock/clock.ts";

/**
 * How long a row that this process has written is only checked, in milliseconds. Rows live one day longer than they are
 * needed (`drive/new-turn.ts`).
 */
const trustMs = 43_200_000;

/** How many configurations are remembered; the oldest is dropped. */
const limit = 1000;

export class StoredPinned {
  readonly #clock: Clock;
  /** When the row was written, on the monotonic clock, by tenant and digest. */
  readonly #written = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns whether this process has stored the configuration of the turn a short time ago. */
  has(tenant: string, { start }: Pick<NewTurn, "start">): boolean {
    const writtenAt = this.#written.get(cacheName(tenant, start.pinned));
    return writtenAt !== undefined && monotonicNow(this.#clock) < writtenAt + trustMs;
  }

  /** Records that the row was written. Call it after the batch succeeded; `sentAt` is a time before it was sent. */
  add(tenant: string, { start }: Pick<NewTurn, "start">, sentAt: number): void {
    this.#written.set(cacheName(tenant, start.pinned), sentAt);
    const [oldest] = this.#written.keys();
    if (this.#written.size > limit && oldest !== undefined) this.#written.delete(oldest);
  }

  /** The row is missing or has expired. */
  forget(tenant: string, { start }: Pick<NewTurn, "start">): void {
    this.#written.delete(cacheName(tenant, start.pinned));
  }
}

function cacheName(tenant: string, digest: string): string {
  return JSON.stringify([tenant, digest]);
}
