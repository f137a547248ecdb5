// MCP against real servers and killed processes. `npx tsx --conditions=source lib/test/long/mcp.ts`
//
//   1. every tool of the reference server, over stdio and over Streamable HTTP, with progress and a cancel
//   2. a question of a server, the process killed with SIGKILL while it waits, and another process that answers: the
//      reference server (which asks inside the call) with both replay policies, over stdio and HTTP, and a server of
//      2026-07-28
//   3. our server over stdio, called by the client of the SDK, in both kinds of protocol versions
//
// A child process (`child …`) holds a runtime over a SQLite file and one connection. It prints one line of JSON and
// waits to be killed.

import type { JsonObject } from "everturn";
import type { McpOptions, McpServer } from "everturn/mcp";

import { deepEqual, equal, match, ok } from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { askUser, chat, engine, fake, stream, tool } from "everturn";
import { connectMcp, serveMcpStdio, withMcp } from "everturn/mcp";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

import { Agency, everything, everythingProgram } from "../mcp/servers.ts";

/** What a child process does. */
type Task = {
  readonly server: McpServer;
  readonly tool: string;
  readonly arguments: JsonObject;
  readonly replay: "safe" | "never";
  readonly database: string;
  /** The answer; `null`: start the session. */
  readonly answer: string | null;
};

const asks = "trigger-elicitation-request";

