// What every storage has to keep. Rows of the suite stand in the tables of the runtime, whose keys have all the kinds of parts there are.

import type { Batch, Check, Key, Put, Query, Row, HostStorage, Written } from "../runtime/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { broken, holds, patienceMs, same, within } from "./conformance.ts";

/** An empty storage for {@link storageSuite}, and how to open it again. */
export type StorageUnderTest = {
  readonly storage: HostStorage;
  /** Opens what was written once more, as after a restart; `null` when it is gone with the process. */
  readonly reopen: (() => Promise<HostStorage>) | null;
  /** Ends everything that was opened, and removes what was written. */
  readonly close: () => Promise<void>;
};

const rules = {
  order: "rows come in the order of their keys: whole numbers as numbers, texts by their code points",
  range:
    "a query is answered with the rows whose key begins like its prefix, between its bounds, which do not belong to it",
  verbatim: "a row comes out as it was written: key, tag, value",
  check:
    "a batch is written if all its checks hold; otherwise nothing of it is, and the check that does not hold is named by its place",
  alive: "a row is alive until its time has passed by the clock of the storage; one without an expiry is always alive",
  batch: "removals come before puts, puts replace what is there, and all of it is seen at once",
  moment: "all queries of a read are answered from one moment",
  watch: "whoever watches is called after a write, and no more after it has ended that",
  race: "of several that write at once and rely on the same row, one is first, and the others are told so",
  lasts: "what was written is there when it is opened again",
};

/** The conformance cases of a storage. `make` is called once per case and must return an empty storage. */
export function storageSuite(make: () => Promise<StorageUnderTest>): readonly ConformanceCase[] {
  const testing = (name: string, work: (storage: HostStorage, made: StorageUnderTest) => Promise<void>) => ({
    name,
    run: async () => {
      const made = await make();
      try {
        await within(4 * patienceMs, work(made.storage, made), name, "the case to end");
      } finally {
        await made.close();
      }
    },
  });
  return [
    ...ordering.map(([name, work]) => testing(name, work)),
    ...ranges.map(([name, work]) => testing(name, work)),
    ...keeping.map(([name, work]) => testing(name, work)),
    ...checking.map(([name, work]) => testing(name, work)),
    ...batches.map(([name, work]) => testing(name, work)),
    ...company.map(([name, work]) => testing(name, work)),
  ];
}

type Work = (storage: HostStorage, made: StorageUnderTest) => Promise<void>;
type Cases = readonly (readonly [name: string, work: Work])[];

const ordering: Cases = [
  [
    "numbers in keys sort as numbers",
    async (storage) => {
      const numbers = [10, -1, 2, 0, 100, Number.MAX_SAFE_INTEGER, 9, -Number.MAX_SAFE_INTEGER, 2 ** 32, -20];
      await put(storage, ...numbers.map((number) => entry("s", number)));
      const sorted = numbers.toSorted((left, right) => left - right);
      same(await lastParts(storage, entries("s")), sorted, rules.order, "the positions");
    },
  ],
  [
    "numbers in keys come before the texts behind them",
    async (storage) => {
      const keys: readonly Key[] = [
        ["t", 9, "b"],
        ["t", 10, "a"],
        ["t", 10, "b"],
        ["t", 200, ""],
      ];
      await put(storage, ...keys.toReversed().map((key) => ({ table: "recent", key, tag: 0, value: "" }) as const));
      const [rows = []] = await storage.read([{ table: "recent", prefix: ["t"] }]);
      same(keysOf(rows), keys, rules.order, "the keys");
    },
  ],
  [
    "texts in keys sort by their code points",
    async (storage) => {
      const texts = ["", " ", "10", "2", "A", "Z", "a", "aa", "b", "z", "é", "ω", "あ", "\ue000", "\uffff", "😀", "😁"];
      await put(storage, ...texts.toReversed().map((text) => session(text)));
      same(await lastParts(storage, { table: "sessions", prefix: ["t"] }), texts, rules.order, "the sessions");
      const beyond = await lastParts(storage, { table: "sessions", prefix: ["t"], after: "\uffff" });
      same(beyond, ["😀", "😁"], rules.order, "the sessions after U+FFFF");
    },
  ],
  [
    "texts that look alike are not the same",
    async (storage) => {
      const texts = ["É", "E\u0301", "e", "E", "É ", "ß", "ss"];
      await put(storage, ...texts.map((text) => session(text, { value: text })));
      for (const text of texts) {
        const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t", text] }]);
        same(valuesOf(rows), [text], rules.verbatim, `the rows of ${JSON.stringify(text)}`);
      }
    },
  ],
];

