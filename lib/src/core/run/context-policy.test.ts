// Long conversations with a context policy: pruning, compaction, requests that are too long, and what survives.

import type { CountedReply, CountingOptions } from "../../../test/counting-provider.ts";
import type { Adapter, ContextPolicy, FakeScript, ModelRequest, Session } from "everturn";
import type { CompactPolicy } from "everturn/advanced";

import {
  assistant,
  catalog,
  engine,
  fake,
  messageText,
  modelRef,
  openaiCompatible,
  session as sessions,
  tool,
  fromMessages,
  newSession,
  user,
} from "everturn";
import { afterEach, expect, test } from "vitest";

import { CountingProvider } from "../../../test/counting-provider.ts";
import { summaryPrompt } from "../kernel/internal.ts";

const providers: CountingProvider[] = [];
afterEach(async () => {
  for (const provider of providers.splice(0)) await provider.close();
});

/** A provider that calls `lookup` for each user message and then answers. */
async function provider(rest: Partial<CountingOptions> = {}): Promise<CountingProvider> {
  const counting = new CountingProvider({
    window: 8_000,
    reply: (messages): CountedReply =>
      messages.at(-1)?.role === "tool" ? { text: "done" } : { call: "lookup", arguments: { n: messages.length } },
    summary: (_, index) => `summary ${index}: the code word is heron`,
    ...rest,
  });
  providers.push(counting);
  await counting.listen();
  return counting;
}

let size = 0;
const lookup = tool({
  name: "lookup",
  description: "Looks something up.",
  schema: { type: "object", properties: { n: { type: "number" } } },
  handler: () => "result ".repeat(Math.ceil(size / 7)),
});

function agent(counting: CountingProvider, contextPolicy: ContextPolicy | null = {}) {
  return engine({
    adapter: openaiCompatible({ baseURL: counting.baseURL }),
    model: "counting",
    instructions: "You look things up.",
    tools: [lookup],
    retry: false,
    contextPolicy: contextPolicy === null ? null : { window: 8_000, ...contextPolicy },
    options: { maxToolResultLength: 1_000_000 },
  });
}

type Agent = ReturnType<typeof agent>;

/** Runs turns with tool results of these lengths. */
async function run(of: Agent, sizes: readonly number[], from: Session = newSession()): Promise<Session> {
  let session = from;
  for (const [index, length] of sizes.entries()) {
    size = length;
    const { result, session: after } = await sessions.reply(of, session, `question ${index}`);
    expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
    session = after;
  }
  return session;
}

const mixed = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => (index % 20 === 7 ? 200_000 : 400 + (index % 5) * 400));

test("turns with results of up to 200 KB stay within the window, and the history stays whole", async () => {
  const counting = await provider();
  const session = await run(agent(counting), mixed(60));
  expect(counting.requests.filter(({ status }) => status !== 200)).toEqual([]);
  expect(session.thread.messages).toHaveLength(240);
  expect(session.thread.messages.find(({ content }) => content.length > 199_000)?.role).toBe("tool");
  // The prefix of a request is the one before, except where the context was pruned or compacted.
  const breaks = counting.requests.filter(
    ({ cached }, index) => index > 0 && cached < (counting.requests[index - 1]?.tokens ?? 0) * 0.9,
  );
  expect(breaks.length).toBeLessThan(counting.requests.length / 5);
  // The cost of a turn does not grow.
  const average = (requests: typeof counting.requests): number =>
    requests.reduce((sum, { tokens }) => sum + tokens, 0) / requests.length;
  const { requests } = counting;
  expect(average(requests.slice(-40))).toBeLessThan(1.3 * average(requests.slice(40, 80)));
});

test("without a context policy the same conversation ends with context_length_exceeded", async () => {
  const counting = await provider();
  const { result } = await sessions.reply(
    agent(counting, null),
    newSession({ thread: fromMessages([user("x".repeat(40_000))]) }),
    "Go on.",
  );
  expect(result.metadata.error).toMatchObject({ reason: "context_length_exceeded" });
  expect(counting.requests).toHaveLength(1);
});

