// The chat protocol, tested with scripted responses; the transcript of the turn is compared as lines.

import type { Json } from "everturn";
import type { TurnMachineConfig } from "everturn/advanced";

import {
  assistant,
  imageFromBase64,
  imagePart,
  messageText,
  system,
  textPart,
  toolResult,
  user,
  validateThread,
} from "everturn";
import {
  jsonSchema,
  historyMessages,
  modelFailed,
  projectRequest,
  TurnMachine,
  adapterFailure,
  toolCall,
  toolFailure,
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
} from "../../../../test/turns.ts";
import { noUsage, reasoningPart, runtimeFailure } from "../../model/internal.ts";
import { pendingEffects } from "../machine/pending-effects.ts";
import { advance, cancelTurn, failTurn, startTurn } from "../machine/reducer.ts";
import { callDecision, callResult, toolWaits } from "../machine/respond.ts";

const lines = (...args: Parameters<typeof transcript>) => transcript(...args).lines;
const roles = (turn: ReturnType<typeof transcript>["turn"]) =>
  historyMessages(turn.history).map((message) => message.role);

const named = (id: string) => toolCall({ id, name: "weather", arguments: {} });
const approve = (id: string) => callDecision(named(id), { type: "approve", arguments: null, by: null });

describe("a text answer", () => {
  test("[lash 26] keeps its reasoning, provider data and metadata in the history before the turn completes", () => {
    const provider = { provider: "anthropic", endpoint: "messages", model: "claude", data: { signature: "x" } };
    const parts = [reasoningPart("hm", { provider }), textPart("Hello.")];
    const message = assistant(parts, { metadata: { cached: true } });
    const { turn } = transcript(config(), input(), [replied("t/0/model", says("Hello.", { message }))]);
    expect(pendingEffects(turn)).toMatchObject([{ checkpoint: "before_completion" }]);
    expect(historyMessages(turn.history).at(-1)).toMatchObject({ content: parts, metadata: { cached: true } });
  });

  test("[lash 25] [lash 26] [lash 38] is in the history before the turn completes, and asks before_completion", () => {
    expect(
      lines(config(), input(), [replied("t/0/model", says("Hello.")), delivered("t/0/before_completion")]),
    ).toEqual([
      "! progress 0: user",
      "> 0/model",
      "< model_replied 0/model",
      "! progress 0: assistant | step",
      "> 0/before_completion",
      "< checkpoint_delivered 0/before_completion",
      "= assistant_message",
    ]);
  });

  test("[lash 27] followed by input stays in the history, and the turn continues", () => {
    const responses = [
      replied("t/0/model", says("Hello.")),
      delivered("t/0/before_completion", user("one more")),
      replied("t/1/model", says("Yes?")),
      delivered("t/1/before_completion"),
    ];
    const { turn } = transcript(config(), input(), responses);
    expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "Hello.", "one more", "Yes?"]);
  });

  test.each([
    ["length", "incomplete"],
    ["content_filter", "filtered"],
    ["other", "other"],
    [null, "other"],
  ] as const)(
    "[lash 18] that ended as %s completes as %s, and its calls are answered and not run",
    (finishReason, outcome) => {
      const cut = { ...calls("weather"), finishReason };
      const { lines: trace, turn } = transcript(config(), input(), [
        replied("t/0/model", cut),
        delivered("t/0/before_completion"),
      ]);
      expect(trace.at(-1)).toBe(`= ${outcome}`);
      expect(historyMessages(turn.history).at(-1)).toMatchObject({ role: "tool", status: "not_run" });
    },
  );

  test("with a generated image and no text is an answer, also with onEmptyReply error", () => {
    const message = assistant([imagePart(imageFromBase64("aGk=", "image/png"))]);
    const drawn = { ...says(""), message };
    const responses = [replied("t/0/model", drawn), delivered("t/0/before_completion")];
    for (const onEmptyReply of ["complete", "error"] as const) {
      expect(lines(config({ onEmptyReply }), input(), responses).at(-1)).toBe("= assistant_message");
    }
    const draft = {
      ...message,
      content: [imagePart(imageFromBase64("aGk=", "image/png"), { metadata: { thought: true } })],
    };
    const drafts = [replied("t/0/model", { ...drawn, message: draft }), delivered("t/0/before_completion")];
    expect(lines(config(), input(), drafts).at(-1)).toBe("= empty");
  });

  test("[lash 34] without text completes as empty, or is an error with onEmptyReply error", () => {
    expect(lines(config(), input(), [replied("t/0/model", says("")), delivered("t/0/before_completion")]).at(-1)).toBe(
      "= empty",
    );
    const strict = lines(config({ onEmptyReply: "error" }), input(), [replied("t/0/model", says("  "))]);
    expect(strict.slice(-3)).toEqual(["! error", "! progress 0:  | step", "= provider_error"]);
  });
});

