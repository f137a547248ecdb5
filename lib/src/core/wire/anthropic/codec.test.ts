import type { ProviderRoute } from "../../model/internal.ts";
import type { Frame, WireContext } from "../codec.ts";
import type { AssistantMessage, Json, JsonObject, Message, ModelRequest } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { assistant, imagePart, parse, toolResult, user } from "everturn";
import { request, Collector, isEvent, toolSpec } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { noQuirks } from "../codec.ts";
import { frameReader } from "../sse.ts";
import { anthropicMessages } from "./codec.ts";

const route: ProviderRoute = {
  provider: "anthropic",
  endpoint: "https://api.anthropic.com/v1",
  model: "claude-sonnet-4-5",
};
const context: WireContext = { route, rawChunks: false, quirks: noQuirks };

const root = join(import.meta.dirname, "../../../../../fixtures/wire/anthropic-messages");

function read(folder: string, name: string, file: string): string | null {
  const path = join(folder, name, file);
  return existsSync(path) ? readFileSync(path, "utf8") : null;
}

function json(text: string): Json {
  const value: Json = JSON.parse(text);
  return value;
}

function requestFrom(text: string): ModelRequest {
  const parsed = parse("request", json(text));
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.failure));
  return parsed.value;
}

/**
 * The fixtures with the text of their files; `null` for a missing file. Without `omissions.json` nothing is omitted.
 */
const cases = readdirSync(root).map((name) => ({
  name,
  request: read(root, name, "request.json"),
  body: read(root, name, "body.json"),
  omissions: read(root, name, "omissions.json"),
  stream: read(root, name, "stream.txt"),
  reply: read(root, name, "reply.json"),
  events: read(root, name, "events.json"),
}));

function decode(pieces: readonly string[], given: WireContext = context): readonly ModelEvent[] {
  const reader = frameReader();
  const decoder = anthropicMessages.decoder(given);
  const events = pieces.flatMap((piece) => decoder.push(reader.push(piece)));
  return [...events, ...decoder.push(reader.end()), ...decoder.end()];
}

function folded(events: readonly ModelEvent[]) {
  const collector = new Collector();
  for (const event of events) collector.add(event);
  return collector.reply();
}

function terminals(events: readonly ModelEvent[]): number {
  return events.filter(({ type }) => type === "message_completed" || type === "error").length;
}

