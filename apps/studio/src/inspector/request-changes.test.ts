import { expect, test } from "vitest";

import { requestChanges } from "./request-changes.ts";

const request = { model: "m", tools: [{ name: "weather" }], messages: ["system", "user"], temperature: null };

test("the messages of a later step are those that were added", () => {
  const later = { ...request, messages: [...request.messages, "reply", "answer"] };
  expect(requestChanges(request, later)).toEqual({ kept: 2, removed: [], added: ["reply", "answer"], fields: [] });
});

test("a summary that stands for old messages, and another choice of tools, are changes", () => {
  const later = { ...request, messages: ["system", "summary"], tools: [], maxTokens: 5 };
  expect(requestChanges(request, later)).toEqual({
    kept: 1,
    removed: ["user"],
    added: ["summary"],
    fields: [
      { name: "tools", before: [{ name: "weather" }], after: [] },
      { name: "maxTokens", before: null, after: 5 },
    ],
  });
});