describe("tools", () => {
  const twoTools = [
    replied("t/0/model", calls("weather", "clock")),
    result("t/0/tool/1", "noon"),
    result("t/0/tool/0", "sunny"),
    delivered("t/1/after_work"),
    replied("t/1/model", says("Sunny at noon.")),
    delivered("t/1/before_completion"),
  ];

  test("[lash 28] [lash 38] run in parallel, and their results are in call order", () => {
    const { lines: trace, turn } = transcript(config(), input(), twoTools);
    expect(trace).toEqual([
      "! progress 0: user",
      "> 0/model",
      "< model_replied 0/model",
      "! progress 0: assistant",
      "> 0/tool/0, 0/tool/1",
      "< tool_returned 0/tool/1",
      "> 0/tool/0",
      "< tool_returned 0/tool/0",
      "! progress 1: tool tool | step",
      "> 1/after_work",
      "< checkpoint_delivered 1/after_work",
      "> 1/model",
      "< model_replied 1/model",
      "! progress 1: assistant | step",
      "> 1/before_completion",
      "< checkpoint_delivered 1/before_completion",
      "= assistant_message",
    ]);
    expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "", "sunny", "noon", "Sunny at noon."]);
  });

  const failure = toolFailure("handler_failed");
  const control = { type: "success", value: null } as const;
  const rows: readonly (readonly [string, Parameters<typeof returned>[1], boolean, string])[] = [
    ["a question", asks("Sure?"), false, "= ask_user"],
    ["a failure that stops", { type: "failure", failure }, true, "= tool_error"],
    ["a halt of its own", { type: "halt", reason: "enough", value: null }, false, "= enough"],
    ["finish", { ...control, control: { type: "finish", value: 42 } }, false, "= tool_value"],
    ["fail", { ...control, control: { type: "fail", failure } }, false, "= tool_error"],
    [
      "a handoff",
      { ...control, control: { type: "handoff", target: "b", task: "go", initialMessages: [] } },
      false,
      "= handoff",
    ],
  ];
  test.each(rows)("[lash 37] %s ends the turn without a checkpoint", (_, outcome, stops, last) => {
    const trace = lines(config(), input(), [
      replied("t/0/model", calls("weather")),
      returned("t/0/tool/0", outcome, stops),
    ]);
    expect(trace.at(-1)).toBe(last);
  });

  test("[lash 31] a call with an empty result has one tool message, which says that the result is empty", () => {
    const { turn } = transcript(config(), input(), [
      replied("t/0/model", calls("weather")),
      returned("t/0/tool/0", { type: "success", value: "", control: null }),
      delivered("t/1/after_work"),
    ]);
    const answers = historyMessages(turn.history).filter(({ role }) => role === "tool");
    expect(answers).toHaveLength(1);
    expect(projectRequest(config(), turn).messages.filter(({ role }) => role === "tool")).toHaveLength(1);
  });

  test("[lash 37] a failure that does not stop, and a handoff without a target, continue the turn", () => {
    for (const outcome of [
      { type: "failure", failure } as const,
      { ...control, control: { type: "handoff", target: " ", task: null, initialMessages: [] } } as const,
    ]) {
      const trace = lines(config(), input(), [replied("t/0/model", calls("weather")), returned("t/0/tool/0", outcome)]);
      expect(trace.at(-1)).toBe("> 1/after_work");
    }
  });

  test("[lash 37] of several halts the one with the lowest call index counts, and every sibling is answered", () => {
    const { lines: trace, turn } = transcript(config(), input(), [
      replied("t/0/model", calls("weather", "clock", "weather")),
      returned("t/0/tool/2", { type: "halt", reason: "later", value: null }),
      result("t/0/tool/0", "sunny"),
      returned("t/0/tool/1", asks("Which clock?")),
    ]);
    expect(trace.at(-1)).toBe("= ask_user");
    expect(roles(turn)).toEqual(["user", "assistant", "tool", "tool", "tool", "assistant"]);
    expect(historyMessages(turn.history).at(-1)).toMatchObject({
      content: "Which clock?",
      metadata: { askUser: true },
    });
  });

  test("that are manual wait for the caller, while the others have run", () => {
    const responses = [replied("t/0/model", calls("weather", "pay")), result("t/0/tool/0", "sunny")];
    expect(lines(config(), input(), responses).at(-1)).toBe("= manual_tool_calls +c1");
    expect(lines(config(), input(), [replied("t/0/model", calls("pay"))]).at(-1)).toBe("= manual_tool_calls +c0");
    expect(lines(config({ mode: "manual" }), input(), [replied("t/0/model", calls("weather", "unknown"))]).at(-1)).toBe(
      "= manual_tool_calls +c0 +c1",
    );
  });

  test("a question next to waiting calls leaves both pending", () => {
    const question = returned("t/0/tool/0", asks("Sure?"));
    expect(lines(config(), input(), [replied("t/0/model", calls("weather", "pay")), question]).at(-1)).toBe(
      "= ask_user +c1",
    );
  });

  test("that need an approval wait for it, and run first in the turn that brings it", () => {
    const waits = toolWaits("t/0/tool/0", "approval");
    expect(lines(config(), input(), [replied("t/0/model", calls("weather")), waits]).at(-1)).toBe("= approval +c0");
    const call = toolCall({ id: "c0", name: "weather", arguments: {} });
    const decision = { type: "approve", arguments: { city: "Rome" }, by: "Ada" } as const;
    const history = [user("hi"), assistant("", { toolCalls: [call] })];
    const again = input({ history, messages: [], answers: [callDecision(call, decision)] });
    expect(pendingEffects(startTurn(config(), again).turn)).toEqual([
      { type: "call_tool", id: "t/0/tool/0", call, decision, idempotencyKey: "t/0/tool/0" },
    ]);
    expect(lines(config(), again, [result("t/0/tool/0", "sunny"), delivered("t/1/after_work")]).at(-1)).toBe(
      "> 1/model",
    );
  });

  test("that are unknown end the turn with every call answered, or are answered and the turn continues", () => {
    const unknown = replied("t/0/model", calls("weather", "teleport"));
    const { lines: trace, turn } = transcript(config(), input(), [unknown]);
    expect(trace.slice(-3)).toEqual(["! error", "! progress 0: assistant tool tool | step", "= runtime_error"]);
    expect(historyMessages(turn.history).slice(-2)).toMatchObject([{ status: "not_run" }, { code: "not_found" }]);
    const lenient = transcript(config({ onUnknownTool: "answer" }), input(), [unknown, result("t/0/tool/0", "sunny")]);
    expect(lenient.lines.at(-1)).toBe("> 1/after_work");
    expect(validateThread({ messages: historyMessages(lenient.turn.history), metadata: {} }).ok).toBe(true);
  });
});

