// Everything a client can grow, and how far.

import { MisuseError } from "../model/internal.ts";
import { HttpError } from "./failure.ts";

/** Limits on what clients can consume. {@link defaultHttpLimits} holds the defaults. */
export type HttpLimits = {
  /** The size of a request body, in bytes. */
  readonly bodyBytes: number;
  /**
   * Concurrent requests of all callers. Streams, requests that wait for a turn, and routes without authentication
   * are counted separately.
   */
  readonly requests: number;
  /** Concurrent streams and waiting requests of all callers. */
  readonly streams: number;
  /** Concurrent streams and waiting requests of one tenant. */
  readonly streamsPerTenant: number;
  /** Turns of one tenant that were started here and have not ended. */
  readonly turnsPerTenant: number;
  /** Bytes buffered for a slow reader. At the limit the stream is paused until the reader catches up. */
  readonly bufferBytes: number;
  /** A reader that accepts no data for this many milliseconds is disconnected. It can resume with its cursor. */
  readonly slowReaderMs: number;
  /** The interval of heartbeats on an idle stream, in milliseconds. */
  readonly heartbeatMs: number;
  /** The length of an id, an idempotency key or a cursor, in characters. */
  readonly idLength: number;
  /** Items per page. */
  readonly pageSize: number;
  /** The approximate size of a page, in characters. A page that would be larger has fewer items. */
  readonly pageLength: number;
  /** The longest wait for a result (`Prefer: wait`), in seconds. */
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

export function checkedLimits(given: Partial<HttpLimits>): HttpLimits {
  const limits = { ...defaultHttpLimits, ...given };
  for (const [name, value] of Object.entries(limits)) {
    if (!(name in defaultHttpLimits)) {
      const known = Object.keys(defaultHttpLimits).join(", ");
      throw new MisuseError("unknown_field", `limits: there is no ${name}; known are ${known}`, {
        path: ["limits", name],
      });
    }
    if (typeof value === "number" && value >= 1) continue;
    throw new MisuseError("invalid_argument", `limits: ${name} has to be a number of 1 or more, not ${String(value)}`, {
      path: ["limits", name],
    });
  }
  return limits;
}

/** Counts what is open under a name, and turns away what would be one too many. */
export class Gate {
  readonly #open = new Map<string, number>();
  readonly #most: number;
  readonly #what: string;

  constructor(most: number, what: string) {
    this.#most = most;
    this.#what = what;
  }

  /** Returns how to leave; leaving twice is leaving once. Who is turned away leaves what was entered before, if that is said. */
  enter(name: string, leaveBefore?: () => void): () => void {
    const now = this.#open.get(name) ?? 0;
    if (now >= this.#most) {
      leaveBefore?.();
      throw new HttpError("too_many_requests", `there are ${this.#most} ${this.#what} already; try again later`, {
        headers: { "retry-after": "1" },
      });
    }
    this.#open.set(name, now + 1);
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      const left = (this.#open.get(name) ?? 1) - 1;
      if (left === 0) this.#open.delete(name);
      else this.#open.set(name, left);
    };
  }
}
