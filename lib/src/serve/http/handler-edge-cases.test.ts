// Regression tests of the handler: permits that were not released, responses that disclosed too much, and callers that
// blocked each other.

import type { HostStorage } from "everturn/runtime";

import { engine, fake, openaiCompatible, tool, RuntimeError } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

type Options = Parameters<typeof createHandler>[0];
type World = {
  readonly http?: Partial<Options>;
  readonly agent?: ReturnType<typeof talker>;
  readonly host?: HostStorage;
  readonly drive?: boolean;
};

const token = "a-secret-bearer-token";

function talker(replies = 500) {
  const scripts = Array.from({ length: replies }, () => [{ type: "text", text: "Fine." } as const]);
  return engine({ adapter: fake({ scripts }), model: "fake:m" });
}

/** An engine whose turns run a tool that returns only when it is aborted. */
function stuck() {
  const never = tool({
    name: "never",
    description: "Takes for ever.",
    schema: { type: "object" },
    handler: (_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve("stopped"))),
  });
  const scripts = Array.from({ length: 50 }, () => [{ type: "tool_call", name: "never", arguments: {} } as const]);
  return engine({ adapter: fake({ scripts }), model: "fake:m", tools: [never] });
}

function world({ http = {}, agent = talker(), host = memoryStorage(), drive = true }: World = {}) {
  const sessions = runtime({ host, engines: { default: agent }, drive });
  const failures: unknown[] = [];
  const handler = createHandler({
    sessions,
    dialects: chatDialects,
    ...sharedSessions,
    auth: [{ token }],
    onError: (error) => failures.push(error),
    ...http,
  });
  const ask = (method: string, path: string, body?: unknown, headers: { readonly [name: string]: string } = {}) =>
    handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
  return { sessions, ask, failures, handler };
}

const stream = { accept: "text/event-stream" };
const wait = { prefer: "wait=10" };

describe("a user message in a request", () => {
  const sources = [
    { type: "file", path: "/etc/passwd" },
    { type: "provider_file", provider: "openai", id: "file-of-another-tenant" },
  ];

  test.each(sources)("cannot name a file of the operator: $type", async (source) => {
    const { ask, sessions } = world();
    await (
      await sessions.start("hi", { id: "s" })
    ).result;
    const image = { role: "user", content: [{ type: "image", image: { source } }] };
    const file = {
      role: "user",
      content: [
        { type: "text", text: "this" },
        { type: "file", source },
      ],
    };
    for (const message of [image, file]) {
      expect((await ask("POST", "/sessions", { input: [message] })).status).toBe(400);
      expect((await ask("POST", "/sessions/s/continue", { message })).status).toBe(400);
      expect((await ask("POST", "/sessions/s/steer", { input: message })).status).toBe(400);
    }
  });

  test("cannot set provider options, neither of its own nor of a part", async () => {
    const { ask, sessions } = world();
    await (
      await sessions.start("hi", { id: "s" })
    ).result;
    const providerOptions = { anthropic: { type: "document", source: { type: "file", file_id: "file_1" } } };
    const ofMessage = { role: "user", content: "x", providerOptions };
    const ofPart = { role: "user", content: [{ type: "text", text: "x", providerOptions }] };
    for (const message of [ofMessage, ofPart]) {
      for (const [path, body] of [
        ["/sessions", { input: [message] }],
        ["/sessions/s/continue", { message }],
        ["/sessions/s/steer", { input: message }],
      ] as const) {
        const answer = await ask("POST", path, body);
        expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("provider options")]);
      }
    }
    const started = await ask("POST", "/sessions", { input: "x", options: { providerOptions } });
    expect(started.status).toBe(400);
  });

  test("of useChat cannot set provider options: those of its parts are ignored", async () => {
    const { ask, sessions } = world();
    const part = { type: "text", text: "x", providerOptions: { anthropic: {} }, providerMetadata: { anthropic: {} } };
    const answer = await ask("POST", "/ui/chat", { id: "u", messages: [{ id: "m", role: "user", parts: [part] }] });
    expect(answer.status).toBe(200);
    await answer.text();
    expect(JSON.stringify(await sessions.get("u"))).not.toContain("providerOptions");
  });

  test("cannot set its origin", async () => {
    const origin = { type: "plugin", pluginId: "mail", transient: false };
    const { status } = await world().ask("POST", "/sessions", { input: [{ role: "user", content: "x", origin }] });
    expect(status).toBe(400);
  });
});