test("the request of a summary appends to the request before, and the facts of the summary are in the next one", async () => {
  const counting = await provider();
  const session = await run(
    agent(counting, { prune: false, compact: { instructions: "Keep the code word." } }),
    mixed(20),
  );
  const index = counting.requests.findIndex(({ isSummary }) => isSummary);
  const [summary, next] = counting.requests.slice(index);
  expect(summary?.messages.at(-1)).toContain("Keep the code word.");
  // All of the request before, and what was new in the turn.
  const before = counting.requests[index - 1];
  expect(summary?.messages.slice(0, before?.messages.length)).toEqual(before?.messages);
  expect(next?.messages[1]).toContain(`summary ${index}: the code word is heron`);
  expect(next?.messages.length).toBeLessThan(summary?.messages.length ?? 0);
  const { frame } = session.contextWindow ?? { frame: null };
  expect(frame?.summary).toContain("the code word is heron");
  // A frame is no message.
  expect(session.thread.messages.some(({ content }) => String(content).includes("heron"))).toBe(false);
});

test("a summariser that returns nothing loses no message of the request, and does not loop", async () => {
  const counting = await provider({ summary: () => "" });
  const session = await run(agent(counting), mixed(30));
  expect(counting.requests.filter(({ status }) => status !== 200)).toEqual([]);
  expect(session.thread.messages).toHaveLength(120);
  expect(counting.requests.filter(({ isSummary }) => isSummary).length).toBeLessThan(10);
});

test("a request that is too long is compacted once and repeated in the same step", async () => {
  // The provider has a smaller window than the policy says.
  const counting = await provider({ window: 3_000 });
  const of = agent(counting, { keepRecent: 500 });
  let session: Session = newSession();
  const results = [];
  for (let turn = 0; turn < 12; turn += 1) {
    size = 1_500;
    const after = await sessions.reply(of, session, `question ${turn}`);
    results.push(after.result);
    session = after.session;
  }
  expect(counting.requests.some(({ status }) => status === 400)).toBe(true);
  expect(results.map(({ haltedReason, steps }) => [haltedReason, steps.length])).toEqual(
    results.map(() => ["completed", 2]),
  );
  expect(session.contextWindow?.frame).not.toBeNull();
});

test("a message that is longer than the window fails after one repetition", async () => {
  const counting = await provider();
  const session = await run(agent(counting), [400, 400]);
  const before = counting.requests.length;
  const { result } = await sessions.reply(agent(counting), session, "x".repeat(60_000));
  expect(result.metadata.error).toMatchObject({ reason: "context_length_exceeded" });
  expect(counting.requests.length - before).toBeLessThan(5);
});

/** A session whose messages have eight times as many tokens as the window. Each question has a fact. */
const longSession = (): Session =>
  newSession({
    thread: fromMessages(
      Array.from({ length: 80 }, (_, index) => [
        user(`fact-${index} ${"and so on ".repeat(200)}`),
        assistant(`Noted: ${"and so on ".repeat(120)}`),
      ]).flat(),
    ),
  });

const factsIn = (messages: unknown): readonly string[] => [
  ...new Set(JSON.stringify(messages).match(/fact-\d+/g) ?? []),
];

test("messages that do not fit in the request of one summary are summarized in parts, and none is left out", async () => {
  // The summary repeats the facts that it can see.
  const counting = await provider({ summary: (messages) => factsIn(messages).join(" ") });
  const { result, session } = await sessions.reply(agent(counting), longSession(), "Go on.");
  expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
  expect(counting.requests.map(({ status }) => status)).toEqual(counting.requests.map(() => 200));
  const summaries = counting.requests.filter(({ isSummary }) => isSummary);
  expect(summaries.length).toBeGreaterThan(5);
  const reply = counting.requests.findLast(({ isSummary }) => !isSummary);
  expect(factsIn(reply?.messages)).toHaveLength(80);
  expect(session.contextWindow?.frame?.id).toMatch(new RegExp(`/frame/${summaries.length}$`));
});

test("of a message that is longer than the window only that message is in no summary", async () => {
  const counting = await provider({ summary: (messages) => factsIn(messages).join(" ") });
  const { thread } = longSession();
  const messages = thread.messages.map((message, index) =>
    index === 30 ? user(`fact-15 ${"x".repeat(60_000)}`) : message,
  );
  const session = newSession({ thread: fromMessages(messages) });
  const { result } = await sessions.reply(agent(counting), session, "Go on.");
  expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
  expect(counting.requests.filter(({ status }) => status === 400)).toHaveLength(1);
  const next = counting.requests.findIndex(({ status }) => status === 400) + 1;
  expect(counting.requests[next]?.messages.join("")).toContain("[Messages after it that are in no summary: 1.]");
  const facts = factsIn(counting.requests.findLast(({ isSummary }) => !isSummary)?.messages);
  expect([facts.length, facts.includes("fact-15")]).toEqual([79, false]);
});

