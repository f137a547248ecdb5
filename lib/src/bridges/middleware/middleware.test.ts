// The ready-made middleware: response cache, logging, redaction of personal data, guardrails, default settings.
// rate-limit.test.ts has the rate limit.

import type { FakeScript } from "everturn";
import type { Middleware } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { chat, engine, fake, openai, stream, tool, AdapterError, assistant, modelRef, textPart, user } from "everturn";
import { modelReply, toolCall } from "everturn/advanced";
import {
  defaultSettings,
  guardrails,
  logging,
  readReply,
  redactPii,
  replyEvents,
  responseCache,
} from "everturn/middleware";
import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { handClock } from "everturn/testing";
import Libsql from "libsql";
import { pino } from "pino";
import { describe, expect, test } from "vitest";

import { playing, says } from "../../../test/runs.ts";
import { reasoningPart } from "../../core/model/internal.ts";

/** The text of an answer. */
async function answer(agent: Parameters<typeof chat>[0], question: string): Promise<string | null> {
  return (await chat(agent, question)).finalResponse?.outputText ?? null;
}

describe("replyEvents and readReply", () => {
  const calls = [toolCall({ id: "c0", name: "pay", arguments: { a: 1 } })];
  const stopped = { finishReason: "stop" } as const;
  const called = { finishReason: "tool_calls", toolCalls: calls } as const;
  const parts = [reasoningPart("hm"), textPart("Hi.")];
  test.each([
    ["text", modelReply({ message: assistant("Hi.", stopped), outputText: "Hi.", ...stopped })],
    ["tool calls", modelReply({ message: assistant("", called), ...called })],
    ["reasoning and text", modelReply({ message: assistant(parts, stopped), outputText: "Hi.", ...stopped })],
    ["nothing", modelReply({ message: assistant("", stopped), ...stopped })],
  ])("a reply with %s is the same after its events", async (_, reply) => {
    async function* events() {
      yield replyEvents(reply);
    }
    const read = await readReply(events());
    expect({ ...read, outputText: read.outputText ?? "" }).toEqual({ ...reply, outputText: reply.outputText ?? "" });
  });

  test("a stream that fails, is cut, or throws an Everturn error is a reply with the failure", async () => {
    async function* cut() {
      yield replyEvents("Hi.").slice(0, 2);
    }
    expect(await readReply(cut())).toMatchObject({ error: { reason: "interrupted" }, outputText: "Hi." });
    async function* refused() {
      yield replyEvents("Hi.").slice(0, 1);
      throw new AdapterError("rate_limited");
    }
    expect(await readReply(refused())).toMatchObject({ error: { reason: "rate_limited" }, finishReason: "error" });
  });
});

