import type { WireContext } from "../codec.ts";
import type { AssistantMessage, Json, JsonObject, ModelRequest } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import {
  AdapterError,
  assistant,
  filePart,
  imageFromFile,
  imagePart,
  orThrow,
  parse,
  toolResult,
  user,
} from "everturn";
import { request, Collector, isEvent, toolCall } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { noQuirks } from "../codec.ts";
import { frameReader } from "../sse.ts";
import { PartialArguments } from "./arguments.ts";
import { geminiGenerateContent } from "./codec.ts";

const context: WireContext = {
  route: {
    provider: "gemini",
    endpoint: "https://generativelanguage.googleapis.com/v1beta",
    model: "gemini-3-pro",
  },
  rawChunks: false,
  quirks: noQuirks,
};
const root = join(import.meta.dirname, "../../../../../fixtures/wire/gemini");

type Case = {
  readonly name: string;
  readonly request: ModelRequest | null;
  readonly body: Json;
  readonly stream: string | null;
  readonly reply: Json;
  readonly events: Json;
};

function load(name: string): Case {
  const text = (file: string): string | null => {
    const path = join(root, name, file);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  };
  const json = (file: string): Json => {
    const value = text(file);
    return value === null ? null : JSON.parse(value);
  };
  const requestCases = json("request.json");
  return {
    name,
    request: requestCases === null ? null : orThrow(parse("request", requestCases)),
    body: json("body.json"),
    stream: text("stream.txt"),
    reply: json("reply.json"),
    events: json("events.json"),
  };
}

const cases = readdirSync(root)
  .toSorted()
  .map((name) => load(name));
const requestCases = cases.flatMap(({ name, request, body }) => (request === null ? [] : [{ name, request, body }]));
const streamCases = cases.flatMap(({ name, stream, events }) => (stream === null ? [] : [{ name, stream, events }]));
const replyCases = cases.flatMap(({ name, stream, reply }) =>
  stream === null || reply === null ? [] : [{ name, stream, reply }],
);

function decode(pieces: readonly string[], to: WireContext = context): readonly ModelEvent[] {
  const reader = frameReader();
  const decoder = geminiGenerateContent.decoder(to);
  const events = pieces.flatMap((piece) => decoder.push(reader.push(piece)));
  return [...events, ...decoder.push(reader.end()), ...decoder.end()];
}

const sse = (...chunks: readonly Json[]): string =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");

const replyChunk = (parts: readonly Json[], rest: JsonObject = {}): JsonObject => ({
  candidates: [{ content: { role: "model", parts }, ...rest }],
});

function fold(events: readonly ModelEvent[]) {
  const collector = new Collector();
  for (const event of events) collector.add(event);
  return collector.reply();
}

function terminals(events: readonly ModelEvent[]): number {
  return events.filter(({ type }) => type === "message_completed" || type === "error").length;
}

/** The message of the reply after a JSON round trip and a parse, as storage returns it. */
function stored(events: readonly ModelEvent[]): AssistantMessage {
  const { message } = fold(events);
  if (message === null) throw new Error("there is no message");
  const value = orThrow(parse("message", JSON.parse(JSON.stringify(message))));
  if (value.role !== "assistant") throw new Error("not a reply");
  return value;
}

