// System messages inside of a conversation: they keep their place where the API allows it, otherwise a warning reports
// where they are sent.

import type { Codec } from "./codec.ts";
import type { JsonObject, Message } from "everturn";

import { assistant, system, toolResult, user } from "everturn";
import { request, toolCall, toolSpec } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { asObject, listAt, objectAt, objectsAt, textAt } from "./fields.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { warningsOf } from "./omission.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";

const tools = [toolSpec({ name: "look", description: "", schema: { type: "object" } })];

function encode(codec: Codec, provider: string, model: string, messages: readonly Message[]) {
  const route = { provider, endpoint: "e", model };
  const { body, omissions } = codec.encode(request(messages, { tools }), { route, rawChunks: false, quirks: noQuirks });
  return { body, warnings: warningsOf(omissions) };
}

const claude = (messages: readonly Message[], model = "claude-opus-5") =>
  encode(anthropicMessages, "anthropic", model, messages);

/** Role and texts of every message of an Anthropic body, as `role: a, b`. */
function placesOf(body: JsonObject): readonly string[] {
  return objectsAt(body, "messages").map((message) => {
    const blocks = listAt(message, "content").map(
      (block) => textAt(asObject(block), "text") ?? textAt(asObject(block), "type"),
    );
    return `${textAt(message, "role") ?? ""}: ${blocks.join(", ")}`;
  });
}

const reported = (warnings: readonly { readonly reason: string; readonly path: string }[]) =>
  warnings.map(({ reason, path }) => `${reason} ${path}`);

const note = (text: string) => system(text, { origin: { type: "plugin", pluginId: "code", transient: false } });
const rules = system("Be brief.");
const french = system("Now in French.");

describe("a system message inside of a conversation", () => {
  const messages = [rules, user("a"), assistant("b"), french, user("c")];

  test("keeps its place on Responses, as a developer message", () => {
    const { body, warnings } = encode(openaiResponses, "openai", "gpt-5.4", messages);
    expect(body["instructions"]).toBe("Be brief.");
    expect(objectsAt(body, "input").map((item) => textAt(item, "role"))).toEqual([
      "user",
      "assistant",
      "developer",
      "user",
    ]);
    expect(warnings).toEqual([]);
  });

  test("keeps its place on Chat Completions", () => {
    const { body, warnings } = encode(openaiChat, "openai", "gpt-5.4", messages);
    const roles = objectsAt(body, "messages").map((item) => textAt(item, "role"));
    expect(roles).toEqual(["system", "user", "assistant", "system", "user"]);
    expect(warnings).toEqual([]);
  });

  test("is sent in the system instruction of Gemini, and reported", () => {
    const { body, warnings } = encode(geminiGenerateContent, "gemini", "gemini-3.5-flash", messages);
    expect(objectAt(body, "systemInstruction")).toEqual({ parts: [{ text: "Be brief.\n\nNow in French." }] });
    expect(reported(warnings)).toEqual(["unsupported messages[3]"]);
  });

  test("is sent in the system prompt of a Claude model that accepts no others, and reported", () => {
    const { body, warnings } = claude(messages, "claude-sonnet-4-6");
    expect(body["system"]).toBe("Be brief.\n\nNow in French.");
    expect(placesOf(body)).toEqual(["user: a", "assistant: b", "user: c"]);
    expect(reported(warnings)).toEqual(["unsupported messages[3]"]);
  });
});

describe("a system message inside of a conversation with a Claude model that accepts it", () => {
  test("keeps its place after a user message, at the end and before a reply", () => {
    const end = claude([rules, user("a"), french]);
    expect(end.body["system"]).toBe("Be brief.");
    expect(placesOf(end.body)).toEqual(["user: a", "system: Now in French."]);
    const middle = claude([rules, user("a"), french, assistant("b"), user("c")]);
    expect(placesOf(middle.body)).toEqual(["user: a", "system: Now in French.", "assistant: b", "user: c"]);
    expect([end.warnings, middle.warnings]).toEqual([[], []]);
  });

  test("follows the tool results", () => {
    const call = toolCall({ id: "c1", name: "look", arguments: {} });
    const { body, warnings } = claude([
      user("a"),
      assistant("", { toolCalls: [call] }),
      toolResult("c1", "seen"),
      french,
    ]);
    expect(placesOf(body)).toEqual(["user: a", "assistant: tool_use", "user: tool_result", "system: Now in French."]);
    expect(warnings).toEqual([]);
  });

  test("is one message with its neighbours", () => {
    const { body } = claude([user("a"), french, system("And short.")]);
    expect(placesOf(body)).toEqual(["user: a", "system: Now in French., And short."]);
  });

  test("is sent after the user message that follows it if it follows a reply, and reported", () => {
    const { body, warnings } = claude([user("a"), assistant("b"), french, user("c")]);
    expect(placesOf(body)).toEqual(["user: a", "assistant: b", "user: c", "system: Now in French."]);
    expect(reported(warnings)).toEqual(["repaired messages[2]"]);
  });

  test("is sent after the next user message if it stands between two, and reported", () => {
    const { body, warnings } = claude([user("a"), french, user("c")]);
    expect(placesOf(body)).toEqual(["user: a, c", "system: Now in French."]);
    expect(reported(warnings)).toEqual(["repaired messages[1]"]);
  });

  test("is sent in the system prompt if no user message follows, and reported", () => {
    const { body, warnings } = claude([user("a"), assistant("b"), french]);
    expect(body["system"]).toBe("Now in French.");
    expect(placesOf(body)).toEqual(["user: a", "assistant: b"]);
    expect(reported(warnings)).toEqual(["unsupported messages[2]"]);
  });

  test.each([
    "claude-opus-4-8",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5-20261001",
    "claude-fable-5",
    "claude-mythos-5-1",
  ])("%s accepts it", (model) => expect(placesOf(claude([user("a"), french], model).body)).toHaveLength(2));

  test.each([
    "claude-opus-4-7",
    "claude-opus-4-20250514",
    "claude-sonnet-5",
    "claude-sonnet-4-5-20250929",
    "claude-haiku-4-5",
    "claude-3-5-sonnet-20241022",
    "other",
  ])("%s does not", (model) => expect(placesOf(claude([user("a"), french], model).body)).toHaveLength(1));
});

describe("a note of the runtime", () => {
  const messages = [user("a"), assistant("print(1)"), note("1"), assistant("print(2)"), note("2")];

  test("keeps its place on Anthropic, as a user message", () => {
    for (const model of ["claude-opus-5", "claude-sonnet-4-6"]) {
      const { body, warnings } = claude(messages, model);
      expect(body).not.toHaveProperty("system");
      expect(placesOf(body)).toEqual(["user: a", "assistant: print(1)", "user: 1", "assistant: print(2)", "user: 2"]);
      expect(warnings).toEqual([]);
    }
  });

  test("keeps its place on Gemini, as a user turn", () => {
    const { body, warnings } = encode(geminiGenerateContent, "gemini", "gemini-3.5-flash", messages);
    expect(body).not.toHaveProperty("systemInstruction");
    expect(objectsAt(body, "contents").map((turn) => textAt(turn, "role"))).toEqual([
      "user",
      "model",
      "user",
      "model",
      "user",
    ]);
    expect(warnings).toEqual([]);
  });
});
