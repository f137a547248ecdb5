// Sessions whose provider compacts the conversation itself: its items are kept in the history and sent back unchanged,
// wherever the session goes on.

import type { Json, JsonObject, Session } from "everturn";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { anthropic, engine, fromJson, openaiCompatible, orThrow, session as sessions, toJson, tool } from "everturn";
import { inspection } from "everturn/http";
import { replayTurn, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterEach, expect, test } from "vitest";

import { CountingProvider } from "../../test/counting-provider.ts";

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

type Block = JsonObject & { readonly type: string };
type WireMessage = { readonly role: string; readonly content: readonly Block[] };
type Body = {
  readonly messages: readonly WireMessage[];
  readonly context_management?: { readonly edits: readonly { readonly trigger: { readonly value: number } }[] };
};

const tokensOf = (value: Json | readonly WireMessage[]): number => Math.ceil(JSON.stringify(value).length / 4);

/**
 * Anthropic's API with compaction, as a `fetch` function: four characters are a token, what stands before the newest
 * compaction block does not count, and a reply begins with a block when the request reaches the trigger.
 */
class CompactingProvider {
  readonly requests: { readonly body: Body; readonly tokens: number; readonly beta: string | null }[] = [];
  readonly blocks: Block[] = [];
  readonly adapter = anthropic({
    apiKey: "key-0123456789",
    fetch: async (_, init) => this.#answer(JSON.parse(String(init.body)), new Headers(init.headers)),
  });

  #answer(body: Body, headers: Headers): Response {
    const { messages } = body;
    const tokens = tokensOf(messages);
    this.requests.push({ body, tokens, beta: headers.get("anthropic-beta") });
    const trigger = body.context_management?.edits[0]?.trigger.value ?? Number.POSITIVE_INFINITY;
    const content: Block[] = [];
    const iterations: JsonObject[] = [];
    if (tokens >= trigger) {
      const name = `${this.blocks.length + 1}`;
      const block = { type: "compaction", content: `Summary ${name}.`, encrypted_content: `b3BhcXVl${name}` };
      this.blocks.push(block);
      content.push(block);
      iterations.push({ type: "compaction", input_tokens: tokens, output_tokens: 10 });
    }
    const isResult = messages.at(-1)?.content.at(-1)?.type === "tool_result";
    content.push(
      isResult
        ? { type: "text", text: "Seen." }
        : { type: "tool_use", id: `toolu_${this.requests.length}`, name: "look", input: {} },
    );
    return Response.json({
      id: `msg_${this.requests.length}`,
      type: "message",
      role: "assistant",
      model: "claude-sonnet-4-6",
      content,
      stop_reason: isResult ? "end_turn" : "tool_use",
      usage: { input_tokens: content.length > 1 ? 500 : tokens, output_tokens: 5, iterations },
    });
  }
}

const look = tool({
  name: "look",
  description: "Looks.",
  schema: { type: "object" },
  handler: () => "seen ".repeat(12_000),
});

const policy = { window: 100_000, reserve: 20_000, prune: false, compact: { by: "provider", at: 0.7 } } as const;

function agent({ adapter }: Pick<CompactingProvider, "adapter">) {
  return engine({
    adapter,
    model: "claude-sonnet-4-6",
    tools: [look],
    contextPolicy: policy,
    retry: false,
    options: { maxToolResultLength: 1_000_000 },
  });
}

/** The compaction blocks of a request. */
const blocksOf = ({ body }: { readonly body: Body }): readonly Block[] =>
  body.messages.flatMap(({ content }) => content.filter(({ type }) => type === "compaction"));

async function run(provider: CompactingProvider, count: number, from: Session): Promise<Session> {
  let session = from;
  for (let turn = 0; turn < count; turn += 1) {
    const after = await sessions.reply(agent(provider), session, `Look ${turn}.`);
    expect([after.result.metadata.error, after.result.haltedReason]).toEqual([undefined, "completed"]);
    session = after.session;
  }
  return session;
}

const emptySession = async (provider: CompactingProvider): Promise<Session> =>
  (await sessions.start(agent(provider), "Look.")).session;

