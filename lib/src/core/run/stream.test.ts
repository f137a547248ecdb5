// Streaming verbs: the events and their order, filters, failures, backpressure, and leaving a stream early.

import type { FakeScript, TurnEvent } from "everturn";
import type { FinishReason } from "everturn/advanced";

import {
  askUser,
  chat,
  engine,
  fake,
  generate,
  halt,
  step,
  stream,
  streamGenerate,
  streamStep,
  assistant,
  fromMessages,
  messageText,
  textPart,
  toolResult,
  user,
  validateThread,
} from "everturn";
import { collectChat, UnknownToolError, request, toolSpec } from "everturn/advanced";
import { transcript } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";
import { line } from "../../testing/transcript.ts";
import { reasoningPart } from "../model/internal.ts";

const ok = plain("ok", () => "fine");

describe("[allm 19] streams are lazy", () => {
  test.each([
    ["streamGenerate", streamGenerate],
    ["streamStep", streamStep],
    ["stream", stream],
  ] as const)("%s calls no model before it is read", async (_, verb) => {
    const { engine: of, adapter } = playing([says("Hello.")]);
    const events: AsyncIterable<TurnEvent> = verb(of, "hi");
    await new Promise((resolve) => setImmediate(resolve));
    expect(adapter.calls).toHaveLength(0);
    await transcript(events);
    expect(adapter.calls).toHaveLength(1);
  });

  test("creating a stream calls no model, and a stream can be iterated once", async () => {
    const { engine: of, adapter } = playing([says("Hello.")]);
    const events = stream(of, "hi");
    await new Promise((resolve) => setImmediate(resolve));
    expect(adapter.calls).toHaveLength(0);
    expect(await events.text).toBe("Hello.");
    expect(adapter.calls).toHaveLength(1);
  });

  test("errors before the run are thrown when the verb is called, awaited and streamed", async () => {
    expect(() => stream(engine(), "hi")).toThrow(/no adapter/);
    await expect(chat(engine(), "hi")).rejects.toThrow(/no adapter/);
  });
});

