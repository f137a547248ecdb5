import type { TurnSummaryView } from "everturn/advanced";

import { expect, test } from "vitest";

import { supportCase, turnOf } from "../../test/turn-fixture.ts";
import { outermostTurn, shownTurn, turnName, turnStatus } from "./turns.ts";

const turns = [
  turnOf({ turnId: "t3", acceptedAt: 3000 }),
  turnOf({ turnId: "t2", acceptedAt: 2000 }),
  turnOf({ turnId: "t1", acceptedAt: 1000 }),
];

test("shows the newest turn unless the route names another", () => {
  expect(shownTurn({ turns, hasMore: false }, null)).toMatchObject({ turnId: "t3", number: 3, nextTurnAt: null });
  expect(shownTurn({ turns, hasMore: false }, "t1")).toMatchObject({ turnId: "t1", number: 1, nextTurnAt: 2000 });
});

test("does not number turns while older ones are not read", () => {
  const shown = shownTurn({ turns, hasMore: true }, "t2");
  expect(shown.number).toBeNull();
  expect(turnName(shown)).toBe("Turn t2");
});

test("names a turn inside of a tool call", () => {
  const inner = "t3/0/tool/c1/child/research/1";
  expect(turnName(shownTurn({ turns, hasMore: false }, inner))).toBe("Child agent");
  expect(outermostTurn(inner)).toBe("t3");
});

test("shows a turn that the list does not have yet", () => {
  expect(shownTurn({ turns, hasMore: false }, "new")).toMatchObject({ turnId: "new", turn: null, nextTurnAt: null });
  expect(shownTurn({ turns: [], hasMore: false }, null).turnId).toBeNull();
});

const { end } = supportCase.turn;
test.each<[Partial<TurnSummaryView>, string]>([
  [{ status: "parked" }, "parked"],
  [{ status: "queued" }, "queued"],
  [{ status: "queued", limitWait: { limit: "tenant", since: 0 } }, "waits for a limit"],
  [{ status: "running" }, "running"],
  [{ status: "ended", end }, "waits for approval"],
  [
    {
      status: "ended",
      end: end === null ? null : { ...end, outcome: { type: "max_turns", maxTurns: 3 }, haltedReason: "max_turns" },
    },
    "max turns",
  ],
])("names the status of %j", (fields, text) => {
  expect(turnStatus(turnOf(fields)).text).toBe(text);
});
