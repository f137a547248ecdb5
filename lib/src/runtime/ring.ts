// Something may have changed: told to whoever waits, or kept for whoever looks next.

import type { HostStorage } from "./rows/storage.ts";

export class Ring {
  #rung = false;
  #waiting: (() => void) | null = null;
  readonly #unwatch: () => void;

  /** Rings when something may have changed in a storage, or in one session of it. */
  constructor(storage: HostStorage, name: string | null = null) {
    this.#unwatch = storage.watch((sessions) => {
      if (name === null || sessions === undefined || sessions.has(name)) this.ring();
    });
  }

  readonly ring = (): void => {
    this.#rung = true;
    this.#waiting?.();
    this.#waiting = null;
  };

  /** Forgets what has rung so far: now it is looked at. */
  clear(): void {
    this.#rung = false;
  }

  /** Resolves when it has rung since then. */
  async rung(): Promise<void> {
    if (this.#rung) return;
    await new Promise<void>((resolve) => {
      this.#waiting = resolve;
    });
  }

  stop(): void {
    this.#unwatch();
  }
}