const ranges: Cases = [
  [
    "a prefix finds the rows below it, and no others",
    async (storage) => {
      await put(
        storage,
        entry("s", 1),
        entry("s", 2),
        entry("", 3),
        entry("ss", 4),
        entry("s", 5, { tenant: "other" }),
      );
      same(await lastParts(storage, entries("s")), [1, 2], rules.range, "the positions");
      const all = await lastParts(storage, { table: "entries", prefix: [] });
      same(all, [5, 3, 1, 2, 4], rules.range, "the positions of all");
      same(await lastParts(storage, entries("none")), [], rules.range, "the positions where there are none");
      same(await lastParts(storage, { table: "events", prefix: [] }), [], rules.range, "the rows of another table");
    },
  ],
  [
    "a whole key finds its row, or none",
    async (storage) => {
      await put(storage, entry("s", 1), entry("s", 2));
      same(await lastParts(storage, { table: "entries", prefix: ["t", "s", 2] }), [2], rules.range, "what is found");
      same(await lastParts(storage, { table: "entries", prefix: ["t", "s", 3] }), [], rules.range, "what is missing");
    },
  ],
  [
    "bounds leave out the rows on them",
    async (storage) => {
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
      for (const [bounds, wanted] of cases) {
        const came = await lastParts(storage, { ...entries("s"), ...bounds });
        same(came, wanted, rules.range, `the positions with ${JSON.stringify(bounds)}`);
      }
    },
  ],
  [
    "bounds hold for the part behind the prefix, whatever follows it",
    async (storage) => {
      await put(storage, ...["a", "b", "c"].flatMap((name) => [1, 2].map((position) => entry(name, position))));
      const query = { table: "entries", prefix: ["t"], after: "a", before: "c" } as const;
      const [rows = []] = await storage.read([query]);
      same(
        keysOf(rows),
        [
          ["t", "b", 1],
          ["t", "b", 2],
        ],
        rules.range,
        "the keys",
      );
      const [due = []] = await storage.read([{ table: "deadlines", prefix: [], before: 10 }]);
      same(due, [], rules.range, "the rows of an empty table");
    },
  ],
  [
    "a limit takes the first ones, and the last ones in reverse",
    async (storage) => {
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
      for (const [bounds, wanted] of cases) {
        const came = await lastParts(storage, { ...entries("s"), ...bounds });
        same(came, wanted, rules.range, `the positions with ${JSON.stringify(bounds)}`);
      }
    },
  ],
  [
    "ten thousand rows are read in order, whole and page by page",
    async (storage) => {
      const count = 10_000;
      // In an order that is not theirs; 7919 has no factor in common with the count.
      const positions = Array.from({ length: count }, (_, index) => (index * 7919) % count);
      for (let start = 0; start < count; start += 1000) {
        await put(storage, ...positions.slice(start, start + 1000).map((position) => entry("s", position)));
      }
      const whole = await lastParts(storage, entries("s"));
      const inOrder = whole.length === count && whole.every((position, index) => position === index);
      holds(inOrder, rules.order, `${count} positions in order`, `${whole.length} positions`);
      let read = 0;
      for (;;) {
        const page = await lastParts(storage, { ...entries("s"), after: read - 1, limit: 999 });
        if (page.length === 0) break;
        same(page[0], read, rules.range, "the first position of the next page");
        read += page.length;
      }
      same(read, count, rules.range, "how many were read page by page");
      same(
        await lastParts(storage, { ...entries("s"), reverse: true, limit: 2 }),
        [9999, 9998],
        rules.range,
        "the last",
      );
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: ["t", "s"] }], puts: [] });
      same(await lastParts(storage, entries("s")), [], rules.batch, "what is left of them");
    },
  ],
];

