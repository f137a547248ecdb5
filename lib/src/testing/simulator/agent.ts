// The agent of the simulator: a model and tools that do what the messages of the clients say.
//
// A message is a plan such as `#7 look pay;erase`: number 7, a first reply that calls `look` and `pay`, a second one
// that calls `erase`, then a text. The model follows the plan of the newest user message and derives the step from the
// replies after it. So it makes the same calls for the same request in every process, each call has an id that is
// unique in the simulation, and every effect can be named: `7.0` is the first model call of plan 7, and `7.0.1` the
// second call of its reply. The tool `delegate` runs a child turn, whose plan has the name of the call: `7.0.1.0` is
// its first model call. The plan of a child turn follows from the seed and from that name. It may wait for an approval
// or a result, and may itself run a child turn.
//
// An agent with a context policy (`compacts`) is also asked for summaries. They are named after what they are asked to
// summarize, because their request may have no message of a client. A frame may stand for the replies to the newest
// plan, so the step then follows from the newest reply.
//
// Every execution of an effect has a number of its own, which is in the text of the reply or in the result of the tool
// (`executionIn`). So the oracles can tell which execution was recorded, and the texts of two attempts differ.

import type { FakeScript } from "../../core/adapters/internal.ts";
import type { Adapter, ContextPolicy, Engine, Tool } from "../../core/engine/internal.ts";
import type { ModelRequest, ReplayPolicy } from "../../core/model/internal.ts";
import type { SimulatedProcess } from "./process.ts";

import { fake } from "../../core/adapters/internal.ts";
import { agentTool, engine, tool } from "../../core/engine/internal.ts";
import { summaryPrompt } from "../../core/kernel/internal.ts";
import { messageText } from "../../core/model/internal.ts";
import { hashText, randomStream } from "./random.ts";

/** The tools that a plan can name. `crash` may end its process. */
export const toolNames = [
  "look",
  "look",
  "pay",
  "pay",
  "mail",
  "mail",
  "erase",
  "erase",
  "fetch",
  "slow",
  "delegate",
  "delegate",
  "crash",
] as const;

/** The plans of child turns; `nestedPlans`: of child turns inside them, which have no such tool. */
const childPlans = [
  "look pay",
  "look pay",
  "erase",
  "look;erase pay",
  "fetch;look",
  "pay;erase;fetch",
  "delegate",
] as const;
const nestedPlans = ["look pay", "erase", "pay;look"] as const;

/**
 * What the agent reports when an effect begins, before it has any consequence. `turn`: the turn, or the child turn,
 * that it belongs to.
 */
export type EffectBegin =
  | {
      readonly type: "model";
      readonly name: string;
      readonly turn: string;
      /** The texts of the user messages in the request, without those that are no messages of the session. */
      readonly seen: readonly string[];
      /** A call of the request that has no result in it, or a result without its call; `null`: there is none. */
      readonly unpaired: string | null;
      /** The id of the frame in the request; `null`: it has none. */
      readonly frame: string | null;
    }
  | {
      readonly type: "tool";
      readonly name: string;
      readonly turn: string;
      readonly tool: string;
      readonly policy: ReplayPolicy;
      readonly needsApproval: boolean;
      /** The idempotency key that the handler got. */
      readonly key: string;
    };

/** What the agent needs from the simulation. */
export type AgentContext = {
  readonly seed: number;
  readonly process: SimulatedProcess;
  /** Called when an effect begins. Returns the number of the execution. */
  readonly began: (process: SimulatedProcess, effect: EffectBegin) => number;
  /** Whether model calls and tools fail. */
  readonly hasFaults: () => boolean;
  /** The engine has a context policy with a small window. */
  readonly compacts: boolean;
  /** Ends the process at once. Another one starts later. */
  readonly crash: () => void;
};

/** A window that a few turns fill. */
const contextPolicy: ContextPolicy = {
  window: 1000,
  reserve: 100,
  keepRecent: 40,
  prune: { at: 0.3, keep: 10 },
  compact: { at: 0.35 },
};

