// Tests of an engine as a language model of the AI SDK, with `generateText` and `streamText` of the package `ai`
// (versions 6 and 7).

import type { Play, Say } from "../../../test/loopback-providers.ts";
import type { EngineFields, FakeScript, JsonObject } from "everturn";

import { generateText, jsonSchema, Output, stepCountIs, streamText, tool as aiTool } from "ai";
import { anthropic, engine, fake, tool } from "everturn";
import { aiSdkModel } from "everturn/ai-sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";

import { LoopbackStages, wireFormats } from "../../../test/loopback-providers.ts";

const stages = new LoopbackStages();
beforeAll(() => stages.listen());
afterAll(() => stages.close());

const weather = tool({
  name: "weather",
  description: "The weather in a city.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  handler: ({ city }) => `Sun in ${String(city)}.`,
});

const clock = aiTool({
  description: "The time.",
  inputSchema: z.object({ zone: z.string() }),
  execute: ({ zone }) => `12:00 ${zone}`,
});

function scripted(scripts: readonly FakeScript[], fields: EngineFields = {}) {
  const adapter = fake({ scripts, usage: { inputTokens: 10, outputTokens: 5, cachedInputTokens: 4 } });
  return { adapter, model: aiSdkModel(engine({ adapter, model: "fake:m", tools: [weather], ...fields })) };
}

