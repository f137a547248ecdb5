// Azure OpenAI and xAI by the Responses API. A `node:http` server on the loopback interface records the requests and
// answers in the format of the API; the adapters keep their own base URLs, and `fetch` only replaces the host.

import type { Adapter, JsonObject } from "everturn";
import type { IncomingHttpHeaders } from "node:http";

import { createServer } from "node:http";

import { azure, chat, engine, openai, preset, user } from "everturn";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

type Received = { readonly url: string; readonly headers: IncomingHttpHeaders; readonly body: JsonObject };

const received: Received[] = [];
const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA+/==" };
const message = { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "Hi." }] };
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    received.push({ url: request.url ?? "", headers: request.headers, body });
    const reply = { id: "resp_1", status: "completed", model: "m", output: [reasoning, message] };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(reply));
  });
});
let origin = "";
const hosts: string[] = [];

/** Sends the request to the loopback server and records the host that it was for. */
const redirected = (url: string, init: RequestInit): Promise<Response> => {
  const { host, pathname, search } = new URL(url);
  hosts.push(host);
  return fetch(`${origin}${pathname}${search}`, init);
};

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  origin = `http://127.0.0.1:${address === null || typeof address === "string" ? 0 : address.port}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));
afterEach(() => {
  received.splice(0);
  hosts.splice(0);
});

const given = { apiKey: "sk-test-key-1234", fetch: redirected };

async function ask(adapter: Adapter, model: string) {
  const agent = engine({ adapter, model, retry: false });
  const first = await chat(agent, "Hi!");
  expect(first.finalResponse?.outputText).toBe("Hi.");
  await chat(agent, [...first.thread.messages, user("Again.")]);
  const [one, two] = received;
  if (one === undefined || two === undefined) throw new Error("two requests were expected");
  return { one, two };
}

describe("azure by the Responses API", () => {
  const deployment = { resource: "acme", deployment: "my deployment", api: "responses" } as const;

  test("sends to /openai/v1/responses of the resource, with the deployment as the model and the key in api-key", async () => {
    const { one } = await ask(azure({ ...deployment, ...given }), "gpt-5.4");
    expect([hosts[0], one.url]).toEqual(["acme.openai.azure.com", "/openai/v1/responses"]);
    expect(one.headers["api-key"]).toBe("sk-test-key-1234");
    expect(one.headers).not.toHaveProperty("authorization");
    expect(one.body).toMatchObject({ model: "my deployment", store: false, stream: true });
  });

  test("knows by the model of the engine whether the deployment reasons, and sends its reasoning back", async () => {
    const { two } = await ask(azure({ ...deployment, ...given }), "gpt-5.4");
    expect(two.body["include"]).toEqual(["reasoning.encrypted_content"]);
    expect(two.body["input"]).toContainEqual(reasoning);
    received.splice(0);
    const { one } = await ask(azure({ ...deployment, ...given }), "gpt-4o");
    expect(one.body).not.toHaveProperty("include");
  });

  test("sends the API version and another base URL only if they are set", async () => {
    const { one } = await ask(azure({ ...deployment, ...given, apiVersion: "preview" }), "gpt-5.4");
    expect(one.url).toBe("/openai/v1/responses?api-version=preview");
    received.splice(0);
    const other = await ask(azure({ ...deployment, ...given, baseURL: "https://gateway.example/x/v1" }), "gpt-5.4");
    expect([hosts.at(-1), other.one.url]).toEqual(["gateway.example", "/x/v1/responses"]);
  });

  test("is not the default: Chat Completions of the deployment is", async () => {
    await chat(
      engine({ adapter: azure({ resource: "acme", deployment: "d", ...given }), model: "m", retry: false }),
      "Hi!",
    );
    expect(received[0]?.url).toBe("/openai/deployments/d/chat/completions?api-version=2025-04-01-preview");
    expect(received[0]?.body).toMatchObject({ model: "m" });
  });
});

describe("xai by the Responses API", () => {
  test("sends to /v1/responses with a bearer key, and sends the reasoning of Grok back", async () => {
    const { one, two } = await ask(preset("xai", { ...given, api: "responses" }), "grok-4");
    expect([hosts[0], one.url]).toEqual(["api.x.ai", "/v1/responses"]);
    expect(one.headers.authorization).toBe("Bearer sk-test-key-1234");
    expect(one.body).toMatchObject({ model: "grok-4", store: false, include: ["reasoning.encrypted_content"] });
    expect(two.body["input"]).toContainEqual(reasoning);
  });

  test("is not the default: Chat Completions is", async () => {
    await chat(engine({ adapter: preset("xai", given), model: "grok-4", retry: false }), "Hi!");
    expect(received[0]?.url).toBe("/v1/chat/completions");
  });
});

test("an API that a server does not have, and an unknown one, are refused when the adapter is created", () => {
  const unknown: object = { api: "completions" };
  expect(() => preset("groq", { api: "responses" })).toThrow(/groq: the preset has Chat Completions only/);
  for (const create of [
    () => openai({ ...unknown }),
    () => azure({ resource: "r", deployment: "d", ...unknown }),
    () => preset("xai", { ...unknown }),
  ])
    expect(create).toThrow(/api must be "responses" or "chat", not "completions"/);
});
