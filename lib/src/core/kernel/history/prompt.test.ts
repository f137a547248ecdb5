import type { Message } from "everturn";

import { assistant, imageFromUrl, imagePart, messageText, system, textPart, toolResult, user } from "everturn";
import {
  renderMessageOrigin,
  renderPrompt,
  renderTurnCausesPrompt,
  toEventMessage,
  eventMessage,
} from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries } from "../../../../test/arbitraries.ts";
import { reasoningPart, toolCallPart, toolResultPart } from "../../model/internal.ts";
import { isResumeSafe } from "../protocol/resume-safety.ts";
import { isShown } from "./prompt.ts";

const plugin = { type: "plugin", pluginId: "coach", transient: false } as const;
const replay = { provider: "anthropic", endpoint: "messages", model: "claude", data: { signature: "x" } };
const replyWithCalls = (...ids: readonly string[]) =>
  assistant("", { toolCalls: ids.map((id) => ({ id, name: "weather", arguments: {} })) });

/** The rendered messages in short form. */
const shown = (...history: readonly Message[]) =>
  renderPrompt(history).map((message) => `${message.role}: ${messageText(message)}`);

describe("[lash 52] system and event messages", () => {
  test("instructions of the caller are verbatim; messages of the runtime have a prefix", () => {
    expect(shown(system("Be brief."), system("Be quick.", { origin: plugin }))).toEqual([
      "system: Be brief.",
      "system: Runtime note:\nBe quick.",
    ]);
  });

  test("output and errors are in tags", () => {
    const notice = system([textPart("Stopped.", { kind: "error" }), textPart("4", { kind: "output" })], {
      origin: plugin,
    });
    expect(shown(notice)).toEqual(["system: Runtime note:\n<error>\nStopped.\n</error>\n\n<output>\n4\n</output>"]);
  });

  test("events are rendered as user messages", () => {
    expect(shown(eventMessage("The build failed."))).toEqual(["user: Runtime event:\nThe build failed."]);
  });

  test("provider options are kept: those of a message, and those of a part, which then stays a part of its own", () => {
    const providerOptions = { anthropic: { cache_control: { type: "ephemeral" } } } as const;
    const parts = [textPart("Static.", { providerOptions }), textPart("7", { kind: "output" })];
    const [instructions, note, event] = renderPrompt([
      system(parts),
      system("Be quick.", { origin: plugin, providerOptions }),
      eventMessage("The build failed.", { providerOptions }),
    ]);
    expect(instructions).toMatchObject({
      content: [{ text: "Static.", providerOptions }, { text: "<output>\n7\n</output>" }],
    });
    expect([note, event]).toMatchObject([{ providerOptions }, { role: "user", providerOptions }]);
  });

  test("blank messages are not sent", () => {
    expect(shown(user("  "), system(" "), eventMessage(""), assistant("\n"), user([textPart(" ")]))).toEqual([]);
  });
});

describe("questions of tools", () => {
  const question = (toolCallId: string, text: string) => assistant(text, { metadata: { askUser: true, toolCallId } });

  test("are not sent if their answer is the result of the call: the request ends with the result", () => {
    const history = [
      user("Go"),
      replyWithCalls("a", "b"),
      question("a", "Which?"),
      toolResult("a", "Blue"),
      question("b", "How many?"),
      toolResult("b", "Two"),
    ];
    expect(shown(...history)).toEqual(["user: Go", "assistant: ", "tool: Blue", "tool: Two"]);
  });

  test("are sent if their answer is a user message, also when a later call has the same id", () => {
    const history = [
      replyWithCalls("a"),
      toolResult("a", "<awaiting user response>"),
      question("a", "Which?"),
      user("Blue"),
      replyWithCalls("a"),
      user("Wait."),
      toolResult("a", "Done"),
    ];
    expect(shown(...history)).toEqual([
      "assistant: ",
      "tool: <awaiting user response>",
      "assistant: Which?",
      "user: Blue",
      "assistant: ",
      "tool: Done",
      "user: Wait.",
    ]);
  });
});

