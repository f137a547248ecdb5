// Reads of many readers that were woken by one notification are sent together.

import type { HostStorage, Query } from "../internal.ts";

import { expect, test } from "vitest";

import { RuntimeError } from "../../core/model/index.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { JoinedReads } from "./joined-reads.ts";

const row = (id: string) => ({ table: "sessions", key: ["", id], tag: 1, value: id }) as const;
const query = (id: string): Query => ({ table: "sessions", prefix: ["", id] });

/** A storage with some rows, which lists the number of queries of each read. */
async function counted(count: number, isCorrupt: (query: Query) => boolean = () => false) {
  const storage = memoryStorage();
  const ids = Array.from({ length: count }, (_, index) => `s${index}`);
  await storage.write({ checks: [], removals: [], puts: ids.map(row) });
  const sizes: number[] = [];
  const read: HostStorage["read"] = async (queries) => {
    sizes.push(queries.length);
    if (queries.some(isCorrupt)) throw new RuntimeError("corrupt_row", { message: "a row cannot be read" });
    return storage.read(queries);
  };
  return { ids, sizes, reads: new JoinedReads({ read }) };
}

test("reads that begin together are one read, in which every reader gets its own rows", async () => {
  const { ids, sizes, reads } = await counted(10);
  const results = await Promise.all(
    ids.map((id, index) => reads.read(index % 2 === 0 ? [query(id)] : [query(id), query("")])),
  );
  expect(sizes).toEqual([15]);
  expect(results.map(([rows = []]) => rows.map(({ value }) => value))).toEqual(ids.map((id) => [id]));
  expect(results.map((rows) => rows.length)).toEqual(ids.map((_, index) => 1 + (index % 2)));
});

test("readers that wake up in later microtasks of the same task share reads of at most 64 of them", async () => {
  const { ids, sizes, reads } = await counted(200);
  let wake: () => void = () => undefined;
  const woken = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const results = Promise.all(
    ids.map(async (id) => {
      await woken;
      const [[found] = []] = await reads.read([query(id)]);
      return found?.value;
    }),
  );
  wake();
  expect(await results).toEqual(ids);
  expect(sizes).toEqual([64, 64, 64, 8]);
});

test("an error of the storage reaches every reader; a row that cannot be read only its own", async () => {
  const { ids, sizes, reads } = await counted(4, ({ prefix }) => prefix[1] === "s2");
  const results = await Promise.allSettled(ids.map((id) => reads.read([query(id)])));
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  expect(sizes).toEqual([4, 1, 1, 1, 1]);
  const read = () => Promise.reject(new RuntimeError("storage_failed", { message: "not reachable" }));
  const failing = new JoinedReads({ read });
  const errors = await Promise.allSettled(ids.map((id) => failing.read([query(id)])));
  expect(errors.every(({ status }) => status === "rejected")).toBe(true);
});