describe("limits", () => {
  const toolStep = [replied("t/0/model", calls("weather")), result("t/0/tool/0", "sunny")];

  test("maxTurns ends the turn after the tools have run and after the checkpoint", () => {
    const limited = config({}, { maxTurns: 1 });
    const { lines: trace, turn } = transcript(limited, input(), [
      ...toolStep,
      delivered("t/1/after_work", user("too late")),
    ]);
    expect(trace.at(-1)).toBe("= max_turns");
    expect(roles(turn)).toEqual(["user", "assistant", "tool"]);
    const halt = { ...delivered("t/1/after_work"), verdict: { type: "halt_when" } } as const;
    expect(lines(limited, input(), [...toolStep, Object.assign(delivered("t/1/after_work"), halt)]).at(-1)).toBe(
      "= halt_when",
    );
  });

  test("turnLimitFinalMessage is appended to the history at the limit", () => {
    const trace = config({}, { maxTurns: 1, turnLimitFinalMessage: "Turn limit reached." });
    const { turn } = transcript(trace, input(), [...toolStep, delivered("t/1/after_work")]);
    expect(historyMessages(turn.history).at(-1)).toMatchObject({ role: "system", origin: { pluginId: "turn_limit" } });
  });

  test("[lash 44] maxTurns counts model calls from the offset of the turn", () => {
    const trace = lines(config({}, { maxTurns: 2 }), input({ runOffset: 4 }), [
      replied("t/4/model", calls("weather")),
      result("t/4/tool/0", "sunny"),
      delivered("t/5/after_work"),
      replied("t/5/model", calls("weather")),
      result("t/5/tool/0", "sunny"),
      delivered("t/6/after_work"),
    ]);
    expect(trace.filter((entry) => entry.endsWith("/model") && entry.startsWith(">"))).toEqual([
      "> 4/model",
      "> 5/model",
    ]);
    expect(trace.at(-1)).toBe("= max_turns");
  });

  test("[lash 44] input at the end of a turn that is at its limit gets one more call, and no second one", () => {
    const limited = config({}, { maxTurns: 1, turnLimitFinalMessage: "Last one." });
    const responses = [
      replied("t/0/model", says("A")),
      delivered("t/0/before_completion", user("x1")),
      replied("t/1/model", says("B")),
      delivered("t/1/before_completion", user("x2")),
    ];
    const { lines: trace, turn } = transcript(limited, input(), responses);
    expect(trace.at(-1)).toBe("= assistant_message");
    expect(roles(turn)).toEqual(["user", "assistant", "user", "system", "assistant"]);
    const atCheckpoint = transcript(limited, input(), responses.slice(0, 3)).turn;
    expect(pendingEffects(atCheckpoint)).toMatchObject([{ type: "checkpoint", last: true }]);
  });

  test("a budget ends the turn at the checkpoint that reports it", () => {
    const spent = Object.assign(delivered("t/1/after_work"), {
      verdict: { type: "budget", budget: "tokens" } as const,
    });
    expect(lines(config(), input(), [...toolStep, spent]).at(-1)).toBe("= budget");
  });

  test("stopAfter step ends the turn after the tools, stopAfter reply before them", () => {
    expect(lines(config({ stopAfter: "step" }), input(), toolStep).at(-1)).toBe("= stop_after");
    expect(lines(config({ stopAfter: "reply" }), input(), toolStep.slice(0, 1)).at(-1)).toBe("= stop_after +c0");
  });
});