describe("an id that cannot be a path segment", () => {
  test.each(["\uD800", "a\uDC00b", ".", ".."])("is rejected before anything is started: %j", async (id) => {
    const { ask, sessions, failures } = world({ http: { limits: { streams: 1 } } });
    await (
      await sessions.start("hi", { id: "s" })
    ).result;
    for (const headers of [stream, stream, wait, {}]) {
      expect((await ask("POST", "/sessions", { input: "x", id }, headers)).status).toBe(400);
    }
    const message = { id: "m", role: "user", parts: [{ type: "text", text: "x" }] };
    expect((await ask("POST", "/ui/chat", { id, messages: [message] })).status).toBe(400);
    expect((await ask("POST", "/sessions/s/fork", { id })).status).toBe(400);
    expect((await sessions.list()).items.map((item) => item.id)).toEqual(["s"]);
    expect(failures).toEqual([]);
    expect((await ask("POST", "/sessions", { input: "x" }, stream)).status).toBe(200);
  });
});

describe("an auth function", () => {
  /** An auth function in JavaScript without types may return anything. */
  const returning = (value: unknown): Options["auth"] => {
    return () => JSON.parse(JSON.stringify({ value })).value;
  };

  test.each([false, undefined, null])("rejects the request by returning %s", async (value) => {
    expect((await world({ http: { auth: returning(value) } }).ask("GET", "/sessions")).status).toBe(401);
  });

  test.each([true, 1, "ada", [[]], { tenant: null }, { tenant: 7 }, { name: 7 }, { context: "x" }])(
    "authenticates no request by returning %j, which is not a caller",
    async (value) => {
      expect((await world({ http: { auth: returning(value) } }).ask("GET", "/sessions")).status).toBe(500);
    },
  );
});

