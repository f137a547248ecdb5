// The traces recorded from lash, in our vocabulary: first the twelve that its description names, then the others of the
// recording by their letters (a, b, c, f, g, i, k, n, p and r are among the twelve). `>` an effect the turn waits for,
// `<` a response, `!` a notice, `=` the outcome. Where our machine differs on purpose, the title says how and why.
// Differences that hold for all traces:
//   - effect ids are derived from turn, step and place and not numbered, because they have to be the same on every
//     replay;
//   - the request and the reply of a model call are not events of the machine: the performer streams text, usage and
//     calls;
//   - progress is reported before the effects that depend on it are performed, so that the history is a write-ahead
//     log.

import { assistant, messageText, system, textPart, user } from "everturn";
import {
  checkpointDelivered,
  modelFailed,
  projectRequest,
  toolReturned,
  TurnMachine,
  adapterFailure,
  toolCall,
  usage,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, config, delivered, input, replied, result, returned, says, transcript } from "../../../test/turns.ts";
import { noUsage, reasoningPart, runtimeFailure, toolCallPart } from "../model/internal.ts";
import { pendingEffects } from "./machine/pending-effects.ts";
import { isResumeSafe } from "./protocol/resume-safety.ts";
import { terminalReasonOf } from "./protocol/terminal-reason.ts";

const lines = (...args: Parameters<typeof transcript>) => transcript(...args).lines;

