// Chat completions as the `openai` package sees them over a real server with scripted models, and as this library's own
// adapter for compatible servers sees them.

import type { FakeScript, Engine } from "everturn";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionTool } from "openai/resources/chat/completions";

import { once } from "node:events";
import { createServer } from "node:http";

import { askUser, chat, engine, fake, finish, handoff, openaiCompatible, stream, tool, messageText } from "everturn";
import * as fc from "fast-check";
import OpenAI, { APIError, BadRequestError, InternalServerError, NotFoundError, RateLimitError } from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";

import { calls, plain, playing, says } from "../../../../test/runs.ts";
import { openaiChat, openaiModel, openaiModels } from "./chat.ts";

// ---- the server

const engines: { [name: string]: Engine } = {};
const reported: unknown[] = [];
const server = createServer((incoming, outgoing) => void serve(incoming, outgoing));
let baseURL = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  baseURL = `http://127.0.0.1:${address.port}/v1`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.on("close", () => gone.abort());
  const { pathname } = new URL(incoming.url ?? "", "http://localhost");
  const json = (status: number, headers: { readonly [name: string]: string }, body: unknown) =>
    outgoing.writeHead(status, { ...headers, "content-type": "application/json" }).end(JSON.stringify(body));
  if (pathname === "/v1/models") return void json(200, {}, openaiModels(engines));
  if (pathname.startsWith("/v1/models/")) {
    const { status, body } = openaiModel(engines, decodeURIComponent(pathname.slice("/v1/models/".length)));
    return void json(status, {}, body);
  }
  let text = "";
  for await (const chunk of incoming.setEncoding("utf8")) text += String(chunk);
  const onError = (error: unknown) => void reported.push(error);
  const answered = await openaiChat(engines, JSON.parse(text), {
    signal: gone.signal,
    allowsInstructions: true,
    onError,
  });
  if (answered.type === "reply") return void json(answered.status, answered.headers, answered.body);
  outgoing.writeHead(200, { "content-type": "text/event-stream" });
  for await (const frame of answered.frames)
    if (!outgoing.write(frame)) await once(outgoing, "drain").catch(() => undefined);
  outgoing.end();
}

// ---- helpers

const client = () => new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });

/** Serves an engine under a new model name. */
function serving(served: Engine): string {
  const name = `model-${Object.keys(engines).length}`;
  engines[name] = served;
  return name;
}

