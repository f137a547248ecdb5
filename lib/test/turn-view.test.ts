// The view of a turn: the same for every reader, whatever part of the stream it got and however it was cut.

import type { FakeScript, AssistantMessage, Message, TurnEvent } from "everturn";
import type { TurnCall, TurnChange } from "everturn/advanced";
import type { RuntimeEvent } from "everturn/runtime";

import { askUser, engine, fake, stream, tool, assistant, user } from "everturn";
import { modelReply, toolCall, TurnView } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { handModel } from "./hand-model.ts";

const script = [
  [
    { type: "reasoning", text: "The user wants the weather of Rome." },
    { type: "text", text: "I look it up." },
    { type: "tool_call", id: "a", name: "weather", arguments: { city: "Rome" } },
    { type: "tool_call", id: "b", name: "weather", arguments: { city: "Oslo" } },
  ],
  [{ type: "text", text: "Rome has sun, Oslo has none." }],
] as const;

const weather = tool({
  name: "weather",
  description: "The weather of a city.",
  schema: { type: "object" },
  handler: (args: { readonly city?: string }) => `sun in ${args.city ?? ""}`,
});

const named = (name: string) => ({ name, description: `The tool ${name}.`, schema: { type: "object" } });
const tools = [
  weather,
  tool({ ...named("pay"), needsApproval: true, handler: () => "paid" }),
  tool({ ...named("pick"), manual: true }),
  tool({ ...named("ask"), handler: () => askUser("Really?") }),
];

const call = (name: string, id: string) => ({ type: "tool_call", id, name, arguments: {} }) as const;

/** Turns that end in another way than with an answer. */
const endings: {
  readonly [name: string]: {
    readonly scripts: readonly FakeScript[];
    readonly messages: readonly (readonly [Message["role"], string])[];
    readonly calls: readonly (readonly [id: string, TurnCall["state"]])[];
  };
} = {
  waits: {
    scripts: [[call("pay", "a"), call("pick", "b"), call("weather", "c"), call("ask", "d")]],
    messages: [
      ["assistant", ""],
      ["tool", "sun in "],
    ],
    calls: [
      ["a", "waiting"],
      ["b", "waiting"],
      ["c", "succeeded"],
      ["d", "waiting"],
    ],
  },
  cutOff: {
    scripts: [[{ type: "text", text: "Too long" }, call("weather", "a"), { type: "finish", reason: "length" }]],
    messages: [["assistant", "Too long"]],
    calls: [["a", "failed"]],
  },
  unknownTool: {
    scripts: [[call("missing", "a"), call("weather", "b")]],
    messages: [["assistant", ""]],
    calls: [
      ["a", "failed"],
      ["b", "failed"],
    ],
  },
  failed: {
    scripts: [
      [call("weather", "a")],
      [{ type: "text", text: "Half" }, call("weather", "b"), { type: "error", reason: "content_filter" }],
    ],
    messages: [
      ["assistant", ""],
      ["tool", "sun in "],
      ["assistant", "Half"],
    ],
    calls: [],
  },
};

const completed = (message: AssistantMessage): TurnEvent => ({
  type: "message_completed",
  message,
  finishReason: null,
  rawFinishReason: null,
  requestId: null,
  responseId: null,
  model: null,
  route: null,
  output: null,
  metadata: {},
});

const agent = () => engine({ adapter: fake({ scripts: script }), model: "fake:m", tools: [weather] });

