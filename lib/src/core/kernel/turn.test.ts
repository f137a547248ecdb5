// The turn machine: the halt order, terminal reasons, usage, the rulings Q4 to Q15, recorded responses and revisions.

import type { Json, ModelReply, ToolOutcome, TurnOutcome } from "everturn";
import type { EffectResponse, TurnMachineConfig } from "everturn/advanced";

import { assistant, messageText, textPart, user, validateThread } from "everturn";
import {
  jsonSchema,
  checkpointDelivered,
  historyMessages,
  modelFailed,
  modelReplied,
  projectRequest,
  toolReturned,
  turnInput,
  TurnMachine,
  adapterFailure,
  toolCall,
  toolFailure,
  toolSpec,
  usage,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

import {
  asks,
  calls,
  config,
  delivered,
  input,
  replied,
  result,
  returned,
  says,
  transcript,
} from "../../../test/turns.ts";
import { haltedReasonOf, noUsage, opaquePart, reasoningPart, runtimeFailure, toolCallPart } from "../model/internal.ts";
import { pendingEffects } from "./machine/pending-effects.ts";
import { readResponse } from "./machine/read-response.ts";
import { advance, cancelTurn, failTurn, startTurn } from "./machine/reducer.ts";
import { callDecision, callResult, toolWaits } from "./machine/respond.ts";
import { kernelRevision } from "./machine/turn.ts";
import { llmTerminalReasons, terminalReasonOf } from "./protocol/terminal-reason.ts";

const failure = toolFailure("handler_failed");
const question = asks("Sure?");
const stops: ToolOutcome = { type: "failure", failure };
const halts: ToolOutcome = { type: "halt", reason: "enough", value: null };

/** How a scripted turn ends: the halted reason, and the last effect before it. */
function endOf(settings: TurnMachineConfig, responses: readonly EffectResponse[]) {
  const { turn, lines } = transcript(settings, input(), responses);
  const reason = turn.phase.type === "ended" ? haltedReasonOf(turn.phase.ending.outcome) : null;
  return {
    reason,
    checkpoints: lines.filter((line) => line.startsWith(">") && /after_work|before_completion/.test(line)),
  };
}

describe("[allm 62] the halt order: each row takes precedence over the rows below it", () => {
  const batch = (...names: readonly string[]) => replied("t/0/model", calls(...names));
  const rows: readonly {
    readonly row: string;
    readonly settings?: TurnMachineConfig;
    readonly responses: readonly EffectResponse[];
    readonly reason: string;
    readonly checkpoints: readonly string[];
  }[] = [
    {
      row: "1. a question, before a failure that stops, a halt and pending calls",
      responses: [
        batch("weather", "clock", "weather", "pay"),
        returned("t/0/tool/0", question),
        returned("t/0/tool/1", stops, true),
        returned("t/0/tool/2", halts),
      ],
      reason: "ask_user",
      checkpoints: [],
    },
    {
      row: "2. a failure that stops, before a halt of a later call and pending calls",
      responses: [batch("clock", "weather", "pay"), returned("t/0/tool/0", stops, true), returned("t/0/tool/1", halts)],
      reason: "tool_error",
      checkpoints: [],
    },
    {
      row: "1-3. among these the lowest call index decides, not the row and not the order of completion",
      responses: [batch("weather", "clock"), returned("t/0/tool/1", question), returned("t/0/tool/0", halts)],
      reason: "enough",
      checkpoints: [],
    },
    {
      row: "3. a halt, before pending calls",
      responses: [batch("weather", "pay"), returned("t/0/tool/0", halts)],
      reason: "enough",
      checkpoints: [],
    },
    {
      row: "4. pending calls, before maxTurns",
      settings: config({}, { maxTurns: 1 }),
      responses: [batch("weather", "pay"), result("t/0/tool/0", "sunny")],
      reason: "manual_tool_calls",
      checkpoints: [],
    },
    {
      row: "4. approvals, before unknown outcomes",
      responses: [
        batch("weather", "clock"),
        toolWaits("t/0/tool/0", "outcome_unknown"),
        toolWaits("t/0/tool/1", "approval"),
      ],
      reason: "approval",
      checkpoints: [],
    },
    {
      row: "5. mode manual: the caller runs all tools, also unknown ones",
      settings: config({ mode: "manual" }, { maxTurns: 1 }),
      responses: [batch("weather", "teleport")],
      reason: "manual_tool_calls",
      checkpoints: [],
    },
    {
      row: "6. an answer asks before_completion, also at maxTurns",
      settings: config({}, { maxTurns: 1 }),
      responses: [replied("t/0/model", says("Sunny.")), delivered("t/0/before_completion")],
      reason: "completed",
      checkpoints: ["> 0/before_completion"],
    },
    {
      row: "7. a failed model call, also at maxTurns",
      settings: config({}, { maxTurns: 1 }),
      responses: [modelFailed("t/0/model", adapterFailure("timeout"))],
      reason: "error",
      checkpoints: [],
    },
    {
      row: "8. haltWhen at after_work, before maxTurns",
      settings: config({}, { maxTurns: 1 }),
      responses: [
        batch("weather"),
        result("t/0/tool/0", "sunny"),
        checkpointDelivered("t/1/after_work", { verdict: { type: "halt_when" } }),
      ],
      reason: "halt_when",
      checkpoints: ["> 1/after_work"],
    },
    {
      row: "8. a budget at after_work, before maxTurns",
      settings: config({}, { maxTurns: 1 }),
      responses: [
        batch("weather"),
        result("t/0/tool/0", "sunny"),
        checkpointDelivered("t/1/after_work", { verdict: { type: "budget", budget: "cost" } }),
      ],
      reason: "budget",
      checkpoints: ["> 1/after_work"],
    },
    {
      row: "9. maxTurns, decided at after_work",
      settings: config({}, { maxTurns: 1 }),
      responses: [batch("weather"), result("t/0/tool/0", "sunny"), delivered("t/1/after_work")],
      reason: "max_turns",
      checkpoints: ["> 1/after_work"],
    },
  ];

  test.each(rows)("$row", ({ settings = config(), responses, reason, checkpoints }) => {
    expect(endOf(settings, responses)).toEqual({ reason, checkpoints });
  });
});

describe("[lash 17] the effect of each terminal reason on the turn", () => {
  const broken: ModelReply = { ...says("part"), finishReason: "error", error: adapterFailure("timeout") };
  const full: ModelReply = { ...says(""), finishReason: "length", usage: usage({ inputTokens: 95, outputTokens: 0 }) };
  const responses = (reply: ModelReply) => [replied("t/0/model", reply), delivered("t/0/before_completion")];
  const rows: {
    readonly [R in (typeof llmTerminalReasons)[number]]: readonly [ModelReply | null, TurnOutcome["type"] | null];
  } = {
    stop: [says("part"), "assistant_message"],
    tool_use: [calls("weather"), null],
    unknown: [{ ...says("part"), finishReason: null }, "other"],
    output_limit: [{ ...calls("weather"), finishReason: "length" }, "incomplete"],
    content_filter: [{ ...calls("weather"), finishReason: "content_filter" }, "filtered"],
    context_overflow: [full, "provider_error"],
    provider_error: [broken, "provider_error"],
    cancelled: [null, "cancelled"],
  };

  test.each(llmTerminalReasons)("%s", (reason) => {
    const [reply, outcome] = rows[reason];
    const cancelled = modelFailed("t/0/model", adapterFailure("unknown"), { terminalReason: "cancelled" });
    const settings = config({}, { maxContextTokens: 100 });
    const { turn } = transcript(settings, input(), reply === null ? [cancelled] : responses(reply));
    if (reply !== null) expect(terminalReasonOf(reply, 100)).toBe(reason);
    expect(turn.phase.type === "ended" ? turn.phase.ending.outcome.type : null).toBe(outcome);
    // Calls of a cut or filtered reply do not run, and every call has an answer.
    const answers = historyMessages(turn.history).filter(({ role }) => role === "tool");
    expect(answers).toHaveLength(reason === "output_limit" || reason === "content_filter" ? 1 : 0);
  });
});

describe("[lash 22] usage", () => {
  test("is added before the protocol sees the reply, and summed over the steps", () => {
    const seen: (number | null)[] = [];
    const driver = config().protocolDriver;
    const watching = config(
      {},
      {
        protocolDriver: {
          ...driver,
          handleLlmSuccess: (context, reply, state) => {
            seen.push(context.openReply?.usage.inputTokens ?? null);
            return driver.handleLlmSuccess(context, reply, state);
          },
        },
      },
    );
    const { turn } = transcript(watching, input(), [
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "sunny"),
      delivered("t/1/after_work"),
      replied("t/1/model", says("Sunny.")),
    ]);
    expect(seen).toEqual([10, 10]);
    expect(turn.usage).toMatchObject({ inputTokens: 20, outputTokens: 10 });
  });

  test("that overflows ends the turn before the protocol sees the reply", () => {
    let asked = 0;
    const driver = config().protocolDriver;
    const handleLlmSuccess: typeof driver.handleLlmSuccess = (...args) => {
      asked += 1;
      return driver.handleLlmSuccess(...args);
    };
    const watching = config({}, { protocolDriver: { ...driver, handleLlmSuccess } });
    const most = usage({ inputTokens: Number.MAX_SAFE_INTEGER, outputTokens: 0 });
    const { turn } = transcript(watching, input(), [modelReplied("t/0/model", says("Sunny."), { spent: most })]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "token_usage_overflow" } } } });
    expect(asked).toBe(0);
  });

  test("includes failed attempts and turns inside tools, for the turn and for the step", () => {
    const spent = usage({ inputTokens: 100, outputTokens: 1 });
    const { turn } = transcript(config(), input(), [
      modelReplied("t/0/model", calls("weather"), { spent }),
      toolReturned("t/0/tool/0", { type: "success", value: "x", control: null }, { spent }),
      delivered("t/1/after_work"),
    ]);
    expect(turn.usage).toMatchObject({ inputTokens: 210, outputTokens: 7 });
    const { notices } = advance(config(), turn, modelFailed("t/1/model", adapterFailure("timeout"), { spent }));
    expect(notices).toMatchObject([
      {},
      { stepEnded: { usage: { inputTokens: 100 } } },
      { usage: { inputTokens: 310 } },
    ]);
  });
});

