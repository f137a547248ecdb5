// Reads data of the server into components, with a cache: a view that is shown again shows the old value at once and
// reads the new one.

import { useCallback, useEffect, useState, useSyncExternalStore } from "react";

import { onPulse } from "./pulse.ts";

/** A value of the server. `data` keeps the last value while a new one is read. */
export type Query<T> = {
  readonly data: T | null;
  readonly error: Error | null;
  readonly isLoading: boolean;
  /** Reads the value again. */
  readonly refresh: () => void;
};

type Entry = {
  data: unknown;
  error: Error | null;
  loading: AbortController | null;
  readonly listeners: Set<() => void>;
};

/** The entries by key. Those that no component uses are removed when there are more than this many. */
const entries = new Map<string, Entry>();
const maxEntries = 200;

/**
 * Reads `load` under a key, and if it is `live` again when sessions may have changed (pulse.ts). The key names
 * everything that `load` depends on; `null`: nothing is read.
 */
export function useQuery<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  { live = false }: { readonly live?: boolean } = {},
): Query<T> {
  const [, setVersion] = useState(0);
  const subscribe = useCallback(
    (changed: () => void) => {
      if (key === null) return () => undefined;
      const { listeners } = entryOf(key);
      listeners.add(changed);
      return () => {
        listeners.delete(changed);
      };
    },
    [key],
  );
  const snapshot = useSyncExternalStore(subscribe, () => (key === null ? null : (entries.get(key)?.data ?? null)));
  const refresh = useCallback(() => {
    if (key !== null) void read(key, load).then(() => setVersion((version) => version + 1));
    // `load` is a new function on every render; the key says when it changes.
  }, [key]);
  useEffect(() => {
    refresh();
    return live ? onPulse(refresh) : undefined;
  }, [refresh, live]);
  const entry = key === null ? null : (entries.get(key) ?? null);
  const data = isOf<T>(snapshot) ? snapshot : null;
  return { data, error: entry?.error ?? null, isLoading: (entry?.loading ?? null) !== null, refresh };
}

/** The value under a key has the type of the `load` that the same key is used with. */
function isOf<T>(value: unknown): value is T {
  return value !== null;
}

function entryOf(key: string): Entry {
  const known = entries.get(key);
  if (known !== undefined) return known;
  for (const [other, { listeners }] of entries) {
    if (entries.size < maxEntries) break;
    if (listeners.size === 0) entries.delete(other);
  }
  const entry: Entry = { data: null, error: null, loading: null, listeners: new Set() };
  entries.set(key, entry);
  return entry;
}

async function read(key: string, load: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  const entry = entryOf(key);
  if (entry.loading !== null) return;
  const loading = new AbortController();
  entry.loading = loading;
  try {
    entry.data = await load(loading.signal);
    entry.error = null;
  } catch (error) {
    entry.error = error instanceof Error ? error : new Error(String(error));
  } finally {
    entry.loading = null;
  }
  for (const changed of entry.listeners) changed();
}