/** The arguments for each tool of the reference server, and what its result contains. */
const calls: { readonly [tool: string]: readonly [JsonObject, RegExp] } = {
  echo: [{ message: "hello" }, /Echo: hello/],
  "get-annotated-message": [{ messageType: "success", includeImage: true }, /image/],
  "get-env": [{}, /PATH/],
  "get-resource-links": [{ count: 2 }, /demo:\/\/resource/],
  "get-resource-reference": [{ resourceType: "Text", resourceId: 1 }, /Resource 1/],
  "get-structured-content": [{ location: "Chicago" }, /"temperature/],
  "get-sum": [{ a: 1, b: 2 }, /is 3/],
  "get-tiny-image": [{}, /image\/png/],
  "gzip-file-as-resource": [
    { name: "a.gz", data: "data:text/plain;base64,aGVsbG8=", outputType: "resource" },
    /application\/gzip/,
  ],
  "toggle-simulated-logging": [{}, /logging/],
  "toggle-subscriber-updates": [{}, /subscri|updates/i],
  "trigger-long-running-operation": [{ duration: 0.3, steps: 3 }, /completed/],
  "get-roots-list": [{}, /file:\/\/\/data/],
  [asks]: [{}, /Name: Ada/],
  "trigger-url-elicitation": [{ url: "https://example.com/consent" }, /completed the URL/],
  "trigger-sampling-request": [{ prompt: "think" }, /Thought\./],
  "simulate-research-query": [{ topic: "tea", ambiguous: true }, /Research Report: tea/],
};

/** The model makes this call, and then answers. */
function caller(name: string, args: JsonObject) {
  return {
    provider: "fake",
    stream: (...[request, call]: Parameters<ReturnType<typeof fake>["stream"]>) => {
      const isAnswered = request.messages.some(({ role }) => role === "tool");
      const script = isAnswered
        ? ({ type: "text", text: "Done." } as const)
        : ({ type: "tool_call", id: "c1", name, arguments: args } as const);
      return fake({ script: [script] }).stream(request, call);
    },
  };
}

/** Answers the questions of the reference server. */
const answers: NonNullable<McpOptions["elicitation"]> = async (asked) => {
  if (asked.mode === "url") return { action: "accept" };
  return {
    action: "accept",
    content: "interpretation" in Object(asked.schema["properties"]) ? { interpretation: "technical" } : { name: "Ada" },
  };
};

async function everyTool(label: string, server: McpServer): Promise<void> {
  const sampling = engine({ adapter: fake({ script: [{ type: "text", text: "Thought." }] }), model: "fake:m" });
  const client = await connectMcp({
    name: label,
    server,
    needsApproval: false,
    elicitation: answers,
    sampling,
    roots: ["file:///data"],
  });
  try {
    // The server adds tools when it knows the capabilities of the client.
    for (let n = 0; n < 100 && client.tools.length < Object.keys(calls).length; n += 1) await client.refresh();
    deepEqual(client.tools.map(({ name }) => name).toSorted(), Object.keys(calls).toSorted());
    for (const [name, [args, expected]] of Object.entries(calls)) {
      const progress: unknown[] = [];
      const run = stream(withMcp(engine({ adapter: caller(name, args), model: "fake:m" }), [client]), "go");
      for await (const event of run) if (event.type === "tool_progress") progress.push(event.progress);
      const message = (await run.result).thread.messages.find(({ role }) => role === "tool");
      equal(
        message?.role === "tool" ? message.status : null,
        "success",
        `${label} ${name}: ${JSON.stringify(message)?.slice(0, 500)}`,
      );
      match(JSON.stringify(message), expected, `${label} ${name}`);
      if (name === "trigger-long-running-operation")
        ok(progress.length >= 2, `${label}: progress ${JSON.stringify(progress)}`);
    }
    const stop = new AbortController();
    const slow = caller("trigger-long-running-operation", { duration: 60, steps: 60 });
    const cancelled = chat(withMcp(engine({ adapter: slow, model: "fake:m" }), [client]), "go", {
      signal: stop.signal,
    });
    setTimeout(() => stop.abort(), 300);
    equal((await cancelled).haltedReason, "cancelled");
    ok((await client.listResources()).length > 0 && (await client.listPrompts()).length > 0);
    console.log(
      `${label}: ${client.tools.length} tools, progress, cancel, resources, prompts (${client.protocolVersion})`,
    );
  } finally {
    await client.close();
  }
}

/** A child process: starts a session that waits for an answer, or answers it, and prints the state. */
async function child({ server, tool, arguments: args, replay, database, answer }: Task): Promise<void> {
  const client = await connectMcp({ server, include: [tool], needsApproval: false, replay });
  for (let n = 0; n < 100 && client.tools.length === 0; n += 1) await client.refresh();
  const sessions = runtime({
    host: sqliteStorage({ path: database }),
    engines: { default: withMcp(engine({ adapter: caller(tool, args), model: "fake:m" }), [client]) },
  });
  const turn = answer === null ? await sessions.start("go", { id: "s1" }) : await sessions.reply("s1", answer);
  const { outcome } = await turn.result;
  const view = await sessions.get("s1");
  const result = view?.session.thread.messages.find(({ role }) => role === "tool") ?? null;
  console.log(JSON.stringify({ outcome: outcome.type, question: view?.session.pendingQuestion ?? null, result }));
  // Until it is killed: the server waits for the answer inside the call.
  setInterval(() => undefined, 60_000);
}

type State = {
  readonly outcome: string;
  readonly question: string | null;
  readonly result: { readonly status: string; readonly content: unknown } | null;
};

/** Runs a child process until it prints its state, and kills it. */
async function killed(task: Task): Promise<State> {
  const args = ["--import", "tsx", "--conditions=source", import.meta.filename, "child", JSON.stringify(task)];
  const running = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  try {
    for await (const line of createInterface({ input: running.stdout })) {
      const state: State = JSON.parse(line);
      return state;
    }
    throw new Error("the child process ended without a line");
  } finally {
    running.kill("SIGKILL");
  }
}

async function acrossKill(
  label: string,
  task: Omit<Task, "database" | "answer">,
  answer: string,
  expected: RegExp,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "everturn-mcp-"));
  try {
    const database = join(folder, "sessions.db");
    const asked = await killed({ ...task, database, answer: null });
    equal(asked.outcome, "ask_user", label);
    const done = await killed({ ...task, database, answer });
    equal(done.outcome, "assistant_message", `${label}: ${JSON.stringify(done)}`);
    match(JSON.stringify(done.result), expected, label);
    console.log(`${label}: killed while it waited, answered by another process: ${String(done.result?.status)}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The reference server over HTTP, as a process. */
async function everythingOverHttp(port: number): Promise<{ readonly server: McpServer; readonly close: () => void }> {
  const running = spawn(process.execPath, [everythingProgram, "streamableHttp"], {
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  for await (const line of createInterface({ input: running.stderr })) if (line.includes("listening")) break;
  running.stderr.resume();
  return { server: { url: `http://127.0.0.1:${port}/mcp` }, close: () => void running.kill("SIGKILL") };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** A server of 2026-07-28 behind a real socket. */
async function agencyOverHttp() {
  const agency = new Agency();
  const { address } = agency;
  const socket = createServer(async (incoming, outgoing) => {
    const body = Buffer.concat(await incoming.toArray());
    const headers = new Headers(
      Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)]),
    );
    const init = { method: incoming.method ?? "GET", headers, ...(body.length === 0 ? {} : { body }) };
    const response = "fetch" in address ? await address.fetch?.(`http://agency.test${incoming.url}`, init) : undefined;
    outgoing.writeHead(response?.status ?? 500, Object.fromEntries(response?.headers ?? []));
    if (response?.body === null || response === undefined) outgoing.end();
    else Readable.fromWeb(response.body).pipe(outgoing);
  }).listen(0, "127.0.0.1");
  await once(socket, "listening");
  const bound = socket.address();
  const port = typeof bound === "object" && bound !== null ? bound.port : 0;
  const close = () => {
    socket.closeAllConnections();
    socket.close();
  };
  return { agency, server: { url: `http://127.0.0.1:${port}/mcp` }, close };
}

