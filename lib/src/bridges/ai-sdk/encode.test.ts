import type { Specification } from "./specification.ts";
import type { ModelRequest } from "everturn";

import { assistant, filePart, imageFromBase64, imageFromUrl, imagePart, system, toolResult, user } from "everturn";
import { request, toolSpec } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { encodeCall } from "./encode.ts";

const route = { provider: "anthropic.messages", endpoint: "ai-sdk", model: "m" };
const png = imagePart(imageFromBase64("aGk=", "image/png"));

function encode(asked: ModelRequest, specification: Specification = "v4", provider = route.provider) {
  const supportedUrls = { "image/*": [/^https:\/\/images\./] };
  return encodeCall(asked, { route: { ...route, provider }, specification, supportedUrls });
}

const hello = [user("Hello.")];

describe("files", () => {
  const pdf = filePart({ type: "base64", data: "AA==" }, { mimeType: "application/pdf", name: "a.pdf" });
  const asked = request([user([png, pdf])]);

  test.each(["v2", "v3"] as const)("are base64 text in specification %s", (specification) => {
    expect(encode(asked, specification).options.prompt[0]?.content).toEqual([
      { type: "file", data: "aGk=", mediaType: "image/png" },
      { type: "file", data: "AA==", mediaType: "application/pdf", filename: "a.pdf" },
    ]);
  });

  test("are tagged in specification v4", () => {
    expect(encode(asked).options.prompt[0]?.content).toMatchObject([
      { type: "file", data: { type: "data", data: "aGk=" } },
      { type: "file", data: { type: "data", data: "AA==" } },
    ]);
    const uploaded = filePart(
      { type: "provider_file", provider: "anthropic", id: "file_1" },
      { mimeType: "text/plain" },
    );
    expect(encode(request([user([uploaded])])).options.prompt[0]?.content).toMatchObject([
      { type: "file", data: { type: "reference", reference: { anthropic: "file_1" } } },
    ]);
    expect(() => encode(request([user([uploaded])]), "v3")).toThrow(/is a file of the provider anthropic/);
  });

  test("by URL are sent only if the model fetches them; data: URLs are bytes", () => {
    const url = "https://images.example/cat.png";
    const content = encode(request([user([imagePart(imageFromUrl(url))])])).options.prompt[0]?.content;
    expect(content).toEqual([{ type: "file", data: { type: "url", url: new URL(url) }, mediaType: "image/*" }]);
    const inline = imagePart(imageFromUrl("data:image/gif;base64,R0k="));
    expect(encode(request([user([inline])]), "v3").options.prompt[0]?.content).toMatchObject([{ data: "R0k=" }]);
    for (const other of ["https://other.example/cat.png", "file:///etc/passwd", "http://169.254.169.254/x"])
      expect(() => encode(request([user([imagePart(imageFromUrl(other))])]))).toThrow(/does not fetch; send the bytes/);
    expect(() => encode(request([user([imagePart(imageFromUrl("no url"))])]))).toThrow(/invalid URL/);
  });

  test("in results have the form of each specification", () => {
    const call = { id: "c", name: "draw", arguments: {} };
    const history = [...hello, assistant("", { toolCalls: [call] }), toolResult("c", [png])];
    const items = (["v2", "v3", "v4"] as const).map((specification) => encode(request(history), specification));
    const outputs = items.map(({ options }) => JSON.stringify(options.prompt[2]?.content));
    expect(outputs[0]).toContain('"value":[{"type":"media","data":"aGk=","mediaType":"image/png"}]');
    expect(outputs[1]).toContain('"value":[{"type":"image-data","data":"aGk=","mediaType":"image/png"}]');
    expect(outputs[2]).toContain(
      '"value":[{"type":"file","mediaType":"image/png","data":{"type":"data","data":"aGk="}}]',
    );
  });
});

test("system messages inside of the conversation move to its start, with a warning; notes of the runtime stay", () => {
  const note = system("Cell 1 printed 5.", { origin: { type: "plugin", pluginId: "cells", transient: false } });
  const { options, omissions } = encode(request([system("A."), user("Hi."), system("B."), note]));
  expect(options.prompt).toEqual([
    { role: "system", content: "A." },
    { role: "system", content: "B." },
    { role: "user", content: [{ type: "text", text: "Hi." }] },
    { role: "user", content: [{ type: "text", text: "Cell 1 printed 5." }] },
  ]);
  expect(omissions).toMatchObject([{ path: "messages[2]", reason: "unsupported" }]);
});