test("instructions that fill the window do not lead to a request for each message", async () => {
  const counting = await provider({ summary: () => "short" });
  const of = engine({ ...agent(counting), instructions: "rule ".repeat(6_000) });
  await sessions.reply(of, longSession(), "Go on.");
  expect(counting.requests.length).toBeLessThan(6);
});

test("a part without a summary keeps the summaries of the parts before", async () => {
  let parts = 0;
  const summary = (messages: unknown): string => {
    parts += 1;
    return parts > 3 ? "" : factsIn(messages).join(" ");
  };
  const counting = await provider({ summary });
  const { result } = await sessions.reply(agent(counting), longSession(), "Go on.");
  expect(result.haltedReason).toBe("completed");
  expect(parts).toBe(4);
  const reply = counting.requests.findLast(({ isSummary }) => !isSummary);
  expect(factsIn(reply?.messages)).toContain("fact-0");
  expect(reply?.messages.join("")).toMatch(/\[Messages after it that are in no summary: \d+\.\]/);
});

test("readers get no event of a summary, and its usage counts", async () => {
  const counting = await provider();
  const of = agent(counting, { prune: false });
  const session = await run(of, mixed(10));
  const seen: string[] = [];
  let summaries = 0;
  let after = session;
  for (let turn = 0; turn < 10; turn += 1) {
    size = 1_600;
    const first = counting.requests.length;
    const stream = sessions.streamReply(of, after, "Go on.");
    for await (const event of stream) {
      const { type } = event;
      if (type !== "chat_completed") seen.push(JSON.stringify(event));
    }
    const { result, session: next } = await stream.result;
    after = next;
    const ofTurn = counting.requests.slice(first);
    summaries += ofTurn.filter(({ isSummary }) => isSummary).length;
    expect(result.usage.inputTokens).toBe(ofTurn.reduce((sum, { tokens }) => sum + tokens, 0));
  }
  expect(summaries).toBeGreaterThan(0);
  expect(seen.filter((event) => event.includes("heron"))).toEqual([]);
});

test("pinned messages and system messages of the caller are sent as they are after a summary", async () => {
  const counting = await provider();
  const thread = fromMessages([user("My name is Ada.", { metadata: { pinned: true } })]);
  const of = agent(counting, { prune: false });
  const session = await run(of, mixed(20), newSession({ thread }));
  expect(session.contextWindow?.frame?.pinned).toContain(0);
  expect(counting.requests.at(-1)?.messages.join("")).toContain("My name is Ada.");
});

test("a summary counts in the budget of the turn and in the totals of the session", async () => {
  const counting = await provider();
  const history = Array.from({ length: 10 }, (_, index) =>
    index % 2 === 0 ? user("word ".repeat(440)) : assistant("word ".repeat(440)),
  );
  size = 400;
  const before = newSession({ thread: fromMessages(history) });
  const reply = async (tokens: number) => {
    const first = counting.requests.length;
    const { result, session } = await sessions.reply(agent(counting), before, "And?", { budgets: { tokens } });
    return { result, session, sent: counting.requests.slice(first) };
  };
  const whole = await reply(100_000);
  expect(whole.sent.map(({ isSummary }) => isSummary)).toEqual([true, false, false]);
  expect(whole.session.usage.inputTokens).toBe(whole.sent.reduce((sum, { tokens }) => sum + tokens, 0));
  // Enough for both calls, and not for the summary too: the turn ends after the step with the summary.
  const short = await reply(6_500);
  expect(whole.sent.slice(1).reduce((sum, { tokens }) => sum + tokens, 0)).toBeLessThan(6_000);
  expect(short.sent.map(({ isSummary }) => isSummary)).toEqual([true, false]);
  expect(short.result.haltedReason).toBe("budget");
});

test("the model of the policy writes the summary", async () => {
  const counting = await provider();
  const of = agent(counting, { prune: false, compact: { model: "small" } });
  await run(of, mixed(15));
  const models = new Set(counting.requests.filter(({ isSummary }) => isSummary).map(({ model }) => model));
  expect([...models]).toEqual(["small"]);
});

