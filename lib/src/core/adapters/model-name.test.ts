// The model name that adapters send: a prefix with the adapter's own provider is removed, one with another provider is
// refused, other colons stay. The adapters run against a `node:http` server that records requests.

import type { Adapter } from "everturn";
import type { ModelName } from "everturn/advanced";
import type { AddressInfo } from "node:net";

import { createServer } from "node:http";

import {
  anthropic,
  azure,
  catalog,
  engine,
  gemini,
  generate,
  generateImage,
  openai,
  openaiCompatible,
  openaiImages,
  preset,
  providers,
  modelRef,
} from "everturn";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

type Received = { readonly path: string; readonly model: unknown };

const received: Received[] = [];
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body: { readonly model?: unknown } = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    received.push({ path: request.url ?? "", model: body.model });
    // A refusal is enough: only the request matters here.
    response.writeHead(400, { "content-type": "application/json" }).end(`{"error":{"message":"recorded"}}`);
  });
});
let baseURL = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address: AddressInfo | string | null = server.address();
  baseURL = `http://127.0.0.1:${typeof address === "object" ? (address?.port ?? 0) : 0}/v1`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));
beforeEach(() => void received.splice(0));

function options() {
  return { baseURL, apiKey: "sk-test-key-1234" };
}

/** The model that a call sends. */
async function sentModel(adapter: Adapter, model: ModelName, withCatalog = false): Promise<unknown> {
  const of = engine({ adapter, model, retry: false, ...(withCatalog ? { catalog: catalog() } : {}) });
  const { error } = await generate(of, "hi");
  expect(error).toMatchObject({ type: "adapter_error", status: 400 });
  return received.at(-1)?.model;
}

describe("a prefix with the adapter's own provider", () => {
  test.each([true, false])("is removed (with a catalog: %s)", async (withCatalog) => {
    expect(await sentModel(openai(options()), "openai:gpt-5.5", withCatalog)).toBe("gpt-5.5");
    expect(await sentModel(openai({ ...options(), api: "chat" }), "openai:gpt-0", withCatalog)).toBe("gpt-0");
    expect(await sentModel(anthropic(options()), "anthropic:claude-0", withCatalog)).toBe("claude-0");
    expect(await sentModel(preset("ollama", options()), "ollama:llama3.3:70b", withCatalog)).toBe("llama3.3:70b");
    expect(await sentModel(openaiCompatible({ ...options(), name: "local" }), "local:m", withCatalog)).toBe("m");
    expect(await sentModel(openai(options()), "openai:ft:gpt-4.1:me::1", withCatalog)).toBe("ft:gpt-4.1:me::1");
    await sentModel(gemini(options()), "gemini:gemini-0", withCatalog);
    expect(received.at(-1)?.path).toContain("/models/gemini-0:");
  });

  test.each([true, false])(
    "is removed in any letter case, and by another name (with a catalog: %s)",
    async (withCatalog) => {
      expect(await sentModel(openai(options()), "OpenAI:gpt-5.5", withCatalog)).toBe("gpt-5.5");
      expect(await sentModel(preset("llamaCpp", options()), "llamacpp:m", withCatalog)).toBe("m");
      for (const model of ["google:gemini-3-pro", modelRef({ provider: "google", id: "gemini-3-pro" })]) {
        await sentModel(gemini(options()), model, withCatalog);
        expect(received.at(-1)?.path).toContain("/models/gemini-3-pro:");
      }
      // The server of a program may have a model with such a name.
      const local = openaiCompatible({ ...options(), name: "gemini" });
      expect(await sentModel(local, "google:m", withCatalog)).toBe("google:m");
    },
  );

  test("is removed for image models", async () => {
    const of = engine({ imageAdapter: openaiImages(options()), retry: false });
    await expect(generateImage(of, "a cat", { model: "openai:gpt-image-1" })).rejects.toMatchObject({
      failure: { status: 400 },
    });
    expect(received).toEqual([{ path: "/v1/images/generations", model: "gpt-image-1" }]);
    await expect(generateImage(of, "a cat", { model: "gemini:gemini-3-image" })).rejects.toMatchObject({
      reason: "missing_model",
    });
  });
});

test("colons that separate no provider are sent unchanged", async () => {
  expect(await sentModel(preset("ollama", options()), "llama3.3:70b")).toBe("llama3.3:70b");
  expect(await sentModel(preset("ollama", options()), "mistral:7b")).toBe("mistral:7b");
  expect(await sentModel(openai(options()), "ft:gpt-4.1:me::1")).toBe("ft:gpt-4.1:me::1");
  expect(await sentModel(preset("openrouter", options()), "openai/gpt-oss-20b:free")).toBe("openai/gpt-oss-20b:free");
  // The models of any other server have names of their own, as behind a gateway.
  expect(await sentModel(openaiCompatible(options()), "anthropic:claude-0")).toBe("anthropic:claude-0");
  // The id of a reference is the name itself.
  expect(await sentModel(openai(options()), modelRef({ id: "gemini:x" }))).toBe("gemini:x");
});

test.each<[string, () => Adapter, ModelName]>([
  ["openai", () => openai(options()), "anthropic:claude-0"],
  ["openai", () => openai(options()), "google:gemini-0"],
  ["openai", () => openai(options()), "Anthropic:claude-0"],
  ["openai", () => openai(options()), modelRef({ provider: "anthropic", id: "claude-0" })],
  ["anthropic", () => anthropic(options()), "openai:gpt-0"],
  ["gemini", () => gemini(options()), "openai:gpt-0"],
  ["ollama", () => preset("ollama", options()), "openai:gpt-0"],
  ["groq", () => preset("groq", options()), "mistral:x"],
  ["azure", () => azure({ resource: "r", deployment: "d", ...options() }), "openai:gpt-0"],
])("%s refuses a model of another provider and sends nothing", async (provider, adapter, model) => {
  const failed = generate(engine({ adapter: adapter(), model, retry: false }), "hi");
  await expect(failed).rejects.toMatchObject({
    name: "EngineError",
    failure: { reason: "missing_model", provider },
    message: expect.stringMatching(/provider (?:anthropic|gemini|openai|mistral)\b.*providers\(/),
  });
  expect(received).toEqual([]);
});

test("a name that providers() registered may differ from the provider of its adapter", async () => {
  const adapter = providers({ openai: azure({ resource: "r", deployment: "d", ...options() }), gemini: gemini() });
  expect(await sentModel(adapter, "openai:gpt-0")).toBe("gpt-0");
  expect(await sentModel(adapter, modelRef({ provider: "openai", id: "gpt-0" }))).toBe("gpt-0");
});