describe("responseCache", () => {
  const storages: readonly (readonly [string, () => HostStorage])[] = [
    ["memory", () => memoryStorage()],
    ["SQLite", () => sqliteStorage(new Libsql(":memory:"))],
  ];
  test.each(storages)("answers an equal request from %s", async (_, open) => {
    const storage = open();
    const agent = (adapter = fake({ script: says("Rome") })) =>
      engine({ adapter, model: "fake:m", middleware: [responseCache({ storage })] });
    expect(await answer(agent(), "Capital of Italy?")).toBe("Rome");
    // Another process, with another adapter.
    const second = fake({ script: says("Paris") });
    expect(await answer(agent(second), "Capital of Italy?")).toBe("Rome");
    expect(await answer(agent(second), "Capital of France?")).toBe("Paris");
  });

  /** An engine whose replies are numbered, and the number of its model calls. */
  function numbered(middleware: Middleware, clock = handClock()) {
    const adapter = fake({
      scripts: Array.from({ length: 9 }, (_, n) => says(`reply ${n}`)),
      usage: { inputTokens: 5 },
    });
    return { adapter, clock, agent: engine({ adapter, model: "fake:m", middleware: [middleware], clock }) };
  }

  test("streams a cached reply with the same events, without usage, and marks it", async () => {
    const { agent } = numbered(responseCache({ storage: memoryStorage() }));
    const first = await chat(agent, "hi");
    const cached = stream(agent, "hi");
    let text = "";
    for await (const event of cached) if (event.type === "text_delta") text += event.delta;
    const result = await cached.result;
    expect(text).toBe("reply 0");
    expect(result.finalResponse?.metadata).toEqual({ responseCache: "hit" });
    expect([first.usage.inputTokens, result.usage.inputTokens]).toEqual([5, null]);
  });

  test("the key has the model, the settings and the scope, and not the session or the stream", async () => {
    const { agent, adapter } = numbered(
      responseCache({ storage: memoryStorage(), scope: ({ context }) => JSON.stringify(context) }),
    );
    await chat(agent, "hi");
    await chat(agent, "hi", { temperature: 1 });
    await chat(agent, "hi", { model: "fake:other" });
    await chat(agent, "hi", { context: { tenant: "b" } });
    await chat(agent, "hi", { adapterOptions: { headers: { "x-version": "2" } } });
    expect(adapter.calls).toHaveLength(5);
    await chat(agent, "hi", { sessionId: "s1", model: modelRef({ id: "m" }), metadata: { trace: "1" } });
    await stream(agent, "hi").result;
    expect(adapter.calls).toHaveLength(5);
  });

  test("servers of one provider share no replies", async () => {
    const storage = memoryStorage();
    const asked = async (baseURL: string) => {
      const adapter = { ...fake({ script: says(baseURL) }), endpoint: openai({ apiKey: "k", baseURL }).endpoint ?? "" };
      return answer(engine({ adapter, model: "fake:m", middleware: [responseCache({ storage })] }), "hi");
    };
    expect(await asked("https://a.test/v1")).toBe("https://a.test/v1");
    expect(await asked("https://b.test/v1")).toBe("https://b.test/v1");
    expect(await asked("https://a.test/v1/")).toBe("https://a.test/v1");
  });

  test("a reply expires, and expired rows are removed", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const { agent, adapter } = numbered(responseCache({ storage, ttlMs: 1000 }), clock);
    // The reply is read in the period after the one in which it was stored.
    await clock.advance(5500);
    await chat(agent, "hi");
    await clock.advance(900);
    expect(await answer(agent, "hi")).toBe("reply 0");
    await clock.advance(200);
    expect(await answer(agent, "hi")).toBe("reply 1");
    await clock.advance(5000);
    await chat(agent, "other");
    const [rows = []] = await storage.read([{ table: "shared", prefix: [] }]);
    expect(rows).toHaveLength(1);
    expect(adapter.calls).toHaveLength(3);
  });

  test("expired rows of a longer and of a shorter time to live are removed, some with each write", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const cached = (ttlMs: number) => numbered(responseCache({ storage, ttlMs }), clock).agent;
    await clock.advance(10_000_000);
    await chat(cached(1000), "short");
    await chat(cached(50_000), "long");
    const expired = Array.from({ length: 1500 }, (_, n) => ["response_cache/response_cache", 1, String(n)] as const);
    const puts = expired.map((key) => ({ table: "shared", key, tag: 0, value: "{}", ttlMs: 1 }) as const);
    await storage.write({ checks: [], removals: [], puts });
    await clock.advance(200_000);
    const agent = cached(20_000);
    const count = async () => (await storage.read([{ table: "shared", prefix: [] }]))[0]?.length;
    await chat(agent, "a");
    expect(await count()).toBeGreaterThan(100);
    for (const text of ["b", "c"]) await chat(agent, text);
    expect(await count()).toBe(3);
  });

  test("stores no failures, no cut replies, and nothing that shouldStore refuses", async () => {
    const scripts: readonly FakeScript[] = [
      [{ type: "error", reason: "invalid_request" }],
      [
        { type: "text", text: "cut" },
        { type: "finish", reason: "length" },
      ],
      says("secret"),
      says("fine"),
    ];
    const shouldStore = ({ outputText }: { readonly outputText: string | null }) => outputText !== "secret";
    const { engine: agent, adapter } = playing(scripts, [], {
      middleware: [responseCache({ storage: memoryStorage(), shouldStore })],
    });
    for (let n = 0; n < 5; n += 1) await chat(agent, "hi");
    expect(adapter.calls).toHaveLength(4);
    const thrown = () => {
      throw new Error("a mistake");
    };
    const { agent: failing } = numbered(responseCache({ storage: memoryStorage(), shouldStore: thrown }));
    expect(await chat(failing, "hi")).toMatchObject({ haltedReason: "completed", finalResponse: { error: null } });
  });

  test("a store of the program may fail, or return anything: the model is called", async () => {
    const values: readonly (() => Promise<string | null>)[] = [
      () => Promise.reject(new Error("down")),
      () => Promise.resolve("no JSON"),
      () => Promise.resolve("{}"),
      () => Promise.resolve(JSON.parse("5")),
    ];
    for (const get of values) {
      const { agent } = numbered(responseCache({ storage: { get, set: () => Promise.reject(new Error("down")) } }));
      expect(await answer(agent, "hi")).toBe("reply 0");
    }
  });

  test("a cached reply with tool calls runs the tools", async () => {
    let runs = 0;
    const count = tool({
      name: "count",
      description: "Counts.",
      schema: { type: "object" },
      handler: () => (runs += 1),
    });
    const { engine: agent, adapter } = playing(
      [[{ type: "tool_call", name: "count" }], says("a"), says("b")],
      [count],
      {
        middleware: [responseCache({ storage: memoryStorage() })],
      },
    );
    await chat(agent, "hi");
    await chat(agent, "hi");
    expect([runs, adapter.calls.length]).toEqual([2, 3]);
  });
});