describe("checkpoints", () => {
  const answer = replied("t/0/model", says("A"));

  test("[lash 39] [lash 40] messages that may not be delivered are left out, and do not count as input", () => {
    const responses = [answer, delivered("t/0/before_completion", Object.assign(user("x"), { role: "assistant" }))];
    expect(lines(config(), input(), responses).at(-1)).toBe("= assistant_message");
  });

  test("[lash 38] [lash 42] transient messages are shown in this turn and not kept; a cause is added once and shown last", () => {
    const origin = {
      type: "process",
      processId: "p1",
      eventType: "process.wake",
      sequence: 7,
      wakeId: "w1",
      causedBy: null,
    } as const;
    const cause = { id: "w1", eventType: "process.wake", origin, text: " woke " };
    const note = system("note", { origin: { type: "plugin", pluginId: "plugin", transient: true } });
    const delivery = { messages: [], transientMessages: [note], turnCauses: [cause, cause], inputs: [] };
    const responses = [
      answer,
      { type: "checkpoint_delivered", id: "t/0/before_completion", delivery, verdict: { type: "go_on" } } as const,
    ];
    const { turn } = transcript(config(), input(), responses);
    expect(roles(turn)).toEqual(["user", "assistant", "event"]);
    expect(
      projectRequest(config(), turn).messages.map((message) => `${message.role}: ${messageText(message)}`),
    ).toEqual([
      "system: Be brief.",
      "user: hi",
      "assistant: A",
      "system: Runtime note:\nnote",
      "user: === TURN EVENTS ===\n\n--- event[0] · process.wake · w1 ---\nOrigin: process p1 process.wake #7 (w1)\n\nwoke",
    ]);
  });
});

