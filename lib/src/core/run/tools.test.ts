// Tool calls: return values, halts, failures, arguments, limits, context, approval, encoders, hooks.

import type { Tool, ToolContext, Adapter, ChatOptions, ToolMessage } from "everturn";
import type { OnToolError } from "everturn/advanced";

import {
  askUser,
  chat,
  engine,
  fail,
  failTurn,
  fake,
  finish,
  halt,
  handoff,
  step,
  stream,
  streamStep,
  tool,
  messageText,
} from "everturn";
import { attachment, toolFailure } from "everturn/advanced";
import { transcript } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";
import { knownHaltedReasons } from "../model/internal.ts";
import { encodeAsJson } from "./perform/encode-result.ts";

/** The answer to the one call of a run with this tool. */
async function answerOf(of: Tool, options: Parameters<typeof chat>[2] = {}): Promise<ToolMessage | undefined> {
  const { thread } = await chat(playing([calls(of.name), says("ok")], [of]).engine, "hi", options);
  return thread.messages.find((message): message is ToolMessage => message.role === "tool");
}

describe("[allm 53] return values of a handler", () => {
  test.each([
    ["text, as it is", "sunny", "sunny"],
    ["a value, as JSON", { celsius: 21, ok: true }, '{"celsius":21,"ok":true}'],
    ["a list", [1, "a"], '[1,"a"]'],
    ["nothing, as null", undefined, "null"],
    ["a promise of it", Promise.resolve("later"), "later"],
  ])("%s", async (_, value, seen) => {
    expect(await answerOf(plain("t", () => value))).toMatchObject({ content: seen, status: "success" });
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("boom");
      },
      "handler_raised",
      "boom",
    ],
    [
      "throws something that is no error",
      () => {
        throw "bare";
      },
      "handler_raised",
      "bare",
    ],
    ["rejects", () => Promise.reject(new Error("later")), "handler_raised", "later"],
    ["says that it failed", () => fail("no luck"), "handler_failed", "no luck"],
    ["returns what cannot be written down", () => () => 1, "encoding_failed", ""],
    ["stops with a word that is taken", () => halt("completed"), "invalid_return", "completed"],
  ])("a handler that %s is a failure that the model reads, and the run continues", async (_, handler, code, said) => {
    const answer = await answerOf(plain("t", handler));
    expect(answer).toMatchObject({ status: "failure", code });
    expect(JSON.parse(messageText(answer ?? neverHere()))).toMatchObject({ error: expect.stringContaining(said) });
  });

  test("a call of a tool without a handler is answered not_found", async () => {
    expect(await answerOf(plain("t"))).toMatchObject({ code: "not_found" });
  });

  test("progress is reported by yielding or by context.progress, before the value", async () => {
    const worker = tool({
      name: "work",
      description: "Works.",
      schema: { type: "object" },
      async *handler(_, { progress }: ToolContext) {
        progress({ at: 0.1 });
        yield { at: 0.5 };
        return "done";
      },
    });
    const lines = await transcript(stream(playing([calls("work"), says("ok")], [worker]).engine, "hi"));
    expect(lines.filter((entry) => entry.startsWith("tool_progress"))).toEqual([
      'tool_progress c0 {"at":0.1}',
      'tool_progress c0 {"at":0.5}',
    ]);
    expect(lines).toContain("tool_result_encoded c0 done");
  });

  test("an image is sent to the model as an image", async () => {
    const image = attachment({ mimeType: "image/png", source: { type: "base64", data: "iVBORw0KGgo=" } });
    const answer = await answerOf(plain("t", () => ({ chart: image })));
    expect(answer?.content).toMatchObject([{ type: "text" }, { type: "image" }, { type: "text" }]);
  });
});

