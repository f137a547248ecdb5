// Cache breakpoints of Anthropic: where `promptCache` places them, beside those of the caller.

import type { WireContext } from "../codec.ts";
import type { Json, Message, ModelRequest } from "everturn";

import { assistant, system, textPart, toolResult, user } from "everturn";
import { request, toolCall, toolSpec } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { reasoningPart } from "../../model/internal.ts";
import { noQuirks } from "../codec.ts";
import { anthropicMessages } from "./codec.ts";

const route = { provider: "anthropic", endpoint: "https://api.anthropic.com/v1", model: "claude-sonnet-4-5" };
const context: WireContext = { route, rawChunks: false, quirks: noQuirks };
const short = { anthropic: { cache_control: { type: "ephemeral" } } } as const;
const long = { anthropic: { cache_control: { type: "ephemeral", ttl: "1h" } } } as const;

const tool = (name: string, providerOptions: object = {}) =>
  toolSpec({ name, description: "", schema: { type: "object" }, ...providerOptions });
const call = (id: string) => assistant("", { toolCalls: [toolCall({ id, name: "a", arguments: {} })] });
const first: readonly Message[] = [system("Be brief."), user("One.")];
const turns: readonly Message[] = [...first, assistant("1."), user("Two."), call("c1"), toolResult("c1", "x")];

type Fields = NonNullable<Parameters<typeof request>[1]>;

/** The paths of all blocks with a breakpoint, with their lifetime if it is not the default. */
function breakpoints(messages: readonly Message[], fields: Fields): readonly string[] {
  const { body } = anthropicMessages.encode(request(messages, fields), context);
  const found: string[] = [];
  const walk = (value: Json | undefined, path: string): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (key === "cache_control") found.push(`${path}${JSON.stringify(inner).includes("1h") ? " 1h" : ""}`);
      else walk(inner, path === "" ? key : `${path}.${key}`);
    }
  };
  walk({ tools: body["tools"] ?? null, system: body["system"] ?? null, messages: body["messages"] ?? null }, "");
  return found;
}

const auto = { promptCache: { breakpoints: "auto" } } as const satisfies Fields;
const tools = [tool("a"), tool("b")];

describe("promptCache", () => {
  test("places breakpoints after the tools and the system prompt by default", () => {
    expect(breakpoints(turns, { promptCache: {}, tools })).toEqual(["tools.1", "system.0"]);
    expect(breakpoints(turns, { promptCache: { retention: "long" }, tools })).toEqual(["tools.1 1h", "system.0 1h"]);
  });

  test("places none with `none`, and the system prompt stays one text", () => {
    expect(breakpoints(turns, { promptCache: { breakpoints: "none" }, tools })).toEqual([]);
    const none = request([system("A."), system("B."), user("x")], { promptCache: { breakpoints: "none" } });
    expect(anthropicMessages.encode(none, context).body["system"]).toBe("A.\n\nB.");
  });
});

describe("automatic breakpoints", () => {
  test("are after tools, system prompt, the message before the current turn, and the last message", () => {
    expect(breakpoints(turns, { ...auto, tools })).toEqual([
      "tools.1",
      "system.0",
      "messages.1.content.0",
      "messages.4.content.0",
    ]);
  });

  test("have the lifetime of `retention`", () => {
    expect(breakpoints(first, { promptCache: { breakpoints: "auto", retention: "long" } })).toEqual([
      "system.0 1h",
      "messages.0.content.0 1h",
    ]);
  });

  test("stay before the current turn while its steps add messages", () => {
    const more = [...turns, call("c2"), toolResult("c2", "y")];
    expect(breakpoints(turns, auto)).toContain("messages.1.content.0");
    expect(breakpoints(more, auto)).toEqual(["system.0", "messages.1.content.0", "messages.6.content.0"]);
  });

  test("change nothing of earlier messages besides cache_control, and keep encoded messages unchanged", () => {
    const strip = (text: string): string => text.replaceAll(/,"cache_control":\{[^}]*\}/g, "");
    const encode = (messages: readonly Message[], fields: Fields = auto) =>
      JSON.stringify(anthropicMessages.encode(request(messages, fields), context).body["messages"]);
    const before = strip(encode(turns)).slice(0, -1);
    const after = strip(encode([...turns, assistant("2."), user("Three.")]));
    expect(after.startsWith(before)).toBe(true);
    const given: ModelRequest = request(turns);
    anthropicMessages.encode(
      { ...given, promptCache: { key: null, retention: "short", breakpoints: "auto" } },
      context,
    );
    expect(JSON.stringify(anthropicMessages.encode(given, context).body)).not.toContain("cache_control");
  });

  test("are at most four with those of the caller, the most useful first", () => {
    const own = user([textPart("a", { providerOptions: short }), textPart("b", { providerOptions: short })]);
    expect(breakpoints([system("S."), own, assistant("1."), user("Two.")], { ...auto, tools })).toEqual([
      "system.0",
      "messages.0.content.0",
      "messages.0.content.1",
      "messages.2.content.0",
    ]);
    const four = user(["a", "b", "c", "d"].map((text) => textPart(text, { providerOptions: short })));
    expect(breakpoints([system("S."), four, assistant("1."), user("Two.")], { ...auto, tools })).toHaveLength(4);
    const nested = toolResult("c1", [textPart("x", { providerOptions: short })]);
    expect(breakpoints([...turns.slice(0, -1), nested], { ...auto, tools })).toHaveLength(4);
  });

  test("count a top-level cache_control, which the API places itself", () => {
    const options = { cache_control: { type: "ephemeral" } } as const;
    expect(breakpoints(turns, { ...auto, tools, options })).toHaveLength(3);
    expect(breakpoints(turns, { ...auto, tools, providerOptions: { anthropic: options } })).toHaveLength(3);
  });

  test("use no second breakpoint where the caller has one", () => {
    const messages = [system("S."), user("One.", { providerOptions: long })];
    expect(breakpoints(messages, auto)).toEqual(["system.0 1h", "messages.0.content.0 1h"]);
  });

  test("are never one hour after five minutes, which the API refuses", () => {
    const messages = [system("S.", { providerOptions: short }), user("One.")];
    const retention = { promptCache: { breakpoints: "auto", retention: "long" } } as const;
    expect(breakpoints(messages, { ...retention, tools })).toEqual(["tools.1 1h", "system.0", "messages.0.content.0"]);
  });

  test("skip deferred tools and thinking", () => {
    const deferred = tool("b", { providerOptions: { anthropic: { defer_loading: true } } });
    expect(breakpoints([user("x")], { ...auto, tools: [tool("a"), deferred] })).toEqual([
      "tools.0",
      "messages.0.content.0",
    ]);
    const data = { type: "thinking", signature: "s" };
    const thought = reasoningPart("hm", { provider: { ...route, data } });
    const reply = assistant([textPart("1."), thought]);
    expect(breakpoints([user("One."), reply, user("Two.")], auto)).toEqual([
      "messages.1.content.0",
      "messages.2.content.0",
    ]);
  });
});
