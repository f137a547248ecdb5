import type { PendingCall, SessionSummary } from "../data/types.ts";

import { usage } from "everturn/advanced";
import { expect, test } from "vitest";

import { argumentsText, nextItem, waitingItems, whoMayAnswer } from "./waiting-items.ts";

function call(id: string, fields: Partial<PendingCall> = {}): PendingCall {
  return {
    id,
    name: "pay",
    arguments: {},
    rawArguments: null,
    provider: null,
    metadata: {},
    reason: "approval",
    question: null,
    answerAs: "user_message",
    opts: {},
    decision: null,
    idempotencyKey: null,
    cellId: null,
    path: [],
    shown: { name: "pay", arguments: { amount: 5, to: "Ada\u202E" }, parents: [], replay: "never" },
    digest: `digest of ${id}`,
    ...fields,
  };
}

function session(id: string, pendingToolCalls: readonly PendingCall[], startedBy: readonly string[]): SessionSummary {
  return {
    id,
    title: null,
    engine: "default",
    owner: startedBy[0] ?? null,
    startedBy,
    status: "awaiting_tools",
    version: 1,
    length: 2,
    pendingToolCalls,
    pendingQuestion: null,
    usage: usage(),
    metadata: {},
    turnId: null,
    turnStatus: null,
    limitWait: null,
    forkedFrom: null,
    createdAt: 0,
    changedAt: 0,
  };
}

const decided = call("b", { decision: { type: "deny", reason: null, by: null } });
const asked = call("c", { reason: "question", question: "Which one?" });
const sessions = [session("one", [call("a"), decided], ["ada"]), session("two", [asked], [])];

test("each undecided call is an item, of all reasons or of one", () => {
  const idsOf = (reason: string | null) => waitingItems(sessions, reason).map((item) => item.call.id);
  expect(idsOf(null)).toEqual(["a", "c"]);
  expect(idsOf("question")).toEqual(["c"]);
});

test("the next item is the one below, then the first one, and never the selected one", () => {
  const items = waitingItems(sessions, null);
  const next = (sessionId: string, id: string) => nextItem(items, { sessionId, call: id })?.call.id ?? null;
  expect(next("one", "a")).toBe("c");
  expect(next("two", "c")).toBe("a");
  // The selected call was decided, and is no longer listed.
  expect(next("one", "b")).toBe("a");
  expect(nextItem(items.slice(0, 1), { sessionId: "one", call: "a" })).toBeNull();
});

test("arguments are listed by name, with invisible characters as code points, and are cut", () => {
  expect(argumentsText(call("a"))).toBe("amount: 5 · to: Ada⟨U+202E⟩");
  const long = { name: "pay", arguments: { note: "x".repeat(5000) }, parents: [], replay: null };
  expect(argumentsText(call("a", { shown: long }))).toHaveLength(301);
  const none = { ...long, arguments: null };
  expect(argumentsText(call("a", { shown: none, rawArguments: "{broken" }))).toBe("{broken");
});

test("who started the turn is named as one that may not decide by default", () => {
  const [approval, question] = waitingItems(sessions, null);
  expect(approval === undefined ? "" : whoMayAnswer(approval)).toContain("not ada, who started the turn");
  expect(question === undefined ? "" : whoMayAnswer(question)).toBe("Operators");
});
