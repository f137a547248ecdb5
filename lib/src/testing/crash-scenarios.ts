// Conversations of every kind, for the crash matrix: every host is run through all of them (H7). They are also what to look at before writing one
// for tools of one's own.

import type { FakeScript } from "../adapters/internal.ts";
import type { Adapter, CellResult, CodeExecutor, Engine, EngineFields, Tool } from "../engine/internal.ts";
import type { JsonObject, ModelRequest, ReplayPolicy } from "../model/internal.ts";
import type { CrashScenario } from "./crash-matrix.ts";
import type { MortalLife } from "./mortal-life.ts";

import { fake } from "../adapters/internal.ts";
import { askUser, engine, fail, halt, tool } from "../engine/internal.ts";
import { user } from "../model/internal.ts";

/** What a model is asked. */
type Asked = {
  readonly request: ModelRequest;
  /** How many replies came before. */
  readonly step: number;
  /** Which try it is, from 1. */
  readonly attempt: number;
};

/**
 * An adapter that answers by the content of the request and not by the number of calls, so that it answers the
 * same in every process life.
 */
export function steadyModel(answer: (asked: Asked) => FakeScript, provider = "fake"): Adapter {
  return {
    provider,
    stream: (request, call) => {
      const step = request.messages.filter(({ role }) => role === "assistant").length;
      const script = answer({ request, step, attempt: call.attempt });
      return fake({ provider, script, usage: { inputTokens: 10, outputTokens: 5 } }).stream(request, call);
    },
  };
}

const say = (text: string): FakeScript => [
  { type: "text", text: text.slice(0, 4) },
  { type: "text", text: text.slice(4) },
];

/** Calls of tools, by their names, each with arguments of its own. */
const calls = (step: number, ...names: readonly string[]): FakeScript =>
  names.map((name, index) => ({
    type: "tool_call",
    name,
    id: `c${step}-${index}`,
    arguments: { step, call: index },
  }));

/** A model that says one thing after the other. */
const inOrder = (...scripts: readonly FakeScript[]): Adapter =>
  steadyModel(({ step }) => scripts[step] ?? say("There is nothing more to say."));

type Handler = NonNullable<Parameters<typeof tool>[0]["handler"]>;

const made = (
  name: string,
  replay: ReplayPolicy,
  handler: Handler = (input) => `${name} ${JSON.stringify(input)}`,
): Tool => tool({ name, description: `A tool that is ${replay}.`, schema: { type: "object" }, replay, handler });

const gated = (name: string, replay: ReplayPolicy): Tool =>
  tool({
    name,
    description: "Asks first.",
    schema: { type: "object" },
    replay,
    needsApproval: true,
    handler: (input) => `${name} ${JSON.stringify(input)}`,
  });

/** A tool that runs until the script of the scenario has said what it says to the turn. */
const waitsUntilSaid = (life: MortalLife): Tool =>
  made("wait", "safe", async () => {
    life.reach("waiting");
    await life.released("said");
    return "waited";
  });

const of = (adapter: Adapter, fields: Omit<EngineFields, "context" | "adapter" | "model"> = {}): Engine =>
  engine({ adapter, model: "fake:m", ...fields });

const all: readonly Tool[] = [made("look", "safe"), made("pay", "never"), made("send", "ask")];

type Fields = Omit<CrashScenario, "name" | "session" | "engines">;

const scenario = (name: string, make: (life: MortalLife) => Engine, fields: Partial<Fields> = {}): CrashScenario => ({
  name,
  session: "s",
  engines: (life) => ({ default: make(life) }),
  script: async ({ runtime, rest }) => {
    await rest(runtime.start("Begin.", { id: "s", key: "start" }));
  },
  unknownResult: "a person looked: it was done",
  ...fields,
});

const codeLanguage = "plan";

/** Runs cells that say, as JSON, which calls to make side by side, round after round. */
const planExecutor: CodeExecutor = {
  name: "plan",
  version: "1",
  language: codeLanguage,
  run: async ({ code, calls: answered }): Promise<CellResult> => {
    const rounds: readonly (readonly { readonly name: string; readonly arguments: JsonObject }[])[] = JSON.parse(code);
    let before = 0;
    for (const round of rounds) {
      if (answered.length === before) return { type: "calls", calls: round };
      before += round.length;
    }
    return { type: "finished", observations: [`${answered.length} answers`], error: null, finish: null };
  },
};

const cell = (...rounds: readonly (readonly string[])[]): FakeScript => {
  const planned = rounds.map((names, round) => names.map((name, call) => ({ name, arguments: { round, call } })));
  return [{ type: "text", text: `Watch.\n\`\`\`${codeLanguage}\n${JSON.stringify(planned)}\n\`\`\`\n` }];
};

