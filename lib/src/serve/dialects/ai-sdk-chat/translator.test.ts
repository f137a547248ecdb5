// Turns as chunks that the AI SDK's own schemas and reader accept, from any position at which a reader starts.

import type { UiChunk } from "./chunks.ts";
import type { FakeScript, FakeStep, TurnEvent } from "everturn";
import type { RuntimeEvent } from "everturn/runtime";

import { askUser, engine, fake, tool, assistant } from "everturn";
import { chatResult, toolCall } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { readAll } from "../../../../test/readings.ts";
import { readChunks, sdk } from "../../../../test/ui-client.ts";
import { noUsage, runtimeFailure } from "../../../core/model/internal.ts";
import { UiTranslator } from "./translator.ts";

const schema = { type: "object" };
const tools = [
  tool({
    name: "look",
    description: "Looks.",
    schema,
    handler: (input, { progress }) => {
      progress({ percent: 10 });
      progress({ percent: 90 });
      return { seen: input };
    },
  }),
  tool({
    name: "broken",
    description: "Breaks.",
    schema,
    handler: () => {
      throw new Error("it broke");
    },
  }),
  tool({ name: "pay", description: "Pays.", schema, needsApproval: true, handler: () => "paid" }),
  tool({ name: "pick", description: "Picks.", schema, manual: true }),
  tool({ name: "ask", description: "Asks.", schema, handler: () => askUser("Really?") }),
];

/** All events that a live reader of a turn receives. */
async function recorded(scripts: readonly FakeScript[]): Promise<readonly RuntimeEvent[]> {
  const retry = { maxAttempts: 2, baseDelayMs: 0, afterOutput: true };
  const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools, retry }) };
  const sessions = runtime({ host: memoryStorage(), engines });
  return readAll((await sessions.start("Go", { id: "s" })).events);
}

function translated(events: readonly RuntimeEvent[], translator = new UiTranslator({ sdk })): readonly UiChunk[] {
  return [...events.flatMap((event) => translator.add(event)), ...translator.end(null)];
}

const call = (name: string, id: string): FakeStep => ({ type: "tool_call", id, name, arguments: { of: id } });
const written = (id: string, name: string): readonly FakeStep[] => [
  { type: "tool_call_delta", id, name, argumentsDelta: '{"o' },
  { type: "tool_call_delta", id, argumentsDelta: 'f":1}' },
];

const turns: { readonly [name: string]: readonly FakeScript[] } = {
  text: [
    [
      { type: "reasoning", text: "Let me " },
      { type: "reasoning", text: "think." },
      { type: "text", text: "It is " },
      { type: "text", text: "so." },
    ],
  ],
  tools: [
    [{ type: "text", text: "Looking." }, ...written("a", "look"), call("broken", "b"), call("look", "c")],
    [call("look", "a")],
    [{ type: "text", text: "Seen." }],
  ],
  waits: [[{ type: "text", text: "May I?" }, call("pay", "a"), call("pick", "b"), call("look", "c"), call("ask", "d")]],
  retried: [
    [{ type: "reasoning", text: "Wrong" }, { type: "text", text: "Bad" }, ...written("a", "look"), { type: "cut" }],
    [{ type: "text", text: "Good" }, call("look", "a")],
    [{ type: "text", text: "Half" }, { type: "cut" }],
    [{ type: "text", text: "Whole" }],
  ],
  retracted: [
    [{ type: "text", text: "Bad" }, ...written("x", "look"), ...written("y", "pay"), { type: "cut" }],
    [{ type: "text", text: "Good" }],
  ],
  failed: [[{ type: "text", text: "Half" }, ...written("a", "look"), { type: "error", reason: "content_filter" }]],
  unfinished: [[{ type: "text", text: "Too long" }, call("look", "a"), { type: "finish", reason: "length" }]],
  unknown: [[call("missing", "a"), call("look", "b")]],
};

/** Errors of the reader, except the one of a failed turn. */
const wrong = (errors: readonly string[], chunks: readonly UiChunk[]) => {
  const errorTexts = chunks.flatMap((chunk) => (chunk.type === "error" ? [chunk.errorText] : []));
  return errors.filter((error) => !errorTexts.includes(error));
};