describe("logging", () => {
  type Line = {
    readonly level: string;
    readonly fields: { readonly [name: string]: unknown };
    readonly message: string;
  };
  function recorder() {
    const lines: Line[] = [];
    const write = (level: string) => (fields: object, message: string) => {
      lines.push({ level, fields: { ...fields }, message });
    };
    return { lines, logger: { debug: write("debug"), info: write("info"), warn: write("warn") } };
  }

  test("writes a line for the start and the end of model calls and tool calls, without contents", async () => {
    const { lines, logger } = recorder();
    const secret = tool({ name: "secret", description: "x", schema: { type: "object" }, handler: () => "tool-value" });
    const { engine: agent } = playing(
      [[{ type: "tool_call", id: "c0", name: "secret" }], says("reply-text")],
      [secret],
      {
        middleware: [logging({ logger })],
      },
    );
    await chat(agent, "user-text", { requestId: "r1", sessionId: "s1" });
    expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
      "debug model call started",
      "info model call completed",
      "debug tool call started",
      "info tool call completed",
      "debug model call started",
      "info model call completed",
    ]);
    expect(lines[1]?.fields).toMatchObject({
      requestId: "r1",
      sessionId: "s1",
      provider: "fake",
      model: "fake:m",
      attempt: 1,
      durationMs: 0,
      finishReason: "tool_calls",
      toolCallCount: 1,
    });
    expect(lines[3]?.fields).toMatchObject({ tool: "secret", toolCallId: "c0", outcome: "success" });
    expect(JSON.stringify(lines)).not.toMatch(/user-text|reply-text|tool-value/);
  });

  test("writes to a pino logger: fields and message are one JSON line, of the level that is set", async () => {
    const lines: string[] = [];
    const logger = pino({ level: "info", base: null, timestamp: false }, { write: (line: string) => lines.push(line) });
    const failing: FakeScript = [{ type: "error", reason: "invalid_request", message: "too long" }];
    const { engine: agent } = playing([says("Hi."), failing], [], { middleware: [logging({ logger })] });
    await chat(agent, "hi", { requestId: "r1" });
    await chat(agent, "hi", { requestId: "r2" });
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 30, requestId: "r1", model: "fake:m", finishReason: "stop", msg: "model call completed" },
      { level: 40, requestId: "r2", err: { reason: "invalid_request", message: "too long" }, msg: "model call failed" },
    ]);
  });

  test("content adds contents; failures are warnings; a logger that throws does not matter", async () => {
    const { lines, logger } = recorder();
    const failing: FakeScript = [{ type: "error", reason: "invalid_request", message: "too long" }];
    const { engine: agent } = playing([failing, says("reply-text")], [], {
      middleware: [logging({ logger, content: true })],
    });
    await chat(agent, "user-text");
    await chat(agent, "user-text");
    expect(lines[1]).toMatchObject({
      level: "warn",
      message: "model call failed",
      fields: { err: { reason: "invalid_request" } },
    });
    expect(JSON.stringify(lines)).toMatch(/user-text.*reply-text/);
    const broken = () => {
      throw new Error("disk");
    };
    const { engine: other } = playing([says("Hi.")], [], {
      middleware: [logging({ logger: { debug: broken, info: broken, warn: broken } })],
    });
    expect(await answer(other, "hi")).toBe("Hi.");
  });

  test("a call that is cancelled is logged as aborted", async () => {
    const { lines, logger } = recorder();
    const script: FakeScript = [
      { type: "text", text: "a" },
      { type: "delay", ms: 1000 },
      { type: "text", text: "b" },
    ];
    const { engine: agent, clock } = playing([script], [], { middleware: [logging({ logger })] });
    const running = stream(agent, "hi");
    for await (const event of running) if (event.type === "text_delta") break;
    await running.result;
    await clock.advance(1);
    expect(lines.at(-1)).toMatchObject({ level: "info", message: "model call aborted" });
  });
});