const weather: ChatCompletionTool = {
  type: "function",
  function: {
    name: "weather",
    description: "Tells the weather.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const hi = { role: "user", content: "Hi!" } as const;
const asksWeather: FakeScript = [
  { type: "tool_call_delta", id: "c0", name: "weather", argumentsDelta: '{"city"' },
  { type: "tool_call_delta", id: "c0", argumentsDelta: ':"Rome"}' },
];

async function chunksOf(chunks: AsyncIterable<ChatCompletionChunk>): Promise<readonly ChatCompletionChunk[]> {
  const all: ChatCompletionChunk[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

/** The error that OpenAI's client threw. */
async function errorOf(incoming: PromiseLike<unknown>): Promise<APIError> {
  const [error] = await Promise.allSettled([incoming]);
  if (error?.status === "rejected" && error.reason instanceof APIError) return error.reason;
  throw new Error("there was no error of the API");
}

/** One completion, streamed or not. */
async function complete(
  streamed: boolean,
  body: Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "stream">,
): Promise<ChatCompletion> {
  if (!streamed) return client().chat.completions.create(body);
  return client()
    .chat.completions.stream({ ...body, stream_options: { include_usage: true } })
    .finalChatCompletion();
}

const ways = [
  ["complete", false],
  ["streamed", true],
] as const;

// ---- tests

describe.each(ways)("%s", (_, streamed) => {
  test("answers a request with usage and the requested model name", async () => {
    const script: FakeScript = [
      { type: "reasoning", text: "A user is here." },
      { type: "text", text: "Hello, " },
      { type: "text", text: "Ada." },
      { type: "usage", usage: { inputTokens: 12, outputTokens: 3, cachedInputTokens: 4, reasoningTokens: 1 } },
    ];
    const { engine, adapter } = playing([script], [], { instructions: "Be brief." });
    const model = serving(engine);
    const messages = [{ role: "developer", content: "Be kind." }, hi] as const;
    const reply = await complete(streamed, { model, messages: [...messages] });
    expect(reply).toMatchObject({ object: "chat.completion", model, id: expect.stringMatching(/^chatcmpl-/) });
    expect(reply.choices).toMatchObject([
      { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello, Ada." } },
    ]);
    expect(reply.usage).toEqual({
      prompt_tokens: 12,
      completion_tokens: 3,
      total_tokens: 15,
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 1 },
    });
    const { messages: seen } = adapter.calls[0]?.request ?? { messages: [] };
    expect(seen.map((message) => [message.role, messageText(message)])).toEqual([
      ["system", "Be brief."],
      ["system", "Be kind."],
      ["user", "Hi!"],
    ]);
  });

  test("returns a call of the client's tool and accepts its result", async () => {
    const { engine, adapter } = playing([asksWeather, says("Clear.")]);
    const model = serving(engine);
    const question = { role: "user", content: "Weather in Rome?" } as const;
    const incoming = await complete(streamed, { model, messages: [question], tools: [weather] });
    const [choice] = incoming.choices;
    expect(choice?.finish_reason).toBe("tool_calls");
    expect(choice?.message.content).toBeNull();
    expect(choice?.message.tool_calls).toMatchObject([
      { id: "c0", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } },
    ]);
    if (choice === undefined) return;
    const result = { role: "tool", tool_call_id: "c0", content: "sunny" } as const;
    const answered = await complete(streamed, {
      model,
      messages: [question, choice.message, result],
      tools: [weather],
    });
    expect(answered.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "Clear." } });
    const { messages = [], tools = [] } = adapter.calls[1]?.request ?? {};
    expect(tools).toMatchObject([{ name: "weather", description: "Tells the weather." }]);
    expect(messages).toMatchObject([
      { role: "user" },
      { role: "assistant", toolCalls: [{ id: "c0", arguments: { city: "Rome" } }] },
      { role: "tool", toolCallId: "c0", content: "sunny" },
    ]);
  });

  test("gives each of several calls an index", async () => {
    const model = serving(playing([[...calls("weather", "time"), ...says("Two at once.")]]).engine);
    const time = { type: "function", function: { name: "time" } } as const;
    const reply = await complete(streamed, { model, messages: [hi], tools: [weather, time] });
    expect(reply.choices[0]?.message.content).toBe("Two at once.");
    expect(reply.choices[0]?.message.tool_calls).toMatchObject([
      { id: "c0", function: { name: "weather", arguments: "{}" } },
      { id: "c1", function: { name: "time", arguments: "{}" } },
    ]);
  });

  test("runs the engine's tools without showing their calls, and shows the text of all steps", async () => {
    const looks: FakeScript = [{ type: "text", text: "I look." }, ...calls("look")];
    const { engine, adapter } = playing([looks, says("A cat.")], [plain("look", () => "cat")]);
    const reply = await complete(streamed, { model: serving(engine), messages: [hi], tools: [weather] });
    expect(reply.choices[0]?.message).toMatchObject({ content: "I look.\n\nA cat." });
    expect(reply.choices[0]?.message.tool_calls ?? []).toEqual([]);
    expect(adapter.calls[1]?.request.messages.at(-1)).toMatchObject({ role: "tool", content: "cat" });
  });

  test("runs the engine's tools and returns the client's calls if a reply has both", async () => {
    let ran = 0;
    const { engine } = playing([calls("look", "weather")], [plain("look", () => (ran += 1))]);
    const reply = await complete(streamed, { model: serving(engine), messages: [hi], tools: [weather] });
    expect(reply.choices[0]?.finish_reason).toBe("tool_calls");
    expect(reply.choices[0]?.message.tool_calls).toMatchObject([{ id: "c1", function: { name: "weather" } }]);
    expect(ran).toBe(1);
  });

  test("returns only the JSON answer for a schema, also after a tool call", async () => {
    const Sky = z.object({ sky: z.enum(["clear", "cloudy"]) });
    const response_format = zodResponseFormat(Sky, "sky");
    const looks: FakeScript = [{ type: "text", text: "I look." }, ...calls("look")];
    const { engine, adapter } = playing([looks, says('{"sky":"clear"}')], [plain("look", () => "blue")]);
    const body = { model: serving(engine), messages: [hi], response_format };
    const reply = streamed
      ? await client().chat.completions.stream(body).finalChatCompletion()
      : await client().chat.completions.parse(body);
    expect(reply.choices[0]?.message.parsed).toEqual({ sky: "clear" });
    expect(adapter.calls[0]?.request.responseFormat).toMatchObject({ type: "json_schema", name: "sky", strict: true });
  });

  test("ends with finish_reason length at a limit of the engine and names the limit", async () => {
    const look = plain("look", () => "cat");
    const { engine } = playing([calls("look"), calls("look")], [look], { options: { maxTurns: 2 } });
    const reply = await complete(streamed, { model: serving(engine), messages: [hi] });
    expect(reply).toMatchObject({ choices: [{ finish_reason: "length" }], everturn: { halted_reason: "max_turns" } });
  });

  test("returns the value of a tool that finishes the run", async () => {
    const { engine } = playing([calls("look")], [plain("look", () => finish({ seen: "cat" }))]);
    const reply = await complete(streamed, { model: serving(engine), messages: [hi] });
    expect(reply.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: '{"seen":"cat"}' } });
  });

  test.each([
    ["length", "length"],
    ["content_filter", "content_filter"],
    ["other", "stop"],
  ] as const)("maps the finish reason %s of the model to %s", async (reason, finishReason) => {
    const model = serving(playing([[...says("Once upon"), { type: "finish", reason }]]).engine);
    const reply = await client().chat.completions.create({ model, messages: [hi] });
    expect(reply.choices[0]).toMatchObject({ finish_reason: finishReason, message: { content: "Once upon" } });
    const again = serving(playing([[...says("Once upon"), { type: "finish", reason }]]).engine);
    const chunks = await chunksOf(
      await client().chat.completions.create({ model: again, messages: [hi], stream: true }),
    );
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe(finishReason);
  });

  test.each([
    ["approval", { ...plain("pay", () => "paid"), needsApproval: true, prepare: gated }],
    ["ask_user", plain("pay", () => askUser("Really?"))],
    ["manual_tool_calls", { ...plain("pay"), manual: true }],
    ["handoff", plain("pay", () => handoff("billing", "pay"))],
  ])("a pending call of kind %s ends with an error", async (code, pay) => {
    const model = serving(playing([calls("pay")], [pay]).engine);
    const error = await errorOf(complete(streamed, { model, messages: [hi] }));
    expect(error).toMatchObject({ code, type: "invalid_request_error" });
    // The call was streamed before the failure, so the stream has started.
    expect(error.status).toBe(streamed ? undefined : 422);
  });

  test.each([
    ["rate_limited", 429, RateLimitError],
    ["context_length_exceeded", 400, BadRequestError],
    ["authentication_failed", 502, InternalServerError],
    ["provider_unavailable", 503, InternalServerError],
    ["timeout", 504, InternalServerError],
  ] as const)("maps a model failure %s before any output to status %i", async (reason, status, type) => {
    const fails: FakeScript = [{ type: "error", reason, message: "secret words", retryable: false }];
    const model = serving(playing([fails]).engine);
    const error = await errorOf(complete(streamed, { model, messages: [hi] }));
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({ status, code: reason });
    expect(error.message.includes("secret words")).toBe(status === 400);
  });

  test("reports a missing provider key to the operator and not to the client", async () => {
    const model = serving(playing([[{ type: "preflight_error", reason: "authentication_failed" }]]).engine);
    const before = reported.length;
    const error = await errorOf(complete(streamed, { model, messages: [hi] }));
    expect(error).toMatchObject({ status: 502, code: "authentication_failed" });
    expect(reported.slice(before)).toMatchObject([{ failure: { reason: "authentication_failed" } }]);
  });

  test("does not disclose an error thrown by code of the operator", async () => {
    const options = {
      haltWhen: () => {
        throw new Error("the password is swordfish");
      },
    };
    const { engine } = playing([calls("look")], [plain("look", () => "cat")], { options });
    const error = await errorOf(complete(streamed, { model: serving(engine), messages: [hi] }));
    expect(error.code).toBe("internal");
    expect(error.message).not.toContain("swordfish");
    expect(reported.at(-1)).toMatchObject({ message: "the password is swordfish" });
  });

  test("does not list the models in the error for an unknown model", async () => {
    for (const name of ["gpt-9", "constructor", "__proto__"]) {
      const error = await errorOf(complete(streamed, { model: name, messages: [hi] }));
      expect(error).toBeInstanceOf(NotFoundError);
      expect(error).toMatchObject({ code: "model_not_found", param: "model" });
      expect(error.message).not.toContain("model-0");
    }
  });
});

