// Tests of the Chat Completions codec. The cases are in fixtures/wire/openai-chat.

import type { Decoder, Quirks, WireContext } from "../codec.ts";
import type { AssistantMessage, Json, JsonObject, Message, ModelRequest } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { AdapterError, assistant, filePart, imagePart, textPart, toolResult, user } from "everturn";
import { request, Collector, isEvent } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { eventTypes, normalizeContent, opaquePart, reasoningPart } from "../../model/internal.ts";
import { noQuirks } from "../codec.ts";
import { frameReader } from "../sse.ts";
import { openaiChat } from "./codec.ts";

const fixtures = join(import.meta.dirname, "../../../../../fixtures/wire/openai-chat");
const route = { provider: "acme", endpoint: "https://api.example.com/v1", model: "model" };
const plain: WireContext = { route, rawChunks: false, quirks: noQuirks };

type Case = {
  readonly name: string;
  readonly context: WireContext;
  readonly request: ModelRequest | null;
  readonly body: Json;
  readonly omissions: Json;
  readonly stream: string | null;
  readonly reply: Json;
  readonly events: Json;
};

const cases = readdirSync(fixtures).map((name): Case => {
  const at = (file: string): string | null => {
    const path = join(fixtures, name, file);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  };
  const json = (file: string): Json => JSON.parse(at(file) ?? "null");
  const quirks: Quirks = JSON.parse(at("quirks.json") ?? "{}");
  const fields: ModelRequest | null = JSON.parse(at("request.json") ?? "null");
  return {
    name,
    context: { ...plain, quirks },
    request: fields === null ? null : request(fields.messages, fields),
    body: json("body.json"),
    omissions: json("omissions.json"),
    stream: at("stream.txt"),
    reply: json("reply.json"),
    events: json("events.json"),
  };
});

/** The events of a stream whose text arrives in these pieces. */
function read(
  text: string,
  { context = plain, pieces = [text] }: { context?: WireContext; pieces?: readonly string[] } = {},
): { readonly events: readonly ModelEvent[]; readonly decodedEvents: Decoder["counts"] } {
  const frames = frameReader();
  const decoder = openaiChat.decoder(context);
  const events = pieces.flatMap((piece) => decoder.push(frames.push(piece)));
  return { events: [...events, ...decoder.push(frames.end()), ...decoder.end()], decodedEvents: decoder.counts };
}

function sse(...chunks: readonly Json[]): string {
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");
}

function collected(events: readonly ModelEvent[]): ReturnType<Collector["reply"]> {
  const collector = new Collector();
  for (const event of events) collector.add(event);
  return collector.reply();
}

function messageOf(events: readonly ModelEvent[]): AssistantMessage {
  const completed = events.find((event) => event.type === "message_completed");
  if (completed?.type !== "message_completed") throw new Error("no message");
  return completed.message;
}

/** E1: expects one terminal event, followed only by usage and raw chunks. */
function expectOneEnd(events: readonly ModelEvent[]): void {
  const ends = events.flatMap(({ type }, index) => (type === "message_completed" || type === "error" ? [index] : []));
  expect(ends).toHaveLength(1);
  const trailingTypes = events.slice((ends[0] ?? 0) + 1).map(({ type }) => type);
  expect(trailingTypes.filter((type) => type !== "usage" && type !== "raw_chunk")).toEqual([]);
  expect(events.every(({ type }) => eventTypes.includes(type))).toBe(true);
}

const messagesOf = (given: readonly Message[], context: WireContext = plain): Json =>
  openaiChat.encode(request(given), context).body["messages"] ?? null;

describe("[allm 107] [allm 115] fixtures", () => {
  for (const { name, context, request: asked, body, omissions } of cases) {
    if (asked === null) continue;
    test(`${name}: encodes the request to the recorded body`, () => {
      const encoded = openaiChat.encode(asked, context);
      expect(encoded).toMatchObject({ path: "/chat/completions", headers: {} });
      expect(encoded.body).toEqual(body);
      expect(encoded.omissions.map(({ path, reason }) => ({ path, reason }))).toEqual(omissions ?? []);
    });
  }
  for (const { name, context, stream, events } of cases) {
    if (stream === null) continue;
    test(`${name}: decodes the stream to the recorded events`, () => {
      const { events: decodedEvents } = read(stream, { context });
      expectOneEnd(decodedEvents);
      expect(decodedEvents).toEqual(events);
    });
    test(`W2 ${name}: cuts between chunks change no event`, () => {
      const { events: wholeReplyEvents } = read(stream, { context });
      fc.assert(
        fc.property(fc.array(fc.nat(stream.length), { maxLength: 40 }), (cuts) => {
          const at = [0, ...cuts.toSorted((a, b) => a - b), stream.length];
          const pieces = at.slice(1).map((end, index) => stream.slice(at[index], end));
          expect(read(stream, { context, pieces }).events).toEqual(wholeReplyEvents);
        }),
        { numRuns: 40 },
      );
    });
  }
  for (const { name, context, stream, reply } of cases) {
    if (stream === null || reply === null) continue;
    test(`W3 ${name}: a whole reply gives the same reply as its stream`, () => {
      const streamed = read(stream, { context }).events;
      const wholeReplyEvents = openaiChat.decodeReply(reply, context);
      expectOneEnd(wholeReplyEvents);
      expect(wholeReplyEvents.some(({ type }) => type.endsWith("_delta"))).toBe(false);
      expect(collected(wholeReplyEvents)).toEqual(collected(streamed));
      expect(messageOf(wholeReplyEvents)).toEqual(messageOf(streamed));
    });
  }
});

