// How long to wait before a tool is tried again. Deciding whether to is somebody else's business.

/** How often, and how fast, a tool may be tried again. */
export type RetrySchedule = {
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  /** 0: no cap. */
  readonly maxDelayMs: number;
};

/**
 * The wait before a retry, in whole milliseconds: the delay the tool asked for (`afterMs`), or `baseDelayMs` doubled with each retry, and never more than
 * `maxDelayMs`. With a base of 100 and a cap of 1000 the waits are 100, 200, 400, 800, 1000.
 */
export function retryDelayMs(times: RetrySchedule, retryIndex: number, afterMs: number | null = null): number {
  const wanted = afterMs ?? (times.baseDelayMs === 0 ? 0 : times.baseDelayMs * 2 ** retryIndex);
  const capped = times.maxDelayMs === 0 ? wanted : Math.min(wanted, times.maxDelayMs);
  return Number.isNaN(capped) ? 0 : Math.round(Math.min(Math.max(capped, 0), longestTimer));
}

// A timer that is asked to wait longer than this fires at once.
const longestTimer = 2 ** 31 - 1;
