// Base URLs from environment variables, and options that no adapter has.

import type { Adapter } from "everturn";
import type { IncomingHttpHeaders } from "node:http";
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
  providers,
} from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

const paths: string[] = [];
const received: IncomingHttpHeaders[] = [];
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    paths.push(request.url ?? "");
    received.push(request.headers);
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
  received.splice(0);
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

  test.each<[readonly string[], unknown]>([
    [[], null],
    [[], 5],
    [["apiKey"], { apiKey: 5 }],
    [["headers"], { headers: "x" }],
    [["fetch"], { fetch: 5 }],
    [["timeouts"], { timeouts: 5 }],
    [["limits"], { limits: null }],
  ])("of a wrong type is refused: %j of %j", (path, options) => {
    // Callers without a compiler.
    for (const make of [openai, anthropic, gemini, openaiImages, geminiImages]) {
      expect(() => Reflect.apply(make, undefined, [options])).toThrow(
        expect.objectContaining({ name: "MisuseError", reason: "invalid_argument", path }),
      );
    }
  });

  test.each([["resource"], ["deployment"]])("azure needs %s", (name) => {
    const options = { resource: "r", deployment: "d", [name]: undefined };
    expect(() => void Reflect.apply(azure, undefined, [options])).toThrow(
      expect.objectContaining({ name: "MisuseError", path: [name] }),
    );
  });

  test("is refused inside quirks", () => {
    const quirks: object = { stricct: false };
    expect(() => openaiCompatible({ baseURL, quirks })).toThrow(/unknown option "quirks.stricct"/);
  });
});