describe("replay (W4)", () => {
  const context: WireContext = { ...plain, quirks: { reasoningField: "reasoning" } };
  const step = (n: number): string =>
    sse(
      {
        choices: [
          {
            index: 0,
            delta: {
              role: "assistant",
              reasoning: `thought ${n}`,
              reasoning_details: [
                { type: "reasoning.text", text: `thought ${n}`, signature: `sig+/=${n}`, index: 0 },
                { type: "reasoning.encrypted", data: `enc\u00e9+/=${n}`, index: 1 },
              ],
              reasoning_opaque: `opaque ${n}`,
              tool_calls: [
                {
                  index: 0,
                  id: `call_${n}`,
                  type: "function",
                  extra_content: { google: { thought_signature: `ts+/=${n}` } },
                  function: { name: "weather", arguments: `{"n":  ${n}}` },
                },
              ],
            },
          },
        ],
      },
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    );

  function history(): readonly Message[] {
    let messages: readonly Message[] = [user("Weather?")];
    for (const n of [1, 2, 3]) {
      const reply = messageOf(read(step(n), { context }).events);
      const next = [...messages, reply, toolResult(`call_${n}`, `result ${n}`)];
      const stored: readonly Message[] = JSON.parse(JSON.stringify(next));
      messages = stored;
    }
    return messages;
  }

  test("is sent back byte for byte over three steps", () => {
    const { body, omissions } = openaiChat.encode(request(history()), context);
    const replies = [1, 2, 3].map((n) => ({
      role: "assistant",
      content: null,
      reasoning_details: [
        { type: "reasoning.text", text: `thought ${n}`, signature: `sig+/=${n}`, index: 0 },
        { type: "reasoning.encrypted", data: `enc\u00e9+/=${n}`, index: 1 },
      ],
      reasoning_opaque: `opaque ${n}`,
      tool_calls: [
        {
          extra_content: { google: { thought_signature: `ts+/=${n}` } },
          id: `call_${n}`,
          type: "function",
          function: { name: "weather", arguments: `{"n":  ${n}}` },
        },
      ],
    }));
    expect(body["messages"]).toEqual([
      { role: "user", content: "Weather?" },
      ...replies.flatMap((reply, index) => [
        reply,
        { role: "tool", tool_call_id: `call_${index + 1}`, content: `result ${index + 1}` },
      ]),
    ]);
    expect(omissions).toEqual([]);
  });

  for (const [what, other] of [
    ["another model", { ...route, model: "another" }],
    ["another endpoint", { ...route, endpoint: "https://elsewhere.example.com" }],
    ["another provider", { ...route, provider: "elsewhere" }],
  ] as const) {
    test(`is not sent to ${what}`, () => {
      const { body, omissions } = openaiChat.encode(request(history()), { ...context, route: other });
      expect(JSON.stringify(body)).not.toMatch(/sig\+|enc|opaque|thought/);
      expect(body["messages"]).toHaveLength(7);
      const paths = [1, 3, 5].flatMap((at) => [
        `messages[${at}].content[0]`,
        `messages[${at}].content[2]`,
        `messages[${at}].toolCalls[0]`,
      ]);
      expect(omissions).toEqual(paths.map((path) => ({ path, reason: "foreign_replay" })));
    });
  }

  test("reasoning text is sent back in its field, unless quirks remove the field", () => {
    const replay = { ...route, data: { field: "reasoning_content" } };
    const reply = assistant([reasoningPart("hm", { provider: replay }), textPart("Yes.")]);
    expect(messagesOf([reply])).toEqual([{ role: "assistant", content: "Yes.", reasoning_content: "hm" }]);
    const without: WireContext = { ...plain, quirks: { without: ["reasoning_content"] } };
    expect(messagesOf([reply], without)).toEqual([{ role: "assistant", content: "Yes." }]);
  });

  test("unknown fields of deltas and calls are kept and not sent back, unless the server requires them", () => {
    const call = { index: 0, id: "a", function: { name: "weather", arguments: "{}" } };
    const fields = { index: 0, prefix: true, mood: "calm", extra_content: { google: { thought_signature: "s" } } };
    const stream = sse(
      { choices: [{ index: 0, delta: { content: "Hi.", ...fields, tool_calls: [{ ...call, ...fields }] } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    );
    const reply = messageOf(read(stream).events);
    const kinds = normalizeContent(reply.content).flatMap((part) => (part.type === "opaque" ? [part.kind] : []));
    expect(kinds).toEqual(["index", "prefix", "mood", "extra_content"]);
    const { extra_content } = fields;
    const sentCall = { id: "a", type: "function", function: { name: "weather", arguments: "{}" } };
    const given = request([reply, toolResult("a", "sunny")]);
    const { body, omissions } = openaiChat.encode(given, plain);
    expect(body["messages"]).toMatchObject([
      { role: "assistant", content: "Hi.", extra_content, tool_calls: [{ ...sentCall, extra_content }] },
      {},
    ]);
    expect(JSON.stringify(body)).not.toMatch(/index|prefix|mood/);
    const paths = ["content[2]", "content[3]", "content[4]", "toolCalls[0]"];
    expect(omissions).toEqual(paths.map((path) => ({ path: `messages[0].${path}`, reason: "unsupported" })));

    const requiring: WireContext = { ...plain, quirks: { replayFields: ["mood"] } };
    const sent = messagesOf(given.messages, requiring);
    expect(sent).toMatchObject([{ mood: "calm", tool_calls: [{ mood: "calm", extra_content }] }, {}]);
    expect(JSON.stringify(sent)).not.toMatch(/index|prefix/);
  });

  test("a server with reasoning_content gets it empty with calls of another model", () => {
    const reply = assistant("", { toolCalls: [{ id: "a", name: "weather", arguments: {} }] });
    const thinks: WireContext = { ...plain, quirks: { reasoningField: "reasoning_content" } };
    expect(messagesOf([reply, toolResult("a", "sunny")], thinks)).toMatchObject([{ reasoning_content: "" }, {}]);
  });

  test("content pieces, refusals, audio and custom tool calls are sent back unchanged", () => {
    const stream = sse(
      { choices: [{ index: 0, delta: { content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }] } }] },
      { choices: [{ index: 0, delta: { content: [{ type: "reference", reference_ids: [1] }] } }] },
      { choices: [{ index: 0, delta: { audio: { id: "audio_1", transcript: "Hel" } } }] },
      { choices: [{ index: 0, delta: { audio: { data: "AAAA", transcript: "lo." } } }] },
      { choices: [{ index: 0, delta: { refusal: "No." } }] },
      { choices: [{ index: 0, delta: { tool_calls: [{ id: "c", custom: { name: "shell", input: "ls" } }] } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    );
    const reply = messageOf(read(stream).events);
    expect(reply.finishReason).toBe("content_filter");
    expect(messagesOf([reply, toolResult("c", "a.txt")])).toEqual([
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
          { type: "refusal", refusal: "No." },
          { type: "reference", reference_ids: [1] },
        ],
        audio: { id: "audio_1" },
        tool_calls: [{ id: "c", type: "custom", custom: { name: "shell", input: "ls" } }],
      },
      { role: "tool", tool_call_id: "c", content: "a.txt" },
    ]);
    expect(messagesOf([reply, toolResult("c", "a.txt")], { ...plain, route: { ...route, model: "other" } })).toEqual([
      {
        role: "assistant",
        content: "Hello.No.",
        tool_calls: [{ id: "c", type: "function", function: { name: "shell", arguments: '{"input":"ls"}' } }],
      },
      { role: "tool", tool_call_id: "c", content: "a.txt" },
    ]);
  });

  test("a tool that the server ran is not sent and is listed in omissions", () => {
    const fixture = cases.find(({ name }) => name === "provider-executed");
    const reply = messageOf(openaiChat.decodeReply(fixture?.reply ?? null, plain));
    const { body, omissions } = openaiChat.encode(request([reply]), plain);
    expect(body["messages"]).toEqual([{ role: "assistant", content: "News.", reasoning: "Search." }]);
    expect(omissions).toEqual([
      { path: "messages[0].content[1]", reason: "unsupported" },
      { path: "messages[0].content[2]", reason: "unsupported" },
    ]);
  });
});

describe("[allm 115] encoding", () => {
  test("a message is encoded once", () => {
    const reply = assistant("Hello.", { toolCalls: [{ id: "a", name: "weather", arguments: {} }] });
    const given = request([user("Hi."), reply, toolResult("a", "sunny")]);
    const first = openaiChat.encode(given, plain).body["messages"];
    const second = openaiChat.encode({ ...given, messages: [...given.messages, user("And?")] }, plain).body["messages"];
    if (!Array.isArray(first) || !Array.isArray(second)) throw new Error("no messages");
    for (const index of [0, 1, 2]) expect(second[index]).toBe(first[index]);
  });

  test("call ids are adapted to the server, equally in calls and results", () => {
    const reply = assistant("", { toolCalls: [{ id: "call:1/x", name: "weather", arguments: {} }] });
    const quirks: Quirks = { callIds: { maxLength: 9, pattern: "alphanumeric" } };
    const wire = JSON.stringify(messagesOf([reply, toolResult("call:1/x", "sunny")], { ...plain, quirks }));
    const ids = [...wire.matchAll(/"(?:id|tool_call_id)":"([\w-]{1,9})"/g)].map(([, id]) => id);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(1);
  });

  test("options override every field, and a request without a stream has no stream_options", () => {
    const options = { stream: false, temperature: 1, store: true };
    const { body } = openaiChat.encode(request([user("Hi.")], { temperature: 0, options }), plain);
    expect(body).toEqual({ model: "model", messages: [{ role: "user", content: "Hi." }], ...options });
  });

  test("the session id is the default prompt cache key", () => {
    const scope = { sessionId: "s-1", frameId: null, requestId: "r-1" };
    const given = request([user("Hi.")], { scope, promptCache: { key: null, retention: "short" } });
    expect(openaiChat.encode(given, plain).body).toMatchObject({ prompt_cache_key: "s-1" });
  });

  test("pruned parts are sent as their placeholder", () => {
    const sky = imagePart({ source: { type: "file", path: "/sky.png" } }, { pruneState: { type: "cleared" } });
    expect(messagesOf([user([textPart("Look."), sky])])).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "Look." },
          { type: "text", text: "[Old tool result content cleared]" },
        ],
      },
    ]);
  });

  for (const [what, part, reason] of [
    ["an image on disk", imagePart({ source: { type: "file", path: "/a.png" } }), "unsupported_feature"],
    [
      "a file on disk",
      filePart({ type: "file", path: "/a.pdf" }, { mimeType: "application/pdf" }),
      "unsupported_feature",
    ],
    ["a file by its URL", filePart({ type: "url", url: "https://example.com/a.pdf" }), "unsupported_feature"],
    ["a file of another provider", filePart({ type: "provider_file", provider: "x", id: "f" }), "unsupported_feature"],
    [
      "an image by id",
      imagePart({ source: { type: "provider_file", provider: "acme", id: "f" } }),
      "unsupported_feature",
    ],
    ["an image of no known type", imagePart({ source: { type: "base64", data: "AAAA" } }), "invalid_request"],
    ["a file of no known type", filePart({ type: "base64", data: "AAAA" }), "invalid_request"],
  ] as const) {
    test(`refuses ${what}`, () => {
      expect(() => messagesOf([user([part])])).toThrow(
        expect.objectContaining({ constructor: AdapterError, failure: expect.objectContaining({ reason }) }),
      );
    });
  }

  test("an opaque part of another API is not sent", () => {
    const reply = assistant([textPart("Hi."), opaquePart("x", { ...route, endpoint: "responses", data: {} })]);
    const { body, omissions } = openaiChat.encode(request([reply]), plain);
    expect(body["messages"]).toEqual([{ role: "assistant", content: "Hi." }]);
    expect(omissions).toEqual([{ path: "messages[0].content[1]", reason: "foreign_replay" }]);
  });
});