/** Always requires approval. */
async function gated() {
  return { ok: true as const, needsApproval: () => true, run: () => "paid" };
}

describe("streaming completions", () => {
  test("starts with the role and ends with the finish reason and, if requested, the usage", async () => {
    const scripts = [says("Hello."), says("Hello.")];
    const adapter = fake({ scripts, usage: { inputTokens: 2, outputTokens: 1 } });
    const body = { model: serving(engine({ adapter })), messages: [hi], stream: true as const };
    const received = await chunksOf(await client().chat.completions.create(body));
    expect(received.map(({ choices }) => choices[0]?.delta)).toEqual([
      { role: "assistant", content: "" },
      { content: "Hello." },
      {},
    ]);
    expect(received.some((chunk) => "usage" in chunk)).toBe(false);
    const incoming = await chunksOf(
      await client().chat.completions.create({ ...body, stream_options: { include_usage: true } }),
    );
    expect(incoming.map(({ usage }) => usage?.total_tokens ?? null)).toEqual([null, null, null, 3]);
    expect(incoming.at(-1)?.choices).toEqual([]);
  });

  test("ends with an error frame if the model call fails after output", async () => {
    const breaks: FakeScript = [...says("Once upon"), { type: "stream_error", reason: "interrupted" }];
    const model = serving(playing([breaks]).engine);
    let shown = "";
    const reading = (async () => {
      const chunks = await client().chat.completions.create({ model, messages: [hi], stream: true });
      for await (const chunk of chunks) shown += chunk.choices[0]?.delta.content ?? "";
    })();
    const error = await errorOf(reading);
    expect(error).toMatchObject({ code: "interrupted", type: "server_error" });
    expect(shown).toBe("Once upon");
  });

  test("is neither retried nor sent to a fallback model after output", async () => {
    const breaks: FakeScript = [...says("Once upon"), { type: "stream_error", reason: "interrupted", retryable: true }];
    const retrying = playing([breaks, says("never")], [], { retry: { afterOutput: true } });
    const body = { messages: [hi], stream: true as const };
    const ask = async (model: string) => chunksOf(await client().chat.completions.create({ ...body, model }));
    expect(await errorOf(ask(serving(retrying.engine)))).toMatchObject({ code: "interrupted" });
    const falling = playing([breaks, says("never")], [], { fallback: ["fake:other"] });
    expect(await errorOf(ask(serving(falling.engine)))).toMatchObject({ code: "step_reset" });
    expect(retrying.adapter.remaining).toBe(1);
    // Without streaming nothing has been sent yet, so the fallback model answers.
    const whole = playing([breaks, says("Once more.")], [], { fallback: ["fake:other"] });
    const reply = await client().chat.completions.create({ model: serving(whole.engine), messages: [hi] });
    expect(reply.choices[0]?.message.content).toBe("Once more.");
  });

  test("aborts the run when the client leaves the stream", async () => {
    const waits: FakeScript = [...says("Once"), { type: "delay", ms: 1000 }, ...says(" upon")];
    const { engine, adapter } = playing([waits]);
    const chunks = await client().chat.completions.create({ model: serving(engine), messages: [hi], stream: true });
    for await (const chunk of chunks) if (chunk.choices[0]?.delta.content === "Once") chunks.controller.abort();
    await expect.poll(() => adapter.closed).toBe(1);
  });

  test("aborts the run at once when the client leaves a silent stream", async () => {
    const { engine, adapter } = playing([[...says("Once"), { type: "delay", ms: 1000 }]]);
    const answered = await openaiChat({ m: engine }, { model: "m", messages: [hi], stream: true });
    if (answered.type !== "stream") throw new Error("no stream");
    const frames = answered.frames[Symbol.asyncIterator]();
    expect((await frames.next()).value).toMatch(/^data: \{.*\}\n\n$/);
    expect((await frames.next()).value).toContain('"Once"');
    const silence = frames.next();
    await frames.return?.();
    await silence;
    expect(await frames.next()).toEqual({ done: true, value: undefined });
    expect(adapter.closed).toBe(1);
  });

  test("aborts a completion that is not streamed when the signal aborts", async () => {
    const { engine, adapter } = playing([[{ type: "delay", ms: 1000 }]]);
    const gone = new AbortController();
    const incoming = openaiChat({ m: engine }, { model: "m", messages: [hi] }, { signal: gone.signal });
    await expect.poll(() => adapter.calls.length).toBe(1);
    gone.abort();
    expect(await incoming).toMatchObject({ status: 499, body: { error: { code: "cancelled" } } });
    expect(adapter.closed).toBe(1);
  });
});

