// Provider options in durable turns: stored with messages and tools, and sent again by another process.

import type { HostStorage } from "everturn/runtime";

import { anthropic, engine, textPart, tool, user, searchResultPart } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

const ephemeral = { cache_control: { type: "ephemeral" } } as const;

/** A process with an Anthropic engine over a storage. Its model calls the tool `search` once in a conversation. */
function createProcess(host: HostStorage) {
  const bodies: unknown[] = [];
  const adapter = anthropic({
    apiKey: "unused",
    fetch: async (_, { body }) => {
      const text = String(body);
      bodies.push(JSON.parse(text));
      const content = text.includes("tool_result")
        ? [{ type: "text", text: "30 days." }]
        : [{ type: "tool_use", id: "c1", name: "search", input: {} }];
      return Response.json({ content, stop_reason: text.includes("tool_result") ? "end_turn" : "tool_use" });
    },
  });
  const search = tool({
    name: "search",
    description: "Searches the handbook.",
    schema: { type: "object" },
    providerOptions: { anthropic: { strict: true }, openai: { strict: true } },
    handler: () => "found",
    toModel: () => [
      searchResultPart({ source: "handbook", title: "Returns", content: "Returns are free for 30 days." }),
    ],
  });
  const agent = engine({ adapter, model: "claude-sonnet-5-5", tools: [search], retry: false });
  return { sessions: runtime({ host, engines: { default: agent } }), bodies };
}

test("options of messages, parts and tools are stored, and another process sends them again", async () => {
  const host = memoryStorage();
  const first = createProcess(host);
  const message = user([textPart("Long text.", { providerOptions: { anthropic: ephemeral } }), textPart("Returns?")]);
  const turn = await first.sessions.start([message], {
    id: "s",
    providerOptions: { anthropic: { service_tier: "auto" }, openai: { service_tier: "flex" } },
  });
  await turn.result;
  await first.sessions.close();
  expect(first.bodies).toMatchObject([
    {
      service_tier: "auto",
      tools: [{ name: "search", strict: true }],
      messages: [{ content: [{ text: "Long text.", ...ephemeral }, { text: "Returns?" }] }],
    },
    {
      service_tier: "auto",
      messages: [
        {},
        {},
        { content: [{ type: "tool_result", content: [{ type: "search_result", citations: { enabled: true } }] }] },
      ],
    },
  ]);

  const second = createProcess(host);
  await (
    await second.sessions.reply("s", "And shoes?")
  ).result;
  await second.sessions.close();
  expect(second.bodies).toMatchObject([
    {
      messages: [
        { content: [{ text: "Long text.", ...ephemeral }, { text: "Returns?" }] },
        {},
        { content: [{ type: "tool_result", content: [{ type: "search_result", title: "Returns" }] }] },
        {},
        { content: [{ text: "And shoes?" }] },
      ],
    },
  ]);
  expect(second.bodies).not.toMatchObject([{ service_tier: expect.anything() }]);
});
