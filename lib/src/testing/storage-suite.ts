// The conformance suite of storages: key order, ranges and pagination, round trips, conditional batches
// (compare-and-swap on tags), expiry by the clock of the storage, snapshot reads, watchers and concurrency.
//
// The suite writes into the tables of the runtime, whose keys have every kind of part: strings, and integers before and
// after strings.

import type { Batch, Check, Key, Put, Query, Row, HostStorage, Written } from "../durable/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { broken, holds, patienceMs, same, within } from "./conformance.ts";

/** An empty storage for {@link storageSuite}, and how to open it again. */
type StorageUnderTest = {
  /** The storage. It must be empty. */
  readonly storage: HostStorage;
  /** Opens the written data again, as after a restart; `null` if the data does not survive the process. */
  readonly reopen: (() => Promise<HostStorage>) | null;
  /** Closes every opened storage and deletes the written data. */
  readonly close: () => Promise<void>;
};

const rules = {
  order: "rows are in key order: integers by value, strings by code point",
  range: "a query returns the rows whose keys start with its prefix and are strictly between its bounds",
  verbatim: "a row is read as it was written: key, tag, value",
  check:
    "a batch is atomic and conditional: if a check fails, nothing is written, and the result has the index of the check",
  alive: "a row is alive until it expires by the clock of the storage; a row without an expiry is always alive",
  batch: "removals precede puts, a put replaces the row, and readers see the whole batch or nothing of it",
  moment: "all queries of a read see one snapshot",
  watch: "a watcher is called after a write, and not after it has unsubscribed",
  race: "of concurrent writes with a check on the same row exactly one succeeds (compare-and-swap), and the others fail with that check",
  lasts: "written data is present after the storage is opened again",
};

/** The conformance cases of a storage. `make` is called once per case and must return an empty storage. */
export function storageSuite(make: () => Promise<StorageUnderTest>): readonly ConformanceCase[] {
  const all = { ...ordering, ...ranges, ...roundTrips, ...checks, ...batches, ...concurrency };
  return Object.entries(all).map(([name, work]) => ({
    name,
    run: async () => {
      const underTest = await make();
      try {
        await within(4 * patienceMs, work(underTest.storage, underTest), name, "the case to end");
      } finally {
        await underTest.close();
      }
    },
  }));
}

type StorageCases = { readonly [name: string]: (storage: HostStorage, underTest: StorageUnderTest) => Promise<void> };

// Key order. Code point order equals the byte order of UTF-8. The order of JavaScript strings (UTF-16 units) differs
// beyond U+FFFF.
const ordering: StorageCases = {
  "numbers in keys sort as numbers": async (storage) => {
    const numbers = [10, -1, 2, 0, 100, Number.MAX_SAFE_INTEGER, 9, -Number.MAX_SAFE_INTEGER, 2 ** 32, -20];
    await put(storage, ...numbers.map((number) => entry("s", number)));
    const sorted = numbers.toSorted((left, right) => left - right);
    same(await lastParts(storage, entries("s")), sorted, rules.order, "the positions");
  },
  "an integer in a key sorts before the string that follows it": async (storage) => {
    const keys: readonly Key[] = [
      ["t", 9, "b"],
      ["t", 10, "a"],
      ["t", 10, "b"],
      ["t", 200, ""],
    ];
    await put(storage, ...keys.toReversed().map((key) => ({ table: "recent", key, tag: 0, value: "" }) as const));
    const rows = await rowsOf(storage, { table: "recent", prefix: ["t"] });
    same(keysOf(rows), keys, rules.order, "the keys");
  },
  "strings in keys sort by code point": async (storage) => {
    const texts = ["", " ", "10", "2", "A", "Z", "a", "aa", "b", "z", "é", "ω", "あ", "\ue000", "\uffff", "😀", "😁"];
    await put(storage, ...texts.toReversed().map((text) => session(text)));
    same(await lastParts(storage, tenantSessions), texts, rules.order, "the sessions");
    const beyond = await lastParts(storage, { table: "sessions", prefix: ["t"], after: "\uffff" });
    same(beyond, ["😀", "😁"], rules.order, "the sessions after U+FFFF");
  },
  "strings that look alike are distinct keys": async (storage) => {
    const texts = ["É", "E\u0301", "e", "E", "É ", "ß", "ss"];
    await put(storage, ...texts.map((text) => session(text, { value: text })));
    for (const text of texts) {
      const rows = await rowsOf(storage, { table: "sessions", prefix: ["t", text] });
      same(valuesOf(rows), [text], rules.verbatim, `the rows of ${JSON.stringify(text)}`);
    }
  },
};

