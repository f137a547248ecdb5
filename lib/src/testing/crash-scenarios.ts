// The scenarios of the crash matrix (H7). Every storage host must pass all of them: replies, tools with each replay
// policy, hooks, retries, questions, approvals, manual calls, fallback models, structured output, cancellation,
// steering, code cells, a protocol and a projector of one's own, and nested turns. They are also examples for scenarios
// of your own.

import type { FakeScript, FakeStep } from "../core/adapters/internal.ts";
import type {
  Adapter,
  CellResult,
  CodeExecutor,
  ContextPolicy,
  Engine,
  EngineFields,
  Tool,
} from "../core/engine/internal.ts";
import type { JsonObject, ModelRequest, ReplayPolicy } from "../core/model/internal.ts";
import type { CrashScenario } from "./crash-matrix.ts";
import type { CrashableProcess } from "./crashable-process.ts";

import { fake } from "../core/adapters/internal.ts";
import { askUser, engine, fail, halt, tool } from "../core/engine/internal.ts";
import { summaryPrompt } from "../core/kernel/internal.ts";
import { messageText, user } from "../core/model/internal.ts";
import { counting, guessing } from "./guessing-protocol.ts";

/** The request that a scripted model answers. */
type Asked = {
  readonly request: ModelRequest;
  /** The number of replies in the request: 0 for the first step of a conversation. */
  readonly step: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
};

/**
 * An adapter that answers by the content of the request and not by the number of calls, so that it gives the same
 * answer in every process. `fake` plays its scripts from the first one again in a second process.
 */
export function steadyModel(answer: (asked: Asked) => FakeScript | FakeStep, provider = "fake"): Adapter {
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

/** Calls of these tools, each with distinct arguments. */
const calls = (step: number, ...names: readonly string[]): FakeScript =>
  names.map((name, index) => ({
    type: "tool_call",
    name,
    id: `c${step}-${index}`,
    arguments: { step, call: index },
  }));

/** A model that gives these replies in order. */
const inOrder = (...scripts: readonly FakeScript[]): Adapter =>
  steadyModel(({ step }) => scripts[step] ?? say("There is nothing more to say."));

type Handler = NonNullable<Parameters<typeof tool>[0]["handler"]>;

const simpleTool = (
  name: string,
  replay: ReplayPolicy,
  handler: Handler = (input) => `${name} ${JSON.stringify(input)}`,
): Tool => tool({ name, description: `A tool that is ${replay}.`, schema: { type: "object" }, replay, handler });

const approvedTool = (name: string, replay: ReplayPolicy): Tool =>
  tool({
    name,
    description: "Asks first.",
    schema: { type: "object" },
    replay,
    needsApproval: true,
    handler: (input) => `${name} ${JSON.stringify(input)}`,
  });

/** A tool that runs until the script has sent its input to the open turn. */
const waitingTool = (process: CrashableProcess): Tool =>
  simpleTool("wait", "safe", async () => {
    process.reach("waiting");
    await process.released("steered");
    return "waited";
  });

/** A tool that runs until the turn is cancelled. */
const abortedTool = (process: CrashableProcess): Tool =>
  simpleTool("wait", "safe", async (_, { signal }) => {
    process.reach("waiting");
    await aborted(signal);
    // A result within the cancel grace would be in the baseline and not in the runs that crash before it is recorded.
    throw signal.reason;
  });

const of = (adapter: Adapter, fields: Omit<EngineFields, "context" | "adapter" | "model"> = {}): Engine =>
  engine({ adapter, model: "fake:m", ...fields });

const all: readonly Tool[] = [simpleTool("look", "safe"), simpleTool("pay", "never"), simpleTool("send", "ask")];

const scenario = (
  name: string,
  make: (process: CrashableProcess) => Engine,
  script: CrashScenario["script"] = async ({ runtime, untilIdle }) => {
    await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
  },
): CrashScenario => ({
  name,
  session: "s",
  engines: (process) => ({ default: make(process) }),
  script,
  unknownResult: "a person looked: it was done",
});

/**
 * A model that looks twice for each message of the user, and writes summaries. `counted`: it counts this many tokens,
 * whatever the request is; `null`: it does not count.
 */
const compacting = (contextPolicy: ContextPolicy, counted: number | null = null): Engine =>
  of(
    {
      provider: "fake",
      ...(counted === null ? {} : { countTokens: () => Promise.resolve(counted) }),
      stream: (request, call) => {
        const last = request.messages.at(-1) ?? user("");
        const text = messageText(last);
        const size = request.messages.reduce((sum, message) => sum + messageText(message).length, 0);
        const script: FakeScript = text.startsWith(summaryPrompt)
          ? say("The summary of it all.")
          : last.role === "tool"
            ? say("I have seen it.")
            : calls(Number(text.at(-2)), "look", "look");
        const usage = { inputTokens: Math.ceil(size / 4), outputTokens: 5 };
        return fake({ script, usage }).stream(request, call);
      },
    },
    {
      tools: [simpleTool("look", "safe", (input) => `${JSON.stringify(input)} ${"seen ".repeat(100)}`)],
      contextPolicy,
    },
  );

const codeLanguage = "plan";

/** Runs cells whose code is JSON: a list of rounds, each a list of concurrent calls. */
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
    { tools: [simpleTool("look", "safe")] },
  );

