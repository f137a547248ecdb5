import type { JsonObject } from "everturn";

import { chat, engine, fake, stream, tool, user } from "everturn";
import { describe, expect, it } from "vitest";

import { offline } from "./offline-model.ts";
import { offlineTools } from "./offline-tools.ts";
import { sampleOf } from "./schema-sample.ts";

const adapter = offline({ paceMs: 0 });
const assistant = engine({ adapter, model: "offline:demo", tools: offlineTools({ paceMs: 0 }) });

const answer = async (said: string) => (await chat(assistant, said)).finalResponse?.outputText ?? "";

describe("the offline model", () => {
  it("echoes the message, describes itself, and explains how to use a real model", async () => {
    const reply = await answer("good morning");
    expect(reply).toContain("You said: good morning");
    expect(reply).toContain("a script, not a language model");
    expect(reply).toContain("ANTHROPIC_API_KEY");
  });

  it("streams word by word and gives equal replies to equal messages", async () => {
    const pieces: string[] = [];
    for await (const event of stream(assistant, "good morning"))
      if (event.type === "text_delta") pieces.push(event.delta);
    expect(pieces.length).toBeGreaterThan(20);
    expect(pieces.join("")).toBe(await answer("good morning"));
  });

  it("replies with an example of Markdown", async () => {
    expect(await answer("some markdown, please")).toMatch(/^# Markdown\n[\s\S]*```ts\n/);
  });

  it("calls the named tools in parallel, with the arguments that follow each name", async () => {
    const { thread } = await chat(assistant, 'use countdown {"from": 2} and the CLOCK');
    const [, called] = thread.messages;
    expect(
      called?.role === "assistant" ? called.toolCalls.map(({ name, arguments: args }) => [name, args]) : [],
    ).toEqual([
      ["countdown", { from: 2 }],
      ["clock", {}],
    ]);
    expect(thread.messages.at(-1)?.content).toMatch(
      /^The 2 tools returned:\n\n- `countdown`: counted down from 2\n- `clock`: \d{4}-/,
    );
  });

  it("generates the required arguments of a user's tool", async () => {
    const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const weather = tool({
      name: "weather",
      description: "",
      schema,
      handler: ({ city }) => `sun over ${String(city)}`,
    });
    const { finalResponse } = await chat(engine({ adapter, model: "offline:demo", tools: [weather] }), "weather?");
    expect(finalResponse?.outputText).toContain("sun over text");
  });

  it("stops for a tool that asks the user and for one that needs approval", async () => {
    expect((await chat(assistant, "survey")).haltedReason).toBe("ask_user");
    expect((await chat(assistant, "launch")).haltedReason).toBe("approval");
  });

  it("echoes the next user message after a tool result", async () => {
    const { thread } = await chat(assistant, "clock");
    const more = await chat(assistant, [...thread.messages, user("thanks")]);
    expect(more.finalResponse?.outputText).toBe("You said: thanks");
  });

  it("fails on request", async () => {
    expect((await chat(assistant, "now fail")).haltedReason).toBe("error");
  });

  it("produces structured output", async () => {
    const schema = { type: "object", properties: { sky: { enum: ["clear", "cloudy"] } }, required: ["sky"] };
    expect((await chat(engine({ adapter, model: "offline:demo" }), "The sky?", { output: schema })).output).toEqual({
      sky: "clear",
    });
  });
});

describe("sampleOf returns a valid value for", () => {
  it.each<JsonObject>([
    { type: "string", minLength: 9, maxLength: 12 },
    { type: "string", maxLength: 2 },
    { type: "integer", exclusiveMinimum: 4 },
    { type: "number", maximum: -3 },
    { type: "array", minItems: 3, items: { const: "x" } },
    { type: ["null", "string"] },
    { anyOf: [{ type: "boolean" }, { type: "string" }] },
    {
      $ref: "#/$defs/a",
      $defs: { a: { type: "object", properties: { b: { type: "string", format: "email" } }, required: ["b"] } },
    },
    { allOf: [{ type: "object" }, { properties: { n: { type: "integer", minimum: 2 } }, required: ["n"] }] },
  ])("%j", async (schema) => {
    const sample = sampleOf(schema);
    const model = fake({ script: [{ type: "text", text: JSON.stringify(sample) }] });
    const result = await chat(engine({ adapter: model, model: "fake:m" }), "hi", { output: schema, repair: 0 });
    expect(result).toMatchObject({ haltedReason: "completed", output: sample });
  });

  it.each([
    { type: "array", minItems: 200_000_000, items: { type: "string" } },
    { type: "array", minItems: 1e9, items: { type: "array", minItems: 1e9, items: {} } },
    { $ref: "#/$defs/a", $defs: { a: { type: "array", minItems: 50, items: { $ref: "#/$defs/a" } } } },
  ])("a schema that demands too much, in part: %j", (schema) => {
    expect(JSON.stringify(sampleOf(schema)).length).toBeLessThan(100_000);
  });

  it("an infinitely recursive schema: null at the depth limit", () => {
    const schema = { $ref: "#" };
    expect(sampleOf(schema)).toBeNull();
  });
});