// Prefix queries, exclusive bounds, limits and reverse order: what pagination of sessions, events and messages relies
// on.
const ranges: StorageCases = {
  "a prefix selects the rows below it, and no others": async (storage) => {
    await put(storage, entry("s", 1), entry("s", 2), entry("", 3), entry("ss", 4), entry("s", 5, { tenant: "other" }));
    same(await lastParts(storage, entries("s")), [1, 2], rules.range, "the positions");
    const all = await lastParts(storage, allEntries);
    same(all, [5, 3, 1, 2, 4], rules.range, "the positions of all");
    same(await lastParts(storage, entries("none")), [], rules.range, "the positions of an unknown session");
    same(await lastParts(storage, { table: "events", prefix: [] }), [], rules.range, "the rows of another table");
  },
  "a complete key selects its row, or none": async (storage) => {
    await put(storage, entry("s", 1), entry("s", 2));
    same(await lastParts(storage, { table: "entries", prefix: ["t", "s", 2] }), [2], rules.range, "the existing row");
    same(await lastParts(storage, { table: "entries", prefix: ["t", "s", 3] }), [], rules.range, "the missing row");
  },
  "bounds are exclusive": async (storage) => {
    await put(storage, ...[1, 2, 3, 4, 5].map((position) => entry("s", position)), entry("r", 3), entry("t", 3));
    const cases: readonly (readonly [Partial<Query>, readonly number[]])[] = [
      [{ after: 2 }, [3, 4, 5]],
      [{ before: 3 }, [1, 2]],
      [{ after: 1, before: 5 }, [2, 3, 4]],
      [{ after: 0, before: 6 }, [1, 2, 3, 4, 5]],
      [{ after: 2, before: 3 }, []],
      [{ after: 4, before: 2 }, []],
      [{ after: 5 }, []],
      [{ before: 1 }, []],
      [{ before: 1, reverse: true }, []],
    ];
    for (const [bounds, expected] of cases) {
      const actual = await lastParts(storage, { ...entries("s"), ...bounds });
      same(actual, expected, rules.range, `the positions with ${JSON.stringify(bounds)}`);
    }
  },
  "bounds apply to the key part after the prefix, whatever follows it": async (storage) => {
    await put(storage, ...["a", "b", "c"].flatMap((name) => [1, 2].map((position) => entry(name, position))));
    const query = { table: "entries", prefix: ["t"], after: "a", before: "c" } as const;
    const rows = await rowsOf(storage, query);
    same(
      keysOf(rows),
      [
        ["t", "b", 1],
        ["t", "b", 2],
      ],
      rules.range,
      "the keys",
    );
    const [due = []] = await storage.read([{ table: "work", prefix: ["deadline", "", "0"], before: 10 }]);
    same(due, [], rules.range, "the rows of an empty table");
  },
  "a length returns the first rows whose values are not longer, and one row in any case": async (storage) => {
    const rows = [100, 100, 5000, 10].map((length, index) => entry("s", index + 1, { value: "x".repeat(length) }));
    await put(storage, ...rows);
    const cases: readonly (readonly [Partial<Query>, readonly number[]])[] = [
      [{ maxLength: 0 }, [1]],
      [{ maxLength: 199 }, [1]],
      [{ maxLength: 200 }, [1, 2]],
      [{ maxLength: 5000 }, [1, 2]],
      [{ maxLength: 9000 }, [1, 2, 3, 4]],
      [{ maxLength: 9000, limit: 3 }, [1, 2, 3]],
      [{ maxLength: 150, limit: 2 }, [1]],
      [{ maxLength: 9000, limit: 0 }, []],
      [{ maxLength: 10, after: 2 }, [3]],
      [{ maxLength: 10, reverse: true }, [4]],
      [{ maxLength: 5010, reverse: true }, [4, 3]],
      [{ maxLength: 100, before: 3, reverse: true }, [2]],
    ];
    for (const [bounds, expected] of cases) {
      const actual = await lastParts(storage, { ...entries("s"), ...bounds });
      same(actual, expected, rules.range, `the positions with ${JSON.stringify(bounds)}`);
    }
    const one = await lastParts(storage, { table: "entries", prefix: ["t", "s", 3], maxLength: 1 });
    same(one, [3], rules.range, "the row of a complete key");
  },
  "a limit returns the first rows, or the last ones in reverse": async (storage) => {
    await put(storage, ...[1, 2, 3, 4, 5].map((position) => entry("s", position)), entry("r", 9), entry("t", 0));
    const cases: readonly (readonly [Partial<Query>, readonly number[]])[] = [
      [{ limit: 2 }, [1, 2]],
      [{ limit: 0 }, []],
      [{ limit: 9 }, [1, 2, 3, 4, 5]],
      [{ reverse: true }, [5, 4, 3, 2, 1]],
      [{ reverse: true, limit: 1 }, [5]],
      [{ reverse: true, limit: 2, before: 4 }, [3, 2]],
      [{ reverse: true, after: 2 }, [5, 4, 3]],
      [{ limit: 2, after: 2 }, [3, 4]],
    ];
    for (const [bounds, expected] of cases) {
      const actual = await lastParts(storage, { ...entries("s"), ...bounds });
      same(actual, expected, rules.range, `the positions with ${JSON.stringify(bounds)}`);
    }
  },
  "ten thousand rows are read in order, at once and page by page": async (storage) => {
    const count = 10_000;
    // A permutation of the positions: 7919 and the count have no common factor.
    const positions = Array.from({ length: count }, (_, index) => (index * 7919) % count);
    for (let start = 0; start < count; start += 1000) {
      await put(storage, ...positions.slice(start, start + 1000).map((position) => entry("s", position)));
    }
    const allPositions = await lastParts(storage, entries("s"));
    const inOrder = allPositions.length === count && allPositions.every((position, index) => position === index);
    holds(inOrder, rules.order, `${count} positions in order`, `${allPositions.length} positions`);
    let read = 0;
    for (;;) {
      const page = await lastParts(storage, { ...entries("s"), after: read - 1, limit: 999 });
      if (page.length === 0) break;
      same(page[0], read, rules.range, "the first position of the next page");
      read += page.length;
    }
    same(read, count, rules.range, "the number of rows read page by page");
    same(await lastParts(storage, { ...entries("s"), reverse: true, limit: 2 }), [9999, 9998], rules.range, "the last");
    await remove(storage, "entries", ["t", "s"]);
    same(await lastParts(storage, entries("s")), [], rules.batch, "the rows after the removal");
  },
};