describe("[allm 113] [allm 115] encoding", () => {
  test.each(requestCases)("$name", ({ request, body }) => {
    const { path, body: sent, omissions, headers } = geminiGenerateContent.encode(request, context);
    const omitted = omissions.map(({ path, reason }) => ({ path, reason }));
    expect({ body: sent, omissions: omitted }).toEqual(body);
    expect(path).toBe("/models/gemini-3-pro:streamGenerateContent?alt=sse");
    expect(headers).toEqual({});
  });

  test.each(requestCases)("$name: encoding again gives the same body, also after another route", ({ request }) => {
    const first = geminiGenerateContent.encode(request, context);
    geminiGenerateContent.encode(request, { ...context, route: { ...context.route, model: "gemini-2.5-flash" } });
    expect(geminiGenerateContent.encode(request, context)).toEqual(first);
  });

  test("a message is encoded once", () => {
    const messages = [user("a"), assistant("b")];
    const parts = (body: JsonObject): Json => {
      const { contents } = body;
      return Array.isArray(contents) ? contents[0].parts[0] : null;
    };
    const first = geminiGenerateContent.encode(request(messages), context);
    const second = geminiGenerateContent.encode(
      { ...request(messages), messages: [...request(messages).messages] },
      context,
    );
    expect(parts(second.body)).toEqual(parts(first.body));
    const keptRequest = request(messages);
    expect(parts(geminiGenerateContent.encode(keptRequest, context).body)).toBe(
      parts(geminiGenerateContent.encode({ ...keptRequest, seed: 1 }, context).body),
    );
  });

  test("refuses files on disk, data without a MIME type and files of other providers", () => {
    const sources = [
      [imagePart(imageFromFile("a.png")), "unsupported_feature"],
      [filePart({ type: "base64", data: "AA==" }), "invalid_request"],
      [filePart({ type: "provider_file", provider: "openai", id: "file-1" }), "unsupported_feature"],
    ] as const;
    for (const [part, reason] of sources) {
      const send = () => geminiGenerateContent.encode(request([user([part])]), context);
      expect(send).toThrow(AdapterError);
      expect(send).toThrow(expect.objectContaining({ reason }));
    }
  });

  test("models before Gemini 3 get a thinking budget, and media after the function response", () => {
    const old = { ...context, route: { ...context.route, model: "gemini-2.5-flash" } };
    const call = toolCall({ id: "x", name: "look", arguments: {} });
    const picture = imagePart({ source: { type: "base64", data: "AA==" }, mimeType: "image/png" });
    const { body, omissions } = geminiGenerateContent.encode(
      request([user("go"), assistant("", { toolCalls: [call] }), toolResult("x", [picture])], {
        reasoning: { effort: "high", budgetTokens: 512, summary: null },
      }),
      old,
    );
    expect(body).toEqual({
      contents: [
        { role: "user", parts: [{ text: "go" }] },
        { role: "model", parts: [{ functionCall: { name: "look", args: {} } }] },
        {
          role: "user",
          parts: [
            { functionResponse: { name: "look", response: { output: "" } } },
            { inlineData: { mimeType: "image/png", data: "AA==" } },
          ],
        },
      ],
      generationConfig: { thinkingConfig: { thinkingBudget: 512 } },
    });
    expect(omissions).toMatchObject([{ path: "reasoning.effort", reason: "unsupported" }]);
  });

  test("applies quirks: no schema, removed fields", () => {
    const requestCases = request([user("a")], {
      seed: 1,
      temperature: 1,
      responseFormat: { type: "json_schema", name: "n", schema: {}, strict: true },
    });
    const { body, omissions } = geminiGenerateContent.encode(requestCases, {
      ...context,
      quirks: { jsonSchema: false, without: ["seed"] },
    });
    expect(body["generationConfig"]).toEqual({ temperature: 1, responseMimeType: "application/json" });
    expect(omissions).toMatchObject([
      { path: "responseFormat.schema", reason: "unsupported" },
      { path: "seed", reason: "unsupported" },
    ]);
  });

  test("a model with a collection keeps its path", () => {
    const to = (model: string) =>
      geminiGenerateContent.encode(request([user("a")]), { ...context, route: { ...context.route, model } }).path;
    expect(to("tunedModels/my model")).toBe("/tunedModels/my%20model:streamGenerateContent?alt=sse");
    expect(to("models/gemini-3-pro")).toBe("/models/gemini-3-pro:streamGenerateContent?alt=sse");
  });
});

