// The only file of the library that reads the platform's time, sets its timers or calls `Math.random`. Everything else takes a `Clock`
// as an option, so a test can advance time by hand (`handClock` of `everturn/testing`). `.oxlintrc.json` rejects `Date`, `performance`,
// `setTimeout` and their relatives everywhere else in `lib/src`.

/** Time and randomness, so that tests can control both. */
export type Clock = {
  /** Milliseconds since 1970-01-01T00:00:00Z. A test clock may count from any moment. */
  readonly now: () => number;
  /** Resolves after the given milliseconds. Rejects with the reason of the signal if it aborts first. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** A number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Milliseconds on a clock that is never set and only grows, from any moment on. Left out: `now` is used. */
  readonly monotonic?: () => number;
};

/** The time on the clock that is never set, or on the other one if there is none. */
export function monotonicNow({ monotonic, now }: Clock): number {
  return monotonic === undefined ? now() : monotonic();
}

/** `setTimeout` fires at once when it is given more than this. */
const longestTimerMs = 2 ** 31 - 1;

/** The platform's time, timers and `Math.random`: the default of every `clock` option. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const stop = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const until = Date.now() + ms;
      let timer: ReturnType<typeof setTimeout>;
      const wait = () => {
        const left = until - Date.now();
        if (left > longestTimerMs) timer = setTimeout(wait, longestTimerMs);
        else timer = setTimeout(wake, Math.max(0, left));
      };
      const wake = () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      };
      wait();
      signal?.addEventListener("abort", stop, { once: true });
    }),
};

/**
 * Resolves in a later task of the event loop, so that I/O, timers and aborts that are due run first. It yields and measures no time, so it
 * does not belong to a `Clock`: it also resolves while a test clock stands still.
 */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** The milliseconds since 1970 that a date in text names, as in the HTTP header `Retry-After`; `null` when it names none. Reads no clock. */
export function parseDate(text: string): number | null {
  const ms = Date.parse(text);
  return Number.isFinite(ms) ? ms : null;
}
