// Retry with exponential backoff and jitter.
//
// The delay before retry n (from 0) is random in the upper half of min(maxMs, baseMs * 2^n). The jitter keeps clients
// that lost their connections at the same moment (a deploy) from reconnecting in the same moment. A `Retry-After` of
// the server is a lower bound of the delay. A process that shuts down is replaced within seconds, so its rejections do
// not double the delay: a client that had waited during a long shutdown would reconnect long after the start of the
// next process.

import type { Clock } from "../../core/clock/clock.ts";
import type { ClientRetry } from "./types.ts";

import { parseDate } from "../../core/clock/clock.ts";
import { MisuseError } from "../../core/model/internal.ts";

const defaultRetry: ClientRetry = { requests: 4, streams: 12, baseMs: 200, maxMs: 10_000 };

/** The longest `Retry-After` that is honoured. A request that should wait longer fails at once. */
const maxRetryAfterMs = 60_000;

export class Backoff {
  readonly #maxRetries: number;
  readonly #retry: ClientRetry;
  readonly #clock: Clock;
  #used = 0;
  #doublings = 0;

  constructor(maxRetries: number, retry: ClientRetry, clock: Clock) {
    this.#maxRetries = maxRetries;
    this.#retry = retry;
    this.#clock = clock;
  }

  /** The number of retries since the last success. */
  get used(): number {
    return this.#used;
  }

  /** Called after a success: the next delay is the first one again. */
  reset(): void {
    this.#used = 0;
    this.#doublings = 0;
  }

  /**
   * Waits before the next retry. Returns `false` without waiting if no retry is left. Rejects with the reason of the
   * signal. `isBrief`: this delay does not double the next one.
   */
  async wait(retryAfterMs: number | null, signal: AbortSignal | null, isBrief = false): Promise<boolean> {
    if (this.#used >= this.#maxRetries || (retryAfterMs ?? 0) > maxRetryAfterMs) return false;
    const { baseMs, maxMs } = this.#retry;
    const longestDelayMs = Math.min(maxMs, baseMs * 2 ** this.#doublings);
    this.#used += 1;
    if (!isBrief) this.#doublings += 1;
    const delayMs = longestDelayMs / 2 + (this.#clock.random() * longestDelayMs) / 2;
    await this.#clock.sleep(Math.max(retryAfterMs ?? 0, delayMs), signal ?? undefined);
    return true;
  }
}

/**
 * The `Retry-After` header (RFC 9110, section 10.2.3: seconds or a date) in milliseconds from `now`; `null` if absent
 * or invalid.
 */
export function retryAfter(headers: Headers, now: number): number | null {
  const value = headers.get("retry-after");
  if (value === null) return null;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const date = parseDate(value);
  return date === null ? null : Math.max(0, date - now);
}

/** Merges the retry options with the defaults. Throws `MisuseError` for an unknown name or a negative number. */
export function checkedRetry(overrides: Partial<ClientRetry>): ClientRetry {
  const retry = { ...defaultRetry, ...overrides };
  for (const [name, value] of Object.entries(retry)) {
    if (name in defaultRetry && typeof value === "number" && value >= 0) continue;
    const validNames = Object.keys(defaultRetry).join(", ");
    throw new MisuseError(
      "invalid_argument",
      `retry: ${name} must be one of ${validNames}, with a number of 0 or more`,
      {
        path: ["retry", name],
      },
    );
  }
  return retry;
}