const odd = [
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

const keeping: Cases = [
  [
    "a row comes out as it was written",
    async (storage) => {
      const rows: readonly Put[] = [
        { table: "sessions", key: ["t", "a"], tag: 7, value: '{"a":1}' },
        { table: "sessions", key: ["t", "b"], tag: 0, ttlMs: null, value: "" },
        { table: "sessions", key: ["t", "c"], tag: -3, value: "null" },
        { table: "sessions", key: ["t", "d"], tag: Number.MAX_SAFE_INTEGER, value: " " },
      ];
      await put(storage, ...rows);
      const wanted = rows.map(({ key, tag, value }) => lasting({ key, tag, value }));
      same(await storage.read([{ table: "sessions", prefix: ["t"] }]), [wanted], rules.verbatim, "the rows");
    },
  ],
  [
    "odd characters in keys and values come out as they went in",
    async (storage) => {
      await put(storage, ...odd.map((text) => session(text, { value: text })));
      for (const text of odd) {
        const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t", text] }]);
        const wanted = [lasting({ key: ["t", text], tag: 0, value: text })];
        same(rows, wanted, rules.verbatim, `the rows of ${JSON.stringify(text)}`);
      }
      const sorted = odd.toSorted((left, right) => comparePoints(codePoints(left), codePoints(right)));
      same(await lastParts(storage, { table: "sessions", prefix: ["t"] }), sorted, rules.order, "the keys");
    },
  ],
  [
    "a value of a megabyte comes out as it went in",
    async (storage) => {
      const value = "0123456789abcdef".repeat(65_536);
      const wide = "é😀".repeat(100_000);
      await put(storage, entry("s", 1, { value }), entry("s", 2, { value: wide }));
      const [rows = []] = await storage.read([entries("s")]);
      const whole = rows[0]?.value === value && rows[1]?.value === wide;
      holds(whole, rules.verbatim, "both values", `values of ${rows.map((row) => row.value.length).join(" and ")}`);
    },
  ],
  [
    "what was read does not change with what is written later",
    async (storage) => {
      const key = ["t", "s"];
      await put(storage, { table: "sessions", key, tag: 1, value: "first" });
      const [before = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
      key[1] = "changed";
      await put(storage, session("s", { tag: 2, value: "second" }));
      same(before, [lasting({ key: ["t", "s"], tag: 1, value: "first" })], rules.verbatim, "what was read");
      const [after = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
      same(after, [lasting({ key: ["t", "s"], tag: 2, value: "second" })], rules.verbatim, "what is read now");
    },
  ],
  [
    "what need not last can be read at once",
    async (storage) => {
      const batch = { checks: [], removals: [], puts: [entry("s", 1)] };
      same(await storage.write({ ...batch, lasting: false }), { ok: true }, rules.batch, "what came of the write");
      same(await lastParts(storage, entries("s")), [1], rules.batch, "what is there");
      same(await storage.write({ ...batch, lasting: true }), { ok: true }, rules.batch, "what came of the next one");
    },
  ],
  [
    "what was written is there when it is opened again",
    async (storage, { reopen }) => {
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
      const [kept = [], sessions = []] = await opened.read([entries("s"), { table: "sessions", prefix: ["t"] }]);
      same(valuesOf(kept), valuesOf(rows), rules.lasts, "the entries");
      const wanted = [
        lasting({ key: ["t", "fleeting"], tag: 0, value: "" }),
        lasting({ key: ["t", "s"], tag: 3, value: "" }),
      ];
      const others = sessions.filter(({ key }) => key[1] !== "lease");
      same(others, wanted, rules.lasts, "the sessions");
      await alive(opened, { ...check("lease", 1), alive: true }, true);
      const first = { table: "sessions", key: ["t", "s"], tag: 3 } as const;
      await written(opened, [first], [session("s", { tag: 4 })]);
    },
  ],
];

const checking: Cases = [
  [
    "a check on a tag holds for that tag, and for no other or missing row",
    async (storage) => {
      await put(storage, session("s", { tag: 5 }));
      await written(storage, [check("s", 5)], [session("s", { tag: 6 })]);
      await refused(storage, [check("s", 5)], 0);
      await refused(storage, [check("s", 7)], 0);
      await refused(storage, [check("none", 0)], 0);
      await written(storage, [check("s", 6)], []);
    },
  ],
  [
    "a check for absence holds where no row is",
    async (storage) => {
      await written(storage, [check("s", null)], [session("s", { tag: 0 })]);
      await refused(storage, [check("s", null)], 0);
      await storage.write({ checks: [], removals: [{ table: "sessions", prefix: ["t", "s"] }], puts: [] });
      await written(storage, [check("s", null)], [session("s")]);
    },
  ],
  [
    "a check of what is alive looks at the expiry",
    async (storage) => {
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
  ],
  [
    "the time a row has left is read with it, and a check may compare its expiry",
    async (storage) => {
      await put(storage, session("s", { tag: 1, ttlMs: longMs }), session("over", { tag: 1, ttlMs: 0 }));
      const [[over, left] = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
      const remaining = left?.remainingMs ?? 0;
      holds(remaining > longMs / 2 && remaining <= longMs, rules.alive, `about ${longMs} ms left`, `${remaining} ms`);
      holds((over?.remainingMs ?? 1) <= 0, rules.alive, "nothing left", `${over?.remainingMs} ms`);
      await alive(storage, { ...check("s", 1), expires: left?.expires ?? null }, true);
      await alive(storage, { ...check("s", 1), expires: (left?.expires ?? 0) + 1 }, false);
      await alive(storage, { ...check("s", 1), expires: null }, false);
    },
  ],
  [
    "a row that has run out is still there",
    async (storage) => {
      await put(storage, session("s", { tag: 1, ttlMs: 0 }));
      same(await lastParts(storage, { table: "sessions", prefix: ["t"] }), ["s"], rules.alive, "what is there");
      await refused(storage, [check("s", null)], 0);
    },
  ],
  [
    "a batch whose check does not hold writes nothing, and names the check",
    async (storage) => {
      await put(storage, session("a", { tag: 1 }), session("b", { tag: 1 }), entry("s", 1));
      const before = await everything(storage);
      for (const [place, bad] of [check("a", 9), check("b", null), check("none", 1)].entries()) {
        const checks = [check("a", 1), check("b", 1), check("c", null)].with(place, bad);
        const came = await storage.write({
          checks,
          removals: [
            { table: "entries", prefix: [] },
            { table: "sessions", prefix: ["t", "a"] },
          ],
          puts: [session("a", { tag: 2 }), session("c"), entry("s", 2)],
        });
        same(came, { ok: false, check: place }, rules.check, "what came of it");
        same(await everything(storage), before, rules.check, "what is there");
      }
    },
  ],
  [
    "checks look at what was there before the batch",
    async (storage) => {
      await put(storage, session("a", { tag: 1 }));
      const came = await storage.write({
        checks: [check("a", 1), check("b", null)],
        removals: [{ table: "sessions", prefix: ["t", "a"] }],
        puts: [session("b", { tag: 1 })],
      });
      same(came, { ok: true }, rules.check, "what came of it");
      same(await lastParts(storage, { table: "sessions", prefix: ["t"] }), ["b"], rules.batch, "what is there");
    },
  ],
];

const batches: Cases = [
  [
    "a put replaces all of a row",
    async (storage) => {
      await put(storage, session("s", { tag: 1, ttlMs: 5, value: "first" }));
      await put(storage, session("s", { tag: 2, value: "second" }));
      const wanted = [lasting({ key: ["t", "s"], tag: 2, value: "second" })];
      same(await storage.read([{ table: "sessions", prefix: [] }]), [wanted], rules.batch, "the rows");
    },
  ],
  [
    "a removal takes what is below its prefix, and nothing else",
    async (storage) => {
      await put(storage, entry("s", 1), entry("s", 2), entry("ss", 3), entry("", 4), session("s"));
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: ["t", "s"] }], puts: [] });
      same(await lastParts(storage, { table: "entries", prefix: [] }), [4, 3], rules.batch, "what is left");
      same(await lastParts(storage, { table: "sessions", prefix: [] }), ["s"], rules.batch, "the other table");
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: ["t", "ss", 3] }], puts: [] });
      same(await lastParts(storage, { table: "entries", prefix: [] }), [4], rules.batch, "what is left of that");
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: [] }], puts: [] });
      same(await lastParts(storage, { table: "entries", prefix: [] }), [], rules.batch, "what is left in the end");
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: ["t", "none"] }], puts: [] });
    },
  ],
  [
    "removals come before puts",
    async (storage) => {
      await put(storage, entry("s", 1, { value: "old" }), entry("s", 2));
      await storage.write({
        checks: [],
        removals: [{ table: "entries", prefix: ["t", "s"] }],
        puts: [entry("s", 1, { value: "new" }), entry("s", 3)],
      });
      const [rows = []] = await storage.read([entries("s")]);
      const came = rows.map((row) => [row.key[2], row.value]);
      const wanted = [
        [1, "new"],
        [3, ""],
      ];
      same(came, wanted, rules.batch, "what is there");
    },
  ],
  [
    "a batch of nothing is written",
    async (storage) => {
      same(await storage.write({ checks: [], removals: [], puts: [] }), { ok: true }, rules.batch, "what came of it");
      same(await storage.read([]), [], rules.batch, "what a read of nothing answers");
    },
  ],
  [
    "a batch over several tables is seen as a whole",
    async (storage) => {
      const write = async () => {
        for (let round = 1; round <= 100; round += 1) {
          await put(storage, session("a", { tag: round }), entry("s", 1, { tag: round }));
        }
      };
      const read = async () => {
        for (let round = 1; round <= 100; round += 1) {
          const [sessions = [], there = []] = await everything(storage);
          same(tagsOf(there), tagsOf(sessions), rules.moment, "the tags in the second table");
        }
      };
      await Promise.all([write(), read(), read()]);
    },
  ],
  [
    "several queries are answered in their order",
    async (storage) => {
      await put(storage, entry("s", 1), entry("s", 2), session("a"));
      const answers = await storage.read([
        { table: "sessions", prefix: ["t"] },
        entries("none"),
        entries("s"),
        { ...entries("s"), reverse: true, limit: 1 },
      ]);
      const keys = answers.map((rows) => rows.map((row) => row.key.at(-1)));
      same(keys, [["a"], [], [1, 2], [2]], rules.moment, "the answers");
    },
  ],
];