const specialTexts = [
  "",
  "'",
  '"',
  "''; DROP TABLE sessions; --",
  "%_\\?*[]",
  "$1 :name @name ?1",
  "a\0b",
  "\0",
  "\u0001",
  "\u0001\u0002\0",
  "\ud7ff",
  "line\nline\r\n\ttab",
  " around ",
  "😀 é \uffff \u202e",
  "x".repeat(1000),
];

// Round trips of keys and values, isolation of read rows, and durability over a restart.
const roundTrips: StorageCases = {
  "a row is read as it was written": async (storage) => {
    const rows: readonly Put[] = [
      { table: "sessions", key: ["t", "a"], tag: 7, value: '{"a":1}' },
      { table: "sessions", key: ["t", "b"], tag: 0, ttlMs: null, value: "" },
      { table: "sessions", key: ["t", "c"], tag: -3, value: "null" },
      { table: "sessions", key: ["t", "d"], tag: Number.MAX_SAFE_INTEGER, value: " " },
    ];
    await put(storage, ...rows);
    const expected = rows.map(({ key, tag, value }) => lasting({ key, tag, value }));
    same(await storage.read([tenantSessions]), [expected], rules.verbatim, "the rows");
  },
  "keys and values with special characters are read as they were written": async (storage) => {
    await put(storage, ...specialTexts.map((text) => session(text, { value: text })));
    for (const text of specialTexts) {
      const rows = await rowsOf(storage, { table: "sessions", prefix: ["t", text] });
      const expected = [lasting({ key: ["t", text], tag: 0, value: text })];
      same(rows, expected, rules.verbatim, `the rows of ${JSON.stringify(text)}`);
    }
    const sorted = specialTexts.toSorted((left, right) => comparePoints(codePoints(left), codePoints(right)));
    same(await lastParts(storage, tenantSessions), sorted, rules.order, "the keys");
  },
  "a value of one megabyte is read as it was written": async (storage) => {
    const value = "0123456789abcdef".repeat(65_536);
    const wide = "é😀".repeat(100_000);
    await put(storage, entry("s", 1, { value }), entry("s", 2, { value: wide }));
    const rows = await rowsOf(storage, entries("s"));
    const unchanged = rows[0]?.value === value && rows[1]?.value === wide;
    holds(unchanged, rules.verbatim, "both values", `values of ${rows.map((row) => row.value.length).join(" and ")}`);
  },
  "a later write does not change rows that were read before": async (storage) => {
    const key = ["t", "s"];
    await put(storage, { table: "sessions", key, tag: 1, value: "first" });
    const [before = []] = await storage.read([tenantSessions]);
    key[1] = "changed";
    await put(storage, session("s", { tag: 2, value: "second" }));
    same(before, [lasting({ key: ["t", "s"], tag: 1, value: "first" })], rules.verbatim, "the rows that were read");
    const [after = []] = await storage.read([tenantSessions]);
    same(after, [lasting({ key: ["t", "s"], tag: 2, value: "second" })], rules.verbatim, "the rows that are read now");
  },
  "a write that need not be durable is visible at once": async (storage) => {
    const batch = { checks: [], removals: [], puts: [entry("s", 1)] };
    same(await storage.write({ ...batch, lasting: false }), { ok: true }, rules.batch, "the result of the write");
    same(await lastParts(storage, entries("s")), [1], rules.batch, "the stored rows");
    same(await storage.write({ ...batch, lasting: true }), { ok: true }, rules.batch, "the result of the next write");
  },
  "written data is present after the storage is opened again": async (storage, { reopen }) => {
    const rows = Array.from({ length: 50 }, (_, position) => entry("s", position, { value: `value ${position}` }));
    await put(storage, ...rows, session("gone"));
    await storage.write({ checks: [], removals: [], puts: [session("fleeting")], lasting: false });
    await storage.write({
      checks: [],
      removals: [{ table: "sessions", prefix: ["t", "gone"] }],
      puts: [session("s", { tag: 3 }), session("lease", { tag: 1, ttlMs: longMs })],
    });
    if (reopen === null) return;
    const opened = await reopen();
    const [entryRows = [], sessions = []] = await opened.read([entries("s"), tenantSessions]);
    same(valuesOf(entryRows), valuesOf(rows), rules.lasts, "the entries");
    const expected = [
      lasting({ key: ["t", "fleeting"], tag: 0, value: "" }),
      lasting({ key: ["t", "s"], tag: 3, value: "" }),
    ];
    const others = sessions.filter(({ key }) => key[1] !== "lease");
    same(others, expected, rules.lasts, "the sessions");
    await alive(opened, { ...check("lease", 1), alive: true }, true);
    const first = { table: "sessions", key: ["t", "s"], tag: 3 } as const;
    await written(opened, [first], [session("s", { tag: 4 })]);
  },
};

