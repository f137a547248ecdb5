// A counting semaphore for tool calls (`maxConcurrency` of a run).

/**
 * A counting semaphore: at most `permits` holders at once; the others wait in FIFO order.
 *
 * @primitive the tool calls of a run that are performed at once
 */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  /** `permits` may be `Infinity`: no limit. */
  constructor(permits: number) {
    this.#free = permits;
  }

  /** Waits for a permit and returns the function that releases it. A second call of that function does nothing. */
  async acquire(): Promise<() => void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    let released = false;
    return () => {
      if (released) return;
      released = true;
      // The permit passes directly to the next waiter, so no later caller can overtake it.
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    };
  }
}