const company: Cases = [
  [
    "whoever watches hears of a write, and again of the next",
    async (storage) => {
      const ear = listening(storage);
      try {
        for (let round = 0; round < 3; round += 1) {
          const heard = ear.next();
          await put(storage, session("s", { tag: round }));
          await within(patienceMs, heard, rules.watch, "to hear of the write");
        }
      } finally {
        ear.end();
      }
    },
  ],
  [
    "whoever has ended watching hears no more, and the others still do",
    async (storage) => {
      const ended = listening(storage);
      const other = listening(storage);
      try {
        const both = [ended.next(), other.next()];
        await put(storage, session("s"));
        await within(patienceMs, Promise.all(both), rules.watch, "both to hear of the write");
        ended.end();
        ended.end();
        const calls = ended.calls();
        const heard = other.next();
        await put(storage, session("s"));
        await within(patienceMs, heard, rules.watch, "the other one to hear of the write");
        same(ended.calls(), calls, rules.watch, "how often the one that ended was called");
      } finally {
        ended.end();
        other.end();
      }
    },
  ],
  [
    "of writers that rely on the same row, one is first",
    async (storage) => {
      for (let round = 0; round < 10; round += 1) {
        const checks = [check("s", round === 0 ? null : round)];
        const attempts = Array.from({ length: 20 }, (_, writer) =>
          storage.write({ checks, removals: [], puts: [session("s", { tag: round + 1, value: `writer ${writer}` })] }),
        );
        const results = await Promise.all(attempts);
        const winners = results.flatMap((result, writer) => (result.ok ? [`writer ${writer}`] : []));
        same(winners.length, 1, rules.race, "how many were first");
        const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t", "s"] }]);
        same(valuesOf(rows), winners, rules.race, "what is there");
        const told = results.filter((result) => !result.ok);
        same(
          told,
          Array.from({ length: 19 }, () => ({ ok: false, check: 0 })),
          rules.race,
          "what the others were told",
        );
      }
    },
  ],
  [
    "writers that add to a row lose nothing",
    async (storage) => {
      await put(storage, session("sum", { tag: 0, value: "0" }));
      await Promise.all(Array.from({ length: 10 }, () => addOne(storage)));
      const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t", "sum"] }]);
      same(valuesOf(rows), ["10"], rules.race, "the sum");
    },
  ],
  [
    "it says what it is",
    async (storage, { reopen }) => {
      holds(storage.name !== "", "a storage has a name for errors", "a name", storage.name);
      const lasts = reopen === null || storage.durability === "durable";
      holds(lasts, rules.lasts, "a storage that can be opened again to call itself durable", storage.durability);
    },
  ],
];

