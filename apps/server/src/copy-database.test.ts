// Copying a storage into another: all rows, resumed copies, and differences that are found.

import type { StorageBatch } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { copyDatabase, CopyError } from "@everturn/server";
import { memoryStorage } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

type Put = StorageBatch["puts"][number];

const entry = (session: string, position: number, value = ""): Put => ({
  table: "entries",
  key: ["t", session, position],
  tag: position,
  value,
});

const written = async (storage: HostStorage, ...puts: readonly Put[]): Promise<HostStorage> => {
  await storage.write({ checks: [], removals: [], puts });
  return storage;
};

/** A storage with rows in several tables, and more than one page in one of them. */
const filled = () =>
  written(
    memoryStorage(),
    ...Array.from({ length: 450 }, (_, index) => entry(`s${index % 7}`, index, `value ${index}`)),
    { table: "sessions", key: ["t", "s"], tag: 3, value: "{}" },
    { table: "work", key: ["deadline", "", "0", 5, "t", "s", "call"], tag: 0, value: "" },
    { table: "tokens", key: ["digest"], tag: 0, value: "" },
  );

const rowsOf = async (storage: HostStorage): Promise<unknown> =>
  storage.read([
    { table: "entries", prefix: [] },
    { table: "sessions", prefix: [] },
    { table: "work", prefix: [] },
    { table: "tokens", prefix: [] },
  ]);

describe("copyDatabase", () => {
  test("copies every row of every table", async () => {
    const [source, target] = [await filled(), memoryStorage()];
    const tables = await copyDatabase(source, target);
    expect(await rowsOf(target)).toEqual(await rowsOf(source));
    expect(tables.find(({ table }) => table === "entries")).toMatchObject({ rows: 450, written: 450 });
    expect(tables.reduce((sum, { rows }) => sum + rows, 0)).toBe(453);
  });

  test("a copy that was interrupted is continued after its last row", async () => {
    const source = await filled();
    const target = memoryStorage();
    let writes = 0;
    const interrupted: HostStorage = {
      ...target,
      write: async (batch) => {
        writes += 1;
        if (writes === 3) throw new Error("the connection is lost");
        return target.write(batch);
      },
    };
    await expect(copyDatabase(source, interrupted)).rejects.toThrow("the connection is lost");
    const tables = await copyDatabase(source, target);
    expect(await rowsOf(target)).toEqual(await rowsOf(source));
    expect(tables.find(({ table }) => table === "entries")?.written).toBeLessThan(450);
  });

  test("rows that were changed in the source since an interrupted copy are copied again", async () => {
    const [source, target] = [await filled(), memoryStorage()];
    await copyDatabase(source, target);
    await written(source, entry("s0", 0, "changed"));
    await copyDatabase(source, target);
    expect(await rowsOf(target)).toEqual(await rowsOf(source));
  });

  test("rows that only the target has are an error that names the table", async () => {
    const source = await filled();
    const target = await written(memoryStorage({ name: "the target" }), entry("other", 1));
    const copying = copyDatabase(source, target);
    await expect(copying).rejects.toThrow(CopyError);
    await expect(copying).rejects.toThrow('the table "entries" has 450 rows in memory and 451 rows in the target');
  });

  test("a row that expires keeps the time that it has left", async () => {
    const clock = handClock();
    const source = memoryStorage({ clock });
    await written(source, { table: "leases", key: ["t", "s"], tag: 1, value: "{}", ttlMs: 1000 });
    await clock.advance(400);
    const target = memoryStorage({ clock });
    await copyDatabase(source, target);
    const [[lease] = []] = await target.read([{ table: "leases", prefix: [] }]);
    expect(lease?.remainingMs).toBe(600);
  });
});
