// The only file of the library that reads the platform's time, sets its timers or calls `Math.random`. Everything else
// takes a `Clock` as an option, so a test controls time and jitter (`handClock` of `everturn/testing`).
// `.oxlintrc.json` rejects `Date`, `performance`, `setTimeout` and similar globals everywhere else in `lib/src`.
//
// Two times: `now` is the wall clock, which is stored and which an administrator or NTP may set back; `monotonic`
// measures durations and never goes back.

/** A source of time, timers and random numbers. Tests pass one that they control. */
export type Clock = {
  /** Milliseconds since 1970-01-01T00:00:00Z. A test clock may count from any start. */
  readonly now: () => number;
  /** Resolves after the given milliseconds. Rejects with the reason of the signal if it aborts first. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** A number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Milliseconds on a monotonic clock with any start. The default is `now`. */
  readonly monotonic?: () => number;
  /**
   * Calls `act` once, after the given milliseconds, unless the function that it returns was called before. The default
   * is `sleep` with a signal, which costs tens of microseconds more.
   */
  readonly timer?: (ms: number, act: () => void) => () => void;
};

/** Returns the time of the monotonic clock, or of the wall clock if there is no monotonic one. */
export function monotonicNow({ monotonic, now }: Clock): number {
  return monotonic === undefined ? now() : monotonic();
}

/**
 * The longest delay of `setTimeout` (HTML, Node): a longer one fires at once. `sleep` chains timers for longer delays.
 */
const longestTimerMs = 2 ** 31 - 1;

/** The platform's time, timers and `Math.random`: the default of every `clock` option. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  timer: systemTimer,
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const cancel = systemTimer(ms, () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      });
      const stop = () => {
        cancel();
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
    }),
};

/** Timers of the platform, chained for delays that are longer than it allows. */
function systemTimer(ms: number, act: () => void): () => void {
  const until = Date.now() + ms;
  let timer: ReturnType<typeof setTimeout>;
  const wait = () => {
    const remainingMs = until - Date.now();
    if (remainingMs > longestTimerMs) timer = setTimeout(wait, longestTimerMs);
    else timer = setTimeout(act, Math.max(0, remainingMs));
  };
  wait();
  return () => clearTimeout(timer);
}

/**
 * Resolves in a later task of the event loop, so that I/O, timers and aborts that are due run first. It yields and
 * measures no time, so it is not part of `Clock`: it also resolves while a test clock does not advance.
 */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/**
 * Resolves when all microtasks have run, including those that they queue. Unlike {@link nextTask} it does not wait for
 * the shortest timer of the platform (1 ms on Node), so a simulation can await it many thousand times.
 */
export function microtasksDone(): Promise<void> {
  const platform: object = globalThis;
  return hasImmediate(platform) ? new Promise((resolve) => platform.setImmediate(resolve)) : nextTask();
}

function hasImmediate(platform: object): platform is { readonly setImmediate: (act: () => void) => void } {
  return "setImmediate" in platform && typeof platform.setImmediate === "function";
}

/**
 * Parses a date, as in the HTTP header `Retry-After` (RFC 9110 §10.2.3), into milliseconds since 1970. Returns `null`
 * if the text is not a date. Reads no clock.
 */
export function parseDate(text: string): number | null {
  const ms = Date.parse(text);
  return Number.isFinite(ms) ? ms : null;
}
