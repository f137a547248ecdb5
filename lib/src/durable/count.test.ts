// Counts of tokens in durable sessions: a recorded count decides in every process that continues the turn, and is not
// asked for again.

import type { HostStorage } from "./rows/storage.ts";
import type { Adapter, ModelRequest } from "everturn";

import { assistant, engine, fake, messageText, user } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, replayTurn, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { summaryPrompt } from "../core/kernel/internal.ts";

/** What an adapter was asked. `count`: what it answers to a count; `null`: nothing. `hangs`: model calls hang. */
function world(count: number | null, hangs = false) {
  const asked: ("count" | "summary" | "call")[] = [];
  const isSummary = ({ messages }: ModelRequest): boolean =>
    messageText(messages.at(-1) ?? user("")).startsWith(summaryPrompt);
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      asked.push(isSummary(request) ? "summary" : "call");
      if (hangs) return { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) };
      const usage = { inputTokens: 100, outputTokens: 1 };
      return fake({ script: [{ type: "text", text: "Seen." }], usage }).stream(request, call);
    },
    countTokens: () => {
      asked.push("count");
      return count === null ? new Promise(() => undefined) : Promise.resolve(count);
    },
  };
  // Compacts at 800 tokens.
  const contextPolicy = { window: 1_250, reserve: 250, keepRecent: 100, prune: false } as const;
  return { asked, of: engine({ adapter, model: "fake:m", contextPolicy }) };
}

/** Messages that are estimated at 900 tokens. */
const messages = [
  ...Array.from({ length: 9 }, (_, index) => {
    const text = "word ".repeat(80);
    return index % 2 === 0 ? user(text) : assistant(text);
  }),
  user("And?"),
];

const open = (host: HostStorage, { of }: ReturnType<typeof world>) => runtime({ host, engines: { default: of } });

test.each([
  [600, "call"],
  [900, "summary"],
] as const)(
  "a recorded count of %d decides in the process that takes over, and is not repeated",
  async (count, next) => {
    const host = memoryStorage();
    // The process dies in the model call that follows the count.
    const first = world(count, true);
    const dying = open(host, first);
    const { turnId } = await dying.start(messages, { id: "s" });
    await expect.poll(() => first.asked).toEqual(["count", next]);
    await dying.close({ graceMs: 0 });
    // The provider would now count a number that decides differently.
    const second = world(count === 600 ? 900 : 600);
    const continuing = open(host, second);
    await continuing.recover();
    await expect.poll(async () => (await continuing.get("s"))?.openTurn).toBeNull();
    expect(second.asked).toEqual(next === "call" ? ["call"] : ["summary", "call"]);
    const session = (await continuing.get("s"))?.session;
    expect([session?.status, session?.contextWindow?.frame === null]).toEqual(["completed", next === "call"]);
    const { effects } = await inspection(continuing.source).timeline("s", turnId ?? "");
    expect(effects[0]).toMatchObject({ kind: "count", state: "ok", text: `${count} input tokens` });
    await continuing.close();
  },
);

test("a process that dies before the count is recorded leaves it to the next one", async () => {
  const host = memoryStorage();
  const first = world(null);
  const dying = open(host, first);
  await dying.start(messages, { id: "s" });
  await expect.poll(() => first.asked).toEqual(["count"]);
  await dying.close({ graceMs: 0 });
  const second = world(900);
  const continuing = open(host, second);
  await continuing.recover();
  await expect.poll(async () => (await continuing.get("s"))?.openTurn).toBeNull();
  expect(second.asked).toEqual(["count", "summary", "call"]);
  await continuing.close();
});

test("a replay takes the recorded count, and asks for none", async () => {
  const { of, asked } = world(600);
  const sessions = runtime({ host: memoryStorage(), engines: { default: of } });
  await (
    await sessions.start(messages, { id: "s" })
  ).result;
  const record = await inspection(sessions.source).export("s");
  await sessions.close();
  expect((await replayTurn(record)).result.haltedReason).toBe("completed");
  expect((await replayTurn(record, { engine: world(900).of })).result.haltedReason).toBe("completed");
  expect(asked).toEqual(["count", "call"]);
});

test("a cancel while the tokens are counted ends the turn", async () => {
  const { of, asked } = world(null);
  const sessions = runtime({ host: memoryStorage(), engines: { default: of } });
  const turn = await sessions.start(messages, { id: "s" });
  await expect.poll(() => asked).toEqual(["count"]);
  await sessions.cancel("s");
  expect((await turn.result).haltedReason).toBe("cancelled");
  expect(asked).toEqual(["count"]);
  await sessions.close();
});
