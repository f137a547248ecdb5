// The order of keys that the storage contract demands, for storages that compare keys themselves.

import type { Key, KeyPart } from "../../rows/internal.ts";

/**
 * Compares the first parts of a key with a prefix: negative if the key comes before, 0 if it begins with the prefix.
 */
export function compareStart(key: Key, start: Key): number {
  for (let index = 0; index < start.length; index += 1) {
    const order = comparePart(key[index] ?? "", start[index] ?? "");
    if (order !== 0) return order;
  }
  return 0;
}

/** Compares numbers numerically and strings by code point, as the storage contract demands. */
function comparePart(left: KeyPart, right: KeyPart): number {
  if (left === right) return 0;
  if (typeof left === "number" || typeof right === "number") return left < right ? -1 : 1;
  return compareText(left, right);
}

/**
 * Compares by code point. The `<` of JavaScript compares UTF-16 code units, which sorts characters above U+FFFF before
 * U+E000.
 */
function compareText(left: string, right: string): number {
  const shorter = Math.min(left.length, right.length);
  let index = 0;
  while (index < shorter && left.charCodeAt(index) === right.charCodeAt(index)) index += 1;
  // Two surrogate pairs with the same first half differ in the second one: compare from the start of the pair.
  const pair = index > 0 && isHighSurrogate(left.charCodeAt(index - 1)) ? index - 1 : index;
  const order = (left.codePointAt(pair) ?? -1) - (right.codePointAt(pair) ?? -1);
  return order === 0 ? (left.codePointAt(index) ?? -1) - (right.codePointAt(index) ?? -1) : order;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
