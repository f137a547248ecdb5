// Wakes one waiter when rows of a storage may have changed.
//
// The signal is level-triggered: a change between two waits is remembered. Its user runs the loop
//   clear(); read rows; if the rows do not settle the matter, await changed()
// so a write that lands between the read and the wait still wakes the waiter. A callback without the flag would lose
// that wake-up.

import type { HostStorage } from "./storage.ts";
import type { TableName } from "./tables.ts";

/** Call `stop` to end the watch. Only one call of `changed` may be pending at a time. */
export class ChangeSignal {
  #changed = false;
  #waiter: (() => void) | null = null;
  readonly #unwatch: () => void;

  /**
   * Watches a storage. `session` limits the watch to one session, by its name (`nameOf`), and `tables` to some tables.
   * A storage that does not report what was written wakes every watcher.
   */
  constructor(storage: HostStorage, session: string | null = null, tables: readonly TableName[] | null = null) {
    this.#unwatch = storage.watch((sessions, written) => {
      const isOtherSession = session !== null && sessions !== undefined && !sessions.has(session);
      const isOtherTable = tables !== null && written !== undefined && !tables.some((table) => written.has(table));
      if (!isOtherSession && !isOtherTable) this.notify();
    });
  }

  /** Records a change and wakes the waiter. */
  readonly notify = (): void => {
    this.#changed = true;
    this.#waiter?.();
    this.#waiter = null;
  };

  /** Forgets earlier changes. Call it before the read, never after: a change during the read must stay recorded. */
  clear(): void {
    this.#changed = false;
  }

  /** Resolves when something may have changed since `clear`. */
  async changed(): Promise<void> {
    if (this.#changed) return;
    await new Promise<void>((resolve) => {
      this.#waiter = resolve;
    });
  }

  stop(): void {
    this.#unwatch();
  }
}
