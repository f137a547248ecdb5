// Who wants to hear of writes. They are called after the write, never from inside it, and each by itself: one that throws takes no other with it.

export class Watchers {
  readonly #all = new Set<Watcher>();

  /** Calls back soon after each `tell`. Returns what ends it. */
  add(changed: () => void): () => void {
    const watcher: Watcher = { changed, told: false };
    this.#all.add(watcher);
    return () => void this.#all.delete(watcher);
  }

  tell(): void {
    for (const watcher of this.#all) {
      if (watcher.told) continue;
      watcher.told = true;
      queueMicrotask(() => {
        watcher.told = false;
        if (this.#all.has(watcher)) watcher.changed();
      });
    }
  }
}

type Watcher = {
  readonly changed: () => void;
  /** It is about to be called; what is written until then is told with it. */
  told: boolean;
};
