// Rows sorted by key, in blocks of at most `blockSize` rows. A row is found by two binary searches, first for the block
// and then inside it: O(log n). An insertion moves at most one block, and a range read touches only the rows it
// returns. One sorted array would make every insertion O(n).

import type { Key, Query, Row } from "../../rows/internal.ts";

import { compareStart } from "../shared/key-order.ts";

/** The largest number of rows in a block. A larger block is split in two halves. */
const blockSize = 256;

/**
 * A position between rows: before the row at `index` of `block`. After the last row, `block` is the number of blocks.
 */
type Place = { readonly block: number; readonly index: number };

type Range = Pick<Query, "prefix" | "after" | "before">;

/** The rows of one table. */
export class SortedRows {
  /** Blocks in key order, none of them empty. */
  readonly #blocks: Row[][] = [];

  /** The row of a complete key; `null`: there is none. */
  get(key: Key): Row | null {
    const { block, index } = this.#find(key, 0);
    const row = this.#blocks[block]?.[index];
    return row !== undefined && compareStart(row.key, key) === 0 ? row : null;
  }

  /** Inserts a row, or replaces the row of the same key. */
  put(row: Row): void {
    const place = this.#find(row.key, 0);
    const blockIndex = Math.min(place.block, Math.max(this.#blocks.length - 1, 0));
    const block = (this.#blocks[blockIndex] ??= []);
    const index = blockIndex === place.block ? place.index : block.length;
    const existing = block[index];
    block.splice(index, existing !== undefined && compareStart(existing.key, row.key) === 0 ? 1 : 0, row);
    if (block.length > blockSize) this.#blocks.splice(blockIndex + 1, 0, block.splice(blockSize / 2));
  }

  /** Removes all rows whose key begins with the prefix. Blocks that became small are merged. */
  remove(prefix: Key): void {
    const start = this.#find(prefix, 0);
    const end = this.#find(prefix, 1);
    for (const { block, from, to } of this.#slices(start, end)) block.splice(from, to - from);
    const touched = this.#blocks.slice(start.block, end.block + 2);
    this.#blocks.splice(start.block, touched.length, ...mergeSmallBlocks(touched));
  }

  /** The rows of a range, in key order or in reverse. */
  read(range: Range, limit: number, reverse: boolean): readonly Row[] {
    const { prefix, after, before } = range;
    const start = after === undefined ? this.#find(prefix, 0) : this.#find([...prefix, after], 1);
    const end = before === undefined ? this.#find(prefix, 1) : this.#find([...prefix, before], 0);
    const rows: Row[] = [];
    for (const { block, from, to } of this.#slices(start, end, reverse)) {
      const remaining = limit - rows.length;
      if (remaining <= 0) break;
      if (reverse) rows.push(...block.slice(Math.max(from, to - remaining), to).reverse());
      else rows.push(...block.slice(from, Math.min(to, from + remaining)));
    }
    return rows;
  }

  /**
   * The first position whose key is not less than the prefix (`order` 0), or greater than every key with the prefix
   * (`order` 1).
   */
  #find(start: Key, order: 0 | 1): Place {
    const isReached = (row: Row | undefined) => row !== undefined && compareStart(row.key, start) >= order;
    const block = firstIndex(this.#blocks.length, (index) => isReached(this.#blocks[index]?.at(-1)));
    const rows = this.#blocks[block] ?? [];
    return { block, index: firstIndex(rows.length, (index) => isReached(rows[index])) };
  }

  /** The rows between two positions, as slices of blocks. */
  *#slices(
    start: Place,
    end: Place,
    reverse = false,
  ): Generator<{ readonly block: Row[]; readonly from: number; readonly to: number }> {
    for (let offset = 0; offset <= end.block - start.block; offset += 1) {
      const index = reverse ? end.block - offset : start.block + offset;
      const block = this.#blocks[index];
      if (block === undefined) continue;
      const from = index === start.block ? start.index : 0;
      yield { block, from, to: Math.max(from, index === end.block ? end.index : block.length) };
    }
  }
}

/** The blocks without empty ones, and with small neighbours merged. */
function mergeSmallBlocks(blocks: readonly Row[][]): readonly Row[][] {
  const result: Row[][] = [];
  for (const block of blocks) {
    const last = result.at(-1);
    if (last !== undefined && last.length + block.length <= blockSize / 2) last.push(...block);
    else if (block.length > 0) result.push(block);
  }
  return result;
}

/**
 * Binary search: the first index below `length` for which the monotonic predicate holds; `length` if it holds for none.
 */
function firstIndex(length: number, holds: (index: number) => boolean): number {
  let from = 0;
  let to = length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