describe("[allm 114] decoding", () => {
  test.each(streamCases)("$name", ({ stream, events }) => {
    expect(JSON.parse(JSON.stringify(decode([stream])))).toEqual(events);
  });

  test.each(streamCases)("W2 $name: cuts between chunks change no event", ({ stream }) => {
    const expectedReply = decode([stream]);
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length), { maxLength: 30 }), (cuts) => {
        const at = [0, ...cuts.toSorted((a, b) => a - b), stream.length];
        const pieces = at.slice(1).map((end, index) => stream.slice(at[index], end));
        expect(decode(pieces)).toEqual(expectedReply);
      }),
      { numRuns: 60 },
    );
  });

  test.each(replyCases)("W3 $name: a whole reply gives the same reply as its stream", ({ stream, reply }) => {
    const expectedReply = geminiGenerateContent.decodeReply(reply, context);
    expect(fold(expectedReply)).toEqual(fold(decode([stream])));
    expect(expectedReply.filter(({ type }) => type.endsWith("_delta"))).toEqual([]);
    expect(terminals(expectedReply)).toBe(1);
  });

  test.each(streamCases)("E1 $name: one terminal event, and only usage after it", ({ stream }) => {
    const events = decode([stream]);
    expect(terminals(events)).toBe(1);
    const end = events.findIndex(({ type }) => type === "message_completed" || type === "error");
    expect(events.slice(end + 1).every(({ type }) => type === "usage")).toBe(true);
  });

  test("W1: no frame makes the decoder throw, and there is one terminal event", () => {
    const part = fc.oneof(
      fc.jsonValue(),
      fc.record(
        { text: fc.jsonValue(), thought: fc.jsonValue(), thoughtSignature: fc.jsonValue() },
        { requiredKeys: [] },
      ),
      fc.record({
        functionCall: fc.record(
          {
            name: fc.constantFrom("a", "", 1),
            id: fc.constantFrom("x", "call_0", null),
            args: fc.jsonValue(),
            willContinue: fc.boolean(),
            partialArgs: fc.array(
              fc.record(
                {
                  jsonPath: fc.constantFrom(
                    "$.a",
                    "$.a.b",
                    "$.a[0]",
                    "$.a[7]",
                    "$",
                    "x",
                    "$['__proto__'].x",
                    "$.a[0][0]",
                  ),
                  stringValue: fc.string(),
                  numberValue: fc.double(),
                  willContinue: fc.boolean(),
                },
                { requiredKeys: ["jsonPath"] },
              ),
            ),
          },
          { requiredKeys: [] },
        ),
      }),
    );
    const chunk = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          candidates: fc.array(
            fc.record(
              { content: fc.record({ parts: fc.array(part) }), finishReason: fc.constantFrom("STOP", "NEW", 3) },
              { requiredKeys: ["content"] },
            ),
          ),
          usageMetadata: fc.jsonValue(),
          promptFeedback: fc.jsonValue(),
        },
        { requiredKeys: [] },
      ),
    );
    fc.assert(
      fc.property(fc.array(chunk), (chunks) => {
        const given: readonly Json[] = JSON.parse(JSON.stringify(chunks));
        expect(terminals(decode([sse(...given)]))).toBe(1);
        expect(terminals(geminiGenerateContent.decodeReply(given, context))).toBe(1);
      }),
      { numRuns: 300 },
    );
  });

  test("a raw chunk comes before the events that are read from it", () => {
    const chunk = replyChunk([{ text: "a" }], { finishReason: "STOP" });
    const events = decode([sse(chunk)], { ...context, rawChunks: true });
    expect(events[0]).toEqual({ type: "raw_chunk", chunk });
    expect(terminals(events)).toBe(1);
  });

  test("a chunk that is nested too deep ends the stream as malformed", () => {
    const deep: Json = JSON.parse(`${"[".repeat(500)}${"]".repeat(500)}`);
    expect(decode([sse({ candidates: deep })])).toMatchObject([
      { type: "error", error: { type: "stream_error", reason: "malformed_event" } },
    ]);
  });

  test("missing call ids are numbered, and repeated ids are made unique", () => {
    const call = (id: string | null) => ({ functionCall: id === null ? { name: "a" } : { name: "a", id } });
    const events = geminiGenerateContent.decodeReply(
      replyChunk([call(null), call(null), call("call_0"), call("call_0")], { finishReason: "STOP" }),
      context,
    );
    const { toolCalls, finishReason } = fold(events);
    expect(new Set(toolCalls.map(({ id }) => id)).size).toBe(4);
    expect(toolCalls.slice(0, 2).map(({ id }) => id)).toEqual(["call_0", "call_1"]);
    expect(toolCalls.map(({ provider }) => provider?.data ?? null)).toEqual([
      null,
      null,
      { id: "call_0" },
      { id: "call_0" },
    ]);
    expect(finishReason).toBe("tool_calls");
  });

  test("a second signature starts a new text part", () => {
    const { message } = fold(
      geminiGenerateContent.decodeReply(
        replyChunk([{ text: "a", thoughtSignature: "1" }, { text: "b" }, { text: "c", thoughtSignature: "2" }], {
          finishReason: "STOP",
        }),
        context,
      ),
    );
    expect(message?.content).toMatchObject([
      { text: "ab", provider: { data: { thoughtSignature: "1" } } },
      { text: "c", provider: { data: { thoughtSignature: "2" } } },
    ]);
  });

  test("a whole reply without candidates is malformed; without a finishReason it is complete", () => {
    expect(geminiGenerateContent.decodeReply({ usageMetadata: {} }, context)).toMatchObject([
      { type: "error", error: { type: "adapter_error", reason: "malformed_response" } },
    ]);
    expect(fold(geminiGenerateContent.decodeReply(replyChunk([{ text: "a" }]), context))).toMatchObject({
      outputText: "a",
      finishReason: null,
    });
  });

  test.each([
    ["STOP", "stop"],
    ["MAX_TOKENS", "length"],
    ["RECITATION", "content_filter"],
    ["IMAGE_SAFETY", "content_filter"],
    ["OTHER", "other"],
    ["FINISH_REASON_UNSPECIFIED", "other"],
    ["SOMETHING_NEW", "other"],
  ])("maps the finishReason %s to %s", (word, reason) => {
    const reply = fold(geminiGenerateContent.decodeReply(replyChunk([{ text: "a" }], { finishReason: word }), context));
    expect(reply).toMatchObject({ finishReason: reason, rawFinishReason: word });
  });

  test("counts understood, opaque and unknown chunks", () => {
    const decoder = geminiGenerateContent.decoder(context);
    const frame = (chunk: Json) => ({ event: null, data: JSON.stringify(chunk) });
    decoder.push([
      frame(replyChunk([{ text: "a" }])),
      frame(replyChunk([{ toolCall: { toolType: "GOOGLE_SEARCH_WEB" } }])),
      frame({ surprise: 1 }),
    ]);
    expect(decoder.counts).toEqual({ understood: 1, opaque: 1, unknown: 1 });
  });
});

