import type { Message } from "everturn";

import { assistant, toJson, user } from "everturn";
import { expect, test } from "vitest";

import { historyThread, messagesFromEnd } from "./history-thread.ts";
import { appendHistory, startHistory } from "./history.ts";

const numberedMessages = (count: number): readonly Message[] =>
  Array.from({ length: count }, (_, index) => user(`message ${index}`));

test("S1: a thread over a history is plain data for JSON, spread, structured clone and comparison", () => {
  const messages = numberedMessages(3);
  const thread = historyThread(startHistory(messages), { topic: "sky" });
  const plain = { messages, metadata: { topic: "sky" } };
  expect(thread).toEqual(plain);
  expect({ ...thread }).toEqual(plain);
  expect(structuredClone(thread)).toEqual(plain);
  expect(JSON.stringify(thread)).toBe(JSON.stringify(plain));
  expect(toJson("thread", thread)).toEqual(toJson("thread", plain));
});

test("a thread over a history has the messages up to its length, whatever is appended later", () => {
  const short = startHistory(numberedMessages(2));
  const long = appendHistory(short, [assistant("later")]);
  const [before, after] = [historyThread(short, {}), historyThread(long, {})];
  expect(before.messages).toEqual(numberedMessages(2));
  expect(after.messages).toEqual([...numberedMessages(2), assistant("later")]);
  expect(before.messages).toEqual(numberedMessages(2));
});

test("reading the messages of a thread repeatedly copies them once", () => {
  const thread = historyThread(startHistory(numberedMessages(3)), {});
  expect(thread.messages).toBe(thread.messages);
});

test("messagesFromEnd reads a thread over a history and a plain thread from the end", () => {
  const messages = numberedMessages(3);
  const history = startHistory(messages.slice(0, 2));
  appendHistory(history, messages.slice(2));
  expect([...messagesFromEnd(historyThread(history, {}))]).toEqual(messages.slice(0, 2).toReversed());
  expect([...messagesFromEnd({ messages, metadata: {} })]).toEqual(messages.toReversed());
});