describe("failures", () => {
  test("[lash 15] [lash 23] a failed model call is one error, ends the turn, and its usage is counted", () => {
    const failure = adapterFailure("rate_limited");
    const failed = modelFailed("t/0/model", failure, { partial: says("Hel") });
    const { lines: trace, turn } = transcript(config(), input(), [failed]);
    expect(trace.slice(-3)).toEqual(["! error", "! progress 0: assistant | step", "= provider_error"]);
    expect(turn.usage.inputTokens).toBe(10);
  });

  test("[lash 15] the error event has the code, the kind and the retry flag of the failure", () => {
    const failure = adapterFailure("rate_limited", { code: "slow_down", status: 429, retryable: true });
    const { turn } = startTurn(config(), input());
    const { notices } = advance(config(), turn, modelFailed("t/0/model", failure));
    const errors = notices.flatMap((notice) =>
      notice.type === "emit" && notice.event.type === "error" ? [notice.event.error] : [],
    );
    expect(errors).toEqual([failure]);
    expect(failure).toMatchObject({ code: "slow_down", reason: "rate_limited", kind: "quota", retryable: true });
    expect(notices.at(-1)).toMatchObject({ ending: { outcome: { type: "provider_error", failure } } });
  });

  test("[lash 16] a cancelled model call cancels the turn without an error, and keeps its evidence", () => {
    const failure = adapterFailure("unknown", { message: "aborted" });
    const { lines: trace, turn } = transcript(config(), input(), [
      modelFailed("t/0/model", failure, { terminalReason: "cancelled" }),
    ]);
    expect(trace.slice(-2)).toEqual(["< model_failed 0/model", "= cancelled"]);
    expect(turn.phase).toMatchObject({
      ending: { outcome: { type: "cancelled", evidence: { origin: "provider", reason: "aborted" } } },
    });
  });

  test("a prompt that fills the context window fails as context_length_exceeded", () => {
    const full = { ...says(""), finishReason: "length", usage: usage({ inputTokens: 95, outputTokens: 0 }) } as const;
    const { turn } = transcript(config({}, { maxContextTokens: 100 }), input(), [replied("t/0/model", full)]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "context_length_exceeded" } } } });
  });

  test("usage that overflows ends the turn", () => {
    const most = says("x", { usage: usage({ inputTokens: Number.MAX_SAFE_INTEGER }) });
    const responses = [
      replied("t/0/model", most),
      delivered("t/0/before_completion", user("more")),
      replied("t/1/model", most),
    ];
    const { turn } = transcript(config(), input(), responses);
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "token_usage_overflow" } } } });
  });

  test("[lash 8] [lash 9] an environment that cannot be synced ends the turn; a replaced one is used from then on", () => {
    const syncing = config({}, { syncEnvironment: true });
    const failed = { type: "environment_failed", id: "t/0/environment", message: "nope" } as const;
    const broken = transcript(syncing, input(), [failed]);
    expect(broken.lines.slice(-2)).toEqual(["! error", "= runtime_error"]);
    expect(broken.turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "reconfigure_failed" } } } });
    const environment = { instructions: "New.", model: "m2", tools: [], providerTools: [], params: { temperature: 0 } };
    const first = { type: "environment_synced", id: "t/0/environment", environment } as const;
    const replacedAtOnce = transcript(syncing, input(), [first]).turn;
    expect(projectRequest(syncing, replacedAtOnce)).toMatchObject({ model: "m2" });
    const ofRevision1 = transcript(syncing, input({ revision: 1 }), [first]).turn;
    expect(projectRequest(syncing, ofRevision1)).toMatchObject({ model: "test-model" });
    const { turn } = transcript(syncing, input(), [
      { ...first, environment: null },
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "sunny"),
      delivered("t/1/after_work"),
      { ...first, id: "t/1/environment" },
    ]);
    expect(projectRequest(syncing, turn)).toMatchObject({ model: "m2", temperature: 0, tools: [] });
  });

  test.each([
    ["nothing", []],
    [
      "two things",
      [
        { type: "start_llm", useTools: true, overrides: {}, driverState: null },
        { type: "start_tools", calls: [] },
      ],
    ],
  ] as const)("[lash 14] a protocol that returns %s fails the turn instead of stalling it", (_, actions) => {
    const broken: TurnMachineConfig = config();
    const driver = { ...broken.protocolDriver, prepareProtocolIteration: () => actions };
    const { turn } = startTurn({ ...broken, protocolDriver: driver }, input());
    expect(turn.phase).toMatchObject({
      type: "ended",
      ending: { outcome: { failure: { reason: "invalid_actions" } } },
    });
  });
});

