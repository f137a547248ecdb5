// Values that `await using` closes: runtimes, storages, connections and servers.

/// <reference lib="esnext.disposable" preserve="true" />

/** A value that `await using` closes at the end of its block, as `close()` does. */
export type Closeable = {
  /** Calls `close()`. */
  readonly [Symbol.asyncDispose]: () => Promise<void>;
};

/** Adds the method of {@link Closeable}, on platforms that have its symbol. Changes the value. */
export function closeable<Value extends { readonly close: () => Promise<void> }>(value: Value): Value & Closeable;
export function closeable<Value extends { readonly close: () => Promise<void> }>(value: Value): Value {
  // Some browsers do not have the symbol yet.
  if (typeof Symbol.asyncDispose !== "symbol") return value;
  return Object.defineProperty(value, Symbol.asyncDispose, { value: () => value.close(), enumerable: true });
}