describe("a tool ends the run", () => {
  test("[allm 65] with a question: a placeholder result, the question in the thread, its options without undefined ones", async () => {
    const asks = plain("asks", () => askUser("Which?", { choices: ["a", "b"], timeoutMs: 5, placeholder: undefined }));
    const { engine: of } = playing([calls("asks")], [asks]);
    const result = await chat(of, "hi");
    expect(result).toMatchObject({
      haltedReason: "ask_user",
      pendingQuestion: "Which?",
      pendingToolCallId: "c0",
      metadata: { askUserOpts: { choices: ["a", "b"], timeoutMs: 5 } },
    });
    expect(result.thread.messages.slice(2)).toMatchObject([
      { role: "tool", content: "<awaiting user response>" },
      { role: "assistant", content: "Which?", metadata: { askUser: true, toolCallId: "c0" } },
    ]);
    expect(result.steps[0]?.thread.messages).toHaveLength(3);
  });

  test("[allm 66] with a halt reason of its own and a value", async () => {
    const result = await chat(playing([calls("t")], [plain("t", () => halt("enough", { n: 1 }))]).engine, "hi");
    expect(result).toMatchObject({ haltedReason: "enough", metadata: { haltToolCallId: "c0", haltResult: { n: 1 } } });
    expect(result.thread.messages.at(-1)).toMatchObject({ content: '{"n":1}' });
  });

  test.each(knownHaltedReasons)("[allm 54] but not with the reserved reason %s", async (word) => {
    expect(await answerOf(plain("t", () => halt(word)))).toMatchObject({ code: "invalid_return" });
  });

  test("with a control value: finish, fail or hand off", async () => {
    const end = (handler: () => unknown) => chat(playing([calls("t")], [plain("t", handler)]).engine, "hi");
    expect((await end(() => finish({ ok: true }))).outcome).toMatchObject({ type: "tool_value", value: { ok: true } });
    expect((await end(() => failTurn("broken"))).outcome).toMatchObject({
      type: "tool_error",
      failure: { message: "broken" },
    });
    expect((await end(() => handoff("billing", "refund"))).outcome).toMatchObject({
      type: "handoff",
      target: "billing",
    });
  });

  test("[allm 50] [allm 51] after its siblings have completed, and results are in call order", async () => {
    const ended: string[] = [];
    const slow = plain("slow", async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      ended.push("slow");
      return "slow";
    });
    const tools = [slow, plain("halts", () => halt("enough"))];
    for (const run of [step, (...args: Parameters<typeof step>) => streamStep(...args).result]) {
      const result = await run(playing([calls("slow", "halts", "slow")], tools).engine, "hi");
      expect(ended.splice(0)).toEqual(["slow", "slow"]);
      expect(result.toolResults.map(({ content }) => content)).toEqual(["slow", "null", "slow"]);
      const answers = result.thread.messages.filter((message) => message.role === "tool");
      expect(answers.map(({ toolCallId }) => toolCallId)).toEqual(["c0", "c1", "c2"]);
      expect(result.metadata.haltedReason).toBe("enough");
    }
  });

  test("G9: of several halts the one with the lowest call index counts", async () => {
    const late = plain("late", async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return halt("first");
    });
    const result = await chat(
      playing([calls("late", "soon")], [late, plain("soon", () => halt("second"))]).engine,
      "hi",
    );
    expect(result.haltedReason).toBe("first");
  });

  test("G16: a question next to manual calls leaves both pending", async () => {
    const own = { ...plain("own"), manual: true };
    const result = await chat(
      playing([calls("asks", "own")], [plain("asks", () => askUser("Sure?")), own]).engine,
      "hi",
    );
    expect(result).toMatchObject({ haltedReason: "ask_user", pendingToolCalls: [{ id: "c1", reason: "manual" }] });
  });
});

