// Resource limits: what is rejected at a limit, and that every permit is released.

import type { HttpOptions } from "everturn/http";
import type { HandClock } from "everturn/testing";

import { engine } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";
import { handModel } from "../../../test/hand-model.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";
import { ConcurrencyLimit } from "./limits.ts";

function world(limits: NonNullable<HttpOptions["limits"]>) {
  const model = handModel();
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: model, model: "hand:m" }) },
  });
  const clock = handClock();
  const handler = createHandler({ sessions, dialects: chatDialects, auth: "none", limits, clock });
  const post = (path: string, body: unknown, accept = "application/json", prefer = "respond-async") =>
    handler(
      new Request(`http://localhost${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", accept, prefer },
        body: JSON.stringify(body),
      }),
    );
  const get = (path: string) => handler(new Request(`http://localhost${path}`));
  return { model, sessions, post, get, clock };
}

describe("limits per tenant", () => {
  test("rejects a turn over the limit with 429 and accepts one after another has ended", async () => {
    const { model, sessions, post } = world({ turnsPerTenant: 1 });
    expect((await post("/sessions", { input: "one", id: "s1" })).status).toBe(202);
    const refused = await post("/sessions", { input: "two", id: "s2" });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await sessions.get("s2")).toBeNull();
    (await model.call(1)).finish();
    await sessions.attach("s1").result;
    expect((await post("/sessions", { input: "two", id: "s2" })).status).toBe(202);
    (await model.call(2)).finish();
    await sessions.attach("s2").result;
  });

  test("a rejected request holds no permit", async () => {
    const { post } = world({ turnsPerTenant: 1, streams: 1 });
    for (let times = 0; times < 3; times += 1) {
      expect((await post("/sessions/none/reply", { text: "x" })).status).toBe(404);
      expect((await post("/sessions/none/reply", { text: "x" }, "text/event-stream")).status).toBe(404);
      expect((await post("/sessions/none/steer", { input: "x" })).status).toBe(404);
      expect((await post("/ui/chat", { id: "chat", messages: [] })).status).toBe(400);
    }
  });

  test("a UI chat releases its permits when its turn has ended", async () => {
    const { model, post } = world({ turnsPerTenant: 1, streams: 1 });
    for (const n of [1, 2]) {
      const messages = [{ id: `m${n}`, role: "user", parts: [{ type: "text", text: "hi" }] }];
      const answer = await post("/ui/chat", { id: `chat${n}`, messages });
      expect(answer.status).toBe(200);
      expect((await post("/sessions", { input: "x" })).status).toBe(429);
      (await model.call(n)).finish();
      await answer.text();
    }
  });

  test("rejects a stream over the limit and accepts one after another was closed", async () => {
    const { model, sessions, post, get } = world({ streamsPerTenant: 1 });
    const first = await post("/sessions", { input: "one", id: "s1" }, "text/event-stream");
    expect((await get("/sessions/s1/events")).status).toBe(429);
    await first.body?.cancel();
    const second = await get("/sessions/s1/events");
    expect(second.status).toBe(200);
    await second.body?.cancel();
    (await model.call(1)).finish();
    await sessions.attach("s1").result;
  });
});

test("a request releases its permit whatever its status", async () => {
  const { get, post } = world({ requests: 1 });
  for (let times = 0; times < 2; times += 1) {
    expect((await get("/sessions")).status).toBe(200);
    expect((await get("/sessions/none")).status).toBe(404);
    expect((await post("/sessions", {})).status).toBe(400);
  }
});

test("a tenant over its stream limit takes no permit of the total", async () => {
  const keys = ["ada", "bob", "cid"].map((tenant) => ({ tenant, token: `the-token-of-${tenant}` }));
  const { sessions } = world({});
  const handler = createHandler({
    sessions,
    ...sharedSessions,
    auth: keys,
    limits: { streams: 2, streamsPerTenant: 1 },
  });
  for (const { tenant } of keys) await sessions.tenant(tenant).start([], { id: "s" });
  const open: Response[] = [];
  const watch = async (tenant: string) => {
    const headers = { authorization: `Bearer the-token-of-${tenant}` };
    const answer = await handler(new Request("http://localhost/sessions/s/events", { headers }));
    open.push(answer);
    return answer.status;
  };
  for (const status of [200, 429, 429, 429]) expect(await watch("ada")).toBe(status);
  expect(await watch("bob")).toBe(200);
  expect(await watch("cid")).toBe(429);
  for (const { body } of open) await body?.cancel();
  await sessions.close({ graceMs: 0 });
});