// Conditional batches: the compare-and-swap that fencing, idempotency keys and input claims are built on.
const checks: StorageCases = {
  "a check on a tag fails for another tag and for a missing row": async (storage) => {
    await put(storage, session("s", { tag: 5 }));
    await written(storage, [check("s", 5)], [session("s", { tag: 6 })]);
    await refused(storage, [check("s", 5)], 0);
    await refused(storage, [check("s", 7)], 0);
    await refused(storage, [check("none", 0)], 0);
    await written(storage, [check("s", 6)], []);
  },
  "a check for absence fails if the row exists": async (storage) => {
    await written(storage, [check("s", null)], [session("s", { tag: 0 })]);
    await refused(storage, [check("s", null)], 0);
    await remove(storage, "sessions", ["t", "s"]);
    await written(storage, [check("s", null)], [session("s")]);
  },
  "a check with alive compares the expiry with the clock of the storage": async (storage) => {
    await put(storage, session("s", { tag: 1, ttlMs: longMs }), session("always", { tag: 1, ttlMs: null }));
    await put(storage, session("over", { tag: 1, ttlMs: 0 }));
    await alive(storage, { ...check("s", 1), alive: true }, true);
    await alive(storage, { ...check("s", 2), alive: true }, false);
    await alive(storage, { ...check("over", 1), alive: true }, false);
    await alive(storage, check("over", 1), true);
    await alive(storage, { ...check("always", 1), alive: true }, true);
    await alive(storage, { ...check("none", 1), alive: true }, false);
    await put(storage, session("over", { tag: 1, ttlMs: longMs }));
    await alive(storage, { ...check("over", 1), alive: true }, true);
  },
  "a row is read with its remaining time, and a check can compare the expiry": async (storage) => {
    await put(storage, session("s", { tag: 1, ttlMs: longMs }), session("over", { tag: 1, ttlMs: 0 }));
    const [[expired, live] = []] = await storage.read([tenantSessions]);
    const remaining = live?.remainingMs ?? 0;
    holds(remaining > longMs / 2 && remaining <= longMs, rules.alive, `about ${longMs} ms left`, `${remaining} ms`);
    holds((expired?.remainingMs ?? 1) <= 0, rules.alive, "no remaining time", `${expired?.remainingMs} ms`);
    holds(expired?.expires === 0, rules.alive, "an expiry of 0, which no clock is before", `${expired?.expires}`);
    await alive(storage, { ...check("s", 1), expires: live?.expires ?? null }, true);
    await alive(storage, { ...check("s", 1), expires: (live?.expires ?? 0) + 1 }, false);
    await alive(storage, { ...check("s", 1), expires: null }, false);
  },
  "an expired row still exists": async (storage) => {
    await put(storage, session("s", { tag: 1, ttlMs: 0 }));
    same(await lastParts(storage, tenantSessions), ["s"], rules.alive, "the stored rows");
    await refused(storage, [check("s", null)], 0);
  },
  "a batch with a failed check writes nothing and returns the index of the check": async (storage) => {
    await put(storage, session("a", { tag: 1 }), session("b", { tag: 1 }), entry("s", 1));
    const before = await allRows(storage);
    for (const [index, failing] of [check("a", 9), check("b", null), check("none", 1)].entries()) {
      const checks = [check("a", 1), check("b", 1), check("c", null)].with(index, failing);
      const actual = await storage.write({
        checks,
        removals: [allEntries, { table: "sessions", prefix: ["t", "a"] }],
        puts: [session("a", { tag: 2 }), session("c"), entry("s", 2)],
      });
      same(actual, { ok: false, check: index }, rules.check, "the result of the write");
      same(await allRows(storage), before, rules.check, "the stored rows");
    }
  },
  "checks see the rows before the batch": async (storage) => {
    await put(storage, session("a", { tag: 1 }));
    const actual = await storage.write({
      checks: [check("a", 1), check("b", null)],
      removals: [{ table: "sessions", prefix: ["t", "a"] }],
      puts: [session("b", { tag: 1 })],
    });
    same(actual, { ok: true }, rules.check, "the result of the write");
    same(await lastParts(storage, tenantSessions), ["b"], rules.batch, "the stored rows");
  },
};