test("tells the client not to retry once tools of the engine have run", async () => {
  let ran = 0;
  const fails: FakeScript = [{ type: "error", reason: "provider_unavailable" }];
  const { engine, adapter } = playing([calls("look"), fails, says("again")], [plain("look", () => (ran += 1))], {
    retry: false,
  });
  const trying = new OpenAI({ baseURL, apiKey: "none", maxRetries: 2 });
  const error = await errorOf(trying.chat.completions.create({ model: serving(engine), messages: [hi] }));
  expect(error).toMatchObject({ status: 503, code: "provider_unavailable" });
  expect([ran, adapter.remaining]).toEqual([1, 1]);
});

test("streamed and complete responses result in the same message for any chunking", async () => {
  const words = fc.constantFrom("a", " ", "\n\n", "b\n", "");
  const text = fc.record({ type: fc.constant("text" as const), text: words });
  const call = (name: string) => fc.constant({ type: "tool_call", name, id: name, arguments: { n: 1 } } as const);
  const answered = fc.array(text, { maxLength: 4 });
  const own = answered.map((pieces): FakeScript => [...pieces, { type: "tool_call", name: "look", id: "own" }]);
  const last = fc.oneof(
    answered,
    fc.tuple(answered, call("weather")).map(([pieces, one]): FakeScript => [...pieces, one]),
  );
  const message = async (scripts: readonly FakeScript[], streamed: boolean) => {
    const model = serving(playing(scripts, [plain("look", () => "cat")]).engine);
    const { choices } = await complete(streamed, { model, messages: [hi], tools: [weather] });
    const { content, tool_calls = [] } = choices[0]?.message ?? {};
    const made = tool_calls.map((one) => (one.type === "function" ? [one.id, one.function] : []));
    return { content: content ?? "", made: JSON.stringify(made), finish: choices[0]?.finish_reason };
  };
  await fc.assert(
    fc.asyncProperty(fc.array(own, { maxLength: 2 }), last, async (before, end) => {
      const scripts = [...before, end];
      const whole = await message(scripts, false);
      const streamed = await message(scripts, true);
      expect({ ...streamed, made: normal(streamed.made) }).toEqual({ ...whole, made: normal(whole.made) });
    }),
    { numRuns: 25 },
  );
});

