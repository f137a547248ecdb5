import type { AskUserRequested, MessageCompleted, ToolCallStarted } from "../model/internal.ts";
import type { Json, StepCompleted, TurnEvent } from "everturn/model";

import { Collector } from "everturn/kernel";
import {
  AdapterError,
  assistant,
  chatResult,
  fromMessages,
  MisuseError,
  modelReply,
  textPart,
  toolCall,
  toolResult,
  usage,
  user,
} from "everturn/model";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries } from "../../test/arbitraries.ts";
import { awaitingUserContent } from "../model/internal.ts";

const start = fromMessages([user("What is the weather?")]);
const failure = new AdapterError("rate_limited").failure;

function collect(...events: readonly TurnEvent[]): Collector {
  const collector = new Collector(start);
  for (const event of events) collector.add(event);
  return collector;
}

const delta = (text: string, id: string | null = null): TurnEvent => ({ type: "text_delta", id, delta: text });
const started = (id: string, name: string): ToolCallStarted => ({
  type: "tool_call_started",
  id,
  name,
  providerExecuted: false,
});
const argued = (id: string, argumentsDelta: string): TurnEvent => ({ type: "tool_call_delta", id, argumentsDelta });
const called = (id: string, name: string): TurnEvent => ({
  type: "tool_call_completed",
  ...toolCall({ id, name, arguments: { n: 1 }, rawArguments: '{"n":1}' }),
  providerExecuted: false,
});
const completed = (finishReason: "stop" | "tool_calls" | null, metadata = {}): MessageCompleted => ({
  type: "message_completed",
  message: assistant(""),
  finishReason,
  rawFinishReason: "end_turn",
  requestId: "req_1",
  responseId: "resp_1",
  model: "claude-1",
  route: null,
  output: null,
  metadata,
});
const answered = (id: string, content: string): TurnEvent => ({
  type: "tool_result_encoded",
  id,
  content,
  status: "success",
  code: null,
  ranArguments: null,
});
const halted = (toolCallId: string, reason: string): TurnEvent => ({
  type: "tool_halt",
  toolCallId,
  reason,
  result: { why: reason },
  content: reason,
  status: "success",
  code: null,
  ranArguments: null,
});
const asked = (toolCallId: string): AskUserRequested => ({
  type: "ask_user_requested",
  toolCallId,
  toolName: "book",
  question: "Which?",
  opts: { choices: ["a"] },
});
const stepped = (...ids: readonly string[]): StepCompleted => ({
  type: "step_completed",
  response: modelReply({
    finishReason: "tool_calls",
    toolCalls: ids.map((id) => toolCall({ id, name: "t", arguments: {} })),
  }),
  thread: fromMessages([user("after")]),
  mode: "auto",
  manualToolCalls: [],
  pendingToolCalls: [],
  suspendedCell: null,
  usage: usage({ inputTokens: 3 }),
});

describe("[allm 28] the fold is total", () => {
  test("any events in any order are taken, and every account of them can be given", () => {
    fc.assert(
      fc.property(fc.array(arbitraries.event, { maxLength: 30 }), (events) => {
        const collector = collect(...events);
        expect(collector.reply()).toBeDefined();
        expect(collector.stepResult()).toBeDefined();
        expect(collector.chatResult()).toBeDefined();
        expect(collector.partial()).not.toBeUndefined();
      }),
    );
  });
});

describe("[allm 29] text", () => {
  test("deltas add up, and a completed block replaces what its deltas came to", () => {
    expect(collect(delta("Sun"), delta("ny.")).text).toBe("Sunny.");
    const corrected = { type: "text_completed", id: null, text: "Sunny!", phase: null, provider: null } as const;
    expect(collect(delta("Sun"), delta("ny."), corrected).text).toBe("Sunny!");
  });

  test("blocks are kept apart: completing one loses nothing of another", () => {
    const second = { type: "text_completed", id: "b", text: "two", phase: null, provider: null } as const;
    expect(collect(delta("one ", "a"), delta("tw", "b"), second).text).toBe("one two");
    expect(collect(delta("one ", "a"), delta("two ", "b"), delta("more ", "a")).text).toBe("one more two ");
  });

  test("an end without a word does not erase the word there was", () => {
    expect(collect(completed("stop"), completed(null)).reply().finishReason).toBe("stop");
    expect(collect({ type: "error", error: failure }, completed(null)).reply().finishReason).toBe("error");
  });
});

