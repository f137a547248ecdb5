import type { Codec, Omission, Quirks, WireContext } from "./codec.ts";
import type { Json, JsonObject, Message } from "everturn";

import { AdapterError, assistant, system, textPart, toolResult, user } from "everturn";
import { request, toolCall } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { opaquePart, toolCallPart } from "../model/internal.ts";
import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { sendableHistory } from "./history.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";

const mistralIds = { maxLength: 9, pattern: "letters_and_digits", exact: true } as const;
const anthropicIds = { maxLength: 64, pattern: "alphanumeric" } as const;

const codecs = [
  { name: "anthropic", codec: anthropicMessages, field: "messages" },
  { name: "gemini", codec: geminiGenerateContent, field: "contents" },
  { name: "chat", codec: openaiChat, field: "messages" },
  { name: "responses", codec: openaiResponses, field: "input" },
] as const;

function contextOf(name: string, quirks: Quirks = noQuirks): WireContext {
  return { route: { provider: name, endpoint: "https://x.test/v1", model: "model-1" }, rawChunks: false, quirks };
}

type EncodedBody = { readonly body: JsonObject; readonly omissions: readonly Omission[] };

function sent(codec: Codec, messages: readonly Message[], quirks: Quirks = noQuirks): EncodedBody {
  return codec.encode(request(messages), contextOf(codec.api, quirks));
}

const calls = (...ids: readonly string[]): Message =>
  assistant("", { toolCalls: ids.map((id) => toolCall({ id, name: "look", arguments: {} })) });

/** A reply with one call, and the result of the call. */
const step = (id: string, text = "done"): readonly Message[] => [calls(id), toolResult(id, text)];

/** The ids of calls and results in a body, in order. */
function idsOf(messages: readonly Message[]): {
  readonly calls: readonly string[];
  readonly answers: readonly string[];
} {
  return {
    calls: messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls.map(({ id }) => id) : [])),
    answers: messages.flatMap((message) => (message.role === "tool" ? [message.toolCallId] : [])),
  };
}

/** Every value under a key, at any depth. */
function valuesAt(value: Json, key: string): readonly Json[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, one]: [string, Json]) => [
    ...(name === key ? [one] : []),
    ...valuesAt(one, key),
  ]);
}

describe("call ids", () => {
  const twice = [user("a"), ...step("call_0", "one"), ...step("call_0", "two"), ...step("call_0", "three")];

  test("are unique in a request, in calls and results", () => {
    const { messages, omissions } = sendableHistory(twice);
    const ids = idsOf(messages);
    expect(ids.calls).toEqual(["call_0", "call_0~2", "call_0~3"]);
    expect(ids.answers).toEqual(ids.calls);
    expect(messages.flatMap((message) => (message.role === "tool" ? [message.content] : []))).toEqual([
      "one",
      "two",
      "three",
    ]);
    expect(omissions).toEqual([]);
    const { body } = sent(anthropicMessages, twice);
    const used = valuesAt(body, "id");
    expect(new Set(used).size).toBe(3);
    expect(valuesAt(body, "tool_use_id")).toEqual(used);
  });

  test.each(codecs)("$name: appending messages does not change what was sent before", ({ codec, field }) => {
    const list = (messages: readonly Message[]): readonly Json[] => {
      const idLists = sent(codec, messages).body[field];
      return Array.isArray(idLists) ? idLists : [];
    };
    const longer = list([...twice, ...step("call_0~2"), user("b")]);
    const before = list(twice);
    expect(longer.slice(0, before.length)).toEqual(before);
    expect(list(structuredClone(twice))).toEqual(before);
  });

  test.each([
    ["a long one", "call_PTLP8xhu3uwZk4l3nlnrrJha"],
    ["a short one", "call_0"],
    ["one of eight", "toolu_01"],
    ["none", ""],
  ])("%s becomes nine letters and digits for Mistral", (_, id) => {
    const { body } = sent(openaiChat, [user("a"), ...step(id)], { callIds: mistralIds });
    const [replacedId] = valuesAt(body, "id");
    expect(replacedId).toMatch(/^[a-zA-Z0-9]{9}$/);
    expect(valuesAt(body, "tool_call_id")).toEqual([replacedId]);
  });

  test("that are accepted stay unchanged", () => {
    const legal = [user("a"), ...step("abcDEF123")];
    expect(sendableHistory(legal, mistralIds).messages).toEqual(legal);
    expect(sendableHistory(legal, mistralIds).messages[1]).toBe(legal[1]);
  });

  test("with the same hash stay different", () => {
    const messages = [calls("xAa0000000", "xBB0000000")];
    expect(new Set(idsOf(sendableHistory(messages, mistralIds).messages).calls).size).toBe(2);
    const short = { maxLength: 9, pattern: "alphanumeric" } as const;
    expect(new Set(idsOf(sendableHistory(messages, short).messages).calls).size).toBe(2);
  });

  test.each(codecs)("$name: an empty id is replaced", ({ codec }) => {
    const { body } = sent(codec, [user("a"), ...step("")]);
    const ids = ["id", "tool_use_id", "tool_call_id", "call_id"].flatMap((key) => valuesAt(body, key));
    expect(ids).not.toContain("");
    expect(new Set(ids).size).toBeLessThanOrEqual(1);
  });

  test("of any form become accepted and unique, and equal for a call and its result", () => {
    const rules = [undefined, mistralIds, anthropicIds, { maxLength: 5, pattern: "alphanumeric" }] as const;
    const legal = [/^[^]+$/, /^[a-zA-Z0-9]{9}$/, /^[a-zA-Z0-9_-]{1,64}$/, /^[a-zA-Z0-9_-]{1,5}$/];
    const id = fc.oneof(fc.constantFrom("", "call_0", "call_0~2", "a:b", "a_b"), fc.string({ maxLength: 80 }));
    fc.assert(
      fc.property(fc.array(fc.array(id, { minLength: 1, maxLength: 3 })), fc.nat(3), (replies, at) => {
        const history = replies.flatMap((ids) => [calls(...ids), ...ids.map((one) => toolResult(one, "x"))]);
        const { messages } = sendableHistory(history, rules[at]);
        const idLists = idsOf(messages);
        expect(new Set(idLists.calls).size).toBe(replies.flat().length);
        expect(idLists.answers).toEqual(idLists.calls);
        for (const one of idLists.calls) expect(one).toMatch(legal[at] ?? /^$/);
        const first = history.slice(0, 1 + (replies[0]?.length ?? 0));
        const prefix = sendableHistory(first, rules[at]).messages;
        expect(messages.slice(0, prefix.length)).toEqual(prefix);
      }),
    );
  });

  test("are replaced in tool_call parts too", () => {
    const parts = [textPart("a"), toolCallPart("c:1"), textPart("b"), toolCallPart("c:1"), textPart("c")];
    const reply = assistant(parts, {
      toolCalls: ["one", "two"].map((name) => toolCall({ id: "c:1", name, arguments: {} })),
    });
    const history = [user("?"), ...step("c:1"), reply];
    expect(valuesAt(sent(anthropicMessages, history).body, "name")).toEqual(["look", "one", "two"]);
    const { body } = sent(anthropicMessages, history);
    const turns = Array.isArray(body["messages"]) ? body["messages"] : [];
    expect(turns[3].content.map((block: JsonObject) => block["text"] ?? block["name"])).toEqual([
      "a",
      "one",
      "b",
      "two",
      "c",
    ]);
  });

  test("a changed message is changed once and keeps its identity", () => {
    const history = [user("a"), ...step("call:1"), ...step("call:1"), calls("call:2")];
    const first = sendableHistory(history, anthropicIds).messages;
    const second = sendableHistory([...history, user("b")], anthropicIds).messages;
    expect(first).toHaveLength(7);
    for (const [index, message] of first.entries()) expect(second[index]).toBe(message);
  });

  test("every message has its index in the request", () => {
    const history = [user("a"), calls("x", "y"), user("b"), toolResult("y", "2"), user("c")];
    expect(sendableHistory(history).requestIndexes).toEqual([0, 1, 1, 3, 2, 4]);
  });
});

