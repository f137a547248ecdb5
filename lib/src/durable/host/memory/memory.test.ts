// The storage in memory passes the conformance suite, and the suite detects storages that break one rule each.

import type { Batch, Put, Query, Row, HostStorage } from "../../rows/storage.ts";

import { memoryStorage } from "everturn/runtime";
import { storageSuite } from "everturn/testing";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

const entry = (position: number): Put => ({ table: "entries", key: ["t", "s", position], tag: 0, value: "" });
const batch = (...puts: readonly Put[]): Batch => ({ checks: [], removals: [], puts });

describe("[lash 81] memoryStorage", () => {
  test.each(storageSuite(async () => alone(memoryStorage())).map(({ name, run }) => [name, run]))("%s", (_, run) =>
    run(),
  );

  test("reports that it is volatile, unless the option says otherwise", () => {
    expect(memoryStorage()).toMatchObject({ name: "memory", durability: "volatile" });
    expect(memoryStorage({ name: "mine", durability: "durable" })).toMatchObject({
      name: "mine",
      durability: "durable",
    });
  });

  test("returns frozen rows", async () => {
    const storage = memoryStorage();
    await storage.write(batch(entry(1)));
    const [[row] = []] = await storage.read([{ table: "entries", prefix: [] }]);
    expect(Object.isFrozen(row) && Object.isFrozen(row?.key)).toBe(true);
  });

  test("notifies watchers after the write, never during it, and several writes at once", async () => {
    const storage = memoryStorage();
    let calls = 0;
    storage.watch(() => (calls += 1));
    const writes = [storage.write(batch(entry(1))), storage.write(batch(entry(2)))];
    expect(calls).toBe(0);
    await Promise.all(writes);
    expect(calls).toBe(1);
    await storage.write({ checks: [{ table: "sessions", key: ["t", "s"], tag: 1 }], removals: [], puts: [entry(3)] });
    await storage.write(batch());
    expect(calls).toBe(1);
  });

  test("does not notify a watcher that was removed before the notification", async () => {
    const storage = memoryStorage();
    let calls = 0;
    const end = storage.watch(() => (calls += 1));
    const write = storage.write(batch(entry(1)));
    end();
    await write;
    expect(calls).toBe(0);
  });

  test("sorts strings by code point, also lone surrogates", async () => {
    const unit = fc.constantFrom("a", "\ud7ff", "\ud800", "\ud801", "\udc00", "\udc01", "\ue000", "\uffff", "😀");
    const points = (text: string) => Array.from(text, (one) => String(one.codePointAt(0)).padStart(7, "0")).join();
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.string({ unit, maxLength: 3 })), async (texts) => {
        const storage = memoryStorage();
        const puts = texts.map((text) => ({ table: "tokens", key: [text], tag: 0, value: "" }) as const);
        await storage.write(batch(...puts));
        const [rows = []] = await storage.read([{ table: "tokens", prefix: [] }]);
        const sorted = texts.toSorted((left, right) => (points(left) < points(right) ? -1 : 1));
        expect(rows.map(({ key }) => key[0])).toEqual(sorted);
      }),
      { numRuns: 500 },
    );
  });

  test("stores hundreds of thousands of rows of many sessions in order, and removes them", async () => {
    const storage = memoryStorage();
    const sessions = Array.from({ length: 1000 }, (_, index) => `session ${(index * 7919) % 1000}`);
    for (let position = 0; position < 200; position += 1) {
      const puts = sessions.map((session): Put => ({
        table: "entries",
        key: ["t", session, position],
        tag: 0,
        value: "",
      }));
      await storage.write(batch(...puts));
    }
    const read = async (prefix: readonly string[]) => (await storage.read([{ table: "entries", prefix }]))[0] ?? [];
    expect((await read(["t", "session 7"])).map(({ key }) => key[2])).toEqual(
      Array.from({ length: 200 }, (_, at) => at),
    );
    expect(await read([])).toHaveLength(200_000);
    for (const session of sessions.slice(1)) {
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: ["t", session] }], puts: [] });
    }
    expect(await read([])).toEqual(await read(["t", sessions[0] ?? ""]));
    expect(await read([])).toHaveLength(200);
  });
});

