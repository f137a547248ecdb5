// Tokenizers of a context policy: when they are called, with what, and what follows from their numbers.

import type { Adapter, ContextPolicy, FakeScript, ModelRequest, Session } from "everturn";
import type { Tokenizer } from "everturn/advanced";

import { assistant, engine, fake, fromMessages, messageText, newSession, session as sessions, user } from "everturn";
import { describeEngine, restoreEngine } from "everturn/advanced";
import { gptTokenizer } from "everturn/gpt-tokenizer";
import { expect, test } from "vitest";

import { summaryPrompt } from "../kernel/internal.ts";

type World = {
  /** Its endpoint that counts tokens. Default: it has none. */
  readonly count?: () => Promise<number>;
  /** The input tokens of a reply. Default: unknown. */
  readonly inputTokens?: number;
  /** Ends the run when the model is called. */
  readonly stop?: AbortController;
};

/** An engine that compacts at 5,120 tokens, and what its model was asked. */
function world(policy: ContextPolicy, { count, inputTokens, stop }: World = {}) {
  const asked: ("count" | "summary" | "call")[] = [];
  const isSummary = ({ messages }: ModelRequest): boolean =>
    messageText(messages.at(-1) ?? user("")).startsWith(summaryPrompt);
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      asked.push(isSummary(request) ? "summary" : "call");
      stop?.abort();
      const script: FakeScript = [{ type: "text", text: "Seen." }];
      return fake({ script, usage: inputTokens === undefined ? {} : { inputTokens } }).stream(request, call);
    },
  };
  const countTokens = (): Promise<number> => {
    asked.push("count");
    return count?.() ?? Promise.reject(new Error("no count"));
  };
  const contextPolicy = { window: 8_000, reserve: 1_600, keepRecent: 1_000, prune: false, ...policy } as const;
  const of = engine({
    adapter: count === undefined ? adapter : { ...adapter, countTokens },
    model: "fake:m",
    instructions: "You answer.",
    contextPolicy,
  });
  return { asked, of };
}

/** A session whose messages are estimated at this number of tokens. */
function sessionOf(estimate: number): Session {
  const text = "word ".repeat(Math.floor((estimate * 4) / 20 / 5));
  return newSession({
    thread: fromMessages(Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? user(text) : assistant(text)))),
  });
}

test.each([
  [6_000, 0.6, /^call$/],
  [4_800, 1.4, /^summary( summary)* call$/],
] as const)("decides about %d estimated tokens, of which each is %d tokens", async (estimate, factor, expected) => {
  const { of, asked } = world({ tokenizer: (text) => Math.round((text.length / 4) * factor) });
  const { result } = await sessions.reply(of, sessionOf(estimate), "And?");
  expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
  expect(asked.join(" ")).toMatch(expected);
});

test("the number says that a tokenizer has made it, and corrects later estimates", async () => {
  const stop = new AbortController();
  const { of } = world({ tokenizer: (text) => Math.round((text.length / 4) * 0.6) }, { stop });
  const stream = sessions.streamReply(of, sessionOf(6_000), "And?", { signal: stop.signal });
  const { contextWindow } = (await stream.result).session;
  expect(contextWindow?.count).toMatchObject({ source: "estimated", by: "tokenizer" });
  expect(contextWindow?.ratio).toBeCloseTo(0.6, 1);
});

test("is called where the provider has no endpoint, does not answer, or must not be asked", async () => {
  const calledWith = async (policy: ContextPolicy, count?: () => Promise<number>) => {
    let calls = 0;
    const tokenizer = (text: string): number => {
      calls += 1;
      return Math.round(text.length / 8);
    };
    const { of, asked } = world({ ...policy, tokenizer }, count === undefined ? {} : { count });
    await sessions.reply(of, sessionOf(6_000), "And?");
    return [calls > 0, asked];
  };
  expect(await calledWith({})).toEqual([true, ["call"]]);
  expect(await calledWith({}, () => Promise.resolve(3_000))).toEqual([false, ["count", "call"]]);
  expect(await calledWith({}, () => Promise.reject(new Error("busy")))).toEqual([true, ["count", "call"]]);
  expect(await calledWith({ count: false }, () => Promise.resolve(3_000))).toEqual([true, ["call"]]);
  // Where the estimate decides, nothing is counted.
  const { of } = world({ tokenizer: () => expect.unreachable() });
  await sessions.reply(of, sessionOf(2_000), "And?");
});

