// Resource limits of the HTTP handler, and the counter that enforces the concurrency limits.
//
// A client can use memory, connections and processing time only up to these limits. Sizes (`bodyBytes`, `idLength`, `pageSize`,
// `pageLength`) are enforced where the value is read; `bufferBytes`, `slowReaderMs` and `heartbeatMs` in sse.ts; the four
// concurrency limits by `ConcurrencyLimit` below.
//
// Invariants
//   1. A concurrency limit rejects with 429 and `Retry-After`; it never queues. A queue would hold sockets and bodies of
//      clients that may have disconnected.
//   2. A slot is released exactly once, on every path: `acquire` returns an idempotent release function.

import { MisuseError } from "../model/internal.ts";
import { HttpError } from "./failure.ts";

/** Limits on what clients can consume. {@link defaultHttpLimits} holds the defaults. Every limit is a number of 1 or more. */
export type HttpLimits = {
  /** The size of a request body, in bytes. Default: 1,048,576. Larger bodies get 413 (`body_too_large`). */
  readonly bodyBytes: number;
  /**
   * Concurrent requests of all callers. Streams, requests that wait for a turn, and routes without authentication
   * are counted separately. Default: 512. Further requests get 429.
   */
  readonly requests: number;
  /** Concurrent streams and waiting requests of all callers. Default: 10,000. Further ones get 429. */
  readonly streams: number;
  /** Concurrent streams and waiting requests of one tenant. Default: 2,000. Further ones get 429. */
  readonly streamsPerTenant: number;
  /** Turns of one tenant that were started here and have not ended. Default: 2,000. Further ones get 429. */
  readonly turnsPerTenant: number;
  /**
   * Bytes buffered for a slow reader. At the limit the stream is paused until the reader catches up (backpressure).
   * Default: 16,384.
   */
  readonly bufferBytes: number;
  /**
   * A reader that accepts no data for this many milliseconds is disconnected. It can resume with its cursor.
   * Default: 30,000.
   */
  readonly slowReaderMs: number;
  /** The interval of heartbeats on an idle stream, in milliseconds. Default: 15,000. */
  readonly heartbeatMs: number;
  /** The length of an id, an idempotency key or a cursor, in characters. Default: 256. Longer ones are rejected. */
  readonly idLength: number;
  /** Items per page. Default: 200. A request for more items gets this many. */
  readonly pageSize: number;
  /**
   * The approximate size of a page, in characters. A page that would be larger has fewer items. Default: 4,194,304.
   */
  readonly pageLength: number;
  /** The longest wait for a result (`Prefer: wait`), in seconds. Default: 60. Longer waits are shortened to it. */
  readonly waitSeconds: number;
};

/** The default limits of the HTTP handler. */
export const defaultHttpLimits: HttpLimits = {
  bodyBytes: 1_048_576,
  requests: 512,
  streams: 10_000,
  streamsPerTenant: 2000,
  turnsPerTenant: 2000,
  bufferBytes: 16_384,
  slowReaderMs: 30_000,
  heartbeatMs: 15_000,
  idLength: 256,
  pageSize: 200,
  pageLength: 4_194_304,
  waitSeconds: 60,
};

/** Merges the operator's limits with the defaults. Throws `MisuseError` for an unknown name or a value below 1. */
export function checkedLimits(overrides: Partial<HttpLimits>): HttpLimits {
  const limits = { ...defaultHttpLimits, ...overrides };
  for (const [name, value] of Object.entries(limits)) {
    if (!(name in defaultHttpLimits)) {
      const validNames = Object.keys(defaultHttpLimits).join(", ");
      throw new MisuseError("unknown_field", `limits: unknown limit ${name}; the limits are ${validNames}`, {
        path: ["limits", name],
      });
    }
    if (typeof value === "number" && value >= 1) continue;
    throw new MisuseError("invalid_argument", `limits: ${name} must be a number of 1 or more, not ${String(value)}`, {
      path: ["limits", name],
    });
  }
  return limits;
}

/**
 * A counting semaphore per key (a tenant, or one key for all callers) that rejects instead of queueing: at most `limit` slots of
 * a key are held at once, and `acquire` throws 429 when all are held. A key without slots has no entry, so the map is bounded by
 * the number of held slots and not by the number of tenants that ever sent a request.
 */
export class ConcurrencyLimit {
  readonly #held = new Map<string, number>();
  readonly #limit: number;
  readonly #what: string;

  /** `what` names the counted things in the error message: "open streams". */
  constructor(limit: number, what: string) {
    this.#limit = limit;
    this.#what = what;
  }

  /**
   * Takes a slot of `key` and returns the function that releases it; calling that function again has no effect. If no slot is
   * free, calls `releaseEarlier` (for a slot of another limit that the caller acquired first) and throws.
   */
  acquire(key: string, releaseEarlier?: () => void): () => void {
    const count = this.#held.get(key) ?? 0;
    if (count >= this.#limit) {
      releaseEarlier?.();
      throw new HttpError("too_many_requests", `limit reached: ${this.#limit} ${this.#what}; try again later`, {
        headers: { "retry-after": "1" },
      });
    }
    this.#held.set(key, count + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const remaining = (this.#held.get(key) ?? 1) - 1;
      if (remaining === 0) this.#held.delete(key);
      else this.#held.set(key, remaining);
    };
  }
}
