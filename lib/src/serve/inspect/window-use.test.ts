// What fills the context window in a recorded call: the numbers of the provider where it counts, otherwise those with
// which the context policy has decided.

import type { CountedRequest } from "../../../test/counting-provider.ts";
import type { ContextPolicy, JsonObject } from "everturn";
import type { WindowUse } from "everturn/advanced";

import { anthropic, engine, fake, openaiCompatible, says, calls, tool } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, expect, test } from "vitest";

import { CountingProvider } from "../../../test/counting-provider.ts";

const providers: CountingProvider[] = [];
afterEach(async () => {
  for (const provider of providers.splice(0)) await provider.close();
});

const look = tool({
  name: "look",
  description: "Looks at a thing and describes it.",
  schema: { type: "object", properties: { of: { type: "string", description: "What to look at." } } },
  handler: () => "seen and written down ".repeat(40),
});

const instructions = "You look at things, and say what they are. ".repeat(4);

/** Runs turns in session `s`, and returns what fills the window in every call of a model, in order. */
async function usesOf(of: ReturnType<typeof engine>, count: number, compactBefore = -1) {
  const host = memoryStorage();
  const engines = { default: of };
  const sessions = runtime({ host, engines });
  const reader = inspection({ host, engines });
  const uses: (WindowUse & { readonly kind: string })[] = [];
  /** What the timelines say about frames: their ids and ranges. */
  const ranges: { readonly id: string; readonly from: number; readonly to: number }[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    if (turn === compactBefore) await sessions.compact("s");
    const text = `Look at thing ${turn}.`;
    const handle = turn === 0 ? await sessions.start(text, { id: "s" }) : await sessions.reply("s", text);
    expect((await handle.result).haltedReason).toBe("completed");
    const turnId = handle.turnId ?? "";
    for (const { kind, ordinal, frame } of (await reader.timeline("s", turnId)).effects) {
      if (frame !== null) ranges.push(frame);
      if (kind !== "model" && kind !== "compaction") continue;
      const { window, differences } = await reader.request("s", turnId, ordinal);
      expect(differences).toEqual([]);
      uses.push({ ...window, kind });
    }
  }
  const session = (await sessions.get("s"))?.session;
  const frames = (await sessions.frames("s")).items;
  expect(ranges.map(({ id, to }) => ({ id, to }))).toEqual(frames.map(({ id, to }) => ({ id, to })));
  expect(ranges.map(({ from }) => from)).toEqual([0, ...frames.map(({ to }) => to)].slice(0, ranges.length));
  await sessions.close();
  return { uses, session };
}

const partsOf = ({ parts }: WindowUse): { readonly [name: string]: number } =>
  Object.fromEntries(parts.map(({ name, tokens }) => [name, tokens]));

const sumOf = ({ parts }: WindowUse): number => parts.reduce((sum, { tokens }) => sum + tokens, 0);

async function counting(contextPolicy: ContextPolicy | null, window = 100_000) {
  const provider = new CountingProvider({
    window,
    reply: (messages) =>
      messages.at(-1)?.role === "tool" ? { text: "It is there." } : { call: "look", arguments: { of: "it" } },
    summary: () => `Seen so far: ${"a thing that was there, ".repeat(20)}`,
  });
  providers.push(provider);
  await provider.listen();
  const of = engine({
    adapter: openaiCompatible({ baseURL: provider.baseURL }),
    model: "counting",
    instructions,
    tools: [look],
    retry: false,
    contextPolicy,
  });
  return { provider, of };
}

/** The tokens of the messages of a role in a request, as the provider counts: four characters are one. */
function countedOf({ messages }: CountedRequest, role: string): number {
  const parsed = messages.map((message): JsonObject => JSON.parse(message));
  return JSON.stringify(parsed.filter((message) => message["role"] === role)).length / 4;
}

