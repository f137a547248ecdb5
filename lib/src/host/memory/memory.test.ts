// The storage in memory keeps what every storage has to; and the suite that says so is turned on storages that break one rule each.

import type { Batch, Put, Query, Row, HostStorage } from "../../runtime/rows/storage.ts";

import { memoryStorage } from "everturn/host/memory";
import { storageSuite } from "everturn/testing";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

const entry = (position: number): Put => ({ table: "entries", key: ["t", "s", position], tag: 0, value: "" });
const batch = (...puts: readonly Put[]): Batch => ({ checks: [], removals: [], puts });

describe("memoryStorage", () => {
  test.each(storageSuite(async () => alone(memoryStorage())).map(({ name, run }) => [name, run]))("%s", (_, run) =>
    run(),
  );

  test("says that it is volatile, unless a test has it say otherwise", () => {
    expect(memoryStorage()).toMatchObject({ name: "memory", durability: "volatile" });
    expect(memoryStorage({ name: "mine", durability: "durable" })).toMatchObject({
      name: "mine",
      durability: "durable",
    });
  });

  test("gives out rows that cannot be changed", async () => {
    const storage = memoryStorage();
    await storage.write(batch(entry(1)));
    const [[row] = []] = await storage.read([{ table: "entries", prefix: [] }]);
    expect(Object.isFrozen(row) && Object.isFrozen(row?.key)).toBe(true);
  });

  test("tells watchers after the write, never from inside it, and several writes at once", async () => {
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

  test("tells nobody who has left before it came to that", async () => {
    const storage = memoryStorage();
    let calls = 0;
    const end = storage.watch(() => (calls += 1));
    const write = storage.write(batch(entry(1)));
    end();
    await write;
    expect(calls).toBe(0);
  });

  test("sorts texts by their code points, halves of surrogate pairs too", async () => {
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

  test("keeps hundreds of thousands of rows of many sessions in order, and forgets them again", async () => {
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

describe("what does not fit the tables is refused, and nothing is written", () => {
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

describe("the suite notices a storage that", () => {
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
      "sorts texts by their units",
      "strings in keys sort by code point",
      reading((rows, { table, reverse }) =>
        table === "sessions" && reverse !== true
          ? rows.toSorted((left, right) => (String(left.key[1]) < String(right.key[1]) ? -1 : 1))
          : rows,
      ),
    ],
    [
      "sorts numbers as texts",
      "numbers in keys sort as numbers",
      reading((rows) => rows.toSorted((left, right) => (String(left.key[2]) < String(right.key[2]) ? -1 : 1))),
    ],
    [
      "takes bounds to belong to the range",
      "bounds are exclusive",
      reading(async (rows, query, whole) => {
        const { after, prefix, table } = query;
        if (after === undefined || table !== "entries" || query.limit !== undefined) return rows;
        const [on = []] = await whole.read([{ table, prefix: [...prefix, after] }]);
        return [...on, ...rows];
      }),
    ],
    [
      "knows no limit",
      "a limit returns the first rows, or the last ones in reverse",
      (whole) => ({ read: (queries) => whole.read(queries.map((query) => ({ ...query, limit: Infinity }))) }),
    ],
    [
      "cuts texts at U+0000",
      "keys and values with special characters are read as they were written",
      reading((rows) => rows.map((row) => ({ ...row, value: row.value.replace(/\0.*/s, "") }))),
    ],
    [
      "loses expiries",
      "a row is read with its remaining time, and a check can compare the expiry",
      reading((rows) => rows.map((row) => ({ ...row, expires: null, remainingMs: null }))),
    ],
    [
      "checks nothing",
      "a check on a tag fails for another tag and for a missing row",
      writing((given) => ({ ...given, checks: [] })),
    ],
    [
      "does not look at the time",
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
      "names another check",
      "a batch with a failed check writes nothing and returns the index of the check",
      (whole) => ({
        write: async (given) => {
          const result = await whole.write(given);
          return result.ok ? result : { ok: false, check: 0 };
        },
      }),
    ],
    [
      "checks in one step and writes in the next",
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
      "removes only whole keys",
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
      "answers queries one after the other",
      "readers see a batch over several tables as a whole",
      (whole) => ({
        read: async (queries) => {
          const answers: (readonly Row[])[] = [];
          for (const query of queries) answers.push(...(await whole.read([query])));
          return answers;
        },
      }),
    ],
    ["tells nobody", "a watcher is called after every write", () => ({ watch: () => () => undefined })],
    [
      "goes on telling those who left",
      "an unsubscribed watcher is not called, and the others still are",
      (whole) => ({
        watch: (changed) => {
          whole.watch(changed);
          return () => undefined;
        },
      }),
    ],
    [
      "keeps the keys it was given",
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
