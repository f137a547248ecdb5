import type { GivenConfig } from "./config-file.ts";
import type { GivenFlags } from "./settings.ts";
import type { Server } from "node:http";

import { once } from "node:events";
import { createServer } from "node:http";

import { chat } from "everturn";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createEngine } from "./engines.ts";
import { addressIn, knownProviders } from "./known-providers.ts";
import { resolveSettings } from "./settings.ts";

// A minimal server with the Chat Completions API.
const requestPaths: string[] = [];
let server: Server;
let base = "";

beforeAll(async () => {
  server = createServer((request, response) => {
    requestPaths.push(request.url ?? "");
    request.resume();
    response.setHeader("content-type", "application/json");
    const message = { role: "assistant", content: "Served." };
    response.end(JSON.stringify({ id: "1", model: "m", choices: [{ index: 0, message, finish_reason: "stop" }] }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  base = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
});
afterAll(() => void server.close());

type Given = {
  readonly flags: GivenFlags;
  readonly fields?: GivenConfig["fields"];
  readonly environment?: { readonly [name: string]: string };
};

function createFrom({ flags, fields = {}, environment = {} }: Given) {
  const config = { path: "/c.json", folder: "/", fields };
  const system = { environment, platform: "linux", home: "/" } as const;
  return createEngine(resolveSettings({ flags, config, folder: "/", system }), environment);
}

describe("createEngine", () => {
  it("sends requests to the base URL from the environment", async () => {
    const agent = await createFrom({ flags: { model: "ollama:m" }, environment: { OLLAMA_BASE_URL: `${base}/env/` } });
    expect((await chat(agent, "hi")).finalResponse?.outputText).toBe("Served.");
    expect(requestPaths.at(-1)).toBe("/env/chat/completions");
  });

  it("prefers the base URL from the settings to the one from the environment", async () => {
    const environment = { OLLAMA_BASE_URL: `${base}/env` };
    const agent = await createFrom({
      flags: { model: "ollama:m" },
      fields: { baseUrls: { ollama: `${base}/set` } },
      environment,
    });
    await chat(agent, "hi");
    expect(requestPaths.at(-1)).toBe("/set/chat/completions");
  });

  it("uses Chat Completions for an unknown provider with a base URL", async () => {
    const agent = await createFrom({ flags: { model: "mine:m" }, fields: { baseUrls: { mine: `${base}/mine` } } });
    expect((await chat(agent, "hi")).finalResponse?.outputText).toBe("Served.");
  });

  it.each(["steer", "queue", "interrupt", "reject"] as const)(
    "has the busy policy %s of the settings",
    async (policy) => {
      expect((await createFrom({ flags: { whenBusy: policy } })).whenBusy).toBe(policy);
      expect((await createFrom({ flags: {}, fields: { whenBusy: policy } })).whenBusy).toBe(policy);
      expect((await createFrom({ flags: {} })).whenBusy).toBeNull();
    },
  );

  it("has the demonstration tools only with the offline model", async () => {
    expect((await createFrom({ flags: {} })).tools.map(({ name }) => name)).toEqual([
      "clock",
      "countdown",
      "launch",
      "survey",
    ]);
    expect((await createFrom({ flags: { model: "openai:m" } })).tools).toEqual([]);
  });

  it.each(["gpt-6", "opanai:gpt-6", "openai:", "offline:other"])(
    "rejects the model %s and lists the providers",
    async (model) => {
      await expect(createFrom({ flags: { model } })).rejects.toThrow(
        /unknown model ".*" \(--model\): use PROVIDER:MODEL, one of anthropic:…, openai:…/,
      );
    },
  );
});

describe("azure", () => {
  it("sends the key of the environment to the deployment at AZURE_OPENAI_ENDPOINT", async () => {
    const environment = { AZURE_OPENAI_ENDPOINT: `${base}/`, OPENAI_API_VERSION: "2026-01-01" };
    const agent = await createFrom({ flags: { model: "azure:my-gpt" }, environment });
    const result = await chat(agent, "hi", { apiKey: "key-1" });
    expect(result.finalResponse?.outputText).toBe("Served.");
    expect(requestPaths.at(-1)).toBe("/openai/deployments/my-gpt/chat/completions?api-version=2026-01-01");
  });

  it("without an endpoint names its variable", async () => {
    await expect(createFrom({ flags: { model: "azure:my-gpt" } })).rejects.toThrow(
      /set AZURE_OPENAI_ENDPOINT to https:/,
    );
  });
});

describe("addressIn", () => {
  it.each([
    ["192.168.1.4", "http://192.168.1.4:11434/v1"],
    ["gpu-box:8080", "http://gpu-box:8080/v1"],
    [":8080", "http://127.0.0.1:8080/v1"],
    ["0.0.0.0", "http://127.0.0.1:11434/v1"],
    ["[::]:9", "http://[::1]:9/v1"],
    ["http://gpu-box", "http://gpu-box/v1"],
    ["https://models.example/ollama/", "https://models.example/ollama/v1"],
  ])("completes OLLAMA_HOST=%s as Ollama does", (host, url) => {
    expect(addressIn("ollama", knownProviders.ollama, { OLLAMA_HOST: host })).toBe(url);
    expect(addressIn("ollama", knownProviders.ollama, { OLLAMA_HOST: host, OLLAMA_BASE_URL: "http://a/v1" })).toBe(
      "http://a/v1",
    );
  });

  it("appends the version to ANTHROPIC_BASE_URL", () => {
    const at = (url: string) => addressIn("anthropic", knownProviders.anthropic, { ANTHROPIC_BASE_URL: url });
    expect([at("http://a"), at("http://a/v1/")]).toEqual(["http://a/v1", "http://a/v1"]);
  });

  it("names a variable that is not a URL", () => {
    const find = () => addressIn("openai", knownProviders.openai, { OPENAI_BASE_URL: "localhost" });
    expect(find).toThrow(/^OPENAI_BASE_URL has to be a URL that begins with http/);
  });
});
