import type { EventOf, MessageCompleted } from "../model/internal.ts";
import type { Json, TurnEvent } from "everturn";
import type { StepCompleted } from "everturn/advanced";

import { AdapterError, assistant, fromMessages, MisuseError, textPart, toolResult, user } from "everturn";
import { Collector, chatResult, modelReply, toolCall, usage } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries } from "../../../test/arbitraries.ts";
import { eventTypes, toolCallPart } from "../model/internal.ts";
import { noticeTypes } from "../model/turn/event.ts";

const start = fromMessages([user("What is the weather?")]);
const failure = new AdapterError("rate_limited").failure;

function collect(...events: readonly TurnEvent[]): Collector {
  const collector = new Collector(start);
  for (const event of events) collector.add(event);
  return collector;
}

const delta = (text: string, id: string | null = null): TurnEvent => ({ type: "text_delta", id, delta: text });
const started = (id: string, name: string): EventOf<"tool_call_started"> => ({
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
const askUserEvent = (toolCallId: string): EventOf<"ask_user_requested"> => ({
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
  test("accepts any events in any order, and every result can be read", () => {
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

  test("rejects a value that is no event, and an event with a field of the wrong type", () => {
    for (const value of [
      "null",
      "5",
      '"text_delta"',
      "[]",
      "{}",
      '{"type":"text_delta","delta":5}',
      '{"type":"usage"}',
    ]) {
      expect(() => new Collector().add(JSON.parse(value)), value).toThrow(MisuseError);
    }
  });

  test("a notice changes no result, and every other type of event changes one", () => {
    const before = [delta("It is "), started("call_1", "weather")];
    const results = (events: readonly TurnEvent[]): string => {
      const collector = collect(...events);
      return JSON.stringify([collector.reply(), collector.stepResult(), collector.chatResult()]);
    };
    const changing = new Set<TurnEvent["type"]>();
    const samples = fc.sample(arbitraries.event, { numRuns: 2000, seed: 1 });
    for (const event of samples) if (results([...before, event]) !== results(before)) changing.add(event.type);
    const notices: readonly TurnEvent["type"][] = noticeTypes;
    expect([...changing].sort()).toEqual(eventTypes.filter((type) => !notices.includes(type)).sort());
  });

  test("ignores an event of an unknown type", () => {
    const unknown = JSON.parse('{"type":"hologram","delta":"!"}');
    const events = [delta("Sun"), delta("ny."), completed("stop"), stepped()];
    const chat = collect(...events).chatResult();
    expect(collect(unknown, ...events.flatMap((event) => [event, unknown])).chatResult()).toEqual(chat);
  });
});

describe("[allm 29] text", () => {
  test("deltas add up, and a completed block replaces the text of its deltas", () => {
    expect(collect(delta("Sun"), delta("ny.")).text).toBe("Sunny.");
    const corrected = { type: "text_completed", id: null, text: "Sunny!", phase: null, provider: null } as const;
    expect(collect(delta("Sun"), delta("ny."), corrected).text).toBe("Sunny!");
  });

  test("blocks are separate: completing one does not change another", () => {
    const second = { type: "text_completed", id: "b", text: "two", phase: null, provider: null } as const;
    expect(collect(delta("one ", "a"), delta("tw", "b"), second).text).toBe("one two");
    expect(collect(delta("one ", "a"), delta("two ", "b"), delta("more ", "a")).text).toBe("one more two ");
  });

  test("message_completed without a finish reason does not erase an earlier one", () => {
    expect(collect(completed("stop"), completed(null)).reply().finishReason).toBe("stop");
    expect(collect({ type: "error", error: failure }, completed(null)).reply().finishReason).toBe("error");
  });
});

describe("[allm 30] tool calls", () => {
  test("keep the order in which they first appear", () => {
    const reply = collect(started("a", "x"), started("b", "y"), called("b", "y"), called("a", "x")).reply();
    expect(reply.toolCalls.map((call) => call.id)).toEqual(["a", "b"]);
  });

  test("without a completed event have their raw arguments and no parsed ones", () => {
    const [call] = collect(started("a", "x"), argued("a", '{"ci'), argued("a", 'ty"')).reply().toolCalls;
    expect(call).toMatchObject({ id: "a", name: "x", arguments: null, rawArguments: '{"city"' });
    expect(collect(argued("z", "{}")).reply().toolCalls).toMatchObject([{ id: "z", name: "" }]);
  });

  test("that the provider executed are not among the calls to answer", () => {
    const search = { ...started("s", "web_search"), providerExecuted: true };
    expect(
      collect(search, started("a", "x"))
        .reply()
        .toolCalls.map((call) => call.id),
    ).toEqual(["a"]);
  });
});

test("[allm 31] an error event sets finish reason and error, and keeps the received text", () => {
  const reply = collect(delta("Sun"), { type: "error", error: failure }).reply();
  expect(reply).toMatchObject({ finishReason: "error", error: failure, outputText: "Sun" });
});

describe("[allm 32] halts", () => {
  test("every call has an answer, and of several halts the one with the lowest call index counts", () => {
    const [step] = collect(
      answered("c", "3"),
      halted("b", "enough"),
      askUserEvent("a"),
      halted("d", "later"),
      stepped("a", "b", "c", "d"),
    ).chatResult().steps;
    expect(step?.toolResults.map((result) => [result.toolCallId, result.content])).toEqual([
      ["a", "<awaiting user response>"],
      ["b", "enough"],
      ["c", "3"],
      ["d", "later"],
    ]);
    expect(step?.metadata).toEqual({
      haltedReason: "ask_user",
      pendingToolCallId: "a",
      pendingQuestion: "Which?",
      askUserOpts: { choices: ["a"] },
    });
    expect(step?.done).toBe(true);
  });

  test("a halt that a tool asked for has a haltResult, a failure that halted the run has none", () => {
    const own = collect(halted("a", "enough"), stepped("a")).stepResult();
    expect(own.metadata).toEqual({ haltedReason: "enough", haltToolCallId: "a", haltResult: { why: "enough" } });
    const error = collect(halted("a", "tool_error"), stepped("a")).stepResult();
    expect(error.metadata).toEqual({ haltedReason: "tool_error", haltToolCallId: "a" });
  });
});

describe("[allm 33] steps", () => {
  test("a step collects the events before step_completed, and the next step starts empty", () => {
    const collector = collect(
      delta("One"),
      called("a", "x"),
      answered("a", "1"),
      completed("tool_calls"),
      stepped("a"),
    );
    expect(collector.stepResult()).toMatchObject({
      thread: fromMessages([user("after")]),
      response: stepped("a").response,
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
    expect(collector.chatResult()).toMatchObject({
      thread: fromMessages([user("after")]),
      usage: { inputTokens: 6 },
    });
  });

  test("halts, errors and metadata of a step are not in the next step", () => {
    const collector = collect(
      halted("a", "enough"),
      { type: "error", error: failure },
      completed(null, { cached: true }),
      stepped("a"),
    );
    expect(collector.stepResult().metadata).toMatchObject({ haltedReason: "enough", error: failure });
    expect(collector.reply()).toMatchObject({ error: null, metadata: {}, finishReason: null, rawFinishReason: null });
    collector.add(completed("stop"));
    collector.add(stepped());
    expect(collector.stepResult()).toMatchObject({ metadata: {}, done: true });
  });

  test.each(["stop", "length", "content_filter", "error", "tool_calls"] as const)(
    "the run is done after a step with the finish reason %s, unless it is tool_calls",
    (finishReason) => {
      const event: StepCompleted = { ...stepped("a"), response: { ...stepped("a").response, finishReason } };
      expect(collect({ ...completed(null), finishReason }, event).stepResult().done).toBe(
        finishReason !== "tool_calls",
      );
    },
  );

  test("manual calls are in the step result, and the mode only if the reply calls tools", () => {
    const call = toolCall({ id: "a", name: "pay", arguments: {} });
    const left: StepCompleted = { ...stepped("a"), manualToolCalls: [call], mode: "manual" };
    expect(collect(left).stepResult().metadata).toEqual({ mode: "manual", manualToolCalls: [call] });
    const cut: StepCompleted = {
      ...stepped("a"),
      mode: "manual",
      response: { ...stepped("a").response, finishReason: "length" },
    };
    expect(collect(cut).stepResult().metadata).toEqual({});
  });
});

describe("[allm 34] results", () => {
  test("a reply has the data that its provider reported", () => {
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

  test("a message with parts is kept as the adapter returned it", () => {
    const event = completed("stop");
    const parts = [textPart("Sun"), textPart("ny.")];
    const reply = collect(delta("Sunny."), { ...event, message: assistant(parts) }).reply();
    expect(reply.message?.content).toEqual(parts);
  });

  test("a run has the result of chat_completed", () => {
    const result = chatResult({ type: "max_turns", maxTurns: 1 });
    expect(collect(delta("x"), { type: "chat_completed", result }).chatResult()).toBe(result);
  });

  test("a run that was left early is cancelled, and its received text is in partial, not in the thread", () => {
    const result = collect(stepped("a"), delta("It is")).chatResult();
    expect(result).toMatchObject({ haltedReason: "cancelled", partial: { content: "It is" } });
    expect(result.thread.messages).toEqual([user("after")]);
    expect(result.steps).toHaveLength(1);
  });

  test("a run with an error has the outcome provider_error and the failure", () => {
    expect(collect({ type: "error", error: failure }).chatResult()).toMatchObject({
      haltedReason: "error",
      outcome: { type: "provider_error", failure },
      metadata: { error: failure },
    });
  });

  test("a step that was left early has the received text, and a step with an error has the failure", () => {
    expect(collect(delta("It is")).stepResult()).toMatchObject({
      thread: start,
      response: { outputText: "It is", finishReason: null },
      toolResults: [],
    });
    expect(collect(delta("It is"), { type: "error", error: failure }).stepResult()).toMatchObject({
      response: { outputText: "It is", finishReason: "error", error: failure },
    });
  });

  test("step and chat results need the thread before the run", () => {
    expect(() => new Collector().stepResult()).toThrow(MisuseError);
    expect(() => new Collector().chatResult()).toThrow(/new Collector\(thread\)/);
  });
});

describe("content that only message_completed has", () => {
  test("text and calls are taken from the completed message", () => {
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

  test("a run that was left early has the usage of all its steps", () => {
    const collector = collect(stepped("a"), stepped("b"), { type: "usage", usage: usage({ inputTokens: 10 }) });
    expect(collector.chatResult().usage.inputTokens).toBe(16);
    expect(collect().chatResult().finalResponse).toBeNull();
    expect(collector.stepResult()).toBe(collector.chatResult().steps.at(-1));
  });

  test("alternating between many blocks and calls takes linear time", () => {
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

test("two calls of one id get different ids, also in the parts of the message", () => {
  const calls = [0, 1].map((a) => toolCall({ id: "c", name: "weather", arguments: { a } }));
  const parts = [textPart("Looking."), toolCallPart("c"), toolCallPart("c")];
  const reply = collect({ ...completed("tool_calls"), message: assistant(parts, { toolCalls: calls }) }).reply();
  expect(reply.toolCalls.map(({ id }) => id)).toEqual(["c", "c~2"]);
  expect(reply.message?.content).toMatchObject([{ type: "text" }, { toolCallId: "c" }, { toolCallId: "c~2" }]);
  expect(reply.message?.toolCalls).toEqual(reply.toolCalls);
});

describe("no event is lost, doubled or thrown", () => {
  const reset = { type: "step_reset", reason: "retry", withdrawn: [], effectId: null, attempt: null } as const;

  test("a thousand steps with their whole threads are folded, and the messages keep their identity", () => {
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

  test("values that cannot be stored can be collected", () => {
    let deep: Json = 1;
    for (let level = 0; level < 200; level += 1) deep = [deep];
    const call = toolCall({ id: "a", name: "x", arguments: {} });
    const hinted = { ...askUserEvent("a"), opts: { password: "hint" } };
    const collector = collect(
      { ...completed("tool_calls"), metadata: { cookie: "x" } },
      { type: "tool_call_completed", ...call, arguments: { deep }, providerExecuted: false },
      hinted,
      stepped("a"),
    );
    expect(collector.stepResult().metadata.askUserOpts).toEqual({ password: "hint" });
  });

  test("blocks without ids that are completed at the end are not doubled", () => {
    const thought = { type: "reasoning_completed", id: null, text: "hm", redacted: false, provider: null } as const;
    const text = { type: "text_completed", id: null, text: "Hi!", phase: null, provider: null } as const;
    const collector = collect({ type: "reasoning_delta", id: null, delta: "h" }, delta("Hi"), thought, text);
    expect(collector.text).toBe("Hi!");
    expect(collector.partial()?.content).toMatchObject([{ text: "hm" }, { text: "Hi!" }]);
  });

  test("a reply that was complete when the run was left is the final response", () => {
    const result = collect(stepped("a"), delta("It is sunny."), completed("stop")).chatResult();
    expect(result.finalResponse).toMatchObject({ outputText: "It is sunny.", finishReason: "stop" });
  });

  test("step_reset also discards answers and halts", () => {
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

  test("an error is final, whatever message_completed says, and belongs to its step", () => {
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

test("step_reset discards the open attempt and nothing else", () => {
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
