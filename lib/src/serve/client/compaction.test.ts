// A long conversation in the client: every reader has all messages, knows while older ones are summarized, and where a
// summary stands for them.

import type { ConversationSnapshot } from "./conversation.ts";

import { engine, fake, messageText, says } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";
import { loaded, sdk, TestChat } from "../../../test/ui-client.ts";
import { chatTransport } from "./chat-transport.ts";
import { conversation, createClient } from "./index.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const summary = "They greeted each other.";

/** A server with the session `s`, whose first two messages are summarized before the next reply. */
async function greeted() {
  const agent = engine({
    adapter: fake({ scripts: [says("Hello, Ada."), says(summary), says("You are Ada."), says("Bye.")] }),
    model: "fake:m",
    contextPolicy: { window: 100_000 },
  });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  closing.push(() => sessions.close());
  const handler = createHandler({ sessions, dialects: chatDialects, auth: "none" });
  const fetch = async (url: string, init: RequestInit): Promise<Response> => handler(new Request(url, init));
  const client = createClient({ url: "http://localhost", fetch });
  await (
    await sessions.start("I am Ada.", { id: "s" })
  ).result;
  await client.compact("s");
  return { sessions, client, fetch };
}

test("the store of a conversation keeps all messages, and says which are being summarized and which were", async () => {
  const { client } = await greeted();
  const store = conversation(client, "s");
  const seen: ConversationSnapshot[] = [];
  const reached = (isReached: (snapshot: ConversationSnapshot) => boolean): Promise<void> =>
    new Promise((resolve) => {
      const stop = store.subscribe(() => {
        seen.push(store.snapshot());
        if (!isReached(store.snapshot())) return;
        closing.push(() => Promise.resolve(stop()));
        resolve();
      });
    });
  const live = reached(({ connection }) => connection === "live");
  await live;
  expect(store.snapshot().session?.session.contextWindow?.requested).toEqual({ instructions: null });
  const answered = reached(({ turn, messages }) => turn === null && messages.length === 4);
  await store.send("Who am I?");
  await answered;
  const running = seen.flatMap(({ turn }) => turn?.compaction ?? []);
  expect(new Set(running.map(({ from, to }) => `${from} to ${to}`))).toEqual(new Set(["0 to 2"]));
  // No snapshot lacks the messages that are summarized, or has the summary as a message.
  const whole = ["I am Ada.", "Hello, Ada.", "Who am I?", "You are Ada."];
  for (const { messages, session } of seen) {
    if (session === null) continue;
    const texts = messages.map(messageText);
    expect(texts).toEqual(whole.slice(0, texts.length));
    expect(texts.length).toBeGreaterThanOrEqual(2);
  }
  const { frame } = store.snapshot().session?.session.contextWindow ?? {};
  expect(frame).toMatchObject({ to: 2, summary, undoneAt: null });
  expect((await client.frames("s")).items).toEqual([frame]);
  await client.undoCompaction("s");
  expect((await client.frames("s")).items).toMatchObject([{ to: 2, summary, undoneAt: expect.any(Number) }]);
});

test("useChat with the transport gets the compaction as data for onData, and keeps all messages", async () => {
  const { sessions, client, fetch } = await greeted();
  const data: unknown[] = [];
  const opened = async (): Promise<TestChat> =>
    new TestChat({
      id: "s",
      messages: await loaded(sessions, "s"),
      transport: chatTransport({ url: "http://localhost", fetch, sdk }),
      onData: ({ type, data: value }) => data.push([type, value]),
    });
  const textsOf = ({ messages }: TestChat): readonly string[] =>
    messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
  const chat = await opened();
  expect(textsOf(chat)).toEqual(["I am Ada.", "Hello, Ada."]);
  await chat.sendMessage({ text: "Who am I?" });
  expect(data).toMatchObject([
    ["data-compaction", { status: "running", from: 0, to: 2 }],
    ["data-compaction", { status: "summarized", from: 0, to: 2 }],
  ]);
  const whole = ["I am Ada.", "Hello, Ada.", "Who am I?", "You are Ada."];
  expect(textsOf(chat)).toEqual(whole);
  expect(chat.messages.flatMap(({ parts }) => parts.filter(({ type }) => type === "data-compaction"))).toEqual([]);
  // A page that is loaded later has the same messages, and asks for the frames.
  expect(textsOf(await opened())).toEqual(whole);
  expect((await client.frames("s")).items).toMatchObject([{ to: 2, summary }]);
});
