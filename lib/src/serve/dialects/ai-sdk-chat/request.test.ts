// Posts of the AI SDK's client: how they are read, and which are rejected with which place.

import { ValidationError } from "everturn";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { defaultUiLimits, readUiPost } from "./request.ts";

const text = (words: string) => ({ type: "text", text: words });
const userPost = (parts: readonly unknown[], rest: object = {}) => ({
  id: "c",
  messages: [{ id: "m", role: "user", parts, ...rest }],
});
const file = (url: string, mediaType = "image/png") => userPost([{ type: "file", url, mediaType }]);
const answered = (parts: readonly unknown[]) => ({ id: "c", messages: [{ id: "a", role: "assistant", parts }] });

/** The place at which a post was rejected. */
function placeOf(body: unknown): string {
  try {
    readUiPost(body);
  } catch (error) {
    if (error instanceof ValidationError) return error.failure.issues.map(({ path }) => path.join(".")).join(" ");
    throw error;
  }
  return "taken";
}

describe("a post", () => {
  test("of a user message has that message with its id", () => {
    const post = readUiPost({
      ...userPost([text("Hi"), { type: "data-mine", data: 1 }]),
      trigger: "submit-message",
      extra: 1,
    });
    expect(post).toMatchObject({
      type: "message",
      chatId: "c",
      messageId: "m",
      message: { role: "user", id: "m", content: "Hi" },
    });
  });

  test("of a regenerated message has the user message before it, and that of an edited message the new text", () => {
    const regenerated = { ...userPost([text("Hi")]), trigger: "regenerate-message", messageId: "removed" };
    expect(readUiPost(regenerated)).toMatchObject({ type: "message", messageId: "m", mode: "regenerate" });
    const edited = { ...userPost([text("Hello")]), messageId: "m" };
    expect(readUiPost(edited)).toMatchObject({ messageId: "m", mode: "edit", message: { id: "m", content: "Hello" } });
    expect(readUiPost(userPost([text("Hi")]))).toMatchObject({ mode: "new" });
  });

  test("of answers has those of the last step and the ids of all calls", () => {
    const approval = { id: "w", approved: true };
    const post = readUiPost(
      answered([
        { type: "step-start" },
        { type: "tool-pay", toolCallId: "old", state: "approval-responded", approval },
        { type: "step-start" },
        text("May I?"),
        {
          type: "tool-pay",
          toolCallId: "new",
          state: "approval-responded",
          approval: { ...approval, approved: false, reason: "no" },
        },
        {
          type: "dynamic-tool",
          toolName: "pick",
          toolCallId: "p",
          state: "output-available",
          output: [1],
          toolMetadata: { turnId: "t" },
        },
        { type: "tool-pick", toolCallId: "q", state: "output-error", errorText: "broke" },
        { type: "tool-pick", toolCallId: "r", state: "output-available", output: 1, preliminary: true },
        { type: "tool-pay", toolCallId: "s", state: "approval-requested", approval: { id: "x" } },
      ]),
    );
    expect(post).toMatchObject({
      type: "answers",
      messageId: "a",
      callIds: ["old", "new", "p", "q", "r", "s"],
      answers: [
        { type: "decision", toolCallId: "new", approvalId: "w", approved: false, reason: "no" },
        { type: "result", toolCallId: "p", toolName: "pick", turnId: "t", content: [1] },
        { type: "result", toolCallId: "q", toolName: "pick", turnId: null, content: { error: "broke" } },
      ],
    });
  });

  test.each([
    ["", null],
    ["", []],
    ["id", {}],
    ["id", { ...userPost([text("x")]), id: "" }],
    ["id", { ...userPost([text("x")]), id: "x".repeat(defaultUiLimits.idLength + 1) }],
    ["messages", { id: "c" }],
    ["messages", { id: "c", messages: [] }],
    ["messages.0", { id: "c", messages: ["hi"] }],
    ["messages.0.id", userPost([text("x")], { id: 7 })],
    ["messages.0.role", userPost([text("x")], { role: "system" })],
    ["messages.0.role", userPost([text("x")], { role: "__proto__" })],
    ["messages.0.parts", userPost([])],
    ["messages.0.parts", userPost([text("")])],
    ["messages.0.parts", userPost(Array.from({ length: defaultUiLimits.parts + 1 }, () => text("x")))],
    ["messages.0.parts.1", userPost([text("x".repeat(600_000)), text("x".repeat(600_000))])],
    ["messages.0.parts.0.text", userPost([{ type: "text" }])],
    ["messages.0.parts.0.type", userPost([{ type: "tool-pay", toolCallId: "c" }])],
    ["messages.0.parts.0.mediaType", file("https://example.com/a", "image/png; charset=x")],
    ["messages.0.parts.0.url", file("file:///etc/passwd")],
    ["messages.0.parts.0.url", file("/etc/passwd")],
    ["messages.0.parts.0.url", file("javascript:alert(1)")],
    ["messages.0.parts.0.url", file("data:image/png,hello")],
    ["messages.0.parts.0.url", file("data:image/png;base64,a")],
    ["messages.0.parts.0.url", file("data:image/png;base64,<script>=")],
    ["messages.0.role", { ...answered([text("x")]), trigger: "regenerate-message" }],
    ["trigger", { ...userPost([text("x")]), trigger: "delete" }],
    ["messageId", { ...userPost([text("x")]), messageId: 1 }],
    ["messageId", { ...userPost([text("x")]), messageId: "missing" }],
    ["messages.0.parts.0.approval", answered([{ type: "tool-a", toolCallId: "c", state: "approval-responded" }])],
    [
      "messages.0.parts.0.approval.approved",
      answered([
        { type: "tool-a", toolCallId: "c", state: "approval-responded", approval: { id: "x", approved: "yes" } },
      ]),
    ],
    ["messages.0.parts.0.toolCallId", answered([{ type: "tool-a", state: "approval-responded" }])],
  ])("that is invalid at %j is rejected with that place", (place, body) => {
    expect(placeOf(body)).toBe(place);
  });

  test("reads files by media type and source", () => {
    const part = (body: unknown) => {
      const post = readUiPost(body);
      return post.type === "message" && typeof post.message.content !== "string" ? post.message.content[0] : null;
    };
    expect(part(file("data:image/webp;base64,aGk=", "image/*"))).toMatchObject({
      type: "image",
      image: { mimeType: "image/webp", source: { type: "base64", data: "aGk=" } },
    });
    expect(part(file("https://example.com/a.csv", "text/csv"))).toMatchObject({
      type: "file",
      mimeType: "text/csv",
      source: { type: "url", url: "https://example.com/a.csv" },
    });
  });

  test("of any JSON is read or rejected with a validation error", () => {
    const word = fc.constantFrom(
      "user",
      "assistant",
      "text",
      "file",
      "step-start",
      "tool-a",
      "approval-responded",
      "m",
      "",
    );
    const value = fc.oneof(word, fc.jsonValue({ maxDepth: 2 }));
    const part = fc.record(
      {
        type: value,
        text: value,
        state: value,
        toolCallId: value,
        approval: value,
        output: value,
        url: value,
        mediaType: value,
        toolMetadata: value,
      },
      { requiredKeys: [] },
    );
    const message = fc.record(
      { id: value, role: value, parts: fc.oneof(fc.array(fc.oneof(part, value)), value) },
      { requiredKeys: [] },
    );
    const body = fc.record(
      { id: value, messages: fc.oneof(fc.array(fc.oneof(message, value)), value), trigger: value, messageId: value },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(body, fc.jsonValue()), (given) => placeOf(given) !== null),
      { numRuns: 500 },
    );
  });
});
