import type { SessionSummary } from "../data/types.ts";

import { usage } from "everturn/advanced";
import { expect, test } from "vitest";

import { choicesFor } from "./choices.ts";

function session(id: string, origin: string | null): SessionSummary {
  return {
    id,
    title: id,
    engine: "default",
    owner: null,
    startedBy: [],
    status: "idle",
    version: 1,
    length: 2,
    pendingToolCalls: [],
    pendingQuestion: null,
    usage: usage(),
    metadata: {},
    turnId: null,
    turnStatus: null,
    limitWait: null,
    forkedFrom: origin === null ? null : { sessionId: origin, at: 2 },
    createdAt: 0,
    changedAt: 0,
  };
}

const sessions = [session("a", null), session("b", "a"), session("c", "b"), session("d", "a"), session("e", null)];
const names = (other: string, of = sessions) => {
  const { related, others } = choicesFor(of, other);
  return [related.map(({ id }) => id), others.map(({ id }) => id)];
};

test("offers the original, its forks and forks of forks first", () => {
  expect(names("a")).toEqual([["b", "c", "d"], ["e"]]);
  expect(names("c")).toEqual([["a", "b", "d"], ["e"]]);
  expect(names("e")).toEqual([[], ["a", "b", "c", "d"]]);
});

test("offers all sessions while the other side is not chosen", () => {
  expect(names("")).toEqual([[], ["a", "b", "c", "d", "e"]]);
});

test("finds forks of an original that is not in the list, and ends with a circle", () => {
  expect(names("b", [session("b", "gone"), session("c", "gone")])).toEqual([["c"], []]);
  expect(names("x", [session("x", "y"), session("y", "x")])[0]).toHaveLength(1);
});