describe("[lash 97] the order of events", () => {
  test("[allm 20] a model call: started, deltas, calls, completed", async () => {
    const { engine: of } = playing([
      [
        { type: "text", text: "Hel" },
        { type: "text", text: "lo" },
        { type: "tool_call", id: "c0", name: "ok" },
        { type: "tool_call_delta", id: "c1", name: "ok", argumentsDelta: '{"a"' },
        { type: "tool_call_delta", id: "c1", argumentsDelta: ":1}" },
        { type: "usage", usage: { inputTokens: 1 } },
        { type: "finish", reason: "tool_calls", trailing: [{ type: "raw_chunk", chunk: "[DONE]" }] },
      ],
    ]);
    expect(await transcript(streamGenerate(of, "hi", { includeRawChunks: true }))).toEqual([
      "message_started",
      'text_delta "Hel"',
      'text_delta "lo"',
      "tool_call_started c0 ok",
      "tool_call_completed c0 ok",
      "tool_call_started c1 ok",
      'tool_call_delta c1 "{\\"a\\""',
      'tool_call_delta c1 ":1}"',
      "tool_call_completed c1 ok",
      "usage",
      'text_completed "Hello"',
      "message_completed tool_calls",
      "raw_chunk",
    ]);
  });

  test("[allm 21] [allm 22] [allm 23] [allm 122] a run: for each step its reply, its tools as they end, step_completed; then chat_completed", async () => {
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    expect(await transcript(stream(of, "hi"))).toEqual([
      "message_started",
      "tool_call_started c0 ok",
      "tool_call_completed c0 ok",
      "message_completed tool_calls",
      "tool_execution_started c0 ok",
      "tool_execution_completed c0 success",
      "tool_result_encoded c0 fine",
      "step_completed tool_calls",
      "message_started",
      'text_delta "Done."',
      'text_completed "Done."',
      "message_completed stop",
      "step_completed stop",
      "chat_completed completed",
    ]);
    const single = playing([calls("ok"), says("Done.")], [ok]);
    expect(await transcript(streamStep(single.engine, "hi"))).toEqual([
      "message_started",
      "tool_call_started c0 ok",
      "tool_call_completed c0 ok",
      "message_completed tool_calls",
      "tool_execution_started c0 ok",
      "tool_execution_completed c0 success",
      "tool_result_encoded c0 fine",
      "step_completed tool_calls",
    ]);
    expect(single.adapter.remaining).toBe(1);
  });

  test("[allm 22] the events of several tools are in the order in which the tools end", async () => {
    let finish = (): void => undefined;
    const first = plain("first", () => new Promise((resolve) => (finish = () => resolve("one"))));
    const second = plain("second", () => "two");
    const seen: string[] = [];
    for await (const event of streamStep(playing([calls("first", "second")], [first, second]).engine, "hi")) {
      if (event.type.startsWith("tool_execution") || event.type === "tool_result_encoded") seen.push(line(event));
      if (event.type === "tool_result_encoded" && event.id === "c1") finish();
    }
    expect(seen).toEqual([
      "tool_execution_started c0 first",
      "tool_execution_started c1 second",
      "tool_execution_completed c1 success",
      "tool_result_encoded c1 two",
      "tool_execution_completed c0 success",
      "tool_result_encoded c0 one",
    ]);
  });

  test("[allm 23] a stream that is left early has no further step_completed and no chat_completed", async () => {
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    const seen: string[] = [];
    const events = stream(of, "hi");
    for await (const { type } of events) {
      seen.push(type);
      if (type === "text_delta") break;
    }
    expect((await events.result).haltedReason).toBe("cancelled");
    expect(seen.filter((type) => type === "step_completed" || type === "chat_completed")).toEqual(["step_completed"]);
  });

  test("[allm 122] tool_execution_started is live: the reader gets it while the tool runs", async () => {
    let finish = (): void => undefined;
    const slow = plain("slow", () => new Promise((resolve) => (finish = () => resolve("fine"))));
    const seen: string[] = [];
    for await (const { type } of stream(playing([calls("slow"), says("Done.")], [slow]).engine, "hi")) {
      seen.push(type);
      if (type === "tool_execution_started") {
        expect(seen).not.toContain("tool_execution_completed");
        finish();
      }
    }
    expect(seen).toContain("tool_execution_completed");
  });

  test("[allm 122] every call is answered: of a truncated reply, with an unknown tool, and when the run is left early", async () => {
    const cut = [...calls("ok", "ok"), { type: "finish", reason: "length" } as const];
    const never = plain("never", () => new Promise(() => undefined));
    const truncated = await chat(playing([cut], [ok]).engine, "hi");
    const unknown = await chat(playing([calls("ok", "missing")], [ok]).engine, "hi");
    // The clock of the engine stands still, so a cancel grace would not end.
    const options = { cancelGraceMs: 0 };
    const left = stream(playing([calls("ok", "never")], [ok, never], { options }).engine, "hi");
    for await (const { type } of left) if (type === "tool_execution_completed") break;
    for (const { thread } of [truncated, unknown, await left.result]) {
      const answers = thread.messages.filter(({ role }) => role === "tool");
      expect(answers.map((answer) => answer.role === "tool" && answer.toolCallId)).toEqual(["c0", "c1"]);
      expect(validateThread(thread).ok).toBe(true);
    }
  });

  test("tools emit their events in completion order, and are in the thread in call order", async () => {
    let open: (said: string) => void = () => undefined;
    const gate = new Promise<string>((resolve) => (open = resolve));
    const waits = plain("waits", () => gate);
    const { engine: of } = playing([calls("waits", "ok"), says("Done.")], [waits, ok]);
    const lines: string[] = [];
    for await (const event of stream(of, "hi")) {
      lines.push(line(event));
      if (event.type === "tool_result_encoded" && event.id === "c1") open("late");
    }
    expect(lines.filter((entry) => /^tool_(?:execution_completed|result)/.test(entry))).toEqual([
      "tool_execution_completed c1 success",
      "tool_result_encoded c1 fine",
      "tool_execution_completed c0 success",
      "tool_result_encoded c0 late",
    ]);
  });
});

