// Counts of the provider in the context policy: when the provider is asked, what follows from its number, and that a
// count that fails leaves the decision to the estimate.

import type { CountingApi } from "../../../test/counting-apis.ts";
import type { Adapter, ContextPolicy, Session } from "everturn";

import { assistant, engine, fake, fromMessages, newSession, session as sessions, user } from "everturn";
import { handClock } from "everturn/testing";
import { afterEach, describe, expect, test } from "vitest";

import { countingApis, CountingServer } from "../../../test/counting-apis.ts";
import { summaryPrompt } from "../kernel/internal.ts";

const servers: CountingServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

type ServerOptions = Omit<Parameters<typeof CountingServer.listen>[1], "window">;

async function serverOf(api: CountingApi, options: ServerOptions = {}): Promise<CountingServer> {
  const server = await CountingServer.listen(api, { window: 8_000, ...options });
  servers.push(server);
  return server;
}

/** An engine that compacts at 5,120 tokens: at four fifths of the window without the reserve. */
function agent(adapter: Adapter, model: string, policy: ContextPolicy = {}) {
  const contextPolicy = { window: 8_000, reserve: 1_600, keepRecent: 1_000, prune: false, ...policy } as const;
  return engine({ adapter, model, contextPolicy, retry: false, instructions: "You answer." });
}

/** A session whose messages are estimated at this number of tokens. */
function sessionOf(estimate: number): Session {
  const text = "word ".repeat(Math.floor((estimate * 4) / 20 / 5));
  return newSession({
    thread: fromMessages(Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? user(text) : assistant(text)))),
  });
}

const isSummary = ({ prompt }: { readonly prompt: string }): boolean => prompt.includes(summaryPrompt.slice(0, 60));

/** What the server received, in words. */
const typesOf = ({ received }: CountingServer): readonly string[] =>
  received.map((request) => (request.type === "call" && isSummary(request) ? "summary" : request.type));

describe.each(countingApis)("$api", ({ api, model }) => {
  test("a history that is shorter than its estimate is not summarized", async () => {
    const server = await serverOf(api, { charactersPerToken: 8 });
    const { session, result } = await sessions.reply(agent(server.adapter, model), sessionOf(6_000), "And?");
    expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
    expect(typesOf(server)).toEqual(["count", "call"]);
    // The count is the number that the provider reports with the reply.
    expect(server.counts[0]?.tokens).toBe(server.calls[0]?.tokens);
    expect(session.contextWindow?.count).toMatchObject({ source: "counted", by: "usage" });
    // Without the count the estimate decides, and a summary is made that is not needed.
    const other = await serverOf(api, { charactersPerToken: 8 });
    await sessions.reply(agent(other.adapter, model, { count: false }), sessionOf(6_000), "And?");
    expect(typesOf(other)).toEqual(["summary", "call"]);
  });

  test("a history that is longer than its estimate is summarized before a request is refused", async () => {
    const server = await serverOf(api, { charactersPerToken: 1.9 });
    const { result } = await sessions.reply(agent(server.adapter, model), sessionOf(4_000), "And?");
    expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
    expect(typesOf(server).join(" ")).toMatch(/^count( summary)+ call$/);
    expect(server.received.map(({ status }) => status)).toEqual(server.received.map(() => 200));
    const other = await serverOf(api, { charactersPerToken: 1.9 });
    await sessions.reply(agent(other.adapter, model, { count: false }), sessionOf(4_000), "And?");
    expect(other.received[0]).toMatchObject({ type: "call", status: 400 });
  });

  test("the number is known before the reply, and says that the provider has counted it", async () => {
    const server = await serverOf(api, { charactersPerToken: 8 });
    const stop = new AbortController();
    const adapter = { ...server.adapter, stream: () => hanging(stop) };
    const { signal } = stop;
    const stream = sessions.streamReply(agent(adapter, model), sessionOf(6_000), "And?", { signal });
    const { session } = await stream.result;
    expect(session.contextWindow?.count).toMatchObject({
      tokens: server.counts[0]?.tokens,
      source: "counted",
      by: "provider",
    });
  });
});

