// Tools, questions and lists of MCP servers, with a server of protocol version 2026-07-28. `everything.test.ts` uses
// the reference server.

import type {
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthTokens,
  ToolAnnotations,
} from "@modelcontextprotocol/client";
import type { JsonObject } from "everturn";
import type { McpOptions } from "everturn/mcp";

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ClientCredentialsProvider } from "@modelcontextprotocol/client";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { chat, engine, fake, stream, tool } from "everturn";
import { connectMcp, mcpClient, withMcp } from "everturn/mcp";
import { afterEach, expect, test } from "vitest";

import { Agency } from "../../../test/mcp/servers.ts";
import { call, thinker, World } from "../../../test/runtime/world.ts";
import { readElicitation } from "./elicitation.ts";
import { limitedFetch } from "./limited-fetch.ts";
import { toolNames } from "./names.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function connected(
  options: Partial<McpOptions> = {},
  agency = new Agency(),
  defaults: Partial<McpOptions> = { needsApproval: false },
) {
  const client = await connectMcp({ name: "agency", server: agency.address, ...defaults, ...options });
  closing.push(client.close, () => agency.close());
  return { agency, client };
}

/** A model that makes one call and then answers. */
function caller(name: string, args: JsonObject = {}) {
  return thinker(({ messages }) =>
    messages.some(({ role }) => role === "tool") ? [{ type: "text", text: "Done." }] : [call(name, args)],
  );
}

/** The tool message of a chat with one call. */
async function calling(client: { readonly tools: McpTools }, name: string, args: JsonObject = {}) {
  const result = await chat(withMcp(engine({ adapter: caller(name, args), model: "fake:m" }), [client]), "go");
  return result.thread.messages.find(({ role }) => role === "tool");
}
type McpTools = Awaited<ReturnType<typeof connectMcp>>["tools"];

/** Two processes over one storage, each with a connection of its own. */
async function twoProcesses(name: string, args: JsonObject, options: Partial<McpOptions> = {}) {
  const world = new World();
  const agency = new Agency();
  const process = async () => {
    const { client } = await connected(options, agency);
    return { client, runtime: world.process(withMcp(world.engine(caller(name, args)), [client])) };
  };
  return { agency, first: await process(), second: await process() };
}

test("describes tools with names, schemas, replay policies and approvals that follow from the annotations", async () => {
  const { client } = await connected({ prefix: "trips_" }, new Agency(), {});
  const facts = client.tools.map(({ name, replay, needsApproval }) => [name, replay, needsApproval]);
  expect(facts).toEqual([
    ["trips_book", "never", true],
    ["trips_ask_twice", "safe", false],
    ["trips_sleep", "safe", true],
    ["trips_think", "never", true],
    ["trips_open", "never", false],
    ["trips_crash", "never", true],
  ]);
  expect(client.tools[0]).toMatchObject({
    description: "Books.",
    schema: { type: "object", properties: { city: { type: "string" } } },
    metadata: { mcp: { server: "agency", tool: "book" } },
  });
  expect(client).toMatchObject({ protocolVersion: "2026-07-28", instructions: "Be polite." });
  const { client: wary } = await connected({ trustAnnotations: false, include: ["open", "sleep"] }, new Agency(), {});
  expect(wary.tools.map(({ replay, needsApproval }) => [replay, needsApproval])).toEqual([
    ["never", true],
    ["never", true],
  ]);
});

test("gives the model structured content, images and errors of tools", async () => {
  const { client } = await connected();
  const opened = await calling(client, "open");
  expect(opened?.content).toMatchObject([
    { type: "text", text: '{"found":1}' },
    { type: "image", image: { mimeType: "image/png" } },
  ]);
  expect(await calling(client, "crash")).toMatchObject({ status: "failure", content: '{"error":"no such trip"}' });
});