describe("adapterOptions", () => {
  const adapters: readonly [string, () => Adapter][] = [
    ["openai", () => openai({ apiKey, baseURL: origin })],
    ["openai, background", () => openai({ apiKey, baseURL: origin, background: true })],
    ["openai, chat", () => openai({ apiKey, baseURL: origin, api: "chat" })],
    ["anthropic", () => anthropic({ apiKey, baseURL: origin })],
    ["gemini", () => gemini({ apiKey, baseURL: origin })],
    ["a preset", () => preset("groq", { apiKey, baseURL: origin })],
    ["openaiCompatible", () => openaiCompatible({ apiKey, baseURL: origin })],
    ["providers", () => providers({ openai: openai({ apiKey, baseURL: origin }) })],
  ];

  test.each(adapters)("add headers to the requests of %s; those of the call win", async (_, make) => {
    const agent = engine({
      adapter: make(),
      model: "m",
      retry: false,
      adapterOptions: { headers: { "X-Team": "engine", "x-trace": "t1" } },
    });
    await generate(agent, "hi", { adapterOptions: { headers: { "x-team": "call" } } });
    expect(received).toMatchObject([{ "x-team": "call", "x-trace": "t1", "content-type": "application/json" }]);
    expect(JSON.stringify(received)).toContain(apiKey);
  });

  test("override headers of the adapter", async () => {
    const adapter = openai({ apiKey, baseURL: origin, headers: { "x-team": "adapter", "x-keep": "1" } });
    await generate(engine({ adapter, model: "m", retry: false }), "hi", {
      adapterOptions: { headers: { "X-Team": "call" } },
    });
    expect(received).toMatchObject([{ "x-team": "call", "x-keep": "1" }]);
  });

  test("join the betas of the adapter, the engine and the call for Anthropic, and send them to no other provider", async () => {
    const betas = { adapterOptions: { betas: ["b", "c"] } };
    const agent = engine({
      adapter: anthropic({ apiKey, baseURL: origin, betas: ["a", "b"] }),
      model: "m",
      retry: false,
      ...betas,
    });
    await generate(agent, "hi", { adapterOptions: { betas: ["d"], headers: { "anthropic-beta": "e" } } });
    expect(String(received[0]?.["anthropic-beta"]).split(",").sort()).toEqual(["a", "b", "c", "d", "e"]);
    await generate(engine({ adapter: gemini({ apiKey, baseURL: origin }), model: "m", retry: false, ...betas }), "hi");
    expect(JSON.stringify(received[1])).not.toContain("beta");
  });

  test("join the betas of a call with those that the codec needs", async () => {
    const agent = engine({ adapter: anthropic({ apiKey, baseURL: origin }), model: "m", retry: false });
    const providerTools = [{ provider: "anthropic", name: "computer_20250124", options: {} }];
    await generate(agent, "hi", { providerTools, adapterOptions: { betas: ["a"] } });
    expect(received).toMatchObject([{ "anthropic-beta": "computer-use-2025-01-24,a" }]);
  });

  test("add headers to image requests", async () => {
    for (const imageAdapter of [openaiImages({ apiKey, baseURL: origin }), geminiImages({ apiKey, baseURL: origin })]) {
      const agent = engine({ imageAdapter, retry: false, adapterOptions: { headers: { "x-team": "engine" } } });
      const options = { model: "m", adapterOptions: { headers: { "X-Trace": "t1" } } };
      await expect(generateImage(agent, "a cat", options)).rejects.toMatchObject({ name: "ImageAdapterError" });
    }
    expect(received).toMatchObject([
      { "x-team": "engine", "x-trace": "t1" },
      { "x-team": "engine", "x-trace": "t1" },
    ]);
  });

  const wrong: readonly [object, RegExp][] = [
    [{ header: {} }, /^openai: adapterOptions.header is not an option; the options are headers, betas$/],
    [{ headers: "x" }, /adapterOptions.headers must be an object/],
    [{ headers: { "x-a": 1 } }, /adapterOptions.headers.x-a must be text/],
    [{ headers: { "x-a": "1\r\nx-b: 2" } }, /adapterOptions.headers.x-a must be text/],
    [{ headers: { "x a": "1" } }, /is not a header name/],
    [{ headers: { "": "1" } }, /is not a header name/],
    [{ betas: "a" }, /adapterOptions.betas must be a list/],
    [{ betas: ["a b"] }, /adapterOptions.betas must be a list/],
    [{ headers: { "X-Api-Key": "hunter2" } }, /credential/],
  ];

  test.each(wrong)(
    "of a wrong form are refused by engine(), by every verb and by durable verbs: %j",
    async (options, message) => {
      const adapter = openai({ apiKey, baseURL: origin });
      const agent = engine({ adapter, model: "m", retry: false });
      const adapterOptions: object = { adapterOptions: options };
      const misuse = { name: "MisuseError", message: expect.stringMatching(message) };
      expect(() => engine({ adapter, ...adapterOptions })).toThrow(message);
      expect(() => engine({ adapter, ...adapterOptions })).not.toThrow(/hunter2/);
      await expect(generate(agent, "hi", { ...adapterOptions })).rejects.toMatchObject(misuse);
      const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
      const started = sessions.start("hi", { ...adapterOptions });
      await expect(started).rejects.toMatchObject({ name: "MisuseError" });
      await expect(started).rejects.not.toThrow(/hunter2/);
      await sessions.close();
      expect(received).toEqual([]);
    },
  );

  test("of image calls are refused in the same way", async () => {
    const agent = engine({ imageAdapter: openaiImages({ apiKey, baseURL: origin }) });
    const adapterOptions: object = { adapterOptions: { header: {} } };
    await expect(generateImage(agent, "a cat", { model: "m", ...adapterOptions })).rejects.toMatchObject({
      name: "MisuseError",
      path: ["adapterOptions", "header"],
    });
  });

  test("are stored with a durable turn and sent with its model calls", async () => {
    const agent = engine({ adapter: anthropic({ apiKey, baseURL: origin }), model: "m", retry: false });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const turn = await sessions.start("hi", { adapterOptions: { headers: { "x-team": "durable" }, betas: ["a"] } });
    await turn.result;
    await sessions.close();
    expect(received).toMatchObject([{ "x-team": "durable", "anthropic-beta": "a" }]);
  });

  test("of a custom adapter may be any", async () => {
    const adapter = fake({ scripts: [[{ type: "text", text: "A" }]] });
    const reply = await generate(engine({ adapter, model: "fake:m" }), "hi", { adapterOptions: { region: "eu" } });
    expect(reply.outputText).toBe("A");
  });
});
