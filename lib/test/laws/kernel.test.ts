// Property tests of the turn machine (K2 to K6, S2), over turns that random hosts drive: any reply, any tool result, in
// any order, with unexpected responses in between.

import type { ContextLimits } from "../../src/core/kernel/internal.ts";
import type { SuspendedCell } from "../../src/core/model/internal.ts";
import type { Effect, EffectResponse, Notice, Turn, TurnInput, TurnMachineConfig } from "everturn/advanced";

import { assistant, newSession, system, user } from "everturn";
import {
  jsonSchema,
  codeFailed,
  codeFinished,
  codeProtocol,
  historyMessages,
  modelFailed,
  adapterFailure,
  toolCall,
  toolFailure,
  validateSession,
} from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import {
  advance,
  cancelTurn,
  pendingEffects,
  startTurn,
  storableTurn,
  callDecision,
  callResult,
  codeCalls,
  toolWaits,
} from "../../src/core/kernel/internal.ts";
import { transitionFor } from "../../src/core/kernel/machine/transitions.ts";
import { noUsage, sessionStatusOf } from "../../src/core/model/internal.ts";
import { asks, calls, config, delivered, input, replied, result, returned, says } from "../turns.ts";

/** One action of a host: which pending effect it answers next, and with what. */
type Choice = { readonly which: number; readonly what: number };

const choice = fc.record({ which: fc.nat(7), what: fc.nat(1000) });
const actionLists = fc.array(choice, { maxLength: 40 });
/** Context limits under which many requests are too long. */
const small: ContextLimits = {
  window: 60,
  reserve: 10,
  keepRecent: 5,
  longestResult: 40,
  counts: false,
  prune: { at: 20, keep: 8 },
  compact: { at: 30, model: null, instructions: null, providerAt: null, maxTokens: null, budget: null },
};
const pruned: ContextLimits = { ...small, compact: null };
const counting: ContextLimits = { ...small, counts: true };

const settings: fc.Arbitrary<TurnMachineConfig> = fc
  .record({
    mode: fc.constantFrom("auto" as const, "auto" as const, "manual" as const),
    onEmptyReply: fc.constantFrom("complete" as const, "error" as const),
    onUnknownTool: fc.constantFrom("error" as const, "answer" as const),
    stopAfter: fc.constantFrom(null, null, null, "reply" as const, "step" as const),
    maxTurns: fc.constantFrom(null, 1, 2, 3),
    syncEnvironment: fc.boolean(),
    startCheckpoint: fc.boolean(),
    emitLlmTrace: fc.boolean(),
    finalize: fc.boolean(),
    message: fc.constantFrom(null, "Turn limit reached."),
    code: fc.boolean(),
    context: fc.constantFrom(null, null, small, pruned, counting),
  })
  .map(
    ({
      mode,
      onEmptyReply,
      onUnknownTool,
      stopAfter,
      maxTurns,
      syncEnvironment,
      startCheckpoint,
      emitLlmTrace,
      finalize,
      message,
      code,
      context,
    }) =>
      config(
        { mode, onEmptyReply, onUnknownTool, stopAfter },
        {
          ...(code ? { protocolDriver: codeProtocol() } : {}),
          maxTurns,
          syncEnvironment,
          startCheckpoint,
          context,
          emitLlmTrace,
          turnLimitFinalMessage: message,
          structuredFinalize: finalize ? { format: jsonSchema("sky", {}), nudge: "Now in JSON." } : null,
        },
      ),
  );

const twins = calls("weather", "clock", "weather").toolCalls.map((call) => ({ ...call, id: "same" }));
const [weatherCall = toolCall({ id: "c0", name: "weather", arguments: {} })] = twins;
const approve = { type: "approve", arguments: null, by: null } as const;
const success = { type: "success", value: "sunny", control: null } as const;
const environment = { instructions: "Old.", model: "m0", tools: config().toolSpecs, providerTools: [], params: {} };
const suspended: SuspendedCell = {
  id: "s/0/cell",
  language: "javascript",
  code: "weather()",
  executor: { name: "test", version: "1" },
  environment,
  calls: [
    { call: weatherCall, answer: success },
    { call: weatherCall, answer: null },
    { call: weatherCall, answer: null },
  ],
  ranMs: 0,
};