/** The client's helpers add `parsed: null` to messages. */
function normal(made: string): string {
  return made.replaceAll(',"parsed_arguments":null', "");
}

describe("helpers of the openai package", () => {
  const runnable = (received: string[]) => ({
    type: "function" as const,
    function: {
      name: "weather",
      description: "Tells the weather.",
      parameters: { type: "object", properties: { city: { type: "string" } } },
      parse: JSON.parse,
      function: ({ city }: { readonly city: string }) => {
        received.push(city);
        return "sunny";
      },
    },
  });

  test.each(ways)("runTools runs the client's tools (%s)", async (_, streamed) => {
    const received: string[] = [];
    const { engine, adapter } = playing([asksWeather, says("Clear.")]);
    const body = { model: serving(engine), messages: [hi], tools: [runnable(received)] };
    const runner = streamed
      ? client().chat.completions.runTools({ ...body, stream: true })
      : client().chat.completions.runTools(body);
    expect(await runner.finalContent()).toBe("Clear.");
    expect(received).toEqual(["Rome"]);
    adapter.assertUsedUp();
  });

  test("the stream helper delivers chunks and the complete message", async () => {
    const model = serving(playing([[...says("Hello, "), ...says("Ada.")]]).engine);
    const pieces: string[] = [];
    const helper = client().chat.completions.stream({ model, messages: [hi] });
    helper.on("content", (piece) => void pieces.push(piece));
    expect(await helper.finalContent()).toBe("Hello, Ada.");
    expect(pieces.filter((piece) => piece !== "")).toEqual(["Hello, ", "Ada."]);
  });

  test("models are listed and retrieved by name", async () => {
    const model = serving(playing([]).engine);
    const listed = await client().models.list();
    expect(listed.data.find(({ id }) => id === model)).toMatchObject({ object: "model", owned_by: "everturn" });
    expect(await client().models.retrieve(model)).toMatchObject({ id: model });
    expect(await errorOf(client().models.retrieve("gpt-9"))).toBeInstanceOf(NotFoundError);
  });
});

