import type { Message } from "./comparison.ts";

import { expect, test } from "vitest";

import { compareMessages, messageText } from "./comparison.ts";

const fields = { id: null, name: null, origin: null, metadata: {} };

function assistant(content: string, toolCalls: Extract<Message, { role: "assistant" }>["toolCalls"] = []): Message {
  return { ...fields, role: "assistant", content, toolCalls, finishReason: null };
}

const question: Message = { ...fields, role: "user", content: "Where is my order?" };
const first = assistant("In Rome.");
const second = assistant("In Oslo.");

test("equal messages at the beginning are shared", () => {
  expect(compareMessages([question, first], [question, second])).toEqual({ shared: 1, left: [first], right: [second] });
});

test("ids and metadata do not make messages different", () => {
  const copy: Message = { ...question, id: "m2", metadata: { copied: true } };
  expect(compareMessages([question], [copy, first])).toEqual({ shared: 1, left: [], right: [first] });
});

test("sessions without a common message share nothing", () => {
  expect(compareMessages([first], [second]).shared).toBe(0);
});

test("the text of a message has its tool calls", () => {
  const call = {
    id: "c1",
    name: "find_order",
    arguments: { order: 7 },
    rawArguments: null,
    provider: null,
    metadata: {},
  };
  expect(messageText(assistant("Let me look.", [call]))).toBe('Let me look.\n→ find_order({"order":7})');
});