describe("[allm 55] onToolError", () => {
  const boom = plain("boom", () => {
    throw new Error("boom");
  });
  const run = (onToolError: OnToolError) =>
    chat(playing([calls("boom"), says("ok")], [boom]).engine, "hi", { onToolError });

  test("continues by default", async () => {
    expect((await run("continue")).haltedReason).toBe("completed");
  });

  test("halts, with the answer in the thread", async () => {
    const result = await run("halt");
    expect(result).toMatchObject({
      haltedReason: "tool_error",
      metadata: { haltToolCallId: "c0", error: { message: "boom" } },
    });
    expect(result.thread.messages.at(-1)).toMatchObject({ role: "tool", content: '{"error":"boom"}' });
  });

  test("may be a function that returns a replacement or halts", async () => {
    const seen: string[] = [];
    const instead = await run((call, failure) => {
      seen.push(`${call.id} ${failure.message}`);
      return { continue: { fallback: true } };
    });
    expect(seen).toEqual(["c0 boom"]);
    expect(instead.thread.messages[2]).toMatchObject({ content: '{"fallback":true}', status: "success" });
    expect((await run(() => "halt")).haltedReason).toBe("tool_error");
  });

  test("G14: a function that throws halts the run, and its exception is in the result, awaited and streamed", async () => {
    const policy = () => {
      throw new TypeError("policy");
    };
    const result = await run(policy);
    expect(result).toMatchObject({
      haltedReason: "tool_error",
      metadata: { onToolErrorException: { name: "TypeError", message: "policy" } },
    });
    const { engine: of } = playing([calls("boom")], [boom]);
    const single = await step(of, "hi", { onToolError: policy });
    expect(single.metadata.onToolErrorException).toMatchObject({ message: "policy" });
  });

  test("a function with an invalid return value, and a replacement that cannot be encoded, halt the run", async () => {
    const odd: OnToolError = JSON.parse("{}");
    expect((await run(() => odd as never)).outcome).toMatchObject({ failure: { reason: "invalid_return" } });
    expect((await run(() => ({ continue: () => 1 }))).outcome).toMatchObject({
      failure: { reason: "encoding_failed" },
    });
  });

  test("[allm 56] an invalid policy is rejected before the run", async () => {
    const odd: { readonly onToolError: OnToolError } = JSON.parse('{"onToolError":"ignore"}');
    const { engine: of, adapter } = playing([calls("boom")], [boom]);
    await expect(chat(of, "hi", odd)).rejects.toThrow(/onToolError must be/);
    expect(adapter.calls).toHaveLength(0);
  });
});

describe("arguments", () => {
  const strict = tool({
    name: "strict",
    description: "Strict.",
    schema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    handler: ({ n }) => n,
  });

  test("[lash 33] G25: arguments that are not JSON are reported to the model with their text, and not replaced by {}", async () => {
    const scripts = [
      [{ type: "tool_call", id: "c0", name: "strict", arguments: null, rawArguments: '{"n": oops' } as const],
      says("sorry"),
    ];
    const { thread } = await chat(playing(scripts, [strict]).engine, "hi");
    expect(thread.messages[2]).toMatchObject({ code: "invalid_arguments", content: expect.stringContaining("oops") });
    expect(thread.messages[1]).toMatchObject({ toolCalls: [{ arguments: null, rawArguments: '{"n": oops' }] });
  });

  test("[lash 70] arguments that do not match the schema are reported with their path, and the handler does not run", async () => {
    expect(await answerOf(strict)).toMatchObject({ code: "invalid_arguments", content: expect.stringContaining("n") });
  });

  test("[lash 70] a call fails before its handler runs, with a code for each stage of the preparation", async () => {
    let runs = 0;
    const counted = tool({
      name: "t",
      description: "T.",
      schema: { type: "object", properties: { n: { type: "number" } } },
      handler: () => (runs += 1),
    });
    const codeOf = async (tools: readonly Tool[], beforeTool?: NonNullable<ChatOptions["hooks"]>["beforeTool"]) => {
      const options = { onUnknownTool: "answer", hooks: beforeTool === undefined ? {} : { beforeTool } } as const;
      const { thread } = await chat(playing([calls("t"), says("ok")], tools).engine, "hi", options);
      const answer = thread.messages[2];
      return answer?.role === "tool" ? answer.code : null;
    };
    const broken = () => {
      throw new Error("hook");
    };
    expect(await codeOf([])).toBe("not_found");
    expect(await codeOf([counted], broken)).toBe("handler_raised");
    expect(await codeOf([counted], () => ({ type: "deny", reason: "no" }))).toBe("denied");
    expect(await codeOf([counted], () => ({ type: "replace_arguments", arguments: { n: "x" } }))).toBe(
      "invalid_arguments",
    );
    expect(await codeOf([plain("t")])).toBe("not_found");
    expect(runs).toBe(0);
  });
});

