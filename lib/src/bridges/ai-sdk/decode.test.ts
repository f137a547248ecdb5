import type { ModelEvent } from "everturn/advanced";

import { isEvent } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { ReplyDecoder } from "./decode.ts";
import { failureOfError } from "./failure.ts";

const route = { provider: "demo.chat", endpoint: "ai-sdk", model: "m" };
const stop = { type: "finish", finishReason: { unified: "stop", raw: "end" }, usage: {} };

/** The events of a stream with these parts. All of them can be stored. */
function decode(...parts: readonly unknown[]): readonly ModelEvent[] {
  const decoder = new ReplyDecoder({
    route,
    settings: new Set(["seed", "topK"]),
    contentType: "text/event-stream",
    failureOf: (error) => failureOfError(error, route, 0),
  });
  const events = [...parts.flatMap((part) => decoder.push(part)), ...decoder.end()];
  expect(events.filter((event) => !isEvent(event))).toEqual([]);
  expect(events.filter(({ type }) => type === "message_completed" || type === "error")).toHaveLength(1);
  return events;
}

function messageOf(...parts: readonly unknown[]) {
  const end = decode(...parts).find((event) => event.type === "message_completed");
  if (end === undefined) throw new Error("no message");
  return end;
}

function decodedFailure(...parts: readonly unknown[]) {
  const end = decode(...parts).find((event) => event.type === "error");
  if (end === undefined) throw new Error("no error");
  return end.error;
}

describe("blocks", () => {
  test("have the metadata of their start, deltas and end", () => {
    const at = (fields: object) => ({ id: "0", providerMetadata: { demo: fields } });
    const { message } = messageOf(
      { type: "reasoning-start", ...at({ item: "rs_1" }) },
      { type: "reasoning-delta", delta: "Hm.", id: "0" },
      { type: "reasoning-delta", delta: "", ...at({ signature: "seal" }) },
      { type: "reasoning-end", ...at({ encrypted: "x", absent: undefined }) },
      stop,
    );
    const data = { providerMetadata: { demo: { item: "rs_1", signature: "seal", encrypted: "x" } } };
    expect(message.content).toMatchObject([{ type: "reasoning", text: "Hm.", provider: { ...route, data } }]);
  });

  test("that use an id again are separate, and a block without an end is complete at the end of the reply", () => {
    const text = (delta: string) => ({ type: "text-delta", id: "0", delta });
    const { message } = messageOf(
      { type: "text-start", id: "0" },
      text("One."),
      { type: "text-end", id: "0" },
      { type: "reasoning-delta", id: "0", delta: "Hm." },
      { type: "reasoning-end", id: "0" },
      { type: "text-start", id: "0" },
      text("Two."),
      stop,
    );
    expect(message.content).toMatchObject([{ text: "One." }, { type: "reasoning" }, { text: "Two." }]);
  });

  test("that a call closed get the metadata of their late end", () => {
    const events = decode(
      { type: "reasoning-delta", id: "r", delta: "Hm." },
      { type: "tool-call", toolCallId: "c", toolName: "look", input: "{}" },
      { type: "reasoning-end", id: "r", providerMetadata: { google: { thoughtSignature: "seal" } } },
      { ...stop, finishReason: { unified: "tool-calls", raw: "STOP" } },
    );
    expect(events.map(({ type }) => type)).toEqual([
      "reasoning_delta",
      "reasoning_completed",
      "tool_call_started",
      "tool_call_completed",
      "reasoning_completed",
      "message_completed",
    ]);
    expect(JSON.stringify(events.at(-1))).toContain("seal");
  });

  test("that are empty and without metadata are dropped; redacted reasoning is kept", () => {
    const redacted = { type: "reasoning-start", id: "1", providerMetadata: { anthropic: { redactedData: "x" } } };
    const { message } = messageOf({ type: "text-start", id: "0" }, { type: "text-end", id: "0" }, redacted, stop);
    expect(message.content).toMatchObject([{ type: "reasoning", text: "", redacted: true }]);
  });
});

describe("calls", () => {
  test("may come as objects, with a repeated id, and from the provider with a result", () => {
    const { message, finishReason } = messageOf(
      { type: "tool-call", toolCallId: "c", toolName: "look", input: { at: 1 } },
      { type: "tool-call", toolCallId: "c", toolName: "look", input: '{"at":2}' },
      { type: "tool-call", toolCallId: "s", toolName: "search", input: "{}", providerExecuted: true },
      { type: "tool-result", toolCallId: "s", toolName: "search", result: "…", preliminary: true },
      { type: "tool-result", toolCallId: "s", toolName: "search", result: { hits: [1n === 1n] } },
      { ...stop, finishReason: { unified: "tool-calls", raw: undefined } },
    );
    expect(finishReason).toBe("tool_calls");
    expect(message.toolCalls).toMatchObject([
      { id: "c", arguments: { at: 1 } },
      { id: "c~2", arguments: { at: 2 } },
    ]);
    expect(message.content).toMatchObject([
      { type: "tool_call" },
      { type: "tool_call" },
      { type: "tool_call", providerExecuted: { name: "search", provider: route } },
      { type: "tool_result", content: { hits: [true] }, provider: { data: { toolName: "search" } } },
    ]);
  });

  test("that stay incomplete are not in the message", () => {
    const { message, finishReason } = messageOf({ type: "tool-input-start", id: "c", toolName: "look" }, stop);
    expect([message.toolCalls, finishReason]).toEqual([[], "stop"]);
  });
});

