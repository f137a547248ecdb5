import { expect, test } from "vitest";

import { complete, matching, readSpoken } from "./slash.ts";

test("a slash and a word is a command, with what follows it", () => {
  expect(readSpoken("/help")).toEqual({ type: "command", name: "help", argument: "" });
  expect(readSpoken("/resume  session-1 ")).toEqual({ type: "command", name: "resume", argument: "session-1" });
  expect(readSpoken("/exit")).toEqual({ type: "command", name: "quit", argument: "" });
});

test.each([["/etc/hosts is what?"], [" /help"], ["/help\nand more"], ["what is /help"], ["/"]])(
  "this is for the model: %j",
  (typed) => {
    expect(readSpoken(typed)).toEqual({ type: "message", text: typed.trim() });
  },
);

test("nothing is nothing", () => {
  expect(readSpoken(" \n ")).toEqual({ type: "nothing" });
});

test("an unknown command is told, with those that are near", () => {
  expect(readSpoken("/sesions")).toEqual({ type: "unknown", word: "sesions", suggestions: ["sessions"] });
  expect(readSpoken("/modle")).toMatchObject({ type: "unknown", suggestions: ["model"] });
  expect(readSpoken("/xyzzyx")).toMatchObject({ type: "unknown", suggestions: [] });
});

test("Tab completes what is sure", () => {
  expect(complete("/res")).toBe("/resume ");
  expect(complete("/s")).toBe("/s");
  expect(complete("/se")).toBe("/sessions ");
  expect(complete("hello")).toBe("hello");
  expect(matching("/s")).toEqual(["sessions", "show"]);
});