describe("a turn", () => {
  test.each(Object.entries(turns))("(%s) is a stream that the SDK accepts", async (_, scripts) => {
    const chunks = translated(await recorded(scripts));
    const { message, errors } = await readChunks(chunks);
    expect(wrong(errors, chunks)).toEqual([]);
    expect(chunks[0]).toMatchObject({ type: "start", messageId: message?.id });
    expect(chunks.findLast(({ type }) => type !== "tool-approval-request")?.type).toBe("finish");
    const steps = chunks.filter(({ type }) => type === "start-step" || type === "finish-step").map(({ type }) => type);
    expect(steps.every((type, index) => type === (index % 2 === 0 ? "start-step" : "finish-step"))).toBe(true);
    // No part is left incomplete, except calls that wait for the user.
    const open = message?.parts.filter((part) => "state" in part && part.state?.endsWith("streaming") === true);
    expect(open).toEqual([]);
  });

  test("requests approvals and answers only after it has ended", async () => {
    const chunks = translated(await recorded(turns["waits"] ?? []));
    const { message } = await readChunks(chunks);
    expect(message?.parts).toMatchObject([
      { type: "step-start" },
      { type: "text", text: "May I?" },
      { type: "tool-pay", state: "approval-requested", input: { of: "a" } },
      { type: "tool-pick", state: "input-available" },
      { type: "tool-look", state: "output-available", output: { seen: { of: "c" } } },
      { type: "tool-ask", state: "input-available" },
      { type: "data-question", data: { question: "Really?" } },
    ]);
    const types = chunks.map(({ type }) => type);
    // A chunk after a request would undo what a person has edited meanwhile.
    expect(types.slice(-2)).toEqual(["finish", "tool-approval-request"]);
    expect(chunks.at(-2)).toMatchObject({ finishReason: "tool-calls", messageMetadata: { status: "awaiting_user" } });
  });

  test("that was retried shows the last attempt and resets the others", async () => {
    const chunks = translated(await recorded(turns["retried"] ?? []));
    const resetType = sdk === 6 ? "data-step-reset" : "reset-step";
    expect(chunks.filter(({ type }) => type === resetType)).toHaveLength(2);
    const { message } = await readChunks(chunks);
    const parts = message?.parts;
    expect(parts).toMatchObject([
      { type: "step-start" },
      { type: "text", text: "Good" },
      { type: "tool-look", state: "output-available" },
      { type: "step-start" },
      { type: "text", text: "Whole" },
    ]);
  });

  test("that failed ends with one error of reason and message", async () => {
    const chunks = translated(await recorded(turns["failed"] ?? []));
    expect(chunks.slice(-3)).toMatchObject([
      { type: "message-metadata", messageMetadata: { status: "error", haltedReason: "error" } },
      { type: "error", errorText: "content_filter: adapter error (fake): content_filter" },
      { type: "finish", finishReason: "error" },
    ]);
    const { message } = await readChunks(chunks);
    expect(message?.parts).toMatchObject([
      { type: "step-start" },
      { type: "text", text: "Half" },
      { type: "tool-look", state: "output-error", errorText: "not_run: the call was not run" },
    ]);
  });

  test("sends warnings as transient data, which is not part of the message", async () => {
    const warning = { reason: "unsupported", path: "seed", message: "seed is not sent: the API has no seed" } as const;
    const chunks = translated(
      await recorded([
        [
          { type: "warning", warning },
          { type: "text", text: "Done." },
        ],
      ]),
    );
    expect(chunks).toContainEqual({ type: "data-warning", data: warning, transient: true });
    const { message, errors } = await readChunks(chunks);
    expect([message?.parts.map(({ type }) => type), errors]).toEqual([["step-start", "text"], []]);
  });

  test("shows calls that were not run as errors", async () => {
    for (const name of ["unfinished", "unknown"] as const) {
      const { message } = await readChunks(translated(await recorded(turns[name] ?? [])));
      const states = message?.parts.flatMap((part) => ("toolCallId" in part ? [part.state] : []));
      expect(new Set(states)).toEqual(new Set(["output-error"]));
    }
  });

  test("results in the same message for a live reader and one that joins after the end", async () => {
    // A call whose arguments were incomplete when the reply failed is not stored.
    const { failed: _, ...stored } = turns;
    for (const scripts of Object.values(stored)) {
      const events = await recorded(scripts);
      const entries = events.filter(({ sequence }) => sequence !== null);
      const [liveRead, storedRead] = await Promise.all(
        [events, entries].map(async (some) => readChunks(translated(some))),
      );
      const shown = (read: typeof liveRead) => read?.message?.parts.map(comparable);
      expect(shown(storedRead)).toEqual(shown(liveRead));
    }
  });
});

