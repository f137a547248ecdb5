// The twelve traces recorded from lash, told in our words: `>` what the turn waits for, `<` what it was told, `!` what it said, `=` how it
// ended. Where ours differs on purpose, the test says how and why. Differences that hold for all of them:
//   - effects are named by turn, step and place, not numbered (they have to be the same on every replay);
//   - what goes to the model and comes back is not an event of the machine: text, usage and calls are streamed by whoever makes the call;
//   - progress is told before the effects that depend on it are performed, so that history is written ahead of work.

import { modelFailed, pendingEffects, TurnMachine } from "everturn/kernel";
import { adapterFailure, assistant, reasoningPart, textPart, toolCall, toolCallPart, user } from "everturn/model";
import { describe, expect, test } from "vitest";

import { calls, config, delivered, input, replied, result, returned, says, transcript } from "../../test/turns.ts";

const lines = (...story: Parameters<typeof transcript>) => transcript(...story).lines;

describe("[lash 66] the golden traces", () => {
  test("1. a plain answer. Differs: the answer is in history before the turn completes", () => {
    expect(lines(config(), input(), [replied("t/0/model", says("Hello")), delivered("t/0/before_completion")])).toEqual(
      [
        "! progress 0: user",
        "> 0/model",
        "< model_replied 0/model",
        "! progress 0: assistant | step",
        "> 0/before_completion",
        "< checkpoint_delivered 0/before_completion",
        "= assistant_message",
      ],
    );
  });

  test("2. two tools, one with arguments that are no JSON. Differs: one effect a call, and no {} in place of what was wrong", () => {
    const garbled = toolCall({ id: "c1", name: "clock", arguments: null, rawArguments: "not json" });
    const [first] = calls("weather").toolCalls;
    const toolCalls = first === undefined ? [garbled] : [first, garbled];
    const reply = says("Let me.", {
      toolCalls,
      message: assistant("Let me.", { toolCalls }),
      finishReason: "tool_calls",
    });
    const { lines: told, turn } = transcript(config(), input(), [replied("t/0/model", reply)]);
    expect(told.slice(-2)).toEqual(["! progress 0: assistant", "> 0/tool/0, 0/tool/1"]);
    expect(pendingEffects(turn)[1]).toMatchObject({ call: { arguments: null, rawArguments: "not json" } });
  });

  test("3. one step allowed, one tool. Differs: the host has its word first, and there is no message unless one is set", () => {
    const story = [replied("t/0/model", calls("weather")), result("t/0/tool/0", "data"), delivered("t/1/after_work")];
    expect(lines(config({}, { maxTurns: 1 }), input(), story).slice(-4)).toEqual([
      "! progress 1: tool | step",
      "> 1/after_work",
      "< checkpoint_delivered 1/after_work",
      "= max_turns",
    ]);
  });

  test("4. input after the answer. Differs: the answer stays in what the model reads next", () => {
    const story = [replied("t/0/model", says("Final answer")), delivered("t/0/before_completion", user("one more"))];
    expect(lines(config(), input(), story).slice(-2)).toEqual(["! progress 1: user", "> 1/model"]);
  });

  test("5. input after the answer, twice, with one step allowed. Differs: the second is not taken, since nobody would read it", () => {
    const limited = config(
      {},
      { maxTurns: 1, turnLimitFinalMessage: "Turn limit reached (1) before a final assistant response." },
    );
    const story = [
      replied("t/0/model", says("A")),
      delivered("t/0/before_completion", user("x1")),
      replied("t/1/model", says("B")),
      delivered("t/1/before_completion", user("x2")),
    ];
    expect(lines(limited, input(), story).slice(4)).toEqual([
      "> 0/before_completion",
      "< checkpoint_delivered 0/before_completion",
      "! progress 1: user system",
      "> 1/model",
      "< model_replied 1/model",
      "! progress 1: assistant | step",
      "> 1/before_completion",
      "< checkpoint_delivered 1/before_completion",
      "= assistant_message",
    ]);
  });

  test("6. an empty answer, where that is an error", () => {
    const strict = config({ onEmptyReply: "error" });
    for (const text of ["", "  \n "]) {
      const told = lines(strict, input(), [replied("t/0/model", says(text))]);
      expect(told.slice(-3)).toEqual(["! error", "! progress 0:  | step", "= provider_error"]);
    }
  });

  test("7. an empty answer right after a tool's result completes the turn", () => {
    const strict = config({ onEmptyReply: "error" });
    const story = [
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "x"),
      delivered("t/1/after_work"),
      replied("t/1/model", says("")),
    ];
    expect(lines(strict, input(), story).at(-1)).toBe("> 1/before_completion");
  });

  test("8. a provider that says to come back later is one error and the end: the machine never tries again itself", () => {
    const failure = adapterFailure("rate_limited", { status: 429 });
    const failed = modelFailed("t/0/model", failure);
    const told = lines(config(), input(), [failed]);
    expect(told.filter((line) => line === "! error")).toHaveLength(1);
    expect(told.at(-1)).toBe("= provider_error");
    expect(failure).toMatchObject({ retryable: true, kind: "quota" });
  });

  test("9. an environment that is synced is synced once a step", () => {
    const synced = { type: "environment_synced", id: "t/0/environment", environment: null } as const;
    expect(lines(config({}, { syncEnvironment: true }), input(), [synced])).toEqual([
      "! progress 0: user",
      "> 0/environment",
      "< environment_synced 0/environment",
      "> 0/model",
    ]);
  });

  test("10. a tool that finishes, fails or hands the turn over; a handoff without a task goes on", () => {
    const to = (target: string, task: string | null) =>
      ({ type: "success", value: "x", control: { type: "handoff", target, task, initialMessages: [] } }) as const;
    const finish = { type: "success", value: "x", control: { type: "finish", value: { ok: true } } } as const;
    const last = (outcome: Parameters<typeof returned>[1]) =>
      lines(config(), input(), [replied("t/0/model", calls("weather")), returned("t/0/tool/0", outcome)]).at(-1);
    expect([last(finish), last(to("f2", "go")), last(to("f2", null))]).toEqual([
      "= tool_value",
      "= handoff",
      "> 1/after_work",
    ]);
  });

  test("11. restored before the host was told: notices first, then the open effects. The same order as without the restore", () => {
    const machine = TurnMachine.start(config(), input());
    const order = (from: TurnMachine) => {
      const polled: string[] = [];
      for (let next = from.pollEffect(); next !== null; next = from.pollEffect()) polled.push(next.type);
      return polled;
    };
    machine.handleResponse(replied("t/0/model", calls("weather")));
    const restored = TurnMachine.restore(config(), JSON.parse(JSON.stringify(machine.checkpoint())));
    expect(order(restored)).toEqual(["progress", "progress", "call_tool"]);
    expect(order(machine)).toEqual(["progress", "progress", "call_tool"]);
  });

  test("12. reasoning, text and calls in turn. Differs: all keep their places, text too", () => {
    const parts = [
      reasoningPart("r1"),
      textPart("t1"),
      toolCallPart("c0"),
      reasoningPart("r2"),
      textPart("t2"),
      toolCallPart("c1"),
      reasoningPart("r3"),
    ];
    const { toolCalls } = calls("weather", "clock");
    const reply = says("t1t2", { toolCalls, message: assistant(parts, { toolCalls }), finishReason: "tool_calls" });
    const { turn } = transcript(config(), input(), [replied("t/0/model", reply)]);
    expect(turn.history.entries[1]?.content).toEqual(parts);
  });
});
