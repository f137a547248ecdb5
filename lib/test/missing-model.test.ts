// A run without a model, or with a model that the adapter cannot call, is an `EngineError` before anything is sent or
// stored.

import { anthropic, chat, engine, fake, gemini, generate, openai, providers, step, stream, session } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

const refuse = () => Promise.reject(new Error("no request may be sent"));
const options = { apiKey: "k", fetch: refuse };
const adapters = {
  openai: openai(options),
  "openai, Chat Completions": openai({ ...options, api: "chat" }),
  anthropic: anthropic(options),
  gemini: gemini(options),
  providers: providers({ openai: openai(options), gemini: gemini(options) }),
};

test("a prompt template of OpenAI names its model: the request has none", async () => {
  const bodies: unknown[] = [];
  const answer = { object: "response", id: "r", status: "completed", model: "gpt-5.4", output: [] };
  const adapter = openai({
    apiKey: "k",
    fetch: async (_, init) => {
      bodies.push(JSON.parse(String(init.body)));
      return new Response(JSON.stringify(answer), { headers: { "content-type": "application/json" } });
    },
  });
  const params = { prompt: { id: "pmpt_1", variables: { city: "Rome" } } };
  const reply = await generate(engine({ adapter }), "hi", { params });
  expect(reply).toMatchObject({ error: null, model: "gpt-5.4" });
  await chat(engine({ adapter: providers({ openai: adapter }) }), "hi", { params });
  expect(bodies).toMatchObject([params, params]);
  for (const body of bodies) expect(body).not.toHaveProperty("model");
  await expect(generate(engine({ adapter: anthropic(options) }), "hi", { params })).rejects.toThrow(/model/);
});

describe.each(Object.entries(adapters))("%s without a model", (_, adapter) => {
  const agent = engine({ adapter });
  const missing = expect.objectContaining({ name: "EngineError", reason: "missing_model" });
  const verbs = {
    generate: () => generate(agent, "hi"),
    step: () => step(agent, "hi"),
    chat: () => chat(agent, "hi"),
    "session start": () => session.start(agent, "hi"),
    "durable start": () => runtime({ host: memoryStorage(), engines: { default: agent } }).start("hi"),
  };

  test.each(Object.entries(verbs))("%s rejects with missing_model", async (__, verb) => {
    await expect(verb()).rejects.toEqual(missing);
  });

  test("stream throws when it is called, and the error names the option", () => {
    expect(() => stream(agent, "hi")).toThrow(missing);
    expect(() => stream(agent, "hi")).toThrow(/model/);
  });

  test("a durable start stores nothing", async () => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    await expect(sessions.start("hi", { id: "s" })).rejects.toEqual(missing);
    expect(await sessions.get("s")).toBeNull();
  });
});

test("a model of another provider is refused by the verb, and not by the turn that it would start", async () => {
  const agent = engine({ adapter: openai(options), model: "anthropic:claude-x" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  await expect(sessions.start("hi", { id: "s" })).rejects.toThrow(/is of the provider anthropic/);
  expect(() => stream(agent, "hi")).toThrow(/is of the provider anthropic/);
});

test("prepareStep may set the model, and a step for which it sets none fails with missing_model", async () => {
  const agent = engine({ adapter: openai(options), retry: { maxAttempts: 1 } });
  const named = await chat(agent, "hi", { prepareStep: () => ({ model: "gpt-x" }) });
  expect(named.metadata.error).toMatchObject({ cause: { message: "no request may be sent" } });
  await expect(chat(agent, "hi", { prepareStep: () => ({}) })).rejects.toMatchObject({ reason: "missing_model" });
});

test("an adapter of the program that needs no model runs without one", async () => {
  const result = await chat(engine({ adapter: fake({ script: [{ type: "text", text: "hi" }] }) }), "hi");
  expect(result.haltedReason).toBe("completed");
});