describe("a call without a name", () => {
  const history = [
    user("a"),
    assistant("", { toolCalls: [toolCall({ id: "c1", name: "", arguments: {} })] }),
    toolResult("c1", "x"),
  ];

  test.each(codecs)("$name: is sent with a placeholder name", ({ codec }) => {
    const { body, omissions } = sent(codec, history);
    const names = valuesAt(body, "name");
    expect(names).toContain("unknown_tool");
    expect(names).not.toContain("");
    expect(omissions).toEqual([{ path: "messages[1].toolCalls[0].name", reason: "repaired" }]);
  });
});

describe("messages without content", () => {
  const foreign = opaquePart("thing", { provider: "another", endpoint: "https://y.test", model: "m", data: {} });
  const empty: readonly (readonly [string, Message])[] = [
    ["a user's without parts", user([])],
    ["a user's without words", user("")],
    ["a user's with empty parts", user([textPart(""), textPart("")])],
    ["a reply without words", assistant("")],
    ["a reply of foreign parts", assistant([foreign])],
    ["an answer without its call", toolResult("lost", "x")],
  ];

  for (const { name, codec, field } of codecs) {
    test.each(empty)(`${name}: %s is not sent and is listed in omissions`, (_, message) => {
      const { body, omissions } = sent(codec, [user("a"), message, user("b")]);
      expect(body[field]).toEqual(sent(codec, [user("a"), user("b")]).body[field]);
      expect(omissions.filter(({ path }) => path.startsWith("messages[1]"))).not.toEqual([]);
    });

    test.each(empty)(`${name}: a request with only %s throws`, (_, message) => {
      expect(() => sent(codec, [message])).toThrow(AdapterError);
      expect(() => sent(codec, [message])).toThrow(/nothing to send/);
    });

    test(`${name}: empty parts are dropped from a message with others`, () => {
      const { body } = sent(codec, [user([textPart(""), textPart("a"), textPart("b"), textPart("")])]);
      expect(valuesAt(body, "text")).toEqual(["a", "b"]);
    });
  }

  test("empty instructions are not sent", () => {
    expect(sent(openaiChat, [system(""), user("a")])).toMatchObject({
      body: { messages: [{ role: "user", content: "a" }] },
      omissions: [{ path: "messages[0]", reason: "repaired" }],
    });
    expect(() => sent(openaiChat, [system("")])).toThrow(/nothing to send/);
  });
});