describe("a reader that joins late", () => {
  test("gets a valid stream from any event on", async () => {
    for (const scripts of Object.values(turns)) {
      const events = await recorded(scripts);
      for (let cut = 0; cut <= events.length; cut += 1) {
        const chunks = translated(events.slice(cut));
        expect(wrong((await readChunks(chunks)).errors, chunks)).toEqual([]);
      }
    }
  });

  test.each([
    ["text", "It is so.", "It is so."],
    ["failed", "Half", "Half"],
    // The attempt that the reader is in is discarded.
    ["retracted", "Bad", "BadGood"],
  ])("(%s) gets the unread text after its cursor, exactly once", async (name, received, whole) => {
    const retry = { maxAttempts: 2, baseDelayMs: 0, afterOutput: true };
    const engines = {
      default: engine({ adapter: fake({ scripts: turns[name] ?? [] }), model: "fake:m", tools, retry }),
    };
    const sessions = runtime({ host: memoryStorage(), engines });
    const events = await readAll((await sessions.start("Go", { id: "s" })).events);
    const deltas = events.flatMap(({ event }, index) => (event.type === "text_delta" ? [index] : []));
    for (const place of deltas) {
      const after = events[place]?.cursor ?? "";
      const remaining = await readAll(sessions.events("s", { after, follow: false }));
      const readText = textIn(translated(events.slice(0, place + 1)));
      if (!received.startsWith(readText)) continue;
      expect(readText + textIn(translated(remaining, new UiTranslator({ after, sdk })))).toBe(whole);
      expect(readText).not.toBe("");
    }
    expect(deltas.length).toBeGreaterThan(0);
  });

  test("gets a valid stream after its cursor", async () => {
    for (const scripts of Object.values(turns)) {
      const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools }) };
      const sessions = runtime({ host: memoryStorage(), engines });
      const turn = await sessions.start("Go", { id: "s" });
      const events = await readAll(turn.events);
      for (const { cursor } of events) {
        const remaining = await readAll(
          sessions.events("s", { after: cursor, turnId: turn.turnId ?? "", follow: false }),
        );
        const chunks = translated(remaining, new UiTranslator({ after: cursor, sdk }));
        expect(wrong((await readChunks(chunks)).errors, chunks)).toEqual([]);
      }
    }
  });

  test("gets a valid stream also if live events are missing or repeated", async () => {
    const all = await Promise.all(Object.values(turns).map(recorded));
    const some = fc
      .constantFrom(...all)
      .chain((events) =>
        fc.tuple(
          fc.constant(events),
          fc.nat(events.length),
          fc.array(fc.constantFrom(0, 1, 1, 2), { minLength: events.length, maxLength: events.length }),
        ),
      );
    await fc.assert(
      fc.asyncProperty(some, async ([events, cut, times]) => {
        const read = events.flatMap((event, index) =>
          event.sequence !== null ? [event] : Array.from({ length: times[index] ?? 1 }, () => event),
        );
        const chunks = translated(read.slice(cut));
        expect(wrong((await readChunks(chunks)).errors, chunks)).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });
});

describe("a reply", () => {
  const runtimeEvent = (event: TurnEvent, rest: Partial<RuntimeEvent> = {}): RuntimeEvent => ({
    cursor: "",
    turnId: "t",
    sequence: null,
    delta: null,
    event,
    ...rest,
  });
  const delta = (type: "text_delta" | "reasoning_delta", part: string, offset: number, text: string) =>
    runtimeEvent({ type, id: null, delta: text }, { delta: { attempt: { epoch: 1, n: 1 }, part, offset } });
  const completed = (message: ReturnType<typeof assistant>) =>
    runtimeEvent(
      {
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
      },
      { sequence: 1 },
    );
  const end = runtimeEvent(
    { type: "chat_completed", result: chatResult({ type: "assistant_message", text: "" }) },
    { sequence: 2 },
  );

  test("keeps interleaved blocks apart", async () => {
    const chunks = translated([
      delta("reasoning_delta", "reasoning/0", 0, "A"),
      delta("text_delta", "text/0", 0, "one"),
      delta("reasoning_delta", "reasoning/0", 1, "B"),
      delta("text_delta", "text/1", 0, "two"),
      delta("text_delta", "text/0", 3, "!"),
      completed(assistant("one!two")),
      end,
    ]);
    const { message, errors } = await readChunks(chunks);
    expect(errors).toEqual([]);
    expect(message?.parts).toMatchObject([
      { type: "step-start" },
      { type: "reasoning", text: "A", state: "done" },
      { type: "text", text: "one!", state: "done" },
      { type: "reasoning", text: "B", state: "done" },
      { type: "text", text: "two", state: "done" },
    ]);
  });

  test("shows images and the tools that the provider executed with their results", async () => {
    const search = toolCall({ id: "w", name: "web_search", arguments: { q: "cats" } });
    const chunks = translated([
      completed(
        assistant([
          { type: "tool_call", toolCallId: "w", providerExecuted: search },
          { type: "tool_result", toolCallId: "w", content: { hits: 3 } },
          { type: "text", text: "A cat:" },
          { type: "image", image: { source: { type: "base64", data: "aGk=" }, mimeType: "image/png" } },
          { type: "image", image: { source: { type: "file", path: "/home/ada/secret.png" } } },
        ]),
      ),
      end,
    ]);
    const { message, errors } = await readChunks(chunks);
    expect(errors).toEqual([]);
    expect(message?.parts).toMatchObject([
      { type: "step-start" },
      { type: "tool-web_search", providerExecuted: true, state: "output-available", output: { hits: 3 } },
      { type: "text", text: "A cat:" },
      { type: "file", mediaType: "image/png", url: "data:image/png;base64,aGk=" },
    ]);
    expect(JSON.stringify(chunks)).not.toContain("secret");
  });

  test("leaves a call that the provider still executes open", () => {
    const search = toolCall({ id: "w", name: "web_search", arguments: {} });
    const chunks = translated([
      completed(assistant([{ type: "tool_call", toolCallId: "w", providerExecuted: search }])),
      end,
    ]);
    expect(chunks.some(({ type }) => type === "tool-output-error")).toBe(false);
  });

  test("is followed by the failure if the turn is parked", () => {
    const failure = runtimeFailure("diverged", { message: "the replay went another way" });
    const translator = new UiTranslator();
    translator.add(completed(assistant("So far.")));
    const session = {
      id: "s",
      title: null,
      engine: null,
      owner: null,
      startedBy: [],
      status: "error",
      version: 7,
      length: 1,
      pendingToolCalls: [],
      pendingQuestion: null,
      usage: noUsage,
      metadata: {},
      turnId: "t",
      turnStatus: "parked",
      limitWait: null,
      forkedFrom: null,
      createdAt: 0,
      changedAt: 0,
    } as const;
    const parked = translator.end({
      turnId: "t",
      status: "parked",
      text: "",
      output: null,
      haltedReason: "error",
      outcome: { type: "runtime_error", failure },
      finalResponse: null,
      steps: 0,
      usage: noUsage,
      metadata: {},
      failure,
      session,
    });
    expect(parked).toMatchObject([
      { type: "finish-step" },
      { type: "message-metadata", messageMetadata: { turnId: "t", status: "error", version: 7 } },
      { type: "error", errorText: "diverged: the replay went another way" },
      { type: "finish", finishReason: "error" },
    ]);
  });

  test("that is reset before any output removes nothing from the message it extends", () => {
    const translator = new UiTranslator({ messageId: "m", existingCalls: [["c", "open"]] });
    const reset = { type: "step_reset", reason: "recovery", withdrawn: [], effectId: null, attempt: null } as const;
    expect(translator.add(runtimeEvent(reset)).map(({ type }) => type)).toEqual(["start"]);
    expect(translator.add(delta("text_delta", "text/0", 0, "So"))[0]).toEqual({ type: "start-step" });
    expect(translator.add(runtimeEvent(reset))).toEqual([{ type: "reset-step" }]);
  });

  test("shows the arguments of a call only when complete if their start was missed", () => {
    const translator = new UiTranslator();
    translator.add(runtimeEvent({ type: "tool_call_started", id: "c", name: "look", providerExecuted: false }));
    const more = { type: "tool_call_delta", id: "c", argumentsDelta: '"}' } as const;
    const place = { attempt: { epoch: 1, n: 1 }, part: "call/0", offset: 9 };
    expect(translator.add(runtimeEvent(more, { delta: place }))).toEqual([]);
    const whole = toolCall({ id: "c", name: "look", arguments: { at: "sea" } });
    expect(translator.add(completed(assistant("", { toolCalls: [whole] })))).toMatchObject([
      { type: "tool-input-available", toolCallId: "c", toolName: "look", input: { at: "sea" } },
    ]);
  });

  test("of another turn is ignored", () => {
    const translator = new UiTranslator();
    translator.add(delta("text_delta", "text/0", 0, "mine"));
    expect(translator.add({ ...delta("text_delta", "text/0", 4, "theirs"), turnId: "other" })).toEqual([]);
  });
});

function textIn(chunks: readonly UiChunk[]): string {
  return chunks.reduce((all, chunk) => (chunk.type === "text-delta" ? all + chunk.delta : all), "");
}

/** A part without the fields that only a stream has. */
function comparable(part: object): unknown {
  const { rawInput: _, ...rest } = JSON.parse(JSON.stringify(part));
  return rest;
}