describe("[allm 110] [allm 111] [allm 115] requests", () => {
  for (const { name, request: given, body, omissions } of cases) {
    if (given === null || body === null) continue;
    test(name, () => {
      const encoded = anthropicMessages.encode(requestFrom(given), context);
      expect({ ...encoded, omissions: encoded.omissions.map(({ path, reason }) => ({ path, reason })) }).toEqual({
        path: "/messages",
        headers: { "anthropic-version": "2023-06-01" },
        body: json(body),
        omissions: omissions === null ? [] : json(omissions),
      });
    });
  }

  const tools = [toolSpec({ name: "weather", description: "", schema: { type: "object" } })];
  const body = (rest: Parameters<typeof request>[1], given = context) =>
    anthropicMessages.encode(request([user("hi")], rest), given);

  test("adaptive thinking is sent with a forced tool", () => {
    const reasoning = { effort: "high", budgetTokens: null, summary: null };
    const encoded = body({ tools, toolChoice: "required", reasoning });
    expect(encoded.body).toMatchObject({ tool_choice: { type: "any" }, thinking: { type: "adaptive" } });
    expect(encoded.omissions).toEqual([]);
  });

  test("a forced tool turns a thinking budget off", () => {
    const reasoning = { effort: "high", budgetTokens: 2000, summary: null };
    const encoded = body({ tools, toolChoice: "required", reasoning, temperature: 0 });
    expect(encoded.body).toMatchObject({
      tool_choice: { type: "any" },
      output_config: { effort: "high" },
      temperature: 0,
    });
    expect(encoded.body["thinking"]).toBeUndefined();
    expect(encoded.body["max_tokens"]).toBe(4096);
    expect(encoded.omissions).toMatchObject([{ path: "reasoning", reason: "unsupported" }]);
  });

  test("maps reasoning effort and budget", () => {
    const none = { effort: null, budgetTokens: null, summary: null };
    const adaptive = body({ reasoning: { ...none, effort: "max" } }).body;
    expect(adaptive).toMatchObject({ thinking: { type: "adaptive" }, output_config: { effort: "max" } });
    const off = body({ reasoning: { ...none, effort: "none" }, temperature: 0.3 }).body;
    expect(off).toMatchObject({ thinking: { type: "disabled" }, temperature: 0.3 });
    expect(off["output_config"]).toBeUndefined();
    const shown = body({ reasoning: { ...none, summary: "auto" } }).body;
    expect(shown["thinking"]).toEqual({ type: "adaptive", display: "summarized" });
    const fromOptions = body({ temperature: 0.3, options: { thinking: { type: "enabled", budget_tokens: 9000 } } });
    expect(fromOptions.body).not.toHaveProperty("temperature");
    expect(fromOptions.body["max_tokens"]).toBe(4096 + 9000);
    expect(fromOptions.omissions).toMatchObject([{ path: "temperature", reason: "unsupported" }]);
    const verbatim = body({ reasoning: { ...none, effort: "low" }, options: { thinking: { type: "enabled" } } }).body;
    expect(verbatim["thinking"]).toEqual({ type: "enabled" });
  });

  test("maps tool choice and parallel calls", () => {
    expect(body({ tools, toolChoice: "none" }).body["tool_choice"]).toEqual({ type: "none" });
    expect(body({ tools, toolChoice: "auto" }).body["tool_choice"]).toBeUndefined();
    expect(body({ tools, parallelToolCalls: false }).body["tool_choice"]).toEqual({
      type: "auto",
      disable_parallel_tool_use: true,
    });
    expect(body({ toolChoice: "none" }).body["tool_choice"]).toBeUndefined();
    expect(body({ toolChoice: "required" }).omissions).toMatchObject([{ path: "toolChoice", reason: "unsupported" }]);
  });

  test("applies quirks: removed fields, no schemas", () => {
    const quirks = { without: ["temperature", "thinking"], jsonSchema: false };
    const schema = { type: "json_schema", name: "x", schema: { type: "object" }, strict: true } as const;
    const encoded = body({ temperature: 1, responseFormat: schema }, { ...context, quirks });
    expect(encoded.body["temperature"]).toBeUndefined();
    expect(encoded.body["output_config"]).toBeUndefined();
    expect(encoded.omissions.map(({ path }) => path)).toEqual(["responseFormat", "temperature"]);
  });

  test("refuses files on disk, of other providers and of other types", () => {
    const source = (given: Parameters<typeof imagePart>[0]["source"]) => () =>
      anthropicMessages.encode(request([user([imagePart({ source: given })])]), context);
    expect(source({ type: "file", path: "/tmp/a.png" })).toThrow(/file on disk cannot be sent/);
    expect(source({ type: "provider_file", provider: "openai", id: "file-1" })).toThrow(/openai/);
    expect(source({ type: "base64", data: "AAAA" })).toThrow(/MIME/);
    const audio = user([{ type: "file", source: { type: "base64", data: "AAAA" }, mimeType: "audio/mpeg" }]);
    expect(() => anthropicMessages.encode(request([audio]), context)).toThrow(/audio\/mpeg/);
  });

  test("a message is encoded once for a route", () => {
    let reads = 0;
    const message = user("hi");
    const counting: Message = Object.defineProperty({ ...message }, "content", {
      enumerable: true,
      get: () => {
        reads += 1;
        return "hi";
      },
    });
    const modelRequest = { ...request([]), messages: [counting] };
    anthropicMessages.encode(modelRequest, context);
    const once = reads;
    expect(anthropicMessages.encode(modelRequest, context).body["messages"]).toEqual([
      { role: "user", content: [{ type: "text", text: "hi" }] },
    ]);
    expect(reads).toBe(once);
    anthropicMessages.encode(modelRequest, { ...context, route: { ...route, model: "other" } });
    expect(reads).toBeGreaterThan(once);
  });

  test("repeated and invalid call ids are replaced in calls and results", () => {
    const call = { id: "functions.a:0", name: "weather", arguments: {} };
    const reply = assistant(
      [
        { type: "tool_call", toolCallId: call.id },
        { type: "text", text: "and" },
        { type: "tool_call", toolCallId: call.id },
      ],
      { toolCalls: [call, { ...call, arguments: { again: true } }] },
    );
    const history = [user("?"), reply, toolResult(call.id, "one"), toolResult(call.id, "two")];
    const messages = JSON.parse(JSON.stringify(anthropicMessages.encode(request(history), context).body["messages"]));
    const [, message, results] = messages;
    expect(message.content.map(({ type }: { type: string }) => type)).toEqual(["tool_use", "text", "tool_use"]);
    const ids = [message.content[0].id, message.content[2].id];
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(results.content.map(({ tool_use_id }: { tool_use_id: string }) => tool_use_id)).toEqual(ids);
  });
});

