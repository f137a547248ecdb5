// Property tests of runs (R2, S2, replay, cancellation), over random scripts of the model and random tools.

import type { Engine, FakeScript, FakeStep, ChatOptions, TurnEvent } from "everturn";
import type { OnToolError } from "everturn/advanced";

import {
  askUser,
  chat,
  engine,
  fail,
  fake,
  finish,
  generate,
  halt,
  step,
  stream,
  streamGenerate,
  streamStep,
  tool,
  validateThread,
  session as sessions,
} from "everturn";
import { collectChat, collectReply, collectStep, addUser, validateSession } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { planRun } from "../../src/core/run/internal.ts";
import { replayPlan } from "../replay-journal.ts";

const object = { type: "object" };
const named = (name: string) => ({ name, description: name, schema: object });

/** The tools of every run. */
const tools = [
  tool({ ...named("ok"), handler: () => ({ sky: "clear" }) }),
  tool({ ...named("later"), handler: async () => Promise.resolve().then(() => "later") }),
  tool({
    ...named("yields"),
    async *handler() {
      yield "half";
      return "whole";
    },
  }),
  tool({
    ...named("throws"),
    handler: () => {
      throw new Error("boom");
    },
  }),
  tool({ ...named("fails"), handler: () => fail("no luck") }),
  tool({ ...named("asks"), handler: () => askUser("Which?", { choices: ["a", "b"] }) }),
  tool({ ...named("asks_for_result"), handler: () => askUser("What?", { answerAs: "tool_result" }) }),
  tool({ ...named("halts"), handler: () => halt("enough", { n: 1 }) }),
  tool({ ...named("reserved"), handler: () => halt("completed") }),
  tool({ ...named("finishes"), handler: () => finish(42) }),
  tool({ ...named("unserializable"), handler: () => () => 1 }),
  tool({ ...named("manual"), manual: true }),
  tool({ ...named("gated"), needsApproval: true, handler: () => "done" }),
  tool({ ...named("strict"), schema: { type: "object", required: ["x"] }, handler: () => "x" }),
];

const call: fc.Arbitrary<FakeStep> = fc
  .constantFrom(...tools.map(({ name }) => name), "missing")
  .map((name) => ({ type: "tool_call", name, arguments: {} }));
const text: fc.Arbitrary<FakeStep> = fc
  .constantFrom("Hel", "lo", "", " ")
  .map((said) => ({ type: "text", text: said }));
const small: fc.Arbitrary<FakeStep> = fc.constantFrom<FakeStep>(
  { type: "reasoning", text: "hm" },
  { type: "usage", usage: { inputTokens: 3, outputTokens: 2 } },
  { type: "tool_call_delta", id: "d1", name: "ok", argumentsDelta: "{}" },
  { type: "tool_call_delta", id: "d2", name: "ok", argumentsDelta: "not json" },
);
const last: fc.Arbitrary<readonly FakeStep[]> = fc.constantFrom<readonly FakeStep[]>(
  [],
  [],
  [],
  [{ type: "finish", reason: "stop" }],
  [{ type: "finish", reason: "tool_calls" }],
  [{ type: "finish", reason: "length" }],
  [{ type: "finish", reason: "content_filter" }],
  [{ type: "finish", reason: "other" }],
  [{ type: "error", reason: "rate_limited", status: 429 }],
  [{ type: "error", reason: "invalid_request" }],
  [{ type: "stream_error", reason: "interrupted" }],
  [{ type: "cut" }],
  [{ type: "throw", message: "the adapter broke" }],
);
const script: fc.Arbitrary<FakeScript> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .tuple(fc.array(fc.oneof(text, call, call, small), { maxLength: 5 }), last)
      .map(([steps, end]) => [...steps, ...end]),
  },
  { weight: 1, arbitrary: fc.constant<FakeScript>([{ type: "preflight_error", reason: "authentication_failed" }]) },
);
const scripts = fc.array(script, { minLength: 1, maxLength: 5 });

const policies: fc.Arbitrary<OnToolError> = fc.constantFrom<OnToolError>(
  "continue",
  "continue",
  "halt",
  () => "halt",
  () => ({ continue: "instead" }),
  () => {
    throw new Error("the policy broke");
  },
);
const options: fc.Arbitrary<ChatOptions> = fc
  .record({
    onToolError: policies,
    mode: fc.constantFrom("auto" as const, "auto" as const, "auto" as const, "manual" as const),
    onUnknownTool: fc.constantFrom("error" as const, "answer" as const),
    maxTurns: fc.constantFrom(1, 2, 8),
    halts: fc.boolean(),
    maxConcurrency: fc.constantFrom(1, 2, 8),
  })
  .map(({ halts, ...rest }) => ({
    ...rest,
    ...(halts ? { haltWhen: ({ toolResults }: { toolResults: readonly unknown[] }) => toolResults.length > 1 } : {}),
    requestId: "run",
  }));

// Time does not advance: short sleeps resolve at once and long ones never, so no timeout expires.
const clock = {
  now: () => 0,
  random: () => 0,
  sleep: (ms: number, signal?: AbortSignal) =>
    ms < 30_000
      ? Promise.resolve()
      : new Promise<void>((_, reject) =>
          signal?.addEventListener("abort", () => reject(signal.reason), { once: true }),
        ),
};

function engineOf(played: readonly FakeScript[]): Engine {
  return engine({ adapter: fake({ scripts: played, clock }), model: "fake:m", tools, clock });
}

/** A value, or the error that was thrown instead, in a comparable form. */
async function outcome<T>(run: () => Promise<T>): Promise<object> {
  try {
    return { value: await run() };
  } catch (error) {
    return error instanceof Error ? { name: error.name, message: error.message } : { error };
  }
}