test("[lash 12] actions after finish are ignored, and progress is reported before done", () => {
  const ending = {
    outcome: { type: "empty" },
    pendingToolCalls: [],
    suspendedCell: null,
    partial: null,
    pass1: null,
    pass2Error: null,
  } as const;
  const driver = {
    ...config().protocolDriver,
    prepareProtocolIteration: () =>
      [
        { type: "append_events", messages: [user("before")] },
        { type: "finish", ending },
        { type: "append_events", messages: [user("after")] },
      ] as const,
  };
  const { turn, notices } = startTurn({ ...config(), protocolDriver: driver }, input());
  expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "before"]);
  expect(notices.map(({ type }) => type)).toEqual(["progress", "done"]);
});

describe("approvals, single steps and malformed data", () => {
  const before = [
    user("go"),
    assistant("", { toolCalls: ["a", "b", "c"].map((id) => ({ id, name: "weather", arguments: {} })) }),
    toolResult("a", "A"),
  ];
  const approvedInput = input({ history: before, messages: [], answers: [approve("b"), approve("c")] });

  test("an approved call keeps its own result when the turn is cancelled", () => {
    const { turn } = transcript(config(), approvedInput, [result("t/0/tool/2", "C")]);
    const { turn: ended } = cancelTurn(config(), turn, {
      evidence: { requestId: "r", origin: null, reason: null },
      received: null,
      usage: noUsage,
    });
    expect(historyMessages(ended.history).slice(-2)).toMatchObject([
      { toolCallId: "b", status: "cancelled" },
      { toolCallId: "c", content: "C" },
    ]);
  });

  test("approved calls do not count against maxTurns, and a call of a removed tool is answered not_found", () => {
    const responses = [result("t/0/tool/1", "B"), result("t/0/tool/2", "C"), delivered("t/1/after_work")];
    expect(lines(config({}, { maxTurns: 1 }), approvedInput, responses).at(-1)).toBe("> 1/model");
    const { turn } = transcript(config({}, { toolSpecs: [] }), approvedInput, []);
    expect(turn.phase.type).toBe("awaiting_model");
    expect(historyMessages(turn.history).slice(-2)).toMatchObject([{ code: "not_found" }, { code: "not_found" }]);
  });

  test("Q8: results and denials enter the history first, then approved calls run, then the model is called", () => {
    const [, b] = [approve("a"), approve("b")];
    const refused = callDecision(named("c"), { type: "deny", reason: "too dear", by: "Ada" });
    const given = callResult(named("a"), { type: "success", value: "A", control: null });
    const begin = input({ history: before.slice(0, 2), messages: [user("go on")], answers: [given, b, refused] });
    const { turn, lines: trace } = transcript(config(), begin, [
      result("t/0/tool/1", "B"),
      delivered("t/1/after_work"),
    ]);
    expect(trace.filter((line) => line.startsWith(">"))).toEqual(["> 0/tool/1", "> 1/after_work", "> 1/model"]);
    expect(historyMessages(turn.history).slice(2)).toMatchObject([
      { role: "tool", toolCallId: "a", content: "A" },
      { role: "tool", toolCallId: "c", code: "denied", content: '{"error":"too dear"}' },
      { role: "user" },
      { role: "tool", toolCallId: "b", content: "B" },
    ]);
    expect(validateThread({ messages: historyMessages(turn.history), metadata: {} }).ok).toBe(true);
  });

  test("input at two checkpoints of one step has different ids", () => {
    const { turn } = transcript(config(), input(), [
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "sunny"),
      delivered("t/1/after_work", user("one")),
      replied("t/1/model", says("Sunny.")),
      delivered("t/1/before_completion", user("two")),
    ]);
    const ids = historyMessages(turn.history).map((message) => message.id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("a single step also stops after a text answer", () => {
    expect(lines(config({ stopAfter: "step" }), input(), [replied("t/0/model", says("Hi."))]).at(-1)).toBe(
      "= assistant_message",
    );
  });

  test("answers to unknown tools are among the results of the step, in call order, and the step has its number", () => {
    const settings = config({ onUnknownTool: "answer" });
    let { turn } = startTurn(settings, input());
    turn = advance(settings, turn, replied("t/0/model", calls("teleport", "weather"))).turn;
    const { notices } = advance(settings, turn, result("t/0/tool/1", "sunny"));
    expect(notices).toMatchObject([
      { type: "progress", stepEnded: { step: 0, toolResults: [{ code: "not_found" }, { content: "sunny" }] } },
    ]);
  });

  test.each([
    ["no calls", [{ type: "start_tools", calls: [] }]],
    [
      "two calls at one place",
      [
        {
          type: "start_tools",
          calls: [0, 0].map((slot) => ({ call: approve("a").call, slot, decision: null, idempotencyKey: null })),
        },
      ],
    ],
  ] as const)("a protocol that starts %s fails the turn", (_, actions) => {
    const driver = { ...config().protocolDriver, prepareProtocolIteration: () => actions };
    const { turn } = startTurn({ ...config(), protocolDriver: driver }, input());
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "invalid_actions" } } } });
  });

  test("a protocol that orders an answered effect again fails the turn", () => {
    const again = [{ type: "start_llm", useTools: true, overrides: {}, driverState: null }] as const;
    const settings = { ...config(), protocolDriver: { ...config().protocolDriver, handleLlmSuccess: () => again } };
    const { turn } = transcript(settings, input(), [replied("t/0/model", says("x"))]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "invalid_actions" } } } });
  });

  test("arguments that are nested too deeply are answered as invalid, and nothing throws", () => {
    let deep: Json = 1;
    for (let level = 0; level < 20_000; level += 1) deep = [deep];
    const reply = calls("weather");
    const wild = { ...reply, toolCalls: reply.toolCalls.map((call) => ({ ...call, arguments: { deep } })) };
    const { turn } = transcript(config(), input(), [replied("t/0/model", wild)]);
    expect(pendingEffects(turn)).toMatchObject([{ call: { arguments: null } }]);
    expect(() => JSON.stringify(turn)).not.toThrow();
  });

  test("a failed call whose partial reply cannot be stored stays a failed call, and nothing throws", () => {
    let deep: Json = 1;
    for (let level = 0; level < 20_000; level += 1) deep = [deep];
    const unstorable = { ...adapterFailure("timeout"), metadata: { deep } };
    const wild = { ...says("Hel"), raw: deep, metadata: { deep }, error: unstorable };
    const failed = modelFailed("t/0/model", adapterFailure("timeout"), { partial: wild });
    const { lines: trace, turn } = transcript(config(), input(), [failed]);
    expect(trace.at(-1)).toBe("= provider_error");
    expect(turn.usage.inputTokens).toBe(10);
    expect(historyMessages(turn.history).map(messageText)).toEqual(["hi", "Hel"]);
  });

  test("the sync after approved calls is a later one and may replace the environment", () => {
    const syncing = config({}, { syncEnvironment: true });
    const environment = { instructions: "New.", model: "m2", tools: [], providerTools: [], params: {} };
    const { turn } = transcript(syncing, approvedInput, [
      { type: "environment_synced", id: "t/0/environment", environment: null },
      result("t/0/tool/1", "B"),
      result("t/0/tool/2", "C"),
      delivered("t/1/after_work"),
    ]);
    expect(pendingEffects(turn)).toMatchObject([{ type: "sync_environment", updateMachineConfig: true }]);
    const synced = advance(syncing, turn, { type: "environment_synced", id: "t/1/environment", environment }).turn;
    expect(projectRequest(syncing, synced).model).toBe("m2");
  });

  test.each([
    [2, "required"],
    [3, "auto"],
  ])("a reply ends a forced tool choice from revision 3 on: revision %i", (revision, after) => {
    const forcing = config({}, { generation: { toolChoice: "required" } });
    const start = startTurn(forcing, { ...input(), revision }).turn;
    expect(projectRequest(forcing, start).toolChoice).toBe("required");
    const { turn } = transcript(forcing, { ...input(), revision }, [
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "A"),
      delivered("t/1/after_work"),
    ]);
    expect(projectRequest(forcing, turn).toolChoice).toBe(after);
  });

  test("a deploy changes the next turn and never an open one; settings of a call override the default", () => {
    const { turn } = startTurn(config({}, { modelVariant: "low", generation: { toolChoice: "required" } }), input());
    const after = config({}, { modelVariant: "high", model: "other", systemPrompt: "Other." });
    expect(projectRequest(after, turn)).toMatchObject({
      model: "test-model",
      reasoning: { effort: "low" },
      toolChoice: "required",
    });
  });
});

