// Values of the page that change, and that components show.

import { useSyncExternalStore } from "react";

/** A value with the functions to call after each change. */
export class Store<T> {
  #value: T;
  readonly #listeners = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  readonly get = (): T => this.#value;

  /** Replaces the value. Nothing is called if it is the same. */
  readonly set = (value: T): void => {
    if (value === this.#value) return;
    this.#value = value;
    for (const changed of this.#listeners) changed();
  };

  /** Calls `changed` after each change, until the returned function is called. */
  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };
}

/** The value of a store. The component renders again after each change. */
export function useStore<T>(store: Store<T>): T {
  return useSyncExternalStore(store.subscribe, store.get);
}