describe("partial arguments", () => {
  const piece = (jsonPath: string, stringValue: string, willContinue = false) => ({
    jsonPath,
    stringValue,
    willContinue,
  });

  test("the deltas add up to the JSON of the arguments", () => {
    const leaf = fc.oneof(fc.string({ unit: "binary" }), fc.boolean(), fc.integer(), fc.constant(null));
    const value = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        leaf,
        fc.array(tie("node"), { minLength: 1, maxLength: 3 }),
        fc.dictionary(fc.stringMatching(/^\w+$/), tie("node"), { minKeys: 1, maxKeys: 3 }),
      ),
    })).node;
    fc.assert(
      fc.property(fc.dictionary(fc.stringMatching(/^\w+$/), value, { maxKeys: 4 }), (given) => {
        const expectedReply: JsonObject = JSON.parse(JSON.stringify(given));
        const partial = new PartialArguments();
        const text = pieces(expectedReply, "$").map((one) => partial.add(one));
        const end = partial.end();
        expect(end.arguments).toEqual(expectedReply);
        expect(JSON.parse(text.join("") + end.delta)).toEqual(expectedReply);
      }),
    );
  });

  function pieces(value: Json, path: string): readonly JsonObject[] {
    if (typeof value === "string") {
      const middle = value.length >> 1;
      return [piece(path, value.slice(0, middle), true), piece(path, value.slice(middle), true), piece(path, "")];
    }
    if (typeof value === "number") return [{ jsonPath: path, numberValue: value }];
    if (typeof value === "boolean") return [{ jsonPath: path, boolValue: value }];
    if (value === null) return [{ jsonPath: path, nullValue: null }];
    if (Array.isArray(value)) return value.flatMap((one: Json, index: number) => pieces(one, `${path}[${index}]`));
    return Object.entries(value).flatMap(([key, one]) => pieces(one, `${path}['${key}']`));
  }

  test("pieces out of order give the same arguments", () => {
    const partial = new PartialArguments();
    for (const one of [piece("$.a.x", "1"), piece("$.b", "2"), piece("$.a.y", "3"), piece("$.b", "4")])
      partial.add(one);
    expect(partial.end()).toEqual({ delta: "", arguments: { a: { x: "1", y: "3" }, b: "4" }, raw: null });
  });

  test.each(["a", "$", "$.a[9]", "$.s.t", `$${".a".repeat(65)}`])(
    "the path %s makes the arguments malformed",
    (path) => {
      const call = { name: "f", partialArgs: [piece("$.s", "x"), piece(path, "x")] };
      const { toolCalls } = fold(
        geminiGenerateContent.decodeReply(replyChunk([{ functionCall: call }], { finishReason: "STOP" }), context),
      );
      expect(toolCalls).toMatchObject([{ arguments: null, rawArguments: JSON.stringify([piece(path, "x")]) }]);
    },
  );
});

