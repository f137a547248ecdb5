import type { RuntimeEvent, SessionView } from "../data/types.ts";
import type { Message, TurnEvent } from "everturn";

import { assistant, newSession, toolResult, user } from "everturn";
import { TurnView, usage } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { seenEvent } from "../data/session-events.ts";
import { wholeText } from "./open-text.ts";
import {
  addMessages,
  callKey,
  committedAnswer,
  emptyConversation,
  lastTurnOf,
  missingAtEnd,
  settleSteered,
  waitingCallsOf,
  withEvents,
  withHead,
  withSteered,
} from "./session-store.ts";

const call = { id: "call-1", name: "find_order", arguments: { order: 1042 } };

/** The call waits for an approval. */
const pending = {
  ...call,
  rawArguments: null,
  provider: null,
  metadata: {},
  reason: "approval",
  question: null,
  answerAs: "user_message",
  opts: {},
  decision: null,
  idempotencyKey: null,
  cellId: null,
  path: [],
  shown: { name: call.name, arguments: call.arguments, parents: [], replay: "never" },
  digest: "digest",
} as const;

function head(length: number, openTurn: string | null): SessionView {
  const { context: _, ...session } = newSession({ id: "s1" });
  return {
    session: { ...session, context: {} },
    version: length,
    length,
    engine: "default",
    owner: null,
    startedBy: [],
    forkedFrom: null,
    openTurn:
      openTurn === null
        ? null
        : { turnId: openTurn, status: "running", step: 0, engine: "default", base: 0, failure: null, limitWait: null },
    queuedTurns: [],
  };
}

function live(event: TurnEvent, delta: RuntimeEvent["delta"] = null): RuntimeEvent {
  return { cursor: "1", turnId: "t1", sequence: null, delta, event };
}

function text(delta: string, offset: number, epoch = 1): RuntimeEvent {
  return live({ type: "text_delta", id: null, delta }, { attempt: { epoch, n: 1 }, part: "text/0", offset });
}

function completed(message: Extract<Message, { role: "assistant" }>): RuntimeEvent {
  return live({
    type: "message_completed",
    message,
    finishReason: "stop",
    rawFinishReason: null,
    requestId: null,
    responseId: null,
    model: null,
    route: null,
    output: null,
    metadata: {},
  });
}

const started = addMessages(withHead(emptyConversation("s1"), head(1, "t1")), 0, [user("Order 1042 came broken")]);

/** The events that led to a state of a test. */
const earlier = new WeakMap<typeof started, readonly RuntimeEvent[]>();

/** The state after events of a turn, with the view of those that led to it. */
function withRuntimeEvents(state: typeof started, turnId: string, events: readonly RuntimeEvent[]): typeof started {
  const view = new TurnView();
  const before = earlier.get(state) ?? [];
  for (const event of before) view.add(event);
  const next = withEvents(
    state,
    turnId,
    events.map((event) => seenEvent(view, event)),
  );
  if (next !== state) earlier.set(next, [...before, ...events]);
  return next;
}

function openText(state: typeof started): string {
  return (state.turn?.open?.parts ?? []).map((part) => (part.type === "text" ? wholeText(part.text) : "")).join("|");
}

test("a fork has no last turn until it has messages of its own", () => {
  const lastRun = {
    turnId: "t1",
    haltedReason: "completed",
    outcome: { type: "assistant_message", text: "Hello" },
    steps: 1,
    usage: usage(),
    budget: null,
    metadata: {},
    partial: null,
  } as const;
  const whole = head(2, null);
  const ended = { ...whole, session: { ...whole.session, lastRun } };
  const fork = { ...ended, forkedFrom: { sessionId: "s0", at: 2 } };
  expect([null, whole, ended, fork, { ...fork, length: 4 }].map(lastTurnOf)).toEqual([null, null, "t1", null, "t1"]);
});