/** The engine of one process. */
export function simulatedAgent(context: AgentContext): Engine {
  const { process } = context;
  const settings = {
    adapter: simulatedModel(context),
    model: "simulated:m",
    clock: process.clock,
    retry: { baseDelayMs: 300, maxDelayMs: 1500, jitterMs: 100, afterOutput: true },
  } as const;
  const look = simulatedTool(context, "look", "safe");
  const pay = simulatedTool(context, "pay", "never");
  const erase = simulatedTool(context, "erase", "never", { needsApproval: true });
  const fetch = tool({
    name: "fetch",
    description: "A tool that the client runs.",
    schema: { type: "object" },
    manual: true,
  });
  const delegateTo = (tools: readonly Tool[]) =>
    agentTool({ name: "delegate", description: "Runs a child turn.", engine: engine({ ...settings, tools }) });
  return engine({
    ...settings,
    ...(context.compacts ? { contextPolicy } : {}),
    tools: [
      look,
      pay,
      simulatedTool(context, "mail", "ask"),
      erase,
      simulatedTool(context, "slow", "safe"),
      simulatedTool(context, "crash", "safe"),
      fetch,
      delegateTo([look, pay, erase, fetch, delegateTo([look, pay, erase])]),
    ],
  });
}

function simulatedModel({ seed, process, began, hasFaults }: AgentContext): Adapter {
  return {
    provider: "simulated",
    async *stream(request, call) {
      await call.beforeRequest?.();
      const { name, calls, isSummary } = replyTo(request, seed);
      const seen = userTexts(request).filter((text) => !isFrame(text) && !isSummaryPrompt(text));
      const unpaired = unpairedCall(request);
      const frame = request.scope?.frameId ?? null;
      const execution = began(process, { type: "model", name, turn: call.requestId, seen, unpaired, frame });
      const random = randomStream(seed, `model ${name} ${execution}`);
      const fault = hasFaults() && random.chance(0.15) ? random.pick(["busy", "busy", "cut", "cut", "refused"]) : null;
      const ms = durationOf(seed, name);
      const script: FakeScript = [
        { type: "delay", ms: Math.ceil(ms / 2) },
        ...(fault === "busy" ? [{ type: "error", reason: "rate_limited", retryable: true } as const] : []),
        ...(fault === "refused" ? [{ type: "error", reason: "invalid_request" } as const] : []),
        { type: "text", text: `${isSummary ? "The" : "Reply"} ${name} ${markOf(execution)} ` },
        { type: "delay", ms: Math.ceil(ms / 2) },
        ...(fault === "cut" ? [{ type: "cut" } as const] : []),
        { type: "text", text: "is complete." },
        ...calls,
      ];
      const usage = { inputTokens: Math.ceil(JSON.stringify(request.messages).length / 4), outputTokens: 5 };
      yield* fake({ provider: "simulated", script, usage }).stream(request, call);
    },
  };
}

function simulatedTool(
  { seed, process, began, hasFaults, compacts, crash }: AgentContext,
  name: string,
  replay: ReplayPolicy,
  { needsApproval = false }: { readonly needsApproval?: boolean } = {},
): Tool {
  return tool({
    name,
    description: `A tool with the replay policy ${replay}.`,
    schema: { type: "object" },
    replay,
    needsApproval,
    handler: async (input, { requestId, signal, idempotencyKey }) => {
      const id = callIdOf(input);
      const execution = began(process, {
        type: "tool",
        name: id,
        turn: requestId,
        tool: name,
        policy: replay,
        needsApproval,
        key: idempotencyKey,
      });
      const random = randomStream(seed, `tool ${id} ${execution}`);
      await process.clock.sleep(name === "slow" ? 4500 : durationOf(seed, id), signal);
      if (name === "crash" && hasFaults() && random.chance(0.8)) {
        crash();
        // Code of an ended process does not continue.
        await new Promise(() => undefined);
      }
      if (name === "look" && hasFaults() && random.chance(0.1)) throw new Error(`${id} failed ${markOf(execution)}`);
      return `${name} ${id} ${markOf(execution)}${compacts ? ` ${"and so on ".repeat(30)}` : ""}`;
    },
  });
}

/** The number of a plan of a message, or the name of the call that a child turn belongs to; `null`: it is no plan. */
function planNumber(text: string): string | null {
  return /^#([\d.]+) /.exec(text)?.[1] ?? null;
}

