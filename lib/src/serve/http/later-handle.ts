// Events and turns of a session that are opened once the right of the caller to it is known.

import type { TurnHandle } from "../../durable/internal.ts";

/**
 * Values of an iterable that is opened once the right to it is known. `return` reaches the inner iterator also while it
 * waits for a value.
 */
export function laterIterable<T>(open: () => Promise<AsyncIterable<T>>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      let opened: Promise<AsyncIterator<T>> | null = null;
      const inner = () => (opened ??= open().then((iterable) => iterable[Symbol.asyncIterator]()));
      return {
        next: async () => (await inner()).next(),
        return: async () => {
          if (opened !== null) await (await opened).return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/**
 * A handle on a turn of a session that is read once the right to it is known. Waiting for the result begins at the
 * first access, as for every handle.
 */
export function laterHandle<Output>(
  sessionId: string,
  turnId: string | null,
  open: () => Promise<TurnHandle<Output>>,
): TurnHandle<Output> {
  return {
    sessionId,
    turnId,
    isOpen: null,
    events: laterIterable(async () => (await open()).events),
    get result() {
      return open().then((handle) => handle.result);
    },
  };
}
