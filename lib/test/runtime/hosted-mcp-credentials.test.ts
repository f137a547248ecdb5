// Credentials of MCP servers that a provider calls (Anthropic's `authorization_token`, OpenAI's `authorization`): they
// are never stored with a turn, and adapters add them to the request.

import type { ProviderTool } from "../../src/core/model/internal.ts";
import type { HostStorage } from "everturn/runtime";

import { anthropic, engine, fake, openai, providerTool } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

const secret = "tok-4f9a1c77e2";

/** A storage that records the texts of all its writes. */
function recording(): { readonly host: HostStorage; readonly texts: string[] } {
  const texts: string[] = [];
  const host = memoryStorage();
  return { host: { ...host, write: (batch) => (texts.push(JSON.stringify(batch)), host.write(batch)) }, texts };
}

const mcp = (options: ProviderTool["options"]): ProviderTool => ({ provider: "openai", name: "mcp", options });
const servers = {
  mcp_servers: [{ type: "url", url: "https://example.com", name: "zip", authorization_token: secret }],
};
const adapter = () => fake({ script: [{ type: "text", text: "Done." }] });
const model = "fake:m";

describe("a credential of a hosted MCP server is rejected, and not stored", () => {
  const cases: readonly (readonly [string, (host: HostStorage) => Promise<unknown>])[] = [
    [
      "providerTools of a turn, authorization",
      async (host) =>
        runtime({ host, engines: { default: engine({ adapter: adapter(), model }) } }).start("hi", {
          providerTools: [mcp({ server_label: "zip", authorization: secret })],
        }),
    ],
    [
      "providerTools of a turn, headers",
      async (host) =>
        runtime({ host, engines: { default: engine({ adapter: adapter(), model }) } }).start("hi", {
          providerTools: [mcp({ server_label: "zip", headers: { Authorization: secret } })],
        }),
    ],
    [
      "providerTools of an engine",
      async (host) => {
        const options = { providerTools: [mcp({ server_label: "zip", authorization: secret })] };
        return runtime({ host, engines: { default: engine({ adapter: adapter(), model, options }) } }).start("hi");
      },
    ],
    [
      "providerTool() of an engine",
      async (host) => {
        const options = { server_label: "zip", authorization: secret };
        const gated = providerTool({ provider: "openai", name: "mcp", options, needsApproval: () => false });
        return runtime({ host, engines: { default: engine({ adapter: adapter(), model, tools: [gated] }) } }).start(
          "hi",
        );
      },
    ],
    [
      "provider options of a turn, authorization_token",
      async (host) =>
        runtime({ host, engines: { default: engine({ adapter: adapter(), model }) } }).start("hi", {
          providerOptions: { anthropic: servers },
        }),
    ],
    [
      "options of a turn, authorization_token",
      async (host) =>
        runtime({ host, engines: { default: engine({ adapter: adapter(), model }) } }).start("hi", {
          options: servers,
        }),
    ],
    [
      "params of an engine, authorization_token",
      async (host) =>
        runtime({
          host,
          engines: {
            default: engine({ adapter: adapter(), model, params: { providerOptions: { anthropic: servers } } }),
          },
        }).start("hi"),
    ],
  ];
  test.each(cases)("%s", async (_, start) => {
    const { host, texts } = recording();
    const error: unknown = await start(host).then(
      async (turn) => (await Object(turn).result, null),
      (thrown: unknown) => thrown,
    );
    expect(texts.filter((text) => text.includes(secret))).toEqual([]);
    expect(error).toMatchObject({ message: expect.stringContaining("mcpAuthorization") });
    expect(String(error)).not.toContain(secret);
  });
});

describe("an adapter adds the token of a hosted MCP server to the request", () => {
  const refusal = (body: string) => Response.json({ error: { message: `not allowed: ${body}` } }, { status: 400 });
  const cases = [
    [
      "openai",
      (send: typeof fetch) => {
        const mcpAuthorization = { zip: async () => secret, other: "unused" };
        return openai({ apiKey: "key-of-the-provider", mcpAuthorization, fetch: (url, init) => send(url, init) });
      },
      { providerTools: [mcp({ server_label: "zip" }), mcp({ server_label: "open" })] },
      {
        tools: [
          { type: "mcp", server_label: "zip", authorization: secret },
          { type: "mcp", server_label: "open" },
        ],
      },
    ],
    [
      "anthropic",
      (send: typeof fetch) => {
        const mcpAuthorization = { zip: secret };
        return anthropic({ apiKey: "key-of-the-provider", mcpAuthorization, fetch: (url, init) => send(url, init) });
      },
      {
        options: {
          mcp_servers: [
            { type: "url", name: "zip" },
            { type: "url", name: "open" },
          ],
        },
      },
      {
        mcp_servers: [
          { type: "url", name: "zip", authorization_token: secret },
          { type: "url", name: "open" },
        ],
      },
    ],
  ] as const;
  test.each(cases)("%s, and no row or failure has it", async (_, adapterOf, options, sent) => {
    const { host, texts } = recording();
    const bodies: unknown[] = [];
    const adapter = adapterOf(async (__, init) => {
      bodies.push(JSON.parse(String(init?.body)));
      return refusal(String(init?.body));
    });
    const agent = engine({ adapter, model: "m", retry: false });
    const sessions = runtime({ host, engines: { default: agent } });
    const result = await (await sessions.start("hi", { id: "s", ...options })).result;
    expect(bodies).toMatchObject([sent]);
    expect(JSON.stringify(bodies).split(secret)).toHaveLength(2);
    expect(result.failure).toMatchObject({ message: expect.stringContaining("not allowed") });
    const exported = JSON.stringify(await inspection(sessions.source).export("s"));
    expect([...texts, JSON.stringify(result), exported].filter((text) => text.includes(secret))).toEqual([]);
  });
});
