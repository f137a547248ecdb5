// Reads of long sessions: every response is bounded in size and paged, the client reads all pages, and forks count
// against a quota.

import type { HttpOptions } from "everturn/http";
import type { HostStorage } from "everturn/runtime";

import { AsyncLocalStorage } from "node:async_hooks";

import { engine, fake } from "everturn";
import { createClient } from "everturn/client";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

const pageLength = 100_000;
const ada = "the-token-of-ada-000";
const bob = "the-token-of-bob-000";

/** A tenant `ada` with a session `long` of 40 messages, 20 of them with 30,000 characters. */
async function world(limits: HttpOptions["limits"] = {}) {
  const clock = handClock();
  const memory = memoryStorage({ clock });
  const reads = { quota: 0, mostTurns: 0 };
  const host: HostStorage = {
    ...memory,
    read: async (queries) => {
      if (queries.some(({ table, prefix }) => table === "slots" && prefix[1] === "copied")) reads.quota += 1;
      reads.mostTurns = Math.max(reads.mostTurns, queries.filter(({ table }) => table === "starts").length);
      // Like a database: other requests run meanwhile.
      await new Promise((resolve) => setImmediate(resolve));
      return memory.read(queries);
    },
  };
  const scripts = Array.from({ length: 25 }, (_, index) => [
    { type: "text", text: `${index}:${"x".repeat(30_000)}` } as const,
  ]);
  const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m" }) };
  const all = runtime({ host, engines });
  const sessions = all.tenant("ada");
  await (
    await sessions.start("0", { id: "long" })
  ).result;
  for (let count = 1; count < 20; count += 1) await (await sessions.reply("long", `${count}`)).result;
  /** A process that serves the storage. */
  const serve = () =>
    createHandler({
      dialects: chatDialects,
      sessions: runtime({ host, engines }),
      ...sharedSessions,
      auth: [
        { token: ada, tenant: "ada" },
        { token: bob, tenant: "bob" },
      ],
      limits: { pageLength, ...limits },
      inspect: true,
      clock,
    });
  const handler = serve();
  const asking =
    (process: ReturnType<typeof serve>) =>
    async (method: string, path: string, body?: unknown, token = ada) => {
      const response = await process(
        new Request(`http://localhost${path}`, {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      );
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, json: JSON.parse(text) };
    };
  const ask = asking(handler);
  const client = createClient({
    url: "http://localhost",
    token: ada,
    fetch: (url, init) => handler(new Request(url, init)),
  });
  return { sessions, ask, askOther: asking(serve()), clock, client, reads };
}

/** A page has at least one message, so it may exceed its length by one. */
const largest = pageLength + 31_000;

describe("a response is bounded in size", () => {
  test("of a session: it has the newest messages, and the number of all", async () => {
    const { ask } = await world();
    for (const path of ["/sessions/long", "/sessions/long?messages=200"]) {
      const { text, json } = await ask("GET", path);
      expect(text.length).toBeLessThan(largest);
      const { messages } = json.session.thread;
      expect([json.length, messages.at(-1).content.slice(0, 3)]).toEqual([40, "19:"]);
      expect(messages.length).toBeGreaterThan(2);
    }
  });

  test("of messages: all pages together have every message once", async () => {
    const { ask, sessions } = await world();
    const read: unknown[] = [];
    let after: string | null = null;
    do {
      const query: string = after === null ? "" : `&after=${after}`;
      const { text, json } = await ask("GET", `/sessions/long/messages?limit=200${query}`);
      expect(text.length).toBeLessThan(largest);
      read.push(...json.items);
      after = json.next;
    } while (after !== null);
    expect(read).toEqual((await sessions.get("long"))?.session.thread.messages);
  });

  test("of a chat: pages begin with a user message, and together have every message once", async () => {
    const { ask } = await world();
    const texts: string[] = [];
    let before: string | null = null;
    do {
      const { text, json } = await ask("GET", `/ui/chat/long${before === null ? "" : `?before=${before}`}`);
      expect(text.length).toBeLessThan(largest);
      expect(json.messages[0].role).toBe("user");
      texts.unshift(...json.messages.map(({ parts }: { parts: { text: string }[] }) => parts.at(-1)?.text.slice(0, 3)));
      before = json.previous;
    } while (before !== null);
    expect(texts).toEqual(Array.from({ length: 20 }, (_, index) => [`${index}`, `${index}:x`.slice(0, 3)]).flat());
    expect((await ask("GET", "/ui/chat/long?before=x")).status).toBe(400);
  });
});

test("the turns of a session are read a few at a time, and a page is bounded in size: they have inputs and answers", async () => {
  const { ask, reads } = await world();
  reads.mostTurns = 0;
  const turns = new Set<string>();
  let after: string | null = null;
  do {
    const query: string = after === null ? "" : `&after=${after}`;
    const { json, text } = await ask("GET", `/sessions/long/turns?limit=999999${query}`);
    expect(text.length).toBeLessThan(pageLength + 4 * 31_000);
    for (const { turnId } of json.items) turns.add(turnId);
    after = json.next;
  } while (after !== null);
  expect(turns.size).toBe(20);
  expect(reads.mostTurns).toBeLessThanOrEqual(4);
});

test("the client reads all pages of a session and of a chat", async () => {
  const { client, sessions } = await world();
  const stored = (await sessions.get("long"))?.session.thread.messages ?? [];
  expect((await client.get("long"))?.session.thread.messages).toEqual(stored);
  expect((await client.get("long", { messages: 25 }))?.session.thread.messages).toEqual(stored.slice(-25));
  expect((await client.get("long", { messages: 0 }))?.session.thread.messages).toEqual([]);
  const chat = await client.chat("long");
  expect([chat.messages.length, chat.status]).toEqual([40, "completed"]);
  expect(await client.get("none")).toBeNull();
});

describe("forks count against the quota of their tenant", () => {
  // The messages of the session have about 606,000 characters.
  const limits = { copiedLengthPerHour: 1_500_000 };

  test("a fork over the quota gets 429 and copies nothing, until the hour is over", async () => {
    const { ask, clock, sessions } = await world(limits);
    const fork = (id: string, token = ada) => ask("POST", "/sessions/long/fork", { id }, token);
    expect([(await fork("a")).status, (await fork("b")).status]).toEqual([201, 201]);
    const refused = await fork("c");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "3600"]);
    expect(await sessions.get("c")).toBeNull();
    expect((await ask("POST", "/sessions/long/fork", { id: "d", at: 2 })).status).toBe(201);
    expect((await ask("POST", "/sessions/none/fork", {}, bob)).status).toBe(404);
    await clock.advance(3_600_000);
    expect((await fork("c")).status).toBe(201);
  });

  test("the quota holds over all processes of a storage, also for forks at the same time", async () => {
    const { ask, askOther, sessions } = await world(limits);
    const statuses = await Promise.all(
      [ask, askOther, ask, askOther, ask, askOther].map(async (send, index) => {
        const { status } = await send("POST", "/sessions/long/fork", { id: `f${index}` });
        return status;
      }),
    );
    expect(statuses.toSorted()).toEqual([201, 201, 429, 429, 429, 429]);
    expect((await sessions.list({ limit: 10 })).items).toHaveLength(3);
    // Another tenant has a quota of its own.
    await ask("POST", "/sessions", { id: "own", input: "hi" }, bob);
    expect((await ask("POST", "/sessions/own/fork", { id: "copy", at: 0 }, bob)).status).toBe(201);
  });

  test("forks over the quota at the same time cost no copy in memory", async () => {
    const { ask, reads } = await world(limits);
    const forks = Array.from({ length: 20 }, (_, index) => ask("POST", "/sessions/long/fork", { id: `f${index}` }));
    const statuses = (await Promise.all(forks)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(2);
    // Each fork reads the quota before its work. Only the two that were built read it again, for the batch that counts
    // them.
    expect(reads.quota).toBe(22);
  });

  test("so does a regenerated message of a chat", async () => {
    const { ask, sessions } = await world({ copiedLengthPerHour: 100_000 });
    const messageId = (await sessions.messages("long", { after: 37, limit: 1 })).items[0]?.id ?? "message-38";
    const messages = [{ id: messageId, role: "user", parts: [{ type: "text", text: "19" }] }];
    const { status } = await ask("POST", "/ui/chat", { id: "long", messages, trigger: "regenerate-message" });
    expect(status).toBe(429);
    expect(await sessions.get("long~branch-1")).toBeNull();
  });
});