const delegateTool = (replay: ReplayPolicy): Tool =>
  simpleTool("delegate", replay, async (_, { runChild }) => {
    const { finalResponse } = await runChild(child("child"), "Do it.");
    return finalResponse?.outputText ?? "nothing";
  });

/** The scenarios of the crash matrix that every storage must pass. */
export const crashScenarios: readonly CrashScenario[] = [
  scenario("a single reply", () => of(inOrder(say("Hello there.")))),

  // Start marks of several calls in one reply, and a result that is recorded while other calls still run.
  scenario("concurrent tools with every replay policy", () =>
    of(inOrder(calls(0, "look", "pay", "send"), calls(1, "pay"), say("All done.")), { tools: all }),
  ),

  // A call that waits for its concurrency slot has no start mark, so recovery performs it even with the policy `never`
  // (Q3).
  scenario("tools that run one at a time", () =>
    of(inOrder(calls(0, "pay", "look", "send"), say("All done.")), { tools: all, options: { maxConcurrency: 1 } }),
  ),

  // The decision of a hook is recorded before the tool starts: recovery must not ask the hook again and must use its
  // arguments.
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

  // Attempts and the sleeps between them are recorded under the effect id (Q2).
  scenario("a tool that retries, and one that reports progress", () => {
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
    const slow = simpleTool("slow", "never", async function* () {
      yield "half";
      return "whole";
    });
    return of(inOrder(calls(0, "flaky", "slow"), say("All done.")), { tools: [flaky, slow] });
  }),

  scenario(
    // The turn ends with the question, and the answer starts the next one.
    "a question that is answered by a user message",
    () =>
      of(inOrder(calls(0, "ask", "look"), say("Oslo it is."), say("Bye.")), {
        tools: [...all, simpleTool("ask", "safe", () => askUser("Which city?"))],
      }),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Book a flight.", { id: "s", key: "start" }));
      await untilIdle(runtime.reply("s", "Oslo.", { key: "answer" }));
      await untilIdle(runtime.reply("s", "Thanks.", { key: "thanks" }));
    },
  ),

  scenario(
    "a question whose answer becomes the tool result",
    () =>
      of(inOrder(calls(0, "ask"), say("Oslo it is.")), {
        tools: [simpleTool("ask", "safe", () => askUser("Which city?", { answerAs: "tool_result" }))],
      }),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Book a flight.", { id: "s", key: "start" }));
      await untilIdle(runtime.reply("s", "Oslo.", { key: "answer" }));
    },
  ),

  scenario(
    // Three decisions: the last one starts the turn (Q8). A decided call stays pending until its result is recorded
    // (Q4).
    "calls that need approval",
    () => {
      return of(inOrder(calls(0, "charge", "wipe", "read"), say("Charged, not wiped.")), {
        tools: [approvedTool("charge", "never"), approvedTool("wipe", "never"), approvedTool("read", "safe")],
      });
    },
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Charge it, wipe it.", { id: "s", key: "start" }));
      await untilIdle(runtime.decide("s", "c0-0", { type: "approve", by: "ada" }, { key: "charge" }));
      await untilIdle(runtime.decide("s", "c0-1", { type: "deny", reason: "no" }, { key: "wipe" }));
      await untilIdle(runtime.decide("s", "c0-2", { type: "approve", arguments: { edited: true } }, { key: "read" }));
    },
  ),

  scenario(
    "manual calls",
    () => {
      const manual = tool({
        name: "manual",
        description: "Done elsewhere.",
        schema: { type: "object" },
        manual: true,
      });
      return of(inOrder(calls(0, "manual", "look", "manual"), say("Both are there.")), { tools: [...all, manual] });
    },
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
      await untilIdle(runtime.submitToolResults("s", [["c0-0", "first"]], { key: "first" }));
      await untilIdle(runtime.submitToolResults("s", [["c0-2", { second: true }]], { key: "second" }));
    },
  ),

  // The usage of failed attempts must be on the ledger exactly once, and each reply must have its warnings.
  scenario("a model call that is retried", () =>
    of(
      steadyModel(({ step, attempt }) => {
        const message = `step ${step}: seed is not sent: the API has no seed`;
        const warning: FakeStep = { type: "warning", warning: { reason: "unsupported", path: "seed", message } };
        if (attempt < 3)
          return [warning, { type: "error", reason: "provider_unavailable", status: 529, retryable: true }];
        return [warning, ...(step === 0 ? calls(0, "look") : say("At last."))];
      }),
      { tools: all, retry: { maxAttempts: 3, baseDelayMs: 10, jitterMs: 0 } },
    ),
  ),

  // The partial reply of the first model is withdrawn, its usage is kept, and the fallback is used for the rest of the
  // turn (Q7).
  scenario("a fallback model", () =>
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

  // The prompt of the separate call must not stay in the thread after a crash (Q13).
  scenario("structured output with a separate model call", () =>
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
    // A stored cancel survives the process that drives the turn (Q9).
    "a turn that is cancelled",
    (process) =>
      of(inOrder(calls(0, "look"), calls(1, "wait"), say("Never said."), say("Another time.")), {
        tools: [...all, abortedTool(process)],
      }),
    async ({ runtime, process, untilIdle }) => {
      const turn = await runtime.start("Begin.", { id: "s", key: "start" });
      await Promise.race([process.reached("waiting"), turn.result]);
      await runtime.cancel("s", { reason: "enough", ...(turn.turnId === null ? {} : { turnId: turn.turnId }) });
      await untilIdle(runtime.reply("s", "Go on.", { key: "go on" }));
    },
  ),

  scenario(
    // Input is claimed at a checkpoint and recorded in the same write: it is delivered exactly once.
    "input that is steered into a running turn",
    (process) =>
      of(inOrder(calls(0, "wait"), calls(1, "pay"), say("Noted.")), {
        tools: [...all, waitingTool(process)],
      }),
    async ({ runtime, process, untilIdle }) => {
      const turn = await runtime.start("Begin.", { id: "s", key: "start" });
      await Promise.race([process.reached("waiting"), turn.result]);
      await runtime.steer("s", "And hurry.", { id: "hurry" });
      await runtime.steer("s", { type: "transient", message: user("It is noon.") }, { id: "note" });
      await runtime.steer("s", { type: "cause", cause: alarm }, { id: "alarm" });
      process.release("steered");
      await untilIdle(Promise.resolve(turn));
    },
  ),

  scenario(
    // The cancel and the message are one batch: whichever process ends the turn starts the next one with the message.
    "a message that interrupts a turn, and one that is queued after it",
    (process) =>
      of(inOrder(calls(0, "look"), calls(1, "wait"), say("Interrupted."), say("Queued.")), {
        tools: [...all, abortedTool(process)],
      }),
    async ({ runtime, process, untilIdle }) => {
      const turn = await runtime.start("Begin.", { id: "s", key: "start" });
      await Promise.race([process.reached("waiting"), turn.result]);
      const queued = runtime.send("s", "And then this.", { whenBusy: "queue", key: "then" });
      await queued;
      await runtime.send("s", "Stop. Do this.", { whenBusy: "interrupt", key: "stop" });
      await untilIdle(queued);
    },
  ),

  scenario(
    "steered input that arrives too late and becomes the next turn",
    (process) =>
      of(inOrder(say("First."), calls(1, "wait"), say("Second.")), {
        tools: [...all, waitingTool(process)],
      }),
    async ({ runtime, process, untilIdle }) => {
      // Only the end of this turn is awaited: in a later process the next turn is already open and waits for the
      // input below.
      await (
        await runtime.start("Begin.", { id: "s", key: "start" })
      ).result;
      const turn = await runtime.step("s", { key: "step" });
      await Promise.race([process.reached("waiting"), turn.result]);
      await runtime.steer("s", "One more thing.", { id: "more" });
      process.release("steered");
      await untilIdle(Promise.resolve(turn));
    },
  ),

  scenario(
    "a provider failure, and a session that is recovered",
    () =>
      of(
        steadyModel(({ request, step }) => {
          const userMessages = request.messages.filter(({ role }) => role === "user").length;
          if (step === 0) return calls(0, "pay");
          return userMessages > 1
            ? say("Now it works.")
            : [{ type: "error", reason: "authentication_failed", status: 401 }];
        }),
        { tools: all, retry: false },
      ),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
      const view = await runtime.get("s", { messages: 0 });
      if (view?.session.status === "error") await runtime.recover("s");
      await untilIdle(runtime.reply("s", "Again.", { key: "again" }));
    },
  ),

  // A cell is replayed with its recorded answers: its calls must not be made again.
  scenario("a model that writes code", () =>
    of(inOrder(cell(["look", "pay"], ["send"]), say("All done.")), {
      tools: all,
      protocol: { type: "code", executor: planExecutor },
    }),
  ),

  // Records, driver state, end condition and projector follow from the journal and the pinned names; records of a turn
  // are there in the next one.
  scenario(
    "a protocol and a projector of one's own, with a call that needs approval",
    () =>
      of(
        steadyModel(({ request, step }) => {
          if (step === 1) return calls(1, "look", "charge");
          const guesses = Number.parseInt(messageText(request.messages.at(-1) ?? user("")), 10);
          return [{ type: "text", text: ["snow", "fog", "rain", "hail"][guesses] ?? "rain" }];
        }),
        { tools: [...all, approvedTool("charge", "never")], protocol: guessing, projector: counting },
      ),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Guess.", { id: "s", key: "start" }));
      await untilIdle(runtime.decide("s", "c1-1", { type: "approve", by: "ada" }, { key: "charge" }));
      await untilIdle(runtime.reply("s", "Another word.", { key: "again" }));
    },
  ),

  // The tool runs again and replays the journal of its nested turn (Q10).
  scenario("a nested turn in a tool with the replay policy safe", () =>
    of(inOrder(calls(0, "delegate", "look"), say("Both are done.")), { tools: [...all, delegateTool("safe")] }),
  ),

  // The nested turn is abandoned, and its usage is recorded with the answer to the call (Q10).
  scenario("a nested turn in a tool with the replay policy never", () =>
    of(inOrder(calls(0, "delegate", "look"), say("Both are done.")), { tools: [...all, delegateTool("never")] }),
  ),

  scenario("concurrent nested turns with tools of their own", () => {
    const agent = (provider: string, step: number): Tool =>
      simpleTool(provider, "safe", async (_, { runChild }) => {
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

  // Many crash points in a long journal.
  scenario("a turn of many steps", () =>
    of(
      steadyModel(({ step }) => (step < 20 ? calls(step, step % 2 === 0 ? "look" : "pay") : say("Twenty steps."))),
      { tools: all, options: { maxTurns: 30 } },
    ),
  ),

  scenario(
    "single steps",
    () => of(inOrder(say("Hello."), calls(1, "pay", "look"), say("Done.")), { tools: all }),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
      await untilIdle(runtime.step("s", { key: "first step" }));
      await untilIdle(runtime.step("s", { key: "second step" }));
    },
  ),

  scenario("a budget that is used up", () =>
    of(inOrder(calls(0, "look"), calls(1, "pay"), calls(2, "look"), say("Never said.")), {
      tools: all,
      options: { budgets: { tokens: 40 } },
    }),
  ),

  scenario(
    "a code cell that waits for an approval and an answer",
    () => {
      return of(inOrder(cell(["look", "charge"], ["look", "ask"]), say("All done.")), {
        tools: [...all, approvedTool("charge", "never"), simpleTool("ask", "safe", () => askUser("Which one?"))],
        protocol: { type: "code", executor: planExecutor },
      });
    },
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
      const view = await runtime.get("s", { messages: 0 });
      const call = view?.session.pendingToolCalls.find(({ name }) => name === "charge");
      if (call !== undefined) await untilIdle(runtime.decide("s", call.id, { type: "approve" }, { key: "charge" }));
      await untilIdle(runtime.reply("s", "The first.", { key: "answer" }));
    },
  ),

  scenario(
    "a call that is completed with a token",
    () => {
      const manual = tool({ name: "manual", description: "Done elsewhere.", schema: { type: "object" }, manual: true });
      return of(inOrder(calls(0, "manual", "pay"), say("It is there.")), { tools: [...all, manual] });
    },
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
      const view = await runtime.get("s", { messages: 0 });
      if (view?.session.pendingToolCalls.length !== 1) return;
      const completion = await runtime.complete(await runtime.token("s", "c0-0"), { type: "result", value: "done" });
      if (completion.type === "completed") await untilIdle(Promise.resolve(completion.turn));
    },
  ),

  scenario("steps with prepareStep, step hooks and turn hooks", () =>
    of(inOrder(calls(0, "look"), calls(1, "pay"), say("All done.")), {
      tools: all,
      options: {
        prepareStep: ({ step }) => (step === 1 ? { tools: ["pay"], instructions: "Only pay." } : null),
        hooks: {
          beforeTurn: ({ turnId }) => ({
            turnCauses: [
              { id: `cause of ${turnId}`, eventType: "turn", origin: alarm.origin, text: "The turn begins." },
            ],
          }),
          afterTurn: () => undefined,
          afterStep: () => undefined,
          beforeStep: () => undefined,
        },
      },
    }),
  ),

  // The repair makes a second model call.
  scenario("structured output that is repaired", () =>
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

  scenario("an unknown tool, and one that halts the turn", () =>
    of(inOrder(calls(0, "look", "missing", "pay"), calls(1, "pay", "stop"), say("Never said.")), {
      tools: [...all, simpleTool("stop", "safe", () => halt("out_of_stock", { left: 0 }))],
      options: { onUnknownTool: "answer" },
    }),
  ),

  // The frame and its range are recorded before the summary is requested, and the frame with it: there is one.
  scenario(
    "a history that is pruned and compacted",
    () => compacting({ window: 1_500, reserve: 100, keepRecent: 200, prune: { at: 0.5, keep: 80 } }),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Look 0.", { id: "s", key: "0" }));
      for (const turn of ["1", "2", "3", "4"]) await untilIdle(runtime.reply("s", `Look ${turn}.`, { key: turn }));
    },
  ),

  // Each part has an effect and a frame of its own.
  scenario(
    "a history that is summarized in parts",
    () => compacting({ window: 1_500, reserve: 100, keepRecent: 200 }),
    async ({ runtime, untilIdle }) => {
      const long = ["first", "second", "third", "fourth"].map((name) => user(`The ${name} ${"word ".repeat(450)}`));
      await untilIdle(runtime.start([...long, user("Look 0.")], { id: "s", key: "0" }));
    },
  ),

  // A recorded count decides in every process: the estimate is below the limit, and the count above it.
  scenario(
    "a history whose tokens the provider counts",
    () => compacting({ window: 1_500, reserve: 100, keepRecent: 200 }, 1_300),
    async ({ runtime, untilIdle }) => {
      const long = ["first", "second"].map((name) => user(`The ${name} ${"word ".repeat(350)}`));
      await untilIdle(runtime.start([...long, user("Look 0.")], { id: "s", key: "0" }));
    },
  ),

  // Each verb takes effect once, however often it is repeated: one frame is made and removed, another one remains.
  scenario(
    "a compaction that is requested, undone, and requested again",
    () => compacting({ window: 100_000 }),
    async ({ runtime, untilIdle }) => {
      await untilIdle(runtime.start("Look 0.", { id: "s", key: "0" }));
      await runtime.compact("s", { key: "compact", instructions: "Keep what was seen." });
      await untilIdle(runtime.reply("s", "Look 1.", { key: "1" }));
      await runtime.undoCompaction("s", { key: "undo" });
      await untilIdle(runtime.reply("s", "Look 2.", { key: "2" }));
      await runtime.compact("s", { key: "compact again" });
      await untilIdle(runtime.reply("s", "Look 3.", { key: "3" }));
    },
  ),

  scenario("a failing tool with onToolError halt", () =>
    of(inOrder(calls(0, "look", "broken", "pay"), say("Never said.")), {
      tools: [
        ...all,
        simpleTool("broken", "safe", () => {
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
