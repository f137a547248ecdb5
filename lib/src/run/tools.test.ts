// What tools may do, and what becomes of it.

import type { OnToolError, Tool, ToolContext } from "everturn";
import type { ToolMessage } from "everturn/model";

import { askUser, chat, engine, fail, failTurn, fake, finish, halt, handoff, step, stream, tool } from "everturn";
import { attachment, messageText, toolFailure } from "everturn/model";
import { transcript } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../test/runs.ts";
import { encodeAsJson } from "./perform/encode-result.ts";

/** The answer to the one call of a run with this tool. */
async function answerOf(of: Tool, options: Parameters<typeof chat>[2] = {}): Promise<ToolMessage | undefined> {
  const { thread } = await chat(playing([calls(of.name), says("ok")], [of]).engine, "hi", options);
  return thread.messages.find((message): message is ToolMessage => message.role === "tool");
}

describe("[allm 53] what a handler may return", () => {
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
  ])("a handler that %s is a failure the model gets to read, and the run goes on", async (_, handler, code, said) => {
    const answer = await answerOf(plain("t", handler));
    expect(answer).toMatchObject({ status: "failure", code });
    expect(JSON.parse(messageText(answer ?? neverHere()))).toMatchObject({ error: expect.stringContaining(said) });
  });

  test("a tool nobody has given a handler is answered so", async () => {
    expect(await answerOf(plain("t"))).toMatchObject({ code: "not_found" });
  });

  test("progress, by yielding or by saying it, and then the value", async () => {
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
    expect(lines.filter((told) => told.startsWith("tool_progress"))).toEqual([
      'tool_progress c0 {"at":0.1}',
      'tool_progress c0 {"at":0.5}',
    ]);
    expect(lines).toContain("tool_result_encoded c0 done");
  });

  test("an image, which the model gets to see as one", async () => {
    const image = attachment({ mimeType: "image/png", source: { type: "base64", data: "iVBORw0KGgo=" } });
    const answer = await answerOf(plain("t", () => ({ chart: image })));
    expect(answer?.content).toMatchObject([{ type: "text" }, { type: "image" }, { type: "text" }]);
  });
});