describe("[allm 30] calls", () => {
  test("keep the order in which they were first heard of", () => {
    const reply = collect(started("a", "x"), started("b", "y"), called("b", "y"), called("a", "x")).reply();
    expect(reply.toolCalls.map((call) => call.id)).toEqual(["a", "b"]);
  });

  test("that never became whole have their raw arguments and nothing that could be run", () => {
    const [call] = collect(started("a", "x"), argued("a", '{"ci'), argued("a", 'ty"')).reply().toolCalls;
    expect(call).toMatchObject({ id: "a", name: "x", arguments: null, rawArguments: '{"city"' });
    expect(collect(argued("z", "{}")).reply().toolCalls).toMatchObject([{ id: "z", name: "" }]);
  });

  test("that the provider ran itself are nobody's to answer", () => {
    const search = { ...started("s", "web_search"), providerExecuted: true };
    expect(
      collect(search, started("a", "x"))
        .reply()
        .toolCalls.map((call) => call.id),
    ).toEqual(["a"]);
  });
});

test("[allm 31] a failure becomes the end of the reply, and what had arrived stays", () => {
  const reply = collect(delta("Sun"), { type: "error", error: failure }).reply();
  expect(reply).toMatchObject({ finishReason: "error", error: failure, outputText: "Sun" });
});

describe("[allm 32] halts", () => {
  test("every call is answered, and of several halts the one with the lowest call index counts", () => {
    const [step] = collect(answered("c", "3"), halted("b", "enough"), asked("a"), stepped("a", "b", "c")).chatResult()
      .steps;
    expect(step?.toolResults.map((result) => [result.toolCallId, result.content])).toEqual([
      ["a", awaitingUserContent],
      ["b", "enough"],
      ["c", "3"],
    ]);
    expect(step?.metadata).toEqual({
      haltedReason: "ask_user",
      pendingToolCallId: "a",
      pendingQuestion: "Which?",
      askUserOpts: { choices: ["a"] },
    });
    expect(step?.done).toBe(true);
  });

  test("a halt of a tool's own has a result, a failure that stopped the run has none", () => {
    const own = collect(halted("a", "enough"), stepped("a")).stepResult();
    expect(own.metadata).toEqual({ haltedReason: "enough", haltToolCallId: "a", haltResult: { why: "enough" } });
    const error = collect(halted("a", "tool_error"), stepped("a")).stepResult();
    expect(error.metadata).toEqual({ haltedReason: "tool_error", haltToolCallId: "a" });
  });
});

describe("[allm 33] steps", () => {
  test("a step is what came before its end, and the next begins with nothing of it", () => {
    const collector = collect(
      delta("One"),
      called("a", "x"),
      answered("a", "1"),
      completed("tool_calls"),
      stepped("a"),
    );
    expect(collector.stepResult()).toMatchObject({
      done: false,
      toolResults: [toolResult("a", "1")],
      usage: { inputTokens: 3 },
      metadata: {},
    });
    expect(collector.text).toBe("");
    expect(collector.reply()).toMatchObject({ toolCalls: [], finishReason: null, message: null });
    collector.add(delta("Two"));
    collector.add(completed("stop"));
    collector.add(stepped());
    expect(collector.chatResult().steps).toHaveLength(2);
    expect(collector.chatResult().steps[1]).toMatchObject({ toolResults: [], done: true });
  });

  test("calls left to the caller are on the step", () => {
    const call = toolCall({ id: "a", name: "pay", arguments: {} });
    const left: StepCompleted = { ...stepped("a"), manualToolCalls: [call], mode: "manual" };
    expect(collect(left).stepResult().metadata).toEqual({ mode: "manual", manualToolCalls: [call] });
  });
});

