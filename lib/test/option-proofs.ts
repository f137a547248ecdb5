// One proof for each option of a run: a value, and how a run shows that the value had its effect. The mapped type
// demands a proof for every option.

import type { RunOptionName } from "../src/core/engine/internal.ts";
import type { ChatOptions, FakeAdapter, FakeScript, Tool, Clock } from "everturn";
import type { DurableOptions } from "everturn/runtime";

import { tool, user, messageText } from "everturn";

import { calls, plain, says } from "./runs.ts";

type FakeCall = FakeAdapter["calls"][number];

/** What a run did, as far as a proof can see it. */
export type Trace = {
  readonly calls: readonly FakeCall[];
  /** The types of the events that a reader received. */
  readonly events: readonly string[];
  /** What tools, the clock and functions among the options wrote down. */
  readonly log: readonly Logged[];
  readonly haltedReason: string;
};

export type Logged = { readonly by: string; readonly value: unknown };

type Proof<Value> = {
  readonly value: Value;
  /** What the model replies, call by call. Default: one text. */
  readonly scripts?: readonly FakeScript[];
  /** Options that the effect depends on. Every run sets them on the call. */
  readonly needs?: DurableOptions;
  /** The run is cancelled when its first tool starts. */
  readonly isCancelled?: true;
  readonly shows: (trace: Trace) => unknown;
  /** What `shows` returns if the option has the value, and does not return otherwise. */
  readonly effect: unknown;
};

type Proofs = { readonly [Name in RunOptionName]: Proof<NonNullable<ChatOptions[Name]>> };

/** A clock on which timers fire after everything that does not depend on a timer has happened. */
export function loggingClock(log: Logged[]): Clock {
  return {
    now: () => 0,
    random: () => 0,
    sleep: async (ms, signal) => {
      log.push({ by: "clock", value: ms });
      for (let round = 0; round < 100; round += 1) {
        await new Promise<void>((resolve) => setTimeout(resolve, 0));
        signal?.throwIfAborted();
      }
    },
  };
}

/** The tools of every run. */
export function toolsFor(log: Logged[]): readonly Tool[] {
  let running = 0;
  return [
    tool({
      name: "look",
      description: "Logs its context and returns 400 characters.",
      schema: { type: "object" },
      handler: (_, { context }) => {
        log.push({ by: "look", value: context });
        return "x".repeat(400);
      },
    }),
    plain("pair", async () => {
      running += 1;
      log.push({ by: "pair", value: running });
      await new Promise<void>((resolve) => setTimeout(resolve, 0));
      running -= 1;
      return "ok";
    }),
    plain("stuck", () => new Promise(() => undefined)),
    plain("broken", () => {
      throw new Error("broken");
    }),
  ];
}

const answer = { type: "object", properties: { sky: { type: "string" } }, required: ["sky"] };
const structured = says('{"sky":"clear"}');
const looks: readonly FakeScript[] = [calls("look"), says("ok")];

const countCalls = ({ calls }: Trace): number => calls.length;
const loggedBy = (name: string, { log }: Trace): readonly unknown[] =>
  log.filter(({ by }) => by === name).map(({ value }) => value);
const hasEvent =
  (type: string) =>
  ({ events }: Trace): boolean =>
    events.includes(type);
const isTold =
  (text: string, call: number) =>
  ({ calls }: Trace): boolean =>
    calls[call]?.request.messages.some((message) => messageText(message).includes(text)) === true;