describe("a waiting request", () => {
  test("holds no request permit", async () => {
    const limits = { requests: 1, waitSeconds: 600 };
    const { ask, sessions } = world({ agent: stuck(), http: { limits } });
    const waiting = ask("POST", "/sessions", { input: "x", id: "s" }, wait);
    await expect.poll(async () => (await sessions.get("s"))?.openTurn?.status).toBe("running");
    const turnId = (await sessions.get("s"))?.openTurn?.turnId ?? "";
    const watching = ask("GET", `/sessions/s/turns/${turnId}`, undefined, wait);
    await expect.poll(async () => (await ask("GET", "/sessions/s")).status).toBe(200);
    await sessions.cancel("s");
    expect((await waiting).status).toBe(200);
    expect((await watching).status).toBe(200);
  });

  test("releases its stream permit", async () => {
    const { ask } = world({ http: { limits: { streams: 1 } } });
    for (let count = 0; count < 3; count += 1) {
      expect((await ask("POST", "/sessions", { input: "x" }, wait)).status).toBe(200);
    }
  });

  test("gets 202 with the location of the turn at shutdown", async () => {
    const stopping = new AbortController();
    const { ask, sessions } = world({ agent: stuck(), http: { shutdown: stopping.signal } });
    const waiting = ask("POST", "/sessions", { input: "x", id: "s" }, { prefer: "wait=60" });
    await expect.poll(async () => (await sessions.get("s"))?.openTurn?.status).toBe("running");
    stopping.abort();
    const answer = await waiting;
    expect(answer.status).toBe(202);
    expect(answer.headers.get("location")).toMatch(/^\/sessions\/s\/turns\//);
    await sessions.close({ graceMs: 0 });
  });

  test("ends and releases its permit when the client disconnects", async () => {
    const { handler, ask, sessions } = world({ agent: stuck(), http: { limits: { streams: 1 } } });
    const gone = new AbortController();
    const { turnId } = await sessions.start("x", { id: "s" });
    const headers = { authorization: `Bearer ${token}`, prefer: "wait=60" };
    const look = () =>
      handler(new Request(`http://localhost/sessions/s/turns/${turnId}`, { headers, signal: gone.signal }));
    const waiting = look();
    await expect.poll(async () => (await ask("HEAD", "/sessions/s/events")).status).toBe(429);
    gone.abort();
    expect((await waiting).status).toBe(202);
    // Nothing is read for a client that has disconnected before.
    expect((await look()).status).toBe(408);
    const watching = await ask("GET", "/sessions/s/events");
    expect(watching.status).toBe(200);
    await watching.body?.cancel();
    await sessions.cancel("s");
  });

  test("for a cancel gets 202 if no process drives the turn", async () => {
    const { ask, sessions } = world({ drive: false, http: { limits: { requests: 1, waitSeconds: 1 } } });
    await sessions.start("x", { id: "s" });
    const cancelling = ask("POST", "/sessions/s/cancel", {});
    await expect.poll(async () => (await ask("GET", "/sessions/s")).status).toBe(200);
    const answer = await cancelling;
    expect(answer.status).toBe(202);
    expect(await answer.json()).toEqual({ result: "stored" });
  });
});

describe("unauthenticated requests", () => {
  test("cannot take the request permits of authenticated ones", async () => {
    const { handler, ask } = world({ http: { limits: { requests: 1 } } });
    const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
    const init = { method: "POST", headers: { "content-type": "application/json" }, body, duplex: "half" } as const;
    void handler(new Request("http://localhost/complete", init));
    expect((await ask("GET", "/sessions")).status).toBe(200);
    expect((await ask("GET", "/health")).status).toBe(200);
  });
});

describe("the events of an ended turn", () => {
  test("are released after HEAD and after a request without a free permit", async () => {
    let reading = 0;
    const { sessions } = world();
    const counted: typeof sessions = {
      ...sessions,
      events: (...args) => ({
        [Symbol.asyncIterator]: () => {
          const iterator = sessions.events(...args)[Symbol.asyncIterator]();
          let begun = false;
          return {
            next: () => {
              if (!begun) reading += 1;
              begun = true;
              return iterator.next();
            },
            return: async () => {
              if (begun) reading -= 1;
              begun = false;
              return (await iterator.return?.()) ?? { done: true, value: undefined };
            },
          };
        },
      }),
    };
    const { ask } = world({ http: { sessions: counted, limits: { streams: 1 } } });
    const { turnId, result } = await sessions.start("x", { id: "s" });
    await result;
    const path = `/sessions/s/turns/${turnId}/events`;
    for (let count = 0; count < 3; count += 1) expect((await ask("HEAD", path)).status).toBe(200);
    const open = await ask("GET", "/sessions/s/events");
    expect((await ask("GET", path)).status).toBe(429);
    await open.body?.cancel();
    await expect.poll(() => reading).toBe(0);
    await (await ask("GET", path)).text();
    expect((await ask("GET", path)).status).toBe(200);
  });
});

describe("a parked turn", () => {
  test("is answered at once and not waited for", async () => {
    const { sessions } = world({ agent: stuck() });
    const { turnId, result } = await sessions.start("x", { id: "s" });
    const openTurn = (await sessions.get("s"))?.openTurn ?? null;
    await sessions.cancel("s");
    await result;
    const get: typeof sessions.get = async (...args) => {
      const view = await sessions.get(...args);
      return view === null || openTurn === null ? null : { ...view, openTurn: { ...openTurn, status: "parked" } };
    };
    const { ask } = world({ http: { sessions: { ...sessions, get } } });
    expect((await ask("GET", `/sessions/s/turns/${turnId}`)).status).toBe(200);
    expect(await (await ask("GET", `/sessions/s/turns/${turnId}/events`)).text()).toContain("event: end");
  });
});

describe("the message of a provider", () => {
  const words = "no such key sk-live-…cdef of org-secret at db7.internal";

  test("is replaced by its reason in every response", async () => {
    const refuse = async () => Response.json({ error: { message: words, code: "invalid_api_key" } }, { status: 401 });
    const adapter = openaiCompatible({
      name: "corp",
      baseURL: "http://db7.internal/v1",
      apiKey: "sk-live-cdef",
      fetch: refuse,
    });
    const agent = engine({ adapter, model: "m", retry: false });
    const context = { account: "the-account-of-ada" };
    const { ask, sessions } = world({ agent, http: { auth: [{ token, context }] } });
    const message = { id: "m", role: "user", parts: [{ type: "text", text: "x" }] };
    const end = await (await ask("POST", "/sessions", { input: "x", id: "s" }, wait)).text();
    const { turnId } = JSON.parse(end);
    const answers = [
      end,
      await (await ask("POST", "/sessions", { input: "x" }, stream)).text(),
      await (await ask("POST", "/ui/chat", { id: "chat", messages: [message] })).text(),
      await (await ask("GET", "/ui/chat/chat")).text(),
      await (await ask("GET", "/sessions/s")).text(),
      await (await ask("GET", "/sessions")).text(),
      await (await ask("GET", `/sessions/s/turns/${turnId}`)).text(),
      await (await ask("GET", "/sessions/s/events?follow=false")).text(),
    ];
    for (const answer of answers) {
      expect(answer).toContain("authentication_failed");
      for (const secret of ["sk-live", "org-secret", "db7.internal", "the-account-of-ada"]) {
        expect(answer).not.toContain(secret);
      }
    }
    // The operator's runtime has the whole message.
    expect(JSON.stringify(await sessions.get("s"))).toContain(words);
  });
});

describe("steering a session without an open turn", () => {
  test("takes a turn permit", async () => {
    const { ask, sessions } = world({ agent: stuck(), http: { limits: { turnsPerTenant: 1 } } });
    const ids = ["a", "b"];
    for (const id of ids) {
      await sessions.start([], { id }).then(() => sessions.cancel(id));
      await sessions.recover(id);
    }
    expect((await ask("POST", "/sessions/a/steer", { input: "go" })).status).toBe(202);
    expect((await ask("POST", "/sessions/b/steer", { input: "go" })).status).toBe(429);
    await sessions.cancel("a");
    await expect.poll(async () => (await ask("POST", "/sessions/b/steer", { input: "go" })).status).toBe(202);
    await sessions.cancel("b");
  });

  test("accepts input once for an idempotency key", async () => {
    const { ask, sessions } = world();
    await (
      await sessions.start("hi", { id: "s" })
    ).result;
    const key = { "idempotency-key": "k" };
    const [first, second] = [
      await (await ask("POST", "/sessions/s/steer", { input: "more" }, key)).json(),
      await (await ask("POST", "/sessions/s/steer", { input: "more" }, key)).json(),
    ];
    expect(second).toEqual(first);
    expect((await ask("POST", "/sessions/s/steer", { input: "else" }, key)).status).toBe(409);
  });

  test("the OpenAPI document lists Idempotency-Key only for routes that honour it", async () => {
    const { paths } = JSON.parse(await (await world().ask("GET", "/openapi.json")).text());
    const keyed = (path: string) => JSON.stringify(paths[path].post.parameters).includes("Idempotency-Key");
    expect(["/sessions", "/sessions/{id}/reply", "/sessions/{id}/steer"].map(keyed)).toEqual([true, true, true]);
    expect(["/sessions/{id}/fork", "/sessions/{id}/cancel", "/complete"].map(keyed)).toEqual([false, false, false]);
  });
});

describe("pagination", () => {
  test("ends a page at pageLength and continues with its cursor", async () => {
    const { ask, sessions } = world({ http: { limits: { pageLength: 1000 } } });
    const metadata = { note: "x".repeat(500) };
    for (let index = 0; index < 40; index += 1) {
      await (
        await sessions.start("hi", { id: `s${index}`, metadata })
      ).result;
    }
    const seen = new Set<string>();
    let next = "";
    for (let pages = 0; pages < 40; pages += 1) {
      const page = JSON.parse(await (await ask("GET", `/sessions?limit=40${next}`)).text());
      expect(page.items.length).toBeLessThan(40);
      for (const { id } of page.items) seen.add(id);
      if (page.next === null) break;
      next = `&after=${encodeURIComponent(page.next)}`;
    }
    expect(seen.size).toBe(40);
  });

  test("returns the requested number of items, at most pageSize", async () => {
    const { ask, sessions } = world({ http: { limits: { pageSize: 38 } } });
    for (let index = 0; index < 40; index += 1) {
      await (
        await sessions.start("hi", { id: `s${index}` })
      ).result;
    }
    const page = async (query: string) => {
      const { items } = JSON.parse(await (await ask("GET", `/sessions${query}`)).text());
      return new Set(items.map(({ id }: { readonly id: string }) => id)).size;
    };
    expect([await page("?limit=35"), await page("?limit=40"), await page("")]).toEqual([35, 38, 38]);
  });
});

describe("an idle session", () => {
  test("is not read again for its readers when other sessions change", async () => {
    const storage = memoryStorage();
    let reads = 0;
    const host: HostStorage = {
      ...storage,
      read: (queries) => {
        if (queries.some(({ prefix }) => prefix[1] === "quiet")) reads += 1;
        return storage.read(queries);
      },
    };
    const { ask, sessions } = world({ host });
    await (
      await sessions.start("hi", { id: "quiet" })
    ).result;
    const reader = (await ask("GET", "/sessions/quiet/events")).body?.getReader();
    const received: string[] = [];
    const reading = (async () => {
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
        received.push(new TextDecoder().decode(part.value));
      }
    })();
    await expect.poll(() => received.join("")).toContain("chat_completed");
    const before = await settledCount(() => reads);
    for (let index = 0; index < 5; index += 1) await (await sessions.start("hi")).result;
    expect(reads).toBe(before);
    await (
      await sessions.reply("quiet", "again")
    ).result;
    await expect.poll(() => received.join("").split("chat_completed").length).toBe(3);
    await reader?.cancel();
    await reading;
  });
});