// Atomicity of batches and snapshot isolation of reads.
const batches: StorageCases = {
  "a put replaces the whole row": async (storage) => {
    await put(storage, session("s", { tag: 1, ttlMs: 5, value: "first" }));
    await put(storage, session("s", { tag: 2, value: "second" }));
    const expected = [lasting({ key: ["t", "s"], tag: 2, value: "second" })];
    same(await storage.read([{ table: "sessions", prefix: [] }]), [expected], rules.batch, "the rows");
  },
  "a removal deletes the rows below its prefix, and no others": async (storage) => {
    await put(storage, entry("s", 1), entry("s", 2), entry("ss", 3), entry("", 4), session("s"));
    await remove(storage, "entries", ["t", "s"]);
    same(await lastParts(storage, allEntries), [4, 3], rules.batch, "the remaining rows");
    same(await lastParts(storage, { table: "sessions", prefix: [] }), ["s"], rules.batch, "the other table");
    await remove(storage, "entries", ["t", "ss", 3]);
    same(await lastParts(storage, allEntries), [4], rules.batch, "the remaining rows after the second removal");
    await remove(storage, "entries", []);
    same(await lastParts(storage, allEntries), [], rules.batch, "the remaining rows after the last removal");
    await remove(storage, "entries", ["t", "none"]);
  },
  "removals precede puts": async (storage) => {
    await put(storage, entry("s", 1, { value: "old" }), entry("s", 2));
    await storage.write({
      checks: [],
      removals: [{ table: "entries", prefix: ["t", "s"] }],
      puts: [entry("s", 1, { value: "new" }), entry("s", 3)],
    });
    const rows = await rowsOf(storage, entries("s"));
    const actual = rows.map((row) => [row.key[2], row.value]);
    const expected = [
      [1, "new"],
      [3, ""],
    ];
    same(actual, expected, rules.batch, "the stored rows");
  },
  "an empty batch succeeds": async (storage) => {
    same(
      await storage.write({ checks: [], removals: [], puts: [] }),
      { ok: true },
      rules.batch,
      "the result of the write",
    );
    same(await storage.read([]), [], rules.batch, "the result of a read without queries");
  },
  "readers see a batch over several tables as a whole": async (storage) => {
    const write = async () => {
      for (let round = 1; round <= 100; round += 1) {
        await put(storage, session("a", { tag: round }), entry("s", 1, { tag: round }));
      }
    };
    const read = async () => {
      for (let round = 1; round <= 100; round += 1) {
        const [sessions = [], there = []] = await allRows(storage);
        same(tagsOf(there), tagsOf(sessions), rules.moment, "the tags in the second table");
      }
    };
    await Promise.all([write(), read(), read()]);
  },
  "several queries are answered in query order": async (storage) => {
    await put(storage, entry("s", 1), entry("s", 2), session("a"));
    const answers = await storage.read([
      tenantSessions,
      entries("none"),
      entries("s"),
      { ...entries("s"), reverse: true, limit: 1 },
    ]);
    const keys = answers.map((rows) => rows.map((row) => row.key.at(-1)));
    same(keys, [["a"], [], [1, 2], [2]], rules.moment, "the answers");
  },
};