describe("request settings within the limits of the engine", () => {
  test("passes sampling settings on, uses the lower of two limits, and combines stop sequences", async () => {
    const params = { maxTokens: 100, temperature: 1, stopSequences: ["END"], reasoning: { effort: "medium" } };
    const { engine, adapter } = playing([says("a"), says("b")], [], { params });
    const model = serving(engine);
    const body = { model, messages: [hi], temperature: 0.5, top_p: 0.9, seed: 7, stop: "STOP" };
    await client().chat.completions.create({ ...body, max_completion_tokens: 500, reasoning_effort: "high" });
    await client().chat.completions.create({ ...body, max_tokens: 50, reasoning_effort: "low" });
    const incoming = { temperature: 0.5, topP: 0.9, seed: 7, stopSequences: ["END", "STOP"] };
    expect(adapter.calls[0]?.request).toMatchObject({ ...incoming, maxTokens: 100, reasoning: { effort: "medium" } });
    expect(adapter.calls[1]?.request).toMatchObject({ ...incoming, maxTokens: 50, reasoning: { effort: "low" } });
  });

  test("passes images, audio and files on with their media types", async () => {
    const { engine, adapter } = playing([says("A cat.")]);
    await client().chat.completions.create({
      model: serving(engine),
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=", detail: "low" } },
            { type: "image_url", image_url: { url: "https://example.com/cat.png" } },
            { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
            { type: "file", file: { file_data: "data:application/pdf;base64,JVBERi0=", filename: "cat.pdf" } },
          ],
        },
      ],
    });
    expect(adapter.calls[0]?.request.messages[0]?.content).toMatchObject([
      { type: "text", text: "What is this?" },
      {
        type: "image",
        detail: "low",
        image: { mimeType: "image/png", source: { type: "base64", data: "iVBORw0KGgo=" } },
      },
      { type: "image", detail: "auto", image: { source: { type: "url", url: "https://example.com/cat.png" } } },
      { type: "file", mimeType: "audio/wav", source: { type: "base64", data: "AAAA" } },
      { type: "file", mimeType: "application/pdf", name: "cat.pdf", source: { data: "JVBERi0=" } },
    ]);
  });

  test("restricts tool_choice to the client's tools; none leaves the engine's tools", async () => {
    const look = plain("look", () => "cat");
    const { engine, adapter } = playing([says("a"), says("b"), says("c")], [look]);
    const body = { model: serving(engine), messages: [hi], tools: [weather] };
    const named = { type: "function", function: { name: "weather" } } as const;
    await client().chat.completions.create({ ...body, tool_choice: named, parallel_tool_calls: false });
    await client().chat.completions.create({ ...body, tool_choice: "required" });
    await client().chat.completions.create({ ...body, tool_choice: "none" });
    const seen = adapter.calls.map(({ request: { tools, toolChoice, parallelToolCalls } }) => [
      tools.map(({ name }) => name),
      toolChoice,
      parallelToolCalls,
    ]);
    expect(seen).toEqual([
      [["look", "weather"], { type: "tool", name: "weather" }, false],
      [["look", "weather"], "required", null],
      [["look"], "auto", null],
    ]);
  });

  test("rejects a tool with the name of an engine's tool, and a response format if the engine has its own", async () => {
    const taken = serving(playing([], [plain("weather", () => "mine")]).engine);
    expect(await errorOf(complete(false, { model: taken, messages: [hi], tools: [weather] }))).toMatchObject({
      status: 400,
      param: "tools[0].function.name",
      code: "duplicate_name",
    });
    const formed = serving(playing([], [], { options: { output: { type: "object" } } }).engine);
    const response_format = { type: "json_object" } as const;
    expect(await errorOf(complete(false, { model: formed, messages: [hi], response_format }))).toMatchObject({
      status: 400,
      param: "response_format",
    });
  });

  test("holds an answer back until it conforms to the schema of the engine", async () => {
    const options = { output: { type: "object" }, repair: 1 };
    const { engine } = playing([says("Sunny!"), says('{"sky":"clear"}')], [], { options });
    const reply = await complete(true, { model: serving(engine), messages: [hi] });
    expect(reply.choices[0]?.message.content).toBe('{"sky":"clear"}');
    const failing = serving(playing([says("Sunny!")], [], { options: { output: { type: "object" } } }).engine);
    expect(await errorOf(complete(false, { model: failing, messages: [hi] }))).toMatchObject({
      status: 502,
      code: "invalid_output",
    });
  });
});

