// Runs under misuse and failure: cancellation, hanging user code, invalid options and return values, usage, API keys.

import type { ToolContext } from "everturn";

import {
  askUser,
  chat,
  engine,
  fake,
  generate,
  halt,
  step,
  stream,
  tool,
  unwrap,
  assistant,
  messageText,
  newSession,
  session as sessions,
} from "everturn";
import { describeEngine, validateSession } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";

const ok = plain("ok", () => "fine");
const approving = (handler: () => unknown) =>
  tool({ name: "pay", description: "Pays.", schema: { type: "object" }, needsApproval: true, handler });

describe("effects are performed once", () => {
  test("an approved call does not run again when the model call after it fails", async () => {
    let paid = 0;
    const { engine: of } = playing(
      [calls("pay"), [{ type: "preflight_error", reason: "authentication_failed" }]],
      [approving(() => (paid += 1))],
    );
    const { session: waits } = await sessions.start(of, "hi");
    const decided = await sessions.decide(of, waits, "c0", { type: "approve" });
    const { session: after } = await sessions.continue(of, decided);
    expect(after).toMatchObject({ status: "error", pendingToolCalls: [] });
    expect(paid).toBe(1);
  });

  test("a cancelled run starts nothing more: neither queued calls nor a call whose approval gate is being asked", async () => {
    const controller = new AbortController();
    let ran = 0;
    const first = plain("first", () => {
      ran += 1;
      controller.abort("enough");
    });
    const names = ["first", "first", "first", "first"];
    const { engine: of } = playing([calls(...names)], [first]);
    expect((await chat(of, "hi", { signal: controller.signal, maxConcurrency: 1 })).haltedReason).toBe("cancelled");
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(ran).toBe(1);
  });

  test("a run with an aborted signal calls no model and no hook", async () => {
    const { engine: of, adapter } = playing([says("never")]);
    let hooked = 0;
    await chat(of, "hi", { signal: AbortSignal.abort(), hooks: { beforeStep: () => void (hooked += 1) } });
    expect([adapter.calls.length, hooked]).toEqual([0, 0]);
  });

  test("a suspended cell is resumed by continue, and step rejects", async () => {
    const cell = {
      id: "t/0/cell",
      language: "javascript",
      code: "1",
      executor: { name: "x", version: "1" },
      calls: [],
      ranMs: 0,
    };
    const environment = { instructions: null, model: null, tools: [], providerTools: [], params: {} };
    const waits = newSession({ suspendedCell: { ...cell, environment } });
    await expect(sessions.step(playing([]).engine, waits)).rejects.toThrow(/use continue to resume it/);
  });
});

describe("a run does not hang", () => {
  test("with a thousand parallel calls and tools that report more progress than is read", async () => {
    const names = Array.from({ length: 1000 }, () => "ok");
    expect((await chat(playing([calls(...names), says("ok")], [ok]).engine, "hi")).haltedReason).toBe("completed");
    const chatty = tool({
      name: "chatty",
      description: "Talks.",
      schema: { type: "object" },
      async *handler() {
        for (let n = 0; n < 400; n += 1) yield n;
        return "done";
      },
    });
    let progress = 0;
    for await (const { type } of stream(playing([calls("chatty", "chatty"), says("ok")], [chatty]).engine, "hi")) {
      if (type === "tool_progress") progress += 1;
    }
    expect(progress).toBe(800);
  });

  test("when a reader stops reading: the result and a cancel still arrive", async () => {
    const script = Array.from({ length: 2000 }, () => ({ type: "text", text: "x" }) as const);
    const controller = new AbortController();
    const events = stream(playing([script]).engine, "hi", { signal: controller.signal });
    await events[Symbol.asyncIterator]().next();
    controller.abort();
    expect((await events.result).haltedReason).toBe("cancelled");
    const left = stream(playing([script]).engine, "hi");
    await left[Symbol.asyncIterator]().next();
    expect((await left.result).haltedReason).toBe("completed");
  });

  test("when a hook never returns: a cancel ends the run", async () => {
    const controller = new AbortController();
    const result = chat(playing([calls("ok"), says("x")], [ok]).engine, "hi", {
      signal: controller.signal,
      hooks: {
        afterStep: () => {
          setTimeout(() => controller.abort(), 1);
          return new Promise(() => undefined);
        },
      },
    });
    expect((await result).haltedReason).toBe("cancelled");
  });

  test("two concurrent calls of next are both answered, and a stream that was left before it started calls no model", async () => {
    const events = stream(playing([says("A")]).engine, "hi")[Symbol.asyncIterator]();
    const [first, second] = await Promise.all([events.next(), events.next()]);
    expect([first.value?.type, second.value?.type]).toEqual(["message_started", "text_delta"]);
    const { engine: of, adapter } = playing([says("never")]);
    const left = stream(of, "hi");
    await left[Symbol.asyncIterator]().return?.();
    expect((await left.result).haltedReason).toBe("cancelled");
    expect(adapter.calls).toHaveLength(0);
  });

  test("when an adapter hangs while its stream is closed", async () => {
    const hanging = {
      provider: "hanging",
      stream: () => ({
        [Symbol.asyncIterator]: () => ({
          next: () =>
            Promise.resolve({
              done: false,
              value: [{ type: "message_started", message: assistant("") } as const],
            } as const),
          return: () => new Promise<never>(() => undefined),
        }),
      }),
    };
    const run = generate(engine({ adapter: hanging }), "hi", {
      onEvent: () => {
        throw new Error("mine");
      },
    });
    await expect(run).rejects.toThrow("mine");
  });
});

