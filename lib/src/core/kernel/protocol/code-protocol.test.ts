// The code protocol, tested with scripted responses.

import type { CallAnswer } from "../machine/input.ts";
import type { Turn } from "everturn/advanced";

import { messageText, user } from "everturn";
import {
  jsonSchema,
  codeFailed,
  codeFinished,
  codeProtocol,
  historyMessages,
  projectRequest,
  toolReturned,
  TurnMachine,
  turnInput,
  toolCall,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, config, delivered, input, replied, result, says, transcript } from "../../../../test/turns.ts";
import { noUsage } from "../../model/internal.ts";
import { pendingEffects } from "../machine/pending-effects.ts";
import { advance, cancelTurn, startTurn } from "../machine/reducer.ts";
import { callDecision, callResult, codeCalls, toolWaits } from "../machine/respond.ts";
import { cellCalls } from "../machine/turn.ts";

const coding = config({}, { protocolDriver: codeProtocol() });
const cell = (code: string) => says(`Let me see.\n\`\`\`javascript\n${code}\n\`\`\``);
const finished = codeFinished;
const executor = { name: "quickjs", version: "1" };
/** The response of a cell that makes calls, each with its slot as id. */
const asks = (id: string, ...names: readonly string[]) =>
  codeCalls(
    id,
    names.map((name, index) => toolCall({ id: `k${index}`, name, arguments: { index } })),
    executor,
  );
const lines = (...args: Parameters<typeof transcript>) => transcript(...args).lines;