describe("the open turn", () => {
  test("appends deltas to the open reply and repeats no text that is there already", () => {
    const state = withRuntimeEvents(started, "t1", [text("Hello ", 0), text("world", 6), text("lo world!", 3)]);
    expect(openText(state)).toBe("Hello world!");
    expect(state.calls).toBe(started.calls);
  });

  test("replaces the open reply by the completed message", () => {
    const state = withRuntimeEvents(started, "t1", [text("Hel", 0), completed(assistant("Hello"))]);
    expect(state.turn?.open).toBeNull();
    expect(state.turn?.items).toEqual([{ type: "message", index: 1, message: assistant("Hello") }]);
  });

  test("ignores events of another turn", () => {
    expect(withRuntimeEvents(started, "t0", [text("old", 0)])).toBe(started);
  });

  test("shows progress, duration and answer of a call, under the reply that made it", () => {
    const reply = assistant("", { toolCalls: [call] });
    const ofAttempt = { effectId: null, attempt: null };
    const running = withRuntimeEvents(started, "t1", [
      completed(reply),
      live({
        type: "tool_execution_started",
        id: "call-1",
        name: "find_order",
        arguments: { order: 1042 },
        ...ofAttempt,
      }),
      live({ type: "tool_progress", id: "call-1", name: "find_order", progress: { done: 1, total: 3 }, ...ofAttempt }),
    ]);
    expect(running.calls.get(callKey(1, "call-1"))).toMatchObject({
      state: "running",
      progress: { done: 1, total: 3 },
    });
    const ended = withRuntimeEvents(running, "t1", [
      live({
        type: "tool_execution_completed",
        id: "call-1",
        name: "find_order",
        result: { type: "success", value: "paid", control: null },
        durationMs: 612,
      }),
      live({
        type: "tool_result_encoded",
        id: "call-1",
        content: "paid",
        status: "success",
        code: null,
        ranArguments: null,
      }),
    ]);
    expect(ended.calls.get(callKey(1, "call-1"))).toMatchObject({
      state: "succeeded",
      durationMs: 612,
      answer: { content: "paid" },
    });
  });

  test("keeps calls of two replies apart that have the same id", () => {
    const reply = assistant("", { toolCalls: [call] });
    const answer = live({
      type: "tool_result_encoded",
      id: "call-1",
      content: "first",
      status: "success",
      code: null,
      ranArguments: null,
    });
    const state = withRuntimeEvents(started, "t1", [completed(reply), answer, completed(reply)]);
    expect(state.calls.get(callKey(1, "call-1"))?.answer?.content).toBe("first");
    expect(state.calls.has(callKey(3, "call-1"))).toBe(false);
  });

  test("finds the reply of a running call when its messages are loaded after the events", () => {
    const opened = withRuntimeEvents(withHead(emptyConversation("s1"), head(2, "t1")), "t1", [
      live({
        type: "tool_execution_started",
        id: "call-1",
        name: "find_order",
        arguments: { order: 7 },
        effectId: null,
        attempt: null,
      }),
    ]);
    const loaded = addMessages(opened, 0, [user("Order 1042 came broken"), assistant("", { toolCalls: [call] })]);
    expect([...loaded.calls.keys()]).toEqual([callKey(1, "call-1")]);
    expect(loaded.calls.get(callKey(1, "call-1"))).toMatchObject({ state: "running", arguments: { order: 7 } });
  });

  test("shows the arguments of an approval before the call has started", () => {
    const approved = { type: "approve", arguments: { order: 9 }, by: null } as const;
    const whole = head(2, "t1");
    const opened = withHead(emptyConversation("s1"), {
      ...whole,
      session: { ...whole.session, pendingToolCalls: [{ ...pending, decision: approved }] },
    });
    const loaded = addMessages(opened, 0, [user("Order 1042 came broken"), assistant("", { toolCalls: [call] })]);
    expect(loaded.calls.get(callKey(1, "call-1"))).toMatchObject({ state: "called", arguments: { order: 9 } });
  });

  test("keeps the text of a crashed attempt until the reply that replaces it is complete", () => {
    const reset = live({ type: "step_reset", reason: "recovery", withdrawn: [], effectId: null, attempt: null });
    const crashed = withRuntimeEvents(started, "t1", [text("I am asking for the ref", 0), reset, text("I am", 0, 2)]);
    expect(openText(crashed)).toBe("I am");
    expect(crashed.turn?.items).toMatchObject([
      { note: { type: "discarded", reason: "recovery", text: "I am asking for the ref", isReplaced: false } },
    ]);
    const replaced = withRuntimeEvents(crashed, "t1", [completed(assistant("I am asking for the refund."))]);
    expect(replaced.turn?.items).toMatchObject([{ note: { isReplaced: true } }, { type: "message", index: 1 }]);
  });

  test("has no reply twice after its step was restarted", () => {
    const reset = live({ type: "step_reset", reason: "restart", withdrawn: [], effectId: null, attempt: null });
    const state = withRuntimeEvents(started, "t1", [completed(assistant("one")), reset, completed(assistant("two"))]);
    expect(state.turn?.items).toMatchObject([{ type: "message", index: 1, message: { content: "two" } }]);
  });

  test("shows input that was accepted at a checkpoint, and not the input that started the turn", () => {
    const input = (checkpoint: "after_work" | null): RuntimeEvent =>
      live({ type: "input_accepted", turnId: "t1", checkpoint, inputs: [{ id: null, message: user("in euros") }] });
    expect(withRuntimeEvents(started, "t1", [input(null)]).turn?.items).toEqual([]);
    expect(withRuntimeEvents(started, "t1", [input("after_work")]).turn?.items).toHaveLength(1);
  });
});

