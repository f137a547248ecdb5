import type { CrashCase } from "./crash-sentence.ts";

import { describe, expect, test } from "vitest";

import { crashDuring, crashSentence } from "./crash-sentence.ts";

const recorded: CrashCase = {
  kind: "tool",
  state: "ok",
  ordinal: 14,
  name: "refund",
  rerun: "never",
  durability: "durable",
  hasEnded: false,
};

describe("recorded effects are not performed again (H1)", () => {
  test.each<{ readonly crash: Partial<CrashCase>; readonly says: string }>([
    { crash: { kind: "model" }, says: "nothing is sent to the model twice" },
    { crash: { kind: "model", state: "failed" }, says: "does not send the request again" },
    { crash: { kind: "tool" }, says: "refund does not run again" },
    { crash: { kind: "tool", rerun: "safe" }, says: "refund does not run again" },
    { crash: { kind: "tool", state: "failed" }, says: "failure of refund is recorded" },
    { crash: { kind: "code" }, says: "the tools that it called do not run again" },
    { crash: { kind: "checkpoint" }, says: "neither lost nor added twice" },
    { crash: { kind: "environment" }, says: "continues with the same ones" },
    { crash: { kind: "cancel" }, says: "performs nothing more" },
    { crash: { kind: "failure" }, says: "ends the turn with it" },
    { crash: { kind: "restart" }, says: "the restarted step" },
    { crash: { state: "superseded" }, says: "skips this row" },
    { crash: { state: "waits" }, says: "needs no process" },
    { crash: { hasEnded: true }, says: "The turn has ended" },
  ])("$crash", ({ crash, says }) => {
    const sentence = crashSentence({ ...recorded, ...crash });
    expect(sentence).toContain(says);
    expect(sentence).toContain("row 14");
  });
});

describe("a tool without a recorded result is answered by its replay policy (H4, Q3)", () => {
  test.each([
    { rerun: "safe", says: "runs it again with the same idempotency key" },
    { rerun: "never", says: "not run again: the model reads that the outcome is unknown" },
    { rerun: "ask", says: "waits until a person decides" },
    { rerun: null, says: "the replay policy of the tool decides" },
  ])("$rerun", ({ rerun, says }) => {
    expect(crashSentence({ ...recorded, state: "open", ordinal: null, rerun })).toContain(says);
    expect(crashDuring({ ...recorded, rerun })).toContain(says);
  });
});

test("an open model call is made again, and recorded rows are not", () => {
  const sentence = crashSentence({ ...recorded, kind: "model", state: "open", ordinal: null });
  expect(sentence).toContain("calls the model again");
  expect(sentence).toContain("recorded rows are not repeated");
});

test("a storage in memory does not survive", () => {
  expect(crashSentence({ ...recorded, durability: "volatile" })).toContain("lost");
  expect(crashDuring({ ...recorded, durability: "volatile" })).toBeNull();
});

test("bookkeeping and waits have no other side", () => {
  expect(crashDuring({ ...recorded, kind: "checkpoint" })).toBeNull();
  expect(crashDuring({ ...recorded, state: "waits" })).toBeNull();
});
