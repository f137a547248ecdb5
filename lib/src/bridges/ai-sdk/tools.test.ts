// Tests of AI SDK tools as tools of an engine, with the functions of the package `ai` (versions 6 and 7).

import type { JsonObject } from "everturn";

import { anthropic as anthropicProvider } from "@ai-sdk/anthropic";
import { openai as openaiProvider } from "@ai-sdk/openai";
import { dynamicTool, jsonSchema, tool, zodSchema } from "ai";
import { chat, engine, fake, stream } from "everturn";
import { aiSdkTools } from "everturn/ai-sdk";
import { describe, expect, test } from "vitest";
import { z } from "zod";

type Converted = ReturnType<typeof aiSdkTools>;

/** Runs one call of a tool and returns the events of the run. */
async function callOf({ tools }: Converted, name: string, args: JsonObject) {
  const adapter = fake({
    scripts: [[{ type: "tool_call", name, arguments: args }], [{ type: "text", text: "Done." }]],
  });
  const events = stream(engine({ adapter, model: "fake:m", tools }), "Go.", { context: { user: "ada" } });
  const [progress, contents]: [unknown[], unknown[]] = [[], []];
  for await (const event of events) {
    if (event.type === "tool_progress") progress.push(event.progress);
    if (event.type === "tool_result_encoded") contents.push(event.content);
  }
  return { progress, contents, request: adapter.calls[1]?.request };
}

describe("a tool with execute", () => {
  test.each([
    ["a Zod schema", z.object({ city: z.string(), days: z.number().default(3) })],
    ["zodSchema", zodSchema(z.object({ city: z.string(), days: z.number().default(3) }))],
  ])("validates its input with %s and gets defaults", async (_, inputSchema) => {
    const weather = tool({
      description: "The weather.",
      inputSchema,
      execute: async ({ city, days }) => ({ city, days, at: new Date(0) }),
    });
    const converted = aiSdkTools({ weather });
    expect(converted.tools[0]).toMatchObject({ name: "weather", description: "The weather.", replay: "never" });
    expect(converted.tools[0]?.schema).toMatchObject({ type: "object", properties: { city: { type: "string" } } });
    const good = await callOf(converted, "weather", { city: "Oslo" });
    expect(good.contents).toEqual(['{"city":"Oslo","days":3,"at":"1970-01-01T00:00:00.000Z"}']);
    const bad = await callOf(converted, "weather", { city: 5 });
    expect(String(bad.contents[0])).toMatch(/city|string/);
  });

  test("validates with jsonSchema, also without a validate function", async () => {
    const inputSchema = jsonSchema<{ n: number }>({
      type: "object",
      properties: { n: { type: "number" } },
      required: ["n"],
    });
    const double = tool({ inputSchema, execute: ({ n }) => n * 2 });
    const converted = aiSdkTools({ double });
    expect((await callOf(converted, "double", { n: 4 })).contents).toEqual(["8"]);
    expect(String((await callOf(converted, "double", {})).contents[0])).toContain("error");
  });

  test("gets the options of the AI SDK, the context of the caller and the idempotency key", async () => {
    const seen: object[] = [];
    const look = dynamicTool({
      description: "Looks.",
      inputSchema: jsonSchema({ type: "object" }),
      execute: async (_, options) => {
        seen.push(options);
        return null;
      },
    });
    await callOf(aiSdkTools({ look }), "look", {});
    expect(seen).toEqual([
      {
        toolCallId: "call_0",
        messages: [],
        abortSignal: expect.any(AbortSignal),
        context: { user: "ada" },
        experimental_context: { user: "ada" },
        idempotencyKey: expect.any(String),
      },
    ]);
  });

  test("reports the values of an async generator as progress and the last as the result", async () => {
    const count = tool({
      inputSchema: z.object({}),
      async *execute() {
        yield "one";
        yield "two";
        yield "three";
      },
    });
    const { progress, contents } = await callOf(aiSdkTools({ count }), "count", {});
    expect(progress).toEqual(["one", "two"]);
    expect(contents).toEqual(["three"]);
  });

  test("shows the model what toModelOutput returns, with the input, also asynchronously", async () => {
    const draw = tool({
      inputSchema: z.object({ what: z.string() }),
      execute: async () => ({ png: "aGk=" }),
      toModelOutput: async ({ input, output }) => ({
        type: "content",
        value: [
          { type: "text", text: `A picture of ${input.what}.` },
          { type: "image-data", data: output.png, mediaType: "image/png" },
        ],
      }),
    });
    const { contents } = await callOf(aiSdkTools({ draw }), "draw", { what: "a cat" });
    expect(contents).toMatchObject([
      [
        { type: "text", text: "A picture of a cat." },
        { type: "image", image: { source: { type: "base64", data: "aGk=" }, mimeType: "image/png" } },
      ],
    ]);
  });

  test("reports an error that it throws to the model", async () => {
    const broken = tool({
      inputSchema: z.object({}),
      execute: async (): Promise<string> => {
        throw new Error("no connection");
      },
    });
    expect((await callOf(aiSdkTools({ broken }), "broken", {})).contents).toEqual(['{"error":"no connection"}']);
  });
});

test("needsApproval stops the turn, as a flag or as a function of the input", async () => {
  const pay = tool({
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: async ({ amount }) => amount > 10,
    execute: async () => "paid",
  });
  const { tools } = aiSdkTools({ pay });
  const run = (amount: number) => {
    const call = { type: "tool_call", name: "pay", arguments: { amount } } as const;
    const adapter = fake({ scripts: [[call], [{ type: "text", text: "Done." }]] });
    return chat(engine({ adapter, model: "fake:m", tools }), "Pay.");
  };
  expect((await run(5)).haltedReason).toBe("completed");
  expect((await run(50)).pendingToolCalls).toMatchObject([{ reason: "approval" }]);
});

test("a tool without execute is manual, and replay policies are set by name", () => {
  const confirm = tool({ description: "Asks.", inputSchema: z.object({}), outputSchema: z.string() });
  const look = tool({ inputSchema: z.object({}), execute: async () => "seen" });
  const { tools } = aiSdkTools({ confirm, look }, { replay: { look: "safe" } });
  expect(tools).toMatchObject([
    { name: "confirm", manual: true, replay: "never" },
    { name: "look", manual: false, replay: "safe" },
  ]);
});

test("tools of a provider become provider tools, and those with execute tools of the program", () => {
  const { tools, providerTools } = aiSdkTools({
    search: openaiProvider.tools.webSearch({ searchContextSize: "low" }),
    bash: anthropicProvider.tools.bash_20250124({ execute: async ({ command }) => `ran ${String(command)}` }),
  });
  expect(providerTools).toEqual([{ provider: "openai", name: "web_search", options: { searchContextSize: "low" } }]);
  expect(tools).toMatchObject([
    { name: "bash", manual: false, providerTool: { provider: "anthropic", name: "bash_20250124" } },
  ]);
});

test("a schema that is loaded later is refused with what to do", () => {
  const late = { inputSchema: { jsonSchema: Promise.resolve({ type: "object" }) } };
  expect(() => aiSdkTools({ late })).toThrow(/tool "late": the JSON Schema of the input is not available at once/);
});