/** The name of the model call that gave a reply; `null`: the text is no reply of the simulated model. */
export function replyName(text: string): string | null {
  return /^Reply ([\d.]+) /.exec(text)?.[1] ?? null;
}

/** The name of the model call that gave a summary; `null`: the text is no summary of the simulated model. */
export function summaryName(text: string): string | null {
  return /^The (summary \S+) /.exec(text)?.[1] ?? null;
}

/** The number of the execution that made a text; `null`: the text has none. */
export function executionIn(text: string): number | null {
  const [, number] = /\(execution (\d+)\)/.exec(text) ?? [];
  return number === undefined ? null : Number(number);
}

function markOf(execution: number): string {
  return `(execution ${execution})`;
}

function callIdOf(input: unknown): string {
  return typeof input === "object" && input !== null && "id" in input ? String(input.id) : "";
}

/** Most effects are short; some are longer than a renewal interval, a few longer than a lease. */
function durationOf(seed: number, name: string): number {
  const random = randomStream(seed, `duration ${name}`);
  if (random.chance(0.05)) return random.whole(2000, 5000);
  return random.chance(0.15) ? random.whole(400, 1200) : random.whole(1, 60);
}

type Reply = { readonly name: string; readonly calls: FakeScript; readonly isSummary: boolean };

function replyTo({ messages }: ModelRequest, seed: number): Reply {
  const last = messages.at(-1);
  if (last?.role === "user" && isSummaryPrompt(messageText(last))) {
    const name = hashText(JSON.stringify(messages.map(messageText))).toString(16);
    return { name: `summary ${name}`, calls: [], isSummary: true };
  }
  const at = messages.findLastIndex((message) => message.role === "user" && planNumber(messageText(message)) !== null);
  const planMessage = messages[at];
  const text = planMessage === undefined ? "#0 " : messageText(planMessage);
  const plan = planNumber(text) ?? "0";
  const replies = messages.slice(at + 1).filter(({ role }) => role === "assistant");
  // A frame may stand for the first replies.
  const isFramed = messages.some((message) => message.role === "user" && isFrame(messageText(message)));
  const newest = replies.findLast((message) => replyName(messageText(message)) !== null);
  const step =
    !isFramed || newest === undefined ? replies.length : stepAfter(plan, replyName(messageText(newest)) ?? "");
  const name = `${plan}.${step}`;
  const words = (text.replace(/^#[\d.]+ /, "").split(";")[step] ?? "").split(" ").filter((word) => word !== "");
  const calls = words.map((called, index) => {
    const id = `${name}.${index}`;
    const args = called === "delegate" ? { task: `#${id} ${childPlanOf(seed, id)}` } : { id };
    return { type: "tool_call", name: called, id, arguments: args } as const;
  });
  return { name, calls, isSummary: false };
}

/** The step of a plan after the reply of a name; the first one if it replies to another plan. */
function stepAfter(plan: string, reply: string): number {
  return reply.startsWith(`${plan}.`) ? Number(reply.slice(plan.length + 1)) + 1 : 0;
}

/** The message in place of the oldest ones of a session. */
function isFrame(text: string): boolean {
  return /^\[(?:Summary of the earlier|\d+ earlier messages)/.test(text);
}

function isSummaryPrompt(text: string): boolean {
  return text.startsWith(summaryPrompt);
}

function userTexts({ messages }: ModelRequest): readonly string[] {
  return messages.flatMap((message) => (message.role === "user" ? [messageText(message)] : []));
}

/** A call of a request without a result after it, or a result without a call before it; `null`: there is none. */
function unpairedCall({ messages }: ModelRequest): string | null {
  const open = new Set<string>();
  for (const message of messages) {
    if (message.role === "assistant") for (const { id } of message.toolCalls) open.add(id);
    if (message.role === "tool" && !open.delete(message.toolCallId)) return `the result of ${message.toolCallId}`;
  }
  const [call] = open;
  return call === undefined ? null : `the call ${call}`;
}

/**
 * The plan of the child turn of a call. The name of a call inside a child turn has more parts than that of a call of a
 * turn.
 */
function childPlanOf(seed: number, id: string): string {
  const random = randomStream(seed, `child ${id}`);
  return id.split(".").length > 3 ? random.pick(nestedPlans) : random.pick(childPlans);
}