test("a tenant at its turn limit does not block other tenants", async () => {
  const keys = ["ada", "bob"].map((tenant) => ({ tenant, token: `the-token-of-${tenant}` }));
  const { sessions } = world({});
  const handler = createHandler({ sessions, ...sharedSessions, auth: keys, limits: { turnsPerTenant: 1 } });
  const begin = async (tenant: string) => {
    const headers = { authorization: `Bearer the-token-of-${tenant}`, "content-type": "application/json" };
    const body = JSON.stringify({ input: "x" });
    return (await handler(new Request("http://localhost/sessions", { method: "POST", headers, body }))).status;
  };
  expect([await begin("ada"), await begin("ada"), await begin("bob")]).toEqual([202, 429, 202]);
  await sessions.close({ graceMs: 0 });
});

describe("streams", () => {
  test("with follow=false ends after the stored events while the turn is running", async () => {
    const { model, sessions, post, get } = world({});
    await post("/sessions", { input: "one", id: "s1" });
    const call = await model.call(1);
    const turnId = (await sessions.get("s1"))?.openTurn?.turnId;
    const text = await (await get(`/sessions/s1/turns/${turnId}/events?follow=false`)).text();
    expect(text).toContain("turn_started");
    expect(text).not.toContain("event: end");
    call.finish();
    await sessions.attach("s1").result;
  });

  test("sends heartbeats while idle", async () => {
    const { model, sessions, post, clock } = world({});
    const response = await post("/sessions", { input: "one", id: "s1" }, "text/event-stream");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let received = "";
    const reading = (async () => {
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) received += part.value;
    })();
    const call = await model.call(1);
    await expect.poll(() => received).toContain("turn_started");
    await clock.advance(14_999);
    expect(received).not.toContain(": heartbeat");
    await clock.advance(30_001);
    expect(received.split(": heartbeat\n\n")).toHaveLength(4);
    call.finish();
    await sessions.attach("s1").result;
    await reading;
    expect(clock.sleepers).toBe(0);
  });

  test("disconnects a slow client, and the turn does not wait for it", async () => {
    const { model, sessions, post, clock } = world({ bufferBytes: 2000 });
    const response = await post("/sessions", { input: "one", id: "s1" }, "text/event-stream");
    const reader = response.body?.getReader();
    const call = await model.call(1);
    for (let times = 0; times < 20; times += 1) await call.say("x".repeat(1000));
    call.finish();
    const closed = expect(reader?.closed).rejects.toThrow(/accepted no data for 30000 ms/);
    await clock.advance(45_000);
    await closed;
    const { text } = await sessions.attach("s1", response.headers.get("everturn-turn")).result;
    expect(text.length).toBe(20_000);
  });
});

test("a waiting request gets 202 when its time is over on the clock of the handler", async () => {
  const { model, sessions, post, clock } = world({});
  let isAnswered = false;
  const answer = post("/sessions", { input: "one", id: "s1" }, "application/json", "wait=10");
  void answer.then(() => (isAnswered = true));
  const call = await model.call(1);
  await clock.advance(9999);
  expect(isAnswered).toBe(false);
  await clock.advance(1);
  expect((await answer).status).toBe(202);
  call.finish();
  await sessions.attach("s1").result;
});

describe("a concurrency limit", () => {
  test("releases a permit once when release is called twice", () => {
    const limit = new ConcurrencyLimit({ each: 1 }, "open streams");
    const release = limit.acquire("a");
    release();
    release();
    const releaseSecond = limit.acquire("a");
    expect(() => limit.acquire("a")).toThrow("limit reached: 1 open streams");
    expect(() => limit.acquire("b")).not.toThrow();
    releaseSecond();
  });
});

test.each([
  ["0", { streams: 0 }],
  ["-1", { bodyBytes: -1 }],
  ["NaN", { requests: Number.NaN }],
])("rejects a limit of %s", (_, limits) => {
  expect(() => world(limits)).toThrow(/limits: \w+ must be a number of 1 or more/);
});

/**
 * Lets the time for bodies pass until every request has its answer. Requests of a tenant begin a few at a time, and
 * their time with them.
 */
