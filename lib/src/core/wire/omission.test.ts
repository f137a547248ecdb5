// Every field of a request, for every API: it is sent, or a warning reports that it is not.

import type { Codec, WireContext } from "./codec.ts";
import type { ModelRequest } from "everturn";

import { assistant, imagePart, textPart, toolResult, user } from "everturn";
import { request, toolCall, toolSpec } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { reasoningPart } from "../model/internal.ts";
import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { warningsOf } from "./omission.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";

type Api = "responses" | "chat" | "anthropic" | "gemini";
const apis: readonly Api[] = ["responses", "chat", "anthropic", "gemini"];
const codecs: { readonly [Name in Api]: { readonly codec: Codec; readonly provider: string; readonly model: string } } =
  {
    responses: { codec: openaiResponses, provider: "openai", model: "gpt-5.4" },
    chat: { codec: openaiChat, provider: "openai", model: "gpt-5.4" },
    anthropic: { codec: anthropicMessages, provider: "anthropic", model: "claude-sonnet-4-6" },
    gemini: { codec: geminiGenerateContent, provider: "gemini", model: "gemini-3.5-flash" },
  };

function contextOf(api: Api, quirks = noQuirks): WireContext {
  const { provider, model } = codecs[api];
  return { route: { provider, endpoint: "e", model }, rawChunks: false, quirks };
}

function encode(api: Api, fields: Partial<ModelRequest>, quirks = noQuirks) {
  const { messages = [user("a")], ...others } = fields;
  return codecs[api].codec.encode(request(messages, others), contextOf(api, quirks));
}

/**
 * `sent`: the body changes. `reported`: a warning names the path. `default`: the API does this without a field.
 * `local`: the field is not for the provider.
 */
type Fate = "sent" | "reported" | "default" | "local";
type Row = {
  readonly name: string;
  /** The fields of the request with the setting. */
  readonly fields: Partial<ModelRequest>;
  /** The fields of the request without it. Default: none. */
  readonly without?: Partial<ModelRequest>;
  /** The path of the warning, where there is one. */
  readonly path: string;
  /** In the order of `apis`. */
  readonly fates: readonly [Fate, Fate, Fate, Fate];
};

const tools = [toolSpec({ name: "weather", description: "d", schema: { type: "object" } })];
const format = { type: "json_schema", name: "n", schema: { type: "object", properties: {} }, strict: true } as const;
const thinking = { effort: "high", budgetTokens: null, summary: null };
const none = { effort: null, budgetTokens: null, summary: null };
const sent = ["sent", "sent", "sent", "sent"] as const;
const local = ["local", "local", "local", "local"] as const;
const image = imagePart({ source: { type: "base64", data: "iVBORw0KGgo=" }, mimeType: "image/png" });
const picture = (detail: "auto" | "low") => [user([{ ...image, detail }])];
const ofProvider = (provider: string) => [{ provider, name: "web_search", options: {} }];