test.each<[ContextPolicy, RegExp]>([
  [{ window: 0 }, /contextPolicy: window must be a whole number of 1 or more/],
  [{ compact: { at: 2 } }, /compact.at must be a number greater than 0 and up to 1/],
  [{ compact: { by: "provider", model: "m" } }, /compact.model is not used with by: "provider"/],
  [{ compact: { by: "provider", instructions: "Keep names." } }, /compact.instructions is not used with by/],
  [{ compact: { by: "provider", maxTokens: 100 } }, /compact.maxTokens is not used with by/],
  [{ compact: { maxTokens: 0 } }, /compact.maxTokens must be a whole number of 1 or more/],
  [{ compact: { budget: { cost: 0 } } }, /compact.budget.cost must be/],
  [JSON.parse('{ "compact": { "budget": { "euros": 1 } } }'), /unknown option "compact.budget.euros"/],
  [JSON.parse('{ "compact": { "by": "me" } }'), /compact.by must be "model" or "provider"/],
  [JSON.parse('{ "prune": { "from": 1 } }'), /unknown option "prune.from"/],
])("refuses the policy %j", (policy, message) => {
  expect(() => engine({ contextPolicy: policy })).toThrow(message);
});

test("refuses a turn whose window is not known or has no room", async () => {
  const counting = await provider();
  const adapter = openaiCompatible({ baseURL: counting.baseURL });
  const unknown = engine({ adapter, model: "counting", contextPolicy: {} });
  await expect(sessions.reply(unknown, newSession(), "hi")).rejects.toThrow(
    /context window of the model counting is not known/,
  );
  const full = engine({ adapter, model: "counting", contextPolicy: { window: 1_000, keepRecent: 900 } });
  await expect(sessions.reply(full, newSession(), "hi")).rejects.toThrow(/leave nothing of the window of 1000 tokens/);
});

// Summaries with a model, a length and a budget of their own.

const price = (input: number, output: number) => ({ input, output, cacheRead: null, cacheWrite: null });
const priced = catalog([
  modelRef({ provider: "fake", id: "m", pricing: price(2, 10), limits: { context: 8_000, output: 4_000 } }),
  modelRef({ provider: "fake", id: "small", pricing: price(1, 1), limits: { context: 8_000, output: 4_000 } }),
]);

/** A model that reports 1,000 input and 100 output tokens, and what it was asked for summaries. */
function pricedAgent(compact: CompactPolicy, { script, usage }: PricedOptions = {}) {
  const summaries: ModelRequest[] = [];
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      const isSummary = messageText(request.messages.at(-1) ?? user("")).startsWith(summaryPrompt);
      if (isSummary) summaries.push(request);
      const text: FakeScript = [{ type: "text", text: isSummary ? "The code word is heron." : "Seen." }];
      const reported = isSummary ? usage : undefined;
      return fake({
        script: isSummary ? (script ?? text) : text,
        usage: reported ?? { inputTokens: 1_000, outputTokens: 100 },
      }).stream(request, call);
    },
  };
  const contextPolicy = { window: 8_000, keepRecent: 1_000, prune: false, compact } as const;
  return { summaries, of: engine({ adapter, model: "fake:m", catalog: priced, contextPolicy }) };
}

type PricedOptions = {
  /** The reply to the request of a summary. Default: a text. */
  readonly script?: FakeScript;
  /** The usage of a summary. */
  readonly usage?: { readonly inputTokens?: number };
};

/** Messages with four times as many tokens as the window, which are summarized in parts. */
const manyMessages = (): Session =>
  newSession({
    thread: fromMessages(
      Array.from({ length: 40 }, (_, index) => {
        const text = `${index} ${"word ".repeat(640)}`;
        return index % 2 === 0 ? user(text) : assistant(text);
      }),
    ),
  });

test("the price of the model of the policy is that of the catalog", async () => {
  const { of, summaries } = pricedAgent({ model: "fake:small" });
  const { result } = await sessions.reply(of, manyMessages(), "And?", { budgets: { cost: 10 } });
  // Without a price the cost of the turn would be unknown, and the budget used up.
  expect(result.haltedReason).toBe("completed");
  const ofSummaries = (summaries.length * (1_000 * 1 + 100 * 1)) / 1e6;
  expect(result.usage.totalCost).toBeCloseTo(ofSummaries + (1_000 * 2 + 100 * 10) / 1e6, 8);
});

