// The request of a model call, rebuilt: it is the request that was sent, and a change of what is stored is reported.

import type { Adapter } from "../../core/engine/internal.ts";
import type { StrictProvider } from "everturn/testing";

import { anthropic, engine, EngineError, gemini, openai, tool } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { strictProvider } from "everturn/testing";
import { expect, test } from "vitest";

const weather = tool({
  name: "weather",
  description: "The weather of a city.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  handler: () => "Sunny.",
});

const adapters: { readonly [api: string]: (provider: StrictProvider) => readonly [Adapter, model: string] } = {
  "OpenAI Responses": ({ fetch }) => [openai({ apiKey: "unused", fetch }), "gpt-5.4"],
  "OpenAI Chat": ({ fetch }) => [openai({ apiKey: "unused", fetch, api: "chat" }), "gpt-5.4"],
  Anthropic: ({ fetch }) => [anthropic({ apiKey: "unused", fetch }), "claude-opus-5"],
  Gemini: ({ fetch }) => [gemini({ apiKey: "unused", fetch }), "gemini-3-flash"],
};

/** Runs two turns, the first with a tool, and returns what was sent, and a reader of the storage. */
async function ranTurns(api: string) {
  const provider = strictProvider({
    scripts: [
      [{ type: "tool_call", name: "weather", arguments: { city: "Oslo" } }],
      [{ type: "text", text: "Sunny in Oslo." }],
      [{ type: "text", text: "You are welcome." }],
    ],
  });
  const [adapter, model] = adapters[api]?.(provider) ?? [openai(), ""];
  const agent = engine({ adapter, model, tools: [weather], instructions: "Answer briefly.", retry: false });
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: agent } });
  const first = await sessions.start("The weather?", { id: "s1" });
  await first.result;
  const second = await sessions.reply("s1", "Thank you.");
  await second.result;
  const reader = inspection({ host, engines: { default: agent } });
  const ordinals = async (turnId: string): Promise<readonly number[]> =>
    (await reader.timeline("s1", turnId)).effects.filter(({ kind }) => kind === "model").map(({ ordinal }) => ordinal);
  return { provider, host, reader, ordinals, first: first.turnId ?? "", second: second.turnId ?? "" };
}

test.each(Object.keys(adapters))("%s: the rebuilt body of every model call is the one that was sent", async (api) => {
  const { provider, reader, ordinals, first, second } = await ranTurns(api);
  const views = [];
  for (const turnId of [first, second])
    for (const ordinal of await ordinals(turnId)) views.push(await reader.request("s1", turnId, ordinal));
  expect(views.map(({ sent }) => sent?.body)).toEqual(provider.requests.map(({ body }) => body));
  expect(views).toHaveLength(3);
  expect(views.map(({ differences }) => differences)).toEqual([[], [], []]);
  expect(views[1]?.request).toMatchObject({ tools: [{ name: "weather" }] });
});

test("a stored message that was changed since is reported as another history", async () => {
  const { host, ordinals, reader, second } = await ranTurns("Anthropic");
  const [row] = (await host.read([{ table: "entries", prefix: ["", "s1"], limit: 1 }]))[0] ?? [];
  if (row === undefined) throw new Error("there is no message");
  const value = row.value.replace("The weather?", "The traffic?");
  expect(value).not.toBe(row.value);
  await host.write({ checks: [], removals: [], puts: [{ table: "entries", key: row.key, tag: row.tag, value }] });
  const [ordinal = 0] = await ordinals(second);
  const view = await reader.request("s1", second, ordinal);
  expect(view.differences).toEqual(["history.digest"]);
  expect(JSON.stringify(view.request)).toContain("The traffic?");
});

test("without the engine the request is shown, and nothing is encoded", async () => {
  const { host, ordinals, first } = await ranTurns("Anthropic");
  const [ordinal = 0] = await ordinals(first);
  const view = await inspection({ host }).request("s1", first, ordinal);
  expect(view).toMatchObject({ sent: null, differences: [] });
  expect(view.request).toMatchObject({ model: { id: "claude-opus-5" } });
});

test("an engine that refuses the model of the turn encodes nothing", async () => {
  const { host, ordinals, first } = await ranTurns("Anthropic");
  const [ordinal = 0] = await ordinals(first);
  const encode = () => Promise.reject(new EngineError("missing_adapter"));
  const other = engine({ adapter: { ...anthropic({ apiKey: "unused" }), encode }, model: "claude-opus-5" });
  const view = await inspection({ host, engines: { default: other } }).request("s1", first, ordinal);
  expect(view).toMatchObject({ sent: null, request: { model: { id: "claude-opus-5" } } });
});

test("a row that is no model call has no request", async () => {
  const { reader, first } = await ranTurns("Anthropic");
  const { effects } = await reader.timeline("s1", first);
  const call = effects.find(({ kind }) => kind === "tool");
  await expect(reader.request("s1", first, call?.ordinal ?? 0)).rejects.toMatchObject({ reason: "not_found" });
  await expect(reader.request("s1", first, 99)).rejects.toMatchObject({ reason: "not_found" });
});