describe("[lash 50] reasoning", () => {
  test("is sent only with the replay data of its provider, and never as text", () => {
    const kept = reasoningPart("hm", { provider: replay });
    const [message] = renderPrompt([assistant([reasoningPart("secret"), kept, textPart("Hello.")])]);
    expect(message?.content).toEqual([kept, textPart("Hello.")]);
    expect(shown(assistant([reasoningPart("secret")]))).toEqual([]);
  });
});

test("pruned content is replaced by its marker", () => {
  const cleared = { pruneState: { type: "cleared" } } as const;
  const cat = imagePart(imageFromUrl("https://example.com/cat.png"), cleared);
  const history = [replyWithCalls("c1"), toolResult("c1", [textPart("a long log", cleared)]), user([cat])];
  expect(shown(...history).slice(1)).toEqual([
    "tool: [Old tool result content cleared]",
    "user: [Old tool result content cleared]",
  ]);
});

test("pruned content is not sent as replay data, and replay data that the provider needs stays", () => {
  const deleted = {
    pruneState: { type: "deleted", breadcrumb: "a page", archiveHash: "ab12" },
    provider: replay,
  } as const;
  const search = { id: "s1", name: "web_search", arguments: {}, rawArguments: null, provider: null, metadata: {} };
  const signature = textPart("", { provider: replay });
  const [message] = renderPrompt([
    assistant([
      toolCallPart("s1", { providerExecuted: search }),
      toolResultPart("s1", { long: "page" }, deleted),
      signature,
    ]),
  ]);
  expect(message?.content).toMatchObject([
    { type: "tool_call" },
    { type: "tool_result", content: "[pruned:ab12 — a page]", provider: null },
    { type: "text", provider: replay },
  ]);
});

describe("Q4: results are placed at their calls", () => {
  test("in call order, however late and in whatever order they arrived", () => {
    const history = [
      replyWithCalls("c1", "c2"),
      toolResult("c2", "b"),
      user("and?"),
      toolResult("c1", "a"),
      user("well?"),
    ];
    expect(shown(...history)).toEqual(["assistant: ", "tool: a", "tool: b", "user: and?", "user: well?"]);
  });

  test("a repeated id belongs to the oldest open call", () => {
    const history = [replyWithCalls("0"), toolResult("0", "a"), replyWithCalls("0"), toolResult("0", "b")];
    expect(shown(...history)).toEqual(["assistant: ", "tool: a", "assistant: ", "tool: b"]);
  });

  test("a reply that is twice in the history gets both its answers, each once", () => {
    const reply = replyWithCalls("a");
    expect(shown(reply, toolResult("a", "one"), reply, toolResult("a", "two"))).toEqual([
      "assistant: ",
      "tool: one",
      "assistant: ",
      "tool: two",
    ]);
  });

  test("two hundred thousand open calls with one id take linear time", () => {
    const reply = replyWithCalls("0");
    const history = [
      ...Array.from({ length: 200_000 }, () => reply),
      ...Array.from({ length: 200_000 }, () => toolResult("0", "x")),
    ];
    expect(renderPrompt(history)).toHaveLength(400_000);
  });

  test("an empty answer is kept", () => {
    expect(shown(replyWithCalls("c1"), toolResult("c1", ""))).toEqual(["assistant: ", "tool: "]);
  });
});

test("K6: rendering is deterministic, does not change the history, and passes unchanged messages through by identity", () => {
  fc.assert(
    fc.property(fc.array(arbitraries.message, { maxLength: 8 }), (history) => {
      const before = JSON.stringify(history);
      const first = renderPrompt(history);
      const again = renderPrompt(history);
      expect(first.length).toBe(again.length);
      for (const [index, message] of first.entries()) expect(again[index]).toBe(message);
      expect(JSON.stringify(history)).toBe(before);
    }),
  );
  const plain = [user("hi"), assistant("Hello.")];
  expect(renderPrompt(plain)[0]).toBe(plain[0]);
});