describe("rulings", () => {
  test("Q4: the request places results at their calls, in call order, wherever the history has them", () => {
    const history = [
      user("go"),
      assistant("", { toolCalls: ["a", "b"].map((id) => ({ id, name: "weather", arguments: {} })) }),
      user("wait"),
    ];
    const answers = ["b", "a"].map((id) =>
      callResult(toolCall({ id, name: "weather", arguments: {} }), { type: "success", value: id, control: null }),
    );
    const { turn } = startTurn(config(), input({ history, messages: [user("now")], answers }));
    expect(historyMessages(turn.history).map(messageText)).toEqual(["go", "", "wait", "a", "b", "now"]);
    expect(projectRequest(config(), turn).messages.map(messageText)).toEqual([
      "Be brief.",
      "go",
      "",
      "a",
      "b",
      "wait",
      "now",
    ]);
  });

  test("Q4: several questions of one reply are pending in order; the first is the outcome of the turn", () => {
    const { turn, lines } = transcript(config(), input(), [
      replied("t/0/model", calls("weather", "clock")),
      returned("t/0/tool/1", asks("Second?")),
      returned("t/0/tool/0", asks("First?")),
    ]);
    expect(lines.at(-1)).toBe("= ask_user +c1");
    expect(turn.phase).toMatchObject({
      ending: {
        outcome: { question: "First?", toolCallId: "c0" },
        pendingToolCalls: [{ id: "c1", reason: "question", question: "Second?" }],
      },
    });
  });

  test("a question with answerAs tool_result leaves its call open, and the answer becomes its result", () => {
    const open: ToolOutcome = { type: "ask_user", question: "Which?", answerAs: "tool_result", opts: { choices: [1] } };
    const { turn, lines } = transcript(config(), input(), [
      replied("t/0/model", calls("weather", "clock")),
      toolReturned("t/0/tool/0", open),
      result("t/0/tool/1", "noon"),
    ]);
    expect(lines.at(-1)).toBe("= ask_user +c0");
    expect(turn.phase).toMatchObject({
      ending: { pendingToolCalls: [{ id: "c0", answerAs: "tool_result", opts: { choices: [1] } }] },
    });
    expect(historyMessages(turn.history).map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    const call = toolCall({ id: "c0", name: "weather", arguments: {} });
    const answered = startTurn(
      config(),
      turnInput("u", {
        history: historyMessages(turn.history),
        answers: [callResult(call, { type: "success", value: "Rome", control: null })],
      }),
    );
    expect(projectRequest(config(), answered.turn).messages.map(messageText)).toEqual([
      "Be brief.",
      "hi",
      "",
      "Rome",
      "noon",
    ]);
  });

  test("Q6: call_model names its history by length and digest; a different history has a different digest", () => {
    const named = (text: string) => {
      const [effect] = pendingEffects(startTurn(config(), input({ messages: [user(text)] })).turn);
      return effect?.type === "call_model" ? effect.history : null;
    };
    expect(named("hi")).toEqual(named("hi"));
    expect(named("hi")?.length).toBe(named("ho")?.length);
    expect(named("hi")?.digest).not.toBe(named("ho")?.digest);
  });

  test("Q8: a tool runs with edited arguments; the call of the model is unchanged, and the result names the arguments that ran", () => {
    const call = toolCall({ id: "c0", name: "weather", arguments: { city: "Rom" } });
    const history = [user("hi"), assistant("", { toolCalls: [call] })];
    const edited = { type: "approve", arguments: { city: "Rome" }, by: "Ada" } as const;
    const { turn } = transcript(config(), input({ history, messages: [], answers: [callDecision(call, edited)] }), [
      toolReturned(
        "t/0/tool/0",
        { type: "success", value: "sunny", control: null },
        { ranArguments: { city: "Rome" } },
      ),
    ]);
    expect(historyMessages(turn.history).slice(1)).toMatchObject([
      { toolCalls: [{ arguments: { city: "Rom" } }] },
      { role: "tool", ranArguments: { city: "Rome" } },
    ]);
  });

  test("Q9: a cancel keeps the received text, counts its usage and answers open calls; a second cancel changes nothing", () => {
    const evidence = { requestId: "r1", origin: "user", reason: "enough" };
    const received = assistant("It is su");
    const asking = startTurn(config(), input()).turn;
    const spent = usage({ inputTokens: 7 });
    const { turn } = cancelTurn(config(), asking, { evidence, received, usage: spent });
    expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "It is su"]);
    expect(turn.usage.inputTokens).toBe(7);
    const second = cancelTurn(config(), turn, {
      evidence: { ...evidence, requestId: "r2" },
      received: null,
      usage: noUsage,
    });
    expect([second.status, second.turn === turn]).toEqual(["stale", true]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { evidence: { requestId: "r1" } } } });
  });

  test("Q11: the verdict takes precedence, and input delivered with a halt is not added", () => {
    const responses = [
      replied("t/0/model", says("Sunny.")),
      checkpointDelivered("t/0/before_completion", {
        verdict: { type: "budget", budget: "tokens" },
        messages: [user("more")],
      }),
    ];
    const { turn } = transcript(config(), input(), responses);
    expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "Sunny."]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { type: "budget", budget: "tokens" } } });
  });

  test("Q11: a checkpoint that no model call can follow is marked as last and ignores input", () => {
    const limited = config({}, { maxTurns: 1 });
    const responses = [replied("t/0/model", calls("weather")), result("t/0/tool/0", "sunny")];
    const { turn } = transcript(limited, input(), responses);
    expect(pendingEffects(turn)).toMatchObject([{ checkpoint: "after_work", last: true }]);
    const ended = advance(limited, turn, delivered("t/1/after_work", user("more"))).turn;
    expect(historyMessages(ended.history).map(messageText)).toEqual(["hi", "", "sunny"]);
  });

  test("Q12: no structured call is made after a budget is exhausted", () => {
    const structuredFinalize = { format: jsonSchema("sky", {}), nudge: "Now in JSON." };
    const responses = [
      replied("t/0/model", says("Sunny.")),
      checkpointDelivered("t/0/before_completion", { verdict: { type: "budget", budget: "time" } }),
    ];
    expect(endOf(config({}, { structuredFinalize }), responses).reason).toBe("budget");
  });

  test("Q13: a cancelled structured call keeps the thread of the loop and reports how the loop ended", () => {
    const structuredFinalize = { format: jsonSchema("sky", {}), nudge: "Now in JSON." };
    const settings = config({}, { structuredFinalize });
    const { turn } = transcript(settings, input(), [
      replied("t/0/model", says("Sunny.")),
      delivered("t/0/before_completion"),
    ]);
    const evidence = { requestId: "r", origin: null, reason: null };
    const ended = cancelTurn(settings, turn, { evidence, received: assistant('{"sk'), usage: noUsage }).turn;
    expect(historyMessages(ended.history).map(messageText)).toEqual(["hi", "Sunny."]);
    expect(ended.phase).toMatchObject({
      ending: { partial: { content: '{"sk' }, outcome: { type: "cancelled" }, pass1: { type: "assistant_message" } },
    });
  });

  test("Q15: a turn runs with empty input; a single step ends with stop_after; unknown calls are answered next to manual ones", () => {
    expect(pendingEffects(startTurn(config(), input({ messages: [] })).turn)).toMatchObject([{ type: "call_model" }]);
    const single = [replied("t/0/model", calls("weather")), result("t/0/tool/0", "sunny")];
    expect(endOf(config({ stopAfter: "step" }), single)).toEqual({ reason: "stop_after", checkpoints: [] });
    const lenient = config({ onUnknownTool: "answer" });
    const { turn, lines } = transcript(lenient, input(), [
      replied("t/0/model", calls("teleport", "weather", "pay")),
      result("t/0/tool/1", "sunny"),
    ]);
    expect(lines.at(-1)).toBe("= manual_tool_calls +c2");
    expect(historyMessages(turn.history).slice(-2)).toMatchObject([{ code: "not_found" }, { content: "sunny" }]);
  });
});