async function timeOut(clock: HandClock, requests: readonly { readonly answer: Promise<Response> }[]): Promise<void> {
  const open = new Set(requests);
  for (const request of requests) void request.answer.finally(() => open.delete(request));
  while (open.size > 0) {
    await clock.advance(30_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * Asks until all permits are held. A request that is answered holds a permit meanwhile, so that an unfinished one may
 * be refused in its place: another one is started for each.
 */
async function untilRefused(ask: () => Promise<number>, startAnother: () => void): Promise<void> {
  const asked = async () => {
    const status = await ask();
    if (status !== 429) startAnother();
    return status;
  };
  await expect.poll(asked).toBe(429);
}

describe("unfinished request bodies", () => {
  const keys = ["mallory", "ada"].map((tenant) => ({ tenant, token: `the-token-of-${tenant}` }));

  /** A body that never ends, and whether it was cancelled. */
  function unfinishedBody() {
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode("{")),
      cancel: () => void (isCancelled = true),
    });
    return { body, isCancelled: () => isCancelled };
  }

  function server(options: Partial<HttpOptions> = {}) {
    const { sessions, clock } = world({});
    const handler = createHandler({
      sessions,
      dialects: chatDialects,
      ...sharedSessions,
      auth: keys,
      clock,
      ...options,
    });
    const request = (path: string, tenant: string | null, init: RequestInit = {}) =>
      new Request(`http://localhost${path}`, {
        ...init,
        headers: {
          "content-type": "application/json",
          ...(tenant === null ? {} : { authorization: `Bearer the-token-of-${tenant}` }),
        },
      });
    const stall = (path: string, tenant: string | null) => {
      const { body, isCancelled } = unfinishedBody();
      return {
        isCancelled,
        answer: handler(request(path, tenant, { method: "POST", body, duplex: "half" })),
      };
    };
    const ask = async (path: string, tenant: string | null, init: RequestInit = {}) =>
      (await handler(request(path, tenant, init))).status;
    return { stall, ask, clock };
  }

  test("512 of one tenant leave the permits of other tenants, of cancels and of health checks free", async () => {
    const { stall, ask, clock } = server();
    const stalled = Array.from({ length: 512 }, () => stall("/sessions/s/reply", "mallory"));
    await untilRefused(
      () => ask("/sessions", "mallory"),
      () => stalled.push(stall("/sessions/s/reply", "mallory")),
    );
    expect(await ask("/sessions", "ada")).toBe(200);
    expect(await ask("/health", null)).toBe(200);
    const cancel = { method: "POST", body: "{}" };
    expect(await ask("/sessions/none/cancel", "ada", cancel)).toBe(404);
    expect(await ask("/sessions/none/cancel", "mallory", cancel)).toBe(404);
    expect(await ask("/ui/chat/none/stop", "mallory", cancel)).toBe(404);
    await timeOut(clock, stalled);
    const statuses = await Promise.all(stalled.map(async ({ answer }) => (await answer).status));
    expect(new Set(statuses)).toEqual(new Set([408, 429]));
    expect(await ask("/sessions", "mallory")).toBe(200);
  });

  test("512 without a key from one address leave the permits of other addresses and of keys free", async () => {
    let address = "203.0.113.1";
    const { stall, ask, clock } = server({ address: () => address });
    const stalled = Array.from({ length: 512 }, () => stall("/complete", null));
    const complete = { method: "POST", body: JSON.stringify({ token: "x", type: "approve" }) };
    await untilRefused(
      () => ask("/complete", null, complete),
      () => stalled.push(stall("/complete", null)),
    );
    address = "203.0.113.2";
    expect(await ask("/complete", null, complete)).toBe(404);
    expect(await ask("/sessions", "ada")).toBe(200);
    await timeOut(clock, stalled);
  });

  test("a tenant gets a permit also when other tenants hold all of them", async () => {
    const { stall, ask, clock } = server({ limits: { requests: 32, requestsPerTenant: 32 } });
    const stalled = Array.from({ length: 32 }, () => stall("/sessions/s/reply", "mallory"));
    await untilRefused(
      () => ask("/sessions", "mallory"),
      () => stalled.push(stall("/sessions/s/reply", "mallory")),
    );
    expect(await ask("/sessions", "ada")).toBe(200);
    await timeOut(clock, stalled);
  });

  test("a body that does not arrive in time gets 408, and is cancelled", async () => {
    const { stall, clock } = server({ limits: { bodyMs: 2000 } });
    const before = clock.sleepers;
    const { answer, isCancelled } = stall("/sessions/s/reply", "ada");
    await expect.poll(() => clock.sleepers).toBeGreaterThan(before);
    await clock.advance(2000);
    const { status, headers } = await answer;
    expect([status, headers.get("connection"), isCancelled()]).toEqual([408, "close", true]);
  });
});

test("a client that disconnects in the middle of a body is not reported as an error", async () => {
  const reported: unknown[] = [];
  const { sessions } = world({});
  const handler = createHandler({ sessions, auth: "none", onError: (error) => reported.push(error) });
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.error(new Error("aborted")),
  });
  const headers = { "content-type": "application/json" };
  const request = new Request("http://localhost/sessions", { method: "POST", headers, body, duplex: "half" });
  expect([(await handler(request)).status, reported]).toEqual([400, []]);
});
