// A counting semaphore for tool calls (`maxConcurrency` of a run).

/**
 * A counting semaphore: at most `permits` holders at once; the others wait in FIFO order.
 *
 * @primitive the tool calls of a run that are performed at once
 */
export class Semaphore {
  #waiting: { readonly resolve: () => void; readonly isRetry: boolean }[] = [];
  #free: number;
  #held = 0;
  #isClosed = false;

  /** `permits` may be `Infinity`: no limit. */
  constructor(permits: number) {
    this.#free = permits;
  }

  /** Does a caller hold a permit? */
  get isHeld(): boolean {
    return this.#held > 0;
  }

  /** From now on only retries get permits. */
  close(): void {
    this.#isClosed = true;
    this.#waiting = this.#waiting.filter(({ isRetry }) => isRetry);
  }

  /**
   * Waits for a permit and returns the function that releases it. A second call of that function does nothing.
   * `isRetry`: the caller has held a permit before, so it gets one after `close`, too.
   */
  async acquire(isRetry = false): Promise<() => void> {
    const isExcluded = this.#isClosed && !isRetry;
    if (this.#free > 0 && !isExcluded) this.#free -= 1;
    else {
      await new Promise<void>((resolve) => {
        if (!isExcluded) this.#waiting.push({ resolve, isRetry });
      });
    }
    this.#held += 1;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#held -= 1;
      // The permit passes directly to the next waiter, so no later caller can overtake it.
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next.resolve();
    };
  }
}