const child = (provider: string): Engine =>
  of(
    steadyModel(({ step }) => (step === 0 ? calls(100, "look") : say("The child is done.")), provider),
    { tools: [made("look", "safe")] },
  );

const asksChild = (replay: ReplayPolicy): Tool =>
  made("delegate", replay, async (_, { runChild }) => {
    const { finalResponse } = await runChild(child("child"), "Do it.");
    return finalResponse?.outputText ?? "nothing";
  });

/** The scenarios of the crash matrix that every host must pass. */
export const crashScenarios: readonly CrashScenario[] = [
  scenario("a reply and no more", () => of(inOrder(say("Hello there.")))),

  scenario("tools of every policy, side by side", () =>
    of(inOrder(calls(0, "look", "pay", "send"), calls(1, "pay"), say("All done.")), { tools: all }),
  ),

  scenario("tools that take turns", () =>
    of(inOrder(calls(0, "pay", "look", "send"), say("All done.")), { tools: all, options: { maxConcurrency: 1 } }),
  ),

  scenario("a hook before tools", () =>
    of(inOrder(calls(0, "pay", "look"), say("All done.")), {
      tools: all,
      options: {
        hooks: {
          beforeTool: ({ name, arguments: args }) =>
            name === "pay" ? { type: "replace_arguments", arguments: { ...args, checked: true } } : null,
        },
      },
    }),
  ),

  scenario("tools that try again, and one that yields", () => {
    const busy = new Map<string, number>();
    const flaky = tool({
      name: "flaky",
      description: "Is busy at first.",
      schema: { type: "object" },
      replay: "safe",
      retry: { type: "safe", maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 100 },
      handler: (_, { idempotencyKey }) => {
        const tries = (busy.get(idempotencyKey) ?? 0) + 1;
        busy.set(idempotencyKey, tries);
        return fail("busy for good", { retry: { type: "safe", afterMs: null } });
      },
    });
    const slow = made("slow", "never", async function* () {
      yield "half";
      return "whole";
    });
    return of(inOrder(calls(0, "flaky", "slow"), say("All done.")), { tools: [flaky, slow] });
  }),

  scenario(
    "a question that is answered",
    () =>
      of(inOrder(calls(0, "ask", "look"), say("Oslo it is."), say("Bye.")), {
        tools: [...all, made("ask", "safe", () => askUser("Which city?"))],
      }),
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Book a flight.", { id: "s", key: "start" }));
        await rest(runtime.reply("s", "Oslo.", { key: "answer" }));
        await rest(runtime.reply("s", "Thanks.", { key: "thanks" }));
      },
    },
  ),

  scenario(
    "a question that is answered as a result",
    () =>
      of(inOrder(calls(0, "ask"), say("Oslo it is.")), {
        tools: [made("ask", "safe", () => askUser("Which city?", { answerAs: "tool_result" }))],
      }),
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Book a flight.", { id: "s", key: "start" }));
        await rest(runtime.reply("s", "Oslo.", { key: "answer" }));
      },
    },
  ),

  scenario(
    "calls that somebody has to approve",
    () => {
      return of(inOrder(calls(0, "charge", "wipe", "read"), say("Charged, not wiped.")), {
        tools: [gated("charge", "never"), gated("wipe", "never"), gated("read", "safe")],
      });
    },
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Charge it, wipe it.", { id: "s", key: "start" }));
        await rest(runtime.decide("s", "c0-0", { type: "approve", by: "ada" }, { key: "charge" }));
        await rest(runtime.decide("s", "c0-1", { type: "deny", reason: "no" }, { key: "wipe" }));
        await rest(runtime.decide("s", "c0-2", { type: "approve", arguments: { edited: true } }, { key: "read" }));
      },
    },
  ),

  scenario(
    "calls that others make",
    () => {
      const manual = tool({
        name: "manual",
        description: "Done elsewhere.",
        schema: { type: "object" },
        manual: true,
      });
      return of(inOrder(calls(0, "manual", "look", "manual"), say("Both are there.")), { tools: [...all, manual] });
    },
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Begin.", { id: "s", key: "start" }));
        await rest(runtime.submitToolResults("s", [["c0-0", "first"]], { key: "first" }));
        await rest(runtime.submitToolResults("s", [["c0-2", { second: true }]], { key: "second" }));
      },
    },
  ),

  scenario("a model that has to be asked again", () =>
    of(
      steadyModel(({ step, attempt }) => {
        if (attempt < 3) return [{ type: "error", reason: "provider_unavailable", status: 529, retryable: true }];
        return step === 0 ? calls(0, "look") : say("At last.");
      }),
      { tools: all, retry: { maxAttempts: 3, baseDelayMs: 10, jitterMs: 0 } },
    ),
  ),

  scenario("a model that stands in for another", () =>
    of(
      steadyModel(() => [
        { type: "text", text: "I am " },
        { type: "usage", usage: { inputTokens: 3, outputTokens: 1 } },
        { type: "stream_error", reason: "interrupted" },
      ]),
      {
        tools: all,
        retry: false,
        fallback: [
          {
            adapter: steadyModel(({ step }) => (step === 0 ? calls(0, "pay") : say("In its place.")), "second"),
            model: "second:m",
          },
        ],
      },
    ),
  ),

  scenario("an answer in a schema, with a call of its own", () =>
    of(
      steadyModel(({ request, step }) => {
        if (request.responseFormat !== null) return [{ type: "text", text: '{"city":"Oslo"}' }];
        return step === 0 ? calls(0, "look") : say("It is Oslo.");
      }),
      {
        tools: all,
        options: {
          structuredFinalize: true,
          output: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
        },
      },
    ),
  ),

  scenario(
    "a turn that is cancelled",
    (life) =>
      of(inOrder(calls(0, "look"), calls(1, "wait"), say("Never said."), say("Another time.")), {
        tools: [
          ...all,
          made("wait", "safe", async (_, { signal }) => {
            life.reach("waiting");
            await aborted(signal);
            return "stopped";
          }),
        ],
      }),
    {
      script: async ({ runtime, life, rest }) => {
        const turn = await runtime.start("Begin.", { id: "s", key: "start" });
        await Promise.race([life.reached("waiting"), turn.result]);
        await runtime.cancel("s", { reason: "enough", ...(turn.turnId === null ? {} : { turnId: turn.turnId }) });
        await rest(runtime.reply("s", "Go on.", { key: "go on" }));
      },
    },
  ),

  scenario(
    "something said while a turn runs",
    (life) =>
      of(inOrder(calls(0, "wait"), calls(1, "pay"), say("Noted.")), {
        tools: [...all, waitsUntilSaid(life)],
      }),
    {
      script: async ({ runtime, life, rest }) => {
        const turn = await runtime.start("Begin.", { id: "s", key: "start" });
        await Promise.race([life.reached("waiting"), turn.result]);
        await runtime.steer("s", "And hurry.", { id: "hurry" });
        await runtime.steer("s", { type: "transient", message: user("It is noon.") }, { id: "note" });
        await runtime.steer("s", { type: "cause", cause: alarm }, { id: "alarm" });
        life.release("said");
        await rest(Promise.resolve(turn));
      },
    },
  ),

  scenario(
    "something said too late becomes the next turn",
    (life) =>
      of(inOrder(say("First."), calls(1, "wait"), say("Second.")), {
        tools: [...all, waitsUntilSaid(life)],
      }),
    {
      script: async ({ runtime, life, rest }) => {
        // Only its end is waited for: in a later life the next turn is open already, and waits for what is said below.
        await (
          await runtime.start("Begin.", { id: "s", key: "start" })
        ).result;
        const turn = await runtime.step("s", { key: "step" });
        await Promise.race([life.reached("waiting"), turn.result]);
        await runtime.steer("s", "One more thing.", { id: "more" });
        life.release("said");
        await rest(Promise.resolve(turn));
      },
    },
  ),

  scenario(
    "a provider that fails, and a session that goes on",
    () =>
      of(
        steadyModel(({ request, step }) => {
          const said = request.messages.filter(({ role }) => role === "user").length;
          if (step === 0) return calls(0, "pay");
          return said > 1 ? say("Now it works.") : [{ type: "error", reason: "authentication_failed", status: 401 }];
        }),
        { tools: all, retry: false },
      ),
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Begin.", { id: "s", key: "start" }));
        const view = await runtime.get("s", { messages: 0 });
        if (view?.session.status === "error") await runtime.recover("s");
        await rest(runtime.reply("s", "Again.", { key: "again" }));
      },
    },
  ),

  scenario("a model that writes code", () =>
    of(inOrder(cell(["look", "pay"], ["send"]), say("All done.")), {
      tools: all,
      protocol: { type: "code", executor: planExecutor },
    }),
  ),

  scenario("a turn inside a tool that may run again", () =>
    of(inOrder(calls(0, "delegate", "look"), say("Both are done.")), { tools: [...all, asksChild("safe")] }),
  ),

  scenario("a turn inside a tool that must not", () =>
    of(inOrder(calls(0, "delegate", "look"), say("Both are done.")), { tools: [...all, asksChild("never")] }),
  ),

  scenario("turns inside tools, side by side, with tools of their own", () => {
    const agent = (provider: string, step: number): Tool =>
      made(provider, "safe", async (_, { runChild }) => {
        const inner = of(
          steadyModel((asked) => (asked.step === 0 ? calls(step, "look", "pay") : say("The child is done.")), provider),
          { tools: all },
        );
        const first = await runChild(inner, "Do it.");
        const second = await runChild(of(steadyModel(() => say("Checked."), `${provider} check`)), "Check it.");
        return [first, second].map(({ finalResponse }) => finalResponse?.outputText ?? "nothing");
      });
    return of(inOrder(calls(0, "left", "right"), say("Both are done.")), {
      tools: [...all, agent("left", 100), agent("right", 200)],
    });
  }),

  scenario("a turn of many steps", () =>
    of(
      steadyModel(({ step }) => (step < 20 ? calls(step, step % 2 === 0 ? "look" : "pay") : say("Twenty steps."))),
      { tools: all, options: { maxTurns: 30 } },
    ),
  ),

  scenario("single steps", () => of(inOrder(say("Hello."), calls(1, "pay", "look"), say("Done.")), { tools: all }), {
    script: async ({ runtime, rest }) => {
      await rest(runtime.start("Begin.", { id: "s", key: "start" }));
      await rest(runtime.step("s", { key: "first step" }));
      await rest(runtime.step("s", { key: "second step" }));
    },
  }),

  scenario("a budget that runs out", () =>
    of(inOrder(calls(0, "look"), calls(1, "pay"), calls(2, "look"), say("Never said.")), {
      tools: all,
      options: { budgets: { tokens: 40 } },
    }),
  ),

  scenario(
    "a cell of code that waits for somebody",
    () => {
      return of(inOrder(cell(["look", "charge"], ["look", "ask"]), say("All done.")), {
        tools: [...all, gated("charge", "never"), made("ask", "safe", () => askUser("Which one?"))],
        protocol: { type: "code", executor: planExecutor },
      });
    },
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Begin.", { id: "s", key: "start" }));
        const view = await runtime.get("s", { messages: 0 });
        const call = view?.session.pendingToolCalls.find(({ name }) => name === "charge");
        if (call !== undefined) await rest(runtime.decide("s", call.id, { type: "approve" }, { key: "charge" }));
        await rest(runtime.reply("s", "The first.", { key: "answer" }));
      },
    },
  ),

  scenario(
    "a call that is completed from outside",
    () => {
      const manual = tool({ name: "manual", description: "Done elsewhere.", schema: { type: "object" }, manual: true });
      return of(inOrder(calls(0, "manual", "pay"), say("It is there.")), { tools: [...all, manual] });
    },
    {
      script: async ({ runtime, rest }) => {
        await rest(runtime.start("Begin.", { id: "s", key: "start" }));
        const view = await runtime.get("s", { messages: 0 });
        if (view?.session.pendingToolCalls.length !== 1) return;
        const completion = await runtime.complete(await runtime.token("s", "c0-0"), { type: "result", value: "done" });
        if (completion.type === "completed") await rest(Promise.resolve(completion.turn));
      },
    },
  ),

  scenario("steps that are prepared", () =>
    of(inOrder(calls(0, "look"), calls(1, "pay"), say("All done.")), {
      tools: all,
      options: {
        prepareStep: ({ step }) => (step === 1 ? { tools: ["pay"], instructions: "Only pay." } : null),
        hooks: { afterStep: () => undefined, beforeStep: () => undefined },
      },
    }),
  ),

  scenario("an answer that has to be repaired", () =>
    of(
      steadyModel(({ request }) => [
        { type: "text", text: request.messages.length > 1 ? '{"city":"Oslo"}' : '{"city":7}' },
      ]),
      {
        options: {
          repair: 1,
          output: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
        },
      },
    ),
  ),

  scenario("a tool that nobody knows, and one that ends the turn", () =>
    of(inOrder(calls(0, "look", "nobody", "pay"), calls(1, "pay", "stop"), say("Never said.")), {
      tools: [...all, made("stop", "safe", () => halt("out_of_stock", { left: 0 }))],
      options: { onUnknownTool: "answer" },
    }),
  ),

  scenario("a tool that fails, where that is the end", () =>
    of(inOrder(calls(0, "look", "broken", "pay"), say("Never said.")), {
      tools: [
        ...all,
        made("broken", "safe", () => {
          throw new Error("it broke");
        }),
      ],
      options: { onToolError: "halt" },
    }),
  ),
];

const alarm = {
  id: "alarm",
  eventType: "alarm",
  origin: { type: "plugin", pluginId: "clock", transient: false },
  text: "It rang.",
} as const;

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