describe("[allm 24] [allm 47] step_completed", () => {
  test("the event has the mode and the manual calls", async () => {
    const eventOf = async (...args: Parameters<typeof streamStep>) => {
      const events: TurnEvent[] = [];
      for await (const event of streamStep(...args)) events.push(event);
      return events.at(-1);
    };
    const mixed = playing([calls("ok", "own")], [ok, { ...plain("own"), manual: true }]).engine;
    expect(await eventOf(mixed, "hi")).toMatchObject({
      type: "step_completed",
      mode: "auto",
      manualToolCalls: [{ id: "c1" }],
    });
    const manual = playing([calls("ok")], [ok]).engine;
    expect(await eventOf(manual, "hi", { mode: "manual" })).toMatchObject({ type: "step_completed", mode: "manual" });
  });

  test("the metadata of a step has the details of its outcome", async () => {
    const metadataOf = async (handler: () => unknown, options: Parameters<typeof step>[2] = {}) => {
      const { metadata, done } = await step(playing([calls("t")], [plain("t", handler)]).engine, "hi", options);
      return { metadata, done };
    };
    const boom = () => {
      throw new Error("boom");
    };
    expect(await metadataOf(() => 1)).toEqual({ done: false, metadata: {} });
    expect(await metadataOf(() => askUser("Which?", { choices: ["a"] }))).toEqual({
      done: true,
      metadata: {
        haltedReason: "ask_user",
        pendingQuestion: "Which?",
        pendingToolCallId: "c0",
        askUserOpts: { choices: ["a"] },
      },
    });
    expect(await metadataOf(() => halt("enough", { n: 1 }))).toEqual({
      done: true,
      metadata: { haltedReason: "enough", haltToolCallId: "c0", haltResult: { n: 1 } },
    });
    expect(await metadataOf(boom, { onToolError: "halt" })).toMatchObject({
      done: true,
      metadata: { haltedReason: "tool_error", haltToolCallId: "c0" },
    });
    expect(await step(playing([says("Done.")]).engine, "hi")).toMatchObject({ done: true, metadata: {} });
  });

  test("names the mode and the manual calls", async () => {
    const own = plain("own");
    const mixed = playing([calls("ok", "own")], [ok, { ...own, manual: true }]);
    const result = await step(mixed.engine, "hi");
    expect(result.metadata).toMatchObject({ manualToolCalls: [{ id: "c1" }] });
    expect(result.pendingToolCalls).toMatchObject([{ id: "c1", reason: "manual" }]);
    const manual = playing([calls("ok")], [ok]);
    expect((await step(manual.engine, "hi", { mode: "manual" })).metadata).toEqual({ mode: "manual" });
  });
});

describe("event filters", () => {
  const noisy = () =>
    playing([
      [
        { type: "text", text: "Hel" },
        { type: "text", text: "lo" },
        { type: "raw_chunk", chunk: { raw: 1 } },
        { type: "tool_call_delta", id: "c0", name: "ok", argumentsDelta: "{}" },
        { type: "usage", usage: { inputTokens: 3 } },
        { type: "finish", reason: "stop" },
      ],
    ]).engine;
  const typesOf = async (events: AsyncIterable<TurnEvent>) =>
    (await transcript(events)).map((entry) => entry.split(" ")[0] ?? "");

  test("[allm 25] [allm 26] apply when events are handed to the reader; usage is never filtered", async () => {
    expect(await typesOf(streamGenerate(noisy(), "hi"))).not.toContain("raw_chunk");
    expect(await typesOf(streamGenerate(noisy(), "hi", { includeRawChunks: true }))).toContain("raw_chunk");
    const quiet = await typesOf(streamGenerate(noisy(), "hi", { emitTextDeltas: false, emitToolDeltas: false }));
    expect(quiet).not.toContain("text_delta");
    expect(quiet).not.toContain("tool_call_delta");
    expect(quiet).toContain("usage");
    const filters = { emitTextDeltas: false, emitToolDeltas: false, includeRawChunks: true, requestId: "r" };
    expect(await generate(noisy(), "hi", filters)).toEqual(await generate(noisy(), "hi", { requestId: "r" }));
  });

  test("[allm 25] [allm 45] G5: change no result: the text is complete also if the model sends it only as deltas", async () => {
    const message = assistant("");
    const terse = {
      provider: "terse",
      async *stream() {
        yield [{ type: "message_started", message: assistant("") } as const];
        yield [{ type: "text_delta", id: null, delta: "Hello" } as const];
        yield [
          {
            type: "message_completed",
            message,
            finishReason: "stop",
            rawFinishReason: null,
            requestId: null,
            responseId: null,
            model: null,
            route: null,
            output: null,
            metadata: {},
          } as const,
        ];
      },
    };
    const of = engine({ adapter: terse });
    expect((await generate(of, "hi", { emitTextDeltas: false })).outputText).toBe("Hello");
    expect(await stream(of, "hi", { emitTextDeltas: false }).text).toBe("Hello");
    expect((await chat(of, "hi", { emitTextDeltas: false })).thread.messages.map(messageText)).toEqual(["hi", "Hello"]);
  });

  test("[allm 27] do not affect onEvent, and an exception of onEvent reaches the reader", async () => {
    const seen: string[] = [];
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    await chat(of, "hi", { emitTextDeltas: false, onEvent: ({ type }) => void seen.push(type) });
    expect(seen).toEqual([
      "message_started",
      "tool_call_started",
      "tool_call_completed",
      "message_completed",
      "message_started",
      "text_delta",
      "text_completed",
      "message_completed",
    ]);
    const broken = stream(playing([says("Hello.")]).engine, "hi", {
      onEvent: () => {
        throw new RangeError("mine");
      },
    });
    await expect(transcript(broken)).rejects.toThrow(new RangeError("mine"));
  });
});

