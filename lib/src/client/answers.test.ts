// Whatever answers: refusals, proxies, servers that are newer, streams that are odd. Each answer is written out here.

import type { RuntimeEvent } from "../model/internal.ts";
import type { ClientOptions, EverturnClient } from "./index.ts";

import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

import { ClientError, createClient } from "./index.ts";

const token = "a-token-nobody-guesses";

type Answer = () => Response | Promise<Response>;

/** A client of a server that says these things, one after the other, and the last of them for ever. */
function scripted(answers: readonly Answer[], options: Partial<ClientOptions> = {}) {
  const asked: { readonly path: string; readonly headers: Headers; readonly init: RequestInit }[] = [];
  const client = createClient({
    url: "https://example.com/api",
    token,
    retry: { requests: 2, streams: 3, baseMs: 1, maxMs: 2 },
    fetch: async (url, init) => {
      asked.push({ path: new URL(url).pathname, headers: new Headers(init.headers), init });
      const answer = answers[Math.min(asked.length, answers.length) - 1];
      return answer === undefined ? expect.unreachable("nothing is scripted") : answer();
    },
    ...options,
  });
  return { client, asked };
}

function failing(status: number, error: object, headers: { readonly [name: string]: string } = {}): Answer {
  return () =>
    new Response(JSON.stringify({ error }), { status, headers: { "content-type": "application/json", ...headers } });
}

function refusing(status: number, reason: string, headers: { readonly [name: string]: string } = {}): Answer {
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

function told(sequence: number | null, event: object, cursor = `${sequence}`): string {
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
])("%d is said at once, with its reason", async (status, reason) => {
  const acts: readonly ((client: EverturnClient) => Promise<unknown>)[] = [
    (client) => client.start("hi"),
    (client) => client.get("s1"),
    (client) => all(client.events("s1")),
    (client) => client.attach("s1", "t1").result,
  ];
  for (const act of acts) {
    const { client, asked } = scripted([refusing(status, reason)]);
    const error = await thrownBy(() => act(client));
    expect(error).toMatchObject({ status, reason, message: `this is ${reason}` });
    expect(asked).toHaveLength(1);
  }
});

test("failures of a newer library's are told as they came", async () => {
  const failure = { reason: "moon_in_the_way", message: "wait a month", path: ["a", 1] };
  const { client } = scripted([failing(409, { type: "runtime_error", ...failure })]);
  expect(await thrownBy(() => client.usage("s1"))).toMatchObject({ ...failure, status: 409 });
});

test("what is busy is asked again", async () => {
  const busy = refusing(429, "too_many_requests", { "retry-after": "0" });
  const { client, asked } = scripted([busy, refusing(503, "shutting_down"), health]);
  expect(await client.health()).toEqual({ status: "ok" });
  expect(asked).toHaveLength(3);
});

test("a wait that the server asks for is waited", async () => {
  const clock = handClock();
  const { client, asked } = scripted([refusing(429, "too_many_requests", { "retry-after": "7" }), health], { clock });
  const answer = client.health();
  await clock.advance(6999);
  expect(asked).toHaveLength(1);
  await clock.advance(1);
  expect(await answer).toEqual({ status: "ok" });
});

test("what was not begun is sent again also where it may happen only once; the rest is not", async () => {
  const none = scripted([refusing(503, "shutting_down"), () => Response.json({ id: "s2" }, { status: 201 })]);
  expect(await none.client.fork("s1")).toBe("s2");
  const unknown = scripted([failing(503, { type: "runtime_error", reason: "storage_failed", message: "disk" })]);
  await expect(unknown.client.fork("s1")).rejects.toMatchObject({ reason: "storage_failed" });
  expect(unknown.asked).toHaveLength(1);
});

