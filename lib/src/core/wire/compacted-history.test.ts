// Compaction by the provider: what asks for it, and what of a compacted conversation is sent to whom.

import type { Json, JsonObject, Message } from "everturn";
import type { Codec, WireContext } from "everturn/advanced";

import { assistant, system, toolResult, user } from "everturn";
import { anthropicMessages, geminiGenerateContent, openaiChat, openaiResponses, request } from "everturn/advanced";
import { violations } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { Collector } from "../kernel/internal.ts";

const contextOf = (provider: string, model = "m"): WireContext => ({
  route: { provider, endpoint: `https://${provider}.example/v1`, model },
  rawChunks: false,
  quirks: {},
});

type Row = {
  readonly codec: Codec;
  readonly context: WireContext;
  /** A reply that begins with a compaction item. */
  readonly reply: (item: JsonObject) => Json;
  readonly item: JsonObject;
  /** An item that replaces nothing. */
  readonly emptyItem: JsonObject;
  readonly sentIn: "messages" | "input";
};

const rows: { readonly [name: string]: Row } = {
  Anthropic: {
    codec: anthropicMessages,
    context: contextOf("anthropic"),
    reply: (item) => ({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [
        item,
        { type: "text", text: "Sunny." },
        { type: "tool_use", id: "toolu_1", name: "look", input: { at: "Oslo" } },
      ],
      stop_reason: "tool_use",
      usage: { input_tokens: 5, output_tokens: 1 },
    }),
    item: { type: "compaction", content: "It rained.", encrypted_content: "b3BhcXVl", signature: "c2ln" },
    emptyItem: { type: "compaction", content: null },
    sentIn: "messages",
  },
  "OpenAI Responses": {
    codec: openaiResponses,
    context: contextOf("openai"),
    reply: (item) => ({
      id: "resp_1",
      object: "response",
      status: "completed",
      model: "m",
      output: [
        item,
        { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "Sunny." }] },
        { type: "function_call", id: "fc_1", call_id: "toolu_1", name: "look", arguments: '{"at":"Oslo"}' },
      ],
      usage: { input_tokens: 5, output_tokens: 1 },
    }),
    item: { type: "compaction", id: "cmp_1", encrypted_content: "b3BhcXVl", created_by: "model" },
    emptyItem: { type: "compaction", id: "cmp_1", encrypted_content: "" },
    sentIn: "input",
  },
};

function messageOf({ codec, context, reply }: Row, item: JsonObject): Message {
  const collector = new Collector();
  for (const event of codec.decodeReply(reply(item), context)) collector.add(event);
  const { message } = collector.reply();
  if (message === null) throw new Error("no message");
  return message;
}

const historyOf = (row: Row, item = row.item): readonly Message[] => [
  system("Be brief."),
  user("How was the weather in May?"),
  assistant("Wet."),
  system("The user is in Oslo."),
  user("And now?"),
  messageOf(row, item),
  toolResult("toolu_1", "20 °C"),
];

const bodyOf = (
  { codec, context }: Pick<Row, "codec" | "context">,
  messages: readonly Message[],
  compactAt: number | null = 90_000,
) => codec.encode(request(messages, compactAt === null ? {} : { compactAt }), context);