describe("[lash 46] cells", () => {
  test("run, their output goes to the model, and a reply without a cell ends the turn", () => {
    const { lines: trace, turn } = transcript(coding, input(), [
      replied("t/0/model", cell("print(1 + 1)")),
      finished("t/0/code/0", { observations: ["2"] }),
      delivered("t/1/after_work"),
      replied("t/1/model", says("It is 2.")),
      delivered("t/1/before_completion"),
    ]);
    expect(trace).toEqual([
      "! progress 0: user",
      "> 0/model",
      "< model_replied 0/model",
      "! progress 0: assistant",
      "> 0/code/0",
      "< code_finished 0/code/0",
      "! progress 1: system | step",
      "> 1/after_work",
      "< checkpoint_delivered 1/after_work",
      "> 1/model",
      "< model_replied 1/model",
      "! progress 1: assistant | step",
      "> 1/before_completion",
      "< checkpoint_delivered 1/before_completion",
      "= assistant_message",
    ]);
    expect(historyMessages(turn.history)[2]).toMatchObject({ content: [{ text: "2", kind: "output" }] });
  });

  test("get no native tools, and their code is passed on verbatim", () => {
    const { turn } = transcript(coding, input(), []);
    expect(projectRequest(coding, turn)).toMatchObject({ tools: [], toolChoice: "none" });
    const running = transcript(coding, input(), [replied("t/0/model", cell("a\n\nb"))]).turn;
    expect(pendingEffects(running)).toEqual([
      {
        type: "run_code",
        id: "t/0/code/0",
        language: "javascript",
        cellId: "t/0/cell",
        code: "a\n\nb",
        answers: 0,
        executor: null,
      },
    ]);
  });

  test("call tools as effects, and run again with the answers", () => {
    const trace = lines(coding, input(), [
      replied("t/0/model", cell("weather()")),
      asks("t/0/code/0", "weather", "clock"),
      result("t/0/cell/1", "noon"),
      result("t/0/cell/0", "sunny"),
      asks("t/0/code/2", "weather"),
      result("t/0/cell/2", "rain"),
      finished("t/0/code/3", { finish: { type: "value", value: 42, issues: [] } }),
      delivered("t/0/before_completion"),
    ]);
    expect(trace.filter((line) => line.startsWith(">") || line.startsWith("="))).toEqual([
      "> 0/model",
      "> 0/code/0",
      "> 0/cell/0, 0/cell/1",
      "> 0/cell/0",
      "> 0/code/2",
      "> 0/cell/2",
      "> 0/code/3",
      "> 0/before_completion",
      "= final_value",
    ]);
  });

  test("that fail or print an error are reported to the model", () => {
    for (const end of [codeFailed("t/0/code/0", "boom"), finished("t/0/code/0", { error: "boom" })]) {
      const { turn } = transcript(coding, input(), [replied("t/0/model", cell("x")), end]);
      expect(historyMessages(turn.history).at(-1)).toMatchObject({ content: [{ text: "boom", kind: "error" }] });
    }
  });

  test("are not run if a reply has several, and code blocks of other languages are not cells", () => {
    const two = says("```javascript\na\n```\n```\nb\n```");
    const crowd = transcript(coding, input(), [replied("t/0/model", two)]);
    expect(crowd.lines.at(-1)).toBe("> 1/after_work");
    expect(historyMessages(crowd.turn.history).map(messageText).at(-1)).toContain(
      "A reply may have one cell: this one had 2",
    );
    const alias = says("```js\na");
    expect(lines(coding, input(), [replied("t/0/model", alias)]).at(-1)).toBe("> 0/code/0");
    const nested = says("````js title=x\na\n```\nb\n````\nDone.");
    const { turn: running } = transcript(coding, input(), [replied("t/0/model", nested)]);
    expect(pendingEffects(running)).toMatchObject([{ code: "a\n```\nb" }]);
    const other = says("Run this:\n```sh\nls\n```");
    expect(lines(coding, input(), [replied("t/0/model", other)]).at(-1)).toBe("> 0/before_completion");
  });

  test("receive the results of their calls, also of an unknown tool", () => {
    const { turn } = transcript(coding, input(), [
      replied("t/0/model", cell("weather()")),
      asks("t/0/code/0", "weather", "teleport"),
      result("t/0/cell/0", "sunny"),
    ]);
    expect(pendingEffects(turn)).toMatchObject([{ type: "run_code", id: "t/0/code/2", answers: 2, executor }]);
    expect(cellCalls(turn)).toMatchObject([
      { call: { name: "weather" }, answer: { type: "success", value: "sunny" } },
      { call: { name: "teleport" }, answer: { type: "failure", failure: { reason: "not_found" } } },
    ]);
    const machine = TurnMachine.restore(coding, { turn, notices: [] });
    expect(machine.pollEffect()).toMatchObject({ type: "run_code", calls: [{}, { call: { name: "teleport" } }] });
  });

  test("end with the turn when a call halts it", () => {
    const halt = { type: "halt", reason: "enough", value: null } as const;
    const { lines: trace, turn } = transcript(coding, input(), [
      replied("t/0/model", cell("weather()")),
      asks("t/0/code/0", "weather", "clock"),
      toolWaits("t/0/cell/1", "approval"),
      toolReturned("t/0/cell/0", halt),
    ]);
    expect(trace.slice(-2)).toEqual(["! progress 0:  | step", "= enough"]);
    expect(turn.phase).toMatchObject({ ending: { suspendedCell: null, pendingToolCalls: [] } });
  });

  test("are the only way to call tools: a native call is answered not_run, and the model continues", () => {
    const { turn, lines: trace } = transcript(coding, input(), [replied("t/0/model", calls("weather"))]);
    expect(trace.at(-1)).toBe("> 1/after_work");
    expect(historyMessages(turn.history).slice(-2)).toMatchObject([
      { role: "tool", status: "not_run" },
      { role: "system" },
    ]);
  });

  test("that return code_calls without a call end the turn with an error", () => {
    const { turn } = transcript(coding, input(), [
      replied("t/0/model", cell("x")),
      codeCalls("t/0/code/0", [], executor),
    ]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "code_failed" } } } });
  });
});