describe("[allm 109] decoding", () => {
  test("a whole reply with an empty delta beside its message is the message (Perplexity)", () => {
    const choice = { index: 0, finish_reason: "stop", delta: { role: "assistant", content: "" } };
    const message = { role: "assistant", content: "Rome." };
    expect(messageOf(openaiChat.decodeReply({ choices: [{ ...choice, message }] }, plain)).content).toBe("Rome.");
    // In its streams `message` repeats the text so far.
    const chunk = (content: string, sum: string, finish: string | null = null) => ({
      choices: [{ index: 0, delta: { content }, message: { content: sum }, finish_reason: finish }],
    });
    const text = `${sse(chunk("Ro", "Ro"), chunk("me.", "Rome.", "stop"))}data: [DONE]\n\n`;
    expect(messageOf(read(text).events).content).toBe("Rome.");
  });

  test("audio without a transcript is kept and sent back", () => {
    const audio = { id: "audio_1", data: "AAAA", expires_at: 1, transcript: "" };
    const body = { choices: [{ index: 0, message: { content: null, audio }, finish_reason: "stop" }] };
    const chunks = [{ audio: { id: "audio_1", transcript: "" } }, { audio: { data: "AAAA", expires_at: 1 } }];
    const text = `${sse(...chunks.map((delta) => ({ choices: [{ index: 0, delta }] })))}${sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`;
    for (const events of [openaiChat.decodeReply(body, plain), read(text).events]) {
      const message = messageOf(events);
      expect(message.content).toMatchObject([{ type: "text", text: "", metadata: { audio: { data: "AAAA" } } }]);
      expect(messagesOf([user("a"), message, user("b")])).toMatchObject([{}, { audio: { id: "audio_1" } }, {}]);
    }
  });

  test.each([
    ["the word of Gemini's compatible endpoint", { finish_reason: "function_call_filter: MALFORMED_FUNCTION_CALL" }],
    ["the native word of OpenRouter", { finish_reason: "stop", native_finish_reason: "MALFORMED_FUNCTION_CALL" }],
    ["the native word of another call", { finish_reason: "error", native_finish_reason: "UNEXPECTED_TOOL_CALL" }],
  ])("a call that Gemini wrote wrong is an error that can be retried: %s", (_, ending) => {
    const choice = { index: 0, delta: { content: "A" }, ...ending };
    const error = { type: "error", error: { reason: "malformed_response", retryable: true } };
    expect(read(`${sse({ choices: [choice] })}data: [DONE]\n\n`).events.at(-1)).toMatchObject(error);
    const { delta, ...whole } = choice;
    expect(openaiChat.decodeReply({ choices: [{ ...whole, message: delta }] }, plain).at(-1)).toMatchObject(error);
  });

  test("[DONE] without a finish_reason ends a reply with its usage, and ends nothing before the first choice", () => {
    const chunk = { choices: [{ index: 0, delta: { content: "A" }, finish_reason: null }] };
    const usage = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } };
    const ended = read(`${sse(chunk)}${sse(usage)}data: [DONE]\n\n`).events;
    expect(ended.slice(-2)).toMatchObject([
      { type: "usage", usage: { inputTokens: 3, outputTokens: 1 } },
      { type: "message_completed", message: { content: "A" }, finishReason: null, rawFinishReason: null },
    ]);
    const error = { type: "error", error: { reason: "interrupted" } };
    expect(read("data: [DONE]\n\n").events).toMatchObject([error]);
    // Without [DONE] the reply was cut off. Its usage is reported.
    expect(read(`${sse(chunk)}${sse(usage)}`).events.slice(-2)).toMatchObject([{ type: "usage" }, error]);
  });

  test("emits one raw chunk for each frame on request", () => {
    const chunk = { choices: [{ index: 0, delta: { content: "A" }, finish_reason: "stop" }] };
    const context: WireContext = { ...plain, rawChunks: true };
    const { events } = read(`${sse(chunk)}data: [DONE]\n\n`, { context });
    expect(events.map(({ type }) => type)).toEqual([
      "raw_chunk",
      "message_started",
      "text_delta",
      "text_completed",
      "message_completed",
    ]);
    expect(events[0]).toEqual({ type: "raw_chunk", chunk });
    const wholeReplyEvents = openaiChat.decodeReply(
      { choices: [{ message: { content: "A" }, finish_reason: "stop" }] },
      context,
    );
    expect(wholeReplyEvents[0]?.type).toBe("raw_chunk");
  });

  test("reads usage after the finish_reason, and completes at once if usage is known", () => {
    const decoder = openaiChat.decoder(plain);
    const frame = (chunk: Json): { readonly event: null; readonly data: string } => ({
      event: null,
      data: JSON.stringify(chunk),
    });
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const ended = { choices: [{ index: 0, delta: { content: "A" }, finish_reason: "stop" }], usage };
    expect(decoder.push([frame(ended)]).at(-1)?.type).toBe("message_completed");
    expect(decoder.push([frame({ choices: [], usage })]).map(({ type }) => type)).toEqual(["usage"]);
    expect(decoder.end()).toEqual([]);
  });

  test("maps every finish_reason", () => {
    const words = ["stop", "length", "content_filter", "tool_calls", "function_call", "eos", "model_length", "odd"];
    const reasons = words.map((word) =>
      collected(openaiChat.decodeReply({ choices: [{ message: { content: "A" }, finish_reason: word }] }, plain)),
    );
    expect(reasons.map(({ finishReason }) => finishReason)).toEqual([
      "stop",
      "length",
      "content_filter",
      "stop",
      "stop",
      "stop",
      "length",
      "other",
    ]);
    expect(reasons.map(({ rawFinishReason }) => rawFinishReason)).toEqual(words);
  });

  test("reads the deprecated function_call as a call", () => {
    const { events } = read(
      sse(
        { choices: [{ index: 0, delta: { function_call: { name: "weather", arguments: "" } } }] },
        { choices: [{ index: 0, delta: { function_call: { arguments: '{"n":1}' } } }] },
        { choices: [{ index: 0, delta: {}, finish_reason: "function_call" }] },
      ),
    );
    expect(collected(events)).toMatchObject({ finishReason: "tool_calls", toolCalls: [{ arguments: { n: 1 } }] });
  });

  test("ignores fields of the API that the server sends empty", () => {
    const message = {
      role: "assistant",
      content: "Sunny.",
      refusal: "",
      annotations: null,
      audio: { id: "", data: "", expires_at: 0, transcript: "" },
      function_call: { name: "", arguments: "" },
    };
    const choice = (fields: JsonObject) => ({ choices: [{ index: 0, finish_reason: "stop", ...fields }] });
    const call = {
      id: "c1",
      type: "function",
      function: { name: "go", arguments: '{"n":1}' },
      custom: { name: "", input: "" },
    };
    for (const events of [
      openaiChat.decodeReply(choice({ message }), plain),
      read(sse(choice({ delta: message }))).events,
    ]) {
      const reply = collected(events);
      expect(reply).toMatchObject({ finishReason: "stop", toolCalls: [], message: { content: "Sunny." } });
      if (reply.message !== null)
        expect(messagesOf([user("Hi."), reply.message])).toMatchObject([{}, { role: "assistant", content: "Sunny." }]);
    }
    const { toolCalls } = collected(openaiChat.decodeReply(choice({ message: { tool_calls: [call] } }), plain));
    expect(toolCalls).toMatchObject([{ id: "c1", name: "go", arguments: { n: 1 } }]);
  });

  test("reads the output of an executed tool whose first entry has empty results", () => {
    const entry = { index: 0, type: "search", arguments: '{"query":"news"}' };
    const results = { results: [{ title: "T" }] };
    const events = read(
      sse(
        { choices: [{ delta: { executed_tools: [{ ...entry, search_results: { results: [] } }] } }] },
        { choices: [{ delta: { executed_tools: [{ ...entry, output: "T", search_results: results }] } }] },
        { choices: [{ delta: { content: "News." }, finish_reason: "stop" }] },
      ),
    ).events;
    expect(collected(events).message?.content).toMatchObject([
      { type: "tool_call", providerExecuted: { name: "search", arguments: { query: "news" } } },
      { type: "tool_result", content: { output: "T", search_results: results } },
      { type: "text", text: "News." },
    ]);
  });

  test("counts a prefix once that a request both writes to the cache and reads from it", () => {
    const details = { cached_tokens: 2161, cache_write_tokens: 2161 };
    const inputOf = (usage: JsonObject) =>
      collected(
        openaiChat.decodeReply({ choices: [{ message: { content: "A" }, finish_reason: "stop" }], usage }, plain),
      ).usage?.inputTokens;
    const tokens = { prompt_tokens: 2168, completion_tokens: 100, prompt_tokens_details: details };
    expect(inputOf({ ...tokens, total_tokens: 2268 })).toBe(2168);
    // The total, or a single counter above the prompt, shows that the cache is not part of the prompt.
    expect(inputOf({ ...tokens, total_tokens: 6590 })).toBe(6490);
    expect(inputOf({ ...tokens, prompt_tokens: 7, total_tokens: 107 })).toBe(4329);
  });

  test("reports the usage of a stream that ends with an error", () => {
    const usage = { prompt_tokens: 43, completion_tokens: 10, total_tokens: 53 };
    const text = sse({ choices: [{ delta: { content: "A" } }] }, { error: { code: 400, message: "Limit" }, usage });
    expect(collected(read(text).events)).toMatchObject({ usage: { inputTokens: 43 }, error: { status: 400 } });
  });

  test("adds reasoning tokens that the server counts separately", () => {
    const raw = {
      prompt_tokens: 12,
      completion_tokens: 2,
      total_tokens: 354,
      completion_tokens_details: { reasoning_tokens: 340 },
    };
    const reply = { choices: [{ message: { content: "A" }, finish_reason: "stop" }], usage: raw };
    expect(collected(openaiChat.decodeReply(reply, plain)).usage).toMatchObject({
      inputTokens: 12,
      outputTokens: 342,
      reasoningTokens: 340,
      totalTokens: 354,
    });
  });

  for (const [what, body, reason] of [
    [
      "an error object",
      { error: { message: "No such model", type: "invalid_request_error", code: null } },
      "invalid_request",
    ],
    ["an error as text", { error: "the server is overloaded" }, "provider_unavailable"],
    ["a list", [{ error: { code: 429, message: "Quota", status: "RESOURCE_EXHAUSTED" } }], "rate_limited"],
    [
      "an object of its own",
      { object: "error", message: "maximum context length is 10", code: 400 },
      "context_length_exceeded",
    ],
    ["no reply", { choices: [] }, "malformed_response"],
    ["nothing", null, "malformed_response"],
  ] as const) {
    test(`${what} in place of a reply gives one error`, () => {
      const events = openaiChat.decodeReply(body, plain);
      expect(events).toMatchObject([{ type: "error", error: { type: "adapter_error", reason } }]);
    });
  }

  test("reads an error that is text with a code beside it", () => {
    const { error } = collected(openaiChat.decodeReply({ code: "invalid-argument", error: "Incorrect key." }, plain));
    expect(error).toMatchObject({ code: "invalid-argument", message: "acme: Incorrect key." });
  });

  test("[allm 121] errors keep the server's status, code, message and body", () => {
    const body = { error: { message: "Too long", type: "invalid_request_error", code: "context_length_exceeded" } };
    const answer = { status: 400, body, requestId: "req_1", retryAfterMs: 5 };
    expect(openaiChat.decodeError(answer, plain)).toMatchObject({
      reason: "context_length_exceeded",
      status: 400,
      requestId: "req_1",
      retryAfterMs: 5,
      code: "context_length_exceeded",
      message: "acme: Too long",
      raw: JSON.stringify(body),
    });
    const text = { status: 502, body: "<html>Bad gateway</html>", requestId: null, retryAfterMs: null };
    expect(openaiChat.decodeError(text, plain)).toMatchObject({ reason: "provider_unavailable", raw: text.body });
    const detail = { status: 422, body: { detail: [{ msg: "field required" }] }, requestId: null, retryAfterMs: null };
    expect(openaiChat.decodeError(detail, plain).message).toContain("field required");
  });

  describe("calls of servers that repeat fragments", () => {
    const piece = (text: string, fields: { readonly [key: string]: Json } = { index: 0, id: "c1" }): Json => ({
      choices: [{ index: 0, delta: { tool_calls: [{ ...fields, function: { name: "weather", arguments: text } }] } }],
    });
    const end: Json = { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] };
    const callsOf = (...chunks: readonly Json[]): Json =>
      collected(read(sse(...chunks, end)).events).toolCalls.map(({ id, arguments: given }) => [id, given]);

    test("id and name in every fragment, and blanks at the end, make one call", () => {
      expect(callsOf(piece('{"a":1}'), piece("\n"))).toEqual([["c1", { a: 1 }]]);
      expect(callsOf(piece('{"a"'), piece(":"), piece("1}"), piece(" "), piece(""))).toEqual([["c1", { a: 1 }]]);
      expect(callsOf(piece('{"a":1}', { index: 0 }), piece("\n", { index: 0 }))).toEqual([["call_0", { a: 1 }]]);
    });

    test("a complete call that is repeated in another format makes one call", () => {
      expect(callsOf(piece('{"a": 1}'), piece('{"a":1}'))).toEqual([["c1", { a: 1 }]]);
      const again = piece('{"b":[{"c":null}],"a":1}');
      expect(callsOf(piece('{"a":1, "b"'), piece(': [{"c": null}]}'), again, again)).toEqual([
        ["c1", { a: 1, b: [{ c: null }] }],
      ]);
      expect(callsOf(piece('{"a": 1}', { id: "c1" }), piece('{"a":1}', { id: "c1" }))).toEqual([["c1", { a: 1 }]]);
    });

    test("braces inside a string do not end the arguments", () => {
      expect(callsOf(piece('{"a":"}{'), piece('{}\\"}'), piece('{}"}'))).toEqual([["c1", { a: '}{{}"}{}' }]]);
    });

    test("calls with different ids under one index are different calls", () => {
      const other = { index: 0, id: "c2" };
      expect(callsOf(piece('{"a":1}'), piece('{"a":1}', other), piece("\n", other))).toEqual([
        ["c1", { a: 1 }],
        ["c2", { a: 1 }],
      ]);
    });

    test("a complete call with other arguments is another call, also with the same id", () => {
      expect(callsOf(piece('{"a":1}'), piece('{"a":2}'))).toEqual([
        ["c1", { a: 1 }],
        ["c1~2", { a: 2 }],
      ]);
    });
  });

  describe("W1: values that cannot be stored", () => {
    const context: WireContext = { ...plain, rawChunks: true };
    const nested = (depth: number, inside = "1"): string => `${'{"a":'.repeat(depth)}${inside}${"}".repeat(depth)}`;
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const usage =
      '{"prompt_tokens":9007199254740991,"completion_tokens":9007199254740991,' +
      '"prompt_tokens_details":{"cached_tokens":9007199254740991,"cache_write_tokens":9007199254740991},' +
      '"completion_tokens_details":{"reasoning_tokens":9007199254740991}}';
    const message = (fields: string): string => `{"choices":[{"index":0,"message":{"content":"A",${fields}}}]}`;

    for (const [what, body] of [
      ["a field", message(`"odd":${deep}`)],
      ["a field in a field", message(`"odd":{"x":${nested(150)}}`)],
      ["a field that is just too deep", message(`"odd":${nested(125)}`)],
      ["a field that just fits", message(`"odd":${nested(124)}`)],
      ["a number without end", message(`"odd":[1e999]`)],
      ["a field of a call", message(`"tool_calls":[{"id":"c","x":${deep},"function":{"name":"f","arguments":"{}"}}]`)],
      [
        "arguments that are an object",
        message(`"tool_calls":[{"id":"c","function":{"name":"f","arguments":${deep}}}]`),
      ],
      ["reasoning", message(`"reasoning_details":[{"type":"reasoning.encrypted","data":${deep}}]`)],
      ["annotations", message(`"annotations":[${deep}]`)],
      ["speech", message(`"audio":{"id":"x","odd":${deep}}`)],
      ["a tool the server ran", message(`"executed_tools":[{"index":0,"type":"x","output":${deep}}]`)],
      ["facts", `{"choices":[{"message":{"content":"A"}}],"service_tier":${deep},"citations":${deep}}`],
      ["logprobs", `{"choices":[{"message":{"content":"A"},"logprobs":{"content":[${deep}]}}]}`],
      ["costs", `{"choices":[{"message":{"content":"A"}}],"usage":{"odd":${deep},"server_tool_use":{"x":${deep}}}}`],
      ["counts", `{"choices":[{"message":{"content":"A"}}],"usage":${usage}}`],
      [
        "counts beside the output",
        `{"choices":[{"message":{"content":"A"}}],"usage":${usage.replace(":9007199254740991,", ":1,")}}`,
      ],
    ] as const) {
      test(`${what}: the rest of the reply is read`, () => {
        const end = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}';
        const stream = `data: ${body.replace('"message"', '"delta"')}\n\ndata: ${end}\n\n`;
        const parsed: Json = JSON.parse(body);
        for (const events of [read(stream, { context }).events, openaiChat.decodeReply(parsed, context)]) {
          expectOneEnd(events);
          expect(events.filter((event) => !isEvent(event))).toEqual([]);
          expect(collected(events)).toMatchObject({ outputText: "A", error: null });
        }
      });
    }

    test("a field that can be stored is kept, one that cannot is dropped completely", () => {
      const partsAtDepth = (depth: number): string => {
        const body: Json = JSON.parse(message(`"odd":${nested(depth)},"fine":{"x":1}`));
        return JSON.stringify(messageOf(openaiChat.decodeReply(body, plain)).content);
      };
      expect(partsAtDepth(124)).toContain(nested(124));
      expect(partsAtDepth(125)).not.toContain("odd");
      expect(partsAtDepth(125)).toContain('"fine":{"x":1}');
    });

    test("token counts whose sum is no safe integer are null", () => {
      const raw: Json = JSON.parse(`{"choices":[{"message":{"content":"A"}}],"usage":${usage}}`);
      expect(collected(openaiChat.decodeReply(raw, plain)).usage).toMatchObject({
        inputTokens: null,
        outputTokens: 9007199254740991,
        cachedInputTokens: 9007199254740991,
      });
    });

    for (const text of [`{"a":${deep}}`, nested(150), '{"a":1e999}']) {
      test(`arguments like ${text.slice(0, 12)} are null, and the rest of the reply is read`, () => {
        const call = { id: "c", function: { name: "f", arguments: text } };
        const run = { index: 0, type: "x", arguments: text, output: "y" };
        const body = { choices: [{ message: { content: "A", tool_calls: [call, call], executed_tools: [run] } }] };
        const events = openaiChat.decodeReply(body, context);
        expectOneEnd(events);
        expect(events.filter((event) => !isEvent(event))).toEqual([]);
        expect(collected(events).toolCalls).toMatchObject([{ arguments: null }, { arguments: null }]);
      });
    }

    for (const [what, body] of [
      ["an answer without a reply", deep],
      ["an error", `{"error":{"message":"No","detail":${deep}}}`],
      ["an error without words", `{"error":{"detail":${deep}}}`],
      ["an error of its own", `{"object":"error","detail":${deep}}`],
    ] as const) {
      test(`${what} gives one error`, () => {
        const parsed: Json = JSON.parse(body);
        for (const events of [read(`data: ${body}\n\n`, { context }).events, openaiChat.decodeReply(parsed, context)]) {
          expectOneEnd(events);
          expect(events.filter((event) => !isEvent(event))).toEqual([]);
        }
        const answer = { status: 500, requestId: null, retryAfterMs: null };
        for (const given of [parsed, body]) {
          const error = openaiChat.decodeError({ ...answer, body: given }, plain);
          expect(isEvent({ type: "error", error })).toBe(true);
        }
      });
    }
  });

  test("W1: no frame makes the decoder throw, and there is one terminal event", () => {
    const fields = ["choices", "delta", "message", "content", "tool_calls", "function", "arguments", "usage", "id"];
    const key = fc.constantFrom(
      ...fields,
      "index",
      "finish_reason",
      "error",
      "reasoning",
      "reasoning_details",
      "audio",
    );
    const { value } = fc.letrec<{ readonly value: Json }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 6 },
        fc.constantFrom<Json>(null, "", "stop", "{}", 0, 1, -1, true, "x"),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(key, tie("value"), { maxKeys: 4, noNullPrototype: true }),
      ),
    }));
    fc.assert(
      fc.property(fc.array(value, { maxLength: 6 }), (chunks) => {
        const { events, decodedEvents } = read(sse(...chunks));
        expectOneEnd(events);
        expect(decodedEvents.understood + decodedEvents.opaque + decodedEvents.unknown).toBe(chunks.length);
        for (const body of chunks) expectOneEnd(openaiChat.decodeReply(body, plain));
        for (const body of chunks)
          openaiChat.decodeError({ status: 500, body, requestId: null, retryAfterMs: null }, plain);
      }),
      { numRuns: 300 },
    );
  });
});