/** Waits until a count no longer changes. */
async function settledCount(count: () => number): Promise<number> {
  for (let before = -1; ; before = count()) {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    if (before === count()) return before;
  }
}

describe("a turn whose storage fails while it runs", () => {
  test("ends its streams with a redacted failure and releases its turn permit", async () => {
    const storage = memoryStorage();
    let fails = false;
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        if (fails && batch.puts.some(({ table }) => table === "journal")) {
          throw new RuntimeError("storage_failed", { message: "/var/lib/secret.db" });
        }
        return storage.write(batch);
      },
    };
    const slow = tool({
      name: "slow",
      description: "Breaks the storage.",
      schema: { type: "object" },
      handler: () => {
        fails = true;
        return "done";
      },
    });
    const scripts = Array.from({ length: 3 }, () => [{ type: "tool_call", name: "slow", arguments: {} } as const]);
    const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [slow] });
    const { ask } = world({ agent, host, http: { limits: { turnsPerTenant: 1 } } });
    const messages = [{ id: "m", role: "user", parts: [{ type: "text", text: "x" }] }];
    const bodies = { "/sessions": { input: "x", id: "s" }, "/ui/chat": { id: "chat", messages } };
    for (const [path, body] of Object.entries(bodies)) {
      fails = false;
      const begin = async () => {
        const answer = await ask("POST", path, body, stream);
        return answer.status === 200 ? answer.text() : "";
      };
      let text = "";
      await expect.poll(async () => (text = await begin())).toContain("storage_failed");
      expect(text).toContain(path === "/sessions" ? "event: failure" : '"type":"error"');
      expect(text).not.toContain("secret.db");
    }
    fails = false;
    await expect.poll(async () => (await ask("POST", "/sessions", { input: "x" })).status).toBe(202);
  });
});