describe("Q5: a suspended cell", () => {
  const waiting = [
    replied("t/0/model", cell("pay(weather())")),
    asks("t/0/code/0", "weather", "clock", "pay"),
    result("t/0/cell/0", "sunny"),
  ];
  const call = (index: number, name: string) => toolCall({ id: `k${index}`, name, arguments: { index } });

  /** The ending of a turn that has ended. */
  function endingOf(turn: Turn) {
    if (turn.phase.type !== "ended") throw new TypeError(`the turn is ${turn.phase.type}`);
    return turn.phase.ending;
  }

  test("is data: code, calls, answers, environment and executor", () => {
    const { lines: trace, turn } = transcript(coding, input(), [...waiting, toolWaits("t/0/cell/1", "approval")]);
    expect(trace.slice(-2)).toEqual(["! progress 0:  | step", "= manual_tool_calls +k1 +k2"]);
    const { suspendedCell, pendingToolCalls } = endingOf(turn);
    expect(suspendedCell).toMatchObject({
      id: "t/0/cell",
      language: "javascript",
      code: "pay(weather())",
      executor,
      environment: { model: "test-model" },
      calls: [{ answer: { type: "success", value: "sunny" } }, { answer: null }, { answer: null }],
    });
    expect(pendingToolCalls).toMatchObject([
      { id: "k1", reason: "approval", cellId: "t/0/cell", idempotencyKey: "t/0/cell/1" },
      { id: "k2", reason: "manual", cellId: "t/0/cell", idempotencyKey: "t/0/cell/2" },
    ]);
  });

  test("answers a question in it always as the result of the call, and the question is in the history", () => {
    const question = { type: "ask_user", question: "Which?", answerAs: "user_message", opts: {} } as const;
    const { lines: trace, turn } = transcript(coding, input(), [...waiting, toolReturned("t/0/cell/1", question)]);
    expect(trace.at(-1)).toBe("= ask_user +k1 +k2");
    expect(endingOf(turn).pendingToolCalls[0]).toMatchObject({ reason: "question", answerAs: "tool_result" });
    expect(historyMessages(turn.history).at(-1)).toMatchObject({ content: "Which?", metadata: { askUser: true } });
  });

  test("resumes in a later turn: approved calls run, the cell gets the answers, then the model is called", () => {
    const before = transcript(coding, input(), [...waiting, toolWaits("t/0/cell/1", "approval")]).turn;
    const { suspendedCell } = endingOf(before);
    const deployed = config({}, { protocolDriver: codeProtocol(), model: "new-model" });
    const begin = turnInput("u", {
      history: historyMessages(before.history),
      cell: suspendedCell,
      answers: [
        callDecision(call(1, "clock"), { type: "approve", arguments: null, by: "Ada" }, "t/0/cell/1"),
        callResult(call(2, "pay"), { type: "success", value: "paid", control: null }),
      ],
    });
    const begun = startTurn(deployed, begin).turn;
    expect(pendingEffects(begun)).toMatchObject([
      { type: "call_tool", id: "u/0/cell/1", call: { name: "clock" }, idempotencyKey: "t/0/cell/1" },
    ]);
    const ran = advance(deployed, begun, result("u/0/cell/1", "noon")).turn;
    expect(pendingEffects(ran)).toMatchObject([
      { type: "run_code", id: "u/0/code/3", cellId: "t/0/cell", answers: 3, executor },
    ]);
    expect(cellCalls(ran)).toMatchObject([
      { answer: { value: "sunny" } },
      { answer: { value: "noon" } },
      { answer: { value: "paid" } },
    ]);
    // The cell has the environment it was written for until it ends; later steps have the environment of the turn.
    expect(ran.environment.model).toBe("test-model");
    const ended = advance(deployed, ran, finished("u/0/code/3", { observations: ["done"] })).turn;
    expect(ended.environment.model).toBe("new-model");
    const { turn, lines: trace } = transcript(deployed, { ...begin, turnId: "t" }, [
      result("t/0/cell/1", "noon"),
      finished("t/0/code/3", { observations: ["done"] }),
      delivered("t/1/after_work"),
    ]);
    expect(trace.at(-1)).toBe("> 1/model");
    expect(projectRequest(deployed, turn).model).toBe("new-model");
    expect(historyMessages(turn.history).at(-1)).toMatchObject({ role: "system", content: [{ text: "done" }] });
    expect(historyMessages(turn.history).some(({ role }) => role === "tool")).toBe(false);
  });

  test("may be suspended again, with the same id and environment", () => {
    const before = transcript(coding, input(), [...waiting, toolWaits("t/0/cell/1", "approval")]).turn;
    const begin = turnInput("t", {
      cell: endingOf(before).suspendedCell,
      answers: [
        callDecision(call(1, "clock"), { type: "deny", reason: "no", by: null }),
        callResult(call(2, "pay"), { type: "success", value: "paid", control: null }),
      ],
    });
    const { turn } = transcript(config({}, { protocolDriver: codeProtocol(), model: "other" }), begin, [
      codeCalls("t/0/code/3", [call(3, "weather")], executor),
      toolWaits("t/0/cell/3", "outcome_unknown"),
    ]);
    expect(endingOf(turn)).toMatchObject({
      outcome: { type: "outcome_unknown" },
      suspendedCell: {
        id: "t/0/cell",
        environment: { model: "test-model" },
        calls: [{}, { answer: { failure: { reason: "denied", message: "no" } } }, {}, { answer: null }],
      },
    });
  });

  test("resumes only with an answer for every call, and rejects other answers", () => {
    const before = transcript(coding, input(), [...waiting, toolWaits("t/0/cell/1", "approval")]).turn;
    const { suspendedCell } = endingOf(before);
    const paid = callResult(call(2, "pay"), { type: "success", value: "paid", control: null });
    const start =
      (...answers: readonly CallAnswer[]) =>
      () =>
        startTurn(coding, turnInput("u", { cell: suspendedCell, answers }));
    expect(start()).toThrow(/"k1" of clock is open/);
    expect(start(paid)).toThrow(/"k1" of clock is open/);
    const trace = callResult(call(1, "clock"), { type: "success", value: "noon", control: null });
    expect(start(paid, trace, trace)).toThrow(/"k1" of clock, which is not open/);
    expect(pendingEffects(start(paid, trace)().turn)).toMatchObject([{ type: "run_code", answers: 3 }]);
  });

  test("tells calls with the same id apart by their arguments", () => {
    const twin = (index: number) => toolCall({ id: "same", name: "clock", arguments: { index } });
    const before = transcript(coding, input(), [
      replied("t/0/model", cell("clock()")),
      codeCalls("t/0/code/0", [twin(0), twin(1)], executor),
      toolWaits("t/0/cell/0", "approval"),
      toolWaits("t/0/cell/1", "approval"),
    ]).turn;
    const { turn } = startTurn(
      coding,
      turnInput("u", {
        cell: endingOf(before).suspendedCell,
        answers: [
          callDecision(twin(1), { type: "approve", arguments: null, by: null }, "t/0/cell/1"),
          callDecision(twin(0), { type: "deny", reason: "no", by: null }),
        ],
      }),
    );
    expect(pendingEffects(turn)).toMatchObject([
      { id: "u/0/cell/1", call: { arguments: { index: 1 } }, idempotencyKey: "t/0/cell/1" },
    ]);
  });

  test("that makes different calls when it runs again is abandoned, and the model reads which calls completed", () => {
    const { turn } = transcript(coding, input(), [
      replied("t/0/model", cell("weather()")),
      asks("t/0/code/0", "weather"),
      result("t/0/cell/0", "sunny"),
      codeFailed("t/0/code/1", "call 1 was weather, now clock", { reason: "diverged" }),
    ]);
    expect(messageText(historyMessages(turn.history).at(-1) ?? user(""))).toBe(
      "The cell was abandoned because it made different calls when it ran again. call 1 was weather, now clock\n" +
        'Calls it had completed:\nweather({"index":0}): success',
    );
  });

  test("reports the completion of its running calls when the turn is cancelled", () => {
    const { turn } = transcript(coding, input(), [...waiting.slice(0, 1), asks("t/0/code/0", "weather", "clock")]);
    const evidence = { requestId: "r", origin: null, reason: "enough" };
    const { notices } = cancelTurn(coding, turn, { evidence, received: null, usage: noUsage });
    const events = notices.flatMap((notice) => (notice.type === "emit" ? [notice.event] : []));
    expect(events).toMatchObject([
      { type: "tool_execution_completed", name: "weather", result: { type: "cancelled", message: "enough" } },
      { type: "tool_execution_completed", name: "clock", result: { type: "cancelled", message: "enough" } },
    ]);
  });

  test("is abandoned by a cancelled turn, and the model reads which calls it had completed", () => {
    const running = [...waiting, toolWaits("t/0/cell/1", "approval")].slice(0, 3);
    const { turn } = transcript(coding, input(), [
      ...running.slice(0, 1),
      asks("t/0/code/0", "weather"),
      ...running.slice(2),
    ]);
    const evidence = { requestId: "r", origin: null, reason: "enough" };
    const ended = cancelTurn(coding, turn, { evidence, received: null, usage: noUsage });
    expect(endingOf(ended.turn)).toMatchObject({ outcome: { type: "cancelled" }, suspendedCell: null });
    expect(ended.notices[0]).toMatchObject({ type: "progress", stepEnded: { step: 0 } });
    expect(messageText(historyMessages(ended.turn.history).at(-1) ?? user(""))).toBe(
      'The cell was stopped: enough.\nCalls it had completed:\nweather({"index":0}): success',
    );
  });

  test("that is halted by one of its calls leaves the turn in its own environment", () => {
    const before = transcript(coding, input(), [...waiting, toolWaits("t/0/cell/1", "approval")]).turn;
    const approve = { type: "approve", arguments: null, by: null } as const;
    const structuredFinalize = { format: jsonSchema("sky", {}), nudge: "" };
    const deployed = config({}, { protocolDriver: codeProtocol(), model: "new-model", structuredFinalize });
    const { turn } = transcript(
      deployed,
      turnInput("t", {
        cell: endingOf(before).suspendedCell,
        answers: [
          callDecision(call(1, "clock"), approve),
          callResult(call(2, "pay"), { type: "success", value: "paid", control: null }),
        ],
      }),
      [toolReturned("t/0/cell/1", { type: "success", value: "noon", control: { type: "finish", value: 12 } })],
    );
    expect(projectRequest(deployed, turn).model).toBe("new-model");
  });
});

