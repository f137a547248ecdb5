// Counts of input tokens, by the endpoint of each API.

import type { Adapter } from "everturn";

import {
  anthropic,
  countTokens,
  engine,
  fake,
  gemini,
  openai,
  openaiCompatible,
  providers,
  tool,
  user,
} from "everturn";
import { describe, expect, test } from "vitest";

type Fetch = (url: string, init: RequestInit) => Promise<Response>;
type Row = {
  readonly create: (fetch: Fetch) => Adapter;
  readonly model: string;
  readonly answer: object;
  readonly path: RegExp;
  readonly body: object;
  readonly absent: readonly string[];
};

const weather = tool({ name: "weather", description: "d", schema: { type: "object" }, handler: () => 1 });
const rows: { readonly [name: string]: Row } = {
  anthropic: {
    create: (fetch) => anthropic({ apiKey: "key-0123456789", fetch }),
    model: "claude-sonnet-4-5",
    answer: { input_tokens: 42 },
    path: /\/v1\/messages\/count_tokens$/,
    body: { model: "claude-sonnet-4-5", system: "Be brief.", messages: [{ role: "user" }], tools: [{}] },
    absent: ["max_tokens", "stream", "temperature"],
  },
  "openai responses": {
    create: (fetch) => openai({ apiKey: "key-0123456789", fetch }),
    model: "gpt-5.4",
    answer: { object: "response.input_tokens", input_tokens: 42 },
    path: /\/v1\/responses\/input_tokens$/,
    body: { model: "gpt-5.4", instructions: "Be brief.", input: [{ role: "user" }], tools: [{}] },
    absent: ["stream", "store", "temperature", "include"],
  },
  gemini: {
    create: (fetch) => gemini({ apiKey: "key-0123456789", fetch }),
    model: "gemini-3.5-flash",
    answer: { totalTokens: 42 },
    path: /\/v1beta\/models\/gemini-3\.5-flash:countTokens$/,
    body: { generateContentRequest: { model: "models/gemini-3.5-flash", contents: [{}], tools: [{}] } },
    absent: ["contents"],
  },
  "gemini on Vertex AI": {
    create: (fetch) => gemini({ vertex: { project: "p", location: "global" }, authToken: "key-0123456789", fetch }),
    model: "gemini-3.5-flash",
    answer: { totalTokens: 42, totalBillableCharacters: 9 },
    path: /\/publishers\/google\/models\/gemini-3\.5-flash:countTokens$/,
    body: { contents: [{}], tools: [{}] },
    absent: ["generateContentRequest"],
  },
};

describe.each(Object.entries(rows))("%s", (_, { create, model, answer, path, body, absent }) => {
  const counting = (response: () => Response) => {
    const sent: { readonly url: string; readonly body: object }[] = [];
    const adapter = create(async (url, init) => {
      sent.push({ url, body: JSON.parse(String(init.body)) });
      return response();
    });
    return { adapter, sent };
  };

  test("counts the tokens of the request that a call would send", async () => {
    const { adapter, sent } = counting(() => Response.json(answer));
    const agent = engine({ adapter, model, tools: [weather], instructions: "Be brief." });
    expect(await countTokens(agent, [user("How is it in Rome?")], { params: { temperature: 0.5 } })).toBe(42);
    expect(sent).toHaveLength(1);
    expect(sent[0]?.url).toMatch(path);
    expect(sent[0]?.body).toMatchObject(body);
    for (const name of absent) expect(sent[0]?.body).not.toHaveProperty(name);
    const several = engine({ adapter: providers({ p: adapter }), model: `p:${model}` });
    expect(await countTokens(several, "hi")).toBe(42);
  });

  test("throws the error of the provider, without the key, and a malformed answer", async () => {
    const refused = counting(() => Response.json({ error: { message: "no key-0123456789" } }, { status: 401 }));
    const failed = countTokens(engine({ adapter: refused.adapter, model, retry: false }), "hi");
    await expect(failed).rejects.toMatchObject({ name: "AdapterError", reason: "authentication_failed" });
    await expect(failed).rejects.not.toThrow(/0123456789/);
    const odd = counting(() => Response.json({ tokens: "many" }));
    await expect(countTokens(engine({ adapter: odd.adapter, model }), "hi")).rejects.toMatchObject({
      reason: "malformed_response",
    });
  });
});

test("an API without such an endpoint is an AdapterError (unsupported_feature)", async () => {
  const chat = openaiCompatible({ baseURL: "http://127.0.0.1:9/v1", name: "local" });
  for (const adapter of [chat, fake(), providers({ a: chat })])
    await expect(countTokens(engine({ adapter, model: "a:m" }), "hi")).rejects.toMatchObject({
      name: "AdapterError",
      reason: "unsupported_feature",
    });
});
