import type { Adapter } from "../core/engine/internal.ts";
import type { JsonObject } from "everturn";
import type { ProviderStep, StrictProvider } from "everturn/testing";

import { anthropic, chat, engine, gemini, openai, step, tool, user } from "everturn";
import { strictProvider, violations } from "everturn/testing";
import { describe, expect, test } from "vitest";

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
const scripts: readonly (readonly ProviderStep[])[] = [
  [
    { type: "reasoning", text: "Two cities." },
    { type: "tool_call", name: "weather", arguments: { city: "Oslo" } },
    { type: "tool_call", name: "weather", arguments: { city: "Rome" } },
    { type: "usage", usage: { inputTokens: 7, outputTokens: 3 } },
  ],
  [{ type: "text", text: "Sunny in both." }],
];

/** Fields of the body that the API refuses. */
const forbidden: { readonly [api: string]: JsonObject } = {
  "OpenAI Responses": { safety_identifier: "u".repeat(65) },
  "OpenAI Chat": { safety_identifier: "u".repeat(65) },
  Anthropic: { thinking: { type: "enabled", budget_tokens: 1000 } },
  Gemini: { generationConfig: { responseSchema: { type: "STRING" } } },
};

describe.each(Object.entries(adapters))("a strict provider that speaks %s", (api, adapterOf) => {
  test("plays its scripts in a loop with parallel calls, and refuses nothing", async () => {
    const provider = strictProvider({ scripts });
    const [adapter, model] = adapterOf(provider);
    const result = await chat(engine({ adapter, model, tools: [weather], retry: false }), "The weather?");
    expect(result.finalResponse?.outputText).toBe("Sunny in both.");
    expect(result.usage.inputTokens).toBe(17);
    expect(provider.refusals).toEqual([]);
    provider.assertUsedUp();
  });

  test("answers a field that the API forbids with 400, in the words of the provider", async () => {
    const provider = strictProvider({ scripts });
    const [adapter, model] = adapterOf(provider);
    const agent = engine({ adapter, model, retry: false });
    const { response } = await step(agent, [user("Hi.")], { options: forbidden[api] ?? {} });
    const [refusal] = provider.refusals;
    expect(provider.refusals).toHaveLength(1);
    expect(response.error).toMatchObject({
      reason: "invalid_request",
      status: 400,
      message: expect.stringContaining((refusal?.message ?? "absent").trim()),
    });
    expect(() => provider.assertUsedUp()).toThrow(/refused 1 times/);
  });
});

function messageOf(text: string): string {
  const { error }: { readonly error: { readonly message: string } } = JSON.parse(text);
  return error.message;
}

describe("a strict provider", () => {
  const post = (body: object) => ({ method: "POST", body: JSON.stringify(body) });
  const responses = "http://provider.test/v1/responses";

  test("remembers stored items, so that a repeated item is refused", async () => {
    const call = { type: "tool_call", name: "weather", id: "call_1" } as const;
    const provider = strictProvider({ scripts: [[call], [{ type: "text", text: "Sunny." }]] });
    const first = await provider.fetch(
      responses,
      post({ model: "gpt-5.4", input: [{ role: "user", content: "Hi." }] }),
    );
    const { id, output }: { readonly id: string; readonly output: readonly JsonObject[] } = JSON.parse(
      await first.text(),
    );
    const result = { type: "function_call_output", call_id: "call_1", output: "Sunny." };
    const repeated = await provider.fetch(
      responses,
      post({ model: "gpt-5.4", previous_response_id: id, input: [...output, result] }),
    );
    expect([repeated.status, messageOf(await repeated.text())]).toEqual([
      400,
      `Duplicate item found with id ${String(output[0]?.["id"])}. Remove duplicate items from your input and try again.`,
    ]);
    const unanswered = await provider.fetch(responses, post({ model: "gpt-5.4", previous_response_id: id, input: [] }));
    expect(messageOf(await unanswered.text())).toBe("No tool output found for function call call_1.");
    const accepted = await provider.fetch(
      responses,
      post({ model: "gpt-5.4", previous_response_id: id, input: [result] }),
    );
    expect(accepted.status).toBe(200);
  });

  test("remembers the items of a conversation whose replies are streams", async () => {
    const output = [{ type: "function_call", id: "fc_1", call_id: "call_1", name: "weather", arguments: "{}" }];
    const event = { type: "response.completed", response: { id: "resp_1", output } };
    const stream = `event: response.completed\ndata: ${JSON.stringify(event)}\n\n`;
    const provider = strictProvider({ reply: async () => new Response(stream) });
    const input = [{ role: "user", content: "Hi." }];
    await provider.fetch(responses, post({ model: "gpt-5.4", conversation: "conv_1", input }));
    await provider.fetch(responses, post({ model: "gpt-5.4", conversation: { id: "conv_1" }, input: output }));
    expect(provider.requests.map((request) => request.violations.map(({ rule }) => rule))).toEqual([
      [],
      ["call_without_output", "duplicate_item"],
    ]);
  });

  test("says what to do if there are more requests than scripts", async () => {
    const provider = strictProvider({ scripts: [] });
    const answer = await provider.fetch(responses, post({ model: "gpt-5.4", input: "Hi." }));
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("add a script")]);
  });

  test("reports scripts that were not used", () => {
    expect(() => strictProvider({ scripts: [[], []] }).assertUsedUp()).toThrow("2 of 2 scripts");
  });

  test("answers 404 for other addresses and methods", async () => {
    const provider = strictProvider({ scripts: [] });
    expect((await provider.fetch("http://provider.test/v1/models", { method: "GET" })).status).toBe(404);
    expect((await provider.fetch(`${responses}/resp_1`, post({}))).status).toBe(404);
  });

  test("has no steps of other adapters: errors and cut streams are replies", () => {
    const scripts = JSON.parse('[[{ "type": "text", "text": "Hi." }, { "type": "error", "reason": "rate_limited" }]]');
    expect(() => strictProvider({ scripts })).toThrow("no step of type error; its steps are text, reasoning");
  });

  test("checks no body of an unknown API, and no request without a body", () => {
    expect(() => violations(JSON.parse('"openai"'), { body: {} })).toThrow(
      "the APIs are openai-responses, openai-chat",
    );
    expect(() => violations("gemini", JSON.parse('{ "model": "m" }'))).toThrow("pass { body }");
  });

  test("takes scripts or a function, not both and not neither", () => {
    expect(() => strictProvider({})).toThrow("one of the two");
    expect(() => strictProvider({ scripts: [], reply: async () => new Response() })).toThrow("one of the two");
  });
});