describe("[lash 66] the golden traces", () => {
  test("1. a plain answer. Differs: the answer is in the history before the turn completes", () => {
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

  test("2. two tools, one with arguments that are not JSON. Differs: one effect for each call, and invalid arguments are not replaced by {}", () => {
    const garbled = toolCall({ id: "c1", name: "clock", arguments: null, rawArguments: "not json" });
    const [first] = calls("weather").toolCalls;
    const toolCalls = first === undefined ? [garbled] : [first, garbled];
    const reply = says("Let me.", {
      toolCalls,
      message: assistant("Let me.", { toolCalls }),
      finishReason: "tool_calls",
    });
    const { lines: trace, turn } = transcript(config(), input(), [replied("t/0/model", reply)]);
    expect(trace.slice(-2)).toEqual(["! progress 0: assistant", "> 0/tool/0, 0/tool/1"]);
    expect(pendingEffects(turn)[1]).toMatchObject({ call: { arguments: null, rawArguments: "not json" } });
  });

  test("3. maxTurns 1, one tool. Differs: the host gets its checkpoint first, and no message is added unless one is set", () => {
    const responses = [
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "data"),
      delivered("t/1/after_work"),
    ];
    expect(lines(config({}, { maxTurns: 1 }), input(), responses).slice(-4)).toEqual([
      "! progress 1: tool | step",
      "> 1/after_work",
      "< checkpoint_delivered 1/after_work",
      "= max_turns",
    ]);
  });

  test("4. input after the answer. Differs: the answer stays in the next request", () => {
    const responses = [
      replied("t/0/model", says("Final answer")),
      delivered("t/0/before_completion", user("one more")),
    ];
    expect(lines(config(), input(), responses).slice(-2)).toEqual(["! progress 1: user", "> 1/model"]);
  });

  test("5. input after the answer, twice, with maxTurns 1. Differs: the second input is not accepted, because no model call would read it", () => {
    const limited = config(
      {},
      { maxTurns: 1, turnLimitFinalMessage: "Turn limit reached (1) before a final assistant response." },
    );
    const responses = [
      replied("t/0/model", says("A")),
      delivered("t/0/before_completion", user("x1")),
      replied("t/1/model", says("B")),
      delivered("t/1/before_completion", user("x2")),
    ];
    expect(lines(limited, input(), responses).slice(4)).toEqual([
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

  test("[lash 34] 6. an empty answer with onEmptyReply error", () => {
    const strict = config({ onEmptyReply: "error" });
    for (const text of ["", "  \n "]) {
      const trace = lines(strict, input(), [replied("t/0/model", says(text))]);
      expect(trace.slice(-3)).toEqual(["! error", "! progress 0:  | step", "= provider_error"]);
    }
  });

  test("[lash 34] 7. an empty answer directly after a tool result completes the turn", () => {
    const strict = config({ onEmptyReply: "error" });
    const responses = [
      replied("t/0/model", calls("weather")),
      result("t/0/tool/0", "x"),
      delivered("t/1/after_work"),
      replied("t/1/model", says("")),
    ];
    expect(lines(strict, input(), responses).at(-1)).toBe("> 1/before_completion");
  });

  test("8. a rate-limited provider is one error and ends the turn: the machine itself does not retry", () => {
    const failure = adapterFailure("rate_limited", { status: 429 });
    const failed = modelFailed("t/0/model", failure);
    const trace = lines(config(), input(), [failed]);
    expect(trace.filter((line) => line === "! error")).toHaveLength(1);
    expect(trace.at(-1)).toBe("= provider_error");
    expect(failure).toMatchObject({ retryable: true, kind: "quota" });
  });

  test("[lash 8] 9. the environment is synced once for each step", () => {
    const synced = { type: "environment_synced", id: "t/0/environment", environment: null } as const;
    expect(lines(config({}, { syncEnvironment: true }), input(), [synced])).toEqual([
      "! progress 0: user",
      "> 0/environment",
      "< environment_synced 0/environment",
      "> 0/model",
    ]);
  });

  test("10. a tool that finishes, fails or hands off the turn; a handoff without a task continues", () => {
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

  test("[lash 2] [lash 63] 11. a restored machine delivers notices first, then open effects, in the same order as without the restore", () => {
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

  test("[lash 30] 12. reasoning, text and calls in one reply. Differs: all keep their order, text too", () => {
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

describe("the other recorded traces", () => {
  test("d. a stale response after a restore. Differs: the open effect is delivered all the same", () => {
    const machine = TurnMachine.start(config(), input());
    const restored = TurnMachine.restore(config(), JSON.parse(JSON.stringify(machine.checkpoint())));
    expect(restored.handleResponse(replied("t/7/model", says("late")))).toBe("stale");
    expect(restored.pollEffect()).toMatchObject({ type: "progress" });
    expect(restored.pollEffect()).toMatchObject({ type: "call_model", id: "t/0/model" });
  });

  test("e. finishing twice. Differs: the second time changes nothing and returns stale", () => {
    const machine = TurnMachine.start(config(), input());
    const evidence = { requestId: "r", origin: null, reason: null };
    const cancel = () => machine.cancel({ evidence, received: null, usage: noUsage });
    expect([cancel(), cancel(), machine.fail(runtimeFailure("lease_lost"))]).toEqual(["accepted", "stale", "stale"]);
    const polled: string[] = [];
    for (let next = machine.pollEffect(); next !== null; next = machine.pollEffect()) polled.push(next.type);
    expect(polled).toEqual(["progress", "done"]);
    expect(machine.isDone).toBe(true);
  });

  test("h. a call that the provider cancelled. Differs: a cancelled turn, not an error", () => {
    const cancelled = modelFailed("t/0/model", adapterFailure("unknown"), { terminalReason: "cancelled" });
    expect(lines(config(), input(), [cancelled]).slice(-2)).toEqual(["< model_failed 0/model", "= cancelled"]);
  });

  test("h. a prompt that filled the context window is one error that is not retryable", () => {
    const full = { ...says(""), finishReason: "length", usage: usage({ inputTokens: 95, outputTokens: 0 }) } as const;
    const trace = transcript(config({}, { maxContextTokens: 100 }), input(), [replied("t/0/model", full)]);
    expect(trace.lines.slice(-3)).toEqual(["! error", "! progress 0:  | step", "= provider_error"]);
    expect(trace.turn.phase).toMatchObject({
      ending: {
        outcome: {
          failure: {
            retryable: false,
            message: "Model produced no output because the prompt reached the configured context window.",
          },
        },
      },
    });
  });

  test("i. a tool without a result. Differs: its call is answered with a text that says so", () => {
    const empty = toolReturned("t/0/tool/0", { type: "success", value: "", control: null });
    const { turn } = transcript(config(), input(), [replied("t/0/model", calls("weather")), empty]);
    expect(turn.history.entries[2]).toMatchObject({ role: "tool", toolCallId: "c0" });
    expect(messageText(turn.history.entries[2] ?? user(""))).not.toBe("");
  });

  test("j. causes: each once, kept as events, rendered in one block at the end. Differs: a transient note is not in the history", () => {
    const origin = { type: "process", processId: "p1", eventType: "process.wake", sequence: 7, wakeId: "w1" } as const;
    const cause = { id: "w1", eventType: "process.wake", origin: { ...origin, causedBy: null }, text: " woke " };
    const note = system("note", { origin: { type: "plugin", pluginId: "plugin", transient: true } });
    const trace = transcript(config(), input(), [
      replied("t/0/model", says("A")),
      checkpointDelivered("t/0/before_completion", { transientMessages: [note], turnCauses: [cause, cause] }),
    ]);
    expect(trace.lines.slice(-2)).toEqual(["! progress 1: event", "> 1/model"]);
    expect(projectRequest(config(), trace.turn).messages.map(messageText)).toEqual([
      "Be brief.",
      "hi",
      "A",
      "Runtime note:\nnote",
      "=== TURN EVENTS ===\n\n--- event[0] · process.wake · w1 ---\nOrigin: process p1 process.wake #7 (w1)\n\nwoke",
    ]);
  });

  test("[lash 7] l. a checkpoint as JSON. Differs: it does not contain the request, only the data to compute it", () => {
    const checkpoint = TurnMachine.start(config(), input()).checkpoint();
    expect(JSON.parse(JSON.stringify(checkpoint))).toEqual(checkpoint);
    expect(checkpoint.turn).toMatchObject({
      phase: { type: "awaiting_model", useTools: true, driverState: null },
      step: 0,
      runOffset: 0,
      turnCauses: [],
      graceTurn: false,
      syncedStep: null,
    });
    expect(projectRequest(config(), checkpoint.turn)).toMatchObject({
      model: "test-model",
      messages: [{ role: "system" }, { role: "user" }],
      toolChoice: "auto",
      scope: { sessionId: "s1", requestId: "t/0/model" },
    });
  });

  test("m. a response of the wrong kind, the right one, and the right one again. Differs: each returns its status", () => {
    const machine = TurnMachine.start(config(), input());
    const right = replied("t/0/model", says("A"));
    expect([delivered("t/0/model"), right, right].map((response) => machine.handleResponse(response))).toEqual([
      "wrong_kind",
      "accepted",
      "stale",
    ]);
  });

  test("[lash 32] o. results that are missing or out of order. Differs: each call has its own response, and the turn waits for all", () => {
    const responses = [replied("t/0/model", calls("weather", "clock")), result("t/0/tool/1", "B")];
    expect(lines(config(), input(), responses).at(-1)).toBe("> 0/tool/0");
    const { turn } = transcript(config(), input(), [...responses, result("t/0/tool/0", "A")]);
    expect(turn.history.entries.slice(2).map(messageText)).toEqual(["A", "B"]);
    expect(isResumeSafe(turn.history.entries)).toBe(true);
  });

  test("p. an environment that cannot be synced ends the turn with the reason", () => {
    const failed = { type: "environment_failed", id: "t/0/environment", message: "nope" } as const;
    const trace = transcript(config({}, { syncEnvironment: true }), input(), [failed]);
    expect(trace.lines.slice(-2)).toEqual(["! error", "= runtime_error"]);
    expect(trace.turn.phase).toMatchObject({
      ending: {
        outcome: {
          failure: { reason: "reconfigure_failed", message: "Failed to refresh execution environment: nope" },
        },
      },
    });
  });

  test("q. only messages that may not be delivered. Differs: they do not count as input, so the turn completes", () => {
    const responses = [
      replied("t/0/model", says("A")),
      delivered("t/0/before_completion", assistant("I am the model")),
    ];
    expect(lines(config(), input(), responses).at(-1)).toBe("= assistant_message");
  });

  test("s. replies that end early. Differs: they complete the turn, and the outcome says how", () => {
    for (const [finishReason, outcome] of [
      ["length", "incomplete"],
      ["content_filter", "filtered"],
    ] as const) {
      const responses = [replied("t/0/model", says("part", { finishReason })), delivered("t/0/before_completion")];
      const trace = transcript(config(), input(), responses);
      expect(trace.lines).not.toContain("! error");
      expect(trace.lines.at(-1)).toBe(`= ${outcome}`);
      expect(trace.turn.history.entries.map(messageText)).toEqual(["hi", "part"]);
    }
  });

  test("s. calls in a reply with an unknown finish reason. Differs: only tool_calls runs tools", () => {
    const unsure = { ...calls("weather"), finishReason: null };
    expect(lines(config(), input(), [replied("t/0/model", unsure)]).at(-1)).toBe("> 0/before_completion");
  });

  test.each([
    [94, 0, 100, false],
    [95, 0, 100, true],
    [95, 1, 100, false],
    [1000, 0, null, false],
    [95, 0, 0, false],
    [9, 0, 10, true],
    [10, 0, 11, true],
  ] as const)("t. %i in, %i out, a window of %s: overflow %s", (inputTokens, outputTokens, window, expected) => {
    const reply = says("", { finishReason: "length", usage: usage({ inputTokens, outputTokens }) });
    expect(terminalReasonOf(reply, window) === "context_overflow").toBe(expected);
  });

  test("u. commentary is dropped if there is a final answer, and is the answer if there is none", () => {
    const parts = (...texts: readonly (readonly [string, "commentary" | "final_answer"])[]) =>
      says("", { message: assistant(texts.map(([text, phase]) => textPart(text, { phase }))) });
    const kept = (reply: ReturnType<typeof parts>) => {
      const { turn } = transcript(config(), input(), [replied("t/0/model", reply)]);
      return messageText(turn.history.entries[1] ?? user(""));
    };
    expect(kept(parts(["thinking aloud", "commentary"], ["answer", "final_answer"]))).toBe("answer");
    expect(kept(parts(["only commentary", "commentary"]))).toBe("only commentary");
  });

  // v (tool values, retry delays), w (outcomes as JSON, cut texts) and the origins of j are tested next to their code:
  // tool-value, retry-delay, outcome and truncate-text. x (the system prompt of one program, and history as a single
  // text) is not reproduced: instructions belong to the caller, and a conversation is sent to the model as messages.
});
