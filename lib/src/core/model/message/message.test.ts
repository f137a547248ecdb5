import type { Part } from "everturn";

import {
  assistant,
  fromJson,
  imageFromUrl,
  imagePart,
  messageText,
  MisuseError,
  orThrow,
  parse,
  newSession,
  system,
  textPart,
  toJson,
  toolResult,
  user,
} from "everturn";
import { request, attachment, eventMessage, toolCall } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { opaquePart, toolCallPart, toolResultPart } from "./media-part.ts";
import { message, normalizeContent, roles } from "./message.ts";
import { reasoningPart, textOrPlaceholder } from "./part.ts";
import { replayFor } from "./provider-replay.ts";

/** A value that only a JavaScript caller can pass. */
const untyped = (value: unknown) => JSON.parse(JSON.stringify(value));

describe("[allm 1] messages", () => {
  test("have five roles and text or parts as content", () => {
    expect(roles).toEqual(["system", "user", "assistant", "tool", "event"]);
    for (const role of ["system", "user", "assistant", "event"] as const) {
      expect(message({ role, content: "hi" })).toMatchObject({ role, content: "hi" });
    }
    expect(message({ role: "tool", content: "21", toolCallId: "c1" }).role).toBe("tool");
    expect(message({ role: "user", content: [{ type: "text", text: "hi" }] }).content).toEqual([textPart("hi")]);
  });

  test("role and content are required, and an unknown field throws an error that names it", () => {
    expect(() => message(untyped({ content: "hi" }))).toThrow(/role: is required/);
    expect(() => message(untyped({ role: "user" }))).toThrow(/message: content: is required/);
    expect(() => message(untyped({ role: "user", content: 5 }))).toThrow(
      /content: must be a string or a list of parts/,
    );
    expect(() => message(untyped({ role: "user", content: "hi", contnt: "" }))).toThrow(
      "message: contnt: unknown field; the fields are role, content, id, name, origin, metadata",
    );
    expect(() => user("hi", untyped({ nam: "Ada" }))).toThrow(MisuseError);
  });

  test("each role has a constructor", () => {
    expect(user("hi")).toEqual({ role: "user", content: "hi", id: null, name: null, origin: null, metadata: {} });
    expect(system("Be brief.").role).toBe("system");
    expect(eventMessage("The build failed.").role).toBe("event");
    expect(assistant("Hello.")).toMatchObject({ role: "assistant", toolCalls: [], finishReason: null });
    expect(user("hi", { name: "Ada" }).name).toBe("Ada");
  });

  test("an undefined field counts as absent", () => {
    const name: string | undefined = undefined;
    expect(user("hi", untyped({ name })).name).toBeNull();
    expect(user("hi", Object({ name: undefined })).name).toBeNull();
  });
});

describe("[allm 2] assistant messages", () => {
  test("finish reason and calls are fields of the message", () => {
    const call = toolCall({ id: "c1", name: "weather", arguments: { city: "Rome" } });
    const said = assistant("", { toolCalls: [call], finishReason: "tool_calls" });
    expect(said.finishReason).toBe("tool_calls");
    expect(said.toolCalls).toEqual([call]);
  });

  test("reasoning, text and calls keep their order", () => {
    const parts = [reasoningPart("hm"), toolCallPart("c1"), reasoningPart("so"), toolCallPart("c2"), textPart("!")];
    expect(parse("message", assistant(parts))).toMatchObject({ ok: true, value: { content: parts } });
  });

  test("a provider-run search keeps its position and its result and needs no answer", () => {
    const search = toolCall({ id: "s1", name: "web_search", arguments: { query: "weather" } });
    const said = assistant([toolCallPart("s1", { providerExecuted: search }), toolResultPart("s1", "sunny")]);
    expect(said.toolCalls).toEqual([]);
    expect(parse("message", said)).toMatchObject({ ok: true, value: said });
  });
});

describe("[allm 3] normalizeContent", () => {
  test("converts text to one part and keeps parts", () => {
    const parts = [textPart("a"), textPart("b")];
    expect(normalizeContent("hi")).toEqual([textPart("hi")]);
    expect(normalizeContent(parts)).toBe(parts);
  });

  test("messageText returns the text parts only", () => {
    const cat = imagePart(imageFromUrl("https://example.com/cat.png"));
    expect(messageText(user([textPart("Who "), cat, textPart("is this?")]))).toBe("Who is this?");
    expect(messageText(assistant([reasoningPart("secret"), textPart("A cat.")]))).toBe("A cat.");
    expect(messageText(user("hi"))).toBe("hi");
  });
});