describe("endings", () => {
  test("requireFinish: a reply without a cell does not end the turn", () => {
    const strict = config({}, { protocolDriver: codeProtocol({ requireFinish: true }), maxTurns: 1 });
    const responses = [replied("t/0/model", says("It is 2.")), delivered("t/1/after_work")];
    expect(lines(strict, input(), responses).at(-1)).toBe("= max_turns");
  });

  test("an empty reply is an error, and a cut reply completes without running its cell", () => {
    expect(lines(coding, input(), [replied("t/0/model", says(" "))]).at(-1)).toBe("= provider_error");
    const cut = { ...cell("x"), finishReason: "length" } as const;
    expect(lines(coding, input({ messages: [user("hi")] }), [replied("t/0/model", cut)]).at(-1)).toBe(
      "> 0/before_completion",
    );
  });

  test("a value that does not match the schema goes back to the model with its issues", () => {
    const strict = config({}, { protocolDriver: codeProtocol({ requireFinish: true }) });
    const issues = [{ path: ["answer"], code: "invalid_value" as const, message: "must be a number" }];
    const wrong = finished("t/0/code/0", { finish: { type: "value", value: "two", issues } });
    const { turn, lines: trace } = transcript(strict, input(), [replied("t/0/model", cell("x")), wrong]);
    expect(trace.at(-1)).toBe("> 1/after_work");
    expect(messageText(historyMessages(turn.history).at(-1) ?? user(""))).toContain("answer: must be a number");
    const right = finished("t/0/code/0", { finish: { type: "value", value: 2, issues: [] } });
    const responses = [replied("t/0/model", cell("x")), right, delivered("t/0/before_completion")];
    expect(lines(strict, input(), responses).at(-1)).toBe("= final_value");
  });

  test("a cell may end the turn with an error value", () => {
    const gaveUp = finished("t/0/code/0", { finish: { type: "error", value: "no such city" } });
    const responses = [replied("t/0/model", cell("x")), gaveUp, delivered("t/0/before_completion")];
    expect(lines(coding, input(), responses).at(-1)).toBe("= submitted_error");
  });

  test("a single step stops after its reply, or after its cell", () => {
    const afterReply = config({}, { protocolDriver: codeProtocol({ stopAfter: "reply" }) });
    expect(lines(afterReply, input(), [replied("t/0/model", cell("x"))]).at(-1)).toBe("= stop_after");
    const afterStep = config({}, { protocolDriver: codeProtocol({ stopAfter: "step" }) });
    const responses = [replied("t/0/model", cell("x")), finished("t/0/code/0", { observations: ["1"] })];
    expect(lines(afterStep, input(), responses).at(-1)).toBe("= stop_after");
    expect(lines(afterStep, input(), [replied("t/0/model", says("It is 2."))]).at(-1)).toBe("= assistant_message");
  });
});
