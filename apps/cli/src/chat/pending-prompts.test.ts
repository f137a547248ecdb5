import { describe, expect, it } from "vitest";

import { parseApproval } from "./pending-prompts.ts";

describe("the answer to an approval", () => {
  it.each([
    ["y", { type: "approve" }],
    [" YES ", { type: "approve" }],
    ["e", { type: "edit" }],
    ["Edit", { type: "edit" }],
    ["n", { type: "deny", reason: "" }],
    ["No", { type: "deny", reason: "" }],
    ["no not today", { type: "deny", reason: "not today" }],
    ["no, it is\ntoo late", { type: "deny", reason: "it is\ntoo late" }],
    ["n: too late", { type: "deny", reason: "too late" }],
  ])("%j is a decision", (text, answer) => {
    expect(parseApproval(text)).toEqual(answer);
  });

  it.each(["", " ", "yellow", "yes please", "now", "editor", "north", "es", "ok"])("%j decides nothing", (text) => {
    expect(parseApproval(text)).toEqual({ type: "unclear" });
  });
});