test("every counted request has the number of its provider, and its parts add up to it", async () => {
  const { provider, of } = await counting({ window: 4_000, reserve: 500, keepRecent: 600, prune: false });
  const { uses } = await usesOf(of, 14);
  expect(uses.map(({ kind }) => kind)).toContain("compaction");
  expect(uses.map(({ input }) => input)).toEqual(
    provider.requests.map(({ tokens }) => ({ tokens, source: "counted" })),
  );
  expect(uses.map(sumOf)).toEqual(provider.requests.map(({ tokens }) => tokens));
  for (const [index, use] of uses.entries()) {
    expect(use).toMatchObject({ window: 4_000, reserve: 500, compactAt: 2_800 });
    const { tokens } = use.input;
    expect(use.free).toEqual({ tokens: Math.max(0, 3_500 - tokens), source: "counted" });
    expect(use.parts.every(({ source }) => source === "estimated")).toBe(true);
    const request = provider.requests[index];
    if (request === undefined) throw new Error("a call without a request");
    const parts = partsOf(use);
    // An estimate: within a tenth of the request.
    expect(Math.abs((parts["results"] ?? 0) - countedOf(request, "tool"))).toBeLessThan(tokens / 10);
    expect(Math.abs((parts["instructions"] ?? 0) - countedOf(request, "system"))).toBeLessThan(tokens / 10);
    expect(parts["tools"]).toBeGreaterThan(0);
    const hasFrame = request.messages.join("").includes("[Summary of the earlier conversation");
    expect((parts["summary"] ?? 0) > 0).toBe(hasFrame);
  }
  expect(partsOf(uses.at(-1) ?? fail())["summary"]).toBeGreaterThan(100);
});

test("without a count of the provider a request has the number with which the context policy has decided", async () => {
  const { uses, session } = await usesOf(
    engine({
      adapter: fake({
        scripts: [calls("look", {}), says("There."), says("We looked."), calls("look", {}), says("There again.")],
        usage: { inputTokens: 0, outputTokens: 0 },
      }),
      model: "fake:m",
      instructions,
      tools: [look],
      contextPolicy: { window: 9_000 },
    }),
    2,
    1,
  );
  expect(uses.map(({ kind }) => kind)).toEqual(["model", "model", "compaction", "model", "model"]);
  expect(new Set(uses.map(({ input }) => input.source))).toEqual(new Set(["estimated"]));
  expect(session?.contextWindow?.count?.source).toBe("estimated");
  expect(uses.at(-1)?.input.tokens).toBe(session?.contextWindow?.count?.tokens);
  expect(uses.map(sumOf)).toEqual(uses.map(({ input }) => input.tokens));
});

test("without a context policy the window is that of the model, if it is known, and nothing is reserved", async () => {
  const { of } = await counting(null);
  const [use] = (await usesOf(of, 1)).uses;
  expect(use).toMatchObject({ window: null, reserve: 0, compactAt: null, free: null });
  expect(sumOf(use ?? fail())).toBe(use?.input.tokens);
  const limited = engine({ adapter: fake({ scripts: [says("Hello.")] }), model: "openai:gpt-5.4" });
  const [known] = (await usesOf(limited, 1)).uses;
  expect(known?.window).toBeGreaterThan(100_000);
  expect(known?.free?.tokens).toBe((known?.window ?? 0) - (known?.input.tokens ?? 0));
});

test("what the provider has compacted is not in the window, and its item is the summary", async () => {
  let requests = 0;
  const adapter = anthropic({
    apiKey: "key-0123456789",
    fetch: () => {
      requests += 1;
      const item = { type: "compaction", content: "They looked. ".repeat(40), encrypted_content: "b3BhcXVl" };
      const usage = { input_tokens: requests === 2 ? 70_000 : 0, output_tokens: 5 };
      return Promise.resolve(
        Response.json({
          id: `msg_${requests}`,
          type: "message",
          role: "assistant",
          model: "claude-sonnet-4-6",
          content: [...(requests === 2 ? [item] : []), { type: "text", text: "Seen. ".repeat(100) }],
          stop_reason: "end_turn",
          usage,
        }),
      );
    },
  });
  const { uses } = await usesOf(
    engine({
      adapter,
      model: "claude-sonnet-4-6",
      retry: false,
      contextPolicy: { window: 100_000, reserve: 20_000, prune: false, compact: { by: "provider", at: 0.7 } },
    }),
    3,
  );
  const [, second, third] = uses;
  expect(second?.compactAt).toBe(56_000);
  // The provider has counted the tokens of its compaction with those of the request.
  expect(second?.input.source).toBe("estimated");
  expect(second?.input.tokens).toBeLessThan(1_000);
  // The item and the text of its reply are sent, and the messages before them are not.
  expect(third?.input.tokens).toBeLessThan(500);
  expect(partsOf(third ?? fail())["summary"]).toBeGreaterThan(100);
});

function fail(): never {
  throw new Error("there is no such call");
}
