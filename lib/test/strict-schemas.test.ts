// Optional fields with OpenAI's strict mode, over HTTP: the schema that is sent has nullable fields, and `null` in one
// of them is an absent field for the program. The text of the reply keeps it.

import type { Json } from "everturn";

import { chat, engine, openai, openaiCompatible, partialOutput, stream, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { violations } from "everturn/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";

import { LoopbackStages, wireFormats } from "./loopback-providers.ts";

const stages = new LoopbackStages();
beforeAll(() => stages.listen());
afterAll(() => stages.close());

const Weather = z.object({
  city: z.string(),
  unit: z.string().optional(),
  note: z.string().nullable(),
  days: z.array(z.object({ rain: z.number().optional(), wind: z.number().nullish() })),
  size: z.number().default(7),
});
const written =
  '{"city":"Rome","unit":null,"note":null,"days":[{"rain":null,"wind":null},{"rain":2,"wind":1}],"size":null}';
const restored = { city: "Rome", note: null, days: [{ wind: null }, { rain: 2, wind: 1 }] };
const cost = { inputTokens: 1, outputTokens: 1 };

const apis = [
  {
    name: "responses",
    rulesOf: "openai-responses",
    write: wireFormats.responses.write,
    adapterOf: (url: string) => openai({ apiKey: "k", baseURL: url }),
  },
  {
    name: "chat",
    rulesOf: "openai-chat",
    write: wireFormats.chat.write,
    adapterOf: (url: string) => openaiCompatible({ apiKey: "k", baseURL: url, name: "openai" }),
  },
] as const;

describe.each(apis)("structured output ($name)", ({ write, adapterOf, rulesOf }) => {
  function said(pieces: readonly string[]) {
    const text = write([{ type: "text", pieces }], cost);
    const stage = stages.stage({ type: "stream", text, last: "end" });
    return { stage, model: engine({ adapter: adapterOf(stage.url), model: "gpt-5.4" }) };
  }

  test("has no field for a null that the adaptation made possible; the text is unchanged", async () => {
    const { model, stage } = said([written]);
    const result = await chat(model, "The weather?", { output: Weather });
    expect(result.metadata.error ?? null).toBe(null);
    expect(result.output).toEqual({ ...restored, size: 7 });
    expect(result.finalResponse?.output?.value).toEqual(restored);
    expect(result.finalResponse?.outputText).toBe(written);
    expect(JSON.stringify(stage.requests[0]?.body)).toContain('"unit":{"type":["string","null"]}');
  });

  test("is checked and repaired as before", async () => {
    const { model, stage } = said([written.replace('"Rome"', "null")]);
    const result = await chat(model, "The weather?", { output: Weather, repair: 1 });
    expect(result.output).toBe(null);
    expect(result.finalResponse?.error).toMatchObject({ reason: "invalid_output" });
    expect(stage.requests.length).toBe(2);
  });

  test("is restored while it is received", async () => {
    const { model } = said([written.slice(0, 30), written.slice(30, 60), written.slice(60)]);
    const seen: Json[] = [];
    for await (const value of partialOutput(stream(model, "The weather?", { output: Weather }))) {
      seen.push(structuredClone(value));
    }
    expect(seen.at(-1)).toEqual(restored);
    expect(seen.every((value) => !JSON.stringify(value).includes('"unit"'))).toBe(true);
  });

  const Sight = z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("sun"), hours: z.number().optional() }),
    z.object({ kind: z.literal("rain"), mm: z.number() }),
  ]);
  test.each<[string, z.ZodType, string, Json]>([
    [
      "a list",
      z.array(Sight),
      '{"value":[{"kind":"sun","hours":null},{"kind":"rain","mm":2}]}',
      [{ kind: "sun" }, { kind: "rain", mm: 2 }],
    ],
    ["a union", Sight, '{"value":{"kind":"sun","hours":null}}', { kind: "sun" }],
    ["a text", z.string(), '{"value":"Sunny."}', "Sunny."],
    ["a list of records", z.array(z.record(z.string(), z.number())), '{"value":[{"mm":2}]}', [{ mm: 2 }]],
  ])("may be %s, which the API takes as a field of an object", async (_, output, text, value) => {
    const pieces = [text.slice(0, 4), text.slice(4, 12), text.slice(12)];
    const { model, stage } = said(pieces);
    const result = await chat(model, "The weather?", { output });
    expect(result.output).toEqual(value);
    expect(result.finalResponse?.outputText).toBe(text);
    expect(violations(rulesOf, { body: stage.requests[0]?.body ?? {} })).toEqual([]);
    const seen: Json[] = [];
    for await (const partial of partialOutput(stream(said(pieces).model, "The weather?", { output }))) {
      seen.push(structuredClone(partial));
    }
    expect(seen.at(-1)).toEqual(value);
    expect(
      seen.every((partial) => typeof partial === typeof value && !JSON.stringify(partial).includes('"value"')),
    ).toBe(true);
    const sessions = runtime({ host: memoryStorage(), engines: { default: said(pieces).model } });
    const turn = await sessions.start("The weather?", { output });
    expect((await turn.result).output).toEqual(value);
  });

  test("is the same in a durable turn", async () => {
    const { model } = said([written]);
    const sessions = runtime({ host: memoryStorage(), engines: { default: model } });
    const turn = await sessions.start("The weather?", { output: Weather });
    const { output } = await turn.result;
    expect(output).toEqual({ ...restored, size: 7 });
  });

  test("of a response format without a check is left to the caller", async () => {
    const { model } = said([written]);
    const schema = { type: "object", properties: { unit: { type: "string" } } };
    const responseFormat = { type: "json_schema", name: "w", schema, strict: true } as const;
    const result = await chat(model, "The weather?", { responseFormat });
    expect(result.finalResponse?.output).toBe(null);
    expect(result.finalResponse?.outputText).toBe(written);
  });
});

describe.each(apis)("arguments of a strict tool ($name)", ({ write, adapterOf }) => {
  test.each([{ strict: true }, { strict: false }])("$strict", async ({ strict }) => {
    const inputs: unknown[] = [];
    const look = tool({
      name: "look",
      description: "Looks.",
      schema: z.object({ city: z.string(), unit: z.string().optional() }),
      metadata: { strict },
      handler: (input) => {
        inputs.push(input);
        return "Sunny.";
      },
    });
    const pieces = ['{"city":"Rome",', '"unit":null}'];
    const stage = stages.stage(
      { type: "stream", text: write([{ type: "call", id: "c1", name: "look", pieces }], cost), last: "end" },
      { type: "stream", text: write([{ type: "text", pieces: ["Done."] }], cost), last: "end" },
    );
    const result = await chat(engine({ adapter: adapterOf(stage.url), model: "gpt-5.4", tools: [look] }), "Look.");
    // Without strict mode the schema has no nullable field: `null` is an invalid argument, which the model reads.
    expect(inputs).toEqual(strict ? [{ city: "Rome" }] : []);
    const call = result.thread.messages.flatMap((message) =>
      message.role === "assistant" ? message.toolCalls : [],
    )[0];
    expect(call?.arguments).toEqual(strict ? { city: "Rome" } : { city: "Rome", unit: null });
    expect(call?.rawArguments).toBe(pieces.join(""));
    // The history that is sent back has the arguments as the model wrote them.
    expect(JSON.stringify(stage.requests[1]?.body)).toContain(JSON.stringify(pieces.join("")));
  });
});