/** The inputs of a turn: a user message, answers to pending calls (some with equal ids), or a suspended cell. */
const beginnings: fc.Arbitrary<TurnInput> = fc.constantFrom(
  input(),
  input(),
  input({ messages: [] }),
  input({
    history: [user("go"), assistant("", { toolCalls: twins })],
    messages: [],
    answers: twins.map((call) => callDecision(call, approve, "old")),
  }),
  input({
    history: [user("go"), assistant("", { toolCalls: twins })],
    answers: [
      callResult(twins[1] ?? weatherCall, success),
      callDecision(weatherCall, { type: "deny", reason: null, by: null }),
      callDecision(weatherCall, approve),
    ],
  }),
  input({
    messages: [],
    cell: suspended,
    answers: [callDecision(weatherCall, approve), callResult(weatherCall, success)],
  }),
);

const pick = <T>(from: readonly [T, ...T[]], what: number): T => from[what % from.length] ?? from[0];

function answer(effect: Effect, what: number): EffectResponse {
  const { id } = effect;
  switch (effect.type) {
    case "sync_environment": {
      const environment = { instructions: "New.", model: "m2", tools: [], providerTools: [], params: {} };
      return pick(
        [
          { type: "environment_synced", id, environment: null },
          { type: "environment_synced", id, environment: null },
          { type: "environment_synced", id, environment },
          { type: "environment_failed", id, message: "nope" },
        ],
        what,
      );
    }
    case "count_tokens": {
      const counted = (tokens: number, by: "provider" | "tokenizer"): EffectResponse => ({
        type: "tokens_counted",
        id,
        tokens,
        by,
        failure: null,
        durationMs: 0,
      });
      const failure = adapterFailure("timeout");
      return pick(
        [counted(10, "provider"), counted(1_000, "tokenizer"), { type: "count_failed", id, failure, durationMs: 0 }],
        what,
      );
    }
    case "call_model":
      return pick(
        [
          replied(id, calls("weather", "clock")),
          replied(id, says("```javascript\nweather()\n```")),
          replied(id, calls("weather")),
          replied(id, says("Sunny.")),
          replied(id, says("```\nclock()\n```")),
          replied(id, calls("clock", "weather", "clock")),
          replied(id, calls("pay", "weather")),
          replied(id, calls("pay")),
          replied(id, calls("teleport", "weather")),
          replied(id, says("")),
          replied(id, { ...calls("weather"), finishReason: "length" }),
          replied(id, { ...says("cut"), finishReason: "content_filter" }),
          replied(id, { ...calls("weather"), finishReason: null }),
          replied(id, { ...calls("weather"), finishReason: "error", error: adapterFailure("timeout") }),
          modelFailed(id, adapterFailure("timeout"), { partial: says("Hel") }),
          modelFailed(id, adapterFailure("unknown"), { terminalReason: "cancelled" }),
          modelFailed(id, adapterFailure("context_length_exceeded")),
        ],
        what,
      );
    case "compact": {
      const fields = { id, usage: noUsage, spent: noUsage, durationMs: 0 };
      return pick(
        [
          { type: "compacted", summary: "They talked.", model: null, ...fields },
          { type: "compacted", summary: " ", model: null, ...fields },
          { type: "compaction_failed", failure: adapterFailure("timeout"), ...fields },
        ],
        what,
      );
    }
    case "call_tool":
      return pick(
        [
          result(id, "sunny"),
          result(id, ""),
          returned(id, { type: "failure", failure: toolFailure("timeout") }),
          returned(id, { type: "failure", failure: toolFailure("timeout") }, true),
          returned(id, asks("Which?")),
          returned(id, { type: "ask_user", question: "Which?", answerAs: "tool_result", opts: {} }),
          returned(id, { type: "halt", reason: "enough", value: null }),
          returned(id, { type: "cancelled", message: "", raw: null }),
          returned(id, { type: "success", value: 1, control: { type: "finish", value: 42 } }),
          toolWaits(id, "approval"),
          toolWaits(id, "outcome_unknown"),
        ],
        what,
      );
    case "run_code": {
      const place = effect.answers;
      const wants = (...names: readonly string[]) =>
        codeCalls(
          id,
          names.map((name, index) => toolCall({ id: `k${place + index}`, name, arguments: {} })),
          { name: "test", version: "1" },
        );
      return pick<EffectResponse>(
        [
          wants("weather", "clock"),
          wants("weather"),
          codeFinished(id, { observations: ["2"] }),
          wants("pay", "weather"),
          wants("teleport"),
          codeFinished(id, { finish: { type: "value", value: 42, issues: [] } }),
          codeFinished(id, { finish: { type: "error", value: "no" } }),
          codeFinished(id, { error: "boom" }),
          codeFailed(id, "too long", { reason: "limit_exceeded" }),
          wants(),
        ],
        what,
      );
    }
    case "checkpoint": {
      const note = system("note", { origin: { type: "plugin", pluginId: "p", transient: true } });
      const origin = { type: "turn_input", turnId: "t", inputId: null } as const;
      const causes = [{ id: `w${what % 3}`, eventType: "wake", origin, text: "woke" }];
      const delivery = { messages: [], transientMessages: [note], turnCauses: causes, inputs: [] };
      const evidence = { requestId: "t", origin: "hook", reason: "no" };
      return pick<EffectResponse>(
        [
          delivered(id),
          delivered(id),
          delivered(id, user("more")),
          { type: "checkpoint_delivered", id, delivery, verdict: { type: "go_on" } },
          { type: "checkpoint_delivered", id, delivery, verdict: { type: "halt_when" } },
          { type: "checkpoint_delivered", id, delivery, verdict: { type: "budget", budget: "cost" } },
          { type: "checkpoint_delivered", id, delivery, verdict: { type: "abort", evidence } },
        ],
        what,
      );
    }
  }
}