describe("recorded responses", () => {
  test("a recorded failure without terminal reason, or with an unknown one, reads as unknown", () => {
    const { kind: _, ...legacy } = adapterFailure("rate_limited", { message: "rate limited", code: "429" });
    expect(readResponse({ type: "model_failed", id: "t/0/model", error: { failure: legacy } })).toMatchObject({
      ok: true,
      value: { error: { failure: { kind: "unknown", retryable: true }, terminalReason: "unknown", partial: null } },
    });
    const future = { failure: legacy, terminalReason: "melted" };
    expect(readResponse({ type: "model_failed", id: "t/0/model", error: future })).toMatchObject({
      value: { error: { terminalReason: "unknown" } },
    });
  });

  /** Passes rows to a machine as they were stored, and returns its turn. */
  function machineAfter(settings: ReturnType<typeof config>, ...rows: readonly string[]) {
    const machine = TurnMachine.start(settings, input());
    for (const row of rows) expect(machine.handleResponse(JSON.parse(row)), row).toBe("accepted");
    return machine.turn;
  }

  test.each(["null", "7", '"x"', "[]"])("%s is no response: handleResponse and advance throw a typed error", (row) => {
    const settings = config();
    const machine = TurnMachine.start(settings, turnInput("t", { messages: [user("hi")] }));
    const before = JSON.stringify(machine.checkpoint());
    const error = expect.objectContaining({
      name: "MisuseError",
      reason: "invalid_argument",
      message: expect.stringContaining("must be an object"),
    });
    expect(() => machine.handleResponse(JSON.parse(row))).toThrow(error);
    expect(() => advance(settings, machine.turn, JSON.parse(row))).toThrow(error);
    expect(JSON.stringify(machine.checkpoint())).toBe(before);
  });

  test("rows that lack the fields of later releases are accepted by handleResponse", () => {
    const call = '{"id":"c0","name":"weather","arguments":{}}';
    const asking = `{"type":"model_replied","id":"t/0/model","reply":{"finishReason":"tool_calls","toolCalls":[${call}]}}`;
    const success = '{"type":"success","value":"sunny"}';
    const answered = `{"type":"tool_returned","id":"t/0/tool/0","outcome":${success},"content":"sunny"}`;
    const checked = '{"type":"checkpoint_delivered","id":"t/1/after_work","delivery":{},"verdict":{"type":"go_on"}}';
    const failed = `{"type":"model_failed","id":"t/1/model","error":{"failure":{"type":"adapter_error","reason":"rate_limited","message":"rate limited"}}}`;
    const turn = machineAfter(config(), asking, answered, checked, failed);
    expect(turn.phase).toMatchObject({
      type: "ended",
      ending: { outcome: { type: "provider_error", failure: { kind: "unknown", reason: "rate_limited" } } },
    });
    expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "", "sunny"]);
    expect(
      machineAfter(config(), asking, '{"type":"tool_waits","id":"t/0/tool/0","reason":"approval"}').phase,
    ).toMatchObject({ ending: { pendingToolCalls: [{ id: "c0", opts: {}, path: [] }] } });
    const syncing = config({}, { syncEnvironment: true });
    expect(machineAfter(syncing, '{"type":"environment_synced","id":"t/0/environment"}').phase.type).toBe(
      "awaiting_model",
    );
  });

  test("a row with a field of the wrong type is misuse that names the field; nothing changes", () => {
    const machine = TurnMachine.start(config(), input());
    const before = machine.turn;
    for (const [row, path] of [
      ['{"type":"model_replied","id":"t/0/model"}', ["reply"]],
      ['{"type":"model_replied","id":"t/0/model","reply":{"toolCalls":7}}', ["reply", "toolCalls"]],
      ['{"type":"model_failed","id":"t/0/model","error":{}}', ["error", "failure"]],
    ] as const) {
      expect(() => machine.handleResponse(JSON.parse(row)), row).toThrow(
        expect.objectContaining({ name: "MisuseError", reason: "invalid_argument", path }),
      );
      expect(machine.turn).toBe(before);
    }
    expect(machine.handleResponse(JSON.parse('{"type":"tool_returned","id":"t/0/model"}'))).toBe("wrong_kind");
    expect(machine.handleResponse(JSON.parse('{"type":"model_replied","id":"t/9/model"}'))).toBe("stale");
  });

  test("a response with data that cannot be stored is accepted, without these data", () => {
    let deep: Json = 1;
    for (let level = 0; level < 200; level += 1) deep = [deep];
    const { toolCalls, ...reply } = calls("weather");
    const machine = TurnMachine.start(config(), input());
    const changed = { ...reply, toolCalls: toolCalls.map((call) => ({ ...call, arguments: { deep } })) };
    expect(machine.handleResponse(replied("t/0/model", changed))).toBe("accepted");
    expect(machine.turn.phase).toMatchObject({ type: "awaiting_tools", calls: [{ call: { arguments: null } }] });
  });

  test("a response of the wrong shape is rejected with the path of each issue", () => {
    const refused = readResponse({ type: "tool_waits", id: "t/0/tool/0", reason: "mood" });
    expect(refused.ok ? [] : refused.failure.issues.map(({ path }) => path)).toEqual([["reason"]]);
  });
});