describe("replay (W4)", () => {
  const code = { executableCode: { language: "PYTHON", code: "1" }, thoughtSignature: "Y29kZQ==" };
  const steps = [0, 1, 2].map((step) => [
    { text: "Thinking.", thought: true, thoughtSignature: `thought+/${step}=` },
    { text: `Step ${step}.`, thoughtSignature: `text+/${step}=` },
    code,
    { functionCall: { id: `fc-${step}`, name: "go", args: { step } }, thoughtSignature: `call+/${step}=` },
    { functionCall: { name: "go", args: { step } } },
  ]);

  function conversation(): ModelRequest {
    return request(
      steps.reduce<Parameters<typeof request>[0]>(
        (messages, parts) => {
          const reply = stored(
            decode([sse(...parts.map((part) => replyChunk([part])), replyChunk([], { finishReason: "STOP" }))]),
          );
          return [...messages, reply, ...reply.toolCalls.map(({ id }) => toolResult(id, `done ${id}`))];
        },
        [user("go")],
      ),
    );
  }

  test("replay data is sent back byte for byte over three steps and a JSON round trip", () => {
    const { body, omissions } = geminiGenerateContent.encode(conversation(), context);
    expect(omissions).toEqual([]);
    expect(body["contents"]).toEqual([
      { role: "user", parts: [{ text: "go" }] },
      ...steps.flatMap((parts, step) => [
        { role: "model", parts },
        {
          role: "user",
          parts: [
            { functionResponse: { id: `fc-${step}`, name: "go", response: { output: `done fc-${step}` } } },
            { functionResponse: { name: "go", response: { output: "done call_1" } } },
          ],
        },
      ]),
    ]);
  });

  test.each([
    ["model", { model: "gemini-3-flash" }],
    ["endpoint", { endpoint: "https://aiplatform.googleapis.com/v1" }],
    ["provider", { provider: "vertex" }],
  ])("nothing of it is sent to another %s", (_, change) => {
    const { body, omissions } = geminiGenerateContent.encode(conversation(), {
      ...context,
      route: { ...context.route, ...change },
    });
    expect(JSON.stringify(body)).not.toMatch(/\+\/|Y29kZQ|fc-\d","name|"thought":/);
    expect(body["contents"]).toMatchObject([
      {},
      {
        parts: [
          { text: "Step 0." },
          { functionCall: { name: "go", args: { step: 0 } }, thoughtSignature: "skip_thought_signature_validator" },
          { functionCall: { name: "go", args: { step: 0 } } },
        ],
      },
      {},
      {},
      {},
      {},
      {},
    ]);
    expect(omissions).toHaveLength(12);
    expect(new Set(omissions.map(({ reason }) => reason))).toEqual(new Set(["foreign_replay"]));
    expect(omissions[0]).toEqual({ path: "messages[1].content[0]", reason: "foreign_replay" });
  });
});

