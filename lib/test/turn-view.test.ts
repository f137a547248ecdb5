// The view of a turn: the same for every reader, whatever part of the stream it got and however it was cut.

import type { Message, TurnChange, TurnEvent } from "everturn/model";
import type { RuntimeEvent } from "everturn/runtime";

import { engine, fake, stream, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { assistant, TurnView, user } from "everturn/model";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

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
      expect(view.add(reset("retry"))).toEqual([{ type: "discarded", blocks }]);
      expect(blocks.length).toBeGreaterThan(0);
      expect([view.snapshot.blocks, view.snapshot.messages]).toEqual([[], messages]);
    }
  });

  test("discards the open step if it is restarted, and no earlier one", () => {
    const reply = (text: string, id: string) =>
      ({
        type: "message_completed",
        message: assistant(text, { toolCalls: [{ id, name: "weather", arguments: {} }] }),
        finishReason: "tool_calls",
        rawFinishReason: null,
        requestId: null,
        responseId: null,
        model: null,
        route: null,
        output: null,
        metadata: {},
      }) as const;
    const view = viewOf([reply("one", "a"), reply("two", "b")]);
    expect([...view.snapshot.calls.keys()]).toEqual(["b"]);
    view.add(reset("restart"));
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