/** One row at least for each field of a request; the compiler requires the fields. */
const rows: { readonly [Field in keyof ModelRequest]: readonly Row[] } = {
  messages: [
    { name: "messages", fields: { messages: [user("a"), assistant("b"), user("c")] }, path: "messages", fates: sent },
    {
      name: "the name of the author",
      fields: { messages: [user("a", { name: "Ann" })] },
      path: "messages[0].name",
      fates: ["reported", "sent", "reported", "reported"],
    },
    {
      name: "image detail",
      fields: { messages: picture("low") },
      without: { messages: picture("auto") },
      path: "messages[0].content[0].detail",
      fates: ["sent", "sent", "reported", "reported"],
    },
    {
      name: "an image in a reply",
      fields: { messages: [user("a"), assistant([textPart("b"), image]), user("c")] },
      without: { messages: [user("a"), assistant([textPart("b")]), user("c")] },
      path: "messages[1].content[1]",
      fates: ["reported", "reported", "reported", "sent"],
    },
  ],
  model: [{ name: "model", fields: { model: "other" }, path: "model", fates: local }],
  tools: [{ name: "tools", fields: { tools }, path: "tools", fates: sent }],
  providerTools: [
    {
      name: "a tool of another provider",
      fields: { providerTools: ofProvider("other") },
      path: "providerTools[0]",
      fates: ["reported", "reported", "reported", "reported"],
    },
  ],
  toolChoice: [
    {
      name: "toolChoice",
      fields: { tools, toolChoice: "required" },
      without: { tools },
      path: "toolChoice",
      fates: sent,
    },
    {
      name: "toolChoice without tools",
      fields: { toolChoice: "required" },
      path: "toolChoice",
      fates: ["reported", "reported", "reported", "reported"],
    },
    {
      name: "toolChoice auto without tools",
      fields: { toolChoice: "auto" },
      path: "toolChoice",
      fates: ["default", "default", "default", "default"],
    },
  ],
  parallelToolCalls: [
    {
      name: "parallelToolCalls: false",
      fields: { tools, parallelToolCalls: false },
      without: { tools },
      path: "parallelToolCalls",
      fates: ["sent", "sent", "sent", "reported"],
    },
    {
      name: "parallelToolCalls: true",
      fields: { tools, parallelToolCalls: true },
      without: { tools },
      path: "parallelToolCalls",
      fates: ["sent", "sent", "default", "default"],
    },
  ],
  temperature: [
    { name: "temperature", fields: { temperature: 0.2 }, path: "temperature", fates: sent },
    {
      name: "temperature beside thinking",
      fields: { temperature: 0.2, reasoning: thinking },
      without: { reasoning: thinking },
      path: "temperature",
      fates: ["sent", "sent", "reported", "sent"],
    },
  ],
  topP: [
    { name: "topP", fields: { topP: 0.5 }, path: "topP", fates: sent },
    {
      name: "topP beside thinking",
      fields: { topP: 0.5, reasoning: thinking },
      without: { reasoning: thinking },
      path: "topP",
      fates: ["sent", "sent", "reported", "sent"],
    },
  ],
  maxTokens: [{ name: "maxTokens", fields: { maxTokens: 9 }, path: "maxTokens", fates: sent }],
  stopSequences: [
    {
      name: "stopSequences",
      fields: { stopSequences: ["x"] },
      path: "stopSequences",
      fates: ["reported", "sent", "sent", "sent"],
    },
  ],
  seed: [{ name: "seed", fields: { seed: 7 }, path: "seed", fates: ["reported", "sent", "reported", "sent"] }],
  reasoning: [
    { name: "reasoning.effort", fields: { reasoning: thinking }, path: "reasoning.effort", fates: sent },
    {
      name: "reasoning.budgetTokens",
      fields: { reasoning: { ...none, budgetTokens: 2000 } },
      without: { reasoning: none },
      path: "reasoning.budgetTokens",
      fates: ["reported", "reported", "sent", "sent"],
    },
    {
      name: "reasoning.budgetTokens beside an effort",
      fields: { reasoning: { ...thinking, budgetTokens: 2000 } },
      without: { reasoning: thinking },
      path: "reasoning.budgetTokens",
      fates: ["reported", "reported", "sent", "reported"],
    },
    {
      name: "reasoning.summary",
      fields: { reasoning: { ...none, summary: "auto" } },
      without: { reasoning: none },
      path: "reasoning.summary",
      fates: ["sent", "reported", "sent", "sent"],
    },
    {
      name: "reasoning beside a forced tool",
      fields: { reasoning: { ...none, budgetTokens: 2000 }, tools, toolChoice: "required" },
      without: { reasoning: none, tools, toolChoice: "required" },
      path: "reasoning",
      fates: ["reported", "reported", "reported", "sent"],
    },
  ],
  promptCache: [
    {
      name: "promptCache.key",
      fields: { promptCache: { key: "k", retention: "short", breakpoints: "system" } },
      without: { promptCache: { key: null, retention: "short", breakpoints: "system" } },
      path: "promptCache",
      fates: ["sent", "sent", "reported", "reported"],
    },
    {
      name: "promptCache.retention",
      fields: { tools, promptCache: { key: null, retention: "long", breakpoints: "system" } },
      without: { tools },
      path: "promptCache",
      fates: ["sent", "sent", "sent", "reported"],
    },
  ],
  responseFormat: [
    { name: "json_schema", fields: { responseFormat: format }, path: "responseFormat", fates: sent },
    {
      name: "json_object",
      fields: { responseFormat: { type: "json_object" } },
      path: "responseFormat",
      fates: ["sent", "sent", "reported", "sent"],
    },
    {
      name: "text",
      fields: { responseFormat: { type: "text" } },
      path: "responseFormat",
      fates: ["default", "default", "default", "default"],
    },
  ],
  compactAt: [
    {
      name: "compactAt",
      fields: { compactAt: 60_000 },
      path: "compactAt",
      fates: ["sent", "reported", "sent", "reported"],
    },
  ],
  structuredFinalize: [
    { name: "structuredFinalize", fields: { structuredFinalize: true }, path: "structuredFinalize", fates: local },
  ],
  stream: [{ name: "stream", fields: { stream: true }, path: "stream", fates: local }],
  scope: [
    {
      name: "scope",
      fields: { scope: { sessionId: "s", frameId: null, requestId: "r" } },
      path: "scope",
      fates: local,
    },
  ],
  options: [{ name: "options", fields: { options: { other: 1 } }, path: "options", fates: sent }],
  providerOptions: [
    {
      name: "options of the provider",
      fields: { providerOptions: { openai: { other: 1 }, anthropic: { other: 1 }, gemini: { other: 1 } } },
      path: "providerOptions",
      fates: sent,
    },
    {
      name: "options of another provider",
      fields: { providerOptions: { mistral: { other: 1 } } },
      path: "providerOptions",
      fates: local,
    },
  ],
  metadata: [{ name: "metadata", fields: { metadata: { a: 1 } }, path: "metadata", fates: local }],
};

