// Everything a client can grow, and how far.

import { MisuseError } from "../model/internal.ts";
import { HttpError } from "./failure.ts";

/** Limits on what clients can consume. {@link defaultHttpLimits} holds the defaults. */
export type HttpLimits = {
  /** Bytes of a body. */
  readonly bodyBytes: number;
  /** Requests being worked on at a time, of all callers; streams, and those who only wait for a turn, are counted apart, and so is each route that needs no key. */
  readonly requests: number;
  /** Streams open, and answers waited for, at a time: of all callers, and of one tenant. */
  readonly streams: number;
  readonly streamsPerTenant: number;
  /** Turns of one tenant that were begun here and have not ended. */
  readonly turnsPerTenant: number;
  /** Bytes that wait for a reader; nothing more is read for it until it has taken them. */
  readonly bufferBytes: number;
  /** A reader that takes nothing for this long is let go; it can come back with its cursor. */
  readonly slowReaderMs: number;
  /** How often a stream that has nothing to say says so, to keep proxies from closing it. */
  readonly heartbeatMs: number;
  /** Characters of an id, a key, a cursor. */
  readonly idLength: number;
  /** Items of one page. */
  readonly pageSize: number;
  /** Characters of one page, about: whoever has said much gets fewer items, and `next`. */
  readonly pageLength: number;
  /** The longest that an answer may be waited for (`Prefer: wait`), in seconds. */
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