describe("a reply with two calls of one id", () => {
  const twice = (): ModelReply => {
    const [first, second] = calls("weather", "weather").toolCalls;
    const toolCalls = [first, second].flatMap((call) => (call === undefined ? [] : [{ ...call, id: "c" }]));
    const parts = [textPart("Looking."), toolCallPart("c"), toolCallPart("c")];
    return { ...calls(), toolCalls, message: assistant(parts, { toolCalls }) };
  };

  test("gives a valid thread: the second id is changed, and each result belongs to its call", () => {
    const machine = TurnMachine.start(config(), input());
    expect(machine.handleResponse(replied("t/0/model", twice()))).toBe("accepted");
    expect(pendingEffects(machine.turn)).toMatchObject([{ call: { id: "c" } }, { call: { id: "c~2" } }]);
    machine.handleResponse(result("t/0/tool/1", "rain"));
    machine.handleResponse(result("t/0/tool/0", "sun"));
    const messages = historyMessages(machine.turn.history);
    expect(messages.slice(1)).toMatchObject([
      { toolCalls: [{ id: "c" }, { id: "c~2" }] },
      { toolCallId: "c", content: "sun" },
      { toolCallId: "c~2", content: "rain" },
    ]);
    expect(validateThread({ messages, metadata: {} })).toMatchObject({ ok: true });
  });

  test("keeps its ids under an older revision", () => {
    const { turn } = transcript(config(), input({ revision: 2 }), [replied("t/0/model", twice())]);
    expect(pendingEffects(turn)).toMatchObject([{ call: { id: "c" } }, { call: { id: "c" } }]);
  });
});

