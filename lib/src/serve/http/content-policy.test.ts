// Files and URLs that callers put into content: which ones are rejected, on every route alike.

import type { HttpOptions } from "everturn/http";

import { engine, fake, tool, MisuseError } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import { contentPolicy, urlProblem } from "./content-policy.ts";

const rejectedUrls = [
  "http://example.com/a.png",
  "file:///etc/passwd",
  "gs://bucket/object",
  "s3://bucket/object",
  "javascript:alert(1)",
  " https://example.com/a.png",
  "https://",
  "https://user:password@example.com/a.png",
  "https://localhost/a.png",
  "https://LOCALHOST./a.png",
  "https://metadata.google.internal/computeMetadata/v1/",
  "https://printer.local/a.png",
  "https://intranet/a.png",
  "https://127.0.0.1/a.png",
  "https://127.1/a.png",
  "https://0x7f.0.0.1/a.png",
  "https://2130706433/a.png",
  "https://10.1.2.3/a.png",
  "https://172.16.0.1/a.png",
  "https://192.168.1.1/a.png",
  "https://169.254.169.254/latest/meta-data",
  "https://100.64.0.1/a.png",
  "https://0.0.0.0/a.png",
  "https://224.0.0.1/a.png",
  "https://[::1]/a.png",
  "https://[::]/a.png",
  "https://[::ffff:127.0.0.1]/a.png",
  "https://[::ffff:a00:1]/a.png",
  "https://[64:ff9b::a00:1]/a.png",
  "https://[fe80::1]/a.png",
  "https://[fd00::1]/a.png",
  "https://[2002:7f00:1::]/a.png",
  "https://[2001:0:1::1]/a.png",
  // Other parsers than that of this platform find another host in these.
  "https://example.com\\@10.0.0.1/a.png",
  "https://example.com\\.evil.example/a.png",
  "https://134744072/a.png",
  "https://ex\u00ADample.com/a.png",
  "https://example\u3002com/a.png",
  "https://example.com/\u0000a.png",
  "https://example.com/\u202Egnp.a",
  "https://localhost../a.png",
  "https://printer.internal../a.png",
  "https://kubernetes.default.svc/a.png",
  "https://localhost.localdomain/a.png",
];

const acceptedUrls = [
  "https://example.com/a.png",
  "https://cdn.example.com:8443/a.png?b=c#d",
  "https://EXAMPLE.com./ä.png",
  "https://xn--mnchen-3ya.example/a.png",
  "https://8.8.8.8/a.png",
  "https://172.32.0.1/a.png",
  "https://[2606:4700::1111]/a.png",
  "https://[2001:4860:4860::8888]/a.png",
  "data:image/png;base64,AAAA",
];

/** Addresses of files in the account of the operator at Gemini, which its API accepts as the URL of a file. */
const providerFileUrls = [
  "https://generativelanguage.googleapis.com/v1beta/files/abc-123",
  "https://generativelanguage.googleapis.com./v1beta/files/abc-123",
  "https://generativelanguage.googleapis.com:443/v1beta/files/abc-123",
  "https://generativelanguage.googleapis.com//v1beta/%66iles/abc-123",
  "https://generativelanguage.mtls.googleapis.com/v1beta/files/abc-123",
  "https://us-generativelanguage.googleapis.com/v1beta/files/abc-123",
];

describe("URLs", () => {
  const policy = contentPolicy(undefined, false);
  test.each(rejectedUrls)("%j is rejected", (url) => {
    expect(urlProblem(url, policy)).not.toBeNull();
  });

  test.each(acceptedUrls)("%s is accepted", (url) => {
    expect(urlProblem(url, policy)).toBeNull();
  });

  test.each(providerFileUrls)("%s needs providerFiles", (url) => {
    expect(urlProblem(url, policy)).toContain("files of the provider account");
    expect(urlProblem(url, contentPolicy(["*.googleapis.com"], false))).not.toBeNull();
    expect(urlProblem(url, contentPolicy(undefined, true))).toBeNull();
    expect(urlProblem(url, contentPolicy(["cdn.example.com"], true))).not.toBeNull();
  });

  test("an allowlist accepts its hosts, and subdomains of a domain with an asterisk", () => {
    const listed = contentPolicy(["CDN.example.com", "*.images.example"], false);
    for (const host of ["cdn.example.com", "cdn.example.com.", "a.images.example", "a.b.images.example"])
      expect(urlProblem(`https://${host}/x`, listed)).toBeNull();
    for (const host of ["example.com", "evil-cdn.example.com", "images.example", "aimages.example", "127.0.0.1"])
      expect(urlProblem(`https://${host}/x`, listed)).not.toBeNull();
    expect(urlProblem("data:,x", listed)).toBeNull();
  });

  test.each(["https://example.com", "example.com/path", "example.com:443", "a b", ""])(
    "the allowlist cannot have the entry %j",
    (host) => {
      expect(() => contentPolicy([host], false)).toThrow(MisuseError);
    },
  );
});