describe("results that are larger than the memory for unread responses", () => {
  const text = "x".repeat(300_000);
  /** Room for two results: each has the text four times. */
  const limits = { bufferBytesPerTenant: 3_000_000 };

  function resultWorld(clock: ReturnType<typeof handClock>) {
    const agent = engine({ adapter: fake({ script: [{ type: "text", text }] }), model: "fake:m" });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const handler = createHandler({
      sessions,
      ...sharedSessions,
      auth: [{ token: ada }],
      limits,
      clock,
    });
    const start = () =>
      handler(
        new Request("http://localhost/sessions", {
          method: "POST",
          headers: {
            authorization: `Bearer ${ada}`,
            "content-type": "application/json",
            prefer: "wait=10",
            "idempotency-key": "k",
          },
          body: JSON.stringify({ input: "hi" }),
        }),
      );
    return { start };
  }

  test("wait for memory, and every client that repeats the request gets the whole result", async () => {
    // The time of the test, so that no client counts as stalled on a busy machine.
    const clock = handClock();
    const { start } = resultWorld(clock);
    const results: { readonly status: number; readonly body: unknown }[] = [];
    const answers = Array.from({ length: 12 }, async () => {
      const response = await start();
      // The client reads a little later than the result is there.
      await clock.sleep(5);
      results.push({ status: response.status, body: JSON.parse(await response.text()) });
    });
    await expect.poll(() => clock.advance(5).then(() => results.length)).toBe(12);
    await Promise.all(answers);
    for (const { status, body } of results) {
      expect(status).toBe(200);
      expect(body).toMatchObject({ status: "ended", text });
    }
  });

  test("wait until a client has read or disconnected", async () => {
    // A clock that stands still, so that no client counts as stalled.
    const clock = handClock();
    const { start } = resultWorld(clock);
    const bodies: (ReadableStream | null)[] = [];
    const answers = Array.from({ length: 8 }, async () => bodies.push((await start()).body));
    await expect.poll(() => bodies.length).toBe(2);
    for (let count = 3; count <= 8; count += 1) {
      await clock.advance(1);
      expect(bodies.length).toBe(count - 1);
      await bodies[count - 3]?.cancel();
      await expect.poll(() => clock.advance(20).then(() => bodies.length)).toBe(count);
    }
    await Promise.all(answers);
  });
});