describe("an engine that calls another Everturn server", () => {
  const over = (served: Engine) => ({ adapter: openaiCompatible({ name: "below", baseURL }), model: serving(served) });

  test("receives text, tool calls and usage", async () => {
    const clear = { type: "usage", usage: { inputTokens: 5, outputTokens: 2 } } as const;
    const { engine: below, adapter } = playing([asksWeather, [...says("Clear."), clear]], [], { instructions: "Be." });
    const weatherOf = tool({
      name: "weather",
      description: "Tells the weather.",
      schema: z.object({ city: z.string() }),
      handler: ({ city }) => `sunny in ${city}`,
    });
    const above = engine({ ...over(below), tools: [weatherOf], instructions: "Ask." });
    const events = stream(above, "Weather in Rome?");
    let shown = "";
    for await (const event of events) if (event.type === "text_delta") shown += event.delta;
    const { haltedReason, usage, steps } = await events.result;
    expect({ shown, haltedReason, steps: steps.length }).toEqual({
      shown: "Clear.",
      haltedReason: "completed",
      steps: 2,
    });
    expect(usage).toMatchObject({ inputTokens: 5, outputTokens: 2 });
    expect(adapter.calls[1]?.request.messages.map(({ role }) => role)).toEqual([
      "system",
      "system",
      "user",
      "assistant",
      "tool",
    ]);
    expect(adapter.calls[1]?.request.messages.at(-1)?.content).toBe("sunny in Rome");
  });

  test.each(["rate_limited", "context_length_exceeded", "content_filter", "provider_unavailable", "timeout"] as const)(
    "receives the failure reason %s",
    async (reason) => {
      const below = playing([[{ type: "error", reason, retryable: false }]]).engine;
      const { metadata } = await chat(engine({ ...over(below), retry: false }), "Hi!");
      expect(metadata.error).toMatchObject({ type: "adapter_error", reason });
    },
  );

  test("receives an answer that conforms to a schema", async () => {
    const below = playing([says('{"sky":"clear"}')]).engine;
    const output = z.object({ sky: z.string() });
    expect((await chat(engine(over(below)), "The sky?", { output })).output).toEqual({ sky: "clear" });
  });
});