describe("requests of web pages", () => {
  test("a page of another site can neither read nor include a response", async () => {
    const { ask } = world({ http: { origins: ["https://app.example"] } });
    for (const site of ["cross-site", "same-site"]) {
      expect((await ask("GET", "/sessions", undefined, { "sec-fetch-site": site })).status).toBe(403);
      expect((await ask("POST", "/sessions", { input: "x" }, { "sec-fetch-site": site })).status).toBe(403);
      expect((await ask("GET", "/health", undefined, { "sec-fetch-site": site })).status).toBe(200);
      const listed = { "sec-fetch-site": site, origin: "https://app.example" };
      expect((await ask("GET", "/sessions", undefined, listed)).status).toBe(200);
      const foreign = { "sec-fetch-site": site, origin: "https://evil.example" };
      expect((await ask("GET", "/sessions", undefined, foreign)).status).toBe(403);
    }
    for (const site of ["same-origin", "none"]) {
      expect((await ask("GET", "/sessions", undefined, { "sec-fetch-site": site })).status).toBe(200);
    }
  });

  test("every response forbids content sniffing", async () => {
    const { ask } = world();
    const responses = [
      await ask("POST", "/sessions", { input: "x", id: "s" }, wait),
      await ask("GET", "/sessions/s/events?follow=false"),
      await ask("GET", "/sessions/none"),
      await ask("GET", "/nowhere"),
      await ask("PUT", "/sessions"),
      await ask("GET", "/openapi.json"),
      await ask("DELETE", "/sessions/s"),
    ];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 404, 404, 405, 200, 204]);
    for (const { headers } of responses) expect(headers.get("x-content-type-options")).toBe("nosniff");
    for (const { body } of responses) await body?.cancel();
  });
});