// Watchers and concurrent writers.
const concurrency: StorageCases = {
  "a watcher is called after every write": async (storage) => {
    const watcher = startWatcher(storage);
    try {
      for (let round = 0; round < 3; round += 1) {
        const called = watcher.next();
        await put(storage, session("s", { tag: round }));
        await within(patienceMs, called, rules.watch, "the call of the watcher");
      }
    } finally {
      watcher.end();
    }
  },
  "an unsubscribed watcher is not called, and the others still are": async (storage) => {
    const ended = startWatcher(storage);
    const other = startWatcher(storage);
    try {
      const both = [ended.next(), other.next()];
      await put(storage, session("s"));
      await within(patienceMs, Promise.all(both), rules.watch, "the calls of both watchers");
      ended.end();
      ended.end();
      const calls = ended.calls();
      const called = other.next();
      await put(storage, session("s"));
      await within(patienceMs, called, rules.watch, "the call of the other watcher");
      same(ended.calls(), calls, rules.watch, "the number of calls of the unsubscribed watcher");
    } finally {
      ended.end();
      other.end();
    }
  },
  "of concurrent writers with a check on the same row exactly one succeeds": async (storage) => {
    for (let round = 0; round < 10; round += 1) {
      const checks = [check("s", round === 0 ? null : round)];
      const attempts = Array.from({ length: 20 }, (_, writer) =>
        storage.write({ checks, removals: [], puts: [session("s", { tag: round + 1, value: `writer ${writer}` })] }),
      );
      const results = await Promise.all(attempts);
      const winners = results.flatMap((result, writer) => (result.ok ? [`writer ${writer}`] : []));
      same(winners.length, 1, rules.race, "the number of successful writes");
      const rows = await rowsOf(storage, { table: "sessions", prefix: ["t", "s"] });
      same(valuesOf(rows), winners, rules.race, "the stored rows");
      const failures = results.filter((result) => !result.ok);
      same(
        failures,
        Array.from({ length: 19 }, () => ({ ok: false, check: 0 })),
        rules.race,
        "the results of the other writes",
      );
    }
  },
  "concurrent compare-and-swap loops lose no update": async (storage) => {
    await put(storage, session("sum", { tag: 0, value: "0" }));
    await Promise.all(Array.from({ length: 10 }, () => addOne(storage)));
    const rows = await rowsOf(storage, { table: "sessions", prefix: ["t", "sum"] });
    same(valuesOf(rows), ["10"], rules.race, "the sum");
  },
  "the storage has a name and a durability": async (storage, { reopen }) => {
    holds(storage.name !== "", "a storage has a name for errors", "a name", storage.name);
    const lasts = reopen === null || storage.durability === "durable";
    holds(lasts, rules.lasts, 'the durability "durable" of a storage that can be opened again', storage.durability);
  },
};