test("what stays busy is given up, and what asks for too long is not waited for", async () => {
  const { client, asked } = scripted([refusing(429, "too_many_requests")]);
  expect(await thrownBy(() => client.list())).toMatchObject({ status: 429, retryAfterMs: null });
  expect(asked).toHaveLength(3);
  const long = scripted([refusing(429, "too_many_requests", { "retry-after": "3600" })]);
  expect(await thrownBy(() => long.client.list())).toMatchObject({ retryAfterMs: 3_600_000 });
  expect(long.asked).toHaveLength(1);
  const date = "Thu, 01 Jan 1970 01:00:00 GMT";
  const dated = scripted([refusing(503, "shutting_down", { "retry-after": date })], { clock: handClock() });
  expect(await thrownBy(() => dated.client.list())).toMatchObject({ retryAfterMs: 3_600_000 });
});

test("every try of a verb goes under one key, and every verb under another", async () => {
  const { client, asked } = scripted([away, html, away, streaming(end)], { retry: { requests: 3, baseMs: 1 } });
  expect((await (await client.start("hi")).result).text).toBe("Hello!");
  await client.reply("s1", "hi");
  await client.reply("s1", "hi", { key: "mine" });
  const keys = asked.map(({ headers }) => headers.get("idempotency-key"));
  expect(new Set(keys.slice(0, 4)).size).toBe(1);
  expect(new Set(keys).size).toBe(3);
  expect(keys.at(-1)).toBe("mine");
});

test("a proxy's page is an error that says what came, in short, and no token", async () => {
  const { client, asked } = scripted([html]);
  const error = await thrownBy(() => client.get("s1"));
  expect(error).toMatchObject({ status: 502, reason: "unexpected_answer" });
  expect(error.message).toContain("GET /sessions/s1 was answered 502 with something that is not this API's: \"<html>");
  expect(error.message.length).toBeLessThan(400);
  expect(JSON.stringify([error, error.message, error.stack])).not.toContain(token);
  expect(asked).toHaveLength(3);
  const page = scripted([() => new Response("<html>Please log in</html>")]);
  expect(await thrownBy(() => page.client.get("s1"))).toMatchObject({ status: 200, reason: "unexpected_answer" });
  expect(await thrownBy(() => page.client.start("hi"))).toMatchObject({ status: 200, reason: "unexpected_answer" });
  expect(page.asked).toHaveLength(2);
});

test("what stands in between says that the server is away or busy: only the second says that nothing was done", async () => {
  const page = (status: number) => () => new Response("<html>", { status });
  const made: Answer = () => Response.json({ id: "s2" }, { status: 201 });
  for (const status of [408, 502, 503, 504]) {
    expect(await scripted([page(status), health]).client.health()).toEqual({ status: "ok" });
    expect(await thrownBy(() => scripted([page(status), made]).client.fork("s1"))).toMatchObject({ status });
  }
  expect(await scripted([page(429), made]).client.fork("s1")).toBe("s2");
  expect(await thrownBy(() => scripted([page(500), health]).client.health())).toMatchObject({ status: 500 });
});

test("an answer that comes when nobody waits any more is let go", async () => {
  const stop = new AbortController();
  let answer: (response: Response) => void = () => undefined;
  let isLeft = false;
  const { client, asked } = scripted([() => new Promise((resolve) => (answer = resolve))]);
  const started = client.start("hi", { signal: stop.signal });
  await expect.poll(() => asked).toHaveLength(1);
  stop.abort(new Error("enough"));
  await expect(started).rejects.toThrow("enough");
  answer(new Response(new ReadableStream({ cancel: () => void (isLeft = true) }), { headers: named }));
  await expect.poll(() => isLeft).toBe(true);
});

test("redirects are not followed", async () => {
  const { client, asked } = scripted([() => new Response(null, { status: 308, headers: { location: "https://x" } })]);
  expect((await thrownBy(() => client.health())).message).toContain("the way to another address");
  expect(asked.map(({ init }) => init.redirect)).toEqual(["manual"]);
});

test("who is not there is named, without what was sent", async () => {
  const { client } = scripted([away]);
  const error = await thrownBy(() => client.health());
  expect(error.message).toBe("GET /health: no answer came from example.com");
  expect(error.cause).toBeInstanceOf(TypeError);
});