const image = (source: object) => ({ type: "image", image: { source } });
const file = (source: object) => ({ type: "file", source });

async function world(options: Partial<HttpOptions> = {}) {
  const lookup = tool({ name: "lookup", description: "Looks up.", schema: { type: "object" }, manual: true });
  const scripts = Array.from({ length: 400 }, () => [{ type: "text", text: "Fine." } as const]);
  const call = [{ type: "tool_call", id: "c1", name: "lookup", arguments: {} } as const];
  const agent = engine({ adapter: fake({ scripts: [call, ...scripts] }), model: "fake:m", tools: [lookup] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  await (
    await sessions.start("look", { id: "waits" })
  ).result;
  const { turnId = "" } = (await sessions.get("waits"))?.session.lastRun ?? {};
  await (
    await sessions.start("hi", { id: "s" })
  ).result;
  const token = await sessions.token("waits", "c1");
  const handler = createHandler({ sessions, auth: "none", dialects: allDialects({ agent }), ...options });
  const post = async (path: string, body: object) => {
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", prefer: "wait=10" },
        body: JSON.stringify(body),
      }),
    );
    await response.text();
    return response.status;
  };
  /** The statuses of all routes that accept content, for a part of a message. */
  const everywhere = async (part: object) => {
    const message = { role: "user", content: [part] };
    const results = [{ toolCallId: "c1", content: [{ type: "text", text: "found" }, part] }];
    const toolPart = { type: "tool-lookup", toolCallId: "c1", toolMetadata: { turnId }, input: {} };
    const answered = { ...toolPart, state: "output-available", output: [part] };
    return [
      await post("/sessions", { input: [message] }),
      await post("/sessions/s/continue", { message }),
      await post("/sessions/s/steer", { input: message }),
      await post("/sessions/waits/tool-results", { results }),
      await post("/complete", { token, type: "result", value: [part] }),
      await post("/ui/chat", { id: "waits", messages: [{ id: "m", role: "assistant", parts: [answered] }] }),
    ];
  };
  /** The statuses of the routes of other protocols, for the URL of an image. */
  const byUrl = async (url: string) => [
    await post("/ui/chat", {
      id: `chat-${url}`.slice(0, 200),
      messages: [{ id: "m", role: "user", parts: [{ type: "file", mediaType: "image/png", url }] }],
    }),
    await post("/v1/chat/completions", {
      model: "agent",
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }],
    }),
  ];
  return { everywhere, byUrl, post, sessions };
}

const six = (status: number) => Array.from({ length: 6 }, () => status);

describe("every route rejects", () => {
  test("URLs with other schemes than https and data, and private addresses", async () => {
    const { everywhere, byUrl } = await world();
    for (const url of [
      "http://example.com/a.png",
      "file:///etc/passwd",
      "gs://b/o",
      "javascript:1",
      "https://10.0.0.1/",
    ]) {
      expect([url, await everywhere(image({ type: "url", url }))]).toEqual([url, six(400)]);
      expect([url, await everywhere(file({ type: "url", url }))]).toEqual([url, six(400)]);
      expect([url, await byUrl(url)]).toEqual([url, [400, 400]]);
    }
  });

  test("hosts that are not on the allowlist", async () => {
    const { everywhere, byUrl } = await world({ contentHosts: ["cdn.example.com"] });
    expect(await everywhere(image({ type: "url", url: "https://example.org/a.png" }))).toEqual(six(400));
    expect(await byUrl("https://example.org/a.png")).toEqual([400, 400]);
    expect(await byUrl("https://cdn.example.com/a.png")).toEqual([200, 200]);
  });

  test("files of the server and of the provider account", async () => {
    const { everywhere } = await world();
    const sources = [
      { type: "file", path: "/etc/passwd" },
      { type: "provider_file", provider: "openai", id: "file-of-another-tenant" },
    ];
    for (const source of sources) {
      expect(await everywhere(image(source))).toEqual(six(400));
      expect(await everywhere(file(source))).toEqual(six(400));
    }
  });

  test("provider options of a part of a tool result", async () => {
    const { everywhere } = await world();
    const part = { type: "text", text: "x", providerOptions: { anthropic: { type: "document" } } };
    expect(await everywhere(part)).toEqual(six(400));
  });
});

test("file ids of the provider account are accepted if the operator allows them, and paths are not", async () => {
  const { post } = await world({ providerFiles: true });
  const sent = (source: object) => post("/sessions", { input: [{ role: "user", content: [file(source)] }] });
  expect(await sent({ type: "provider_file", provider: "fake", id: "file-1" })).toBe(200);
  expect(await sent({ type: "file", path: "/etc/passwd" })).toBe(400);
});

test("a tool result that is data may contain any URL: no one fetches it", async () => {
  const { post } = await world();
  const content = [{ type: "link", url: "http://10.0.0.1/" }, { source: { type: "url", url: "file:///x" } }];
  expect(await post("/sessions/waits/tool-results", { results: [{ toolCallId: "c1", content }] })).toBe(200);
});