/** Long enough not to pass during a test. */
const longMs = 86_400_000;

/** The read form of a row that never expires. */
function lasting(row: Pick<Row, "key" | "tag" | "value">): Row {
  return { ...row, expires: null, remainingMs: null };
}

type Details = Partial<Pick<Put, "tag" | "ttlMs" | "value">> & { readonly tenant?: string };

function entry(session: string, position: number, { tenant = "t", ...details }: Details = {}): Put {
  return { table: "entries", key: [tenant, session, position], tag: 0, value: "", ...details };
}

function session(name: string, { tenant = "t", ...details }: Details = {}): Put {
  return { table: "sessions", key: [tenant, name], tag: 0, value: "", ...details };
}

function entries(session: string): Query {
  return { table: "entries", prefix: ["t", session] };
}

const tenantSessions: Query = { table: "sessions", prefix: ["t"] };
const allEntries: Query = { table: "entries", prefix: [] };

function check(session: string, tag: number | null): Check {
  return { table: "sessions", key: ["t", session], tag };
}

async function put(storage: HostStorage, ...puts: readonly Put[]): Promise<void> {
  same(await storage.write({ checks: [], removals: [], puts }), { ok: true }, rules.batch, "the result of the write");
}

async function remove(storage: HostStorage, table: Query["table"], prefix: Query["prefix"]): Promise<void> {
  await storage.write({ checks: [], removals: [{ table, prefix }], puts: [] });
}

