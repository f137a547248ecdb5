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

// A server that speaks Chat Completions, as far as one word.
const asked: string[] = [];
let server: Server;
let base = "";

beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(request.url ?? "");
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

function created({ flags, fields = {}, environment = {} }: Given) {
  const config = { path: "/c.json", folder: "/", fields };
  const world = { environment, platform: "linux", home: "/" } as const;
  return createEngine(resolveSettings({ flags, config, folder: "/", world }), environment);
}

describe("an engine from settings", () => {
  it("asks the provider where the environment says it is", async () => {
    const made = await created({ flags: { model: "ollama:m" }, environment: { OLLAMA_BASE_URL: `${base}/env/` } });
    expect((await chat(made, "hi")).finalResponse?.outputText).toBe("Served.");
    expect(asked.at(-1)).toBe("/env/chat/completions");
  });

  it("or where the settings say so, which goes before", async () => {
    const environment = { OLLAMA_BASE_URL: `${base}/env` };
    const made = await created({
      flags: { model: "ollama:m" },
      fields: { baseUrls: { ollama: `${base}/set` } },
      environment,
    });
    await chat(made, "hi");
    expect(asked.at(-1)).toBe("/set/chat/completions");
  });

  it("takes a provider nobody knows for a server that speaks Chat Completions", async () => {
    const made = await created({ flags: { model: "mine:m" }, fields: { baseUrls: { mine: `${base}/mine` } } });
    expect((await chat(made, "hi")).finalResponse?.outputText).toBe("Served.");
  });

  it("has tools to try things with only when it is offline", async () => {
    expect((await created({ flags: {} })).tools.map(({ name }) => name)).toEqual([
      "clock",
      "countdown",
      "launch",
      "survey",
    ]);
    expect((await created({ flags: { model: "openai:m" } })).tools).toEqual([]);
  });

  it.each(["gpt-6", "opanai:gpt-6", "openai:", "offline:other"])(
    "refuses the model %s with the names there are",
    async (model) => {
      await expect(created({ flags: { model } })).rejects.toThrow(
        /no model ".*" \(--model\): name it with its provider, anthropic:…, openai:…/,
      );
    },
  );
});

describe("the address of a provider in the environment", () => {
  it("is Anthropic's as its own SDK takes it, without the version", () => {
    const at = (url: string) => addressIn("anthropic", knownProviders.anthropic, { ANTHROPIC_BASE_URL: url });
    expect([at("http://a"), at("http://a/v1/")]).toEqual(["http://a/v1", "http://a/v1"]);
  });

  it("is refused by its name when it is none", () => {
    const find = () => addressIn("openai", knownProviders.openai, { OPENAI_BASE_URL: "localhost" });
    expect(find).toThrow(/^OPENAI_BASE_URL has to be an address that begins with http/);
  });
});