test("a token may come from a function, which is asked each time", async () => {
  let count = 0;
  const { client, asked } = scripted([away, health], { token: async () => `token-${(count += 1)}` });
  await client.health();
  expect(asked.map(({ headers }) => headers.get("authorization"))).toEqual(["Bearer token-1", "Bearer token-2"]);
  const bad = scripted([health], { token: () => "secret with spaces" });
  const error = await bad.client.health().catch(String);
  expect(error).toContain("token:");
  expect(error).not.toContain("secret");
});

test("headers of the caller's go with every request, and change none that it needs", async () => {
  const headers = { "x-trace": "7", accept: "text/html" };
  const { client, asked } = scripted([streaming(end)], { headers });
  await (
    await client.start("hi")
  ).result;
  expect(["x-trace", "accept"].map((name) => asked[0]?.headers.get(name))).toEqual(["7", "text/event-stream"]);
});

test("an answer that nobody needs is not read", async () => {
  let isLeft = false;
  const body = () => new ReadableStream({ cancel: () => void (isLeft = true) });
  await scripted([() => new Response(body())]).client.delete("s1");
  expect(isLeft).toBe(true);
});

test("a stream that does not name its session is refused", async () => {
  const { client } = scripted([() => new Response(end, { headers: { "content-type": "text/event-stream" } })]);
  expect((await thrownBy(() => client.start("hi"))).message).toContain("Everturn-Session");
});

test("ids in headers are read as they were meant", async () => {
  const { client } = scripted([streaming(end)]);
  expect(await client.start("hi")).toMatchObject({ sessionId: "s 1", turnId: "t1" });
});

test("events and fields of a newer server pass through as data; frames that are no events are left out", async () => {
  const newer = { type: "moon_rose", phase: { full: true } };
  const { client } = scripted([
    streaming(`event: weather\ndata: {}\n\n`, `: heartbeat\n\n`, told(1, newer).replace("{", '{"extra":1,'), end),
  ]);
  const events: readonly RuntimeEvent[] = await all((await client.start("hi")).events);
  expect(events).toEqual([{ cursor: "1", extra: 1, turnId: "t1", sequence: 1, delta: null, event: newer }]);
});