const live = new Set<TurnEvent["type"]>([
  "message_started",
  "text_delta",
  "text_completed",
  "reasoning_delta",
  "reasoning_completed",
  "tool_call_started",
  "tool_call_delta",
  "tool_call_completed",
  "usage",
  "message_completed",
  "raw_chunk",
  "tool_execution_started",
  "tool_progress",
  "retry_scheduled",
  "step_reset",
]);

describe("[allm 43] [allm 71] [allm 72] [allm 124] R2: awaited verbs collect their streams", () => {
  test("chat, step and generate equal their collected streams", async () => {
    await fc.assert(
      fc.asyncProperty(scripts, options, async (played, chosen) => {
        const folded = await outcome(() => collectChat(stream(engineOf(played), "hi", chosen)));
        expect(await outcome(() => chat(engineOf(played), "hi", chosen))).toEqual(folded);
        expect(await outcome(() => stream(engineOf(played), "hi", chosen).result)).toEqual(folded);
        const stepped = await outcome(() => collectStep(streamStep(engineOf(played), "hi", chosen)));
        expect(await outcome(() => step(engineOf(played), "hi", chosen))).toEqual(stepped);
        // The result of a stream has the step with an unknown tool; `collectStep` throws an error that carries this
        // step.
        const isUnknownTool = "name" in stepped && stepped.name === "UnknownToolError";
        const streamed = await outcome(() => streamStep(engineOf(played), "hi", chosen).result);
        if (!isUnknownTool) expect(streamed).toEqual(stepped);
        const replied = await outcome(() => collectReply(streamGenerate(engineOf(played), "hi", chosen)));
        expect(await outcome(() => generate(engineOf(played), "hi", chosen))).toEqual(replied);
        expect(await outcome(() => streamGenerate(engineOf(played), "hi", chosen).result)).toEqual(replied);
      }),
      { numRuns: 150 },
    );
  });

  test("session verbs equal their collected streams", async () => {
    await fc.assert(
      fc.asyncProperty(scripts, options, async (played, chosen) => {
        const awaited = await outcome(() => sessions.start(engineOf(played), "hi", chosen));
        expect(await outcome(() => sessions.streamStart(engineOf(played), "hi", chosen).result)).toEqual(awaited);
      }),
      { numRuns: 80 },
    );
  });
});

describe("a run is replayed from its journal", () => {
  test("a new driver performs nothing and produces the same journal", async () => {
    await fc.assert(
      fc.asyncProperty(scripts, options, async (played, chosen) => {
        const plan = () => planRun(engineOf(played), "hi", chosen, { verb: "chat" });
        const first = await replayPlan(plan(), []).catch(() => null);
        if (first === null) return;
        const stored = JSON.parse(JSON.stringify(first.journal));
        const again = await replayPlan(plan(), stored);
        expect(again.performed).toBe(0);
        expect(again.events).toEqual(first.events.filter(({ type }) => !live.has(type)));
        expect(again.chat).toEqual(first.chat);
      }),
      { numRuns: 150 },
    );
  });
});

describe("S2: a session can be continued after any run", () => {
  test("sessions are valid after every run", async () => {
    await fc.assert(
      fc.asyncProperty(scripts, options, async (played, chosen) => {
        const run = await sessions.start(engineOf(played), "hi", chosen).catch(() => null);
        if (run === null) return;
        const valid = validateSession(run.session);
        expect(valid.ok ? [] : valid.failure.issues).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });
});

describe("[allm 70] [lash 69] cancelling", () => {
  const long: readonly FakeScript[] = [
    [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "Let " },
      { type: "text", text: "me." },
      { type: "tool_call", name: "ok" },
      { type: "tool_call", name: "yields" },
      { type: "tool_call", name: "throws" },
    ],
    [
      { type: "tool_call", name: "later" },
      { type: "tool_call", name: "ok" },
    ],
    [{ type: "text", text: "Done." }],
  ];
  const whole = async () => {
    const events: TurnEvent[] = [];
    for await (const event of stream(engineOf(long), "hi")) events.push(event);
    return events;
  };

  test("at every event leaves a valid thread and closes open streams once", async () => {
    const { length } = await whole();
    expect(length).toBeGreaterThan(30);
    for (let stop = 0; stop < length; stop += 1) {
      const adapter = fake({ scripts: long, clock });
      const events = stream(engine({ adapter, tools, clock }), "hi");
      let seen = 0;
      for await (const event of events) {
        expect(event.type).toBeDefined();
        if (seen === stop) break;
        seen += 1;
      }
      const { thread, haltedReason } = await events.result;
      expect(haltedReason).toBe(stop < length - 1 ? "cancelled" : "completed");
      expect(validateThread(thread).ok).toBe(true);
      expect(adapter.closed).toBe(adapter.calls.length);
      const next = engine({ adapter: fake({ script: [{ type: "text", text: "On." }] }), tools });
      expect((await chat(next, addUser(thread, "go on"))).haltedReason).toBe("completed");
    }
  });

  test("by a signal at every event ends the run as cancelled", async () => {
    const { length } = await whole();
    for (let stop = 0; stop < length - 2; stop += 1) {
      const controller = new AbortController();
      const seen: TurnEvent[] = [];
      for await (const event of stream(engineOf(long), "hi", { signal: controller.signal })) {
        if (seen.length === stop) controller.abort("enough");
        seen.push(event);
      }
      const end = seen.at(-1);
      expect(end).toMatchObject({ type: "chat_completed" });
      if (end?.type !== "chat_completed") continue;
      expect(validateThread(end.result.thread).ok).toBe(true);
      if (end.result.haltedReason === "cancelled") {
        expect(end.result.metadata.cancellation).toMatchObject({ origin: "signal", reason: "enough" });
      }
    }
  });
});