test("[lash 64] a turn restored after a sync keeps the synced environment, whatever the configuration is now", () => {
  const syncing = config({}, { syncEnvironment: true });
  const environment = {
    instructions: "New.",
    model: "m2",
    tools: [toolSpec({ name: "moon", description: "Tells the moon.", schema: {} })],
    providerTools: [],
    params: {},
  };
  const { turn } = transcript(syncing, input(), [
    { type: "environment_synced", id: "t/0/environment", environment: null },
    replied("t/0/model", calls("weather")),
    result("t/0/tool/0", "sunny"),
    delivered("t/1/after_work"),
    { type: "environment_synced", id: "t/1/environment", environment },
  ]);
  const restored = JSON.parse(JSON.stringify(turn));
  expect(projectRequest(config({}, { systemPrompt: "Other." }), restored)).toMatchObject({
    model: "m2",
    tools: [{ name: "moon" }],
    messages: [{ content: "New." }, {}, {}, {}],
  });
});

test("limits are part of the turn: a deploy that changes them affects the next turn", () => {
  const { turn } = startTurn(config({}, { maxTurns: 1 }), input());
  const deployed = config({}, { maxTurns: 9 });
  const responses = [
    replied("t/0/model", calls("weather")),
    result("t/0/tool/0", "sunny"),
    delivered("t/1/after_work"),
  ];
  const ended = responses.reduce((before, response) => advance(deployed, before, response).turn, turn);
  expect(ended.phase).toMatchObject({ ending: { outcome: { type: "max_turns", maxTurns: 1 } } });
});

