// Rows in the order of their keys. They lie in blocks of limited size, found by halving: adding a row moves no more than the rest of a block,
// however many rows there are, and reading touches only what it answers with.

import type { Key, KeyPart, Query, Row } from "../../runtime/host-contract.ts";

const blockSize = 256;

/** A place between rows: before the one at `index` of `block`. Behind the last row, there is no such block. */
type Place = { readonly block: number; readonly index: number };

type Range = Pick<Query, "prefix" | "after" | "before">;

export class SortedRows {
  /** None of them is empty. */
  readonly #blocks: Row[][] = [];

  get(key: Key): Row | null {
    const { block, index } = this.#find(key, 0);
    const row = this.#blocks[block]?.[index];
    return row !== undefined && compareStart(row.key, key) === 0 ? row : null;
  }

  put(row: Row): void {
    const place = this.#find(row.key, 0);
    const at = Math.min(place.block, Math.max(this.#blocks.length - 1, 0));
    const block = (this.#blocks[at] ??= []);
    const index = at === place.block ? place.index : block.length;
    const there = block[index];
    block.splice(index, there !== undefined && compareStart(there.key, row.key) === 0 ? 1 : 0, row);
    if (block.length > blockSize) this.#blocks.splice(at + 1, 0, block.splice(blockSize / 2));
  }

  /** Removes all rows whose key begins like this. */
  remove(prefix: Key): void {
    const start = this.#find(prefix, 0);
    const end = this.#find(prefix, 1);
    for (const { block, from, to } of this.#pieces(start, end)) block.splice(from, to - from);
    const touched = this.#blocks.slice(start.block, end.block + 2);
    this.#blocks.splice(start.block, touched.length, ...joined(touched));
  }

  read(range: Range, limit: number, reverse: boolean): readonly Row[] {
    const { prefix, after, before } = range;
    const start = after === undefined ? this.#find(prefix, 0) : this.#find([...prefix, after], 1);
    const end = before === undefined ? this.#find(prefix, 1) : this.#find([...prefix, before], 0);
    const rows: Row[] = [];
    for (const { block, from, to } of this.#pieces(start, end, reverse)) {
      const left = limit - rows.length;
      if (left <= 0) break;
      if (reverse) rows.push(...block.slice(Math.max(from, to - left), to).reverse());
      else rows.push(...block.slice(from, Math.min(to, from + left)));
    }
    return rows;
  }

  /** The first place whose key, compared with that start of a key, is at least `order`: 0 for the like of it or greater, 1 for greater. */
  #find(start: Key, order: 0 | 1): Place {
    const reached = (row: Row | undefined) => row !== undefined && compareStart(row.key, start) >= order;
    const block = firstIndex(this.#blocks.length, (index) => reached(this.#blocks[index]?.at(-1)));
    const rows = this.#blocks[block] ?? [];
    return { block, index: firstIndex(rows.length, (index) => reached(rows[index])) };
  }

  /** What lies between two places, block by block. */
  *#pieces(
    start: Place,
    end: Place,
    reverse = false,
  ): Generator<{ readonly block: Row[]; readonly from: number; readonly to: number }> {
    for (let step = 0; step <= end.block - start.block; step += 1) {
      const index = reverse ? end.block - step : start.block + step;
      const block = this.#blocks[index];
      if (block === undefined) continue;
      const from = index === start.block ? start.index : 0;
      yield { block, from, to: Math.max(from, index === end.block ? end.index : block.length) };
    }
  }
}

/** The same rows without empty blocks, and with small neighbours as one. */
function joined(blocks: readonly Row[][]): readonly Row[][] {
  const kept: Row[][] = [];
  for (const block of blocks) {
    const last = kept.at(-1);
    if (last !== undefined && last.length + block.length <= blockSize / 2) last.push(...block);
    else if (block.length > 0) kept.push(block);
  }
  return kept;
}

/** The first of so many indices that is enough, when all after it are too; the number of them, when none is. */
function firstIndex(length: number, enough: (index: number) => boolean): number {
  let from = 0;
  let to = length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (enough(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** How a key compares with the start of one, looking only at as many parts: negative when it comes before, 0 when it begins like that. */
function compareStart(key: Key, start: Key): number {
  for (let index = 0; index < start.length; index += 1) {
    const order = comparePart(key[index] ?? "", start[index] ?? "");
    if (order !== 0) return order;
  }
  return 0;
}

/** Numbers as numbers, texts by their code points. */
function comparePart(left: KeyPart, right: KeyPart): number {
  if (left === right) return 0;
  if (typeof left === "number" || typeof right === "number") return left < right ? -1 : 1;
  return compareText(left, right);
}

/** JavaScript compares units of UTF-16, which puts characters beyond U+FFFF before U+E000. */
function compareText(left: string, right: string): number {
  const shorter = Math.min(left.length, right.length);
  let index = 0;
  while (index < shorter && left.charCodeAt(index) === right.charCodeAt(index)) index += 1;
  // The halves of pairs that begin alike differ in the second one.
  const pair = index > 0 && isHighSurrogate(left.charCodeAt(index - 1)) ? index - 1 : index;
  const order = (left.codePointAt(pair) ?? -1) - (right.codePointAt(pair) ?? -1);
  return order === 0 ? (left.codePointAt(index) ?? -1) - (right.codePointAt(index) ?? -1) : order;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