const broken: readonly (readonly [what: string, tokenizer: Tokenizer])[] = [
  [
    "throws",
    () => {
      throw new Error("no tokens");
    },
  ],
  ["rejects", () => Promise.reject(new Error("not loaded"))],
  ["returns no number", () => Number.NaN],
  ["returns a negative number", () => -1],
];

test.each(broken)("a tokenizer that %s leaves the decision to the estimate", async (_, tokenizer) => {
  const { of, asked } = world({ tokenizer });
  const { result } = await sessions.reply(of, sessionOf(6_000), "And?");
  expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
  expect(asked).toEqual(["summary", "call"]);
});

test("gets all texts in pieces of at most 512 characters, and cuts neither words nor characters", async () => {
  const pieces: string[] = [];
  const tokenizer = (text: string): number => {
    pieces.push(text);
    return text.length;
  };
  const texts = ["word ".repeat(2_000), "x".repeat(2_000), "🦉".repeat(1_001), `a${"🦉".repeat(1_000)}`];
  const { of } = world({ tokenizer });
  await sessions.reply(of, newSession({ thread: fromMessages(texts.map((text) => user(text))) }), "And?");
  const all = pieces.join("");
  for (const text of ["You answer.", "And?", ...texts]) expect(all).toContain(text);
  expect(Math.max(...pieces.map(({ length }) => length))).toBe(512);
  expect(pieces.filter((piece) => /wor?$/.test(piece))).toEqual([]);
  // No half of a surrogate pair.
  expect(pieces.filter((piece) => /\p{Cs}/u.test(piece))).toEqual([]);
});

test("counts each message once, and only what follows the usage of a reply", async () => {
  let characters = 0;
  const tokenizer = (text: string): number => {
    characters += text.length;
    return Math.round(text.length / 4);
  };
  // The usage of the first reply leaves the decision open when 4,000 characters are added.
  const { of } = world({ tokenizer }, { inputTokens: 4_200 });
  let { session } = await sessions.reply(of, sessionOf(2_000), "And?");
  expect(characters).toBe(0);
  const long = "word ".repeat(800);
  ({ session } = await sessions.reply(of, session, long));
  expect(characters).toBeGreaterThanOrEqual(long.length);
  expect(characters).toBeLessThan(long.length + 100);
  // Without a usage the whole request is counted, and later only what is new.
  characters = 0;
  const unknown = world({ tokenizer });
  ({ session } = await sessions.reply(unknown.of, sessionOf(4_000), "And?"));
  expect(characters).toBeGreaterThan(15_000);
  characters = 0;
  await sessions.reply(unknown.of, session, "word ".repeat(200));
  expect(characters).toBeGreaterThan(0);
  expect(characters).toBeLessThan(1_200);
});

test("gptTokenizer counts tokens of OpenAI's models, also of texts with words of its chat format", async () => {
  const tokenizer = gptTokenizer();
  expect(await tokenizer("Wie geht es dir heute?")).toBe(6);
  // Loaded now.
  expect(tokenizer("Wie geht es dir heute?")).toBe(6);
  expect(tokenizer("<|endoftext|>")).toBe(7);
  // A table of numbers has 3,400 tokens by its characters, and 6,200 by the tokenizer.
  const rows = Array.from({ length: 10 }, (_, page) =>
    Array.from({ length: 90 }, (__, row) => `${(page + row) * 7_919},${(page + row) * 104_729}`).join("\n"),
  );
  const session = newSession({ thread: fromMessages(rows.flatMap((text) => [user("More?"), assistant(text)])) });
  const counted = world({ tokenizer });
  await sessions.reply(counted.of, session, "And?");
  expect(counted.asked.slice(0, 1)).toEqual(["summary"]);
  const estimated = world({});
  await sessions.reply(estimated.of, session, "And?");
  expect(estimated.asked).toEqual(["call"]);
});

test("an engine with a tokenizer is described, and restored with one", () => {
  const tokenizer = (text: string): number => text.length;
  const { of } = world({ tokenizer });
  const described = describeEngine(of);
  expect(described["contextPolicy"]).toMatchObject({ window: 8_000, tokenizer: "custom" });
  const registry = of.adapter === null ? {} : { adapters: [of.adapter] };
  expect(() => restoreEngine(described, registry)).toThrow(/has its own tokenizer, which is not data/);
  expect(restoreEngine(described, { ...registry, tokenizer }).contextPolicy).toEqual(of.contextPolicy);
  expect(() => engine({ contextPolicy: JSON.parse('{ "tokenizer": "gpt" }') })).toThrow(/tokenizer must be a function/);
});
