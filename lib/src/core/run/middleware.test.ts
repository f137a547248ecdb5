// The contract of middleware: order, changes, short circuits, retries, usage, notes, and errors, in memory.
// lib/test/runtime/middleware.test.ts has the durable part.

import type { Adapter, FakeScript, ToolOutcome } from "everturn";
import type { Middleware, ModelEvent } from "everturn/advanced";

import { chat, engine, fake, generate, stream, tool, MisuseError, modelRef } from "everturn";
import { toolFailure, usage } from "everturn/advanced";
import { readReply, replyEvents } from "everturn/middleware";
import { describe, expect, test } from "vitest";

import { eventually } from "../../../test/eventually.ts";
import { calls, plain, playing, says } from "../../../test/runs.ts";

/** A middleware that logs when it is entered and left. */
function traced(name: string, log: string[]): Middleware {
  return {
    name,
    async *model({ request }, next) {
      log.push(`${name} asks`);
      yield* next(request);
      log.push(`${name} has the reply`);
    },
    tool: async (call, next) => {
      log.push(`${name} calls ${call.tool.name}`);
      const outcome = await next(call.arguments);
      log.push(`${name} has ${outcome.type}`);
      return outcome;
    },
  };
}

const replaced = (text: string): Middleware => ({
  name: "replaced",
  async *model() {
    yield replyEvents(text);
  },
});

/** Changes the text of a reply, delta by delta. */
const shouting: Middleware = {
  name: "shouting",
  async *model({ request }, next) {
    for await (const batch of next(request)) yield batch.map(loud);
  },
};

function loud(event: ModelEvent): ModelEvent {
  if (event.type === "text_delta") return { ...event, delta: event.delta.toUpperCase() };
  if (event.type === "text_completed") return { ...event, text: event.text.toUpperCase() };
  if (event.type !== "message_completed" || typeof event.message.content !== "string") return event;
  return { ...event, message: { ...event.message, content: event.message.content.toUpperCase() } };
}

const success = (value: string): ToolOutcome => ({ type: "success", value, control: null });

