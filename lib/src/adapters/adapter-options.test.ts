// Base URLs from environment variables, and options that no adapter has.

import type { Adapter } from "everturn/engine";
import type { AddressInfo } from "node:net";

import { createServer } from "node:http";

import {
  anthropic,
  azure,
  engine,
  fake,
  fakeImages,
  gemini,
  geminiImages,
  generate,
  generateImage,
  openai,
  openaiCompatible,
  openaiImages,
  preset,
} from "everturn";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

const paths: string[] = [];
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    paths.push(request.url ?? "");
    // A refusal is enough: only the path matters here.
    response.writeHead(400, { "content-type": "application/json" }).end(`{"error":{"message":"recorded"}}`);
  });
});
let origin = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address: AddressInfo | string | null = server.address();
  origin = `http://127.0.0.1:${typeof address === "object" ? (address?.port ?? 0) : 0}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));
afterEach(() => {
  vi.unstubAllEnvs();
  paths.splice(0);
});

const apiKey = "sk-test-key-1234";

describe("the base URL of an adapter", () => {
  // The variables and their paths are those of the official SDKs: openai, @anthropic-ai/sdk, @google/genai, groq-sdk.
  test.each<[string, string, () => Adapter, string]>([
    ["OPENAI_BASE_URL", "/proxy/v1/", () => openai({ apiKey }), "/proxy/v1/responses"],
    ["ANTHROPIC_BASE_URL", "/proxy", () => anthropic({ apiKey }), "/proxy/v1/messages"],
    ["ANTHROPIC_BASE_URL", "/proxy/v1", () => anthropic({ apiKey }), "/proxy/v1/messages"],
    ["GOOGLE_GEMINI_BASE_URL", "", () => gemini({ apiKey }), "/v1beta/models/m:streamGenerateContent?alt=sse"],
    ["GEMINI_BASE_URL", "/p/v1", () => gemini({ apiKey }), "/p/v1/models/m:streamGenerateContent?alt=sse"],
    ["GROQ_BASE_URL", "", () => preset("groq", { apiKey }), "/openai/v1/chat/completions"],
    ["OLLAMA_BASE_URL", "/v1", () => preset("ollama"), "/v1/chat/completions"],
    ["LLAMA_BASE_URL", "/any", () => preset("llamaCpp"), "/any/chat/completions"],
  ])("is that of %s (%s)", async (variable, path, adapter, requested) => {
    vi.stubEnv(variable, ` ${origin}${path}`);
    await generate(engine({ adapter: adapter(), model: "m", retry: false }), "hi");
    expect(paths).toEqual([requested]);
  });

  test("of image adapters is that of the same variables", async () => {
    vi.stubEnv("OPENAI_BASE_URL", `${origin}/openai`);
    vi.stubEnv("GOOGLE_GEMINI_BASE_URL", `${origin}/gemini`);
    for (const imageAdapter of [openaiImages({ apiKey }), geminiImages({ apiKey })]) {
      const made = generateImage(engine({ imageAdapter, retry: false }), "a cat", { model: "m" });
      await expect(made).rejects.toMatchObject({ name: "ImageAdapterError" });
    }
    expect(paths).toEqual(["/openai/images/generations", "/gemini/v1beta/models/m:generateContent"]);
  });

  test("is the option if there is one, and an empty variable is ignored", async () => {
    vi.stubEnv("OPENAI_BASE_URL", "http://unused.invalid");
    await generate(engine({ adapter: openai({ apiKey, baseURL: `${origin}/own` }), model: "m", retry: false }), "hi");
    expect(paths).toEqual(["/own/responses"]);
    vi.stubEnv("OPENAI_BASE_URL", " ");
    expect(() => openai()).not.toThrow();
  });

  test("is refused with the name of its variable and without its value", () => {
    vi.stubEnv("OPENAI_BASE_URL", "https://me:hunter2@proxy/v1");
    expect(() => openai()).toThrow(/OPENAI_BASE_URL must not contain a user or a password/);
    expect(() => openai()).not.toThrow(/hunter2/);
  });
});

describe("an unknown option of an adapter", () => {
  const baseURL = "http://127.0.0.1:9/v1";
  const unknown: object = { temprature: 1 };

  test.each<[string, () => unknown]>([
    ["openai", () => openai({ ...unknown })],
    ["anthropic", () => anthropic({ ...unknown })],
    ["gemini", () => gemini({ ...unknown })],
    ["openaiCompatible", () => openaiCompatible({ baseURL, ...unknown })],
    ["groq", () => preset("groq", { ...unknown })],
    ["azure", () => azure({ resource: "r", deployment: "d", ...unknown })],
    ["openaiImages", () => openaiImages({ ...unknown })],
    ["geminiImages", () => geminiImages({ ...unknown })],
    ["fake", () => fake({ ...unknown })],
    ["fakeImages", () => fakeImages({ ...unknown })],
  ])("is refused by %s", (name, make) => {
    expect(make).toThrow(
      expect.objectContaining({ name: "MisuseError", reason: "unknown_field", path: ["temprature"] }),
    );
    expect(make).toThrow(new RegExp(`^${name}: unknown option "temprature"; the options are `));
  });

  test.each<[object, RegExp]>([
    [{ baseUrl: baseURL }, /did you mean baseURL\?/],
    [{ model: "m" }, /it is a field of the engine: engine\(\{ model: /],
    [{ maxTokens: 5 }, /it belongs in params: engine\(\{ params: \{ maxTokens: /],
    [{ timeouts: { conect: 5 } }, /unknown option "timeouts.conect"; the options are connect, firstByte/],
    [{ limits: { lines: 5 } }, /unknown option "limits.lines"/],
  ])("is refused with advice: %j", (options, message) => {
    expect(() => openai({ ...options })).toThrow(message);
  });

  test("is refused inside quirks", () => {
    const quirks: object = { stricct: false };
    expect(() => openaiCompatible({ baseURL, quirks })).toThrow(/unknown option "quirks.stricct"/);
  });
});