/** Proofs for one run, which writes to this log. */
export function proofsFor(log: Logged[]): Proofs {
  return {
    toolChoice: field("toolChoice", "required"),
    parallelToolCalls: field("parallelToolCalls", false),
    temperature: field("temperature", 0.25),
    topP: field("topP", 0.5),
    maxTokens: field("maxTokens", 7),
    stopSequences: field("stopSequences", ["END"]),
    seed: field("seed", 3),
    reasoning: field("reasoning", { effort: "low", budgetTokens: null, summary: null }),
    promptCache: field("promptCache", { key: "k", retention: "long", breakpoints: "auto" }),
    providerOptions: field("providerOptions", { anthropic: { top_k: 5 }, other: { field: 1 } }),
    metadata: field("metadata", { team: "a" }),
    options: field("options", { tier: "flex" }),
    providerTools: field("providerTools", [{ provider: "fake", name: "web", options: {} }]),
    params: { value: { temperature: 0.75 }, shows: ({ calls }) => calls[0]?.request.temperature, effect: 0.75 },
    model: field("model", "fake:other"),
    responseFormat: field("responseFormat", { type: "json_object" }),
    output: {
      value: answer,
      scripts: [structured],
      shows: ({ calls }) => calls[0]?.request.responseFormat?.type,
      effect: "json_schema",
    },
    repair: { value: 1, needs: { output: answer }, scripts: [says("no"), structured], shows: countCalls, effect: 2 },
    adapterOptions: { value: { beta: true }, shows: ({ calls }) => calls[0]?.call.options, effect: { beta: true } },
    apiKey: { value: "k-1", shows: ({ calls }) => calls[0]?.call.apiKey, effect: "k-1" },
    requestId: { value: "r-1", shows: ({ calls }) => calls[0]?.call.requestId, effect: "r-1" },
    retry: {
      value: { maxAttempts: 2, baseDelayMs: 7, jitterMs: 0 },
      scripts: [[{ type: "error", reason: "timeout" }], says("ok")],
      shows: (trace) => loggedBy("clock", trace),
      effect: [7],
    },
    signal: { value: AbortSignal.abort(), shows: ({ haltedReason }) => haltedReason, effect: "cancelled" },
    emitTextDeltas: { value: false, shows: hasEvent("text_delta"), effect: false },
    emitToolDeltas: {
      value: false,
      scripts: [[{ type: "tool_call_delta", id: "c0", name: "look", argumentsDelta: "{}" }], says("ok")],
      shows: hasEvent("tool_call_delta"),
      effect: false,
    },
    includeRawChunks: {
      value: true,
      scripts: [[{ type: "raw_chunk", chunk: 1 }, ...says("ok")]],
      shows: hasEvent("raw_chunk"),
      effect: true,
    },
    onEvent: {
      value: ({ type }) => void log.push({ by: "onEvent", value: type }),
      shows: (trace) => loggedBy("onEvent", trace).includes("message_completed"),
      effect: true,
    },
    instructions: { value: "Be brief.", shows: isTold("Be brief.", 0), effect: true },
    activeTools: {
      value: ["pair"],
      shows: ({ calls }) => calls[0]?.request.tools.map(({ name }) => name),
      effect: ["pair"],
    },
    tools: {
      value: [plain("extra", () => "ok")],
      shows: ({ calls }) => calls[0]?.request.tools.some(({ name }) => name === "extra"),
      effect: true,
    },
    context: { value: { who: "a" }, scripts: looks, shows: (trace) => loggedBy("look", trace), effect: [{ who: "a" }] },
    sessionId: { value: "s-9", shows: ({ calls }) => calls[0]?.request.scope?.sessionId, effect: "s-9" },
    mode: { value: "manual", scripts: looks, shows: (trace) => loggedBy("look", trace), effect: [] },
    toolTimeout: { value: 5, scripts: looks, shows: (trace) => loggedBy("clock", trace), effect: [5] },
    cancelGraceMs: {
      value: 7,
      scripts: [calls("stuck")],
      isCancelled: true,
      shows: (trace) => loggedBy("clock", trace).includes(7),
      effect: true,
    },
    maxConcurrency: {
      value: 1,
      scripts: [calls("pair", "pair"), says("ok")],
      shows: (trace) => loggedBy("pair", trace),
      effect: [1, 1],
    },
    maxToolCalls: {
      value: 1,
      scripts: [calls("pair", "pair"), says("ok")],
      shows: (trace) => loggedBy("pair", trace),
      effect: [],
    },
    maxToolResultLength: { value: 10, scripts: looks, shows: isTold("x".repeat(11), 1), effect: false },
    onToolError: { value: "halt", scripts: [calls("broken"), says("ok")], shows: countCalls, effect: 1 },
    hideErrorsFromModel: {
      value: true,
      scripts: [calls("broken"), says("ok")],
      shows: isTold("the tool failed", 1),
      effect: true,
    },
    toolExecutor: { value: () => "executed", scripts: looks, shows: isTold("executed", 1), effect: true },
    toolResultEncoder: { value: () => "encoded", scripts: looks, shows: isTold("encoded", 1), effect: true },
    onUnknownTool: { value: "answer", scripts: [calls("nothing"), says("ok")], shows: countCalls, effect: 2 },
    onEmptyReply: { value: "error", scripts: [[]], shows: ({ haltedReason }) => haltedReason, effect: "error" },
    hooks: {
      value: { beforeStep: () => void log.push({ by: "hook", value: "step" }) },
      shows: (trace) => loggedBy("hook", trace),
      effect: ["step"],
    },
    maxTurns: { value: 1, scripts: looks, shows: ({ haltedReason }) => haltedReason, effect: "max_turns" },
    turnLimitMessage: {
      value: "Stop now.",
      // The separate call for the structured answer follows the limit, so its request contains the message.
      needs: { maxTurns: 1, structuredFinalize: true, output: answer },
      scripts: [calls("look"), structured],
      shows: isTold("Stop now.", 1),
      effect: true,
    },
    haltWhen: { value: () => true, scripts: looks, shows: countCalls, effect: 1 },
    budgets: { value: { steps: 1 }, scripts: looks, shows: countCalls, effect: 1 },
    structuredFinalize: {
      value: true,
      needs: { output: answer },
      scripts: [says("It is clear."), structured],
      shows: countCalls,
      effect: 2,
    },
    structuredFinalizeNudge: {
      value: "In the schema, please.",
      needs: { output: answer, structuredFinalize: true },
      scripts: [says("It is clear."), structured],
      shows: isTold("In the schema, please.", 1),
      effect: true,
    },
    prepareStep: {
      value: () => ({ model: "fake:prepared" }),
      scripts: looks,
      shows: ({ calls }) => calls[1]?.request.model,
      effect: "fake:prepared",
    },
    onCheckpoint: {
      value: () => {
        if (log.some(({ by }) => by === "onCheckpoint")) return null;
        log.push({ by: "onCheckpoint", value: null });
        return { messages: [user("late")] };
      },
      scripts: [says("ok"), says("ok")],
      shows: isTold("late", 1),
      effect: true,
    },
  };
}

/** The proof of an option that sets the request field of the same name. */
function field<Name extends keyof FakeCall["request"], Value>(name: Name, value: Value): Proof<Value> {
  return { value, shows: ({ calls }) => calls[0]?.request[name], effect: value };
}