type Run = { readonly turn: Turn; readonly notices: readonly Notice[]; readonly effects: readonly string[] };

/** Drives a turn by a list of actions. `between` may replace the turn before each response. */
function drive(
  settings: TurnMachineConfig,
  begin: TurnInput,
  choices: readonly Choice[],
  between: (turn: Turn) => Turn,
): Run {
  const first = startTurn(deepFrozen(settings), deepFrozen(begin));
  let { turn } = first;
  const notices = [...first.notices];
  const effects = pendingEffects(turn).map(({ id }) => id);
  const answered = new Set<string>();
  for (const { which, what } of choices) {
    turn = between(turn);
    const pending = pendingEffects(turn);
    const effect = pending[which % pending.length];
    if (effect === undefined) break;
    const response = deepFrozen(answer(effect, what));
    const next = advance(settings, turn, response);
    expect(next.status).toBe("accepted");
    expect(transitionFor(turn.phase.type, response.type)?.next).toContain(next.turn.phase.type);
    turn = next.turn;
    answered.add(effect.id);
    notices.push(...next.notices);
    const waits = pendingEffects(turn).map(({ id }) => id);
    expect(waits.filter((id) => answered.has(id))).toEqual([]);
    expect(new Set(waits).size).toBe(waits.length);
    effects.push(...waits);
  }
  return { turn, notices, effects };
}

const untouched = (turn: Turn): Turn => turn;

function deepFrozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFrozen(inner);
  return Object.freeze(value);
}

const stored = (turn: Turn): Turn => JSON.parse(JSON.stringify(storableTurn(turn)));

describe("[lash 61] [lash 62] K2, K3: the state of a turn is plain data", () => {
  test("a JSON round trip before every response, with everything frozen, gives the same turn", () => {
    fc.assert(
      fc.property(settings, beginnings, actionLists, (chosen, begin, choices) => {
        const plain = drive(chosen, begin, choices, untouched);
        const forgotten = drive(chosen, begin, choices, (turn) => deepFrozen(stored(turn)));
        expect(stored(forgotten.turn)).toEqual(stored(plain.turn));
        expect(forgotten.notices).toEqual(plain.notices);
        expect(forgotten.effects).toEqual(plain.effects);
      }),
      { numRuns: 400 },
    );
  });
});

test("[lash 3] [lash 6] [lash 67] K6: equal responses give an equal turn with equal, unique effect ids", () => {
  fc.assert(
    fc.property(settings, beginnings, actionLists, (chosen, begin, choices) => {
      const once = drive(chosen, begin, choices, untouched);
      const again = drive(chosen, begin, choices, untouched);
      expect(stored(again.turn)).toEqual(stored(once.turn));
      expect(again.effects).toEqual(once.effects);
    }),
    { numRuns: 200 },
  );
});

