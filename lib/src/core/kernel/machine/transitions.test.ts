// Checks the transition table against the turn machine: one test for each pair of a phase and a response. An accepted
// response leads to exactly the phases that the table lists.

import type { ContextLimits } from "./context-limits.ts";
import type { Failure, Usage } from "everturn";
import type { DriverAction, EffectResponse, Phase, Turn, TurnMachineConfig } from "everturn/advanced";

import { assistant, toolResult, user } from "everturn";
import { codeFailed, codeFinished, modelFailed, adapterFailure } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, config, delivered, input, replied, result, says } from "../../../../test/turns.ts";
import { noUsage } from "../../model/internal.ts";
import { keysOf } from "../../model/parse/json.ts";
import { startHistory } from "../history/history.ts";
import { pendingEffects } from "./pending-effects.ts";
import { advance, startTurn } from "./reducer.ts";
import { codeCalls, toolWaits } from "./respond.ts";
import { transitionFor, transitions } from "./transitions.ts";

type PhaseType = Phase["type"];
type ResponseType = EffectResponse["type"];

/**
 * The action with which a protocol sends a turn to each phase. Only the machine itself goes to `awaiting_environment`.
 */
const directions: { readonly [P in PhaseType]: DriverAction | null } = {
  awaiting_environment: null,
  awaiting_model: { type: "start_llm", useTools: true, overrides: {}, driverState: null },
  // The machine goes there before a model call whose request may be too long.
  awaiting_count: { type: "start_llm", useTools: true, overrides: {}, driverState: null },
  // The machine goes there before a model call whose request is too long.
  awaiting_compaction: { type: "start_llm", useTools: true, overrides: {}, driverState: null },
  awaiting_tools: {
    type: "start_tools",
    calls: calls("weather").toolCalls.map((call, slot) => ({ call, slot, decision: null, idempotencyKey: null })),
  },
  awaiting_code: { type: "start_exec", language: "javascript", code: "1", driverState: null },
  awaiting_checkpoint: { type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "prepare_iteration" } },
  ended: {
    type: "finish",
    ending: {
      outcome: { type: "empty" },
      pendingToolCalls: [],
      suspendedCell: null,
      partial: null,
      pass1: null,
      pass2Error: null,
    },
  },
};

/** A protocol that goes to this phase whatever happens, in a step of its own. */
function goingTo(phase: PhaseType, syncEnvironment = false): TurnMachineConfig {
  const direction = directions[phase];
  const go = (): readonly DriverAction[] =>
    direction === null ? [] : [{ type: "advance_protocol_iteration", free: false }, direction];
  const protocolDriver = {
    prepareProtocolIteration: go,
    handleLlmSuccess: go,
    handleToolResults: go,
    handleExecResult: go,
  };
  return config({}, { protocolDriver, syncEnvironment });
}

/** Limits under which every request is too long. */
const compacting: ContextLimits = {
  window: 10,
  reserve: 0,
  keepRecent: 1,
  longestResult: 1_000,
  counts: false,
  prune: null,
  compact: { at: 1, model: null, instructions: null, providerAt: null, maxTokens: null, budget: null },
};
/** Limits under which it depends on the number of tokens whether the request of `limitedTurn` is too long. */
const counting = (at: number): ContextLimits => ({
  ...compacting,
  window: 2_000,
  longestResult: 10_000,
  counts: true,
  compact: { at, model: null, instructions: null, providerAt: null, maxTokens: null, budget: null },
});
const pruning: ContextLimits = { ...compacting, longestResult: 1_000, prune: { at: 1_000, keep: 10 }, compact: null };

/** A turn with context limits that waits in a phase, after calls with a long result. */
function limitedTurn(turn: Turn, context: ContextLimits): Turn {
  const [call] = calls("weather").toolCalls;
  const history = startHistory([
    user("hi"),
    assistant("", { toolCalls: call === undefined ? [] : [call] }),
    toolResult(call?.id ?? "", "sunny ".repeat(400)),
    assistant("It is sunny."),
    user("And tomorrow?"),
  ]);
  return { ...turn, history, reported: history.length, policy: { ...turn.policy, context } };
}

/** A turn that waits in a phase. `syncEnvironment`: its steps begin with the environment. */
function turnIn(phase: PhaseType, syncEnvironment: boolean, inParts = false): Turn {
  const synced = { type: "environment_synced", id: "t/0/environment", environment: null } as const;
  if (phase === "awaiting_count") {
    // The estimate is below the first limit, and above the second one.
    const limits = counting(inParts ? 500 : 1_000);
    return advance(goingTo(phase, true), limitedTurn(turnIn("awaiting_environment", true), limits), synced).turn;
  }
  if (phase === "awaiting_compaction") {
    const limited = limitedTurn(turnIn("awaiting_environment", true), compacting);
    const { turn } = advance(goingTo(phase, true), limited, synced);
    if (!inParts || turn.phase.type !== phase) return turn;
    return { ...turn, phase: { ...turn.phase, to: 1, rest: { end: turn.phase.to, part: 1 } } };
  }
  const settings = goingTo(phase, syncEnvironment);
  const { turn } = startTurn(settings, input());
  return turn.phase.type === phase ? turn : advance(settings, turn, synced).turn;
}

