// How the client handles responses: errors, proxies, newer servers, interrupted and invalid streams. Every response is
// scripted.

import type { RuntimeEvent } from "../../core/model/internal.ts";
import type { ClientOptions, EverturnClient } from "./index.ts";

import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

import { ClientError, createClient } from "./index.ts";

const token = "a-secret-bearer-token";

type Answer = () => Response | Promise<Response>;

/** A client whose requests get these responses in order; the last one repeats. */
function scripted(answers: readonly Answer[], options: Partial<ClientOptions> = {}) {
  const requests: { readonly path: string; readonly headers: Headers; readonly init: RequestInit }[] = [];
  const client = createClient({
    url: "https://example.com/api",
    token,
    retry: { requests: 2, streams: 3, baseMs: 1, maxMs: 2 },
    fetch: async (url, init) => {
      requests.push({ path: new URL(url).pathname, headers: new Headers(init.headers), init });
      const answer = answers[Math.min(requests.length, answers.length) - 1];
      return answer === undefined ? expect.unreachable("no response is scripted") : answer();
    },
    ...options,
  });
  return { client, requests };
}

function failing(status: number, error: object, headers: { readonly [name: string]: string } = {}): Answer {
  return () =>
    new Response(JSON.stringify({ error }), { status, headers: { "content-type": "application/json", ...headers } });
}

function rejecting(status: number, reason: string, headers: { readonly [name: string]: string } = {}): Answer {
  return failing(status, { type: "http_error", reason, message: `this is ${reason}` }, headers);
}

const html: Answer = () =>
  new Response(`<html>Bad gateway. You said Bearer ${token}${" ".repeat(1000)}</html>`, { status: 502 });
const health: Answer = () => Response.json({ status: "ok" });
const away: Answer = () => Promise.reject(new TypeError("fetch failed"));

const named = { "content-type": "text/event-stream", "everturn-session": "s%201", "everturn-turn": "t1" };

function streaming(...frames: readonly string[]): Answer {
  return () => new Response(frames.join(""), { headers: named });
}

function eventFrame(sequence: number | null, event: object, cursor = `${sequence}`): string {
  return `id: ${cursor}\ndata: ${JSON.stringify({ turnId: "t1", sequence, delta: null, event })}\n\n`;
}

const end = `event: end\ndata: {"status":"ended","text":"Hello!"}\n\n`;

