// A persistent append-only list: several versions of a list share one growing array.
//
// A list is an array and a length. Appending to the newest version pushes onto the shared array and returns a new
// length, so a turn of ten thousand steps appends as fast as one of ten (amortised constant time for each item), while
// older versions stay valid.
//
// Invariants
//   1. A list never changes: items before its `length` stay, items after it belong to newer versions.
//   2. Appending costs the number of added items. Only the first append to an array that this file did not make
//      (restored or frozen), or that a newer version has grown already, copies the array.
//   3. A list is plain JSON, and a restored list behaves like the stored one (K3). `trimmed` removes items of newer
//      versions before storing.

/** One version of an append-only list. */
export type SharedList<T> = {
  /** The shared array. Only its first `length` items belong to this list. */
  readonly entries: readonly T[];
  readonly length: number;
};

// Arrays that this file made and may push to.
const growing = new WeakSet<readonly unknown[]>();

/** The list without items. */
export const emptyList: SharedList<never> = { entries: [], length: 0 };

/** The list with these items appended. */
export function append<T>(list: SharedList<T>, added: readonly T[]): SharedList<T> {
  if (added.length === 0) return list;
  const entries = writable(list);
  for (const item of added) entries.push(item);
  return { entries, length: entries.length };
}

/** A copy of the items from index `from` on. */
export function itemsOf<T>(list: SharedList<T>, from = 0): readonly T[] {
  return list.entries.slice(from, list.length);
}

/** The list in the form to be stored: without items of newer versions. */
export function trimmed<T, L extends SharedList<T>>(list: L): L {
  return list.entries.length === list.length ? list : { ...list, entries: list.entries.slice(0, list.length) };
}

/** The array to append to: the shared one if this list is its newest version, otherwise a copy. */
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