describe("time and concurrency limits", () => {
  test("[allm 49] a tool has 30 seconds, or its own limit; then it fails with timeout, and its signal is aborted", async () => {
    const aborted: string[] = [];
    const never = tool({
      name: "never",
      description: "Never ends.",
      schema: { type: "object" },
      handler: (_, { signal }: ToolContext) =>
        new Promise(() => signal.addEventListener("abort", () => aborted.push(String(signal.reason)))),
    });
    const { engine: of, clock } = playing([calls("never"), says("ok")], [never]);
    const result = chat(of, "hi");
    await clock.advance(29_999);
    expect(aborted).toEqual([]);
    await clock.advance(1);
    expect((await result).thread.messages[2]).toMatchObject({ code: "timeout" });
    expect(aborted).toHaveLength(1);
    const own = playing([calls("never"), says("ok")], [{ ...never, timeoutMs: 5 }]);
    const soon = chat(own.engine, "hi");
    await own.clock.advance(5);
    expect((await soon).haltedReason).toBe("completed");
  });

  test("a reply with too many calls fails the model call, and none of them runs", async () => {
    let runs = 0;
    const counted = plain("counted", () => (runs += 1));
    const script = calls(...Array.from({ length: 1001 }, () => "counted"));
    const result = await chat(playing([script, says("ok")], [counted]).engine, "hi");
    expect(result).toMatchObject({
      haltedReason: "error",
      outcome: { failure: { reason: "malformed_response", code: "too_many_tool_calls" } },
    });
    expect(runs).toBe(0);
    const three = () => playing([calls("counted", "counted", "counted"), says("ok")], [counted]).engine;
    expect((await chat(three(), "hi", { maxToolCalls: 2 })).haltedReason).toBe("error");
    expect((await chat(three(), "hi", { maxToolCalls: 3 })).haltedReason).toBe("completed");
    expect(runs).toBe(3);
  });

  test("a stream with too many calls is closed when the limit is exceeded", async () => {
    let sent = 0;
    const adapter: Adapter = {
      provider: "endless",
      async *stream() {
        yield [{ type: "text_delta", id: "t", delta: "Working." }];
        for (;;) {
          sent += 1;
          yield [{ type: "tool_call_started", id: `c${sent}`, name: "ok", providerExecuted: false }];
        }
      },
    };
    const result = await chat(engine({ adapter, model: "m", tools: [plain("ok", () => 1)] }), "hi", {
      maxToolCalls: 10,
    });
    expect(result.haltedReason).toBe("error");
    expect(sent).toBe(11);
  });

  test("[allm 48] [lash 71] calls run in parallel up to maxConcurrency", async () => {
    let running = 0;
    let most = 0;
    const busy = plain("busy", async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 1));
      running -= 1;
    });
    const run = (maxConcurrency?: number) => {
      most = 0;
      const names = Array.from({ length: 40 }, () => "busy");
      const { engine: of } = playing([calls(...names), says("ok")], [busy]);
      return chat(of, "hi", maxConcurrency === undefined ? {} : { maxConcurrency });
    };
    await run();
    expect(most).toBe(16);
    await run(Infinity);
    expect(most).toBe(40);
    await run(2);
    expect(most).toBe(2);
  });

  test("a result that is too long is cut in the middle, with a marker", async () => {
    const answer = await answerOf(
      plain("t", () => "x".repeat(1000)),
      { maxToolResultLength: 100 },
    );
    expect(messageText(answer ?? neverHere())).toMatch(/^x{50}\n\n\.\.\. \(900 characters omitted\) \.\.\.\n\nx{50}$/);
  });
});