describe("invalid options are rejected before the run has an effect", () => {
  test.each([
    [{ maxConcurrency: Number.NaN }, /maxConcurrency/],
    [{ retry: { maxAttempts: Number.NaN } }, /maxAttempts/],
    [{ repair: Number.POSITIVE_INFINITY, output: {} }, /repair/],
    [{ toolTimeout: -1 }, /toolTimeout/],
    [{ budgets: { tokens: Number.NaN } }, /budgets.tokens/],
  ])("%j", async (options, message) => {
    await expect(chat(playing([]).engine, "hi", options)).rejects.toThrow(message);
  });

  test("unknown options and modes throw, for callers without a compiler", async () => {
    const typo: object = { maxTurn: 3 };
    await expect(chat(playing([]).engine, "hi", { ...typo })).rejects.toThrow(/"maxTurn" is not an option/);
    const mode: { readonly mode: "manual" } = JSON.parse('{"mode":"manaul"}');
    await expect(chat(playing([]).engine, "hi", mode)).rejects.toThrow(/mode must be/);
    const nothing: ReturnType<typeof engine> = JSON.parse("{}");
    await expect(chat(nothing, "hi")).rejects.toThrow(/must be an engine/);
  });
});

describe("return values of user functions", () => {
  const answered = async (options: Parameters<typeof chat>[2], of = ok) => {
    const { thread } = await chat(playing([calls(of.name), says("x")], [of]).engine, "hi", options);
    return thread.messages[2];
  };

  test("an encoder that returns neither text nor parts is a failure that the model reads", async () => {
    const odd: { readonly value: string } = JSON.parse('{"value":5}');
    expect(await answered({ toolResultEncoder: () => odd.value })).toMatchObject({ code: "encoding_failed" });
  });

  test("a hook that returns undefined changes nothing", async () => {
    const none: { readonly value: null } = JSON.parse("{}");
    expect(await answered({ hooks: { afterTool: () => none.value } })).toMatchObject({ content: "fine" });
  });

  test("an error whose getters throw is a tool failure", async () => {
    const hostile = plain("hostile", () => {
      throw new Proxy(new Error("x"), {
        get() {
          throw new Error("no looking");
        },
      });
    });
    expect(await answered({}, hostile)).toMatchObject({ code: "handler_raised" });
  });

  test("invalid messages of onCheckpoint throw", async () => {
    const bad: { readonly messages: [] } = JSON.parse('{"messages":[{"role":"user"}]}');
    await expect(chat(playing([says("A")]).engine, "hi", { onCheckpoint: () => bad })).rejects.toThrow(/content/);
  });

  test("progress after the end of a call is dropped", async () => {
    let late: (progress: string) => void = () => undefined;
    const leaks = tool({
      name: "leaks",
      description: "Leaks.",
      schema: { type: "object" },
      handler: (_, { progress }: ToolContext) => void (late = progress),
    });
    const seen: string[] = [];
    for await (const { type } of stream(playing([calls("leaks"), says("x")], [leaks]).engine, "hi")) {
      if (type === "step_completed") late("too late");
      seen.push(type);
    }
    expect(seen).not.toContain("tool_progress");
  });
});