test("cancels a call at the server when the turn is cancelled", async () => {
  const { agency, client } = await connected();
  const stop = new AbortController();
  const events = stream(withMcp(engine({ adapter: caller("sleep"), model: "fake:m" }), [client]), "go", {
    signal: stop.signal,
  });
  for await (const event of events) if (event.type === "tool_execution_started") setImmediate(() => stop.abort());
  await expect.poll(() => agency.log).toEqual(["sleep", "woken"]);
});

test("asks the user, and another process continues the call with the stored state", async () => {
  const { agency, first, second } = await twoProcesses("book", { city: "Rome" });
  const asked = await (await first.runtime.start("go", { id: "s1" })).result;
  expect(asked.outcome).toMatchObject({ type: "ask_user", question: expect.stringContaining("How many seats?") });
  await first.client.close();
  const again = await (await second.runtime.reply("s1", "none")).result;
  expect(again.outcome).toMatchObject({
    type: "ask_user",
    question: expect.stringContaining("does not match the form"),
  });
  const done = await (await second.runtime.reply("s1", "2")).result;
  expect(done.text).toBe("Done.");
  const view = await second.runtime.get("s1");
  expect(view?.session.thread.messages.find(({ role }) => role === "tool")).toMatchObject({
    content: '{"booked":"2 seats to Rome"}',
  });
  expect(agency.log).toEqual([
    "book Rome [null,null]",
    'book Rome ["state of Rome",{"seats":{"action":"accept","content":{"seats":2}}}]',
  ]);
});

test("asks several questions one after the other, and passes on a refusal", async () => {
  const { first, second } = await twoProcesses("ask_twice", {});
  await (
    await first.runtime.start("go", { id: "s1" })
  ).result;
  const next = await (await second.runtime.reply("s1", "Ada")).result;
  expect(next.outcome).toMatchObject({
    type: "ask_user",
    question: expect.stringContaining("https://agency.test/terms"),
  });
  await (
    await first.runtime.reply("s1", "decline")
  ).result;
  const view = await second.runtime.get("s1");
  expect(view?.session.thread.messages.find(({ role }) => role === "tool")).toMatchObject({
    content: 'Ada {"action":"decline"}',
  });
});

test("stores answers whose fields have the names of credentials", async () => {
  const { first, second } = await twoProcesses("ask_twice", {});
  await (
    await first.runtime.start("go", { id: "s1" })
  ).result;
  await (
    await first.runtime.reply("s1", '{"name":"Ada","password":"hunter2","apiKey":"k"}')
  ).result;
  const done = await (await second.runtime.reply("s1", "done")).result;
  expect(done.failure).toBeNull();
});

test("answers questions with a function of the program, sampling with an engine, and roots", async () => {
  const asked: unknown[] = [];
  const { client } = await connected({
    elicitation: async (question) => {
      asked.push(question);
      return { action: "accept", content: { seats: 3 } };
    },
    sampling: engine({ adapter: fake({ script: [{ type: "text", text: "Hm." }] }), model: "fake:m" }),
    roots: ["file:///data"],
  });
  expect(await calling(client, "book", { city: "Oslo" })).toMatchObject({ content: '{"booked":"3 seats to Oslo"}' });
  expect(asked).toMatchObject([{ mode: "form", message: "How many seats?", schema: { type: "object" } }]);
  const thought = await calling(client, "think");
  expect(thought?.content).toContain('"text":"Hm."');
  expect(thought?.content).toContain("file:///data");
});

test("reports a changed list of tools, and the next turn of a durable session uses it", async () => {
  const changes: (readonly string[])[] = [];
  const { agency, client } = await connected({
    onToolsChanged: (tools) => changes.push(tools.map(({ name }) => name)),
  });
  const world = new World();
  const offered: (readonly string[])[] = [];
  const adapter = thinker(({ tools }) => {
    offered.push(tools.map(({ name }) => name));
    return [{ type: "text", text: "Hello." }];
  });
  const sessions = world.process(withMcp(world.engine(adapter), [client]));
  await (
    await sessions.start("hi", { id: "s1" })
  ).result;
  agency.toolsChanged(["open"]);
  await expect.poll(() => changes).toEqual([["open"]]);
  await (
    await sessions.reply("s1", "again")
  ).result;
  expect(offered.map((names) => names.length)).toEqual([6, 1]);
  await client.close();
  await expect(client.refresh()).rejects.toThrow("was closed");
});