test("requests stay within the window by the provider's own items, and the history stays whole", async () => {
  const provider = new CompactingProvider();
  const session = await run(provider, 15, await emptySession(provider));
  expect(provider.blocks.length).toBeGreaterThan(2);
  expect(session.thread.messages).toHaveLength(64);
  // The library had nothing to summarize.
  expect(session.contextWindow?.frame ?? null).toBeNull();
  expect(Math.max(...provider.requests.map(({ tokens }) => tokens))).toBeLessThan(80_000);
  expect(provider.requests.every(({ beta }) => beta === "compact-2026-01-12")).toBe(true);
  let received = 0;
  for (const [index, request] of provider.requests.entries()) {
    expect(blocksOf(request)).toEqual(received === 0 ? [] : [provider.blocks[received - 1]]);
    const { tokens } = request;
    if (tokens >= 56_000) received += 1;
    expect(index).toBeGreaterThanOrEqual(received - 1);
  }
  // The compactions themselves are paid.
  const paid = provider.requests.reduce((sum, { tokens }) => sum + (tokens >= 56_000 ? tokens + 500 : tokens), 0);
  expect(session.usage.inputTokens).toBe(paid);
});

test("a reload, a fork and a replay go on from the item", async () => {
  const directory = mkdtempSync(join(tmpdir(), "everturn-"));
  cleanups.push(() => rmSync(directory, { recursive: true }));
  const provider = new CompactingProvider();
  const open = () => {
    const host = sqliteStorage({ path: join(directory, "sessions.sqlite") });
    return runtime({ host, engines: { default: agent(provider) } });
  };
  let durable = open();
  for (let turn = 0; turn < 12; turn += 1) {
    const text = `Look ${turn}.`;
    const { result } = turn === 0 ? await durable.start(text, { id: "s" }) : await durable.reply("s", text);
    expect((await result).haltedReason).toBe("completed");
  }
  await durable.close();
  const [first, second] = provider.blocks;
  const newest = provider.blocks.at(-1);
  expect(provider.blocks.length).toBeGreaterThan(2);
  durable = open();
  cleanups.push(async () => durable.close());
  const continued = async (id: string): Promise<readonly Block[]> => {
    const at = provider.requests.length;
    const { result } = await durable.reply(id, "Once more.");
    expect((await result).haltedReason).toBe("completed");
    const request = provider.requests[at];
    return request === undefined ? [] : blocksOf(request);
  };
  expect(await continued("s")).toEqual([newest]);
  await durable.fork("s", { id: "copy" });
  expect(await continued("copy")).toEqual([provider.blocks.at(-1)]);
  // A fork from before an item has the one that is newest there.
  const { messages } = (await durable.get("s"))?.session.thread ?? { messages: [] };
  const positionOf = (block: Block | undefined): number =>
    messages.findIndex(({ content }) => JSON.stringify(content).includes(String(block?.["encrypted_content"])));
  const at = messages.findIndex(({ role }, index) => role === "user" && index > positionOf(first));
  expect(at).toBeLessThan(positionOf(second));
  await durable.fork("s", { id: "early", at });
  expect(await continued("early")).toEqual([first]);
  const record = await inspection(durable.source).export("s");
  expect((await replayTurn(record)).result.haltedReason).toBe("completed");
});

test("an exported session goes on from the item in another process", async () => {
  const provider = new CompactingProvider();
  const session = await run(provider, 6, await emptySession(provider));
  const imported = orThrow(fromJson(JSON.parse(JSON.stringify(toJson("session", session))), { as: "session" }));
  const at = provider.requests.length;
  const known = provider.blocks.at(-1);
  await sessions.reply(agent(provider), imported, "Once more.");
  expect(blocksOf(provider.requests[at] ?? { body: { messages: [] } })).toEqual([known]);
});

test("when another provider goes on, it gets the history without the item, which the library keeps in its window", async () => {
  const provider = new CompactingProvider();
  const before = await run(provider, 9, await emptySession(provider));
  const counting = new CountingProvider({
    window: 100_000,
    reply: () => ({ text: "Hello." }),
    summary: () => "The weather was seen.",
  });
  cleanups.push(async () => counting.close());
  await counting.listen();
  const other = engine({
    adapter: openaiCompatible({ baseURL: counting.baseURL }),
    model: "counting",
    tools: [look],
    retry: false,
    contextPolicy: policy,
    options: { maxToolResultLength: 1_000_000 },
  });
  const { session, result } = await sessions.reply(other, before, "Hello?");
  expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
  expect(counting.requests.map(({ status }) => status)).toEqual(counting.requests.map(() => 200));
  expect(counting.requests.every(({ messages }) => !messages.join().includes("b3BhcXVl"))).toBe(true);
  expect(counting.requests.at(-1)?.messages.join()).toContain("The weather was seen.");
  expect(session.contextWindow?.frame).not.toBeNull();
  // Back with the first provider, what the frame left out stays left out.
  const at = provider.requests.length;
  const again = await sessions.reply(agent(provider), session, "Look again.");
  expect(again.result.haltedReason).toBe("completed");
  expect(provider.requests.slice(at).every(({ tokens }) => tokens < 80_000)).toBe(true);
});