async function allOf<T>(events: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function viewOf(events: readonly (TurnEvent | RuntimeEvent)[]): TurnView {
  const view = new TurnView();
  for (const event of events) view.add(event);
  return view;
}

/** The text that the changes report, by step and part. */
function reportedTexts(events: readonly (TurnEvent | RuntimeEvent)[]): readonly string[] {
  const view = new TurnView();
  const texts = new Map<string, string>();
  let replies = 0;
  const note = (change: TurnChange): void => {
    if (change.type === "reply") replies += 1;
    if (change.type !== "text" && change.type !== "reasoning") return;
    const key = `${replies} ${change.part}`;
    expect(change.isStart).toBe(!texts.has(key));
    texts.set(key, (texts.get(key) ?? "") + change.delta);
  };
  for (const event of events) view.add(event).forEach(note);
  return [...texts].map(([key, text]) => `${key}: ${text}`);
}

/** Splits every delta into single characters. */
function cutDeltas(events: readonly TurnEvent[]): readonly TurnEvent[] {
  return events.flatMap((event): readonly TurnEvent[] => {
    if (event.type === "text_delta" || event.type === "reasoning_delta") {
      return [...event.delta].map((delta) => ({ ...event, delta }));
    }
    if (event.type === "tool_call_delta") {
      return [...event.argumentsDelta].map((argumentsDelta) => ({ ...event, argumentsDelta }));
    }
    return [event];
  });
}

const reset = (reason: "retry" | "restart"): TurnEvent => ({
  type: "step_reset",
  reason,
  withdrawn: [],
  effectId: null,
  attempt: null,
});

describe("the view of a turn", () => {
  test("has the messages of the turn as the thread has them, and the calls with their states", async () => {
    const events = await allOf(stream(agent(), "weather?"));
    const { messages, blocks, calls, steps, result } = viewOf(events).snapshot;
    expect(messages.map(({ role, content }) => [role, content])).toEqual(
      result?.thread.messages.slice(1).map(({ role, content }) => [role, content]),
    );
    expect([blocks, steps, calls.size]).toEqual([[], 2, 0]);
    const beforeEnd = events.slice(0, events.findIndex(({ type }) => type === "step_completed") + 1);
    expect([...viewOf(beforeEnd).snapshot.calls.values()].map(({ id, state }) => [id, state])).toEqual([
      ["a", "succeeded"],
      ["b", "succeeded"],
    ]);
  });

  test("does not depend on how the stream was cut, at any point of it", async () => {
    const events = await allOf(stream(agent(), "weather?"));
    for (let end = 0; end <= events.length; end += 1) {
      const whole = events.slice(0, end);
      expect(viewOf(cutDeltas(whole)).snapshot).toEqual(viewOf(whole).snapshot);
    }
    expect(reportedTexts(cutDeltas(events))).toEqual(reportedTexts(events));
  });

  test("is the same for a reader that joins late, at any point of the turn", async () => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent() } });
    const turn = await sessions.start("weather?", { id: "s" });
    const live = await allOf(turn.events);
    const stored = await allOf(sessions.events("s", { follow: false }));
    expect(stored.length).toBeLessThan(live.length);
    const strip = (events: readonly RuntimeEvent[]) => viewOf(events).snapshot;
    expect(strip(stored)).toEqual(strip(live));
    expect(reportedTexts(stored)).toEqual(reportedTexts(live));
    // A reader that joins inside of a reply gets the stored events and then its deltas, the first ones merged.
    for (const [end, { sequence }] of live.entries()) {
      if (sequence !== null) continue;
      const before = live.slice(0, end + 1);
      const lastStored = before.findLastIndex((event) => event.sequence !== null);
      const joined = [
        ...before.filter((event, index) => event.sequence !== null && index <= lastStored),
        ...before.slice(lastStored + 1),
      ];
      expect(strip(joined).blocks).toEqual(strip(before).blocks);
      expect(strip(joined).messages).toEqual(strip(before).messages);
    }
    await sessions.close();
  });

  test("reports text once that arrives again, by its offset", () => {
    const delta = (text: string, offset: number): RuntimeEvent => ({
      cursor: "",
      turnId: "t",
      sequence: null,
      delta: { attempt: { epoch: 1, n: 1 }, part: "text/0", offset },
      event: { type: "text_delta", id: null, delta: text },
    });
    const view = new TurnView();
    const changes = [delta("Hel", 0), delta("Hello", 0), delta("lo", 3), delta("!", 5)].flatMap((event) =>
      view.add(event),
    );
    expect(changes.map((change) => (change.type === "text" ? change.delta : change.type))).toEqual(["Hel", "lo", "!"]);
    expect(view.snapshot.blocks).toEqual([{ type: "text", part: "text/0", text: "Hello!" }]);
  });

  test("discards exactly the blocks of the attempt at a reset", async () => {
    const events = await allOf(stream(agent(), "weather?"));
    const completed = events.flatMap(({ type }, index) => (type === "message_completed" ? [index] : []));
    for (let end = 0; end < events.length; end += 1) {
      const isInReply = completed.some((index, step) => end < index && end > (completed[step - 1] ?? -1) + 1);
      if (!isInReply || !["text_delta", "reasoning_delta", "tool_call_delta"].includes(events[end]?.type ?? ""))
        continue;
      const view = viewOf(events.slice(0, end + 1));
      const { blocks, messages } = view.snapshot;
      const callIds = blocks.flatMap(({ type, part }) => (type === "call" ? [part] : []));
      expect(view.add(reset("retry"))).toEqual([{ type: "discarded", blocks, reply: null, callIds }]);
      expect(blocks.length).toBeGreaterThan(0);
      expect([view.snapshot.blocks, view.snapshot.messages]).toEqual([[], messages]);
    }
  });

  test("discards the open step if it is restarted, and no earlier one", () => {
    const assistantMessage = (text: string, id: string) =>
      assistant(text, { toolCalls: [{ id, name: "weather", arguments: {} }] });
    const reply = (text: string, id: string) => completed(assistantMessage(text, id));
    const view = viewOf([reply("one", "a"), reply("two", "b")]);
    expect([...view.snapshot.calls.keys()]).toEqual(["b"]);
    expect(view.add(reset("restart"))).toEqual([
      { type: "discarded", blocks: [], reply: assistantMessage("two", "b"), callIds: ["b"] },
    ]);
    expect(view.snapshot.messages.map(({ content }) => content)).toEqual(["one"]);
    expect(view.snapshot.calls.size).toBe(0);
  });

  test("has the answers to calls of an earlier turn before the reply that follows them", async () => {
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => "paid",
    });
    const scripts = [
      [
        { type: "tool_call", id: "a", name: "pay", arguments: {} },
        { type: "tool_call", id: "b", name: "pay", arguments: {} },
      ],
      [{ type: "text", text: "Both are paid." }],
    ] as const;
    const paying = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: paying } });
    await (
      await sessions.start("pay both", { id: "s" })
    ).result;
    await sessions.decide("s", "b", { type: "approve" });
    const turn = await sessions.decide("s", "a", { type: "approve" });
    const events = await allOf(turn.events);
    const stored = await sessions.get("s");
    const shown = (messages: readonly Message[]) =>
      messages.map((message) => [
        message.content,
        message.role === "tool" ? [message.toolCallId, message.name, message.status, message.code] : message.role,
      ]);
    const added = shown(stored?.session.thread.messages.slice(2) ?? []);
    expect(added.length).toBe(3);
    expect(shown(viewOf(events).snapshot.messages)).toEqual(added);
    const answers = events.slice(0, events.findLastIndex(({ event }) => event.type === "tool_result_encoded") + 1);
    expect(shown(viewOf(answers).snapshot.messages)).toEqual(added.slice(0, 2));
    await sessions.close();
  });

  test("has the calls and what was received of every reply, however the turn ends, also from stored events alone", async () => {
    for (const [name, { scripts, messages, calls }] of Object.entries(endings)) {
      const sessions = runtime({
        host: memoryStorage(),
        engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools }) },
      });
      const live = await allOf((await sessions.start("go", { id: "s" })).events);
      const stored = await allOf(sessions.events("s", { follow: false }));
      for (const events of [live, stored]) {
        const { snapshot } = viewOf(events);
        expect([name, snapshot.messages.map(({ role, content }) => [role, content])]).toEqual([name, messages]);
        expect([name, [...snapshot.calls.values()].map(({ id, state }) => [id, state])]).toEqual([name, calls]);
        expect(snapshot.blocks).toEqual([]);
      }
      expect([name, reportedTexts(stored)]).toEqual([name, reportedTexts(live)]);
      expect(viewOf(stored).snapshot.failure).toEqual(viewOf(live).snapshot.failure);
      await sessions.close();
    }
  });

  test("has what was received before a cancel, and no reply twice", async () => {
    const model = handModel();
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: model, model: "hand:m", tools }) },
    });
    await sessions.start("go", { id: "s" });
    (await model.call(1)).callTool("weather");
    await (await model.call(2)).say("Hel");
    await sessions.cancel("s");
    const events = await allOf(sessions.events("s", { follow: false }));
    const session = await sessions.get("s");
    const committed = session?.session.thread.messages.slice(1).map(({ role, content }) => [role, content]);
    expect(viewOf(events).snapshot.messages.map(({ role, content }) => [role, content])).toEqual(committed);
    expect(committed?.at(-1)).toEqual(["assistant", "Hel"]);
    // Cancelled between two model calls: the result has the reply of the last step, which the view has already.
    const replies = events.filter(({ event }) => event.type === "message_completed");
    const reply = replies[0]?.event;
    const end = events.at(-1)?.event;
    if (reply?.type !== "message_completed" || end?.type !== "chat_completed") throw new Error("no reply or no end");
    const finalResponse = modelReply({ message: reply.message });
    const between = viewOf([reply, { ...end, result: { ...end.result, finalResponse } }]);
    expect(between.snapshot.messages.map(({ role }) => role)).toEqual(["assistant"]);
    await sessions.close();
  });

  test("reports the rest of a text after a lost delta, or after what the reader has, with the complete reply", () => {
    const at = (text: string, offset: number): RuntimeEvent => ({
      cursor: "",
      turnId: "t",
      sequence: null,
      delta: { attempt: { epoch: 1, n: 1 }, part: "text/0", offset },
      event: { type: "text_delta", id: null, delta: text },
    });
    const reported = (view: TurnView, events: readonly (TurnEvent | RuntimeEvent)[]) =>
      events.flatMap((event) => view.add(event)).flatMap((change) => (change.type === "text" ? [change.delta] : []));
    expect(reported(new TurnView(), [at("Hel", 0), at("!", 5), completed(assistant("Hello!"))])).toEqual([
      "Hel",
      "lo!",
    ]);
    const received = new Map([["text/0", 3]]);
    expect(reported(new TurnView({ received }), [at("lo", 3), completed(assistant("Hello!"))])).toEqual(["lo", "!"]);
  });

  test("reports calls and other parts of a complete reply at their places, and their arguments once", () => {
    const search = toolCall({ id: "w", name: "search", arguments: { q: "sun" } });
    const own = toolCall({ id: "a", name: "weather", arguments: { city: "Rome" }, rawArguments: '{"city":"Rome"}' });
    const message = assistant(
      [
        { type: "text", text: "I search." },
        { type: "tool_call", toolCallId: "w", providerExecuted: search },
        { type: "tool_result", toolCallId: "w", content: "much sun" },
        { type: "text", text: "And ask." },
      ],
      { toolCalls: [own] },
    );
    const start: readonly TurnEvent[] = [
      { type: "text_delta", id: "0", delta: "I search." },
      { type: "tool_call_started", id: "a", name: "weather", providerExecuted: false },
      { type: "tool_call_delta", id: "a", argumentsDelta: '{"city"' },
    ];
    const shown = (change: TurnChange): string => {
      if (change.type === "call") return `call ${change.call.id} ${change.isReported}`;
      if (change.type === "call_started") return `started ${change.id}`;
      return "delta" in change ? change.delta : change.type;
    };
    const reported = (events: readonly TurnEvent[]) => {
      const view = new TurnView();
      return events.flatMap((event) => view.add(event)).map(shown);
    };
    const whole = ["started w", '{"q":"sun"}', "call w true", "part", "And ask."];
    expect(reported([...start, completed(message)])).toEqual(
      ["I search.", "started a", '{"city"', whole, ':"Rome"}', "call a true", "reply"].flat(),
    );
    expect(reported([completed(message)])).toEqual(
      ["I search.", whole, "started a", '{"city":"Rome"}', "call a true", "reply"].flat(),
    );
    const other = assistant("", { toolCalls: [{ ...own, rawArguments: "{}" }] });
    expect(reported([...start.slice(1), completed(other)])).toEqual(["started a", '{"city"', "call a false", "reply"]);
  });

  test("has input that was added to the open turn, and not the input that started it", () => {
    const accepted = (checkpoint: "after_work" | null): TurnEvent => ({
      type: "input_accepted",
      turnId: "t",
      checkpoint,
      inputs: [{ id: null, message: user("and Oslo?") }],
    });
    expect(viewOf([accepted(null)]).snapshot.messages).toEqual([]);
    expect(viewOf([accepted("after_work")]).snapshot.messages).toEqual([user("and Oslo?")]);
  });

  test("returns the same snapshot until an event arrives, and a delta costs the same after much text", () => {
    const view = new TurnView();
    expect(view.snapshot).toBe(view.snapshot);
    const event: TurnEvent = { type: "text_delta", id: null, delta: "x".repeat(100) };
    for (let count = 0; count < 200_000; count += 1) view.add(event);
    expect(view.snapshot.blocks[0]?.text?.length).toBe(20_000_000);
  });
});