describe("[allm 52] the context of a handler", () => {
  test("has the context of the caller, session id, request id, call, idempotency key and signal", async () => {
    const seen: unknown[] = [];
    const looks = tool({
      name: "looks",
      description: "Looks.",
      schema: { type: "object" },
      handler: (_, context: ToolContext<{ readonly userId: number }>) => {
        seen.push(context);
      },
    });
    const adapter = fake({ scripts: [calls("looks"), says("ok")] });
    const of = engine({ adapter, tools: [looks], context: { userId: 42 } });
    await chat(of, "hi", { sessionId: "s1", requestId: "r1" });
    expect(seen).toMatchObject([
      {
        context: { userId: 42 },
        sessionId: "s1",
        requestId: "r1",
        toolCall: { id: "c0", name: "looks" },
        idempotencyKey: "r1/0/tool/0",
        signal: expect.any(AbortSignal),
        engine: { model: null },
      },
    ]);
  });

  test("is that of the call; an absent or empty one falls back to the engine's", async () => {
    const seen: unknown[] = [];
    const looks = tool({
      name: "looks",
      description: "Looks.",
      schema: { type: "object" },
      handler: (_, { context }: ToolContext<{ readonly id?: number }>) => void seen.push(context),
    });
    const context: { readonly id?: number } = { id: 1 };
    const of = () => engine({ adapter: fake({ scripts: [calls("looks"), says("ok")] }), tools: [looks], context });
    await chat(of(), "hi", { context: { id: 2 } });
    await chat(of(), "hi", { context: {} });
    expect(seen).toEqual([{ id: 2 }, { id: 1 }]);
  });

  test("runs turns inside the tool, and their usage is counted", async () => {
    const child = engine({ adapter: fake({ script: says("inner"), usage: { inputTokens: 7, outputTokens: 1 } }) });
    const delegate = tool({
      name: "delegate",
      description: "Delegates.",
      schema: { type: "object" },
      handler: async (_, { runChild }: ToolContext) => (await runChild(child, "do it")).finalResponse?.outputText,
    });
    const result = await chat(playing([calls("delegate"), says("ok")], [delegate]).engine, "hi");
    expect(result.thread.messages[2]).toMatchObject({ content: "inner" });
    expect(result.usage).toMatchObject({ inputTokens: 7, outputTokens: 1 });
    expect(result.steps[0]?.usage).toMatchObject({ inputTokens: 7 });
  });
});

describe("approval", () => {
  const pay = (needsApproval: boolean | (() => boolean | Promise<boolean>)) =>
    tool({ name: "pay", description: "Pays.", schema: { type: "object" }, needsApproval, handler: () => "paid" });

  test("a call that needs approval waits and emits approval_requested", async () => {
    const { engine: of } = playing([calls("pay")], [pay(true)]);
    const lines = await transcript(stream(of, "hi"));
    expect(lines.slice(-3)).toEqual([
      "approval_requested c0 pay",
      "step_completed tool_calls",
      "chat_completed approval",
    ]);
  });

  test("a function decides by the arguments", async () => {
    expect(await answerOf(pay(() => false))).toMatchObject({ content: "paid" });
    expect(await answerOf(pay(() => Promise.resolve(true)))).toBeUndefined();
  });
});