describe("[allm 42] checks before the run", () => {
  test("come in the order misuse, adapter, thread, request", async () => {
    await expect(chat(engine(), [], { maxTurns: 0 })).rejects.toThrow(/maxTurns must be a whole number of 1 or more/);
    await expect(chat(engine(), [])).rejects.toMatchObject({ name: "EngineError", reason: "missing_adapter" });
    const open = [user("hi"), assistant("", { toolCalls: [{ id: "c", name: "ok", arguments: {} }] })];
    await expect(chat(playing([]).engine, open)).rejects.toMatchObject({ reason: "invalid_thread" });
    await expect(chat(playing([]).engine, [])).rejects.toMatchObject({ reason: "invalid_request" });
  });

  test("[allm 44] accept a thread, messages or text; anything else is an invalid thread", async () => {
    const helloEngine = () => playing([says("Hello.")]).engine;
    for (const input of [fromMessages([user("hi")]), [user("hi")], "hi"]) {
      expect((await chat(helloEngine(), input)).thread.messages.map(messageText)).toEqual(["hi", "Hello."]);
    }
    const wrong: { readonly messages: never[] } = JSON.parse('{"messages":7}');
    await expect(chat(helloEngine(), { metadata: {}, ...wrong })).rejects.toMatchObject({ reason: "invalid_thread" });
  });

  test("an exception of the adapter before its first event is thrown, awaited and streamed", async () => {
    const refused = () => playing([[{ type: "preflight_error", reason: "authentication_failed", status: 401 }]]).engine;
    await expect(chat(refused(), "hi")).rejects.toMatchObject({
      name: "AdapterError",
      reason: "authentication_failed",
    });
    await expect(transcript(stream(refused(), "hi"))).rejects.toMatchObject({ reason: "authentication_failed" });
    await expect(generate(playing([]).engine, "hi")).rejects.toMatchObject({ reason: "no_scripted_response" });
  });

  test("[allm 67] an exception of the adapter in a later step is part of the result, with the earlier steps", async () => {
    const { engine: of } = playing([calls("ok"), [{ type: "preflight_error", reason: "authentication_failed" }]], [ok]);
    const result = await chat(of, "hi");
    expect(result).toMatchObject({ haltedReason: "error", metadata: { error: { reason: "authentication_failed" } } });
    expect(result.steps).toHaveLength(2);
    expect(result.thread.messages).toHaveLength(3);
  });
});

describe("[allm 43] failures during a run", () => {
  test("are in the reply, with the text that had arrived", async () => {
    const { engine: of } = playing(
      [
        [
          { type: "text", text: "Hel" },
          { type: "error", reason: "provider_unavailable" },
        ],
      ],
      [],
      {
        retry: false,
      },
    );
    expect(await generate(of, "hi")).toMatchObject({
      outputText: "Hel",
      finishReason: "error",
      error: { reason: "provider_unavailable" },
    });
  });

  test.each([
    ["stops without its end", { type: "cut" } as const],
    ["is thrown out of", { type: "throw", message: "socket hang up" } as const],
  ])("E1: a stream that %s is interrupted", async (_, end) => {
    const { engine: of } = playing([[{ type: "text", text: "Hel" }, end]], [], { retry: false });
    const result = await chat(of, "hi");
    expect(result.metadata.error).toMatchObject({ type: "stream_error", reason: "interrupted" });
    expect(result.thread.messages.map(messageText)).toEqual(["hi", "Hel"]);
  });

  test("E1: events after the terminal one, and invalid events, are dropped", async () => {
    const odd = {
      provider: "odd",
      async *stream() {
        yield [{ type: "message_started", message: assistant("") } as const];
        yield JSON.parse(
          '[null, {"type":"nonsense"}, {"type":"text_delta"}, {"type":"text_delta","id":null,"delta":"Hi"}]',
        );
        const end = { finishReason: "stop", rawFinishReason: null, requestId: null, responseId: null, model: null };
        const rest = { route: null, output: null, metadata: {} };
        yield [{ type: "message_completed", message: assistant("Hi"), ...end, ...rest } as const];
        yield [{ type: "text_delta", id: null, delta: " there" } as const];
        yield [{ type: "error", error: { type: "nothing" } }] as never;
      },
    };
    expect(await generate(engine({ adapter: odd }), "hi")).toMatchObject({ outputText: "Hi", finishReason: "stop" });
  });
});

