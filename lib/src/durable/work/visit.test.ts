// Visits of the index of work: fairness between queues and lanes, budgets, errors, and what a visit reads.

import type { HostStorage, Query } from "../internal.ts";
import type { WorkItem } from "../rows/work.ts";
import type { WorkKind } from "./visit.ts";

import { describe, expect, test } from "vitest";

import { RuntimeError } from "../../core/model/internal.ts";
import { handClock } from "../../testing/hand-clock.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { laneOf, workPut, workRemoval } from "../rows/work.ts";
import { Lanes } from "./lanes.ts";
import { WorkIndex } from "./visit.ts";

const unlimited = { rows: Infinity, pages: Infinity, until: Infinity };

/** An index with rows of a reason, and a process that removes each row that it handles. */
async function indexed(items: readonly WorkItem[], changes: Partial<WorkKind> = {}) {
  const clock = handClock();
  const memory = memoryStorage({ clock });
  const reads: Query[] = [];
  const storage: HostStorage = {
    ...memory,
    read: (queries) => {
      reads.push(...queries);
      return memory.read(queries);
    },
  };
  const add = (added: readonly WorkItem[]) =>
    memory.write({ checks: [], removals: [], puts: added.map((item) => workPut(item)) });
  await add(items);
  const handled: WorkItem[] = [];
  const kind: WorkKind = {
    reason: items[0]?.reason ?? "turn",
    queues: [...new Set(items.map(({ queue }) => queue))],
    share: () => 2,
    retryMs: 1000,
    hasPlace: () => true,
    queriesFor: () => [],
    onError: null,
    handle: async (item) => {
      handled.push(item);
      await memory.write({ checks: [], removals: [workRemoval(item)], puts: [] });
      return "done";
    },
    ...changes,
  };
  const lanes = new Lanes(storage, kind.reason);
  const index = new WorkIndex(storage, clock);
  const visit = (horizon = 100, budget = unlimited) => index.visit(kind, lanes, horizon, budget);
  const sessions = () => handled.splice(0).map(({ queue, key }) => `${queue}/${key.tenant}/${key.session}`);
  return { visit, sessions, reads, add, memory };
}

const item = (reason: WorkItem["reason"], queue: string, tenant: string, session: string, at = 1): WorkItem => ({
  reason,
  queue,
  key: { tenant, session },
  at,
  item: "",
});

const several = (count: number, of: (index: number) => WorkItem) => Array.from({ length: count }, (_, n) => of(n));

/** The places of the first and the last item with a prefix. */
const span = (names: readonly string[], prefix: string) => [
  names.findIndex((name) => name.startsWith(prefix)),
  names.findLastIndex((name) => name.startsWith(prefix)),
];

