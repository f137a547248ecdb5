// Waiting before something is tried again: longer each time, never in step with others, and only so often.

import type { Clock } from "../clock/clock.ts";
import type { ClientRetry } from "./types.ts";

import { parseDate } from "../clock/clock.ts";
import { MisuseError } from "../model/internal.ts";

const defaultRetry: ClientRetry = { requests: 4, streams: 12, baseMs: 200, maxMs: 10_000 };

/** What a server may ask to wait for; who asks for more is not waited for. */
const longestMs = 60_000;

export class Backoff {
  readonly #most: number;
  readonly #retry: ClientRetry;
  readonly #clock: Clock;
  #used = 0;

  constructor(most: number, retry: ClientRetry, clock: Clock) {
    this.#most = most;
    this.#retry = retry;
    this.#clock = clock;
  }

  /** How often it has waited since something came. */
  get used(): number {
    return this.#used;
  }

  /** Something came: the next time is the first again. */
  reset(): void {
    this.#used = 0;
  }

  /** Waits for the next try; `false`: there is none. Rejects with the signal's reason. */
  async wait(afterMs: number | null, signal: AbortSignal | null): Promise<boolean> {
    if (this.#used >= this.#most || (afterMs ?? 0) > longestMs) return false;
    const { baseMs, maxMs } = this.#retry;
    const most = Math.min(maxMs, baseMs * 2 ** this.#used);
    this.#used += 1;
    const delayMs = most / 2 + (this.#clock.random() * most) / 2;
    await this.#clock.sleep(Math.max(afterMs ?? 0, delayMs), signal ?? undefined);
    return true;
  }
}

/** `Retry-After`, in seconds or as a date; `null`: it says nothing. */
export function retryAfter(headers: Headers, now: number): number | null {
  const said = headers.get("retry-after");
  if (said === null) return null;
  if (/^\d+$/.test(said)) return Number(said) * 1000;
  const date = parseDate(said);
  return date === null ? null : Math.max(0, date - now);
}

export function checkedRetry(given: Partial<ClientRetry>): ClientRetry {
  const retry = { ...defaultRetry, ...given };
  for (const [name, value] of Object.entries(retry)) {
    if (name in defaultRetry && typeof value === "number" && value >= 0) continue;
    const known = Object.keys(defaultRetry).join(", ");
    throw new MisuseError("invalid_argument", `retry: ${name} has to be one of ${known}, and a number of 0 or more`, {
      path: ["retry", name],
    });
  }
  return retry;
}