async function written(storage: HostStorage, checks: Batch["checks"], puts: Batch["puts"]): Promise<void> {
  same(await storage.write({ checks, removals: [], puts }), { ok: true }, rules.check, "the result of the write");
}

/** Checks that the batch fails with the check at `index` and writes nothing. */
async function refused(storage: HostStorage, checks: Batch["checks"], index: number): Promise<void> {
  const actual: Written = await storage.write({ checks, removals: [], puts: [session("refused")] });
  same(actual, { ok: false, check: index }, rules.check, "the result of the write");
  const rows = await rowsOf(storage, { table: "sessions", prefix: ["t", "refused"] });
  same(rows, [], rules.check, "what was written");
}

/** Checks whether a batch with this check succeeds. */
async function alive(storage: HostStorage, tested: Check, expected: boolean): Promise<void> {
  const actual = await storage.write({ checks: [tested], removals: [], puts: [] });
  const result: Written = expected ? { ok: true } : { ok: false, check: 0 };
  same(actual, result, rules.alive, `the result of the check ${JSON.stringify(tested)}`);
}

async function rowsOf(storage: HostStorage, query: Query): Promise<readonly Row[]> {
  const [rows] = await storage.read([query]);
  if (rows === undefined) throw broken(rules.moment, "a result for every query", "none");
  return rows;
}

/** The last key part of each row of a query. */
async function lastParts(storage: HostStorage, query: Query): Promise<readonly unknown[]> {
  return (await rowsOf(storage, query)).map((row) => row.key.at(-1));
}

function keysOf(rows: readonly Row[]): readonly Key[] {
  return rows.map((row) => row.key);
}

function tagsOf(rows: readonly Row[]): readonly number[] {
  return rows.map((row) => row.tag);
}

function valuesOf(rows: readonly Pick<Row, "value">[]): readonly string[] {
  return rows.map((row) => row.value);
}

function allRows(storage: HostStorage): Promise<readonly (readonly Row[])[]> {
  return storage.read([{ table: "sessions", prefix: [] }, allEntries]);
}

/** Increments the value of a row in a compare-and-swap loop. */
async function addOne(storage: HostStorage): Promise<void> {
  for (;;) {
    const [[row] = []] = await storage.read([{ table: "sessions", prefix: ["t", "sum"] }]);
    if (row === undefined) throw broken(rules.race, "the row of the sum", "none");
    const next = session("sum", { tag: row.tag + 1, value: String(Number(row.value) + 1) });
    const result = await storage.write({ checks: [check("sum", row.tag)], removals: [], puts: [next] });
    if (result.ok) return;
  }
}

/** A watcher whose next call can be awaited. */
function startWatcher(storage: HostStorage): {
  readonly next: () => Promise<void>;
  readonly calls: () => number;
  readonly end: () => void;
} {
  let calls = 0;
  let wake: (() => void) | null = null;
  const end = storage.watch(() => {
    calls += 1;
    wake?.();
  });
  const next = () =>
    new Promise<void>((resolve) => {
      wake = resolve;
    });
  return { next, calls: () => calls, end };
}

function codePoints(text: string): readonly number[] {
  return Array.from(text, (character) => character.codePointAt(0) ?? 0);
}

function comparePoints(left: readonly number[], right: readonly number[]): number {
  const index = left.findIndex((point, place) => point !== right[place]);
  if (index === -1) return left.length - right.length;
  return (left[index] ?? -1) - (right[index] ?? -1);
}