describe("[allm 112] replies", () => {
  for (const { name, stream, reply, events } of cases) {
    if (stream === null || events === null) continue;

    test(`${name}: decodes the stream to the recorded events`, () => {
      const decodedEvents = decode([stream]);
      expect(decodedEvents).toEqual(json(events));
      expect(terminals(decodedEvents)).toBe(1);
    });

    test(`${name}: W2, cuts between chunks change no event`, () => {
      const expectedEvents = decode([stream]);
      fc.assert(
        fc.property(fc.array(fc.nat(stream.length), { maxLength: 12 }), (cuts) => {
          const places = [0, ...cuts.toSorted((left, right) => left - right), stream.length];
          const pieces = places.slice(1).map((end, index) => stream.slice(places[index], end));
          expect(decode(pieces)).toEqual(expectedEvents);
        }),
        { numRuns: 40 },
      );
    });

    if (reply === null) continue;

    test(`${name}: W3, a whole reply gives the same reply as its stream`, () => {
      const streamed = folded(decode([stream]));
      const expectedEvents = folded(anthropicMessages.decodeReply(json(reply), context));
      expect(expectedEvents).toEqual(streamed);
    });
  }

  test("emits one raw chunk for each frame, also after the end", () => {
    const stream = read(root, "error-in-stream", "stream.txt") ?? "";
    const events = decode([stream], { ...context, rawChunks: true });
    expect(events.filter(({ type }) => type === "raw_chunk")).toHaveLength(stream.split("\n\n").length - 1);
    expect(events.filter(({ type }) => type !== "raw_chunk")).toEqual(decode([stream]));
  });

  test("W1: no frame makes the decoder throw, and there is one terminal event", () => {
    const type = fc.constantFrom(
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
      "error",
      "ping",
      "text",
      "tool_use",
      "text_delta",
      "input_json_delta",
      "x",
    );
    const value = fc.letrec((tie) => ({
      any: fc.oneof({ maxDepth: 3 }, fc.jsonValue({ maxDepth: 1 }), tie("object")),
      object: fc.dictionary(
        fc.constantFrom(
          "type",
          "index",
          "delta",
          "content_block",
          "message",
          "usage",
          "content",
          "text",
          "error",
          "id",
        ),
        fc.oneof(type, tie("any")),
      ),
    })).object;
    fc.assert(
      fc.property(fc.array(fc.tuple(type, value), { maxLength: 12 }), (events) => {
        const decoder = anthropicMessages.decoder(context);
        const frames = events.map(([word, rest]): Frame => ({
          event: word,
          data: JSON.stringify({ ...Object(rest), type: word }),
        }));
        const out = [...decoder.push(frames), ...decoder.end(), ...decoder.end()];
        expect(terminals(out)).toBe(1);
        expect(out.filter((event) => !isEvent(event))).toEqual([]);
      }),
    );
    for (const data of ["[DONE]", "", "7", "null"]) {
      const decoder = anthropicMessages.decoder(context);
      expect(decoder.push([{ event: null, data }])).toEqual([]);
      expect(decoder.counts.unknown).toBe(1);
    }
    // Nested deeper than the limit of stored values.
    const deep = `${'{"a":'.repeat(200)}1${"}".repeat(200)}`;
    for (const block of [`{"type":"tool_use","id":"t","name":"n","input":${deep}}`, `{"type":"x","y":${deep}}`]) {
      const decoder = anthropicMessages.decoder(context);
      const start: Frame = { event: null, data: `{"type":"content_block_start","index":0,"content_block":${block}}` };
      const stop: Frame = { event: null, data: '{"type":"content_block_stop","index":0}' };
      const events = [...decoder.push([start, stop]), ...decoder.end()];
      expect(terminals(events)).toBe(1);
      expect(events.at(-1)).toMatchObject({ type: "error", error: { reason: "malformed_event" } });
      const expectedEvents = anthropicMessages.decodeReply(json(`{"content":[${block}]}`), context);
      expect(expectedEvents.at(-1)).toMatchObject({ type: "error", error: { reason: "malformed_event" } });
    }
    for (const body of [null, 7, "<html>", [], {}, { content: 3 }])
      expect(terminals(anthropicMessages.decodeReply(body, context))).toBe(1);
  });

  const pushed = (data: readonly (Json | string)[], given: WireContext = context): readonly ModelEvent[] => {
    const decoder = anthropicMessages.decoder(given);
    const frames = data.map((one) => ({ event: null, data: typeof one === "string" ? one : JSON.stringify(one) }));
    return [...decoder.push(frames), ...decoder.end()];
  };
  const called = (events: readonly ModelEvent[]) => ({
    begun: events.flatMap((event) => (event.type === "tool_call_started" ? [event.id] : [])),
    kept: folded(events).toolCalls.map(({ id, arguments: given }) => [id, given]),
  });
  const start = (index: number, content_block: Json) => ({ type: "content_block_start", index, content_block });
  const input = (index: number, partial_json: string) => ({
    type: "content_block_delta",
    index,
    delta: { type: "input_json_delta", partial_json },
  });
  const stop = (index: number) => ({ type: "content_block_stop", index });
  const over = { type: "message_stop" };
  const use = (id: string) => ({ type: "tool_use", id, name: "step", input: {} });

  test("a repeated content_block_start makes no second call", () => {
    const once = { begun: ["x"], kept: [["x", { n: 1 }]] };
    const open = [start(0, use("x")), start(0, use("x")), input(0, '{"n":1}'), start(0, use("x")), stop(0), over];
    expect(called(pushed(open))).toEqual(once);
    const expectedEvents = [start(0, use("x")), input(0, '{"n":1}'), stop(0)];
    expect(called(pushed([...expectedEvents, ...expectedEvents, over]))).toEqual(once);
    const unnamed = [start(0, use("")), start(0, use("")), input(0, '{"n":1}'), stop(0), over];
    expect(called(pushed(unnamed))).toEqual({ begun: ["call_0"], kept: [["call_0", { n: 1 }]] });
  });

  test("two calls with the same id get different ids", () => {
    const both = { begun: ["x", "x~2"], kept: ["x", "x~2"].map((id, n) => [id, { n }]) };
    const blocks = [0, 1].flatMap((at) => [start(at, use("x")), input(at, `{"n":${at}}`), stop(at)]);
    expect(called(pushed([...blocks, over]))).toEqual(both);
    const content = [0, 1].map((n) => ({ ...use("x"), input: { n } }));
    expect(called(anthropicMessages.decodeReply({ content }, context))).toEqual(both);
    // Some servers use index 0 for all blocks.
    const flat = ["x", "y"].flatMap((id) => [start(0, use(id)), stop(0)]);
    expect(called(pushed([...flat, over])).begun).toEqual(["x", "y"]);
  });

  test("a call without an id gets a unique one", () => {
    const content = [use("call_1"), use("")];
    expect(called(anthropicMessages.decodeReply({ content }, context)).begun).toEqual(["call_1", "call_1~2"]);
  });

  test("unsigned thinking is shown and not sent back", () => {
    const think = { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm." } };
    const text = { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "Hi" } };
    const begin = start(0, { type: "thinking", thinking: "", signature: "" });
    const { message } = folded(
      pushed([begin, think, stop(0), start(1, { type: "text", text: "" }), text, stop(1), over]),
    );
    expect(message?.content).toMatchObject([
      { type: "reasoning", text: "Hm.", redacted: false, provider: null },
      { type: "text", text: "Hi" },
    ]);
    if (message === null) throw new Error("no message");
    expect(
      anthropicMessages.encode(request([user("hi"), message, user("go on")]), context).body["messages"],
    ).toMatchObject([
      { role: "user" },
      { role: "assistant", content: [{ type: "text", text: "Hi" }] },
      { role: "user" },
    ]);
  });

  test("W1: every event can be stored, whatever is nested too deep", () => {
    for (const depth of [130, 100_000]) {
      const deep = `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
      const blocks = [
        '{"type":"thinking","thinking":"Hm.","signature":"s","x":DEEP}',
        '{"type":"redacted_thinking","data":DEEP}',
        '{"type":"text","text":"Hi","citations":[DEEP]}',
        '{"type":"tool_use","id":"t","name":"n","input":DEEP}',
        '{"type":"web_search_tool_result","tool_use_id":"t","content":DEEP}',
        '{"type":"x","y":DEEP}',
      ];
      const frames = [
        ...blocks.map((block) => `{"type":"content_block_start","index":0,"content_block":${block}}`),
        '{"type":"error","error":{"type":"api_error","message":"no","x":DEEP}}',
        '{"error":{"message":"no","x":DEEP}}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":DEEP},"usage":{"x":DEEP}}',
        '{"type":"ping","x":DEEP}',
        '{"type":"new","x":DEEP}',
      ];
      for (const frame of frames) {
        const events = pushed([frame.replaceAll("DEEP", deep), over], { ...context, rawChunks: true });
        expect(terminals(events)).toBe(1);
        expect(events.filter((event) => !isEvent(event))).toEqual([]);
      }
      const bodies = [...blocks.map((block) => `{"content":[${block}]}`), '{"error":{"message":"no","x":DEEP}}'];
      for (const body of [...bodies, '{"content":[],"stop_sequence":DEEP,"usage":{"x":DEEP}}']) {
        const given = { ...context, rawChunks: true };
        const events = anthropicMessages.decodeReply(json(body.replaceAll("DEEP", deep)), given);
        expect(terminals(events)).toBe(1);
        expect(events.filter((event) => !isEvent(event))).toEqual([]);
      }
    }
  });

  test("metadata that cannot be stored is dropped and the reply is kept", () => {
    const deep = `${"[".repeat(130)}${"]".repeat(130)}`;
    const delta = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":${deep},"container":{"id":"c"}}}`;
    const end = pushed([start(0, { type: "text", text: "Hi" }), stop(0), delta, over]).at(-1);
    expect(end).toMatchObject({
      type: "message_completed",
      message: { content: [{ text: "Hi" }, { kind: "container" }] },
    });
    expect(end).toHaveProperty("metadata", { container: { id: "c" } });
  });

  test("an invalid token count is dropped and the others are kept", () => {
    const most = Number.MAX_SAFE_INTEGER;
    const spent = (usage: string) =>
      folded(
        pushed([start(0, { type: "text", text: "Hi" }), stop(0), `{"type":"message_delta","usage":${usage}}`, over]),
      );
    const sum = spent(`{"input_tokens":${most},"cache_read_input_tokens":${most},"output_tokens":5}`);
    expect(sum).toMatchObject({ error: null, outputText: "Hi", usage: { inputTokens: null, outputTokens: 5 } });
    const odd = spent(
      '{"input_tokens":1e20,"output_tokens":5,"server_tool_use":{"a_requests":1e999,"b_requests":2},"x":1e999}',
    );
    expect(odd).toMatchObject({ error: null, outputText: "Hi" });
    expect(odd.usage).toMatchObject({ inputTokens: null, outputTokens: 5, toolUsage: { b: 2 }, extra: {} });
  });

  test("[allm 112] classifies errors by status and type", () => {
    const fails = (status: number | null, type: string, message: string) =>
      anthropicMessages.decodeError(
        {
          status,
          body: { type: "error", error: { type, message }, request_id: "req_9" },
          requestId: null,
          retryAfterMs: 2,
        },
        context,
      );
    expect(fails(529, "overloaded_error", "Overloaded")).toMatchObject({
      reason: "provider_unavailable",
      retryable: true,
      code: "overloaded_error",
      requestId: "req_9",
    });
    expect(fails(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum").reason).toBe(
      "context_length_exceeded",
    );
    expect(fails(429, "rate_limit_error", "slow down")).toMatchObject({ reason: "rate_limited", retryAfterMs: 2 });
    expect(fails(401, "authentication_error", "invalid x-api-key").reason).toBe("authentication_failed");
    expect(fails(400, "invalid_request_error", "Your credit balance is too low")).toMatchObject({ retryable: false });
    expect(fails(null, "api_error", "Internal server error").reason).toBe("provider_unavailable");
    const page = { status: 502, body: "<html>bad gateway</html>", requestId: null, retryAfterMs: null };
    expect(anthropicMessages.decodeError(page, context).message).toContain("bad gateway");
  });
});

describe("replay", () => {
  /** The blocks in a body that carry replay data, as JSON text. */
  const opaque = (body: Json): readonly string[] =>
    JSON.stringify(body).match(/"(signature|data|encrypted_content|encrypted_index)":"[^"]*"/g) ?? [];

  function conversation(): readonly Message[] {
    const history: Message[] = [user("Weather in Oslo?")];
    for (const name of ["reasoning", "provider-tool", "reasoning"]) {
      const { message } = folded(decode([read(root, name, "stream.txt") ?? ""]));
      if (message === null) throw new Error("no message");
      history.push(message, ...message.toolCalls.map(({ id }) => toolResult(id, "4 °C")), user("Go on."));
      // A JSON round trip, as a host makes between steps.
      const stored = parse("thread", JSON.parse(JSON.stringify({ messages: history })));
      if (!stored.ok) throw new Error(JSON.stringify(stored.failure));
      history.splice(0, history.length, ...stored.value.messages);
    }
    return history;
  }

  test("W4: replay data is sent back byte for byte over three steps and a JSON round trip", () => {
    const { body, omissions } = anthropicMessages.encode(request(conversation()), context);
    expect(omissions).toEqual([]);
    // The second reply has a compaction block with content, in place of what is before it.
    expect(opaque(body)).toEqual([
      '"encrypted_content":"ZW5jLWNvbnRlbnQ="',
      '"encrypted_index":"ZW5jLWluZGV4"',
      '"signature":"RXFRQmFiYw=="',
      '"data":"ZW5jcnlwdGVk"',
    ]);
    // Each block is equal to that of the reply.
    const reply = JSON.parse(read(root, "provider-tool", "reply.json") ?? "null");
    expect(JSON.parse(JSON.stringify(body)).messages[0].content).toEqual(reply.content);
  });

  test.each([
    ["model", { ...route, model: "claude-opus-4-5" }],
    ["endpoint", { ...route, endpoint: "https://proxy.example/v1" }],
    ["provider", { ...route, provider: "bedrock" }],
  ])("W4: nothing of it is sent to another %s", (_, other) => {
    const { body, omissions } = anthropicMessages.encode(request(conversation()), { ...context, route: other });
    expect(opaque(body)).toEqual([]);
    expect(JSON.stringify(body)).toContain("It is 1094 km long.");
    expect(omissions.length).toBeGreaterThan(0);
    expect(omissions.every(({ reason }) => reason === "foreign_replay")).toBe(true);
    expect(omissions.map(({ path }) => path)).toContain("messages[1].content[0]");
  });

  describe("a call that the provider runs", () => {
    const use = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "a" } };
    const result = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
    const own = { type: "tool_use", id: "toolu_1", name: "look", input: {} };
    const text = { type: "text", text: "Wait." };
    const reply = (...content: readonly Json[]): Message => {
      const body = { type: "message", role: "assistant", content, stop_reason: "max_tokens" };
      const { message } = folded(anthropicMessages.decodeReply(body, context));
      if (message === null) throw new Error("no message");
      return message;
    };
    const contentAt = (at: number, ...messages: readonly Message[]): Json =>
      JSON.parse(JSON.stringify(anthropicMessages.encode(request(messages), context).body)).messages[at].content;

    test("is not sent without its result after the next user message", () => {
      expect(contentAt(1, user("a"), reply(text, use), user("b"))).toEqual([text]);
    });

    test("is sent without its result while it runs, and with a result in a later reply", () => {
      const paused = reply(text, use, own);
      const answered = [user("a"), paused, toolResult("toolu_1", "4")];
      expect(contentAt(1, user("a"), reply(text, use))).toEqual([text, use]);
      expect(contentAt(1, ...answered)).toEqual([text, use, own]);
      expect(contentAt(1, ...answered, reply(result, text), user("b"))).toEqual([text, use, own]);
    });

    test("is sent with the results of the program's calls that it waits for, also if a user message follows these", () => {
      const answered = [user("a"), reply(text, use, own), toolResult("toolu_1", "4"), user("b")];
      expect(contentAt(1, ...answered)).toEqual([text, use, own]);
      expect(contentAt(1, ...answered, reply(text), user("c"))).toEqual([text, own]);
    });

    test("is not sent if the later reply with its result came from another model", () => {
      const later = { ...context, route: { ...route, model: "claude-opus-4-5" } };
      const { message } = folded(
        anthropicMessages.decodeReply({ type: "message", role: "assistant", content: [result, text] }, later),
      );
      if (message === null) throw new Error("no message");
      expect(contentAt(1, user("a"), reply(text, use), message)).toEqual([text, text]);
      const { body } = anthropicMessages.encode(request([user("a"), reply(text, use), message]), later);
      expect(body["messages"]).toMatchObject([{}, { content: [text, text] }]);
    });
  });

  test("a call of a toolset is the same in a stream and in a whole reply, and is sent back unchanged", () => {
    const use = {
      type: "tool_use",
      id: "toolu_1",
      caller: { type: "direct" },
      name: "left_click",
      toolset_name: "computer",
      input: { coordinate: [1, 2] },
    };
    const frames = [
      { type: "message_start", message: { id: "msg_1", role: "assistant", content: [], usage: { input_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { ...use, input: {} } },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"coordinate"' } },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: ": [1, 2]}" } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    ];
    const events = decode(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`));
    expect(events.map(({ type }) => type)).not.toContain("tool_call_delta");
    const { message } = folded(events);
    if (message === null) throw new Error("no message");
    expect(message.toolCalls).toMatchObject([
      { id: "toolu_1", name: "computer", arguments: { action: "left_click", coordinate: [1, 2] } },
    ]);
    const whole = { id: "msg_1", type: "message", role: "assistant", content: [use], stop_reason: "tool_use" };
    expect(folded(anthropicMessages.decodeReply(whole, context)).message).toEqual(message);
    const { body } = anthropicMessages.encode(request([user("a"), message, toolResult("toolu_1", "ok")]), context);
    expect(JSON.parse(JSON.stringify(body)).messages.slice(1)).toEqual([
      { role: "assistant", content: [use] },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "ok", toolset_name: "computer" }],
      },
    ]);
  });
});

describe("the container of code execution", () => {
  const ended = { id: "container_1", expires_at: "2026-03-03T19:38:14.861782Z" };
  const reply = (container: JsonObject | null, more: JsonObject = {}): AssistantMessage => {
    const body = { content: [{ type: "text", text: "A" }], stop_reason: "end_turn", container, ...more };
    const { message } = folded(anthropicMessages.decodeReply(body, context));
    if (message === null) throw new Error("no message");
    return message;
  };
  const sent = (messages: readonly Message[], given: WireContext = context, options: JsonObject = {}): Json =>
    anthropicMessages.encode(request(messages, { options }), given).body["container"] ?? null;

  test("is sent back with the next request: its id, not its other fields", () => {
    const messages = [user("a"), reply(ended), user("b"), reply(null), user("c")];
    expect(sent(messages)).toBe("container_1");
    expect(sent([...messages, reply({ id: "container_2" }), user("d")])).toBe("container_2");
    expect(sent([user("a"), reply(null), user("b")])).toBeNull();
    const { body } = anthropicMessages.encode(request(messages), context);
    expect(body["messages"]).toMatchObject([{}, { content: [{ type: "text", text: "A" }] }, {}, {}, {}]);
  });

  test("is the same, streamed and whole", () => {
    const { stream, reply: whole } = cases.find(({ name }) => name === "provider-tool") ?? {};
    const messages = [
      folded(decode([stream ?? ""])),
      folded(anthropicMessages.decodeReply(json(whole ?? ""), context)),
    ];
    for (const { message } of messages) expect(sent([user("a"), message ?? user("b")])).toBe("container_1");
  });

  test("is not sent to another route, after its end, or in place of one that the caller names", () => {
    const messages = [user("a"), reply(ended), user("b")];
    expect(sent(messages, { ...context, route: { ...route, provider: "other" } })).toBeNull();
    expect(sent(messages, { ...context, isPast: () => true })).toBeNull();
    expect(sent(messages, { ...context, isPast: () => false })).toBe("container_1");
    expect(sent(messages, context, { container: "container_9" })).toBe("container_9");
    expect(sent(messages, context, { container: { skills: [] } })).toEqual({ id: "container_1", skills: [] });
  });
});