describe("middleware around model calls", () => {
  test("runs in order, the first one outermost", async () => {
    const log: string[] = [];
    const { engine: agent } = playing([says("Hi.")], [], { middleware: [traced("a", log), traced("b", log)] });
    await chat(agent, "hi");
    expect(log).toEqual(["a asks", "b asks", "b has the reply", "a has the reply"]);
  });

  test("changes the request that the adapter receives, and the next middleware sees the change", async () => {
    const seen: (number | null)[] = [];
    const hot: Middleware = { name: "hot", model: ({ request }, next) => next({ ...request, temperature: 1 }) };
    const watching: Middleware = {
      name: "watching",
      model: ({ request }, next) => {
        seen.push(request.temperature);
        return next(request);
      },
    };
    const { engine: agent, adapter } = playing([says("Hi.")], [], { middleware: [hot, watching] });
    await chat(agent, "hi");
    expect(seen).toEqual([1]);
    expect(adapter.calls[0]?.request.temperature).toBe(1);
  });

  test("changes the stream and the reply, the same for streaming and awaited verbs", async () => {
    const script: FakeScript = [
      { type: "text", text: "hello " },
      { type: "text", text: "there" },
    ];
    const { engine: agent } = playing([script, script, script], [], { middleware: [shouting] });
    const deltas: string[] = [];
    const streamed = stream(agent, "hi");
    for await (const event of streamed) if (event.type === "text_delta") deltas.push(event.delta);
    expect(deltas).toEqual(["HELLO ", "THERE"]);
    expect((await streamed.result).finalResponse?.outputText).toBe("HELLO THERE");
    expect((await chat(agent, "hi")).finalResponse?.outputText).toBe("HELLO THERE");
    expect((await generate(agent, "hi")).outputText).toBe("HELLO THERE");
  });

  test("answers without calling the adapter: the reply has no usage", async () => {
    const { engine: agent, adapter } = playing([], [], { middleware: [replaced("Short.")] });
    const result = await chat(agent, "hi");
    expect(result.finalResponse?.outputText).toBe("Short.");
    expect(result.usage.inputTokens).toBeNull();
    expect(adapter.calls).toHaveLength(0);
  });

  test("retries: every call of next is billed, with the price of the model it went to", async () => {
    const priced = (id: string, input: number) =>
      modelRef({ id, pricing: { input, output: 0, cacheRead: null, cacheWrite: null } });
    const again: Middleware = {
      name: "again",
      async *model({ request }, next) {
        const first = await readReply(next(request));
        if (first.outputText !== "bad") return yield replyEvents(first);
        yield* next({ ...request, model: priced("large", 10) });
      },
    };
    const adapter = fake({ scripts: [says("bad"), says("good")], usage: { inputTokens: 1_000_000, outputTokens: 5 } });
    const result = await chat(engine({ adapter, model: priced("small", 1), middleware: [again] }), "hi");
    expect(result.finalResponse?.outputText).toBe("good");
    expect(result.usage).toMatchObject({ inputTokens: 2_000_000, outputTokens: 10, totalCost: 11 });
  });

  test("usage that a middleware causes itself is counted, and usage events that it invents are not", async () => {
    const judged: Middleware = {
      name: "judged",
      async *model(call, next) {
        call.addUsage(usage({ inputTokens: 7, outputTokens: 1 }));
        yield* next(call.request);
        yield [{ type: "usage", usage: usage({ inputTokens: 999 }) }];
      },
    };
    const adapter = fake({ script: says("Hi."), usage: { inputTokens: 10, outputTokens: 2 } });
    const result = await chat(engine({ adapter, model: "fake:m", middleware: [judged] }), "hi");
    expect(result.usage).toMatchObject({ inputTokens: 17, outputTokens: 3 });
  });

  test("usage events of a reply that no adapter made are ignored", async () => {
    const inventing: Middleware = {
      name: "inventing",
      async *model() {
        const [started, ...rest] = replyEvents("Short.");
        if (started !== undefined) yield [started, { type: "usage", usage: usage({ inputTokens: 999 }) }, ...rest];
      },
    };
    const { engine: agent } = playing([], [], { middleware: [inventing] });
    expect((await chat(agent, "hi")).usage.inputTokens).toBeNull();
  });

  test("wraps every attempt: the engine's retries and fallbacks are outside", async () => {
    const attempts: number[] = [];
    const counted: Middleware = {
      name: "counted",
      model: ({ attempt, request }, next) => {
        attempts.push(attempt);
        return next(request);
      },
    };
    const failing: FakeScript = [{ type: "error", reason: "rate_limited" }];
    const adapter = fake({ scripts: [failing, says("Hi.")] });
    const agent = engine({ adapter, model: "fake:m", middleware: [counted], retry: { baseDelayMs: 0, jitterMs: 0 } });
    expect((await chat(agent, "hi")).finalResponse?.outputText).toBe("Hi.");
    expect(attempts).toEqual([1, 2]);
  });

  test("may be an async function that returns what next returns", async () => {
    const waiting: Middleware = {
      name: "waiting",
      model: async ({ request }, next) => {
        await Promise.resolve();
        return next(request);
      },
    };
    const { engine: agent } = playing([says("Hi.")], [], { middleware: [waiting] });
    expect((await chat(agent, "hi")).finalResponse?.outputText).toBe("Hi.");
  });

  test("receives the caller's context, the session and the ids of the call", async () => {
    const seen: unknown[] = [];
    const watching: Middleware = {
      name: "watching",
      model: ({ context, sessionId, requestId, effectId, attempt, provider, request }, next) => {
        seen.push({ context, sessionId, requestId, effectId, attempt, provider });
        return next(request);
      },
    };
    const agent = engine({ adapter: fake({ script: says("Hi.") }), model: "fake:m", middleware: [watching] });
    await chat(agent, "hi", { context: { user: "ada" }, sessionId: "s1", requestId: "r1" });
    const effectId = "r1/0/model";
    expect(seen).toEqual([
      { context: { user: "ada" }, sessionId: "s1", requestId: "r1", effectId, attempt: 1, provider: "fake" },
    ]);
  });

  test("an exception of a middleware fails the call; an Everturn error keeps its reason", async () => {
    const thrown = (error: Error): Middleware => ({
      name: "throwing",
      model: () => {
        throw error;
      },
    });
    const { engine: agent } = playing([], [], { middleware: [thrown(new Error("no"))] });
    await expect(chat(agent, "hi")).rejects.toMatchObject({ failure: { type: "adapter_error", message: "no" } });
    const { engine: refusing } = playing([], [], {
      middleware: [thrown(new MisuseError("invalid_argument", "wrong"))],
    });
    await expect(chat(refusing, "hi")).rejects.toThrow("wrong");
  });

  test("a request that a middleware made invalid is not sent", async () => {
    const emptying: Middleware = { name: "emptying", model: ({ request }, next) => next({ ...request, messages: [] }) };
    const { engine: agent, adapter } = playing([says("Hi.")], [], { middleware: [emptying] });
    await expect(chat(agent, "hi")).rejects.toMatchObject({ failure: { reason: "invalid_request" } });
    expect(adapter.calls).toHaveLength(0);
  });

  test("a stream without a terminal event is an interrupted reply", async () => {
    const cut: Middleware = {
      name: "cut",
      async *model({ request }, next) {
        for await (const batch of next(request)) yield batch.filter(({ type }) => type !== "message_completed");
      },
    };
    const { engine: agent } = playing([says("Hi.")], [], { middleware: [cut], retry: false });
    expect((await chat(agent, "hi")).metadata.error).toMatchObject({ type: "stream_error", reason: "interrupted" });
  });

  test("a cancel closes the streams of all middleware and of the adapter, and keeps the usage", async () => {
    const closed: string[] = [];
    const closing = (name: string): Middleware => ({
      name,
      async *model({ request }, next) {
        try {
          yield* next(request);
        } finally {
          closed.push(name);
        }
      },
    });
    const script: FakeScript = [
      { type: "usage", usage: { inputTokens: 9 } },
      { type: "text", text: "one" },
      { type: "delay", ms: 1000 },
      { type: "text", text: "two" },
    ];
    const { engine: agent, adapter } = playing([script], [], { middleware: [closing("a"), closing("b")] });
    const running = stream(agent, "hi");
    for await (const event of running) if (event.type === "text_delta") break;
    expect(await running.result).toMatchObject({ haltedReason: "cancelled" });
    await eventually(() => expect(closed).toEqual(["b", "a"]));
    expect(adapter.closed).toBe(1);
  });

  test("usage of a reply that a middleware holds back is kept when the run is cancelled", async () => {
    const stop = new AbortController();
    const holding: Middleware = {
      name: "holding",
      async *model({ request, signal }, next) {
        const reply = await readReply(next(request));
        stop.abort();
        signal.throwIfAborted();
        yield replyEvents(reply);
      },
    };
    const adapter = fake({ script: says("Hi."), usage: { inputTokens: 9, outputTokens: 2 } });
    const agent = engine({ adapter, model: "fake:m", middleware: [holding] });
    const result = await chat(agent, "hi", { signal: stop.signal });
    expect(result).toMatchObject({ haltedReason: "cancelled", usage: { inputTokens: 9, outputTokens: 2 } });
  });

  test("several calls of next at once: the first reply counts, and all usage", async () => {
    const hedging: Middleware = {
      name: "hedging",
      async *model({ request }, next) {
        const replies = [request, { ...request, model: "fake:other" }].map((one) => readReply(next(one)));
        const [first] = await Promise.all(replies);
        if (first !== undefined) yield replyEvents(first);
      },
    };
    const adapter = fake({ scripts: [says("a"), says("b")], usage: { inputTokens: 5 } });
    const result = await chat(engine({ adapter, model: "fake:m", middleware: [hedging] }), "hi");
    expect([result.finalResponse?.outputText, result.usage.inputTokens]).toEqual(["a", 10]);
  });

  test("next cannot be called after the call has ended, and changes no later reply", async () => {
    const late: { run: () => Promise<unknown> }[] = [];
    const keeping: Middleware = {
      name: "keeping",
      async *model(call, next) {
        late.push({ run: () => readReply(next(call.request)) });
        call.addUsage(usage({ inputTokens: 1 }));
        yield replyEvents("Short.");
      },
    };
    const { engine: agent, adapter } = playing([says("Hi.")], [], { middleware: [keeping] });
    expect((await chat(agent, "hi")).usage.inputTokens).toBe(1);
    await expect(late[0]?.run()).rejects.toThrow("the model call has ended");
    expect(adapter.calls).toHaveLength(0);
  });

  test("invalid events of an adapter do not reach a middleware", async () => {
    const types: string[] = [];
    const watching: Middleware = {
      name: "watching",
      async *model({ request }, next) {
        for await (const batch of next(request)) {
          types.push(...batch.map(({ type }) => type));
          yield batch;
        }
      },
    };
    const text = JSON.parse(
      '[{"type":"text_delta"},{"type":"nonsense"},{"type":"message_completed","finishReason":"odd"}]',
    );
    const adapter: Adapter = {
      provider: "odd",
      async *stream() {
        yield text;
      },
    };
    const result = await chat(engine({ adapter, model: "m", middleware: [watching], retry: false }), "hi");
    expect(types).toEqual(["error"]);
    expect(result.metadata.error).toMatchObject({ reason: "malformed_response" });
  });
});