describe("[allm 34] what it all came to", () => {
  test("a reply has what its provider said about it", () => {
    const reply = collect(
      delta("Sunny."),
      { type: "usage", usage: usage({ outputTokens: 2 }) },
      completed("stop", { a: 1 }),
    ).reply();
    expect(reply).toMatchObject({
      id: "resp_1",
      model: "claude-1",
      rawFinishReason: "end_turn",
      outputText: "Sunny.",
      usage: { outputTokens: 2 },
      metadata: { a: 1 },
      message: { role: "assistant", content: "Sunny.", finishReason: "stop" },
    });
    expect(new Collector().reply()).toMatchObject({ outputText: "", message: null });
  });

  test("a message of parts is as its adapter made it", () => {
    const event = completed("stop");
    const parts = [textPart("Sun"), textPart("ny.")];
    const reply = collect(delta("Sunny."), { ...event, message: assistant(parts) }).reply();
    expect(reply.message?.content).toEqual(parts);
  });

  test("a run is as it reported itself", () => {
    const result = chatResult({ type: "max_turns", maxTurns: 1 });
    expect(collect(delta("x"), { type: "chat_completed", result }).chatResult()).toBe(result);
  });

  test("a run that was left early is cancelled, with what was heard of it apart from the thread", () => {
    const result = collect(stepped("a"), delta("It is")).chatResult();
    expect(result).toMatchObject({ haltedReason: "cancelled", partial: { content: "It is" } });
    expect(result.thread.messages).toEqual([user("after")]);
    expect(result.steps).toHaveLength(1);
  });

  test("a run that broke is in error, and says why", () => {
    expect(collect({ type: "error", error: failure }).chatResult()).toMatchObject({
      haltedReason: "error",
      outcome: { type: "provider_error", failure },
      metadata: { error: failure },
    });
  });

  test("steps and runs need the thread they began with", () => {
    expect(() => new Collector().stepResult()).toThrow(MisuseError);
    expect(() => new Collector().chatResult()).toThrow(/new Collector\(thread\)/);
  });
});

describe("what the stream did not say in pieces, the whole message says", () => {
  test("text and calls that only the whole message has", () => {
    const call = toolCall({ id: "c1", name: "weather", arguments: { a: 1 } });
    const event = { ...completed("tool_calls"), message: assistant("It is sunny.", { toolCalls: [call] }) };
    const collector = collect(event);
    expect(collector.text).toBe("It is sunny.");
    expect(collector.reply()).toMatchObject({
      outputText: "It is sunny.",
      toolCalls: [call],
      message: { toolCalls: [call] },
    });
    const begun = collect(started("c1", "weather"), argued("c1", '{"a"'), event);
    expect(begun.reply().toolCalls).toEqual([call]);
  });

  test("a run that was left early has cost what all its steps have", () => {
    const collector = collect(stepped("a"), stepped("b"), { type: "usage", usage: usage({ inputTokens: 10 }) });
    expect(collector.chatResult().usage.inputTokens).toBe(16);
    expect(collect().chatResult().finalResponse).toBeNull();
    expect(collector.stepResult()).toBe(collector.chatResult().steps.at(-1));
  });

  test("going back and forth between many blocks and calls takes time in proportion to what is said", () => {
    const collector = new Collector();
    for (let index = 0; index < 100_000; index += 1) {
      collector.add(delta("x", `b${index}`));
      collector.add(argued(`c${index}`, "{"));
    }
    for (let index = 0; index < 100_000; index += 1) {
      collector.add(delta("y", `b${index}`));
      collector.add(argued(`c${index}`, "}"));
    }
    expect(collector.text.length).toBe(200_000);
    expect(collector.reply().toolCalls).toHaveLength(100_000);
  });
});