const executor = { name: "test", version: "1" };
const responses: { readonly [R in ResponseType]: (id: string, tool?: string) => EffectResponse } = {
  environment_synced: (id) => ({ type: "environment_synced", id, environment: null }),
  environment_failed: (id) => ({ type: "environment_failed", id, message: "nope" }),
  tokens_counted: (id) => tokensCounted(id, 100),
  count_failed: (id) => ({ type: "count_failed", id, failure: adapterFailure("timeout"), durationMs: 0 }),
  model_replied: (id) => replied(id, says("Hi.")),
  model_failed: (id) => modelFailed(id, adapterFailure("timeout")),
  compacted: (id) => ({
    type: "compacted",
    id,
    summary: "They talked about the weather.",
    model: null,
    usage: noUsage,
    spent: noUsage,
    durationMs: 0,
  }),
  compaction_failed: (id) => compactionFailed(id, adapterFailure("timeout"), noUsage),
  tool_returned: (id) => result(id, "sunny"),
  tool_waits: (id) => toolWaits(id, "approval"),
  code_finished: (id) => codeFinished(id),
  code_calls: (id, tool = "weather") => codeCalls(id, calls(tool).toolCalls, executor),
  code_failed: (id) => codeFailed(id, "boom"),
  checkpoint_delivered: (id) => delivered(id),
};

/** Other responses of a type that lead to other phases. */
const tooManyTokens = { ...noUsage, inputTokens: Number.MAX_SAFE_INTEGER };
const others: { readonly [R in ResponseType]?: (id: string) => readonly EffectResponse[] } = {
  tokens_counted: (id) => [tokensCounted(id, 1_200)],
  model_replied: (id) => [replied(id, { ...says("Hi."), usage: noUsage })],
  model_failed: (id) => [modelFailed(id, adapterFailure("context_length_exceeded"))],
  compacted: (id) => [
    { type: "compacted", id, summary: "", model: null, usage: tooManyTokens, spent: tooManyTokens, durationMs: 0 },
  ],
  compaction_failed: (id) => [
    compactionFailed(id, adapterFailure("timeout"), tooManyTokens),
    compactionFailed(id, adapterFailure("context_length_exceeded"), noUsage),
  ],
};

function tokensCounted(id: string, tokens: number): EffectResponse {
  return { type: "tokens_counted", id, tokens, by: "provider", failure: null, durationMs: 0 };
}

function compactionFailed(id: string, failure: Failure, usage: Usage): EffectResponse {
  return { type: "compaction_failed", id, failure, usage, spent: usage, durationMs: 0 };
}

const phaseTypes = keysOf(transitions);
const responseTypes = keysOf(responses);

/** The phases a turn is in after this response, over all protocols and policies, and calls of tools of each sort. */
function phasesAfter(phase: PhaseType, type: ResponseType): readonly PhaseType[] {
  const all = [turnIn(phase, false), turnIn(phase, true), turnIn(phase, false, true)];
  const plain = all.filter((turn) => turn.phase.type === phase);
  const limits = [compacting, pruning, counting(1_000)];
  const limited = plain.flatMap((turn) => limits.map((each) => limitedTurn(turn, each)));
  const isLimited = phase === "awaiting_count" || phase === "awaiting_compaction";
  const after = [...plain, ...(isLimited ? [] : limited)].flatMap((turn) =>
    phaseTypes.flatMap((to) =>
      // One tool that runs, one that does not exist, one that the caller runs.
      ["weather", "teleport", "pay"].flatMap((tool) => {
        const id = pendingEffects(turn)[0]?.id ?? "";
        const variants = [responses[type](id, tool), ...(others[type]?.(id) ?? [])];
        return variants.map((response) => advance(goingTo(to), turn, response).turn.phase.type);
      }),
    ),
  );
  return phaseTypes.filter((one) => after.includes(one));
}

describe.each(phaseTypes)("[lash 4] %s", (phase) => {
  const turn = turnIn(phase, phase === "awaiting_environment");
  const [awaited] = pendingEffects(turn);

  test("waits for an effect unless the turn has ended", () => {
    expect([turn.phase.type, awaited === undefined]).toEqual([phase, phase === "ended"]);
  });

  test.each(responseTypes)("on %s", (type) => {
    const rejected = (id: string) => {
      const { turn: after, notices, status } = advance(goingTo("ended"), turn, responses[type](id));
      expect([after === turn, notices]).toEqual([true, []]);
      return status;
    };
    const row = transitionFor(phase, type);
    expect(rejected("t/9/model")).toBe("stale");
    if (phase === "ended") {
      expect([row, rejected("t/1/model")]).toEqual([undefined, "stale"]);
    } else if (row === undefined) {
      expect(rejected(awaited?.id ?? "")).toBe("wrong_kind");
    } else {
      expect(advance(goingTo("ended"), turn, responses[type](awaited?.id ?? "")).status).toBe("accepted");
      expect(phasesAfter(phase, type)).toEqual(phaseTypes.filter((one) => row.next.includes(one)));
    }
  });
});

test("[lash 4] every response is accepted in exactly one phase", () => {
  const accepting = responseTypes.map((type) => phaseTypes.filter((phase) => transitionFor(phase, type) !== undefined));
  expect(accepting.map((phases) => phases.length)).toEqual(responseTypes.map(() => 1));
});

test("a response of an unknown type is of the wrong kind", () => {
  const turn = turnIn("awaiting_model", false);
  for (const type of ["model_dreamed", "toString", "__proto__"]) {
    // A program without a compiler may send anything.
    const response: EffectResponse = JSON.parse(JSON.stringify({ type, id: "t/1/model" }));
    expect(advance(config(), turn, response).status).toBe("wrong_kind");
  }
});
