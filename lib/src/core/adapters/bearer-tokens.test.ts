// Bearer tokens in place of API keys: Entra ID for Azure, OAuth for Vertex AI, with Claude and Gemini there.

import type { Adapter } from "everturn";

import {
  AdapterError,
  anthropic,
  azure,
  engine,
  EngineError,
  gemini,
  generate,
  openai,
  openaiCompatible,
} from "everturn";
import { describe, expect, test } from "vitest";

type Sent = { readonly url: string; readonly headers: Headers; readonly body: { readonly [key: string]: unknown } };

/** Makes a call with an adapter that this `fetch` belongs to, and returns the request. */
async function sentBy(
  create: (fetch: (url: string, init: RequestInit) => Promise<Response>) => Adapter,
  model: string,
) {
  const sent: Sent[] = [];
  const adapter = create(async (url, init) => {
    sent.push({ url, headers: new Headers(init.headers), body: JSON.parse(String(init.body)) });
    return new Response(JSON.stringify({ error: { message: "stop here: token-0123456789" } }), { status: 400 });
  });
  const reply = await generate(engine({ adapter, model, retry: false }), "hi");
  const [request] = sent;
  if (request === undefined) throw new Error("nothing was sent");
  return { ...request, reply };
}

const token = "token-0123456789";
const fails = () => Promise.reject(new RangeError("the vault is closed"));

describe("authToken", () => {
  test.each<[string, (fetch: (url: string, init: RequestInit) => Promise<Response>) => Adapter]>([
    ["azure", (fetch) => azure({ resource: "acme", deployment: "d", authToken: async () => token, fetch })],
    ["anthropic", (fetch) => anthropic({ authToken: token, fetch })],
    ["gemini", (fetch) => gemini({ authToken: () => token, fetch })],
  ])("%s sends it as a bearer token, without a key, and redacts it", async (_, create) => {
    const { headers, reply } = await sentBy(create, "m");
    expect(headers.get("authorization")).toBe(`Bearer ${token}`);
    for (const name of ["api-key", "x-api-key", "x-goog-api-key"]) expect(headers.get(name)).toBeNull();
    expect(reply.error?.message).toContain("[key]");
  });

  test("is read for every call", async () => {
    const tokens = ["first-0123456789", "second-0123456789"];
    const seen: (string | null)[] = [];
    const adapter = anthropic({
      authToken: () => tokens.shift() ?? null,
      fetch: async (_, init) => {
        seen.push(new Headers(init.headers).get("authorization"));
        return new Response("{}", { status: 400 });
      },
    });
    const agent = engine({ adapter, model: "claude-sonnet-4-5", retry: false });
    await generate(agent, "a");
    await generate(agent, "b");
    expect(seen).toEqual(["Bearer first-0123456789", "Bearer second-0123456789"]);
    await expect(generate(agent, "c")).rejects.toThrow(/authToken of the adapter/);
  });

  test.each<[string, Adapter, string]>([
    ["authToken", anthropic({ authToken: fails }), "authToken of the anthropic adapter"],
    ["apiKey", openai({ apiKey: fails }), "apiKey of the openai adapter"],
    ["apiKey", openaiCompatible({ baseURL: "http://127.0.0.1:9/v1", apiKey: fails }), "apiKey of the"],
    [
      "mcpAuthorization",
      openai({ apiKey: "k", mcpAuthorization: { zip: fails } }),
      "mcpAuthorization.zip of the openai",
    ],
  ])("a function %s that fails is named in a typed error with its cause", async (_, adapter, named) => {
    const error = await generate(engine({ adapter, model: "m", retry: false }), "hi").catch((thrown) => thrown);
    expect(error).toBeInstanceOf(EngineError);
    expect(error.failure).toMatchObject({
      reason: "missing_key",
      message: expect.stringMatching(new RegExp(`the function ${named} .*failed: the vault is closed`)),
      cause: { name: "RangeError", message: "the vault is closed" },
    });
  });

  test("a function that throws an error of the library decides itself whether the call is retried", async () => {
    let reads = 0;
    const authToken = async () => {
      reads += 1;
      if (reads === 1) throw new AdapterError("network_error", { message: "the vault is busy", retryable: true });
      return token;
    };
    const adapter = anthropic({ authToken, fetch: async () => new Response("{}", { status: 400 }) });
    const agent = engine({ adapter, model: "claude-sonnet-4-5", retry: { baseDelayMs: 0, jitterMs: 0 } });
    const reply = await generate(agent, "hi");
    expect([reads, reply.error]).toMatchObject([2, { status: 400 }]);
  });

  test("is refused beside an API key, and with a wrong type", () => {
    expect(() => anthropic({ apiKey: "k", authToken: "t" })).toThrow(/apiKey or authToken/);
    expect(() => gemini({ authToken: JSON.parse("7") })).toThrow(/authToken/);
  });
});

describe("Vertex AI", () => {
  const vertex = { project: "acme", location: "europe-west1" };
  const base = "https://europe-west1-aiplatform.googleapis.com/v1/projects/acme/locations/europe-west1/publishers";

  test("Claude: the model is in the path, the version of the API in the body", async () => {
    const { url, body, headers } = await sentBy(
      (fetch) => anthropic({ vertex, authToken: token, fetch }),
      "claude-sonnet-4-5@20250929",
    );
    expect(url).toBe(`${base}/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict`);
    expect(body).toMatchObject({ anthropic_version: "vertex-2023-10-16", stream: true });
    expect(body).not.toHaveProperty("model");
    expect(headers.get("authorization")).toBe(`Bearer ${token}`);
  });

  test("Gemini: the path of the publisher google", async () => {
    const { url } = await sentBy((fetch) => gemini({ vertex, authToken: token, fetch }), "gemini-3.5-flash");
    expect(url).toBe(`${base}/google/models/gemini-3.5-flash:streamGenerateContent?alt=sse`);
    const global = await sentBy(
      (fetch) => gemini({ vertex: { project: "acme", location: "global" }, authToken: token, fetch }),
      "gemini-3.5-flash",
    );
    expect(global.url).toMatch(/^https:\/\/aiplatform\.googleapis\.com\/v1\/projects\/acme\/locations\/global\//);
  });

  test("needs a project and a location that fit into a URL", () => {
    expect(() => gemini({ vertex: { project: "a/b", location: "global" } })).toThrow(/vertex\.project/);
    expect(() => anthropic({ vertex: { project: "a", location: "evil.example/" } })).toThrow(/vertex\.location/);
  });
});