describe("a step and its reply", () => {
  test("[allm 45] the assistant message has the streamed text and the finish reason", async () => {
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    const { thread } = await chat(of, "hi");
    expect(thread.messages[1]).toMatchObject({
      role: "assistant",
      content: "",
      finishReason: "tool_calls",
      toolCalls: [{ id: "c0" }],
    });
    expect(thread.messages[3]).toMatchObject({
      role: "assistant",
      content: "Done.",
      finishReason: "stop",
      toolCalls: [],
    });
  });

  test("[allm 45] plain text of message_completed is replaced by the streamed text; parts are kept as they are", async () => {
    const replay = { provider: "own", endpoint: "x", model: "m", data: { signature: "s" } };
    const parts = [reasoningPart("Hm.", { provider: replay }), textPart("Trimmed.", { provider: replay })];
    for (const [content, expected] of [
      ["Trimmed.", " Streamed. "],
      [parts, parts],
    ] as const) {
      const own = {
        provider: "own",
        async *stream() {
          yield [{ type: "message_started", message: assistant("") } as const];
          yield [{ type: "text_delta", id: null, delta: " Streamed. " } as const];
          const end = { finishReason: "stop", rawFinishReason: null, requestId: null, responseId: null } as const;
          const rest = { model: null, route: null, output: null, metadata: {} };
          yield [{ type: "message_completed", message: assistant(content), ...end, ...rest } as const];
        },
      };
      const { thread, finalResponse } = await chat(engine({ adapter: own }), "hi");
      expect(thread.messages[1]?.content).toEqual(expected);
      expect(finalResponse?.outputText).toBe(" Streamed. ");
    }
  });

  test.each(["stop", "length", "content_filter", "other"] as const)(
    "[allm 46] calls in a reply with finish reason %s are answered not_run",
    async (reason) => {
      let ran = 0;
      const counts = plain("counts", () => (ran += 1));
      const { engine: of } = playing([[...calls("counts"), { type: "finish", reason }]], [counts]);
      const result = await chat(of, "hi");
      expect(ran).toBe(0);
      expect(result.haltedReason).toBe("completed");
      expect(result.thread.messages.at(-1)).toMatchObject({ role: "tool", status: "not_run" });
    },
  );

  test("[allm 59] an unknown tool: an error, every call answered; the thrown error carries the step result", async () => {
    const unknown = () => playing([calls("ok", "missing")], [ok]).engine;
    const error = await step(unknown(), "hi").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UnknownToolError);
    expect(error).toMatchObject({ reason: "unknown_tool", failure: { metadata: { toolName: "missing" } } });
    expect(error instanceof UnknownToolError ? error.result.toolResults : []).toMatchObject([
      { toolCallId: "c0", status: "not_run" },
      { toolCallId: "c1", code: "not_found" },
    ]);
    expect((await transcript(streamStep(unknown(), "hi"))).slice(-2)).toEqual([
      "error unknown_tool",
      "step_completed tool_calls",
    ]);
    const result = await chat(unknown(), "hi");
    expect(result).toMatchObject({ haltedReason: "error", metadata: { error: { reason: "unknown_tool" } } });
    expect(result.thread.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool"]);
  });

  test("onUnknownTool answer: the call of an unknown tool is answered, and the run continues", async () => {
    const { engine: of } = playing([calls("ok", "missing"), says("Sorry.")], [ok]);
    expect((await chat(of, "hi", { onUnknownTool: "answer" })).haltedReason).toBe("completed");
  });
});