describe("nothing is lost, doubled or thrown", () => {
  const reset = { type: "step_reset", reason: "retry", withdrawn: [], effectId: null, attempt: null } as const;

  test("a run of a thousand steps, each with its whole thread, is folded and keeps its messages as they are", () => {
    const messages = [user("start")];
    const collector = new Collector(start);
    for (let index = 0; index < 1000; index += 1) {
      messages.push(user(`message ${index}`));
      collector.add({ ...stepped(), thread: { messages: [...messages], metadata: {} } });
    }
    const result = collector.chatResult();
    expect(result.steps).toHaveLength(1000);
    expect(result.thread.messages.at(-1)).toBe(messages.at(-1));
  });

  test("what could not be stored can be collected", () => {
    let deep: Json = 1;
    for (let level = 0; level < 200; level += 1) deep = [deep];
    const call = toolCall({ id: "a", name: "x", arguments: {} });
    const hinted = { ...asked("a"), opts: { password: "hint" } };
    const collector = collect(
      { ...completed("tool_calls"), metadata: { cookie: "x" } },
      { type: "tool_call_completed", ...call, arguments: { deep }, providerExecuted: false },
      hinted,
      stepped("a"),
    );
    expect(collector.stepResult().metadata.askUserOpts).toEqual({ password: "hint" });
  });

  test("blocks without ids that are completed at the end are not said twice", () => {
    const thought = { type: "reasoning_completed", id: null, text: "hm", redacted: false, provider: null } as const;
    const text = { type: "text_completed", id: null, text: "Hi!", phase: null, provider: null } as const;
    const collector = collect({ type: "reasoning_delta", id: null, delta: "h" }, delta("Hi"), thought, text);
    expect(collector.text).toBe("Hi!");
    expect(collector.partial()?.content).toMatchObject([{ text: "hm" }, { text: "Hi!" }]);
  });

  test("a reply that was whole when the run was left is its last word", () => {
    const result = collect(stepped("a"), delta("It is sunny."), completed("stop")).chatResult();
    expect(result.finalResponse).toMatchObject({ outputText: "It is sunny.", finishReason: "stop" });
  });

  test("a reset makes answers and halts void, too", () => {
    const collector = collect(
      halted("a", "enough"),
      answered("b", "1"),
      reset,
      answered("a", "x"),
      answered("b", "2"),
      stepped("a", "b"),
    );
    expect(collector.stepResult().metadata).toEqual({});
    expect(collector.stepResult().toolResults).toMatchObject([{ content: "x" }, { content: "2" }]);
  });

  test("an answer to no call of the reply comes last, and the last answer to a call counts", () => {
    const step = collect(
      halted("a", "mine"),
      halted("zzz", "stray"),
      answered("a", "again"),
      stepped("a"),
    ).stepResult();
    expect(step.metadata.haltedReason).toBe("mine");
    expect(step.toolResults.map((result) => result.content)).toEqual(["again", "stray"]);
  });

  test("a failure stays one, whatever the end of the message says, and stays in its step", () => {
    expect(collect({ type: "error", error: failure }, completed("stop")).reply().finishReason).toBe("error");
    const second = collect(
      { type: "error", error: failure },
      stepped(),
      delta("ok"),
      completed("stop"),
      stepped(),
    ).stepResult();
    expect(second.metadata).toEqual({});
  });
});

test("step_reset forgets the attempt it ends and nothing else", () => {
  const reset = { type: "step_reset", reason: "retry", withdrawn: [], effectId: null, attempt: null } as const;
  const collector = collect(
    stepped("a"),
    delta("wrong"),
    called("x", "x"),
    { type: "error", error: failure },
    reset,
    delta("right"),
  );
  expect(collector.text).toBe("right");
  expect(collector.reply()).toMatchObject({ toolCalls: [], error: null, finishReason: null });
  expect(collector.chatResult().steps).toHaveLength(1);
});