async function thrownBy(act: () => Promise<unknown>): Promise<ClientError> {
  const error = await act().then(
    () => "nothing was thrown",
    (thrown: unknown) => thrown,
  );
  return error instanceof ClientError ? error : expect.unreachable(String(error));
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test.each([
  [401, "unauthorized"],
  [403, "forbidden"],
  [404, "no_such_route"],
  [413, "body_too_large"],
  [500, "internal"],
  [418, "a_word_of_a_newer_server"],
])("throws a %d at once with the reason of the server", async (status, reason) => {
  const acts: readonly ((client: EverturnClient) => Promise<unknown>)[] = [
    (client) => client.start("hi"),
    (client) => client.get("s1"),
    (client) => all(client.events("s1")),
    (client) => client.attach("s1", "t1").result,
  ];
  for (const act of acts) {
    const { client, requests } = scripted([rejecting(status, reason)]);
    const error = await thrownBy(() => act(client));
    expect(error).toMatchObject({ status, reason, message: `this is ${reason}` });
    expect(requests).toHaveLength(1);
  }
});

test("keeps the reason, message and path of a failure of a newer server", async () => {
  const failure = { reason: "moon_in_the_way", message: "wait a month", path: ["a", 1] };
  const { client } = scripted([failing(409, { type: "runtime_error", ...failure })]);
  expect(await thrownBy(() => client.usage("s1"))).toMatchObject({ ...failure, status: 409 });
});

test("retries a request that got 429 or 503", async () => {
  const busy = rejecting(429, "too_many_requests", { "retry-after": "0" });
  const { client, requests } = scripted([busy, rejecting(503, "shutting_down"), health]);
  expect(await client.health()).toEqual({ status: "ok" });
  expect(requests).toHaveLength(3);
});

test("waits for the Retry-After of the server", async () => {
  const clock = handClock();
  const { client, requests } = scripted([rejecting(429, "too_many_requests", { "retry-after": "7" }), health], {
    clock,
  });
  const answer = client.health();
  await clock.advance(6999);
  expect(requests).toHaveLength(1);
  await clock.advance(1);
  expect(await answer).toEqual({ status: "ok" });
});

test("repeats a request that is not idempotent only if the server did not process it", async () => {
  const none = scripted([rejecting(503, "shutting_down"), () => Response.json({ id: "s2" }, { status: 201 })]);
  expect(await none.client.fork("s1")).toBe("s2");
  const unknown = scripted([failing(503, { type: "runtime_error", reason: "storage_failed", message: "disk" })]);
  await expect(unknown.client.fork("s1")).rejects.toMatchObject({ reason: "storage_failed" });
  expect(unknown.requests).toHaveLength(1);
});

test("gives up after the configured number of retries, and at once for a long Retry-After", async () => {
  const { client, requests } = scripted([rejecting(429, "too_many_requests")]);
  expect(await thrownBy(() => client.list())).toMatchObject({ status: 429, retryAfterMs: null });
  expect(requests).toHaveLength(3);
  const long = scripted([rejecting(429, "too_many_requests", { "retry-after": "3600" })]);
  expect(await thrownBy(() => long.client.list())).toMatchObject({ retryAfterMs: 3_600_000 });
  expect(long.requests).toHaveLength(1);
  const date = "Thu, 01 Jan 1970 01:00:00 GMT";
  const dated = scripted([rejecting(503, "shutting_down", { "retry-after": date })], { clock: handClock() });
  expect(await thrownBy(() => dated.client.list())).toMatchObject({ retryAfterMs: 3_600_000 });
});

test("uses one idempotency key for all attempts of a verb and another for each verb", async () => {
  const { client, requests } = scripted([away, html, away, streaming(end)], { retry: { requests: 3, baseMs: 1 } });
  expect((await (await client.start("hi")).result).text).toBe("Hello!");
  await client.reply("s1", "hi");
  await client.reply("s1", "hi", { key: "mine" });
  const keys = requests.map(({ headers }) => headers.get("idempotency-key"));
  expect(new Set(keys.slice(0, 4)).size).toBe(1);
  expect(new Set(keys).size).toBe(3);
  expect(keys.at(-1)).toBe("mine");
});

test("reports the page of a proxy as unexpected_answer, shortened and without the token", async () => {
  const { client, requests } = scripted([html]);
  const error = await thrownBy(() => client.get("s1"));
  expect(error).toMatchObject({ status: 502, reason: "unexpected_answer" });
  expect(error.message).toContain('GET /sessions/s1 got status 502 with a body that is not of this API: "<html>');
  expect(error.message.length).toBeLessThan(400);
  expect(JSON.stringify([error, error.message, error.stack])).not.toContain(token);
  expect(requests).toHaveLength(3);
  const page = scripted([() => new Response("<html>Please log in</html>")]);
  expect(await thrownBy(() => page.client.get("s1"))).toMatchObject({ status: 200, reason: "unexpected_answer" });
  expect(await thrownBy(() => page.client.start("hi"))).toMatchObject({ status: 200, reason: "unexpected_answer" });
  expect(page.requests).toHaveLength(2);
});

test("repeats a request that is not idempotent after a 429 of a gateway, and not after 408, 502, 503 or 504", async () => {
  const page = (status: number) => () => new Response("<html>", { status });
  const made: Answer = () => Response.json({ id: "s2" }, { status: 201 });
  for (const status of [408, 502, 503, 504]) {
    expect(await scripted([page(status), health]).client.health()).toEqual({ status: "ok" });
    expect(await thrownBy(() => scripted([page(status), made]).client.fork("s1"))).toMatchObject({ status });
  }
  expect(await scripted([page(429), made]).client.fork("s1")).toBe("s2");
  expect(await thrownBy(() => scripted([page(500), health]).client.health())).toMatchObject({ status: 500 });
});

test("discards a response that arrives after the abort", async () => {
  const stop = new AbortController();
  let answer: (response: Response) => void = () => undefined;
  let isLeft = false;
  const { client, requests } = scripted([() => new Promise((resolve) => (answer = resolve))]);
  const started = client.start("hi", { signal: stop.signal });
  await expect.poll(() => requests).toHaveLength(1);
  stop.abort(new Error("enough"));
  await expect(started).rejects.toThrow("enough");
  answer(new Response(new ReadableStream({ cancel: () => void (isLeft = true) }), { headers: named }));
  await expect.poll(() => isLeft).toBe(true);
});

test("does not follow redirects", async () => {
  const { client, requests } = scripted([
    () => new Response(null, { status: 308, headers: { location: "https://x" } }),
  ]);
  expect((await thrownBy(() => client.health())).message).toContain("a redirect, which is not followed");
  expect(requests.map(({ init }) => init.redirect)).toEqual(["manual"]);
});

test("names the host of a server that does not respond", async () => {
  const { client } = scripted([away]);
  const error = await thrownBy(() => client.health());
  expect(error.message).toBe("GET /health: no response from example.com");
  expect(error.cause).toBeInstanceOf(TypeError);
});

test("says that the server does not respond if a relative URL names no host", async () => {
  const { client } = scripted([away], { url: "/" });
  expect((await thrownBy(() => client.health())).message).toBe("GET /health: no response from the server");
});

test("calls a token function before every attempt", async () => {
  let count = 0;
  const { client, requests } = scripted([away, health], { token: async () => `token-${(count += 1)}` });
  await client.health();
  expect(requests.map(({ headers }) => headers.get("authorization"))).toEqual(["Bearer token-1", "Bearer token-2"]);
  const bad = scripted([health], { token: () => "secret with spaces" });
  const error = await bad.client.health().catch(String);
  expect(error).toContain("token:");
  expect(error).not.toContain("secret");
});

test("sends the configured headers, and does not let them replace Accept of a stream", async () => {
  const headers = { "x-trace": "7", accept: "text/html" };
  const { client, requests } = scripted([streaming(end)], { headers });
  await (
    await client.start("hi")
  ).result;
  expect(["x-trace", "accept"].map((name) => requests[0]?.headers.get(name))).toEqual(["7", "text/event-stream"]);
});

test("cancels a body that it does not need", async () => {
  let isLeft = false;
  const body = () => new ReadableStream({ cancel: () => void (isLeft = true) });
  await scripted([() => new Response(body())]).client.delete("s1");
  expect(isLeft).toBe(true);
});

test("rejects a stream without the header Everturn-Session", async () => {
  const { client } = scripted([() => new Response(end, { headers: { "content-type": "text/event-stream" } })]);
  expect((await thrownBy(() => client.start("hi"))).message).toContain("Everturn-Session");
});

test("decodes percent-encoded ids in headers", async () => {
  const { client } = scripted([streaming(end)]);
  expect(await client.start("hi")).toMatchObject({ sessionId: "s 1", turnId: "t1" });
});

test("passes unknown events and fields through, and ignores frames of other names", async () => {
  const newer = { type: "moon_rose", phase: { full: true } };
  const { client } = scripted([
    streaming(`event: weather\ndata: {}\n\n`, `: heartbeat\n\n`, eventFrame(1, newer).replace("{", '{"extra":1,'), end),
  ]);
  const events: readonly RuntimeEvent[] = await all((await client.start("hi")).events);
  expect(events).toEqual([{ cursor: "1", extra: 1, turnId: "t1", sequence: 1, delta: null, event: newer }]);
});

test("resumes a cut stream after the last cursor and shows no event twice", async () => {
  const progress = (part: string) => eventFrame(null, { type: "tool_progress", progress: part }, "1");
  const { client, requests } = scripted([
    streaming(
      eventFrame(1, { type: "turn_started" }),
      progress("half"),
      progress("most"),
      progress("half"),
      "id: 9\ndata: {",
    ),
    away,
    // Repeats the live events after the last stored one, with other key order, and adds new ones.
    streaming(
      eventFrame(1, { type: "turn_started" }),
      eventFrame(null, { progress: "half", type: "tool_progress" }, "1"),
      progress("most"),
      progress("half"),
      progress("half"),
      eventFrame(2, { type: "chat_completed" }),
    ),
    () => new Response(null, { status: 204 }),
    () => Response.json({ status: "ended", text: "Hello!" }),
  ]);
  const turn = await client.start("hi");
  const events = await all(turn.events);
  expect(events.map(({ event }) => ("progress" in event ? event.progress : event.type))).toEqual([
    "turn_started",
    "half",
    "most",
    "half",
    "half",
    "chat_completed",
  ]);
  expect(requests.map(({ headers }) => headers.get("last-event-id"))).toEqual([null, "1", "1", "2"]);
  expect((await turn.result).text).toBe("Hello!");
  expect(requests.at(-1)?.path).toBe("/api/sessions/s%201/turns/t1");
});

test("shows an equal live event again after a step_reset, and one that happened twice", async () => {
  const half = eventFrame(null, { type: "tool_progress", progress: "half" }, "1");
  const reset = eventFrame(null, { type: "step_reset" }, "1");
  const turn = streaming(eventFrame(1, { type: "turn_started" }), half, reset);
  const { client } = scripted([turn, streaming(half), streaming(": heartbeat\n\n"), streaming(half, half, end)]);
  const events = await all((await client.start("hi")).events);
  expect(events.map(({ event }) => event.type)).toEqual([
    "turn_started",
    "tool_progress",
    "step_reset",
    "tool_progress",
    "tool_progress",
  ]);
});

test("keeps its cursor at a frame without an id", async () => {
  const bare = eventFrame(null, { type: "tool_progress" }).replace(/^id: .*\n/, "");
  const { client, requests } = scripted([streaming(eventFrame(1, { type: "turn_started" }), bare), streaming(end)]);
  expect((await all((await client.start("hi")).events)).map(({ cursor }) => cursor)).toEqual(["1", "1"]);
  expect(requests.at(-1)?.headers.get("last-event-id")).toBe("1");
});

test("throws connection_lost if reconnecting delivers no data", async () => {
  const { client, requests } = scripted([streaming()]);
  expect(await thrownBy(async () => all((await client.start("hi")).events))).toMatchObject({
    reason: "connection_lost",
  });
  expect(requests).toHaveLength(4);
});

test("throws the failure of a stream, and reconnects after a transient one", async () => {
  const failed = (reason: string) =>
    `event: failure\ndata: ${JSON.stringify({ error: { type: "runtime_error", reason, message: reason } })}\n\n`;
  const definite = scripted([streaming(eventFrame(1, { type: "turn_started" }), failed("corrupt_row"))]);
  const turn = await definite.client.start("hi");
  await expect(all(turn.events)).rejects.toMatchObject({ name: "RuntimeError", reason: "corrupt_row" });
  const passing = scripted([streaming(failed("lease_lost")), streaming(eventFrame(1, { type: "turn_started" }), end)]);
  expect(await all((await passing.client.start("hi")).events)).toHaveLength(1);
  const drained = scripted([streaming(failed("lease_lost")), streaming(end)]);
  expect((await (await drained.client.start("hi")).result).text).toBe("Hello!");
});

test("ends with the response for follow: false, and reconnects if the server was shutting down", async () => {
  const whole = scripted([streaming(eventFrame(1, { type: "turn_started" }))]);
  expect(await all(whole.client.events("s1", { follow: false }))).toHaveLength(1);
  expect(whole.requests).toHaveLength(1);
  const stopped = scripted([
    streaming(eventFrame(1, { type: "turn_started" }), ": server shutting down\n\n"),
    streaming(eventFrame(2, { type: "chat_completed" })),
  ]);
  expect(await all(stopped.client.events("s1", { follow: false }))).toHaveLength(2);
  expect(stopped.requests.map(({ headers }) => headers.get("last-event-id"))).toEqual([null, "1"]);
});

test("sends the request again under its key if no turn was started and the stream is cut", async () => {
  const waiting = { "content-type": "text/event-stream", "everturn-session": "s1" };
  const cut: Answer = () => new Response("", { headers: waiting });
  const whole: Answer = () => new Response(end, { headers: waiting });
  const { client, requests } = scripted([cut, whole]);
  const turn = await client.decide("s1", "c1", { type: "approve", digest: "x" });
  expect((await turn.result).text).toBe("Hello!");
  expect(requests.map(({ path }) => path)).toEqual(["/api/sessions/s1/decisions", "/api/sessions/s1/decisions"]);
  expect(new Set(requests.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1);
});

test("throws for a frame that is not JSON instead of reconnecting", async () => {
  const { client, requests } = scripted([streaming("data: <html>\n\n")]);
  expect(await thrownBy(async () => all((await client.start("hi")).events))).toMatchObject({
    reason: "unexpected_answer",
  });
  expect(requests).toHaveLength(1);
});

test("polls for the result while the turn is open, and stops when the signal aborts", async () => {
  const open: Answer = () => Response.json({ sessionId: "s1", turnId: "t1" }, { status: 202 });
  const { client } = scripted([open, html, () => Response.json({ status: "ended", text: "Hello!" })]);
  expect((await client.attach("s1", "t1").result).text).toBe("Hello!");
  const stop = new AbortController();
  const never = scripted([() => new Promise<Response>(() => undefined)]);
  const result = never.client.attach("s1", "t1", { signal: stop.signal }).result;
  const reading = all(never.client.events("s1", { signal: stop.signal }));
  stop.abort(new Error("enough"));
  await expect(result).rejects.toThrow("enough");
  expect(await reading).toEqual([]);
});

test("extends the timeout of a poll by the wait that it asks for", async () => {
  const clock = handClock();
  const ends = () => Response.json({ status: "ended", text: "Hello!" });
  const late: Answer = () => clock.sleep(25_000).then(ends);
  const { client, requests } = scripted([late], { silenceMs: 1000, clock });
  const { result } = client.attach("s1", "t1");
  await clock.advance(25_000);
  expect((await result).text).toBe("Hello!");
  expect(requests.map(({ headers }) => headers.get("prefer"))).toEqual(["wait=25"]);
  const never = scripted([() => new Promise(() => undefined), ends], { silenceMs: 1000, clock });
  const again = never.client.attach("s1", "t1").result;
  await clock.advance(27_000);
  expect((await again).text).toBe("Hello!");
  expect(never.requests).toHaveLength(2);
});

test("takes the result from a reader that received it and aborts the poll", async () => {
  const pending: AbortSignal[] = [];
  const { client } = scripted([], {
    fetch: async (url, { signal }) => {
      if (url.endsWith("/events")) return streaming(eventFrame(1, { type: "chat_completed" }), end)();
      if (signal instanceof AbortSignal) pending.push(signal);
      return new Promise(() => undefined);
    },
  });
  const { result, events } = client.attach("s1", "t1");
  await expect.poll(() => pending).toHaveLength(1);
  expect(await all(events)).toHaveLength(1);
  expect((await result).text).toBe("Hello!");
  expect(pending.map(({ aborted }) => aborted)).toEqual([true]);
});

test("rejects the result with the reason of the signal if no turn was started", async () => {
  const stop = new AbortController();
  let isRead = false;
  const silent = () => new ReadableStream({ pull: () => void (isRead = true) }, { highWaterMark: 0 });
  const headers = { "content-type": "text/event-stream", "everturn-session": "s1" };
  const { client } = scripted([() => new Response(silent(), { headers })]);
  const { result } = await client.decide("s1", "c1", { type: "approve", digest: "x" }, { signal: stop.signal });
  await expect.poll(() => isRead).toBe(true);
  stop.abort(new Error("enough"));
  await expect(result).rejects.toThrow("enough");
});

test("polls at most once a second, and resets its retries after each response", async () => {
  const clock = handClock();
  const open: Answer = () => Response.json({ sessionId: "s1", turnId: "t1" }, { status: 202 });
  const ended: Answer = () => Response.json({ status: "ended", text: "Hello!" });
  const { client, requests } = scripted([open, open, html, html, open, html, html, ended], { clock });
  const { result } = client.attach("s1", "t1");
  await clock.advance(999);
  expect(requests).toHaveLength(1);
  await clock.advance(1);
  expect(requests).toHaveLength(2);
  await clock.advance(5000);
  expect((await result).text).toBe("Hello!");
});

test("an ignored result is no unhandled rejection, and a stream that was read leaves no timer", async () => {
  const { client, requests } = scripted([rejecting(401, "unauthorized")]);
  void client.attach("s1", "t1").result;
  await expect.poll(() => requests).toHaveLength(1);
  const clock = handClock();
  const whole = scripted([streaming(eventFrame(1, { type: "chat_completed" }), end)], { clock });
  expect(await all((await whole.client.start("hi")).events)).toHaveLength(1);
  expect(clock.sleepers).toBe(0);
});

test("reads the body only on demand (backpressure)", async () => {
  let pulled = 0;
  const body = () =>
    new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          pulled += 1;
          controller.enqueue(new TextEncoder().encode(eventFrame(pulled, { type: "turn_started" })));
        },
      },
      { highWaterMark: 0 },
    );
  const { client } = scripted([() => new Response(body(), { headers: named })]);
  const reader = (await client.start("hi")).events[Symbol.asyncIterator]();
  expect(pulled).toBe(0);
  for (const count of [1, 2, 3]) {
    await reader.next();
    expect(pulled).toBe(count);
  }
  await reader.return?.();
});