test("[allm 4] the default detail of an image part is auto", () => {
  const cat = imageFromUrl("https://example.com/cat.png");
  expect(imagePart(cat).detail).toBe("auto");
  expect(imagePart(cat, { detail: "low" }).detail).toBe("low");
  expect(textPart("hi")).toMatchObject({ text: "hi", kind: "text", phase: null, metadata: {} });
});

describe("toolResult", () => {
  const chart = attachment({ source: { type: "base64", data: "aGk=" }, mimeType: "image/png" });

  test("accepts text, parts, or a value that becomes JSON", () => {
    expect(toolResult("c1", "sunny").content).toBe("sunny");
    expect(toolResult("c1", { celsius: 21 }).content).toBe('{"celsius":21}');
    expect(toolResult("c1", [{ celsius: 21 }]).content).toBe('[{"celsius":21}]');
    expect(toolResult("c1", []).content).toBe("[]");
    expect(toolResult("c1", [{ type: "text", text: "a" }]).content).toEqual([textPart("a")]);
    expect(toolResult("c1", "", { status: "failure", code: "timeout" })).toMatchObject({ status: "failure" });
  });

  test("sends attachments as image and file parts", () => {
    const content = toolResult("c1", { chart }).content;
    expect(typeof content === "string" ? [] : content.map((part) => part.type)).toEqual(["text", "image", "text"]);
  });

  test("throws for an invalid part and does not encode it as text", () => {
    const slip = [{ type: "text", text: "hi", metadata: { apiKey: "sk-1" } }];
    expect(() => toolResult("c1", slip)).toThrow(MisuseError);
    interface Weather {
      readonly celsius: number;
    }
    const weather: Weather = { celsius: 21 };
    expect(toolResult("c1", weather).content).toBe('{"celsius":21}');
  });

  test("throws for a value that JSON cannot represent", () => {
    const circular: { me?: unknown } = {};
    circular.me = circular;
    for (const value of [circular, { n: Number.NaN }, { seen: new Map() }, 1n]) {
      expect(() => toolResult("c1", Object(value))).toThrow(MisuseError);
    }
  });
});

test("the loose form of a message compiles and gets its defaults", () => {
  const cat = { type: "image", image: { source: { type: "url", url: "https://example.com/cat.png" } } } as const;
  expect(user([{ type: "text", text: "Who is this?" }, cat]).content).toHaveLength(2);
  expect(assistant("", { toolCalls: [{ id: "c1", name: "weather", arguments: {} }] }).toolCalls).toHaveLength(1);
  expect(request([{ role: "user", content: [cat] }]).messages).toHaveLength(1);
  const held = newSession({ thread: { messages: [{ role: "user", content: "hi" }] }, usage: { inputTokens: 5 } });
  expect(held.usage.inputTokens).toBe(5);
});

describe("[lash 49] textOrPlaceholder of pruned parts", () => {
  test.each([
    ["intact", null, "the text"],
    ["cleared", { type: "cleared" }, "[Old tool result content cleared]"],
    ["deleted", { type: "deleted", breadcrumb: "a log", archiveHash: "ab12" }, "[pruned:ab12 — a log]"],
    [
      "summarized",
      { type: "summarized", summary: "It worked.", archiveHash: "ab12" },
      "[SUMMARY of original ab12]\nIt worked.",
    ],
  ] as const)("%s", (_, pruneState, visible) => {
    expect(textOrPlaceholder("the text", pruneState)).toBe(visible);
    const part = textPart("the text", { pruneState });
    expect(parse("part", part)).toEqual({ ok: true, value: part });
  });
});

test("[lash 51] W4: replay data survives storage and is returned to its own route only", () => {
  const route = { provider: "anthropic", endpoint: "messages", model: "claude" };
  const replay = { ...route, data: { signature: "EqQBCg==", list: [1, "two", null], __proto__: null } };
  const said = assistant([reasoningPart("hm", { provider: replay }), textPart("!", { provider: replay })]);
  const restored = orThrow(fromJson(toJson("message", said), { as: "message" }));
  expect(restored).toEqual(said);
  const [kept] = normalizeContent<Part>(restored.content);
  const provider = kept !== undefined && "provider" in kept ? kept.provider : null;
  expect(JSON.stringify(replayFor(provider, route))).toBe(JSON.stringify({ type: "replay", data: replay.data }));
  for (const changed of ["provider", "endpoint", "model"] as const) {
    expect(replayFor(provider, { ...route, [changed]: "other" })).toEqual({ type: "foreign_route" });
  }
  expect(replayFor(null, route)).toEqual({ type: "none" });
});

test("an opaque part keeps its position", () => {
  const route = { provider: "openai", endpoint: "responses", model: "gpt-x" };
  const said = assistant([opaquePart("compaction", { ...route, data: { id: "cmp_1" } }), textPart("Hello.")]);
  expect(parse("message", said)).toEqual({ ok: true, value: said });
});