test("syncEnvironment is part of the turn", () => {
  const { turn } = startTurn(config(), input());
  const responses = [
    replied("t/0/model", calls("weather")),
    result("t/0/tool/0", "sunny"),
    delivered("t/1/after_work"),
  ];
  const syncing = config({}, { syncEnvironment: true });
  const after = responses.reduce((before, response) => advance(syncing, before, response).turn, turn);
  expect(pendingEffects(after)).toMatchObject([{ id: "t/1/model" }]);
});

test("the schema of the structured call is part of the turn", () => {
  const structuredFinalize = { format: jsonSchema("sky", {}), nudge: "" };
  const { turn } = startTurn(config({}, { structuredFinalize }), input());
  const responses = [replied("t/0/model", says("Sunny.")), delivered("t/0/before_completion")];
  const asking = responses.reduce((before, response) => advance(config(), before, response).turn, turn);
  expect(pendingEffects(asking)).toMatchObject([{ id: "t/0/finalize" }]);
});

test("Q6: a turn of a newer kernel revision is neither started nor advanced", () => {
  const { turn } = startTurn(config(), input());
  expect(() => advance(config(), { ...turn, revision: 99 }, replied("t/0/model", says("x")))).toThrow(/revision 99/);
  expect(() => startTurn(config(), input({ revision: 99 }))).toThrow(/revision 99/);
});

test("Q6: a turn of an older kernel revision is replayed and advanced under that revision", () => {
  const older = kernelRevision - 1;
  const { turn } = startTurn(config(), input({ revision: older }));
  const { turn: next, status } = advance(config(), turn, replied("t/0/model", says("x")));
  expect([turn.revision, status, next.revision]).toEqual([older, "accepted", older]);
  expect(startTurn(config(), input()).turn.revision).toBe(kernelRevision);
});

test("Q6: under kernel revision 1, a call that is not run keeps the text it had", () => {
  const cut = replied("t/0/model", { ...calls("weather"), finishReason: "length" });
  const answers = (revision: number) =>
    historyMessages(transcript(config(), input({ revision }), [cut]).turn.history)
      .filter(({ role }) => role === "tool")
      .map(messageText);
  const why = "the reply ended with finish reason length, so its calls are not run";
  expect(answers(1)).toEqual([`[Tool execution failed]\n${why}`]);
  expect(answers(2)).toEqual([JSON.stringify({ error: why })]);
});

test("Q7: the model that answered stays for the rest of the turn", () => {
  const { turn } = transcript(config(), input(), [
    modelReplied("t/0/model", calls("weather"), { model: "fallback-model" }),
    result("t/0/tool/0", "sunny"),
    delivered("t/1/after_work"),
  ]);
  expect(projectRequest(config(), turn).model).toBe("fallback-model");
});

describe("calls with the same id and name", () => {
  const twins = ["weather", "weather"].map((name) => toolCall({ id: "same", name, arguments: {} }));
  const history = [user("go"), assistant("", { toolCalls: twins })];
  const approve = { type: "approve", arguments: null, by: null } as const;

  test("run each in its own slot when they are approved", () => {
    const answers = twins.map((call) => callDecision(call, approve));
    const { turn, lines } = transcript(config(), input({ history, messages: [], answers }), [
      result("t/0/tool/1", "B"),
      result("t/0/tool/0", "A"),
    ]);
    expect(lines.at(-1)).toBe("> 1/after_work");
    expect(historyMessages(turn.history).slice(2).map(messageText)).toEqual(["A", "B"]);
  });
});

