// The delay of tool retries: exponential backoff without jitter. Whether a failure is retried is decided in
// core/run/perform/run-tool.ts.

/** The retry policy of a tool. */
export type RetrySchedule = {
  /** Attempts in all, including the first. */
  readonly maxAttempts: number;
  /** Milliseconds before the first retry; doubled with each further one. */
  readonly baseDelayMs: number;
  /** The longest delay in milliseconds, also for a delay that the tool asked for. 0: no limit. */
  readonly maxDelayMs: number;
};

/**
 * The delay before a retry, in whole milliseconds: the delay the tool asked for (`afterMs`), or `baseDelayMs` doubled
 * with each retry; at most `maxDelayMs`. `retryIndex` is 0 for the first retry. With a base of 100 and a limit of 1000
 * the delays are 100, 200, 400, 800, 1000.
 */
export function retryDelayMs(schedule: RetrySchedule, retryIndex: number, afterMs: number | null = null): number {
  const delay = afterMs ?? (schedule.baseDelayMs === 0 ? 0 : schedule.baseDelayMs * 2 ** retryIndex);
  const capped = schedule.maxDelayMs === 0 ? delay : Math.min(delay, schedule.maxDelayMs);
  return Number.isNaN(capped) ? 0 : Math.round(Math.min(Math.max(capped, 0), longestTimer));
}

// The longest delay of a timer (a signed 32-bit number of milliseconds, about 24.8 days). `setTimeout` fires at once
// for a longer one.
const longestTimer = 2 ** 31 - 1;