describe("middleware around tool calls", () => {
  const echo = tool({
    name: "echo",
    description: "Returns its text.",
    schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    handler: ({ text }) => `echo ${String(text)}`,
  });
  const asked: FakeScript = [{ type: "tool_call", id: "c0", name: "echo", arguments: { text: "hi" } }];

  /** Runs a turn with one call of `echo`, and returns its tool message. */
  async function toolMessage(...middleware: readonly Middleware[]) {
    const { engine: agent } = playing([asked, says("Done.")], [echo], { middleware });
    const result = await chat(agent, "hi");
    return result.thread.messages.find(({ role }) => role === "tool");
  }

  test("runs in order, and passes the outcome through unchanged", async () => {
    const log: string[] = [];
    expect(await toolMessage(traced("a", log), traced("b", log))).toMatchObject({
      content: "echo hi",
      status: "success",
    });
    expect(log.filter((line) => /calls|success/.test(line))).toEqual([
      "a calls echo",
      "b calls echo",
      "b has success",
      "a has success",
    ]);
  });

  test("changes arguments, which are validated again and stored as those that ran", async () => {
    const changed = (args: object): Middleware => ({
      name: "changed",
      tool: (_call, next) => next(JSON.parse(JSON.stringify(args))),
    });
    expect(await toolMessage(changed({ text: "you" }))).toMatchObject({
      content: "echo you",
      ranArguments: { text: "you" },
    });
    expect(await toolMessage(changed({ text: 5 }))).toMatchObject({ status: "failure", code: "invalid_arguments" });
  });

  test("answers without running the handler", async () => {
    expect(await toolMessage({ name: "cached", tool: () => success("cached") })).toMatchObject({ content: "cached" });
  });

  test("sees a failure as an outcome, and may retry", async () => {
    let runs = 0;
    const flaky = plain("flaky", () => {
      runs += 1;
      if (runs === 1) throw new Error("once");
      return "worked";
    });
    const outcomes: string[] = [];
    const again: Middleware = {
      name: "again",
      tool: async (call, next) => {
        const first = await next(call.arguments);
        outcomes.push(first.type);
        return first.type === "failure" ? next(call.arguments) : first;
      },
    };
    const { engine: agent } = playing([calls("flaky"), says("Done.")], [flaky], { middleware: [again] });
    const { thread } = await chat(agent, "hi");
    expect(outcomes).toEqual(["failure"]);
    expect(thread.messages.find(({ role }) => role === "tool")).toMatchObject({ content: "worked" });
  });

  test("a failure that it returns is a failure of the tool; a value that is no outcome, and an exception, too", async () => {
    const refusing: Middleware = {
      name: "refusing",
      tool: () => ({ type: "failure", failure: toolFailure("denied", { message: "not today" }) }),
    };
    expect(await toolMessage(refusing)).toMatchObject({ status: "failure", code: "denied" });
    const odd: Middleware = { name: "odd", tool: () => JSON.parse('{ "type": "odd" }') };
    expect(await toolMessage(odd)).toMatchObject({ status: "failure", code: "invalid_return" });
    const throwing: Middleware = {
      name: "throwing",
      tool: () => {
        throw new Error("no");
      },
    };
    expect(await toolMessage(throwing)).toMatchObject({ status: "failure", code: "handler_raised" });
  });

  test("next cannot run the handler after the call has ended", async () => {
    const late: { run: () => Promise<unknown> }[] = [];
    const keeping: Middleware = {
      name: "keeping",
      tool: (call, next) => {
        late.push({ run: () => next(call.arguments) });
        return success("cached");
      },
    };
    expect(await toolMessage(keeping)).toMatchObject({ content: "cached" });
    await expect(late[0]?.run()).rejects.toThrow("the tool call has ended");
  });

  test("does not see a call that does not run", async () => {
    const log: string[] = [];
    const { engine: agent } = playing(
      [[{ type: "tool_call", id: "c0", name: "echo", arguments: {} }], says("Done.")],
      [echo],
      {
        middleware: [traced("a", log)],
      },
    );
    await chat(agent, "hi");
    expect(log).not.toContain("a calls echo");
  });

  test("counts as a part of the time limit of the tool, and is aborted with it", async () => {
    const { engine: agent, clock } = playing([asked, says("Done.")], [echo], {
      middleware: [
        {
          name: "slow",
          tool: async (call, next) => {
            await call.clock.sleep(60_000, call.signal);
            return next(call.arguments);
          },
        },
      ],
    });
    const running = chat(agent, "hi", { toolTimeout: 100 });
    // The timer of the tool, and that of the middleware.
    await eventually(() => expect(clock.sleepers).toBe(2));
    await clock.advance(101);
    const { thread } = await running;
    expect(thread.messages.find(({ role }) => role === "tool")).toMatchObject({ code: "timeout" });
  });
});