describe("a visit", () => {
  test("serves engines and their tenants round robin: a long backlog does not delay the others", async () => {
    const { visit, sessions } = await indexed([
      ...several(100, (n) => item("turn", "big", "a", `s${n}`)),
      item("turn", "big", "b", "only"),
      item("turn", "small", "a", "only"),
    ]);
    expect(await visit()).toEqual({ taken: 0, handled: 102, isCutOff: false });
    const names = sessions();
    expect(names[2]).toBe("big/b/only");
    expect(names[3]).toBe("small/a/only");
  });

  test("with a budget ends when it is spent, and the next visit continues with the next lane", async () => {
    const { visit, sessions } = await indexed([
      ...several(10, (n) => item("turn", "default", "a", `s${n}`)),
      ...several(10, (n) => item("turn", "default", "b", `s${n}`)),
    ]);
    const budget = { ...unlimited, rows: 2 };
    expect(await visit(100, budget)).toEqual({ taken: 0, handled: 2, isCutOff: true });
    expect(sessions().every((name) => name.startsWith("default/a/"))).toBe(true);
    await visit(100, budget);
    expect(sessions().every((name) => name.startsWith("default/b/"))).toBe(true);
  });

  test("does not see rows that are due later, or that are added meanwhile at a later time", async () => {
    const { visit, sessions } = await indexed([item("turn", "", "a", "now"), item("turn", "", "a", "later", 101)]);
    await visit();
    expect(sessions()).toEqual(["/a/now"]);
    await visit(101);
    expect(sessions()).toEqual(["/a/later"]);
  });

  test.each(["deadline", "retention"] as const)(
    "shares its time between the tenants of different lanes: %s",
    async (reason) => {
      const tenants = ["a", "b", "c", "d"];
      expect(new Set(tenants.map((tenant) => laneOf(reason, tenant))).size).toBeGreaterThan(1);
      const { visit, sessions } = await indexed([
        ...several(200, (n) => item(reason, "", "a", `s${n}`)),
        ...tenants.slice(1).map((tenant) => item(reason, "", tenant, "only", 50)),
      ]);
      await visit();
      const names = sessions();
      expect(names).toHaveLength(203);
      for (const tenant of tenants.slice(1)) expect(span(names, `/${tenant}/`)[1]).toBeLessThan(10);
    },
  );

  test("reports the error of one row, handles the others, and tries the row again later", async () => {
    const errors: unknown[] = [];
    const corrupt = new RuntimeError("corrupt_row", { message: "the row cannot be read" });
    const seen: string[] = [];
    const { visit } = await indexed(
      several(5, (n) => item("deadline", "", "a", `s${n}`)),
      {
        onError: (error) => errors.push(error),
        handle: async ({ key }) => {
          seen.push(key.session);
          if (key.session === "s1") throw corrupt;
          return "left";
        },
      },
    );
    await visit();
    expect(seen.toSorted()).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    expect(errors).toEqual([corrupt]);
    await visit(1000);
    expect(seen).toHaveLength(5);
    await visit(1100);
    expect(seen).toHaveLength(10);
  });

  test("reports an error of the storage and goes on with the next lane, or rejects", async () => {
    const failure = new RuntimeError("storage_failed", { message: "the storage cannot be reached" });
    const items = [...several(5, (n) => item("turn", "", "a", `s${n}`)), item("turn", "", "b", "other")];
    const handle: WorkKind["handle"] = async ({ key }) => {
      if (key.tenant === "a") throw failure;
      return "seen";
    };
    const errors: unknown[] = [];
    const repeated = await indexed(items, { handle, onError: (error) => errors.push(error) });
    await repeated.visit();
    // Once in each of the two rounds.
    expect(errors).toEqual([failure, failure]);
    const once = await indexed(items, { handle });
    await expect(once.visit()).rejects.toBe(failure);
  });
});

describe("the lanes of a queue", () => {
  test("are read again only where something was written", async () => {
    const { visit, reads, add } = await indexed(several(300, (n) => item("turn", "", `t${n}`, "s", 1_000_000)));
    await visit();
    expect(reads.splice(0).length).toBeGreaterThan(4);
    await visit();
    expect(reads.splice(0)).toEqual([]);
    await add([item("turn", "", "t7", "new")]);
    await visit();
    // Its earliest row, its due rows, and the same again after they were handled.
    expect(reads.every(({ prefix }) => prefix[2] === "t7")).toBe(true);
    expect(reads.length).toBeLessThanOrEqual(4);
  });

  test("of reasons with few lanes cost one query if the queue is short, and one for each lane if it is long", async () => {
    const short = await indexed(several(20, (n) => item("deadline", "", `t${n}`, "s", 1_000_000)));
    await short.visit();
    expect(short.reads).toHaveLength(1);
    const long = await indexed(several(500, (n) => item("deadline", "", `t${n}`, "s", 1_000_000)));
    await long.visit();
    expect(long.reads).toHaveLength(17);
  });

  test("are listed again after a write that the storage cannot describe", async () => {
    const { visit, sessions, memory } = await indexed([item("deadline", "", "a", "later", 1_000_000)]);
    await visit();
    // No row of a session, as in the report of a write of another process.
    await memory.write({ checks: [], removals: [{ table: "work", prefix: ["deadline"] }], puts: [] });
    await memory.write({ checks: [], removals: [], puts: [workPut(item("deadline", "", "zz", "new"))] });
    await visit();
    expect(sessions()).toEqual(["/zz/new"]);
  });
});