test("a call that waits again keeps its idempotency key", () => {
  const call = toolCall({ id: "c0", name: "weather", arguments: {} });
  const history = [user("go"), assistant("", { toolCalls: [call] })];
  const approve = { type: "approve", arguments: null, by: null } as const;
  const begin = input({ history, messages: [], answers: [callDecision(call, approve, "s/3/tool/0")] });
  const { turn } = transcript(config(), begin, [toolWaits("t/0/tool/0", "outcome_unknown")]);
  expect(turn.phase).toMatchObject({ ending: { pendingToolCalls: [{ idempotencyKey: "s/3/tool/0" }] } });
});

test("a question of a turn inside a tool ends the outer turn like any question", () => {
  const { turn } = transcript(config(), input(), [
    replied("t/0/model", calls("weather", "clock")),
    toolWaits("t/0/tool/0", "question", { question: "Which?", path: ["inner"] }),
    returned("t/0/tool/1", stops, true),
  ]);
  expect(turn.phase).toMatchObject({
    ending: { outcome: { type: "ask_user", question: "Which?" }, pendingToolCalls: [{ path: ["inner"] }] },
  });
});

test("a cancelled turn ends its open step with the results it has", () => {
  const { turn } = transcript(config(), input(), [
    replied("t/0/model", calls("weather", "clock")),
    result("t/0/tool/1", "noon"),
  ]);
  const evidence = { requestId: "r", origin: null, reason: null };
  const { notices } = cancelTurn(config(), turn, { evidence, received: null, usage: noUsage });
  expect(notices.find(({ type }) => type === "progress")).toMatchObject({
    stepEnded: { step: 0, toolResults: [{ status: "cancelled" }, { content: "noon" }] },
  });
});

test("a cancelled and a failed turn report the completion of each call without a result, once and before the end of the step", () => {
  const { turn } = transcript(config(), input(), [
    replied("t/0/model", calls("weather", "clock")),
    result("t/0/tool/1", "noon"),
  ]);
  const evidence = { requestId: "r", origin: null, reason: "enough" };
  const cancelled = cancelTurn(config(), turn, { evidence, received: null, usage: noUsage });
  const failed = failTurn(config(), turn, runtimeFailure("callback_failed", { message: "mine" }));
  for (const [{ notices }, message] of [
    [cancelled, "enough"],
    [failed, "the turn failed"],
  ] as const) {
    const events = notices.flatMap((notice) => (notice.type === "emit" ? [notice.event] : []));
    expect(events.filter(({ type }) => type !== "error")).toMatchObject([
      { type: "tool_execution_completed", id: "c0", name: "weather", result: { type: "cancelled", message } },
      { type: "tool_result_encoded", id: "c0", status: "cancelled", content: `[Tool execution cancelled]\n${message}` },
    ]);
    const types = notices.map(({ type }) => type);
    expect(types.lastIndexOf("emit")).toBeLessThan(types.indexOf("progress"));
  }
});

test("S2: a call that a protocol leaves open and does not list as pending is answered as cancelled", () => {
  const careless = config(
    {},
    {
      protocolDriver: {
        ...config().protocolDriver,
        handleToolResults: () => [
          {
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
        ],
      },
    },
  );
  const { turn } = transcript(careless, input(), [replied("t/0/model", calls("weather")), result("t/0/tool/0", "x")]);
  expect(historyMessages(turn.history).at(-1)).toMatchObject({ role: "tool", toolCallId: "c0", status: "cancelled" });
});

describe("the answers that a turn starts with", () => {
  const call = toolCall({ id: "c0", name: "weather", arguments: {} });
  const history = [user("go"), assistant("", { toolCalls: [call, { ...call, id: "c1" }] })];
  const given = callResult(call, { type: "success", value: "A", control: null });

  test("must match the open calls: a call without an answer and an answer without a call throw", () => {
    expect(() => startTurn(config(), input({ history, answers: [given] }))).toThrow(/"c1" of weather is open/);
    expect(() => startTurn(config(), input({ answers: [given] }))).toThrow(/"c0" of weather, which is not open/);
  });
});

test("a single step with approved calls runs them and then calls the model", () => {
  const call = toolCall({ id: "c0", name: "weather", arguments: {} });
  const history = [user("go"), assistant("", { toolCalls: [call] })];
  const answers = [callDecision(call, { type: "approve", arguments: null, by: null })];
  const { lines } = transcript(config({ stopAfter: "step" }), input({ history, messages: [], answers }), [
    result("t/0/tool/0", "sunny"),
    delivered("t/1/after_work"),
  ]);
  expect(lines.at(-1)).toBe("> 1/model");
});

test.each([null, [null], [{}], [{ type: "start_banana" }], "finish"])(
  "a protocol that returns %j fails the turn",
  (nonsense) => {
    // A value that only a program without a compiler can pass.
    const driver: ReturnType<typeof config>["protocolDriver"] = JSON.parse("{}");
    Object.assign(driver, config().protocolDriver, { prepareProtocolIteration: () => nonsense });
    const { turn } = startTurn(config({}, { protocolDriver: driver }), input());
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "invalid_actions" } } } });
  },
);

test("a blank message at a checkpoint is no input", () => {
  const responses = [replied("t/0/model", says("A")), delivered("t/0/before_completion", user("  "))];
  expect(transcript(config(), input(), responses).lines.at(-1)).toBe("= assistant_message");
});