describe("once and note", () => {
  test("once does the work one time for a key, and again after it failed", async () => {
    const log: string[] = [];
    const remembering: Middleware = {
      name: "remembering",
      async *model(call, next) {
        const values = [
          await call.once("a", () => log.push("a")),
          await call.once("a", () => log.push("a")),
          await call.once("b", () => Promise.reject(new Error("no"))).catch(() => "failed"),
          await call.once("b", () => "worked"),
        ];
        log.push(JSON.stringify(values));
        yield* next(call.request);
      },
    };
    const { engine: agent } = playing([says("Hi.")], [], { middleware: [remembering] });
    await chat(agent, "hi");
    expect(log).toEqual(["a", '[1,1,"failed","worked"]']);
  });

  test("values and details that are not JSON are misuse", async () => {
    const odd: Middleware = {
      name: "odd",
      async *model(call) {
        const errors = [
          await call.once("a", () => JSON.parse("1e999")).catch((error: unknown) => error instanceof MisuseError),
        ];
        yield replyEvents(JSON.stringify(errors));
      },
    };
    const { engine: agent } = playing([], [], { middleware: [odd] });
    expect((await chat(agent, "hi")).finalResponse?.outputText).toBe("[true]");
  });
});

describe("engine({ middleware })", () => {
  test.each([
    ["no list", '{"name":"a"}', "must be a list"],
    ["no object", "[5]", "must be an object"],
    ["no name", "[{}]", "name must be a name"],
    ["an unknown field", '[{"name":"a","models":1}]', 'unknown option "middleware.0.models"'],
    ["no function", '[{"name":"a","model":1}]', "model must be a function"],
    ["equal names", '[{"name":"a"},{"name":"a"}]', "the name of another one"],
  ])("refuses %s", (_, json, message) => {
    expect(() => engine({ middleware: JSON.parse(json) })).toThrow(message);
  });

  test("accepts an instance of a class with state", async () => {
    class Counting implements Middleware {
      readonly name = "counting";
      count = 0;
      model: NonNullable<Middleware["model"]> = (call, next) => {
        this.count += 1;
        return next(call.request);
      };
    }
    const counting = new Counting();
    const { engine: agent } = playing([says("Hi.")], [], { middleware: [counting] });
    await chat(agent, "hi");
    expect(counting.count).toBe(1);
  });
});