/** A stream that cancels the run when it is read, and hangs. */
function hanging(stop: AbortController): AsyncIterable<never> {
  return {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        stop.abort();
        return new Promise(() => undefined);
      },
    }),
  };
}

test("the provider is asked only where its number decides", async () => {
  const server = await serverOf("anthropic-messages", { reply: () => [{ type: "text", text: "word ".repeat(80) }] });
  // Far below the limit, and far above it.
  await sessions.reply(agent(server.adapter, "claude-sonnet-4-6"), sessionOf(2_000), "And?");
  expect(typesOf(server)).toEqual(["call"]);
  await sessions.reply(agent(server.adapter, "claude-sonnet-4-6"), sessionOf(30_000), "And?");
  expect(server.counts).toEqual([]);
  // In a conversation that grows, the usage of each reply leaves no doubt.
  const of = agent(server.adapter, "claude-sonnet-4-6");
  let session: Session = newSession();
  for (let turn = 0; turn < 60; turn += 1) {
    ({ session } = await sessions.reply(of, session, `${turn} ${"word ".repeat(80)}`));
  }
  const summaries = server.calls.filter(isSummary).length;
  expect(summaries).toBeGreaterThan(3);
  expect(server.counts.length).toBeLessThanOrEqual(summaries);
});

test("a policy without summaries asks for no count", async () => {
  const server = await serverOf("anthropic-messages");
  await sessions.reply(agent(server.adapter, "claude-sonnet-4-6", { compact: false }), sessionOf(6_000), "And?");
  expect(typesOf(server)).toEqual(["call"]);
});

test.each([
  ["is refused", () => ({ status: 400, body: { error: { message: "no", type: "invalid_request_error" } } })],
  ["fails", () => ({ status: 529, body: { error: { message: "key-0123456789 is busy", type: "overloaded_error" } } })],
  ["has no number", () => ({ status: 200, body: { input_tokens: "many" } })],
  ["is not JSON", () => ({ status: 200, body: "<html>" })],
] as const)("a count that %s leaves the decision to the estimate", async (_, count) => {
  const server = await serverOf("anthropic-messages", { charactersPerToken: 8, count });
  const of = agent(server.adapter, "claude-sonnet-4-6");
  const { session, result } = await sessions.reply(of, sessionOf(6_000), "And?");
  expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
  expect(typesOf(server)).toEqual(["count", "summary", "call"]);
  expect(session.contextWindow?.frame).not.toBeNull();
});

test("after a count that failed the provider is asked again only when the history has grown", async () => {
  let counts = 0;
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => fake({ script: [{ type: "text", text: "Seen." }], usage: {} }).stream(request, call),
    countTokens: () => {
      counts += 1;
      return Promise.reject(new Error("no count"));
    },
  };
  const of = agent(adapter, "fake:m");
  let session = sessionOf(4_000);
  for (let turn = 0; turn < 5; turn += 1) ({ session } = await sessions.reply(of, session, "And?"));
  expect(counts).toBe(1);
  ({ session } = await sessions.reply(of, session, "word ".repeat(600)));
  expect(counts).toBe(1);
  await sessions.reply(of, session, "word ".repeat(600));
  expect(counts).toBe(2);
});

test("a count that hangs is given up after 10 seconds, also if the adapter ignores its signal", async () => {
  const clock = handClock();
  const adapter: Adapter = {
    ...fake({ script: [{ type: "text", text: "Seen." }] }),
    countTokens: () => new Promise(() => undefined),
  };
  const of = { ...agent(adapter, "fake:m"), clock };
  const reply = sessions.reply(of, sessionOf(4_000), "And?");
  await clock.advance(9_999);
  const early = await Promise.race([reply, Promise.resolve("waits")]);
  expect(early).toBe("waits");
  await clock.advance(1);
  const { result } = await reply;
  expect(result.haltedReason).toBe("completed");
});
