// A search while older messages are still being indexed: repeats it, and indexes some with each repetition, for at most
// a second.

import type { HostStorage, StorageHit, StorageSearch } from "../../rows/internal.ts";

import { monotonicNow, nextTask, systemClock } from "../../../core/clock/clock.ts";

/** The result of a search. `isComplete`: all messages are in the index. */
export type SearchResult = { readonly hits: readonly StorageHit[]; readonly isComplete: boolean };

/** How long a search waits for older messages to be indexed, in milliseconds. */
const waitMs = 1000;

/** Returns the search of a storage. Other operations of the storage run between two repetitions. */
export function searchWith(
  search: (query: StorageSearch) => Promise<SearchResult>,
): NonNullable<HostStorage["search"]> {
  return async (query) => {
    const until = monotonicNow(systemClock) + waitMs;
    for (;;) {
      const { hits, isComplete } = await search(query);
      if (isComplete || monotonicNow(systemClock) >= until) return hits;
      await nextTask();
    }
  };
}