test("a server cannot switch off an approval, or make calls repeatable, after its first list of tools", async () => {
  const inputSchema = { type: "object" as const };
  const reads = { readOnlyHint: true, idempotentHint: true };
  const pays = { destructiveHint: true };
  let listed: { [name: string]: ToolAnnotations | null } = { pay: null, read: reads, list: reads };
  const handler = createMcpHandler(() => {
    const server = new Server({ name: "bank", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => ({
      tools: Object.entries(listed).map(([name, annotations]) =>
        annotations === null ? { name, inputSchema } : { name, inputSchema, annotations },
      ),
    }));
    return server;
  });
  const server = {
    url: "http://bank.test/mcp",
    fetch: (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init)),
  };
  const seen: unknown[] = [];
  const client = await connectMcp({ server });
  const judging = await connectMcp({
    server,
    needsApproval: ({ name, annotations }) => {
      seen.push([name, annotations.readOnlyHint]);
      return !annotations.readOnlyHint;
    },
  });
  closing.push(client.close, judging.close, handler.close);
  const facts = (tools: McpTools) => tools.map(({ name, replay, needsApproval }) => [name, replay, needsApproval]);
  expect(facts(client.tools)).toEqual([
    ["pay", "never", true],
    ["read", "safe", false],
    ["list", "safe", false],
  ]);
  // The hints of `pay` become harmless, `read` becomes destructive, and `pay_all` is new.
  listed = { pay: reads, read: pays, list: reads, pay_all: reads };
  const changed = [
    ["pay", "never", true],
    ["read", "never", true],
    ["list", "safe", false],
    ["pay_all", "never", true],
  ];
  expect(facts(await client.refresh())).toEqual(changed);
  expect(facts(await judging.refresh()).map(([, , needsApproval]) => needsApproval)).toEqual([true, true, false, true]);
  expect(seen.slice(-4)).toEqual([
    ["pay", false],
    ["read", false],
    ["list", true],
    ["pay_all", false],
  ]);
  // A tool that was away, and a tool that was destructive once, stay as they are.
  listed = {};
  expect(await client.refresh()).toEqual([]);
  listed = { pay: reads, read: reads, list: reads, pay_all: reads };
  expect(facts(await client.refresh())).toEqual(changed);
});

test("a tool that a server adds later does not replace a tool of the engine", async () => {
  let isAdded = false;
  const { agency, client } = await connected({ include: ({ name }) => name !== "sleep" || isAdded });
  const sleep = tool({ name: "sleep", description: "Ours.", schema: { type: "object" }, handler: () => "ours" });
  const agent = withMcp(engine({ adapter: caller("sleep"), model: "fake:m", tools: [sleep] }), [client]);
  agency.names = ["sleep"];
  isAdded = true;
  expect((await client.refresh()).map(({ name }) => name)).toEqual(["sleep"]);
  expect(agent.tools.map(({ name, description }) => [name, description])).toEqual([["sleep", "Ours."]]);
  const { thread } = await chat(agent, "go");
  expect(thread.messages.find(({ role }) => role === "tool")).toMatchObject({ content: "ours" });
});