describe("errors", () => {
  const fail = (status: number, error: JsonObject) =>
    geminiGenerateContent.decodeError({ status, body: { error }, requestId: "r", retryAfterMs: null }, context);
  const quota = (quotaId: string, retryDelay: string) => ({
    code: 429,
    message: "You exceeded your current quota, please check your plan and billing details.",
    status: "RESOURCE_EXHAUSTED",
    details: [
      { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId }] },
      { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay },
    ],
  });

  test("a limit per minute is retryable, a limit per day is not", () => {
    expect(fail(429, quota("RequestsPerMinute", "2.5s"))).toMatchObject({
      reason: "rate_limited",
      retryable: true,
      retryAfterMs: 2500,
      code: "RESOURCE_EXHAUSTED",
    });
    expect(fail(429, quota("RequestsPerDay", "2s"))).toMatchObject({ reason: "rate_limited", retryable: false });
  });

  test("an invalid key is authentication_failed and keeps its status", () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
    expect(fail(400, { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT", details })).toMatchObject({
      reason: "authentication_failed",
      status: 400,
      retryable: false,
      requestId: "r",
    });
  });

  test.each([
    [400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "context_length_exceeded"],
    [400, "Invalid JSON payload received.", "invalid_request"],
    [403, "Permission denied.", "authentication_failed"],
    [404, "models/x is not found", "invalid_request"],
    [503, "The model is overloaded.", "provider_unavailable"],
    [504, "Deadline expired.", "timeout"],
  ])("classifies status %i with %s", (status, message, reason) => {
    expect(fail(status, { code: status, message })).toMatchObject({ reason, message: `gemini: ${message}` });
  });

  test("reads errors in a list and plain text", () => {
    const read = (body: Json) =>
      geminiGenerateContent.decodeError({ status: 500, body, requestId: null, retryAfterMs: 9 }, context);
    expect(read([{ error: { message: "oops" } }])).toMatchObject({ message: "gemini: oops", retryAfterMs: 9 });
    expect(read("gateway")).toMatchObject({ message: "gemini: gateway", reason: "provider_unavailable" });
    expect(read(null)).toMatchObject({ reason: "provider_unavailable" });
  });
});

describe("model names in the path", () => {
  const pathOf = (model: string): string =>
    geminiGenerateContent.encode(request([user("a")]), { ...context, route: { ...context.route, model } }).path;

  test.each([
    ["gemini-3-pro", "/models/gemini-3-pro"],
    ["models/x", "/models/x"],
    ["tunedModels/x", "/tunedModels/x"],
    ["publishers/google/models/x", "/publishers/google/models/x"],
    ["a b?c#d", "/models/a%20b%3Fc%23d"],
    ["..\\x", "/models/..%5Cx"],
    ["%2e%2e/x", "/%252e%252e/x"],
  ])("%s", (model, path) => {
    expect(pathOf(model)).toBe(`${path}:streamGenerateContent?alt=sse`);
  });

  test.each(["../../v1/evil", "models/../x", "./x", "..", ".", "", "/x", "models/", "a//b", "\ud800", "models/\udc00"])(
    "refuses %j",
    (model) => {
      const encoding = (): string => pathOf(model);
      expect(encoding).toThrow(AdapterError);
      expect(encoding).toThrow(expect.objectContaining({ reason: "invalid_request" }));
    },
  );
});