test("closes an unread stream after five seconds and opens another one for a later reader", async () => {
  const clock = handClock();
  let isClosed = false;
  const unread = () => new ReadableStream<Uint8Array>({ cancel: () => void (isClosed = true) });
  const { client, requests } = scripted(
    [() => new Response(unread(), { headers: named }), streaming(eventFrame(1, {}), end)],
    {
      clock,
    },
  );
  const turn = await client.start("hi");
  await clock.advance(4999);
  expect(isClosed).toBe(false);
  await clock.advance(1);
  expect(isClosed).toBe(true);
  expect(await all(turn.events)).toHaveLength(1);
  expect(requests.map(({ path }) => path)).toEqual(["/api/sessions", "/api/sessions/s%201/turns/t1/events"]);
});

test("reconnects without limit while connections deliver data", async () => {
  const alive = streaming(": heartbeat\n\n");
  const { client, requests } = scripted([
    ...Array<Answer>(10).fill(alive),
    streaming(eventFrame(1, { type: "x" }), end),
  ]);
  expect(await all((await client.start("hi")).events)).toHaveLength(1);
  expect(requests).toHaveLength(11);
});

test("closes the connection after the frame end", async () => {
  let isClosed = false;
  const body = () =>
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode(end)),
      cancel: () => void (isClosed = true),
    });
  const { client } = scripted([() => new Response(body(), { headers: named })]);
  expect(await all((await client.start("hi")).events)).toEqual([]);
  expect(isClosed).toBe(true);
});

test.each(["before the first read", "during a read"])(
  "closes the connection when the reader leaves %s",
  async (when) => {
    let isClosed = false;
    const silent = () => new ReadableStream<Uint8Array>({ cancel: () => void (isClosed = true) });
    const { client } = scripted([() => new Response(silent(), { headers: named })]);
    const reader = (await client.start("hi")).events[Symbol.asyncIterator]();
    const waiting = when === "during a read" ? reader.next() : null;
    expect(await reader.return?.()).toEqual({ done: true, value: undefined });
    expect((await waiting)?.done ?? true).toBe(true);
    expect(isClosed).toBe(true);
  },
);