describe("pages in memory at the same time", () => {
  type PageRequest = { readonly tenant: string };

  /**
   * Tenants with a session `long`. `pages` are the requests that have read messages, or the list of sessions, and have
   * no response yet.
   */
  async function world(tenants: readonly string[]) {
    const memory = memoryStorage();
    const requests = new AsyncLocalStorage<PageRequest>();
    const pages = new Set<PageRequest>();
    const held: (() => void)[] = [];
    const host: HostStorage = {
      ...memory,
      read: async (queries) => {
        const request = requests.getStore();
        const hasPage = queries.some(({ table }) => table === "entries" || table === "recent");
        if (request !== undefined && hasPage) {
          pages.add(request);
          await new Promise<void>((resolve) => held.push(resolve));
        }
        return memory.read(queries);
      },
    };
    const scripts = Array.from({ length: tenants.length + 4 }, () => [
      { type: "text", text: "x".repeat(200_000) } as const,
    ]);
    const all = runtime({ host, engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m" }) } });
    for (const tenant of tenants) await (await all.tenant(tenant).start("go", { id: "long", key: "long" })).result;
    const token = (tenant: string) => `the-token-of-${tenant}-000`;
    const handler = createHandler({
      sessions: all,
      dialects: chatDialects,
      ...sharedSessions,
      auth: tenants.map((tenant) => ({ tenant, token: token(tenant), operator: true })),
      inspect: true,
    });
    const send = (tenant: string, path: string, init: RequestInit = {}) =>
      handler(
        new Request(`http://localhost${path}`, {
          ...init,
          headers: { ...init.headers, authorization: `Bearer ${token(tenant)}`, "content-type": "application/json" },
        }),
      );
    const get = (tenant: string, path: string, init: RequestInit = {}) => {
      const request: PageRequest = { tenant };
      return requests.run(request, async () => {
        const response = await send(tenant, path, init);
        pages.delete(request);
        return response;
      });
    };
    /** Waits until no request can go on, and returns the tenants of the pages in memory. */
    const settled = async () => {
      for (let count = 0; count < 20; count += 1) await new Promise((resolve) => setTimeout(resolve, 1));
      return [...pages].map(({ tenant }) => tenant);
    };
    const letRead = () => {
      for (const read of held.splice(0)) read();
    };
    const turnId = async (tenant: string) => (await all.tenant(tenant).get("long"))?.session.lastRun?.turnId ?? "";
    return { get, send, settled, letRead, turnId };
  }

  const paths = ["/sessions/long", "/sessions/long/messages", "/ui/chat/long"];

  test("of one tenant are at most two, on all routes together, and every request is answered", async () => {
    const { get, settled, letRead } = await world(["ada"]);
    const responses = Promise.all(Array.from({ length: 18 }, (_, index) => get("ada", paths[index % 3] ?? "")));
    const state = { isOver: false, most: 0 };
    void responses.then(() => (state.isOver = true));
    while (!state.isOver) {
      state.most = Math.max(state.most, (await settled()).length);
      letRead();
    }
    expect(state.most).toBe(2);
    expect((await responses).map(({ status }) => status)).toEqual(Array.from({ length: 18 }, () => 200));
  });

  // The runtime bounds reads of messages too, and those of the list of sessions are bounded by the handler alone.
  test.each(["/sessions/long", "/sessions"])(
    "of all tenants are at most eight, and another tenant's is next: %s",
    async (path) => {
      const tenants = ["a", "b", "c", "d", "e"];
      const { get, settled, letRead } = await world(tenants);
      const responses = tenants.flatMap((tenant) => Array.from({ length: 4 }, () => get(tenant, path)));
      expect((await settled()).toSorted()).toEqual(["a", "a", "b", "b", "c", "c", "d", "d"]);
      letRead();
      await settled();
      letRead();
      expect(await settled()).toContain("e");
      const all = Promise.all(responses);
      const state = { isOver: false };
      void all.then(() => (state.isOver = true));
      while (!state.isOver) {
        letRead();
        await settled();
      }
      expect((await all).every(({ status }) => status === 200)).toBe(true);
    },
  );

  const message = { id: "m1", role: "user" };
  test.each([
    ["a result that was waited for", "POST", "/sessions", { input: "hi" }, { prefer: "wait=10" }],
    [
      "a repeated request for a result",
      "POST",
      "/sessions",
      { id: "long", input: "go" },
      { prefer: "wait=10", "idempotency-key": "long" },
    ],
    ["a message", "POST", "/sessions/long/reply", { text: "hi" }, {}],
    [
      "a message that names an engine",
      "POST",
      "/sessions/long/send",
      { text: "hi", options: { engine: "default" } },
      {},
    ],
    ["a turn without a message", "POST", "/sessions/long/continue", {}, {}],
    ["steered input", "POST", "/sessions/long/steer", { input: "hi" }, {}],
    ["a new session", "POST", "/sessions", { input: "hi" }, {}],
    ["an overview", "GET", "/overview", null, {}],
    ["the workers", "GET", "/workers", null, {}],
    ["the usage of a session", "GET", "/sessions/long/usage", null, {}],
    ["the events of a session", "GET", "/sessions/long/events", null, {}],
    ["the events of a turn", "GET", "/sessions/long/turns/TURN/events", null, {}],
    ["the result of a turn", "GET", "/sessions/long/turns/TURN", null, { prefer: "wait=10" }],
    [
      "a post of a chat",
      "POST",
      "/ui/chat",
      { id: "long", messages: [{ ...message, parts: [{ type: "text", text: "hi" }] }] },
      {},
    ],
    ["a stream of a chat", "GET", "/ui/chat/long/stream", null, {}],
    [
      "a run of AG-UI",
      "POST",
      "/ag-ui",
      { threadId: "long", runId: "r1", messages: [{ ...message, content: "hi" }], tools: [], context: [] },
      {},
    ],
  ] as const)("delay %s", async (_, method, path, body, headers) => {
    const { get, send, settled, letRead, turnId } = await world(["ada"]);
    const pages = [get("ada", "/sessions"), get("ada", "/sessions")];
    await expect.poll(settled).toHaveLength(2);
    const state: { status: number | null } = { status: null };
    const init = { method, headers, ...(body === null ? {} : { body: JSON.stringify(body) }) };
    const answer = send("ada", path.replace("TURN", await turnId("ada")), init);
    const answered = answer.then(({ status, body: stream }) => {
      state.status = status;
      return stream?.cancel();
    });
    await settled();
    expect(state.status).toBeNull();
    letRead();
    await settled();
    letRead();
    await Promise.all(pages);
    await answered;
    expect(state.status).toBeLessThan(300);
  });

  test("delay the result at the end of a stream, and not its events", async () => {
    const { get, send, settled, letRead, turnId } = await world(["ada"]);
    const pages = [get("ada", "/sessions"), get("ada", "/sessions")];
    await expect.poll(settled).toHaveLength(2);
    const stream = send("ada", `/sessions/long/turns/${await turnId("ada")}/events`);
    letRead();
    const { body } = await stream;
    const more = [get("ada", "/sessions"), get("ada", "/sessions")];
    await expect.poll(settled).toHaveLength(2);
    let received = "";
    const reading = (async () => {
      for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) received += text;
    })();
    await expect.poll(() => received).toContain("chat_completed");
    await settled();
    expect(received).not.toContain("event: end");
    letRead();
    await Promise.all([...pages, ...more]);
    await reading;
    expect(received).toContain("event: end");
  });

  test("do not delay health and cancel, and a client that has disconnected reads nothing", async () => {
    const { get, send, settled, letRead } = await world(["ada"]);
    const disconnect = new AbortController();
    const reads = [get("ada", "/sessions/long"), get("ada", "/sessions/long")];
    await settled();
    const gone = get("ada", "/sessions/long", { signal: disconnect.signal });
    await settled();
    disconnect.abort();
    expect((await send("ada", "/health")).status).toBe(200);
    expect((await send("ada", "/sessions/long/cancel", { method: "POST" })).status).toBe(200);
    for (let count = 0; count < 3; count += 1) {
      letRead();
      await settled();
    }
    expect((await Promise.all(reads)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await gone).status).toBe(408);
  });
});