/** Long enough not to pass during a test. */
const longMs = 86_400_000;

/** A row that never expires, as it is read. */
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

function check(session: string, tag: number | null): Check {
  return { table: "sessions", key: ["t", session], tag };
}

async function put(storage: HostStorage, ...puts: readonly Put[]): Promise<void> {
  same(await storage.write({ checks: [], removals: [], puts }), { ok: true }, rules.batch, "what came of the write");
}

async function written(storage: HostStorage, checks: Batch["checks"], puts: Batch["puts"]): Promise<void> {
  same(await storage.write({ checks, removals: [], puts }), { ok: true }, rules.check, "what came of the write");
}

async function refused(storage: HostStorage, checks: Batch["checks"], place: number): Promise<void> {
  const came: Written = await storage.write({ checks, removals: [], puts: [session("refused")] });
  same(came, { ok: false, check: place }, rules.check, "what came of the write");
  const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t", "refused"] }]);
  same(rows, [], rules.check, "what was written");
}

async function alive(storage: HostStorage, one: Check, wanted: boolean): Promise<void> {
  const came = await storage.write({ checks: [one], removals: [], puts: [] });
  const result: Written = wanted ? { ok: true } : { ok: false, check: 0 };
  same(came, result, rules.alive, `what came of the check ${JSON.stringify(one)}`);
}

/** The last part of the key of each row that is found. */
async function lastParts(storage: HostStorage, query: Query): Promise<readonly unknown[]> {
  const [rows] = await storage.read([query]);
  if (rows === undefined) throw broken(rules.moment, "an answer to every query", "none");
  return rows.map((row) => row.key.at(-1));
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

function everything(storage: HostStorage): Promise<readonly (readonly Row[])[]> {
  return storage.read([
    { table: "sessions", prefix: [] },
    { table: "entries", prefix: [] },
  ]);
}

/** Adds one to what a row says, again and again until nobody else was first. */
async function addOne(storage: HostStorage): Promise<void> {
  for (;;) {
    const [[row] = []] = await storage.read([{ table: "sessions", prefix: ["t", "sum"] }]);
    if (row === undefined) throw broken(rules.race, "the row that was put", "none");
    const next = session("sum", { tag: row.tag + 1, value: String(Number(row.value) + 1) });
    const result = await storage.write({ checks: [check("sum", row.tag)], removals: [], puts: [next] });
    if (result.ok) return;
  }
}

/** Somebody who watches and can be waited for. */
function listening(storage: HostStorage): {
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