describe("what stops a run", () => {
  test("[allm 65] a question: a placeholder, the question in the thread, its hints as they were given", async () => {
    const asks = plain("asks", () => askUser("Which?", { choices: ["a", "b"], timeoutMs: 5 }));
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

  test("[allm 66] a halt of its own, with a value", async () => {
    const result = await chat(playing([calls("t")], [plain("t", () => halt("enough", { n: 1 }))]).engine, "hi");
    expect(result).toMatchObject({ haltedReason: "enough", metadata: { haltToolCallId: "c0", haltResult: { n: 1 } } });
    expect(result.thread.messages.at(-1)).toMatchObject({ content: '{"n":1}' });
  });

  test.each([
    "ask_user",
    "max_turns",
    "halt_when",
    "tool_error",
    "cancelled",
    "completed",
    "error",
    "manual_tool_calls",
  ])("[allm 54] not with the library's own word %s", async (word) => {
    expect(await answerOf(plain("t", () => halt(word)))).toMatchObject({ code: "invalid_return" });
  });

  test("the end it chooses: a value, a failure, somebody else", async () => {
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

  test("[allm 50] [allm 51] siblings run to their end, and stand in call order", async () => {
    const ended: string[] = [];
    const slow = plain("slow", async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      ended.push("slow");
      return "slow";
    });
    const { engine: of } = playing([calls("slow", "halts", "slow")], [slow, plain("halts", () => halt("enough"))]);
    const result = await step(of, "hi");
    expect(ended).toEqual(["slow", "slow"]);
    expect(result.toolResults.map(({ content }) => content)).toEqual(["slow", "null", "slow"]);
    expect(result.metadata.haltedReason).toBe("enough");
  });

  test("G9: of several the one with the lowest place counts, whoever was first", async () => {
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

  test("G16: a question beside calls of the caller's leaves both", async () => {
    const own = { ...plain("own"), manual: true };
    const result = await chat(
      playing([calls("asks", "own")], [plain("asks", () => askUser("Sure?")), own]).engine,
      "hi",
    );
    expect(result).toMatchObject({ haltedReason: "ask_user", pendingToolCalls: [{ id: "c1", reason: "manual" }] });
  });
});

describe("[allm 55] failures and who decides about them", () => {
  const boom = plain("boom", () => {
    throw new Error("boom");
  });
  const run = (onToolError: OnToolError) =>
    chat(playing([calls("boom"), says("ok")], [boom]).engine, "hi", { onToolError });

  test("go on, which is what happens unless somebody says otherwise", async () => {
    expect((await run("continue")).haltedReason).toBe("completed");
  });

  test("stop, with the answer in the thread", async () => {
    const result = await run("halt");
    expect(result).toMatchObject({
      haltedReason: "tool_error",
      metadata: { haltToolCallId: "c0", error: { message: "boom" } },
    });
    expect(result.thread.messages.at(-1)).toMatchObject({ role: "tool", content: '{"error":"boom"}' });
  });

  test("what a function says: something instead, or stop", async () => {
    const seen: string[] = [];
    const instead = await run((call, failure) => {
      seen.push(`${call.id} ${failure.message}`);
      return { continue: { fallback: true } };
    });
    expect(seen).toEqual(["c0 boom"]);
    expect(instead.thread.messages[2]).toMatchObject({ content: '{"fallback":true}', status: "success" });
    expect((await run(() => "halt")).haltedReason).toBe("tool_error");
  });

  test("G14: a function that throws stops the run, and what it threw is told by both twins", async () => {
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

  test("a function that answers something else stops the run, and so does a replacement that cannot be shown", async () => {
    const odd: OnToolError = JSON.parse("{}");
    expect((await run(() => odd as never)).outcome).toMatchObject({ failure: { reason: "invalid_return" } });
    expect((await run(() => ({ continue: () => 1 }))).outcome).toMatchObject({
      failure: { reason: "encoding_failed" },
    });
  });

  test("[allm 56] a policy of another shape is refused before anything happens", async () => {
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

  test("[lash 33] G25: what is no JSON is told to the model with what it wrote, and never replaced by {}", async () => {
    const scripts = [
      [{ type: "tool_call", id: "c0", name: "strict", arguments: null, rawArguments: '{"n": oops' } as const],
      says("sorry"),
    ];
    const { thread } = await chat(playing(scripts, [strict]).engine, "hi");
    expect(thread.messages[2]).toMatchObject({ code: "invalid_arguments", content: expect.stringContaining("oops") });
    expect(thread.messages[1]).toMatchObject({ toolCalls: [{ arguments: null, rawArguments: '{"n": oops' }] });
  });

  test("[lash 70] what does not fit is told with its place, and the handler is not asked", async () => {
    expect(await answerOf(strict)).toMatchObject({ code: "invalid_arguments", content: expect.stringContaining("n") });
  });
});

describe("time and crowds", () => {
  test("[allm 49] a tool has 30 seconds, or what it is given; then it failed, and is told to stop", async () => {
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

  test("[allm 48] [lash 71] calls run side by side, so many at a time as they may", async () => {
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
      const names = Array.from({ length: 6 }, () => "busy");
      const { engine: of } = playing([calls(...names), says("ok")], [busy]);
      return chat(of, "hi", maxConcurrency === undefined ? {} : { maxConcurrency });
    };
    await run();
    expect(most).toBe(6);
    await run(2);
    expect(most).toBe(2);
  });

  test("a result that is too long is cut in the middle, with a mark", async () => {
    const answer = await answerOf(
      plain("t", () => "x".repeat(1000)),
      { maxToolResultLength: 100 },
    );
    expect(messageText(answer ?? neverHere())).toMatch(/^x{50}\n\n\.\.\. \(900 characters omitted\) \.\.\.\n\nx{50}$/);
  });
});

describe("[allm 52] what a handler knows", () => {
  test("the caller's context, whose session and request it is, the call, a key, a signal", async () => {
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
        engine: { model: null },
      },
    ]);
  });

  test("the context of the call instead of the engine's; an empty one falls through", async () => {
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

  test("it may run a turn of its own, which counts", async () => {
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

describe("consent", () => {
  const pay = (needsApproval: boolean | (() => boolean | Promise<boolean>)) =>
    tool({ name: "pay", description: "Pays.", schema: { type: "object" }, needsApproval, handler: () => "paid" });

  test("a call that needs it waits, and says so", async () => {
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

describe("[allm 57] encoders", () => {
  test.each([
    ["text", "a", "a"],
    ["a number", 3.5, "3.5"],
    ["null", null, "null"],
    ["a map", { a: 1 }, '{"a":1}'],
    ["a list", [true], "[true]"],
  ])("the library's own makes %s what it is", (_, value, content) => {
    expect(encodeAsJson({ type: "ok", value })).toBe(content);
    expect(encodeAsJson({ type: "error", failure: toolFailure("timeout", { message: "late" }) })).toBe(
      '{"error":"late"}',
    );
  });

  test("another one may be given, for a run or for a tool", async () => {
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

  test("[allm 58] one that throws is a failure like any other, told in the library's words", async () => {
    const broken = () => {
      throw new Error("cannot");
    };
    const answer = await answerOf(
      plain("t", () => 1),
      { toolResultEncoder: broken },
    );
    expect(answer).toMatchObject({ code: "encoding_failed", content: '{"error":"cannot"}' });
  });
});

describe("[lash 74] hooks", () => {
  test("before a tool: let it, change its arguments, answer for it, forbid it", async () => {
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

  test("after a tool, and around steps", async () => {
    const told: string[] = [];
    const answer = await answerOf(
      plain("t", () => "raw"),
      {
        hooks: {
          afterTool: (_, outcome) => (outcome.type === "success" ? { ...outcome, value: "clean" } : null),
          beforeStep: (index) => void told.push(`before ${index}`),
          afterStep: ({ toolResults }) => void told.push(`after ${toolResults.length}`),
        },
      },
    );
    expect(answer).toMatchObject({ content: "clean" });
    expect(told).toEqual(["before 0", "after 1", "before 1", "after 0"]);
  });
});

test("an executor of one's own runs the calls in its own way", async () => {
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

test("usage of every step is told with it", async () => {
  const adapter = fake({ scripts: [calls("ok"), says("Done.")], usage: { inputTokens: 5, outputTokens: 2 } });
  const result = await chat(engine({ adapter, tools: [plain("ok", () => 1)] }), "hi");
  expect(result.steps.map((one) => one.usage.inputTokens)).toEqual([5, 5]);
  expect(result.usage).toMatchObject({ inputTokens: 10, outputTokens: 4 });
});

function neverHere(): never {
  throw new Error("there was no answer");
}
