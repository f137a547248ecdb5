// Who wants to hear of writes. They are called after the write, never from inside it, and one that throws takes no other with it. A thousand of them
// are told in one go: a write is not to cost a task for each.

export class Watchers {
  readonly #all = new Set<Watcher>();
  /** They are about to be called; what is written until then is told with it. */
  #told = false;

  /** Calls back soon after each `tell`. Returns what ends it. */
  add(changed: () => void): () => void {
    const watcher: Watcher = { changed };
    this.#all.add(watcher);
    return () => void this.#all.delete(watcher);
  }

  tell(): void {
    if (this.#told || this.#all.size === 0) return;
    this.#told = true;
    queueMicrotask(() => {
      this.#told = false;
      // Those who leave while it is told are not called any more, and those who come are not called yet.
      const now = Array.from(this.#all);
      for (const watcher of now) if (this.#all.has(watcher)) call(watcher);
    });
  }
}

/** Each is one of its own, also where two have the same function. */
type Watcher = { readonly changed: () => void };

function call({ changed }: Watcher): void {
  try {
    changed();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