/** A process that serves durable sessions over stdio. Its agent asks the user once. */
async function serve(): Promise<void> {
  const ask = tool({
    name: "ask",
    description: "Asks.",
    schema: {},
    handler: () => askUser("Which day?", { answerAs: "tool_result" }),
  });
  const agent = engine({ adapter: caller("ask", {}), model: "fake:m", tools: [ask] });
  await serveMcpStdio({ sessions: runtime({ host: memoryStorage(), engines: { default: agent } }) });
}

/** The client of the SDK calls our server, whose question reaches the client's user. */
async function ownServer(mode: "auto" | "legacy"): Promise<void> {
  const client = new Client(
    { name: "test", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
  );
  const asked: string[] = [];
  client.setRequestHandler("elicitation/create", ({ params }) => {
    asked.push(params.message);
    return { action: "accept", content: { answer: "Friday" } };
  });
  const args = ["--import", "tsx", "--conditions=source", import.meta.filename, "serve"];
  await client.connect(new StdioClientTransport({ command: process.execPath, args, stderr: "inherit" }));
  const { structuredContent } = await client.callTool({ name: "send_message", arguments: { message: "A table." } });
  deepEqual(
    [asked, Object(structuredContent).status, Object(structuredContent).text],
    [["Which day?"], "completed", "Done."],
  );
  console.log(
    `own server over stdio, ${client.getNegotiatedProtocolVersion()}: a question of a session reached the user of the client`,
  );
  await client.close();
}

/**
 * The server is killed and started again: it has forgotten the session of the client, whose next call connects again.
 */
async function restartedServer(): Promise<void> {
  const port = await freePort();
  const before = await everythingOverHttp(port);
  const client = await connectMcp({ server: before.server, include: ["echo", "trigger-long-running-operation"] });
  const calling = async (name: string, args: JsonObject) => {
    const result = await chat(withMcp(engine({ adapter: caller(name, args), model: "fake:m" }), [client]), "go");
    return JSON.stringify(result.thread.messages.find(({ role }) => role === "tool"));
  };
  match(await calling("echo", { message: "one" }), /Echo: one/);
  const running = calling("trigger-long-running-operation", { duration: 1, steps: 1 });
  before.close();
  const after = await everythingOverHttp(port);
  try {
    match(await calling("echo", { message: "two" }), /Echo: two/);
    match(await running, /completed/);
    console.log(
      "Streamable HTTP, server restarted: the call that was running was made again, and the next call connects again",
    );
  } finally {
    await client.close();
    after.close();
  }
}

async function main(): Promise<void> {
  await restartedServer();
  for (const mode of ["auto", "legacy"] as const) await ownServer(mode);
  const http = await everythingOverHttp(await freePort());
  const modern = await agencyOverHttp();
  try {
    for (const [label, server] of [
      ["stdio", everything()],
      ["Streamable HTTP", http.server],
    ] as const) {
      await everyTool(label, server);
      const task = { server, tool: asks, arguments: {} };
      await acrossKill(`${label}, never`, { ...task, replay: "never" }, "Ada", /may or may not have had an effect/);
      await acrossKill(`${label}, safe`, { ...task, replay: "safe" }, "Ada", /Name: Ada/);
    }
    const booking = { server: modern.server, tool: "book", arguments: { city: "Rome" }, replay: "never" } as const;
    await acrossKill("2026-07-28, never", booking, "2", /2 seats to Rome/);
    equal(modern.agency.log.length, 2, "the server got the call and its continuation");
  } finally {
    http.close();
    modern.close();
  }
}

const [role, task] = process.argv.slice(2);
if (role === "child") await child(JSON.parse(task ?? "{}"));
else if (role === "serve") await serve();
else {
  await main();
  process.exit(0);
}