test("a cut stream is gone on with behind the last cursor, and shows nothing twice", async () => {
  const progress = (part: string) => told(null, { type: "tool_progress", progress: part }, "1");
  const { client, asked } = scripted([
    streaming(
      told(1, { type: "turn_started" }),
      progress("half"),
      progress("most"),
      progress("half"),
      "id: 9\ndata: {",
    ),
    away,
    // Told again from the last entry on, with its fields in another order, and more.
    streaming(
      told(1, { type: "turn_started" }),
      told(null, { progress: "half", type: "tool_progress" }, "1"),
      progress("most"),
      progress("half"),
      progress("half"),
      told(2, { type: "chat_completed" }),
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
  expect(asked.map(({ headers }) => headers.get("last-event-id"))).toEqual([null, "1", "1", "2"]);
  expect((await turn.result).text).toBe("Hello!");
  expect(asked.at(-1)?.path).toBe("/api/sessions/s%201/turns/t1");
});

test("what was told of a try that was given up is told again by the next, and so is what happens twice", async () => {
  const half = told(null, { type: "tool_progress", progress: "half" }, "1");
  const reset = told(null, { type: "step_reset" }, "1");
  const turn = streaming(told(1, { type: "turn_started" }), half, reset);
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

test("a frame without a cursor leaves the reader where it was", async () => {
  const bare = told(null, { type: "tool_progress" }).replace(/^id: .*\n/, "");
  const { client, asked } = scripted([streaming(told(1, { type: "turn_started" }), bare), streaming(end)]);
  expect((await all((await client.start("hi")).events)).map(({ cursor }) => cursor)).toEqual(["1", "1"]);
  expect(asked.at(-1)?.headers.get("last-event-id")).toBe("1");
});

test("a stream that keeps ending without a word is given up", async () => {
  const { client, asked } = scripted([streaming()]);
  expect(await thrownBy(async () => all((await client.start("hi")).events))).toMatchObject({
    reason: "connection_lost",
  });
  expect(asked).toHaveLength(4);
});

test("a failure in a stream ends it, unless it passes", async () => {
  const failed = (reason: string) =>
    `event: failure\ndata: ${JSON.stringify({ error: { type: "runtime_error", reason, message: reason } })}\n\n`;
  const definite = scripted([streaming(told(1, { type: "turn_started" }), failed("corrupt_row"))]);
  const turn = await definite.client.start("hi");
  await expect(all(turn.events)).rejects.toMatchObject({ name: "RuntimeError", reason: "corrupt_row" });
  const passing = scripted([streaming(failed("lease_lost")), streaming(told(1, { type: "turn_started" }), end)]);
  expect(await all((await passing.client.start("hi")).events)).toHaveLength(1);
  const drained = scripted([streaming(failed("lease_lost")), streaming(end)]);
  expect((await (await drained.client.start("hi")).result).text).toBe("Hello!");
});

test("who does not follow is done when the stream is, unless a process was stopping", async () => {
  const whole = scripted([streaming(told(1, { type: "turn_started" }))]);
  expect(await all(whole.client.events("s1", { follow: false }))).toHaveLength(1);
  expect(whole.asked).toHaveLength(1);
  const stopped = scripted([
    streaming(told(1, { type: "turn_started" }), ": server shutting down\n\n"),
    streaming(told(2, { type: "chat_completed" })),
  ]);
  expect(await all(stopped.client.events("s1", { follow: false }))).toHaveLength(2);
  expect(stopped.asked.map(({ headers }) => headers.get("last-event-id"))).toEqual([null, "1"]);
});

test("a turn that begins nothing is asked for again under its key when its answer is cut", async () => {
  const waiting = { "content-type": "text/event-stream", "everturn-session": "s1" };
  const cut: Answer = () => new Response("", { headers: waiting });
  const whole: Answer = () => new Response(end, { headers: waiting });
  const { client, asked } = scripted([cut, whole]);
  const turn = await client.decide("s1", "c1", { type: "approve" });
  expect((await turn.result).text).toBe("Hello!");
  expect(asked.map(({ path }) => path)).toEqual(["/api/sessions/s1/decisions", "/api/sessions/s1/decisions"]);
  expect(new Set(asked.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1);
});

test("frames that are not JSON are an error, and no endless story", async () => {
  const { client, asked } = scripted([streaming("data: <html>\n\n")]);
  expect(await thrownBy(async () => all((await client.start("hi")).events))).toMatchObject({
    reason: "unexpected_answer",
  });
  expect(asked).toHaveLength(1);
});

test("who waits goes on waiting while the turn is open, and stops when told to", async () => {
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

test("a server that was asked to wait is given that time, and then only so much more", async () => {
  const clock = handClock();
  const ends = () => Response.json({ status: "ended", text: "Hello!" });
  const late: Answer = () => clock.sleep(25_000).then(ends);
  const { client, asked } = scripted([late], { silenceMs: 1000, clock });
  const { result } = client.attach("s1", "t1");
  await clock.advance(25_000);
  expect((await result).text).toBe("Hello!");
  expect(asked.map(({ headers }) => headers.get("prefer"))).toEqual(["wait=25"]);
  const never = scripted([() => new Promise(() => undefined), ends], { silenceMs: 1000, clock });
  const again = never.client.attach("s1", "t1").result;
  await clock.advance(27_000);
  expect((await again).text).toBe("Hello!");
  expect(never.asked).toHaveLength(2);
});

test("a result is known as soon as a reader has seen it, and nobody is asked for it any more", async () => {
  const pending: AbortSignal[] = [];
  const { client } = scripted([], {
    fetch: async (url, { signal }) => {
      if (url.endsWith("/events")) return streaming(told(1, { type: "chat_completed" }), end)();
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

test("who stops waiting for a turn that begins nothing is told why", async () => {
  const stop = new AbortController();
  let isRead = false;
  const silent = () => new ReadableStream({ pull: () => void (isRead = true) }, { highWaterMark: 0 });
  const headers = { "content-type": "text/event-stream", "everturn-session": "s1" };
  const { client } = scripted([() => new Response(silent(), { headers })]);
  const { result } = await client.decide("s1", "c1", { type: "approve" }, { signal: stop.signal });
  await expect.poll(() => isRead).toBe(true);
  stop.abort(new Error("enough"));
  await expect(result).rejects.toThrow("enough");
});

test("an open turn is not asked for all the time, and each answer makes the tries count anew", async () => {
  const clock = handClock();
  const open: Answer = () => Response.json({ sessionId: "s1", turnId: "t1" }, { status: 202 });
  const ended: Answer = () => Response.json({ status: "ended", text: "Hello!" });
  const { client, asked } = scripted([open, open, html, html, open, html, html, ended], { clock });
  const { result } = client.attach("s1", "t1");
  await clock.advance(999);
  expect(asked).toHaveLength(1);
  await clock.advance(1);
  expect(asked).toHaveLength(2);
  await clock.advance(5000);
  expect((await result).text).toBe("Hello!");
});

test("a result that nobody looks at ends no process, and what was read leaves no timer", async () => {
  const { client, asked } = scripted([refusing(401, "unauthorized")]);
  void client.attach("s1", "t1").result;
  await expect.poll(() => asked).toHaveLength(1);
  const clock = handClock();
  const whole = scripted([streaming(told(1, { type: "chat_completed" }), end)], { clock });
  expect(await all((await whole.client.start("hi")).events)).toHaveLength(1);
  expect(clock.sleepers).toBe(0);
});

test("nothing is read before it is wanted", async () => {
  let pulled = 0;
  const body = () =>
    new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          pulled += 1;
          controller.enqueue(new TextEncoder().encode(told(pulled, { type: "turn_started" })));
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

test("a stream that nobody reads is let go, and opened again by whoever does", async () => {
  const clock = handClock();
  let isClosed = false;
  const unread = () => new ReadableStream<Uint8Array>({ cancel: () => void (isClosed = true) });
  const { client, asked } = scripted([() => new Response(unread(), { headers: named }), streaming(told(1, {}), end)], {
    clock,
  });
  const turn = await client.start("hi");
  await clock.advance(4999);
  expect(isClosed).toBe(false);
  await clock.advance(1);
  expect(isClosed).toBe(true);
  expect(await all(turn.events)).toHaveLength(1);
  expect(asked.map(({ path }) => path)).toEqual(["/api/sessions", "/api/sessions/s%201/turns/t1/events"]);
});

test("a reader comes back for as long as something is heard", async () => {
  const alive = streaming(": heartbeat\n\n");
  const { client, asked } = scripted([...Array<Answer>(10).fill(alive), streaming(told(1, { type: "x" }), end)]);
  expect(await all((await client.start("hi")).events)).toHaveLength(1);
  expect(asked).toHaveLength(11);
});

test("a stream that has said how it ended is let go, whether the server closes it or not", async () => {
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

test.each(["before anything is read", "in the middle of waiting"])("leaving closes the stream %s", async (when) => {
  let isClosed = false;
  const silent = () => new ReadableStream<Uint8Array>({ cancel: () => void (isClosed = true) });
  const { client } = scripted([() => new Response(silent(), { headers: named })]);
  const reader = (await client.start("hi")).events[Symbol.asyncIterator]();
  const waiting = when === "in the middle of waiting" ? reader.next() : null;
  expect(await reader.return?.()).toEqual({ done: true, value: undefined });
  expect((await waiting)?.done ?? true).toBe(true);
  expect(isClosed).toBe(true);
});