describe("reading and leaving a stream", () => {
  test("leaving early closes open resources once, and emits no end of the run", async () => {
    const { engine: of, adapter } = playing([
      [
        { type: "text", text: "Hel" },
        { type: "text", text: "lo" },
      ],
    ]);
    const events = stream(of, "hi");
    const seen: string[] = [];
    for await (const event of events) {
      seen.push(event.type);
      if (event.type === "text_delta") break;
    }
    expect(seen).toEqual(["message_started", "text_delta"]);
    expect(adapter.closed).toBe(1);
    expect(await events.result).toMatchObject({
      haltedReason: "cancelled",
      outcome: { evidence: { origin: "consumer" } },
    });
  });

  test("[allm 123] leaving early keeps the user message and the received text", async () => {
    const { engine: of } = playing([
      [
        { type: "text", text: "Hel" },
        { type: "text", text: "lo" },
      ],
    ]);
    const events = stream(of, "hi");
    for await (const event of events) if (event.type === "text_delta") break;
    expect((await events.result).thread.messages.map(messageText)).toEqual(["hi", "Hel"]);
    expect([await events.text, (await events.result).finalResponse?.outputText]).toEqual(["Hel", "Hel"]);
  });

  test("a run with a signal that is aborted already calls no model", async () => {
    const { engine: of, adapter } = playing([says("Hello.")]);
    const result = await chat(of, "hi", { signal: AbortSignal.abort("no") });
    expect(result).toMatchObject({ haltedReason: "cancelled", metadata: { cancellation: { reason: "no" } } });
    expect(adapter.closed).toBe(adapter.calls.length);
    expect(result.thread.messages.map(messageText)).toEqual(["hi"]);
  });

  test("a slow reader slows the run down (backpressure) and misses no event", async () => {
    const script = Array.from({ length: 2000 }, (_, index) => ({ type: "text", text: `${index} ` }) as const);
    let emitted = 0;
    const { engine: of } = playing([script]);
    let read = 0;
    let ahead = 0;
    for await (const event of stream(of, "hi", { onEvent: () => void (emitted += 1) })) {
      if (event.type === "text_delta") read += 1;
      ahead = Math.max(ahead, emitted - read);
      if (read % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(read).toBe(2000);
    expect(ahead).toBeLessThan(600);
  });

  test("a stream can be iterated once, and not after only its result was requested", async () => {
    const events = stream(playing([says("Hello.")]).engine, "hi");
    await collectChat(events);
    expect(() => events[Symbol.asyncIterator]()).toThrow(/can be iterated only once/);
  });

  test("the result can be requested first, and the events read all the same", async () => {
    const events = stream(playing([says("Hello.")]).engine, "hi");
    const { result } = events;
    expect(await transcript(events)).toContain('text_delta "Hello."');
    expect((await result).haltedReason).toBe("completed");
  });
});

describe("generate with a request", () => {
  test("sends it with the options of the call over it and those of the engine under it", async () => {
    const { engine: of, adapter } = playing([says("Hello.")], [], {
      params: { temperature: 0.1, maxTokens: 5, top_k: 3 },
    });
    const weather = toolSpec({ name: "weather", description: "Weather.", schema: { type: "object" } });
    const givenRequest = request([user("hi")], {
      model: "asked",
      temperature: 0.5,
      tools: [weather],
      options: { x: 1 },
    });
    await generate(of, givenRequest, { temperature: 0.9 });
    expect(adapter.calls[0]?.request).toMatchObject({
      model: "asked",
      temperature: 0.9,
      maxTokens: 5,
      tools: [{ name: "weather" }],
      options: { x: 1, top_k: 3 },
      messages: [{ content: "hi" }],
    });
  });

  test("[allm 39] [allm 40] options of the call override the request, and those the engine; options of the loop are not sent", async () => {
    const { engine: of, adapter } = playing([says("A"), says("B")], [], { params: { maxTurns: 3, temperature: 0.1 } });
    await generate(of, request([user("hi")], { model: "asked" }), { model: "called" });
    expect(adapter.calls[0]?.request.model).toBe("called");
    const temperatures = playing([says("A"), says("B"), says("C")], [], { params: { temperature: 0.1 } });
    await generate(temperatures.engine, request([user("hi")], { temperature: 0.2 }), { temperature: 0.3 });
    await generate(temperatures.engine, request([user("hi")], { temperature: 0.2 }));
    await generate(temperatures.engine, request([user("hi")]));
    expect(temperatures.adapter.calls.map(({ request: sent }) => sent.temperature)).toEqual([0.3, 0.2, 0.1]);
    const loopOptions = {
      maxTurns: 2,
      mode: "auto",
      toolTimeout: 5,
      maxConcurrency: 1,
      maxToolCalls: 3,
      maxToolResultLength: 9,
      onToolError: "halt",
      onUnknownTool: "answer",
      onEmptyReply: "error",
      turnLimitMessage: "Stop.",
      budgets: { steps: 9 },
      haltWhen: () => false,
      onCheckpoint: () => null,
      prepareStep: () => null,
      hooks: {},
      emitTextDeltas: false,
      emitToolDeltas: false,
      sessionId: "s1",
      context: { from: "call" },
      retry: false,
    } as const;
    await chat(of, "hi", loopOptions);
    const sent = JSON.stringify(adapter.calls[1]?.request);
    for (const name of Object.keys(loopOptions).filter((name) => name !== "sessionId")) {
      expect(sent).not.toContain(`"${name}"`);
    }
  });

  test("G4: adapterOptions of the call override those of the engine", async () => {
    const { engine: of, adapter } = playing([says("A")], [], { adapterOptions: { endpoint: "engine", keep: 1 } });
    await generate(of, "hi", { adapterOptions: { endpoint: "call" }, apiKey: "sk-call" });
    expect(adapter.calls[0]?.call).toMatchObject({ options: { endpoint: "call", keep: 1 }, apiKey: "sk-call" });
    expect(JSON.stringify(adapter.calls[0]?.request)).not.toContain("sk-call");
  });

  test("earlier messages are sent as they are: calls, results, roles", async () => {
    const { engine: of, adapter } = playing([says("A")], [], { instructions: "Be brief." });
    const toolCalls = [{ id: "c", name: "ok", arguments: {} }];
    await chat(of, [user("hi"), assistant("", { toolCalls }), toolResult("c", "fine"), user("and?")]);
    expect(adapter.calls[0]?.request.messages.map(({ role }) => role)).toEqual([
      "system",
      "user",
      "assistant",
      "tool",
      "user",
    ]);
  });
});

describe("settings among the options of an engine", () => {
  const search = { provider: "openai", name: "web_search", options: {} };
  const requestSent = async (options: Parameters<typeof chat>[2], params = {}) => {
    const adapter = fake({ script: [{ type: "text", text: "ok" }] });
    const engineOptions = { temperature: 0.3, maxTokens: 7, options: { tier: "flex" }, providerTools: [search] };
    await chat(engine({ adapter, model: "fake:m", params, options: engineOptions }), "hi", options);
    const { temperature, maxTokens, options: body, providerTools } = adapter.calls[0]?.request ?? {};
    return { temperature, maxTokens, body, providerTools };
  };

  test("reach the model", async () => {
    const expected = { temperature: 0.3, maxTokens: 7, body: { tier: "flex" }, providerTools: [search] };
    expect(await requestSent({})).toEqual(expected);
  });

  test("override its params, and are overridden by the call, by name or by its params", async () => {
    expect(await requestSent({}, { temperature: 0.9, topK: 3 })).toMatchObject({
      temperature: 0.3,
      body: { tier: "flex", topK: 3 },
    });
    expect(await requestSent({ temperature: 0 })).toMatchObject({ temperature: 0, maxTokens: 7 });
    expect(await requestSent({ params: { temperature: 1 } })).toMatchObject({ temperature: 1 });
    expect(await requestSent({ options: { tier: "fast" } })).toMatchObject({ body: { tier: "fast" } });
  });

  test("also apply to provider tools", async () => {
    const other = { ...search, name: "code_interpreter" };
    expect(await requestSent({ providerTools: [other] })).toMatchObject({ providerTools: [other] });
    expect(await requestSent({ providerTools: [] })).toMatchObject({ providerTools: [] });
  });
});

test("a finish reason that the library does not know is reported as such", async () => {
  const unknown: FinishReason = JSON.parse('"done"');
  const script: FakeScript = [
    { type: "text", text: "Hi" },
    { type: "finish", reason: unknown },
  ];
  const { engine: of } = playing([script]);
  const result = await chat(of, "hi", { retry: false });
  expect(result).toMatchObject({
    haltedReason: "error",
    outcome: { type: "provider_error", failure: { type: "adapter_error", reason: "malformed_response" } },
  });
  expect(result.metadata.error?.message).toMatch(/unknown finish reason "done".*finishReason: must be one of stop, /);
});