describe.each(Object.entries(rows))("%s", (_, row) => {
  test("is asked to compact at a number of tokens, and only if the request says so", () => {
    const { body } = bodyOf(row, [user("hi")]);
    expect(body["context_management"]).toEqual(
      row.sentIn === "messages"
        ? { edits: [{ type: "compact_20260112", trigger: { type: "input_tokens", value: 90_000 } }] }
        : [{ type: "compaction", compact_threshold: 90_000 }],
    );
    expect(row.codec.encode(request([user("hi")]), row.context).body).not.toHaveProperty("context_management");
  });

  test("gets its item back unchanged, system messages, and nothing else of what the item replaces", () => {
    const { body, omissions } = bodyOf(row, historyOf(row));
    const text = JSON.stringify(body);
    expect(text).toContain(JSON.stringify(row.item));
    expect(text).toContain("Be brief.");
    expect(text).toContain("The user is in Oslo.");
    expect(text).toContain("20 °C");
    expect(text).not.toMatch(/May|Wet|And now/);
    expect(omissions.filter(({ message }) => message !== undefined)).toEqual([]);
  });

  test("gets what it has sent as a prefix of what follows, for its prompt cache", () => {
    const history = historyOf(row);
    const next = [...history, assistant("Warm."), user("Thanks.")];
    const listOf = ({ body }: { readonly body: JsonObject }): readonly Json[] => {
      const list = body[row.sentIn];
      return Array.isArray(list) ? list : [];
    };
    const before = listOf(bodyOf(row, history));
    expect(listOf(bodyOf(row, next)).slice(0, before.length)).toEqual(before);
    expect(listOf(bodyOf(row, next)).length).toBeGreaterThan(before.length);
  });

  test("the newest item counts, and one without content replaces nothing", () => {
    const first = historyOf(row);
    const second = [...first, assistant("Warm."), user("Once more."), messageOf(row, { ...row.item, id: "cmp_2" })];
    const text = JSON.stringify(bodyOf(row, [...second, toolResult("toolu_1", "21 °C")], null).body);
    expect(text.match(/"type":"compaction"/g)).toHaveLength(1);
    expect(text).toContain("cmp_2");
    expect(text).not.toMatch(/20 °C|Once more/);
    expect(JSON.stringify(bodyOf(row, historyOf(row, row.emptyItem)).body)).toContain("Wet.");
  });

  test("another provider, endpoint or model gets the whole history without the item", () => {
    const { provider, endpoint } = row.context.route;
    const targets: readonly Pick<Row, "codec" | "context">[] = [
      { codec: row.codec, context: contextOf(provider, "other") },
      { codec: row.codec, context: { ...row.context, route: { provider, endpoint: `${endpoint}2`, model: "m" } } },
      ...Object.values(rows).filter(({ codec }) => codec !== row.codec),
      { codec: openaiChat, context: contextOf("chat") },
      { codec: geminiGenerateContent, context: contextOf("gemini") },
    ];
    for (const target of targets) {
      const { body, omissions } = bodyOf(target, historyOf(row));
      const text = JSON.stringify(body);
      expect(text).not.toMatch(/b3BhcXVl|It rained/);
      for (const kept of ["May", "Wet", "And now", "Sunny", "20 °C"]) expect(text).toContain(kept);
      expect(omissions.map(({ path }) => path)).toContain("messages[5].content[0]");
    }
  });

  test("omissions name the places of the request, not of what is sent of it", () => {
    const foreign = historyOf(row).concat(messageOf({ ...row, context: contextOf("elsewhere") }, row.item));
    const { omissions } = bodyOf(row, foreign);
    expect(omissions).toContainEqual({ path: "messages[7].content[0]", reason: "foreign_replay" });
  });
});

test("Anthropic: the beta is named for a request that asks, that has options that ask, or that has the block", () => {
  const { context } = rows["Anthropic"] ?? { context: contextOf("anthropic") };
  const betaOf = (messages: readonly Message[], fields: Parameters<typeof request>[1] = {}) =>
    anthropicMessages.encode(request(messages, fields), context).headers["anthropic-beta"];
  expect(betaOf([user("hi")])).toBeUndefined();
  expect(betaOf([user("hi")], { compactAt: 60_000 })).toBe("compact-2026-01-12");
  const edits = [{ type: "compact_20260112" }];
  expect(betaOf([user("hi")], { options: { context_management: { edits } } })).toBe("compact-2026-01-12");
  const row = rows["Anthropic"];
  if (row === undefined) throw new Error("no row");
  expect(betaOf(historyOf(row))).toBe("compact-2026-01-12");
});

test.each([
  ["Anthropic", "anthropic-messages", anthropicMessages, '"value":50000'],
  ["OpenAI", "openai-responses", openaiResponses, '"compact_threshold":1000'],
] as const)("%s: the API refuses a low number of tokens, so a lower one is raised", (_, api, codec, expected) => {
  const { body, headers } = codec.encode(request([user("hi")], { compactAt: 8 }), contextOf("p"));
  expect(JSON.stringify(body)).toContain(expected);
  expect(violations(api, { body, headers })).toEqual([]);
  const tooLow = JSON.parse(JSON.stringify(body).replace(expected, expected.replace(/\d+$/, "8")));
  expect(violations(api, { body: tooLow, headers })).toHaveLength(1);
});

test("Anthropic: the tokens of the compaction itself are part of the usage", () => {
  const collector = new Collector();
  const usage = {
    input_tokens: 23_000,
    output_tokens: 1_000,
    cache_read_input_tokens: 10,
    iterations: [
      { type: "compaction", input_tokens: 180_000, output_tokens: 3_500, cache_read_input_tokens: 5 },
      { type: "message", input_tokens: 23_000, output_tokens: 1_000 },
    ],
  };
  const reply = { id: "msg_1", model: "m", content: [{ type: "text", text: "Hi." }], stop_reason: "end_turn", usage };
  for (const event of anthropicMessages.decodeReply(reply, contextOf("anthropic"))) collector.add(event);
  expect(collector.reply().usage).toMatchObject({
    inputTokens: 203_015,
    outputTokens: 4_500,
    cachedInputTokens: 15,
  });
});

test.each([
  ["Chat Completions", openaiChat],
  ["Gemini", geminiGenerateContent],
])("%s has no compaction: a warning says so", (_, codec) => {
  const { body, omissions } = bodyOf({ codec, context: contextOf("p") }, [user("hi")]);
  expect(JSON.stringify(body)).not.toContain("90000");
  expect(omissions).toMatchObject([{ path: "compactAt", reason: "unsupported" }]);
});