test("generated files, sources and content of a provider are kept", () => {
  const { message, metadata } = messageOf(
    { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2]) },
    { type: "file", mediaType: "audio/wav", data: { type: "data", data: "AA==" } },
    { type: "source", sourceType: "url", id: "s", url: "https://example.com" },
    { type: "custom", kind: "demo.box", providerMetadata: { demo: { id: 5 } } },
    { type: "of-the-future", value: 1 },
    { ...stop, providerMetadata: { demo: { tier: "fast" } } },
  );
  expect(message.content).toMatchObject([
    { type: "image", image: { source: { type: "base64", data: "AQI=" } } },
    { type: "file", source: { type: "base64", data: "AA==" }, mimeType: "audio/wav" },
    { type: "opaque", kind: "demo.box", provider: { data: { part: { type: "custom", kind: "demo.box" } } } },
  ]);
  expect(metadata).toMatchObject({
    sources: [{ url: "https://example.com" }],
    providerMetadata: { demo: { tier: "fast" } },
  });
});

describe("the end of a stream", () => {
  test.each([
    [{ unified: "other", raw: undefined }],
    [{ unified: "interrupted", raw: undefined }],
    ["unknown"],
    [undefined],
  ])("with the finish reason %j is an interruption", (finishReason) => {
    const text = { type: "text-delta", id: "0", delta: "Hel" };
    expect(decodedFailure(text, { ...stop, finishReason })).toMatchObject({
      type: "stream_error",
      reason: "interrupted",
      retryable: true,
    });
  });

  test("without finish is an interruption; parts after the end are ignored", () => {
    expect(decodedFailure({ type: "text-delta", id: "0", delta: "Hel" })).toMatchObject({ reason: "interrupted" });
    expect(
      messageOf({ type: "text-delta", id: "0", delta: "Hi." }, stop, { type: "error", error: "late" }).message.content,
    ).toBe("Hi.");
  });

  test.each([
    ["length", "length"],
    ["content-filter", "content_filter"],
    ["error", "error"],
    ["stop", "stop"],
  ])("maps %s to %s, also the word of specification v2", (word, expected) => {
    const text = { type: "text-delta", id: "0", delta: "Hi." };
    expect(messageOf(text, { ...stop, finishReason: { unified: word, raw: "x" } }).finishReason).toBe(expected);
    expect(messageOf(text, { ...stop, finishReason: word }).finishReason).toBe(expected);
  });

  test("of a paused turn of Anthropic is paused", () => {
    const paused = { ...stop, finishReason: { unified: "stop", raw: "pause_turn" } };
    expect(messageOf({ type: "text-delta", id: "0", delta: "Hi." }, paused).finishReason).toBe("paused");
  });

  test("counts cached tokens of Anthropic in specification v2 as input", () => {
    const usage = { inputTokens: 10, outputTokens: 5, totalTokens: 15, cachedInputTokens: 100 };
    const providerMetadata = { anthropic: { cacheCreationInputTokens: 20 } };
    const events = decode({ ...stop, finishReason: "stop", usage, providerMetadata });
    expect(events[0]).toMatchObject({
      type: "usage",
      usage: { inputTokens: 130, cachedInputTokens: 100, cacheWriteInputTokens: 20, totalTokens: null },
    });
  });
});

describe("errors in a stream", () => {
  test.each([
    ["Overloaded", "provider_unavailable"],
    ["Something", "unknown"],
    [{ type: "overloaded_error", message: "Overloaded" }, "provider_unavailable"],
    [{ type: "error", error: { type: "rate_limit_error", message: "slow down" } }, "rate_limited"],
    [{ name: "AI_APICallError", statusCode: 401, message: "no", responseBody: "{}" }, "authentication_failed"],
    [Object.assign(new Error("x"), { name: "AI_TypeValidationError" }), "malformed_response"],
    [Object.assign(new Error("fetch failed"), { cause: { code: "ECONNRESET" } }), "network_error"],
    [null, "unknown"],
  ])("%j is %s", (error, reason) => {
    expect(decodedFailure({ type: "text-delta", id: "0", delta: "Hel" }, { type: "error", error })).toMatchObject({
      type: "adapter_error",
      reason,
    });
  });

  test("a request for an approval by the provider is refused", () => {
    expect(decodedFailure({ type: "tool-approval-request", approvalId: "a", toolCallId: "c" })).toMatchObject({
      reason: "unsupported_feature",
    });
  });
});

test("warnings of every specification are warnings of the reply", () => {
  const warnings = [
    { type: "unsupported", feature: "seed", details: "no seed" },
    { type: "unsupported-setting", setting: "topK" },
    { type: "unsupported-tool", tool: { name: "look" } },
    { type: "other", message: "careful" },
    {
      type: "compatibility",
      feature: "maxOutputTokens",
      details: "a default of the package, which the caller did not set",
    },
  ];
  const paths = decode({ type: "stream-start", warnings }, stop).flatMap((event) =>
    event.type === "warning" ? [event.warning] : [],
  );
  expect(paths.map(({ path, message }) => `${path} | ${message}`)).toEqual([
    "seed | seed: no seed",
    "topK | topK: the model does not support it",
    "tools.look | tools.look: the model does not support it",
    "request | request: careful",
  ]);
});

test("data that is huge, deep or no data at all ends as a reply that can be stored", () => {
  const deep: unknown = Array.from({ length: 500 }).reduce((inner) => [inner], 1);
  const events = decode(
    null,
    "text",
    { type: 5 },
    { type: "text-delta" },
    { type: "text-delta", id: "0", delta: "x".repeat(1_000_000), providerMetadata: { demo: { deep } } },
    { type: "tool-call", toolCallId: "c", toolName: "look", input: JSON.stringify({ deep }) },
    { type: "tool-result", toolCallId: "p", toolName: "p", result: deep },
    { ...stop, providerMetadata: { demo: deep } },
  );
  const end = events.at(-1);
  expect(end).toMatchObject({ type: "message_completed", message: { toolCalls: [{ id: "c", arguments: null }] } });
});