describe("cancelling", () => {
  const cancellation = {
    evidence: { requestId: "r1", origin: "user", reason: "enough" },
    received: null,
    usage: noUsage,
  };

  test("answers open calls with their results, and leaves a thread that can be continued", () => {
    const { turn } = transcript(config(), input(), [
      replied("t/0/model", calls("weather", "clock", "pay")),
      result("t/0/tool/1", "noon"),
    ]);
    const ended = cancelTurn(config(), turn, cancellation);
    expect(ended.turn.phase).toMatchObject({
      ending: { outcome: { type: "cancelled", evidence: cancellation.evidence } },
    });
    const messages = historyMessages(ended.turn.history);
    expect(messages.slice(-3).map(messageText)).toEqual([
      "[Tool execution cancelled]\nenough",
      "noon",
      "[Tool execution cancelled]\nenough",
    ]);
    expect(validateThread({ messages, metadata: {} }).ok).toBe(true);
    expect(cancelTurn(config(), ended.turn, cancellation).status).toBe("stale");
    expect(failTurn(config(), ended.turn, runtimeFailure("lease_lost")).status).toBe("stale");
  });
});

describe("a structured call after the loop", () => {
  const format = jsonSchema("sky", { type: "object" });
  const finalizing = config({}, { structuredFinalize: { format, nudge: "Now in JSON." } });
  const pass1 = [replied("t/0/model", says("Sunny.")), delivered("t/0/before_completion")];

  test("has no tools, and its reply enters the history together with the nudge", () => {
    const asking = transcript(finalizing, input(), pass1);
    expect(asking.lines.at(-1)).toBe("> 0/finalize");
    const request = projectRequest(finalizing, asking.turn);
    expect(request).toMatchObject({ tools: [], toolChoice: "none", responseFormat: format });
    expect(request.messages.map(messageText).at(-1)).toBe("Now in JSON.");
    const { turn } = transcript(finalizing, input(), [...pass1, replied("t/0/finalize", says('{"sky":"clear"}'))]);
    expect(historyMessages(turn.history).map(messageText).slice(-2)).toEqual(["Now in JSON.", '{"sky":"clear"}']);
    expect(turn.phase).toMatchObject({ ending: { pass1: { type: "assistant_message" }, pass2Error: null } });
  });

  test.each([
    [1, "event", {}],
    [2, "event", {}],
    [3, "user", { structuredFinalize: true }],
  ])("under revision %i stores the nudge with the role %s", (revision, role, metadata) => {
    const responses = [...pass1, replied("t/0/finalize", says('{"sky":"clear"}'))];
    const { turn } = transcript(finalizing, { ...input(), revision }, responses);
    expect(historyMessages(turn.history).at(-2)).toMatchObject({ id: "t/0/nudge", role, metadata });
    const open = transcript(finalizing, { ...input(), revision }, pass1).turn;
    expect(projectRequest(finalizing, open).messages.at(-1)).toMatchObject({ role: "user", content: "Now in JSON." });
  });

  test("that fails leaves the outcome of the loop", () => {
    const failure = adapterFailure("timeout");
    const failed = modelFailed("t/0/finalize", failure);
    const { turn } = transcript(finalizing, input(), [...pass1, failed]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { type: "assistant_message" }, pass2Error: failure } });
    expect(roles(turn)).toEqual(["user", "assistant"]);
  });

  test("is not made when the turn waits", () => {
    const question = returned("t/0/tool/0", asks("Sure?"));
    const { turn } = transcript(finalizing, input(), [replied("t/0/model", calls("weather")), question]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { type: "ask_user" }, pass1: { type: "ask_user" } } });
  });
});

describe("the machine", () => {
  test("[lash 62] [lash 63] delivers notices, then effects with their requests, and after a restore the open effects again", () => {
    const machine = TurnMachine.start(config(), input());
    expect(machine.pollEffect()).toMatchObject({ type: "progress" });
    expect(machine.pollEffect()).toMatchObject({ type: "call_model", request: { model: "test-model" } });
    expect(machine.pollEffect()).toBeNull();
    const restored = TurnMachine.restore(config(), JSON.parse(JSON.stringify(machine.checkpoint())));
    expect(restored.handleResponse(delivered("t/9/after_work"))).toBe("stale");
    expect(restored.pollEffect()).toMatchObject({ type: "call_model", id: "t/0/model" });
    expect(restored.handleResponse(delivered("t/0/model"))).toBe("wrong_kind");
    expect(restored.handleResponse(replied("t/0/model", says("Hello.")))).toBe("accepted");
    expect(restored.isDone).toBe(false);
  });
});