describe("keys and values that do not match the tables are refused, and nothing is written", () => {
  const puts: readonly (readonly [string, Put])[] = [
    ["a key that is too short", { table: "entries", key: ["t", "s"], tag: 0, value: "" }],
    ["a key that is too long", { table: "tokens", key: ["t", "s"], tag: 0, value: "" }],
    ["a text for a number", { table: "entries", key: ["t", "s", "1"], tag: 0, value: "" }],
    ["a number for a text", { table: "sessions", key: ["t", 1], tag: 0, value: "" }],
    ["a number that is not whole", { table: "entries", key: ["t", "s", 1.5], tag: 0, value: "" }],
    ["a tag that is not whole", { table: "sessions", key: ["t", "s"], tag: Number.NaN, value: "" }],
    ["a time to live that is not whole", { table: "sessions", key: ["t", "s"], tag: 0, ttlMs: Infinity, value: "" }],
    ["a time to live below 0", { table: "sessions", key: ["t", "s"], tag: 0, ttlMs: -1, value: "" }],
  ];
  test.each(puts)("%s", async (_, put) => {
    const storage = memoryStorage();
    const refused = storage.write(batch(entry(1), put));
    await expect(refused).rejects.toMatchObject({ name: "MisuseError", reason: "invalid_argument" });
    expect(await storage.read([{ table: "entries", prefix: [] }])).toEqual([[]]);
  });

  const queries: readonly (readonly [string, Query])[] = [
    ["a prefix that is too long", { table: "tokens", prefix: ["t", "s"] }],
    ["a prefix of another kind", { table: "deadlines", prefix: ["t"] }],
    ["a bound of another kind", { table: "recent", prefix: ["t"], after: "1" }],
    ["a bound where no part follows", { table: "sessions", prefix: ["t", "s"], before: "x" }],
  ];
  test.each(queries)("%s", async (_, query) => {
    await expect(memoryStorage().read([query])).rejects.toMatchObject({ reason: "invalid_argument" });
  });
});

