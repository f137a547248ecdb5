// How long to wait before a tool is tried again. Deciding whether to is somebody else's business.

/** How often, and how fast, a tool may be tried again when it says that it may. */
export type ToolRetryPolicy =
  | { readonly type: "never" }
  | ({ readonly type: "safe" } & RetrySchedule)
  /** As `safe`, for tools that also need the same idempotency key each time. */
  | ({ readonly type: "idempotent" } & RetrySchedule);

export type RetrySchedule = {
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  /** 0: no cap. */
  readonly maxDelayMs: number;
};

/**
 * The wait before a retry, in whole milliseconds: what the tool asked for, or the base doubled with each retry, and never more than the
 * cap.
 *
 * @example
 * ```ts
 * import { retryDelayMs } from "everturn/kernel";
 *
 * const times = { maxAttempts: 5, baseDelayMs: 100, maxDelayMs: 1000 };
 * [0, 1, 2, 3, 4].map((retry) => retryDelayMs(times, retry)); // => [100, 200, 400, 800, 1000]
 * ```
 */
export function retryDelayMs(times: RetrySchedule, retryIndex: number, afterMs: number | null = null): number {
  const wanted = afterMs ?? (times.baseDelayMs === 0 ? 0 : times.baseDelayMs * 2 ** retryIndex);
  const capped = times.maxDelayMs === 0 ? wanted : Math.min(wanted, times.maxDelayMs);
  return Number.isNaN(capped) ? 0 : Math.round(Math.min(Math.max(capped, 0), longestTimer));
}

// A timer that is asked to wait longer than this fires at once.
const longestTimer = 2 ** 31 - 1;