describe("the end of a turn", () => {
  const streamed = withRuntimeEvents(started, "t1", [
    live({ type: "step_reset", reason: "recovery", withdrawn: [], effectId: null, attempt: null }),
    completed(assistant("Hello")),
    live({ type: "turn_started", turnId: "t1", sessionId: "s1" }),
  ]);

  test("keeps the items of the turn until its messages are loaded", () => {
    const ended = withHead(streamed, head(2, null));
    expect(missingAtEnd(ended)).toEqual({ from: 1, until: 2 });
    expect(ended.length).toBe(1);
    expect(ended.turn?.items).toHaveLength(2);
    const settled = addMessages(ended, 1, [assistant("Hello")]);
    expect(settled.turn).toBeNull();
    expect(settled.length).toBe(2);
    expect(settled.notes.get(1)).toMatchObject([{ type: "discarded", isReplaced: true }]);
  });

  test("begins the next turn at the new length", () => {
    const next = addMessages(withHead(streamed, head(3, "t2")), 1, [assistant("Hello"), user("Thanks")]);
    expect(next.turn).toMatchObject({ turnId: "t2", base: 3, items: [] });
    expect(next.length).toBe(3);
  });
});

describe("committed messages", () => {
  test("may be loaded in any order, and answers are found after their reply", () => {
    const opened = withHead(emptyConversation("s1"), head(4, null));
    expect(opened.length).toBe(4);
    const last = addMessages(opened, 2, [toolResult("call-1", "paid"), assistant("It is paid.")]);
    expect(committedAnswer(last, 1, "call-1")?.content).toBe("paid");
    const all = addMessages(last, 0, [user("Is it paid?"), assistant("", { toolCalls: [call] })]);
    expect(all.messages.size).toBe(4);
    expect(missingAtEnd(all)).toBeNull();
  });
});

describe("calls that wait for a person", () => {
  const waiting = (length: number) => {
    const view = head(length, null);
    return withHead(emptyConversation("s1"), { ...view, session: { ...view.session, pendingToolCalls: [pending] } });
  };
  const reply = assistant("", { toolCalls: [call] });

  test("belong to the reply that made them, once it is loaded", () => {
    expect(waitingCallsOf(waiting(2))).toEqual([]);
    const loaded = addMessages(waiting(2), 0, [user("Refund it"), reply]);
    expect(waitingCallsOf(loaded)).toEqual([{ pending, reply: 1, isLast: true }]);
  });

  test("have their form at the end if a message follows the reply", () => {
    const loaded = addMessages(waiting(3), 0, [user("Refund it"), reply, assistant("Which card?")]);
    expect(waitingCallsOf(loaded)).toEqual([{ pending, reply: 1, isLast: false }]);
  });

  test("have their form at the end if no reply made them, as in a code cell", () => {
    const loaded = addMessages(waiting(1), 0, [user("Refund it")]);
    expect(waitingCallsOf(loaded)).toEqual([{ pending, reply: null, isLast: false }]);
  });
});

test("finds the answer to a question, which follows the message that asks it", () => {
  const question = { id: "c1", name: "ask_user", arguments: { question: "Which?" } };
  const messages = new Map(
    [
      user("Book a table."),
      assistant("Let me ask.", { toolCalls: [question] }),
      assistant("Which?"),
      toolResult("c1", "The second"),
      assistant("Thank you.", { toolCalls: [question] }),
      toolResult("c1", "Another answer"),
    ].map((each: Message, index) => [index, each]),
  );
  expect(committedAnswer({ messages }, 1, "c1")?.content).toBe("The second");
  expect(committedAnswer({ messages }, 4, "c1")?.content).toBe("Another answer");
  expect(committedAnswer({ messages }, 1, "c2")).toBeNull();
});

test("a message that starts a turn is shown while it is sent, until it is part of the conversation", () => {
  const ended = addMessages(withHead(emptyConversation("s1"), head(2, null)), 0, [user("Again"), assistant("Hello")]);
  const message = user("Again");
  const sending = withSteered(ended, message);
  expect(sending.steered).toEqual([{ message, isSent: false, startsTurn: true }]);
  expect(settleSteered(sending, message, false).steered).toEqual([]);
  const sent = settleSteered(sending, message, true);
  expect(sent.steered).toMatchObject([{ isSent: true }]);
  // Older messages that are loaded now may have the same text.
  expect(addMessages(sent, 0, [user("Again")]).steered).toHaveLength(1);
  const shown = addMessages(withHead(sent, head(3, "t2")), 2, [user("Again")]);
  expect([shown.steered, shown.length]).toEqual([[], 3]);
});