describe("[allm 57] result encoders", () => {
  test.each([
    ["text", "a", "a"],
    ["a number", 3.5, "3.5"],
    ["null", null, "null"],
    ["a map", { a: 1 }, '{"a":1}'],
    ["a list", [true], "[true]"],
  ])("the default encodes %s", (_, value, content) => {
    expect(encodeAsJson({ type: "ok", value })).toBe(content);
    expect(encodeAsJson({ type: "error", failure: toolFailure("timeout", { message: "late" }) })).toBe(
      '{"error":"late"}',
    );
  });

  test("can be set for a run or for a tool", async () => {
    expect(
      await answerOf(
        plain("t", () => 1),
        { toolResultEncoder: () => "<one>" },
      ),
    ).toMatchObject({ content: "<one>" });
    const own = tool({
      name: "t",
      description: "T.",
      schema: { type: "object" },
      handler: () => ({ secret: 1, shown: 2 }),
      toModel: (value) => `shown: ${JSON.stringify(value).length}`,
    });
    expect(await answerOf(own)).toMatchObject({ content: "shown: 22" });
  });

  test("[allm 58] that throw are a failure, with the default encoding", async () => {
    const broken = () => {
      throw new Error("cannot");
    };
    const answer = await answerOf(
      plain("t", () => 1),
      { toolResultEncoder: broken },
    );
    expect(answer).toMatchObject({ code: "encoding_failed", content: '{"error":"cannot"}' });
  });

  test("[allm 58] go through onToolError, and the encoder is not called for the failure", async () => {
    let encoded = 0;
    const toolResultEncoder = () => {
      encoded += 1;
      throw new Error("cannot");
    };
    const run = (onToolError: OnToolError) =>
      chat(playing([calls("t"), says("ok")], [plain("t", () => 1)]).engine, "hi", { onToolError, toolResultEncoder });
    const reasons: string[] = [];
    const halted = await run((_, failure) => {
      reasons.push(failure.reason);
      return "halt";
    });
    expect([halted.haltedReason, reasons, encoded]).toEqual(["tool_error", ["encoding_failed"], 1]);
    expect((await run("halt")).outcome).toMatchObject({ failure: { reason: "encoding_failed" } });
    expect(encoded).toBe(2);
  });
});

describe("[lash 74] hooks", () => {
  test("beforeTool allows a call, changes its arguments, answers it or denies it", async () => {
    const echo = tool({ name: "echo", description: "Echo.", schema: { type: "object" }, handler: (said) => said });
    const hooked = (beforeTool: NonNullable<NonNullable<Parameters<typeof chat>[2]>["hooks"]>["beforeTool"] & object) =>
      answerOf(echo, { hooks: { beforeTool } });
    expect(await hooked(() => null)).toMatchObject({ content: "{}" });
    expect(await hooked(() => ({ type: "replace_arguments", arguments: { a: 1 } }))).toMatchObject({
      content: '{"a":1}',
      ranArguments: { a: 1 },
    });
    expect(await hooked(() => ({ type: "skip", value: "cached" }))).toMatchObject({ content: "cached" });
    expect(await hooked(() => ({ type: "deny", reason: "not today" }))).toMatchObject({ code: "denied" });
  });

  test.each<readonly [string, unknown]>([
    ["a value that is no JSON", { type: "success", value: { at: new Date(0) }, control: null }],
    ["a question with options that are no JSON", { type: "ask_user", question: "Which?", opts: { at: new Date(0) } }],
    ["no outcome", { type: "nothing" }],
  ])("afterTool that returns %s makes the call fail", async (_, outcome) => {
    const hooks = { afterTool: () => outcome as never };
    const answer = await answerOf(
      plain("t", () => "fine"),
      { hooks },
    );
    expect(answer).toMatchObject({ status: "failure", code: "invalid_return" });
    expect(answer?.content).toContain("afterTool must return the outcome of the tool call");
  });

  test("afterTool runs after a tool, beforeStep and afterStep around steps", async () => {
    const hookCalls: string[] = [];
    const answer = await answerOf(
      plain("t", () => "raw"),
      {
        hooks: {
          afterTool: (_, outcome) => (outcome.type === "success" ? { ...outcome, value: "clean" } : null),
          beforeStep: (index) => void hookCalls.push(`before ${index}`),
          afterStep: ({ toolResults }) => void hookCalls.push(`after ${toolResults.length}`),
        },
      },
    );
    expect(answer).toMatchObject({ content: "clean" });
    expect(hookCalls).toEqual(["before 0", "after 1", "before 1", "after 0"]);
  });
});