test("a cancel ends the turn even if its usage cannot be added", () => {
  const { turn } = startTurn(config(), input());
  const evidence = { requestId: "r", origin: null, reason: null };
  const bad = { ...noUsage, inputTokens: Number.NaN };
  const ended = cancelTurn(config(), turn, { evidence, received: assistant("so far"), usage: bad }).turn;
  expect(ended.phase).toMatchObject({ ending: { outcome: { type: "cancelled" } } });
  expect(historyMessages(ended.history).map(messageText)).toEqual(["hi", "so far"]);
});

test("a reply with invalid usage loses its usage and nothing else", () => {
  const parts = assistant([reasoningPart("hm"), textPart("Sunny.")]);
  const reply = { ...says("Sunny.", { message: parts }), usage: { ...noUsage, inputTokens: 1.5 } };
  const { turn } = transcript(config(), input(), [replied("t/0/model", reply)]);
  expect(turn.history.entries[1]?.content).toEqual(parts.content);
});

test("ten thousand calls in one reply take time in proportion to their number", () => {
  const names = Array.from({ length: 10_000 }, () => "weather");
  let { turn } = transcript(config(), input(), [replied("t/0/model", calls(...names))]);
  for (const slot of names.keys()) turn = advance(config(), turn, result(`t/0/tool/${slot}`, "x")).turn;
  expect(turn.history.length).toBe(10_002);
});

test("a cause whose event is in the history is shown to the model and not appended again", () => {
  const origin = { type: "plugin", pluginId: "mail", transient: false } as const;
  const cause = { id: "w1", eventType: "mail.new", origin, text: "Two letters." };
  const first = startTurn(config(), input({ messages: [], turnCauses: [cause] })).turn;
  const again = startTurn(
    config(),
    input({ messages: [], history: historyMessages(first.history), turnCauses: [cause] }),
  );
  expect(historyMessages(again.turn.history)).toHaveLength(1);
  expect(projectRequest(config(), again.turn).messages).toHaveLength(2);
});

describe("TurnMachine.restore", () => {
  const checkpoint = () => TurnMachine.start(config(), input()).checkpoint();
  const without = (field: string) => {
    const { [field]: _, ...rest }: Record<string, unknown> = { ...checkpoint().turn };
    return JSON.parse(JSON.stringify({ ...checkpoint(), turn: rest }));
  };

  test.each([
    "transient",
    "events",
    "reportedEvents",
    "turnCauses",
    "runOffset",
    "syncedStep",
    "approved",
    "resumes",
    "usage",
    "stepUsage",
    "openReply",
    "answered",
    "graceTurn",
    "deferredInput",
    "finalize",
  ])("a checkpoint without %s has its default", (field) => {
    const machine = TurnMachine.restore(config(), without(field));
    expect(machine.turn).toEqual(checkpoint().turn);
    expect(machine.handleResponse(replied("t/0/model", says("Hello.")))).toBe("accepted");
  });

  test("a checkpoint without notices and without fields of the policy has their defaults", () => {
    const stored = JSON.parse(JSON.stringify(checkpoint()));
    delete stored.notices;
    stored.turn.policy = { termination: null };
    const machine = TurnMachine.restore(config(), stored);
    expect(machine.turn).toEqual(checkpoint().turn);
    expect(machine.pollEffect()).toMatchObject({ type: "call_model" });
  });

  test.each(["turnId", "policy", "history", "reported", "step", "environment", "environmentDigest", "phase"])(
    "a checkpoint without %s is refused",
    (field) => {
      expect(() => TurnMachine.restore(config(), without(field))).toThrow(
        expect.objectContaining({
          name: "MisuseError",
          reason: "invalid_argument",
          path: ["turn", field],
          message: expect.stringContaining(`turn.${field} is missing`),
        }),
      );
    },
  );

  test.each(["null", "{}", '"x"', '{"turn":7}', '{"turn":{"phase":{"type":"lost"}}}'])("%s is refused", (text) => {
    expect(() => TurnMachine.restore(config(), JSON.parse(text))).toThrow(
      expect.objectContaining({ name: "MisuseError", reason: "invalid_argument" }),
    );
  });
});

test("W4: the trace of a model call has no opaque provider data", () => {
  const provider = { provider: "p", endpoint: "e", model: "m", data: { signature: "secret-signature" } };
  const toolCalls = [toolCall({ id: "c0", name: "weather", arguments: {}, provider })];
  const content = [reasoningPart("Hm.", { provider }), textPart("Hi", { provider }), opaquePart("thinking", provider)];
  const reply = { ...says("Hi"), toolCalls, message: assistant(content, { toolCalls }) };
  const tracing = config({}, { emitLlmTrace: true });
  const { turn } = startTurn(tracing, input());
  const { notices } = advance(tracing, turn, replied("t/0/model", { ...reply, finishReason: "tool_calls" }));
  const logs = notices.filter(({ type }) => type === "log");
  expect(logs).toHaveLength(1);
  expect(JSON.stringify(logs)).toContain("Hm.");
  expect(JSON.stringify(logs)).not.toContain("secret-signature");
});
