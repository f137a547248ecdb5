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
  it("repeats what it was told, says what it is, and how to get another", async () => {
    const said = await answer("good morning");
    expect(said).toContain("You said: good morning");
    expect(said).toContain("scripted stand-in, not a language model");
    expect(said).toContain("ANTHROPIC_API_KEY");
  });

  it("says the same to the same words, in pieces of a word", async () => {
    const pieces: string[] = [];
    for await (const event of stream(assistant, "good morning"))
      if (event.type === "text_delta") pieces.push(event.delta);
    expect(pieces.length).toBeGreaterThan(20);
    expect(pieces.join("")).toBe(await answer("good morning"));
  });

  it("shows Markdown when it is asked to", async () => {
    expect(await answer("some markdown, please")).toMatch(/^# Markdown\n[\s\S]*```ts\n/);
  });

  it("calls the tools that are named, side by side, with the arguments that follow the name", async () => {
    const { thread } = await chat(assistant, 'use countdown {"from": 2} and the CLOCK');
    const [, called] = thread.messages;
    expect(
      called?.role === "assistant" ? called.toolCalls.map(({ name, arguments: args }) => [name, args]) : [],
    ).toEqual([
      ["countdown", { from: 2 }],
      ["clock", {}],
    ]);
    expect(thread.messages.at(-1)?.content).toMatch(
      /^The 2 tools answered:\n\n- `countdown`: counted down from 2\n- `clock`: \d{4}-/,
    );
  });

  it("makes up the arguments that a tool of somebody's requires", async () => {
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

  it("is stopped by a tool that asks, and by one that needs consent", async () => {
    expect((await chat(assistant, "survey")).haltedReason).toBe("ask_user");
    expect((await chat(assistant, "launch")).haltedReason).toBe("approval");
  });

  it("goes back to what the user says once they say something", async () => {
    const { thread } = await chat(assistant, "clock");
    const more = await chat(assistant, [...thread.messages, user("thanks")]);
    expect(more.finalResponse?.outputText).toBe("You said: thanks");
  });

  it("fails when it is told to", async () => {
    expect((await chat(assistant, "now fail")).haltedReason).toBe("error");
  });

  it("answers in a schema", async () => {
    const schema = { type: "object", properties: { sky: { enum: ["clear", "cloudy"] } }, required: ["sky"] };
    expect((await chat(engine({ adapter, model: "offline:demo" }), "The sky?", { output: schema })).output).toEqual({
      sky: "clear",
    });
  });
});

describe("a value made from a schema fits it", () => {
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

  it("and one that never ends is followed so far and no further", () => {
    const schema = { $ref: "#" };
    expect(sampleOf(schema)).toBeNull();
  });
});
