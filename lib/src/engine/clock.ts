// Time and chance, as something a test can turn by hand.

export type Clock = {
  /** Milliseconds since some fixed moment. */
  readonly now: () => number;
  /** Resolves after that time; rejects with the reason of the signal when it is aborted first. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
};

const longestTimer = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
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
        // A timer that is asked to wait longer than this fires at once.
        if (left > longestTimer) timer = setTimeout(wait, longestTimer);
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