describe("generateText", () => {
  test("returns the text, the usage and the finish reason of a turn", async () => {
    const { model, adapter } = scripted([
      [
        { type: "reasoning", text: "Hm." },
        { type: "text", text: "Hello." },
      ],
    ]);
    const result = await generateText({
      model,
      system: "Be brief.",
      prompt: "Hi!",
      temperature: 0.5,
      maxOutputTokens: 50,
    });
    expect(result).toMatchObject({ text: "Hello.", reasoningText: "Hm.", finishReason: "stop" });
    expect(result.usage).toMatchObject({ inputTokens: 10, outputTokens: 5 });
    expect(adapter.calls[0]?.request).toMatchObject({
      temperature: 0.5,
      maxTokens: 50,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: "Hi!" }] },
      ],
    });
  });

  test("runs tools of the engine inside the call and those of the caller outside of it", async () => {
    const { model, adapter } = scripted([
      [
        { type: "tool_call", id: "a", name: "weather", arguments: { city: "Oslo" } },
        { type: "tool_call", id: "b", name: "clock", arguments: { zone: "CET" } },
      ],
      [
        { type: "text", text: "One more. " },
        { type: "tool_call", id: "c", name: "weather", arguments: { city: "Rome" } },
      ],
      [{ type: "text", text: "Done." }],
    ]);
    const result = await generateText({ model, prompt: "Go.", tools: { clock }, stopWhen: stepCountIs(5) });
    expect(result.text).toBe("One more. Done.");
    const request = adapter.calls.at(-1)?.request;
    expect(request?.messages.slice(1)).toMatchObject([
      { role: "assistant", toolCalls: [{ id: "a" }, { id: "b" }] },
      { role: "tool", toolCallId: "a", content: "Sun in Oslo." },
      { role: "tool", toolCallId: "b", content: "12:00 CET" },
      { role: "assistant", toolCalls: [{ id: "c" }] },
      { role: "tool", toolCallId: "c", content: "Sun in Rome." },
    ]);
    adapter.assertUsedUp();
    // The history of the AI SDK continues in another call, which has the same conversation.
    const next = scripted([[{ type: "text", text: "Yes." }]]);
    // In AI SDK 7, `response` has the messages of the last step only.
    const replies = process.env["AI_SDK_VERSION"] === "6" ? result.response.messages : result.responseMessages;
    const history = [{ role: "user" as const, content: "Go." }, ...replies];
    await generateText({
      model: next.model,
      messages: [...history, { role: "user", content: "Sure?" }],
      tools: { clock },
    });
    const texts = next.adapter.calls[0]?.request.messages.map(({ role, content }) => [
      role,
      typeof content === "string",
    ]);
    expect(texts?.map(([role]) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "tool",
      "assistant",
      "tool",
      "assistant",
      "user",
    ]);
  });

  test("gives calls unique ids if a provider repeats them, so that each result belongs to its call", async () => {
    const call = (name: string, args: JsonObject): FakeScript => [{ type: "tool_call", name, arguments: args }];
    const { model, adapter } = scripted([
      call("weather", { city: "Oslo" }),
      call("weather", { city: "Rome" }),
      call("clock", { zone: "CET" }),
      call("weather", { city: "Bern" }),
      [{ type: "text", text: "Done." }],
    ]);
    const { steps } = await generateText({ model, prompt: "Go.", tools: { clock }, stopWhen: stepCountIs(5) });
    const results = steps.flatMap(({ toolResults }) =>
      toolResults.map(({ toolCallId, input, output }) => [toolCallId, input, output]),
    );
    expect(results).toEqual([
      ["call_0", { city: "Oslo" }, "Sun in Oslo."],
      ["call_0#2", { city: "Rome" }, "Sun in Rome."],
      ["call_0#3", { zone: "CET" }, "12:00 CET"],
      ["call_0#4", { city: "Bern" }, "Sun in Bern."],
    ]);
    const sent = adapter.calls.at(-1)?.request.messages.flatMap((message) => {
      if (message.role === "tool") return [`${message.toolCallId} = ${String(message.content)}`];
      return message.role === "assistant"
        ? message.toolCalls.map(({ id, arguments: args }) => `${id} ${JSON.stringify(args)}`)
        : [];
    });
    expect(sent).toEqual([
      'call_0 {"city":"Oslo"}',
      "call_0 = Sun in Oslo.",
      'call_0#2 {"city":"Rome"}',
      "call_0#2 = Sun in Rome.",
      'call_0#3 {"zone":"CET"}',
      "call_0#3 = 12:00 CET",
      'call_0 {"city":"Bern"}',
      "call_0 = Sun in Bern.",
    ]);
    adapter.assertUsedUp();
  });

  test("passes a schema of the output to the engine", async () => {
    const { model, adapter } = scripted([[{ type: "text", text: '{"city":"Oslo"}' }]]);
    const schema = z.object({ city: z.string() });
    const { output } = await generateText({ model, prompt: "Where?", output: Output.object({ schema }) });
    expect(output).toEqual({ city: "Oslo" });
    expect(adapter.calls[0]?.request.responseFormat).toMatchObject({ type: "json_schema", schema: { type: "object" } });
  });

  test("rejects with the failure of the turn", async () => {
    const { model } = scripted([[{ type: "error", reason: "invalid_request", message: "no such model" }]]);
    await expect(generateText({ model, prompt: "Hi!", maxRetries: 0 })).rejects.toThrow(/no such model/);
  });

  test("rejects if a tool of the engine waits for an approval", async () => {
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => 1,
    });
    const { model } = scripted([[{ type: "tool_call", name: "pay" }]], { tools: [pay] });
    await expect(generateText({ model, prompt: "Pay.", maxRetries: 0 })).rejects.toThrow(
      /the tool "pay" waits for a person \(approval\)/,
    );
  });

  test("refuses a tool of the caller with the name of a tool of the engine", async () => {
    const { model } = scripted([]);
    await expect(generateText({ model, prompt: "Hi!", tools: { weather: clock }, maxRetries: 0 })).rejects.toThrow(
      /the engine has a tool "weather"/,
    );
  });

  test("passes images as bytes and as URLs without fetching them", async () => {
    const { model, adapter } = scripted([[{ type: "text", text: "A cat." }]]);
    const url = new URL("https://example.invalid/cat.png");
    const content = [
      { type: "text" as const, text: "What is this?" },
      { type: "image" as const, image: url, mediaType: "image/png" },
      { type: "file" as const, data: new Uint8Array([1, 2]), mediaType: "application/pdf", filename: "a.pdf" },
    ];
    await generateText({ model, messages: [{ role: "user", content }] });
    expect(adapter.calls[0]?.request.messages[0]?.content).toMatchObject([
      { type: "text" },
      { type: "image", image: { source: { type: "url", url: url.href }, mimeType: "image/png" } },
      { type: "file", source: { type: "base64", data: "AQI=" }, mimeType: "application/pdf", name: "a.pdf" },
    ]);
  });
});