describe("usage is counted however the run ends", () => {
  test("attempts before a cancel are counted", async () => {
    const scripts = [
      [
        { type: "usage", usage: { inputTokens: 100 } },
        { type: "error", reason: "timeout" },
      ] as const,
      [
        { type: "text", text: "x" },
        { type: "delay", ms: 5000 },
      ] as const,
    ];
    const { engine: of, clock } = playing(scripts);
    const controller = new AbortController();
    const result = chat(of, "hi", { signal: controller.signal });
    await clock.advance(600);
    controller.abort();
    expect((await result).usage.inputTokens).toBe(100);
  });

  test("token and cost budgets of a session continue from run to run", async () => {
    const adapter = fake({
      scripts: [says("A"), calls("ok"), calls("ok")],
      usage: { inputTokens: 100, outputTokens: 1 },
    });
    const of = engine({ adapter, tools: [ok] });
    const options = { budgets: { tokens: 150 } };
    const first = await sessions.start(of, "hi", options);
    expect((await sessions.reply(of, first.session, "again", options)).result.haltedReason).toBe("budget");
    expect(adapter.remaining).toBe(1);
  });
});

describe("API keys", () => {
  test("are removed from errors of an adapter", async () => {
    const leaky = {
      provider: "leaky",
      stream: (_: unknown, { apiKey }: { readonly apiKey: string | null }) => ({
        [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error(`bad key ${apiKey}`)) }),
      }),
    };
    const error = await generate(engine({ adapter: leaky }), "hi", { apiKey: "sk-very-secret" }).catch(
      (thrown: unknown) => thrown,
    );
    expect(JSON.stringify(error instanceof Error ? [error.message, { ...error }] : error)).not.toContain(
      "sk-very-secret",
    );
  });

  test("are rejected in the description of an engine, wherever they are", () => {
    expect(() => describeEngine(engine({ options: { params: { apiKey: "sk-x" } } }))).toThrow(/contains a credential/);
    expect(() => describeEngine(engine({ context: { apiKey: "sk-x" } }))).toThrow(/contains a credential/);
  });
});

describe("a session can always be continued", () => {
  const wants = plain("wants", () => askUser("What?", { answerAs: "tool_result" }));
  const boom = plain("boom", () => {
    throw new Error("boom");
  });

  test("a question that a failed run left open is asked once the session is recovered", async () => {
    const { engine: of } = playing([calls("boom", "wants"), says("Done.")], [boom, wants]);
    const { session: failed } = await sessions.start(of, "hi", { onToolError: "halt" });
    expect(failed.status).toBe("error");
    const recovered = sessions.recover(failed);
    expect(recovered).toMatchObject({ status: "awaiting_user", pendingQuestion: "What?" });
    expect(validateSession(recovered).ok).toBe(true);
    expect((await sessions.reply(of, recovered, "that")).session.status).toBe("completed");
  });

  test("a question that a halted run left open is asked, and every question is in the thread", async () => {
    const { engine: of } = playing(
      [calls("stops", "wants"), says("Done.")],
      [plain("stops", () => halt("mine")), wants],
    );
    const { session: waitingSession } = await sessions.start(of, "hi");
    expect(waitingSession).toMatchObject({ status: "awaiting_user", pendingQuestion: "What?" });
    expect(waitingSession.thread.messages.map(messageText)).toContain("What?");
  });
});

test("R2: usage and text of a failed attempt are not in the reply, awaited or collected", async () => {
  const scripts = [
    [
      { type: "usage", usage: { inputTokens: 100 } },
      { type: "error", reason: "timeout" },
    ] as const,
    says("A"),
  ];
  const one = playing(scripts);
  const awaited = generate(one.engine, "hi");
  await one.clock.advance(500);
  expect((await awaited).usage.inputTokens).toBeNull();
});

test("R2: calls of a failed reply are not in the reply", async () => {
  const script = [{ type: "tool_call_delta", id: "c", name: "ok", argumentsDelta: "{" }, { type: "cut" }] as const;
  const of = () => playing([script], [], { retry: false }).engine;
  expect((await generate(of(), "hi")).toolCalls).toEqual([]);
  expect((await step(of(), "hi")).response.toolCalls).toEqual([]);
});

test("unwrap throws for a run without an answer", async () => {
  const result = await chat(playing([calls("ok")], [ok]).engine, "hi", { maxTurns: 1 });
  expect(() => unwrap(result)).toThrow(/halted as max_turns/);
});

test("the cost of a step does not grow with the number of steps before it", async () => {
  const scripts = [...Array.from({ length: 1500 }, () => calls("ok")), says("Done.")];
  const result = await chat(playing(scripts, [ok]).engine, "hi", { maxTurns: 2000 });
  expect(result.steps).toHaveLength(1501);
  expect(result.steps[700]?.thread.messages).toHaveLength(1 + 701 * 2);
});