test("a toolExecutor runs the calls", async () => {
  const answer = await answerOf(
    plain("t", () => "inner"),
    {
      toolExecutor: async ({ name }, args, { idempotencyKey }, run) => [
        name,
        args,
        idempotencyKey.endsWith("/0/tool/0"),
        await run(),
      ],
    },
  );
  expect(answer).toMatchObject({ content: '["t",{},true,"inner"]' });
});

test("step_completed has the usage of the step", async () => {
  const adapter = fake({ scripts: [calls("ok"), says("Done.")], usage: { inputTokens: 5, outputTokens: 2 } });
  const result = await chat(engine({ adapter, tools: [plain("ok", () => 1)] }), "hi");
  expect(result.steps.map((one) => one.usage.inputTokens)).toEqual([5, 5]);
  expect(result.usage).toMatchObject({ inputTokens: 10, outputTokens: 4 });
});

function neverHere(): never {
  throw new Error("there was no answer");
}

test("[lash 71] calls of a serial tool run one at a time and in call order, calls of other tools meanwhile", async () => {
  const log: string[] = [];
  const running = new Map<string, number>();
  const most = new Map<string, number>();
  const tracked = (name: string, concurrency: "parallel" | "serial") =>
    tool({
      name,
      description: name,
      schema: { type: "object" },
      concurrency,
      handler: async (_, { toolCall: { id } }) => {
        const now = (running.get(name) ?? 0) + 1;
        running.set(name, now);
        most.set(name, Math.max(now, most.get(name) ?? 0));
        log.push(id);
        for (let tick = 0; tick < 20; tick += 1) await Promise.resolve();
        running.set(name, now - 1);
        return id;
      },
    });
  const tools = [tracked("one", "serial"), tracked("free", "parallel")];
  const { engine: of } = playing([calls("one", "one", "free", "one", "free"), says("Done.")], tools);
  const result = await chat(of, "hi");
  expect([most.get("one"), most.get("free")]).toEqual([1, 2]);
  expect(log.filter((id) => ["c0", "c1", "c3"].includes(id))).toEqual(["c0", "c1", "c3"]);
  expect(log.indexOf("c2")).toBeLessThan(log.indexOf("c1"));
  expect(result.steps[0]?.toolResults.map(({ content }) => content)).toEqual(["c0", "c1", "c2", "c3", "c4"]);
  expect(() => tracked("bad", JSON.parse('"sometimes"'))).toThrow(/concurrency must be "parallel" or "serial"/);
});

describe("activeTools", () => {
  const tools = ["search", "read", "write"].map((name) => plain(name, () => name));

  test("limits a run to some tools: the model sees no others, and a call of another one is unknown", async () => {
    const { engine: of, adapter } = playing([calls("write"), says("ok")], tools);
    const { thread } = await chat(of, "hi", { activeTools: ["read", "search"] });
    expect(adapter.calls[0]?.request.tools.map(({ name }) => name)).toEqual(["search", "read"]);
    expect(thread.messages[2]).toMatchObject({ role: "tool", status: "failure" });
    const none = playing([says("ok")], tools);
    await chat(none.engine, "hi", { activeTools: [] });
    expect(none.adapter.calls[0]?.request.tools).toEqual([]);
  });

  test("rejects a name that no tool has, and values that are no names", async () => {
    const { engine: of } = playing([says("ok")], tools);
    const wrong: ChatOptions = JSON.parse('{"activeTools":"read"}');
    await expect(async () => chat(of, "hi", { activeTools: ["delete"] })).rejects.toThrow(
      'activeTools: there is no tool "delete"',
    );
    await expect(async () => chat(of, "hi", wrong)).rejects.toThrow("activeTools must be names of tools");
  });
});