describe("streamText", () => {
  test("streams text, and calls and results of the engine's tools", async () => {
    const { model } = scripted([
      [
        { type: "text", text: "Let me " },
        { type: "text", text: "look." },
        { type: "tool_call", id: "a", name: "weather", arguments: { city: "Oslo" } },
      ],
      [{ type: "text", text: " It is sunny." }],
    ]);
    const result = streamText({ model, prompt: "Weather?" });
    const chunks: string[] = [];
    for await (const chunk of result.textStream) chunks.push(chunk);
    expect(chunks).toEqual(["Let me ", "look.", " It is sunny."]);
    expect(await result.finishReason).toBe("stop");
    expect(await result.toolCalls).toMatchObject([
      { toolName: "weather", input: { city: "Oslo" }, providerExecuted: true },
    ]);
    expect(await result.toolResults).toMatchObject([{ toolName: "weather", output: "Sun in Oslo." }]);
  });

  test("continues after a retry, unless the stream has shown content of the failed attempt", async () => {
    const retry = { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 1, jitterMs: 0, afterOutput: true };
    const limited: FakeScript = [{ type: "error", reason: "rate_limited" }];
    const cut: FakeScript = [
      { type: "text", text: "Hel" },
      { type: "stream_error", reason: "interrupted" },
    ];
    const whole: FakeScript = [{ type: "text", text: "Hello." }];
    const before = streamText({ model: scripted([limited, whole], { retry }).model, prompt: "Hi!" });
    expect(await before.text).toBe("Hello.");
    expect((await generateText({ model: scripted([cut, whole], { retry }).model, prompt: "Hi!" })).text).toBe("Hello.");
    const errors: unknown[] = [];
    const after = streamText({
      model: scripted([cut, whole], { retry }).model,
      prompt: "Hi!",
      onError: ({ error }) => void errors.push(error),
    });
    await after.consumeStream();
    expect(errors.map(String)).toEqual([expect.stringMatching(/failed after a part of the reply was sent/)]);
  });

  test("cancels the turn when the caller aborts or leaves the stream", async () => {
    const slow: FakeScript = [
      { type: "text", text: "Hel" },
      { type: "delay", ms: 60_000 },
      { type: "text", text: "lo" },
    ];
    const stop = new AbortController();
    const first = scripted([slow]);
    const { stream } = await first.model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
      abortSignal: stop.signal,
    });
    const reader = stream.getReader();
    for (let part = await reader.read(); part.value?.type !== "text-delta"; part = await reader.read());
    stop.abort();
    await expect(reader.read()).rejects.toThrow(/abort/i);
    expect(first.adapter.closed).toBe(1);

    const second = scripted([slow]);
    const { stream: left } = await second.model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
    });
    const other = left.getReader();
    for (let part = await other.read(); part.value?.type !== "text-delta"; part = await other.read());
    await other.cancel();
    expect(second.adapter.closed).toBe(1);
  });
});

test("signatures of the provider behind the engine return in later calls of the AI SDK", async () => {
  const cost = { inputTokens: 20, outputTokens: 10 };
  const says: readonly (readonly Say[])[] = [
    [
      { type: "reasoning", text: "First the clock.", seal: "seal-one" },
      { type: "call", id: "call_1", name: "clock", pieces: ['{"zone":"CET"}'] },
    ],
    [
      { type: "reasoning", text: "Then the weather.", seal: "seal-two" },
      { type: "call", id: "call_2", name: "weather", pieces: ['{"city":"Oslo"}'] },
    ],
    [{ type: "text", pieces: ["Noon, sunny."] }],
  ];
  const plays = says.map((parts): Play => ({
    type: "stream",
    text: wireFormats.anthropic.write(parts, cost),
    last: "end",
  }));
  const stage = stages.stage(...plays);
  const adapter = anthropic({ baseURL: stage.url, apiKey: "key" });
  const model = aiSdkModel(engine({ adapter, model: "claude-sonnet-4-5", tools: [weather] }));
  const result = await generateText({ model, prompt: "Time and weather?", tools: { clock }, stopWhen: stepCountIs(5) });
  expect(result.text).toBe("Noon, sunny.");
  const seals = stage.requests.map(({ body }) =>
    ["seal-one", "seal-two"].filter((seal) => JSON.stringify(body).includes(seal)),
  );
  expect(seals).toEqual([[], ["seal-one"], ["seal-one", "seal-two"]]);
});

test("text that the program has changed is sent as it is, without the stored reply", async () => {
  const { model } = scripted([[{ type: "text", text: "The answer is 41." }]]);
  const { response } = await generateText({ model, prompt: "6 × 7?" });
  const edited = JSON.parse(
    JSON.stringify(response.messages).replaceAll("is 41", "is 42").replace("is 42.\\\\", "is 41.\\\\"),
  );
  const next = scripted([[{ type: "text", text: "Yes." }]]);
  await generateText({
    model: next.model,
    messages: [{ role: "user", content: "6 × 7?" }, ...edited, { role: "user", content: "Sure?" }],
  });
  expect(JSON.stringify(next.adapter.calls[0]?.request.messages[1])).toContain("is 42");
});

test("a schema of the AI SDK without a description still makes a manual tool", async () => {
  const { model, adapter } = scripted([[{ type: "tool_call", name: "look" }]]);
  const look = aiTool({
    inputSchema: jsonSchema<object>({ type: "object", properties: {} }),
    outputSchema: z.string(),
  });
  const result = await generateText({ model, prompt: "Look.", tools: { look } });
  expect(result.finishReason).toBe("tool-calls");
  expect(result.toolCalls).toMatchObject([{ toolName: "look" }]);
  expect(adapter.calls[0]?.request.tools.map(({ name }) => name)).toEqual(["weather", "look"]);
});
