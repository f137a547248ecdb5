// Wakes one waiter when rows may have changed. Changes between two waits are remembered, so none is missed between a read and the next wait.

import type { HostStorage } from "./rows/storage.ts";
import type { TableName } from "./rows/tables.ts";

export class ChangeSignal {
  #changed = false;
  #waiter: (() => void) | null = null;
  readonly #unwatch: () => void;

  /** Watches a storage; or only one session of it by its name (`nameOf`), or only some of its tables. */
  constructor(storage: HostStorage, session: string | null = null, tables: readonly TableName[] | null = null) {
    this.#unwatch = storage.watch((sessions, written) => {
      const isOther = session !== null && sessions !== undefined && !sessions.has(session);
      const isElsewhere = tables !== null && written !== undefined && !tables.some((table) => written.has(table));
      if (!isOther && !isElsewhere) this.notify();
    });
  }

  readonly notify = (): void => {
    this.#changed = true;
    this.#waiter?.();
    this.#waiter = null;
  };

  /** Forgets changes so far. Call it before the read that looks at them. */
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