describe("[lash 53] isResumeSafe", () => {
  test.each([
    ["nothing was asked", [user("hi"), assistant("Hello.")], true],
    ["every call is answered", [replyWithCalls("a", "b"), toolResult("b", ""), toolResult("a", "")], true],
    [
      "an id is used again after its answer",
      [replyWithCalls("0"), toolResult("0", ""), replyWithCalls("0"), toolResult("0", "")],
      true,
    ],
    ["a call is open", [replyWithCalls("a", "b"), toolResult("a", "")], false],
    ["an answer has no call", [toolResult("a", "")], false],
    ["a call is answered twice", [replyWithCalls("a"), toolResult("a", ""), toolResult("a", "")], false],
    ["a call has no id", [replyWithCalls(" "), toolResult(" ", "")], false],
    ["two open calls have one id", [replyWithCalls("a", "a"), toolResult("a", ""), toolResult("a", "")], false],
  ])("%s", (_, history, safe) => {
    expect(isResumeSafe(history)).toBe(safe);
  });
});

describe("turn causes", () => {
  const process = {
    type: "process",
    processId: "p1",
    eventType: "process.wake",
    sequence: 7,
    wakeId: "w1",
    causedBy: null,
  } as const;

  test.each([
    ["plugin coach", plugin],
    ["plugin coach (transient)", { ...plugin, transient: true }],
    ["process p1 process.wake #7 (w1)", process],
    ["process p1 process.wake #7", { ...process, wakeId: null }],
    ["turn input i1 on turn t1", { type: "turn_input", turnId: "t1", inputId: "i1" } as const],
    ["turn input on turn t1", { type: "turn_input", turnId: "t1", inputId: null } as const],
  ])("[lash 43] renders an origin as: %s", (words, origin) => {
    expect(renderMessageOrigin(origin)).toBe(words);
  });

  test("the block of causes has exactly this text", () => {
    const wake = { id: "w1", eventType: "process.wake", origin: process, text: " woke " };
    const mail = { id: "m1", eventType: "mail.new", origin: plugin, text: "Two letters." };
    expect(renderTurnCausesPrompt([])).toBeNull();
    expect(renderTurnCausesPrompt([wake])).toBe(
      "=== TURN EVENTS ===\n\n--- event[0] · process.wake · w1 ---\nOrigin: process p1 process.wake #7 (w1)\n\nwoke",
    );
    expect(renderTurnCausesPrompt([wake, mail])).toContain(
      "woke\n\n--- event[1] · mail.new · m1 ---\nOrigin: plugin coach\n\nTwo letters.",
    );
  });

  test("the history keeps a cause as an event with the same id", () => {
    const cause = { id: "w1", eventType: "process.wake", origin: process, text: " woke " };
    expect(toEventMessage(cause)).toEqual(eventMessage(" woke ", { id: "w1", origin: process }));
  });
});

test("a user or system message is shown if the prompt contains it", () => {
  const text = fc.record({
    text: fc.constantFrom("", " ", "Hi"),
    provider: fc.constantFrom(null, replay),
    pruneState: fc.constantFrom(null, { type: "cleared" } as const),
  });
  const texts = fc.array(
    text.map(({ text: content, ...fields }) => textPart(content, fields)),
    { maxLength: 2 },
  );
  const messages = fc.oneof(
    arbitraries.message.filter(({ role }) => role === "user" || role === "system"),
    texts.map((parts) => user(parts)),
    texts.map((parts) => system(parts)),
  );
  fc.assert(
    fc.property(messages, (message) => {
      if (message.role !== "user" && message.role !== "system") return;
      expect(isShown(message)).toBe(renderPrompt([message]).length === 1);
    }),
  );
});
