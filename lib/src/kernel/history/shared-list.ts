// A list that is only ever added to. A turn of ten thousand steps appends as fast as one of ten: a list is a length over entries
// that later lists share and go on writing to, behind the end of this one.
//
// Rules:
//   1. A list never changes: what stands before `length` stays, what stands behind it belongs to somebody else.
//   2. Appending costs what is appended. Only the first append to entries that somebody else made (restored ones, frozen ones, ones
//      that another list has already gone on from) copies them.
//   3. It is plain JSON, and a restored one goes on exactly like the one that was stored (K3).

export type SharedList<T> = {
  /** Shared: only the first `length` of them are this list's. */
  readonly entries: readonly T[];
  readonly length: number;
};

// Entries this file made and may therefore write to, behind the end of every list that shares them.
const growing = new WeakSet<readonly unknown[]>();

export const emptyList: SharedList<never> = { entries: [], length: 0 };

/** The list with more behind it. */
export function append<T>(list: SharedList<T>, added: readonly T[]): SharedList<T> {
  if (added.length === 0) return list;
  const entries = writable(list);
  for (const one of added) entries.push(one);
  return { entries, length: entries.length };
}

/** What a list holds, from a place on, as an array of its own. */
export function itemsOf<T>(list: SharedList<T>, from = 0): readonly T[] {
  return list.entries.slice(from, list.length);
}

/** A list as it should be stored: without what others have written behind its end. */
export function trimmed<T, L extends SharedList<T>>(list: L): L {
  return list.entries.length === list.length ? list : { ...list, entries: list.entries.slice(0, list.length) };
}

/** The entries to append to: the shared ones while this list is the newest that ends there, else a copy. */
function writable<T>(list: SharedList<T>): T[] {
  const { entries, length } = list;
  if (isGrowing(entries) && entries.length === length && Object.isExtensible(entries)) return entries;
  const copy = entries.slice(0, length);
  growing.add(copy);
  return copy;
}

function isGrowing<T>(entries: readonly T[]): entries is T[] {
  return growing.has(entries);
}