describe("a field of a request is sent, or a warning says that it is not", () => {
  const all = Object.values(rows).flat();
  for (const [at, api] of apis.entries()) {
    test.each(all)(`${api}: $name`, ({ fields, without = {}, path, fates }) => {
      const given = encode(api, fields);
      const plain = encode(api, without);
      const warnings = warningsOf(given.omissions).filter((warning) => warning.path.startsWith(path));
      const isChanged = JSON.stringify(given.body) !== JSON.stringify(plain.body);
      const fate = fates[at];
      expect({ isChanged, isReported: warnings.length > 0 }).toEqual({
        isChanged: fate === "sent",
        isReported: fate === "reported",
      });
      for (const warning of warnings) {
        expect(warning).toEqual({ reason: "unsupported", path: warning.path, message: expect.any(String) });
        expect(warning.message).toMatch(new RegExp(`^${warning.path.replaceAll(/[.[\]]/g, "\\$&")} is not sent: \\w`));
      }
    });
  }
});

describe("warnings of a request", () => {
  test.each(apis)("%s: name a field that the server does not accept by its name in the request", (api) => {
    const field = { responses: "top_p", chat: "top_p", anthropic: "top_p", gemini: "topP" }[api];
    const { omissions } = encode(api, { topP: 0.5 }, { without: [field] });
    expect(warningsOf(omissions)).toEqual([
      {
        reason: "unsupported",
        path: "topP",
        message: `topP is not sent: the server does not accept the field ${field}`,
      },
    ]);
  });

  test.each(apis)("%s: report a call without a result, and a result without a call", (api) => {
    const call = toolCall({ id: "c1", name: "weather", arguments: {} });
    const messages = [user("a"), assistant("", { toolCalls: [call] }), user("b"), toolResult("c9", "old"), user("c")];
    const warnings = warningsOf(encode(api, { messages, tools }).omissions);
    expect(warnings.map(({ reason, path }) => `${reason} ${path}`)).toEqual([
      "repaired messages[1].toolCalls[0]",
      "repaired messages[3]",
    ]);
  });

  test.each(apis)("%s: do not report empty messages and replay data of another provider", (api) => {
    const theirs = { provider: "other", endpoint: "e", model: "m", data: { signature: "s" } };
    const reasoning = { ...reasoningPart("thought"), provider: theirs };
    const reply = assistant([reasoning, { ...textPart("b"), provider: theirs }]);
    const messages = [user("a"), reply, assistant(""), user("c")];
    const { omissions } = encode(api, { messages });
    expect(omissions.length).toBeGreaterThan(0);
    expect(warningsOf(omissions)).toEqual([]);
  });
});