describe("values that no event can store", () => {
  const both = (chunk: Json, rawChunks = true): readonly (readonly ModelEvent[])[] => {
    const to = { ...context, rawChunks };
    return [
      decode([sse(chunk)], to),
      geminiGenerateContent.decodeReply(chunk, to),
      geminiGenerateContent.decodeReply([chunk], to),
    ];
  };
  const nested = (levels: number): Json => JSON.parse(`${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`);
  const fits = (events: readonly ModelEvent[]): void => {
    expect(events.filter((event) => !isEvent(event))).toEqual([]);
    expect(terminals(events)).toBe(1);
  };

  test("token counts whose sum is no safe integer are null", () => {
    const usageMetadata = { candidatesTokenCount: 9007199254740991, thoughtsTokenCount: 1, promptTokenCount: 2 };
    for (const events of both({ ...replyChunk([{ text: "a" }], { finishReason: "STOP" }), usageMetadata })) {
      fits(events);
      expect(events.find(({ type }) => type === "usage")).toMatchObject({
        usage: { inputTokens: 2, outputTokens: null, reasoningTokens: 1 },
      });
    }
  });

  test.each([1.5, 1e308, -1, 0, 99, 600, Number.MAX_SAFE_INTEGER])(
    "the error code %s is not used as a status",
    (code) => {
      for (const events of both({ error: { code, message: "no" } })) {
        fits(events);
        expect(events.find(({ type }) => type === "error")).toMatchObject({ error: { status: null } });
      }
      const answer = { status: code, body: { error: { code } }, requestId: null, retryAfterMs: null };
      expect(geminiGenerateContent.decodeError(answer, context).status).toBeNull();
    },
  );

  test.each([90, 99, 100, 127, 128, 129, 200, 20_000])(
    "stores every event of chunks nested %i levels deep",
    (levels) => {
      const deep = nested(levels);
      const end = { finishReason: "STOP" };
      const chunks: readonly Json[] = [
        deep,
        replyChunk([{ executableCode: deep }], end),
        replyChunk([{ functionCall: { name: "f", args: deep } }], end),
        replyChunk([{ functionCall: { name: "f", args: '{"a":'.repeat(levels) + "1" + "}".repeat(levels) } }], end),
        replyChunk([{ text: "a" }], { ...end, groundingMetadata: deep }),
        replyChunk([{ text: "a" }], { ...end, other: deep }),
        { ...replyChunk([{ text: "a" }], end), usageMetadata: { promptTokenCount: 1, more: deep } },
        { error: { code: 400, message: "no", details: [deep] } },
        { promptFeedback: { blockReason: "SAFETY", more: deep } },
      ];
      for (const chunk of chunks) {
        const to = { ...context, rawChunks: true };
        fits(geminiGenerateContent.decodeReply(chunk, to));
        fits(geminiGenerateContent.decodeReply([chunk], to));
        const decoder = geminiGenerateContent.decoder(to);
        // `JSON.parse` reads text that is nested this deep, but `JSON.stringify` throws a RangeError.
        if (levels < 1000) fits(decode([sse(chunk)], to));
        else
          fits([
            ...decoder.push([{ event: null, data: `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}` }]),
            ...decoder.end(),
          ]);
      }
      const answer = {
        status: 400,
        body: { error: { message: "no", details: [deep] } },
        requestId: null,
        retryAfterMs: null,
      };
      expect(geminiGenerateContent.decodeError(answer, context).status).toBe(400);
    },
  );

  test("stores every event of chunks with infinite numbers", () => {
    const texts = [
      '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"n":1e999}}}]},"finishReason":"STOP"}]}',
      '{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","avgLogprobs":-1e999}]}',
      '{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"x":1e999}}',
    ];
    for (const text of texts) {
      fits(decode([`data: ${text}\n\n`], { ...context, rawChunks: true }));
      fits(geminiGenerateContent.decodeReply(JSON.parse(text), { ...context, rawChunks: true }));
    }
  });
});
