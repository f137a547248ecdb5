// Replies that the provider pauses (`pause_turn` of Anthropic): the loop sends them back and continues, within one
// turn. The provider is a server on the loopback interface that answers with scripted messages, streamed or whole.

import type { Json, JsonObject } from "everturn";
import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

import { anthropic, chat, engine, step, stream, messageText, user } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const bodies: JsonObject[] = [];
const replies: JsonObject[] = [];
let isStreamed = false;
const server = createServer((asked, answer) => void serve(asked, answer));

async function serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of asked) chunks.push(Buffer.from(chunk));
  bodies.push(JSON.parse(Buffer.concat(chunks).toString("utf8")));
  const reply = replies.length > 1 ? replies.shift() : replies[0];
  answer.writeHead(200, { "content-type": isStreamed ? "text/event-stream" : "application/json" });
  answer.end(isStreamed ? eventsOf(reply ?? {}) : JSON.stringify(reply));
}

/** The stream of a message. Blocks are sent complete in their start events. */
function eventsOf(message: JsonObject): string {
  const { content, stop_reason, usage } = message;
  const blocks = Array.isArray(content) ? content : [];
  const events: readonly JsonObject[] = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    ...blocks.flatMap((content_block: Json, index) => [
      { type: "content_block_start", index, content_block },
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason: stop_reason ?? null }, usage: usage ?? {} },
    { type: "message_stop" },
  ];
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const message = (stop_reason: string, ...content: readonly JsonObject[]): JsonObject => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5",
  content,
  stop_reason,
  usage: { input_tokens: 10, output_tokens: 5 },
});
const search = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "Rome" } };
const searchResult = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
const thinking = { type: "thinking", thinking: "Search.", signature: "c2ln" };
const pausedContent = [thinking, { type: "text", text: "Searching." }, search];
const paused = message("pause_turn", ...pausedContent);
const answered = message("end_turn", searchResult, { type: "text", text: "Sunny." });

function script(...next: readonly JsonObject[]): void {
  bodies.length = 0;
  replies.splice(0, replies.length, ...next);
}

function anthropicEngine() {
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new Error("no port");
  const adapter = anthropic({ apiKey: "test", baseURL: `http://127.0.0.1:${bound.port}/v1` });
  return engine({ adapter, model: "claude-sonnet-4-5" });
}

/** The `messages` of each request. */
function sentMessages(): readonly Json[] {
  return bodies.map(({ messages = null }) => messages);
}

const question = { role: "user", content: [{ type: "text", text: "Weather?" }] };
const continuation = { role: "assistant", content: pausedContent };

describe.each([
  ["whole", false],
  ["streamed", true],
] as const)("a paused reply that is %s", (_, streams) => {
  test("is sent back unchanged, and the turn continues with the rest", async () => {
    script(paused, answered);
    isStreamed = streams;
    const result = await chat(anthropicEngine(), "Weather?");
    expect(sentMessages()).toMatchObject([[question], [question, continuation]]);
    expect(result.outcome).toEqual({ type: "assistant_message", text: "Sunny." });
    expect(result.usage).toMatchObject({ inputTokens: 20, outputTokens: 10 });
    expect(result.steps.map(({ done, response }) => [done, response.finishReason, response.rawFinishReason])).toEqual([
      [false, "paused", "pause_turn"],
      [true, "stop", "end_turn"],
    ]);
    expect(result.thread.messages.map(({ role }) => role)).toEqual(["user", "assistant", "assistant"]);
    // The next question sends both replies as one message.
    script(answered);
    await chat(anthropicEngine(), { ...result.thread, messages: [...result.thread.messages, user("And now?")] });
    expect(sentMessages()).toMatchObject([
      [
        question,
        { role: "assistant", content: [...pausedContent, searchResult, { type: "text", text: "Sunny." }] },
        { role: "user" },
      ],
    ]);
  });

  test("is one turn of a durable session", async () => {
    script(paused, answered);
    isStreamed = streams;
    const sessions = runtime({ host: memoryStorage(), engines: { default: anthropicEngine() }, live: false });
    const started = await sessions.start("Weather?", { id: "s" });
    const result = await started.result;
    expect(result.outcome).toEqual({ type: "assistant_message", text: "Sunny." });
    expect(result.usage).toMatchObject({ inputTokens: 20, outputTokens: 10 });
    expect(sentMessages()).toMatchObject([[question], [question, continuation]]);
  });
});

describe("a paused reply", () => {
  test("counts against maxTurns, so a provider that pauses forever ends the turn", async () => {
    script(paused);
    isStreamed = false;
    const result = await chat(anthropicEngine(), "Weather?", { maxTurns: 3 });
    expect(result.outcome).toEqual({ type: "max_turns", maxTurns: 3 });
    expect(bodies).toHaveLength(3);
  });

  test("leaves a single step open, and the next step continues it", async () => {
    script(paused, answered);
    const first = await step(anthropicEngine(), "Weather?");
    expect(first).toMatchObject({ done: false, response: { finishReason: "paused" } });
    const second = await step(anthropicEngine(), first.thread);
    expect(second.done).toBe(true);
    expect(sentMessages()).toMatchObject([[question], [question, continuation]]);
  });

  test("gives the events of two steps and one end", async () => {
    script(paused, answered);
    const types: string[] = [];
    let text = "";
    for await (const event of stream(anthropicEngine(), "Weather?")) {
      if (event.type === "message_completed") text += messageText(event.message);
      if (event.type === "step_completed" || event.type === "chat_completed") types.push(event.type);
    }
    expect(types).toEqual(["step_completed", "step_completed", "chat_completed"]);
    expect(text).toBe("Searching.Sunny.");
  });
});
