import type { SessionSummary } from "../data/types.ts";

import { usage } from "everturn/advanced";
import { expect, test } from "vitest";

import { appendPage, mergeFirstPage } from "./merge-sessions.ts";

const fields = { title: null, engine: "default", owner: null, startedBy: [] };

function session(id: string, changedAt: number, version = 1): SessionSummary {
  return {
    ...fields,
    id,
    status: "completed",
    version,
    length: 2,
    pendingToolCalls: [],
    pendingQuestion: null,
    usage: usage(),
    metadata: {},
    turnId: null,
    turnStatus: null,
    limitWait: null,
    forkedFrom: null,
    createdAt: 0,
    changedAt,
  };
}

const ids = (items: readonly SessionSummary[]) => items.map(({ id }) => id);
const loaded = mergeFirstPage(null, { items: [session("c", 30), session("b", 20)], next: "20" }, { keepsOrder: false });
const both = appendPage(loaded, { items: [session("a", 10)], next: null });

test("a newer page moves changed sessions to the front at the top of the list", () => {
  const page = { items: [session("d", 50), session("b", 40, 2), session("c", 30)], next: "30" };
  const merged = mergeFirstPage(both, page, { keepsOrder: false });
  expect(ids(merged.items)).toEqual(["d", "b", "c", "a"]);
  expect(merged.items[2]).toBe(both.items[0]);
});

test("rows keep their places while the reader has scrolled", () => {
  const page = { items: [session("d", 50), session("b", 40, 2), session("c", 30)], next: "30" };
  const merged = mergeFirstPage(both, page, { keepsOrder: true });
  expect(ids(merged.items)).toEqual(["c", "b", "a"]);
  expect(merged.items[1]?.version).toBe(2);
  expect(ids(merged.unseen)).toEqual(["d"]);
});

test("a session that the first page would have, and does not, was deleted", () => {
  const merged = mergeFirstPage(both, { items: [session("c", 30)], next: null }, { keepsOrder: false });
  expect(ids(merged.items)).toEqual(["c"]);
  const partial = mergeFirstPage(both, { items: [session("b", 20)], next: "20" }, { keepsOrder: false });
  expect(ids(partial.items)).toEqual(["b", "a"]);
});

test("a page repeats no session that is loaded", () => {
  expect(ids(appendPage(both, { items: [session("b", 20), session("z", 5)], next: null }).items)).toEqual([
    "c",
    "b",
    "a",
    "z",
  ]);
});

test("a poll without news changes nothing", () => {
  const page = { items: [session("c", 30), session("b", 20)], next: "20" };
  expect(mergeFirstPage(both, page, { keepsOrder: true })).toBe(both);
  expect(mergeFirstPage(both, page, { keepsOrder: false })).toBe(both);
});
