import { expect, test } from "vitest";

import { complete, matching, parseInput } from "./slash-commands.ts";

test("parses a command and its argument", () => {
  expect(parseInput("/help")).toEqual({ type: "command", name: "help", argument: "" });
  expect(parseInput("/resume  session-1 ")).toEqual({ type: "command", name: "resume", argument: "session-1" });
  expect(parseInput("/exit")).toEqual({ type: "command", name: "quit", argument: "" });
});

test.each([["/etc/hosts is what?"], [" /help"], ["/help\nand more"], ["what is /help"], ["/"]])(
  "is a message and not a command: %j",
  (typed) => {
    expect(parseInput(typed)).toEqual({ type: "message", text: typed.trim() });
  },
);

test("ignores blank input", () => {
  expect(parseInput(" \n ")).toEqual({ type: "nothing" });
});

test("suggests similar commands for an unknown one", () => {
  expect(parseInput("/sesions")).toEqual({ type: "unknown", word: "sesions", suggestions: ["sessions"] });
  expect(parseInput("/modle")).toMatchObject({ type: "unknown", suggestions: ["model"] });
  expect(parseInput("/xyzzyx")).toMatchObject({ type: "unknown", suggestions: [] });
});

test("Tab completes the common prefix of the matching commands", () => {
  expect(complete("/res")).toBe("/resume ");
  expect(complete("/s")).toBe("/s");
  expect(complete("/se")).toBe("/sessions ");
  expect(complete("hello")).toBe("hello");
  expect(matching("/s")).toEqual(["sessions", "show"]);
});