test("a call without a result gets a placeholder, and failed results are errors", () => {
  const toolCalls = ["a", "b"].map((id) => ({ id, name: "look", arguments: { id } }));
  const history = [
    ...hello,
    assistant("Let me look.", { toolCalls }),
    toolResult("a", "", { status: "failure", code: "busy" }),
  ];
  const { options, omissions } = encode(request(history));
  expect(options.prompt.slice(1)).toMatchObject([
    {
      role: "assistant",
      content: [
        { type: "text", text: "Let me look." },
        { type: "tool-call", toolCallId: "a", toolName: "look", input: { id: "a" } },
        { type: "tool-call", toolCallId: "b" },
      ],
    },
    {
      role: "tool",
      content: [
        { type: "tool-result", toolCallId: "a", toolName: "look", output: { type: "error-text", value: "busy" } },
        { type: "tool-result", toolCallId: "b", output: { type: "error-text" } },
      ],
    },
  ]);
  expect(omissions).toMatchObject([{ reason: "repaired" }]);
});

test("replay data goes back on its own route only, and options of the caller win", () => {
  const providerMetadata = { anthropic: { signature: "seal", other: 1 } };
  const at = (model: string) => ({ ...route, model, data: { providerMetadata } });
  const reply = (model: string) =>
    assistant([
      { type: "reasoning", text: "Hm.", provider: at(model) },
      { type: "text", text: "Hi.", provider: at(model), providerOptions: { anthropic: { other: 2 } } },
      {
        type: "opaque",
        kind: "anthropic.fallback",
        provider: { ...at(model), data: { part: { type: "custom", kind: "anthropic.fallback" } } },
      },
    ]);
  expect(encode(request([...hello, reply("m"), user("Go.")])).options.prompt[1]?.content).toEqual([
    { type: "reasoning", text: "Hm.", providerOptions: providerMetadata },
    { type: "text", text: "Hi.", providerOptions: { anthropic: { signature: "seal", other: 2 } } },
    { type: "custom", kind: "anthropic.fallback" },
  ]);
  expect(encode(request([...hello, reply("other"), user("Go.")])).options.prompt[1]?.content).toEqual([
    { type: "text", text: "Hi.", providerOptions: { anthropic: { other: 2 } } },
  ]);
});

describe("settings", () => {
  test("have the names of the AI SDK, and what it has no field for is a warning", () => {
    const tools = [
      toolSpec({ name: "look", description: "Looks.", schema: { type: "object" }, metadata: { strict: true } }),
    ];
    const { options, omissions } = encode(
      request(hello, {
        tools,
        providerTools: [{ provider: "anthropic", name: "web_search_20250305", options: { maxUses: 2 } }],
        toolChoice: { type: "tool", name: "look" },
        maxTokens: 5,
        temperature: 0,
        stopSequences: ["END"],
        responseFormat: { type: "json_schema", name: "a", schema: { type: "object" }, strict: true },
        promptCache: {},
        parallelToolCalls: false,
        options: { topK: 3, logit_bias: {} },
      }),
    );
    expect(options).toMatchObject({
      tools: [
        { type: "function", name: "look", inputSchema: { type: "object" }, strict: true },
        { type: "provider", id: "anthropic.web_search_20250305", name: "web_search", args: { maxUses: 2 } },
      ],
      toolChoice: { type: "tool", toolName: "look" },
      maxOutputTokens: 5,
      temperature: 0,
      topK: 3,
      stopSequences: ["END"],
      responseFormat: { type: "json", name: "a", schema: { type: "object" } },
      providerOptions: { anthropic: { disableParallelToolUse: true } },
    });
    expect(omissions.map(({ path }) => path)).toEqual(["options.logit_bias", "promptCache"]);
    expect(encode(request(hello)).options).toEqual({
      prompt: [{ role: "user", content: [{ type: "text", text: "Hello." }] }],
    });
  });

  const reasoning = { effort: "high", budgetTokens: 2000, summary: "auto" };
  test.each([
    ["v4", "openai.responses", { reasoning: "high", providerOptions: { openai: { reasoningSummary: "auto" } } }],
    ["v3", "openai.responses", { providerOptions: { openai: { reasoningEffort: "high", reasoningSummary: "auto" } } }],
    [
      "v2",
      "anthropic.messages",
      { providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 2000 }, effort: "high" } } },
    ],
    [
      "v3",
      "google.vertex.chat",
      {
        providerOptions: {
          google: { thinkingConfig: { thinkingBudget: 2000, thinkingLevel: "high", includeThoughts: true } },
        },
      },
    ],
    [
      "v4",
      "amazon-bedrock",
      { reasoning: "high", providerOptions: { bedrock: { reasoningConfig: { type: "enabled", budgetTokens: 2000 } } } },
    ],
    ["v3", "groq.chat", { providerOptions: { groq: { reasoningEffort: "high" } } }],
  ] as const)("reasoning in specification %s for %s", (specification, provider, expected) => {
    const { prompt: _, ...options } = encode(request(hello, { reasoning }), specification, provider).options;
    expect(options).toEqual(expected);
  });
});

test("a request without content for the model is refused", () => {
  expect(() => encode(request([system("Be brief.")]))).toThrow(/nothing to send/);
});