test("a summary has the greatest length of the policy, and the model is told", async () => {
  const { of, summaries } = pricedAgent({ maxTokens: 600 });
  await sessions.reply(of, manyMessages(), "And?", { params: { maxTokens: 50 } });
  expect(new Set(summaries.map(({ maxTokens }) => maxTokens))).toEqual(new Set([600]));
  expect(messageText(summaries[0]?.messages.at(-1) ?? user(""))).toMatch(/Write at most 400 words\.$/);
  // Without one, that of the other requests.
  const others = pricedAgent({});
  await sessions.reply(others.of, manyMessages(), "And?", { params: { maxTokens: 50 } });
  expect(new Set(others.summaries.map(({ maxTokens }) => maxTokens))).toEqual(new Set([50]));
  expect(messageText(others.summaries[0]?.messages.at(-1) ?? user(""))).not.toContain("at most");
});

test("a summary that reaches its greatest length is used, and says that it was cut off", async () => {
  const script: FakeScript = [
    { type: "text", text: "The code word is" },
    { type: "finish", reason: "length" },
  ];
  const { of } = pricedAgent({ maxTokens: 4 }, { script });
  const { session, result } = await sessions.reply(of, manyMessages(), "And?");
  expect(result.haltedReason).toBe("completed");
  expect(session.contextWindow?.frame?.summary).toBe("The code word is\n\n[The summary was cut off here.]");
});

test.each<[CompactPolicy["budget"], number]>([
  // Each summary reports 1,100 tokens, which cost 0.003 US dollars.
  [{ tokens: 2_000 }, 2],
  [{ tokens: 1_100 }, 1],
  [{ cost: 0.007 }, 3],
])(
  "after the summary that reaches the budget %j none is requested, and the turn does not fail",
  async (budget, made) => {
    const whole = pricedAgent({});
    await sessions.reply(whole.of, manyMessages(), "And?");
    expect(whole.summaries.length).toBeGreaterThan(4);
    const { of, summaries } = pricedAgent(budget === undefined ? {} : { budget });
    const { session, result } = await sessions.reply(of, manyMessages(), "And?");
    expect([result.metadata.error, result.haltedReason]).toEqual([undefined, "completed"]);
    expect(summaries).toHaveLength(made);
    // The summaries before stay, and the model reads how many messages are in none.
    expect(session.contextWindow?.frame?.summary).toMatch(
      /^The code word is heron\.\n\n\[Messages after it that are in no summary: \d+\.\]$/,
    );
    expect(session.contextWindow?.summaryUsage).toMatchObject({ inputTokens: made * 1_000, outputTokens: made * 100 });
    // The next turn has a budget of its own.
    const next = await sessions.reply(of, { ...session, thread: manyMessages().thread, contextWindow: null }, "And?");
    expect(next.result.haltedReason).toBe("completed");
    expect(summaries).toHaveLength(2 * made);
  },
);

test("a budget of the session counts the summaries of all its turns", async () => {
  const { of, summaries } = pricedAgent({ budget: { tokens: 2_000, per: "session" } });
  const first = await sessions.reply(of, manyMessages(), "And?");
  expect(summaries).toHaveLength(2);
  let { session } = first;
  for (let turn = 0; turn < 12; turn += 1) {
    const after = await sessions.reply(of, session, "word ".repeat(640));
    expect([after.result.metadata.error, after.result.haltedReason]).toEqual([undefined, "completed"]);
    ({ session } = after);
  }
  expect(summaries).toHaveLength(2);
  expect(session.contextWindow?.summaryUsage.inputTokens).toBe(2_000);
});

test("a summary of unknown usage uses up a budget", async () => {
  const { of, summaries } = pricedAgent({ budget: { tokens: 1_000_000 } }, { usage: {} });
  const { result } = await sessions.reply(of, manyMessages(), "And?");
  expect(result.haltedReason).toBe("completed");
  expect(summaries).toHaveLength(1);
});

test("a budget of cost needs the prices of the models that write summaries", async () => {
  const unpriced: ContextPolicy["compact"] = { model: "fake:unknown" };
  const budgets = { cost: 1 };
  await expect(sessions.reply(pricedAgent(unpriced).of, newSession(), "hi", { budgets })).rejects.toThrow(
    /^budgets\.cost needs the price .* of fake:unknown is not known/,
  );
  await expect(sessions.reply(pricedAgent({ ...unpriced, budget: budgets }).of, newSession(), "hi")).rejects.toThrow(
    /^contextPolicy\.compact\.budget\.cost needs the price/,
  );
});