test("a server that does not answer: the attempt ends after connectTimeoutMs, and its program is stopped", async () => {
  const folder = mkdtempSync(join(tmpdir(), "everturn-mcp-"));
  const file = join(folder, "pid");
  const code = `require("fs").appendFileSync(${JSON.stringify(file)}, process.pid + "\\n"); process.stdin.resume(); setInterval(() => {}, 1000);`;
  const server = { command: process.execPath, args: ["-e", code] };
  const isRunning = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  try {
    for (const protocol of ["auto", "legacy"] as const) {
      await expect(connectMcp({ name: "mute", server, protocol, connectTimeoutMs: 1500 })).rejects.toThrow();
    }
    const client = mcpClient({ name: "mute", server });
    const refreshed = expect(client.refresh()).rejects.toThrow("was closed");
    await client.close();
    await refreshed;
    const pids = () => readFileSync(file, "utf8").trim().split("\n").map(Number);
    await expect.poll(() => pids().filter(isRunning), { timeout: 20_000 }).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 60_000);

test("a server that connects and does not list its tools is given up", async () => {
  const handler = createMcpHandler(() => {
    const server = new Server({ name: "mute", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => new Promise<never>(() => undefined));
    return server;
  });
  const fetch = (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init));
  closing.push(handler.close);
  await expect(
    connectMcp({ server: { url: "http://mute.test/mcp", fetch }, connectTimeoutMs: 2000 }),
  ).rejects.toThrow();
}, 30_000);

test("limits the length of a response, and of an event of a stream", async () => {
  const read = async (type: string, chunks: readonly string[]) => {
    const body = new ReadableStream({
      start: (controller) => {
        for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
        controller.close();
      },
    });
    const fetch = limitedFetch(async () => new Response(body, { headers: { "content-type": type } }), 10);
    return (await fetch("http://large.test")).text();
  };
  const tooLong = "a message of more than 10 bytes";
  expect(await read("application/json", ["12345", "67890"])).toBe("1234567890");
  await expect(read("application/json", ["12345", "678901"])).rejects.toThrow(tooLong);
  const events = ["data:1\n", "\ndata:2\r\n\r\n", "data:3\n\ndata:4\n\n"];
  expect(await read("text/event-stream", events)).toBe(events.join(""));
  await expect(read("text/event-stream", ["data:1\n\n", "data:1\ndata:2"])).rejects.toThrow(tooLong);
});

test("a cancelled turn cancels the model call that a server asked for", async () => {
  const signals: AbortSignal[] = [];
  const adapter = {
    ...fake({ script: [] }),
    async *stream(_: unknown, { signal }: { readonly signal: AbortSignal }) {
      signals.push(signal);
      yield [];
      await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  };
  const { client } = await connected({ sampling: engine({ adapter, model: "fake:m" }), roots: [] });
  const stop = new AbortController();
  const { result } = stream(withMcp(engine({ adapter: caller("think"), model: "fake:m" }), [client]), "go", {
    signal: stop.signal,
  });
  await expect.poll(() => signals.length, { timeout: 10_000 }).toBe(1);
  stop.abort();
  await result;
  await expect.poll(() => signals[0]?.aborted).toBe(true);
});

test("an address that is no web address is not shown to the user", () => {
  const asked = (url: string) => readElicitation({ mode: "url", message: "Open.", url });
  expect(asked("https://agency.test/terms")).toMatchObject({ url: "https://agency.test/terms" });
  for (const url of ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "/relative"]) {
    expect(asked(url)).toBeNull();
  }
});

test("rejects two tools of one name, and a server that cannot be reached", async () => {
  const { client } = await connected();
  expect(() => withMcp(engine(), [client, client])).toThrow('two tools are named "book"');
  const refused = () => Promise.reject(new TypeError("fetch failed"));
  await expect(connectMcp({ server: { url: "http://nowhere.test/mcp", fetch: refused } })).rejects.toThrow();
  await expect(connectMcp({ server: { command: "/does/not/exist" }, protocol: "legacy" })).rejects.toThrow("ENOENT");
  await expect(connectMcp({ server: { transport: () => ({}) } })).rejects.toThrow("has to return a transport");
});

test("tools with unusual definitions: names are made unique, and what cannot be used is left out and reported", async () => {
  const inputSchema = { type: "object" as const };
  const names = ["a b", "a_b", "a/b", "x".repeat(200), `${"x".repeat(200)}y`, "auto", "", "äöü"];
  const handler = createMcpHandler(() => {
    const server = new Server({ name: "odd", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => ({
      tools: [
        ...names.map((name) => ({ name, inputSchema, description: "" })),
        { name: "recursive", inputSchema: { ...inputSchema, $ref: "#/nowhere" } },
      ],
    }));
    server.setRequestHandler("tools/call", ({ params }) => ({
      content: [{ type: "text" as const, text: `called ${params.name}` }],
    }));
    return server;
  });
  const errors: string[] = [];
  const server = {
    url: "http://odd.test/mcp",
    fetch: (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init)),
  };
  const client = await connectMcp({ server, needsApproval: false, onError: ({ message }) => errors.push(message) });
  closing.push(client.close, handler.close);
  const found = client.tools.map(({ name }) => name);
  expect(new Set(found).size).toBe(found.length);
  for (const name of found) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
  expect(found.slice(0, 3)).toEqual([
    expect.stringMatching(/^a_b_[0-9a-f]{8}$/),
    "a_b",
    expect.stringMatching(/^a_b_[0-9a-f]{8}$/),
  ]);
  expect(found).not.toContain("auto");
  expect(found.length + errors.length).toBe(names.length + 1);
  expect(await calling(client, found[2] ?? "")).toMatchObject({ content: "called a/b" });
});

test("a name does not pass to another tool when the list changes", () => {
  const namesOf = (listed: readonly string[]) => listed.map(toolNames("", listed));
  const hashed = expect.stringMatching(/^a_b_[0-9a-f]{8}$/);
  const [first, second, third] = namesOf(["a b", "a/b", "c.d"]);
  expect([first, second, third]).toEqual([hashed, hashed, "c_d"]);
  expect(namesOf(["a/b", "c.d"])).toEqual(["a_b", "c_d"]);
  expect(namesOf(["a/b", "a_b"])).toEqual([second, "a_b"]);
  expect(() => namesOf(["a", "a"])).toThrow("taken");
});

test("large results, and 50 calls at a time", async () => {
  const text = "é".repeat(2_000_000);
  const handler = createMcpHandler(() => {
    const server = new Server({ name: "large", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => ({
      tools: [{ name: "read", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }],
    }));
    server.setRequestHandler("tools/call", ({ params }) => {
      const n = params.arguments?.["n"];
      return { content: [{ type: "text" as const, text: n === undefined ? text : `n ${String(n)}` }] };
    });
    return server;
  });
  const server = {
    url: "http://large.test/mcp",
    fetch: (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init)),
  };
  const client = await connectMcp({ server });
  closing.push(client.close, handler.close);
  // The limit of the run for tool results applies.
  expect(await calling(client, "read")).toMatchObject({
    status: "success",
    content: expect.stringMatching(/^é{1000}/),
  });
  const many = Array.from({ length: 50 }, (_, n) => call("read", { n }, `c${n}`));
  const adapter = thinker(({ messages }) =>
    messages.some(({ role }) => role === "tool") ? [{ type: "text", text: "Done." }] : many,
  );
  const result = await chat(withMcp(engine({ adapter, model: "fake:m" }), [client]), "go");
  const contents = result.thread.messages.flatMap((message) => (message.role === "tool" ? [message.content] : []));
  expect(contents).toEqual(Array.from({ length: 50 }, (_, n) => `n ${n}`));
});

/**
 * The address of an agency that accepts one token, with an authorization server beside it. `requests` lists the paths
 * and grants.
 */
function guarded(agency: Agency, accepted: string, authority = "https://agency.test") {
  const requests: string[] = [];
  const { address } = agency;
  const base = "https://agency.test";
  const fetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const { pathname } = new URL(url);
    if (pathname.startsWith("/.well-known/oauth-protected-resource")) {
      return Response.json({ resource: `${base}/mcp`, authorization_servers: [authority] });
    }
    if (pathname.startsWith("/.well-known/")) {
      return Response.json({
        issuer: authority,
        authorization_endpoint: `${authority}/authorize`,
        token_endpoint: `${authority}/token`,
        response_types_supported: ["code"],
        code_challenge_methods_supported: ["S256"],
        token_endpoint_auth_methods_supported: ["client_secret_basic", "none"],
      });
    }
    if (pathname === "/token") {
      const form = new URLSearchParams(String(init?.body));
      requests.push(`${form.get("grant_type")} ${form.get("code")}`);
      return Response.json({ access_token: accepted, token_type: "bearer", expires_in: 3600 });
    }
    const token = new Headers(init?.headers).get("authorization");
    requests.push(String(token));
    if (token !== `Bearer ${accepted}` || !("url" in address)) return new Response(null, { status: 401 });
    return address.fetch?.(url, init) ?? Response.error();
  };
  return { requests, server: { url: `${base}/mcp`, fetch } };
}

test("authorizes with a token of the program, and refreshes it", async () => {
  const { requests, server } = guarded(new Agency(), "t2");
  let token = "t1";
  const authProvider = {
    token: async () => token,
    onUnauthorized: async () => {
      token = "t2";
    },
  };
  const client = await connectMcp({ server: { ...server, authProvider } });
  closing.push(client.close);
  expect(client.tools).toHaveLength(6);
  expect(requests.slice(0, 2)).toEqual(["Bearer t1", "Bearer t2"]);
});

test("authorizes as a program with client credentials", async () => {
  const { requests, server } = guarded(new Agency(), "granted");
  const authProvider = new ClientCredentialsProvider({
    clientId: "id",
    clientSecret: "secret",
    expectedIssuer: "https://agency.test",
  });
  const client = await connectMcp({ server: { ...server, authProvider } });
  closing.push(client.close);
  expect(client.tools).toHaveLength(6);
  expect(requests.slice(0, 3)).toEqual(["null", "client_credentials null", "Bearer granted"]);
});

test("client credentials are not sent to an authorization server that only the MCP server names", async () => {
  const { requests, server } = guarded(new Agency(), "granted", "https://attacker.test");
  const authProvider = new ClientCredentialsProvider({
    clientId: "id",
    clientSecret: "secret",
    expectedIssuer: "https://agency.test",
  });
  await expect(connectMcp({ server: { ...server, authProvider } })).rejects.toThrow();
  expect(requests.filter((request) => request.startsWith("client_credentials"))).toEqual([]);
});

test("authorizes a person: the first use opens a page, and finishAuth completes it", async () => {
  const { requests, server } = guarded(new Agency(), "granted");
  const opened: URL[] = [];
  const saved: { tokens?: StoredOAuthTokens; discovery?: OAuthDiscoveryState; verifier: string } = { verifier: "" };
  const authProvider: OAuthClientProvider = {
    redirectUrl: "http://localhost/callback",
    clientMetadata: { redirect_uris: ["http://localhost/callback"] },
    clientInformation: () => ({ client_id: "id" }),
    tokens: () => saved.tokens,
    saveTokens: (tokens) => {
      saved.tokens = tokens;
    },
    redirectToAuthorization: (url) => {
      opened.push(url);
    },
    saveCodeVerifier: (verifier) => {
      saved.verifier = verifier;
    },
    codeVerifier: () => saved.verifier,
    saveDiscoveryState: (discovery) => {
      saved.discovery = discovery;
    },
    discoveryState: () => saved.discovery,
  };
  const client = mcpClient({ server: { ...server, authProvider } });
  closing.push(client.close);
  await expect(client.finishAuth(new URLSearchParams())).rejects.toThrow("to which a connection was tried");
  await expect(client.refresh()).rejects.toThrow();
  expect(opened[0]?.pathname).toBe("/authorize");
  await client.finishAuth(new URLSearchParams({ code: "c1" }));
  expect(await client.refresh()).toHaveLength(6);
  expect(requests).toContain("authorization_code c1");
});