describe("redactPii", () => {
  /** The text that the model gets for this text of the user. */
  async function sent(text: string, options: Parameters<typeof redactPii>[0] = {}): Promise<unknown> {
    const { engine: agent, adapter } = playing([says("ok")], [], { middleware: [redactPii(options)] });
    await chat(agent, text);
    return adapter.calls[0]?.request.messages[0]?.content;
  }

  test.each([
    ["ada@example.com and ada@example.com, bob@x.org", "[EMAIL_1] and [EMAIL_1], [EMAIL_2]"],
    ["card 4111 1111 1111 1111, order 4111 1111 1111 1112", "card [CREDIT_CARD_1], order 4111 1111 1111 1112"],
    ["DE89 3704 0044 0532 0130 00 / GB82WEST12345698765432", "[IBAN_1] / [IBAN_2]"],
    ["DE89 3704 0044 0532 0130 01", "DE89 3704 0044 0532 0130 01"],
    ["SSN 123-45-6789, not 000-12-3456", "SSN [US_SSN_1], not 000-12-3456"],
    [
      "from 192.168.0.1 or 2001:db8::1, at 12:30:45, v1.2.3.4000",
      "from [IP_ADDRESS_1] or [IP_ADDRESS_2], at 12:30:45, v1.2.3.4000",
    ],
    ["+49 30 901820 or (415) 555-2671, 2026-11-16, 3.14159", "[PHONE_1] or [PHONE_2], 2026-11-16, 3.14159"],
    ["std::vector and a::b", "std::vector and a::b"],
    ["jürgen@müller.de", "[EMAIL_1]"],
  ])("%s", async (text, redacted) => {
    expect(await sent(text)).toBe(redacted);
  });

  test("kinds and patterns of the program", async () => {
    const options = { kinds: ["email"], patterns: { employee: /E-\d{6}/ } } as const;
    expect(await sent("E-123456, ada@example.com, 192.168.0.1", options)).toBe("[EMPLOYEE_1], [EMAIL_1], 192.168.0.1");
  });

  test("a placeholder in the text of the user is not given to a value", async () => {
    expect(await sent("What is [EMAIL_1]? I am ada@example.com.")).toBe("What is [EMAIL_1]? I am [EMAIL_2].");
  });

  test("restores values in the stream, wherever the placeholder is split, and in the message", async () => {
    const text = "Write to [EMAIL_1], not [EMAIL_9] or [x], ok [EMAIL_1";
    for (let size = 1; size < 12; size += 1) {
      const script = (text.match(new RegExp(`.{1,${size}}`, "g")) ?? []).map(
        (piece) => ({ type: "text", text: piece }) as const,
      );
      const { engine: agent } = playing([script], [], { middleware: [redactPii()] });
      const running = stream(agent, "I am ada@example.com");
      let streamed = "";
      for await (const event of running) if (event.type === "text_delta") streamed += event.delta;
      const restored = "Write to ada@example.com, not [EMAIL_9] or [x], ok [EMAIL_1";
      expect([streamed, (await running.result).finalResponse?.outputText]).toEqual([restored, restored]);
    }
  });

  test("tools get the values, and the next request has placeholders again, with the same numbers", async () => {
    const received: unknown[] = [];
    const mail = tool({
      name: "mail",
      description: "Sends a mail.",
      schema: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
      handler: ({ to }) => {
        received.push(to);
        return `sent to ${String(to)}; copy to bob@example.com`;
      },
    });
    const script: FakeScript = [
      { type: "tool_call_delta", id: "c0", name: "mail", argumentsDelta: '{"to":"\\n[EMA' },
      { type: "tool_call_delta", id: "c0", argumentsDelta: 'IL_1]"}' },
    ];
    const { engine: agent, adapter } = playing([script, says("Told [EMAIL_2].")], [mail], {
      middleware: [redactPii()],
    });
    const result = await chat(agent, "Write to ada@example.com");
    expect(received).toEqual(["\nada@example.com"]);
    const second = JSON.stringify(adapter.calls[1]?.request.messages);
    expect(second).not.toMatch(/@example/);
    expect(second).toContain("sent to \\n[EMAIL_1]; copy to [EMAIL_2]");
    expect(result.finalResponse?.outputText).toBe("Told bob@example.com.");
  });

  test("values in an answer that is JSON are escaped", async () => {
    const patterns = { quoted: /<.*>/ };
    const output = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    for (const replies of [false, true]) {
      const { engine: agent } = playing([says('{"name":"[QUOTED_1]"}')], [], {
        middleware: [redactPii({ patterns, replies })],
      });
      const result = await chat(agent, 'I am <Ada "Ace" \\ L>', { output });
      expect(result.finalResponse?.output?.value).toEqual({ name: '<Ada "Ace" \\ L>' });
    }
  });

  test("a text with very many placeholders and values", async () => {
    const text = "[EMAIL_7] a@b.co ".repeat(100_000);
    expect(String(await sent(text)).slice(0, 40)).toBe("[EMAIL_7] [EMAIL_1] [EMAIL_7] [EMAIL_1] ");
  });

  test("restore: false keeps placeholders; replies: true replaces what the model writes itself", async () => {
    const asked = "I am ada@example.com";
    const { engine: kept } = playing([says("Hi [EMAIL_1]")], [], { middleware: [redactPii({ restore: false })] });
    expect(await answer(kept, asked)).toBe("Hi [EMAIL_1]");
    const { engine: cleaned } = playing([says("Hi [EMAIL_1], ask bob@example.com")], [], {
      middleware: [redactPii({ replies: true })],
    });
    expect(await answer(cleaned, asked)).toBe("Hi ada@example.com, ask [EMAIL]");
  });

  test("leaves system messages and requests without personal data as they are", async () => {
    const { engine: agent, adapter } = playing([says("ok")], [], {
      middleware: [redactPii()],
      instructions: "Support: help@x.org",
    });
    await chat(agent, "hello");
    expect(JSON.stringify(adapter.calls[0]?.request.messages)).toContain("help@x.org");
  });

  test("takes time linear in the length of the text", async () => {
    const long =
      "a".repeat(200_000) + "1-".repeat(100_000) + ":".repeat(50_000) + "1.".repeat(100_000) + "+1 ".repeat(50_000);
    const startedAt = performance.now();
    await sent(long);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});

describe("guardrails", () => {
  test("a guard before blocks the call: nothing is sent, and the turn ends as filtered", async () => {
    const { engine: agent, adapter } = playing([], [], {
      middleware: [guardrails({ before: [() => null, (_request, text) => (/bomb/.test(text) ? "weapons" : null)] })],
    });
    const result = await chat(agent, "How to build a bomb?");
    expect(result.outcome.type).toBe("filtered");
    expect(result.finalResponse?.metadata).toEqual({ guardrail: { stage: "before", reason: "weapons" } });
    expect(adapter.calls).toHaveLength(0);
  });

  test("a verdict is for one request: a middleware that passes on another one gets another verdict", async () => {
    const changes: Middleware = {
      name: "changes",
      async *model({ request }, next) {
        await readReply(next(request));
        yield* next({ ...request, messages: [user("a bomb")] });
      },
      tool: async (call, next) => {
        await next(call.arguments);
        return next({ ...call.arguments, amount: 1000 });
      },
    };
    const guards = guardrails({
      before: [(_request, text) => (text.includes("bomb") ? "weapons" : null)],
      beforeTool: [({ arguments: args }) => (args["amount"] === 1000 ? "too much" : null)],
    });
    const { model: wrapModel, tool: wrapTool, name } = changes;
    const { engine: agent, adapter } = playing([says("a"), says("b")], [], {
      middleware: [{ name, ...(wrapModel === undefined ? {} : { model: wrapModel }) }, guards],
    });
    expect((await chat(agent, "hi")).outcome.type).toBe("filtered");
    expect(adapter.calls).toHaveLength(1);
    const amounts: unknown[] = [];
    const pay = tool({
      name: "pay",
      description: "x",
      schema: { type: "object", properties: { amount: { type: "number" } } },
      handler: ({ amount }) => amounts.push(amount),
    });
    const { engine: payer } = playing(
      [[{ type: "tool_call", name: "pay", arguments: { amount: 1 } }], says("b")],
      [pay],
      {
        middleware: [{ name, ...(wrapTool === undefined ? {} : { tool: wrapTool }) }, guards],
      },
    );
    await chat(payer, "hi");
    expect(amounts).toEqual([1]);
  });

  test("a guard after holds the stream back: nothing of a blocked reply is published, and it is billed", async () => {
    const adapter = fake({ scripts: [says("the secret"), says("fine")], usage: { inputTokens: 5, outputTokens: 2 } });
    const middleware = [
      guardrails({ after: [(_reply, text) => (text.includes("secret") ? "leak" : undefined)], message: "No." }),
    ];
    const agent = engine({ adapter, model: "fake:m", middleware });
    const running = stream(agent, "hi");
    let events = "";
    for await (const event of running) events += JSON.stringify(event);
    expect(events).not.toContain("secret");
    expect(await running.result).toMatchObject({
      outcome: { type: "filtered" },
      usage: { inputTokens: 5, outputTokens: 2 },
    });
    expect(await answer(agent, "hi")).toBe("fine");
  });

  test("tools of a blocked reply do not run", async () => {
    let runs = 0;
    const act = tool({ name: "act", description: "x", schema: { type: "object" }, handler: () => (runs += 1) });
    const { engine: agent } = playing([[{ type: "tool_call", name: "act" }]], [act], {
      middleware: [guardrails({ after: [() => "never"] })],
    });
    expect((await chat(agent, "hi")).outcome.type).toBe("filtered");
    expect(runs).toBe(0);
  });

  test("retries asks the model again with the reason; onBlock: error fails the call", async () => {
    const noRude = (_reply: unknown, text: string) => (text.includes("rude") ? "be polite" : null);
    const { engine: agent, adapter } = playing([says("rude"), says("kind")], [], {
      middleware: [guardrails({ after: [noRude], retries: 1 })],
    });
    expect(await answer(agent, "hi")).toBe("kind");
    expect(JSON.stringify(adapter.calls[1]?.request.messages)).toContain("be polite");
    const { engine: strict } = playing([says("rude")], [], {
      middleware: [guardrails({ after: [noRude], onBlock: "error" })],
    });
    await expect(chat(strict, "hi")).rejects.toMatchObject({ failure: { reason: "content_filter", retryable: false } });
  });

  test("a guard that throws, or returns no verdict, fails the call", async () => {
    const broken = [() => Promise.reject(new Error("down")), () => JSON.parse("true")];
    for (const guard of broken) {
      const { engine: agent, adapter } = playing([says("Hi.")], [], { middleware: [guardrails({ before: [guard] })] });
      await expect(chat(agent, "hi")).rejects.toThrow();
      expect(adapter.calls).toHaveLength(0);
    }
  });

  test("guards before and after a tool call", async () => {
    const log: string[] = [];
    const act = tool({
      name: "act",
      description: "x",
      schema: { type: "object" },
      handler: (args) => {
        log.push(JSON.stringify(args));
        return "secret";
      },
    });
    const call = (n: number): FakeScript => [{ type: "tool_call", id: "c0", name: "act", arguments: { n } }];
    const { engine: agent } = playing([call(1), call(2), says("Done.")], [act], {
      middleware: [
        guardrails({
          beforeTool: [({ arguments: args }) => (args["n"] === 1 ? "not 1" : null)],
          afterTool: [(outcome) => (outcome.type === "success" && outcome.value === "secret" ? "leak" : null)],
        }),
      ],
    });
    const { thread } = await chat(agent, "hi");
    const results = thread.messages.filter(({ role }) => role === "tool");
    expect(results).toMatchObject([
      { code: "denied", content: '{"error":"not 1"}' },
      { code: "denied", content: '{"error":"leak"}' },
    ]);
    expect(log).toEqual(['{"n":2}']);
  });
});

describe("defaultSettings", () => {
  /** The request that the adapter gets. */
  async function request(settings: Parameters<typeof defaultSettings>[0], options: Parameters<typeof chat>[2] = {}) {
    const { engine: agent, adapter } = playing([says("ok")], [], { middleware: [defaultSettings(settings)] });
    await chat(agent, "hi", options);
    return adapter.calls[0]?.request;
  }

  test("sets what the request does not set; the first matching key wins", async () => {
    const settings = { "fake:m": { temperature: 0 }, "*": { temperature: 1, maxTokens: 10, stopSequences: ["END"] } };
    expect(await request(settings)).toMatchObject({ temperature: 0, maxTokens: 10, stopSequences: ["END"] });
    expect(await request(settings, { temperature: 0.5, stopSequences: ["X"] })).toMatchObject({
      temperature: 0.5,
      stopSequences: ["X"],
    });
  });

  test.each([
    ["m", true],
    ["FAKE:M", true],
    ["fake:*", true],
    ["*m", true],
    ["fake", false],
    ["m2", false],
    ["openai:*", false],
    [".", false],
  ])("the key %s matches fake:m: %s", async (key, matches) => {
    expect((await request({ [key]: { seed: 7 } }))?.seed).toBe(matches ? 7 : null);
  });

  test("merges options and provider options key by key, and fills nested settings", async () => {
    const settings = {
      "*": {
        options: { a: 1, b: 1 },
        providerOptions: { anthropic: { top_k: 5 } },
        reasoning: { effort: "low" },
        promptCache: {},
      },
    };
    const sent = await request(settings, {
      options: { b: 2 },
      providerOptions: { anthropic: { service_tier: "auto" } },
    });
    expect(sent).toMatchObject({ options: { a: 1, b: 2 }, reasoning: { effort: "low" } });
    expect(sent?.providerOptions).toEqual({ anthropic: { top_k: 5, service_tier: "auto" } });
  });

  test("refuses unknown settings and wrong types", () => {
    expect(() => defaultSettings({ "*": JSON.parse('{"temprature":1}') })).toThrow('no setting "temprature"');
    expect(() => defaultSettings({ "*": JSON.parse('{"temperature":"hot"}') })).toThrow();
  });
});

describe("options", () => {
  test.each([
    ["responseCache", () => responseCache(JSON.parse('{"storage":{},"ttl":1}'))],
    ["responseCache", () => responseCache({ storage: memoryStorage(), ttlMs: 0 })],
    ["logging", () => logging(JSON.parse('{"logger":{}}'))],
    ["redactPii", () => redactPii(JSON.parse('{"kinds":["name"]}'))],
    ["redactPii", () => redactPii({ patterns: { "a b": /x/ } })],
    ["guardrails", () => guardrails(JSON.parse('{"before":[1]}'))],
    ["guardrails", () => guardrails(JSON.parse('{"befor":[]}'))],
    ["guardrails", () => guardrails(JSON.parse('{"onBlock":"fail"}'))],
    ["responseCache", () => responseCache({ storage: memoryStorage(), scope: JSON.parse('"tenant"') })],
  ])("%s refuses wrong options", (name, build) => {
    expect(build).toThrow(name);
  });
});