describe("[lash 5] K4: unexpected responses are ignored and reported", () => {
  test("late, duplicate and wrong responses at every point leave the turn unchanged", () => {
    fc.assert(
      fc.property(settings, beginnings, actionLists, fc.nat(1000), (chosen, begin, choices, what) => {
        const taken: EffectResponse[] = [delivered("missing"), replied("t/99/model", says(`${what}`))];
        let { turn } = startTurn(chosen, begin);
        for (const choice of choices) {
          for (const old of taken) {
            const { turn: same, notices, status } = advance(chosen, turn, old);
            expect([same === turn, notices.length, status]).toEqual([true, 0, "stale"]);
          }
          for (const { id, type } of pendingEffects(turn)) {
            const wrong = type === "checkpoint" ? replied(id, says("x")) : delivered(id);
            const { turn: same, notices, status } = advance(chosen, turn, wrong);
            expect([same === turn, notices.length, status]).toEqual([true, 0, "wrong_kind"]);
          }
          const pending = pendingEffects(turn);
          const effect = pending[choice.which % pending.length];
          if (effect === undefined) break;
          const given = answer(effect, choice.what);
          turn = advance(chosen, turn, given).turn;
          taken.push(given);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("[lash 13] K5: a turn ends once", () => {
  test("it emits done once, and then has no pending effects and accepts no response", () => {
    fc.assert(
      fc.property(settings, beginnings, actionLists, (chosen, begin, choices) => {
        const { turn, notices } = drive(chosen, begin, choices, untouched);
        const ended = turn.phase.type === "ended";
        expect(notices.filter((notice) => notice.type === "done")).toHaveLength(ended ? 1 : 0);
        expect(ended ? pendingEffects(turn) : []).toEqual([]);
        if (ended) expect(notices.at(-1)?.type).toBe("done");
        else expect(pendingEffects(turn).length).toBeGreaterThan(0);
      }),
      { numRuns: 400 },
    );
  });
});

describe("[lash 31] S2: every call is answered or pending", () => {
  test("after a turn has ended, and after a cancel at any point", () => {
    fc.assert(
      fc.property(settings, beginnings, actionLists, (chosen, begin, choices) => {
        const { turn } = drive(chosen, begin, choices, untouched);
        const evidence = { requestId: "r", origin: null, reason: null };
        const over =
          turn.phase.type === "ended"
            ? turn
            : cancelTurn(chosen, turn, { evidence, received: null, usage: noUsage }).turn;
        if (over.phase.type !== "ended") throw new TypeError("a cancelled turn has ended");
        const messages = historyMessages(over.history);
        const { pendingToolCalls, suspendedCell, outcome } = over.phase.ending;
        const status = sessionStatusOf(outcome, { callsWait: pendingToolCalls.length > 0 });
        const asked = outcome.type === "ask_user" ? { pendingQuestion: outcome.question } : {};
        const failure = "failure" in outcome ? outcome.failure : toolFailure("handler_failed");
        const metadata = status === "error" ? { error: failure } : {};
        const left = newSession({ thread: { messages }, pendingToolCalls, suspendedCell, status, metadata, ...asked });
        const valid = validateSession(left);
        // Repeated ids come from the provider and are not a violation.
        const issues = valid.ok ? [] : valid.failure.issues.filter(({ code }) => code !== "duplicate_tool_call_id");
        expect(issues).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });
});

describe("[lash 68] progress is recorded before it is used", () => {
  test("the progress notices add up to the history, each message once and in order", () => {
    fc.assert(
      fc.property(settings, beginnings, actionLists, (chosen, begin, choices) => {
        const { turn, notices } = drive(chosen, begin, choices, untouched);
        const progressMessages = notices.flatMap((notice) => (notice.type === "progress" ? notice.messages : []));
        const before = "digest" in begin.history ? historyMessages(begin.history) : begin.history;
        expect([...before, ...progressMessages]).toEqual(historyMessages(turn.history));
      }),
      { numRuns: 200 },
    );
  });
});

test("[lash 29] the order in which tools finish does not change the turn", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1000), { minLength: 3, maxLength: 3 }), fc.nat(5), (whats, order) => {
      const orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
      ];
      const run = (slots: readonly number[]) => {
        let { turn } = startTurn(config(), input());
        turn = advance(config(), turn, replied("t/0/model", calls("weather", "clock", "weather"))).turn;
        for (const slot of slots) {
          const effect = pendingEffects(turn).find(({ id }) => id === `t/0/tool/${slot}`);
          if (effect !== undefined) turn = advance(config(), turn, answer(effect, whats[slot] ?? 0)).turn;
        }
        return stored(turn);
      };
      expect(run(orders[order] ?? [])).toEqual(run([0, 1, 2]));
    }),
  );
});