describe("the conformance suite detects a storage that", () => {
  type Break = (whole: HostStorage) => Partial<HostStorage>;
  const reading =
    (
      change: (rows: readonly Row[], query: Query, whole: HostStorage) => readonly Row[] | Promise<readonly Row[]>,
    ): Break =>
    (whole) => ({
      read: async (queries) => {
        const answers = await whole.read(queries);
        return Promise.all(queries.map((query, index) => change(answers[index] ?? [], query, whole)));
      },
    });
  const writing =
    (change: (batch: Batch) => Batch): Break =>
    (whole) => ({ write: (batch) => whole.write(change(batch)) });
  const broken: readonly (readonly [string, string, Break])[] = [
    [
      "sorts strings by UTF-16 code units",
      "strings in keys sort by code point",
      reading((rows, { table, reverse }) =>
        table === "sessions" && reverse !== true
          ? rows.toSorted((left, right) => (String(left.key[1]) < String(right.key[1]) ? -1 : 1))
          : rows,
      ),
    ],
    [
      "sorts numbers as strings",
      "numbers in keys sort as numbers",
      reading((rows) => rows.toSorted((left, right) => (String(left.key[2]) < String(right.key[2]) ? -1 : 1))),
    ],
    [
      "includes bounds in the range",
      "bounds are exclusive",
      reading(async (rows, query, whole) => {
        const { after, prefix, table } = query;
        if (after === undefined || table !== "entries" || query.limit !== undefined) return rows;
        const [on = []] = await whole.read([{ table, prefix: [...prefix, after] }]);
        return [...on, ...rows];
      }),
    ],
    [
      "ignores the limit",
      "a limit returns the first rows, or the last ones in reverse",
      (whole) => ({ read: (queries) => whole.read(queries.map((query) => ({ ...query, limit: Infinity }))) }),
    ],
    [
      "truncates strings at U+0000",
      "keys and values with special characters are read as they were written",
      reading((rows) => rows.map((row) => ({ ...row, value: row.value.replace(/\0.*/s, "") }))),
    ],
    [
      "loses expiries",
      "a row is read with its remaining time, and a check can compare the expiry",
      reading((rows) => rows.map((row) => ({ ...row, expires: null, remainingMs: null }))),
    ],
    [
      "ignores checks",
      "a check on a tag fails for another tag and for a missing row",
      writing((given) => ({ ...given, checks: [] })),
    ],
    [
      "ignores the clock",
      "a check with alive compares the expiry with the clock of the storage",
      writing((given) => ({ ...given, checks: given.checks.map((check) => ({ ...check, alive: false })) })),
    ],
    [
      "does not compare expiries",
      "a row is read with its remaining time, and a check can compare the expiry",
      writing((given) => ({
        ...given,
        checks: given.checks.map(({ table, key, tag, alive = false }) => ({ table, key, tag, alive })),
      })),
    ],
    [
      "writes before it checks",
      "a batch with a failed check writes nothing and returns the index of the check",
      (whole) => ({
        write: async ({ checks, ...rest }) => {
          const result = await whole.write({ checks, removals: [], puts: [] });
          await whole.write({ ...rest, checks: [] });
          return result;
        },
      }),
    ],
    [
      "returns the index of another check",
      "a batch with a failed check writes nothing and returns the index of the check",
      (whole) => ({
        write: async (given) => {
          const result = await whole.write(given);
          return result.ok ? result : { ok: false, check: 0 };
        },
      }),
    ],
    [
      "checks and writes in separate transactions",
      "of concurrent writers with a check on the same row exactly one succeeds",
      (whole) => ({
        write: async (given) => {
          const result = await whole.write({ ...given, removals: [], puts: [] });
          return result.ok ? whole.write({ ...given, checks: [] }) : result;
        },
      }),
    ],
    [
      "removes after it has put",
      "removals precede puts",
      (whole) => ({
        write: async (given) => {
          const result = await whole.write({ ...given, removals: [] });
          return result.ok ? whole.write({ ...given, checks: [], puts: [] }) : result;
        },
      }),
    ],
    [
      "removes complete keys only",
      "a removal deletes the rows below its prefix, and no others",
      writing((given) => ({ ...given, removals: given.removals.filter(({ prefix }) => prefix.length === 3) })),
    ],
    [
      "writes a batch row by row",
      "readers see a batch over several tables as a whole",
      (whole) => ({
        write: async ({ puts, ...given }) => {
          const result = await whole.write({ ...given, puts: [] });
          if (result.ok) for (const put of puts) await whole.write(batch(put));
          return result;
        },
      }),
    ],
    [
      "answers the queries of a read from different snapshots",
      "readers see a batch over several tables as a whole",
      (whole) => ({
        read: async (queries) => {
          const answers: (readonly Row[])[] = [];
          for (const query of queries) answers.push(...(await whole.read([query])));
          return answers;
        },
      }),
    ],
    ["notifies no watcher", "a watcher is called after every write", () => ({ watch: () => () => undefined })],
    [
      "notifies removed watchers",
      "an unsubscribed watcher is not called, and the others still are",
      (whole) => ({
        watch: (changed) => {
          whole.watch(changed);
          return () => undefined;
        },
      }),
    ],
    [
      "stores the key arrays of the caller",
      "a later write does not change rows that were read before",
      (whole) => {
        const given = new Map<string, Put["key"]>();
        return {
          write: (written) => {
            for (const put of written.puts) given.set(put.value, put.key);
            return whole.write(written);
          },
          ...reading((rows) => rows.map((row) => ({ ...row, key: given.get(row.value) ?? row.key })))(whole),
        };
      },
    ],
  ];
  test.each(broken)("%s", async (_, name, change) => {
    const suite = storageSuite(async () => {
      const whole = memoryStorage();
      return alone({ ...whole, ...change(whole) });
    });
    const found = suite.find((one) => one.name === name);
    await expect(found?.run()).rejects.toThrow(/expected .+; got .*\. The rule: ./s);
  });
});

function alone(storage: HostStorage) {
  return { storage, reopen: null, close: () => Promise.resolve() };
}
