// Tests of the HTTP adapter against a server that fails in every way: a call always ends in bounded time with a failure
// that names the cause, and the socket is closed.

import type { ProviderOptions, Failure } from "everturn";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

import { getEventListeners } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  anthropic,
  azure,
  chat,
  engine,
  generate,
  openaiCompatible,
  providers,
  stream,
  tool,
  modelRef,
  user,
} from "everturn";
import { request as asked } from "everturn/advanced";
import { handClock } from "everturn/testing";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { parseDotenv, retryAfter, systemClock } from "../engine/internal.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

let answer: Answer = (_, response) => void response.end();
const sockets = new Set<Socket>();
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => answer(request, response));
});
server.on("connection", (socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("error", () => undefined);
});
let base = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address: AddressInfo | string | null = server.address();
  base = `http://127.0.0.1:${typeof address === "object" ? (address?.port ?? 0) : 0}/v1`;
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
});

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "r", model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const hello = `${chunk({ role: "assistant", content: "Hel" })}${chunk({ content: "lo" })}${chunk({}, "stop")}data: [DONE]\n\n`;
const events = { "content-type": "text/event-stream" };

/** The result of one call, without retries, to a server that answers with `how`. */
async function call(how: Answer, options: ProviderOptions = {}, model = "m") {
  answer = how;
  const adapter = openaiCompatible({ baseURL: base, name: "local", apiKey: "sk-test-key-1234", ...options });
  const began = Date.now();
  const reply = await generate(engine({ adapter, model, retry: false }), "hi");
  return { reply, error: reply.error, took: Date.now() - began };
}

/** The number of busy connections of the server, after the client had time to close them. */
async function openSockets(): Promise<number> {
  for (let turn = 0; turn < 40 && sockets.size > 0; turn += 1) await new Promise((resolve) => setTimeout(resolve, 25));
  return [...sockets].filter(
    (socket) => !socket.destroyed && socket.bytesWritten > 0 && socket.writable && isBusy(socket),
  ).length;
}

/**
 * Has the connection a response in progress? Idle connections may stay open for the next request; busy ones have to be
 * closed.
 */
function isBusy(socket: Socket): boolean {
  return busy.has(socket);
}
const busy = new Set<Socket>();
function keep(response: ServerResponse): void {
  const { socket } = response;
  if (socket === null) return;
  busy.add(socket);
  socket.on("close", () => busy.delete(socket));
}

describe("valid responses in any framing", () => {
  test("reads a stream that arrives one byte at a time", async () => {
    const bytes = Buffer.from(hello);
    const { reply } = await call((_, response) => {
      response.writeHead(200, events);
      let at = 0;
      const next = () => {
        if (at >= bytes.length) return void response.end();
        response.write(bytes.subarray(at, at + 1));
        at += 1;
        setImmediate(next);
      };
      next();
    });
    expect(reply).toMatchObject({ outputText: "Hello", finishReason: "stop", error: null });
  });

  test("W2: cuts change no event, also inside a multi-byte character and between CR and LF", async () => {
    const text = `${chunk({ content: "Grüße 🌍" })}${chunk({}, "stop")}`.replaceAll("\n", "\r\n");
    const bytes = Buffer.from(text);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 8 }), async (cuts) => {
        const at = [...new Set([0, ...cuts, bytes.length])].sort((left, right) => left - right);
        const pieces = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
        const body = new ReadableStream<Uint8Array>({
          start: (controller) => {
            for (const piece of pieces) controller.enqueue(piece);
            controller.close();
          },
        });
        const fetch = () => Promise.resolve(new Response(body, { headers: events }));
        const adapter = openaiCompatible({ baseURL: base, name: "local", fetch });
        expect((await generate(engine({ adapter, model: "m" }), "hi")).outputText).toBe("Grüße 🌍");
      }),
      { numRuns: 60 },
    );
  });

  test("reads a stream without the last blank line or content type, and a whole reply", async () => {
    const forgetful = await call(
      (_, response) =>
        void response.writeHead(200, events).end(`${chunk({ content: "A" })}${chunk({}, "stop").trimEnd()}`),
    );
    expect(forgetful.reply.outputText).toBe("A");
    const mute = await call((_, response) => void response.writeHead(200, { "content-type": "text/plain" }).end(hello));
    expect(mute.reply.outputText).toBe("Hello");
    const completeReply = {
      id: "r",
      choices: [{ message: { role: "assistant", content: "Whole" }, finish_reason: "stop" }],
    };
    const plain = await call(
      (_, response) =>
        void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(completeReply)),
    );
    expect(plain.reply).toMatchObject({ outputText: "Whole", finishReason: "stop" });
  });
});

describe("connections that break", () => {
  test.each<[string, Answer]>([
    [
      "in the middle of an event",
      (_, response) =>
        void response.writeHead(200, events).write(chunk({ content: "Hel" }) + 'data: {"cho', () => response.destroy()),
    ],
    [
      "with a reset",
      (_, response) =>
        void response.writeHead(200, events).write(chunk({ content: "Hel" }), () => response.socket?.resetAndDestroy()),
    ],
    ["without a finish_reason", (_, response) => void response.writeHead(200, events).end(chunk({ content: "Hel" }))],
  ])("%s: the call is interrupted and keeps what had arrived", async (_, how) => {
    const { reply, error } = await call(how);
    expect(error).toMatchObject({ type: "stream_error", reason: "interrupted" });
    expect(reply.outputText).toBe("Hel");
  });

  test("a connection that breaks before the response is a network error with its cause", async () => {
    const { error } = await call((request) => void request.socket.resetAndDestroy());
    expect(error).toMatchObject({ reason: "network_error", retryable: true });
    expect(error?.message).toMatch(/local could not be reached: .+/);
    const unreachable = openaiCompatible({ baseURL: "http://127.0.0.1:9/v1", name: "unreachable" });
    const refused = await generate(engine({ adapter: unreachable, model: "m", retry: false }), "hi");
    expect(refused.error).toMatchObject({ reason: "network_error" });
  });
});

describe("[allm 105] timeouts", () => {
  const timeouts = { connect: 60, firstByte: 60, betweenChunks: 60 };

  test.each<[string, Answer, RegExp]>([
    ["no headers", () => undefined, /no response headers arrived within 60 ms/],
    [
      "no first byte",
      (_, response) => (keep(response), void response.writeHead(200, events).flushHeaders()),
      /no response body arrived within/,
    ],
    [
      "no further data",
      (_, response) => (keep(response), void response.writeHead(200, events).write(chunk({ content: "Hel" }))),
      /no further data arrived within/,
    ],
  ])("%s: fails with a timeout that names the limit, and closes the socket", async (_, how, message) => {
    const { error, took } = await call(how, { timeouts });
    expect(error).toMatchObject({ reason: "timeout", retryable: true });
    expect(error?.message).toMatch(message);
    expect(took).toBeLessThan(2000);
    expect(await openSockets()).toBe(0);
  });

  const silentAfter = (text: string) =>
    new Response(
      new ReadableStream({
        start: (controller) => {
          if (text !== "") controller.enqueue(new TextEncoder().encode(text));
        },
      }),
      { headers: events },
    );

  test.each<[string, () => Promise<Response>, number, string]>([
    ["a minute for the headers", () => new Promise(() => undefined), 60_000, "no response headers arrived"],
    ["two minutes for the first byte", async () => silentAfter(""), 120_000, "no response body arrived"],
    ["a minute between chunks", async () => silentAfter(chunk({ content: "Hel" })), 60_000, "no further data arrived"],
  ])("the default limit is %s", async (_, fetch, limit, message) => {
    const clock = handClock();
    const adapter = openaiCompatible({ baseURL: base, name: "local", fetch });
    let isDone = false;
    const reading = generate(engine({ adapter, model: "m", clock, retry: false }), "hi").finally(() => (isDone = true));
    await clock.advance(limit - 1);
    expect(isDone).toBe(false);
    await clock.advance(1);
    expect((await reading).error).toMatchObject({
      reason: "timeout",
      message: expect.stringContaining(`${message} within ${limit} ms`),
    });
  });

  test("the total limit ends a stream that never pauses", async () => {
    const { error, took } = await call(
      (_, response) => {
        keep(response);
        response.writeHead(200, events);
        const timer = setInterval(() => response.write(": still here\n\n"), 10);
        response.on("close", () => clearInterval(timer));
      },
      { timeouts: { total: 150 } },
    );
    expect(error?.message).toMatch(/the response did not end within 150 ms/);
    expect(took).toBeLessThan(2000);
    expect(await openSockets()).toBe(0);
  });
});

describe("size limits", () => {
  const flood =
    (piece: string): Answer =>
    (_, response) => {
      keep(response);
      response.writeHead(200, events);
      const more = () => {
        if (response.destroyed) return;
        while (response.write(piece));
        response.once("drain", more);
      };
      more();
    };

  test.each<[string, string, RegExp]>([
    ["a line", "x".repeat(8192), /a line is longer than 65536 characters/],
    ["an event", `data: ${"x".repeat(8192)}\n`, /an event or a line is longer than 65536 characters/],
    ["a stream", chunk({ content: "x" }), /a stream of more than 500 events/],
  ])("%s: is refused at the limit in bounded memory, and the socket is closed", async (_, piece, message) => {
    const { error } = await call(flood(piece), { limits: { line: 65_536, events: 500 } });
    expect(error).toMatchObject({ type: "stream_error", reason: "malformed_event" });
    expect(error?.message).toMatch(message);
    expect(await openSockets()).toBe(0);
  });

  test("limits whole replies and the bodies of errors", async () => {
    const endless: Answer = (_, response) => {
      keep(response);
      response.writeHead(200, { "content-type": "application/json" });
      const more = () => {
        if (response.destroyed) return;
        while (response.write("[".repeat(8192)));
        response.once("drain", more);
      };
      more();
    };
    expect((await call(endless, { limits: { body: 100_000 } })).error?.message).toMatch(
      /a reply of more than 100000 bytes/,
    );
    const refused = await call((_, response) => void response.writeHead(500).end("x".repeat(1_000_000)), {
      limits: { errorBody: 1000 },
    });
    expect(refused.error).toMatchObject({ reason: "provider_unavailable", status: 500 });
    expect((refused.error && "raw" in refused.error ? String(refused.error.raw) : "").length).toBeLessThan(1100);
  });
});

describe("[lash 90] HTTP errors", () => {
  const refuse =
    (status: number, body: string, headers: { readonly [name: string]: string } = {}): Answer =>
    (_, response) =>
      void response.writeHead(status, headers).end(body);
  const errorBody = (message: string, code: string | null = null) =>
    JSON.stringify({ error: { message, code, type: "x" } });

  test.each<[number, string, Partial<Record<keyof Failure | "retryable" | "status", unknown>>]>([
    [401, errorBody("bad key"), { reason: "authentication_failed", retryable: false }],
    [403, errorBody("no"), { reason: "authentication_failed", retryable: false }],
    [400, errorBody("nonsense"), { reason: "invalid_request", retryable: false }],
    [
      400,
      errorBody("This model's maximum context length is 8192 tokens", "context_length_exceeded"),
      { reason: "context_length_exceeded", retryable: false },
    ],
    [404, errorBody("no such model"), { reason: "invalid_request", retryable: false }],
    [408, errorBody("slow"), { reason: "timeout", retryable: true }],
    [429, errorBody("slow down"), { reason: "rate_limited", retryable: true }],
    [
      429,
      errorBody("You exceeded your current quota", "insufficient_quota"),
      { reason: "rate_limited", retryable: false },
    ],
    [500, errorBody("oops"), { reason: "provider_unavailable", retryable: true }],
    [503, "<html><h1>503 Service Unavailable</h1></html>", { reason: "provider_unavailable", retryable: true }],
    [529, errorBody("overloaded"), { reason: "provider_unavailable", retryable: true }],
    [
      302,
      "",
      {
        reason: "unknown",
        message: expect.stringMatching(/answered with a redirect \(302\).*Check the base URL$/),
      },
    ],
  ])("%i %s", async (status, body, expected) => {
    const { error } = await call(
      refuse(status, body, { "x-request-id": "req_7", location: "http://elsewhere.invalid/" }),
    );
    expect(error).toMatchObject({ type: "adapter_error", status, requestId: "req_7", ...expected });
  });

  test("reads Retry-After in seconds, as a date and in milliseconds, and the providers' own headers", async () => {
    const now = Date.parse("2026-11-15T12:00:00Z");
    const of = (headers: { readonly [name: string]: string }) => retryAfter(new Headers(headers), now);
    expect(of({ "retry-after-ms": "", "retry-after": "30" })).toBe(30_000);
    expect(of({ "retry-after": "7" })).toBe(7000);
    expect(of({ "retry-after": "Sun, 15 Nov 2026 12:00:09 GMT" })).toBe(9000);
    expect(of({ "retry-after-ms": "350", "retry-after": "9" })).toBe(350);
    expect(of({ "x-ratelimit-reset-requests": "1m30.5s", "x-ratelimit-reset-tokens": "20ms" })).toBe(90_500);
    expect(of({ "anthropic-ratelimit-tokens-reset": "2026-11-15T12:00:04Z" })).toBe(4000);
    expect(of({ "retry-after": "soon" })).toBeNull();
    const { error } = await call(refuse(429, errorBody("slow down"), { "retry-after": "3" }));
    expect(error).toMatchObject({ retryAfterMs: 3000 });
  });

  test("retries a transient failure after the wait that the server requests", async () => {
    let requestCount = 0;
    answer = (_, response) => {
      requestCount += 1;
      if (requestCount === 1) response.writeHead(429, { "retry-after": "2" }).end(errorBody("slow down"));
      else if (requestCount === 2) response.writeHead(500).end("oops");
      else response.writeHead(200, events).end(hello);
    };
    const clock = handClock();
    const waits: number[] = [];
    const adapter = openaiCompatible({ baseURL: base, name: "local" });
    const reading = (async () => {
      for await (const event of stream(engine({ adapter, model: "m", clock }), "hi")) {
        if (event.type === "retry_scheduled") waits.push(event.delayMs);
      }
    })();
    while (waits.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
    await clock.advance(2000);
    while (waits.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    await clock.advance(1000);
    await reading;
    expect(waits).toEqual([2000, 1000]);
  });

  test("retries a stream that ends without its terminal event before any output, and no stream after output", async () => {
    const bodies = [chunk({ role: "assistant" }), hello, chunk({ content: "Hel" }), hello];
    let requestCount = 0;
    answer = (_, response) => {
      response.writeHead(200, events).end(bodies[requestCount]);
      requestCount += 1;
    };
    const adapter = openaiCompatible({ baseURL: base, name: "local" });
    const of = engine({ adapter, model: "m", retry: { baseDelayMs: 0, jitterMs: 0 } });
    expect(await generate(of, "hi")).toMatchObject({ outputText: "Hello", error: null });
    expect(requestCount).toBe(2);
    expect(await generate(of, "hi")).toMatchObject({
      outputText: "Hel",
      error: { type: "stream_error", reason: "interrupted", retryable: true },
    });
    expect(requestCount).toBe(3);
  });

  test("a wait that the server requests is one of the attempts", async () => {
    let requestCount = 0;
    answer = (_, response) => {
      requestCount += 1;
      response.writeHead(429, { "retry-after-ms": "1" }).end(errorBody("slow down"));
    };
    const adapter = openaiCompatible({ baseURL: base, name: "local" });
    const reply = await generate(engine({ adapter, model: "m", retry: { jitterMs: 0 } }), "hi");
    expect(reply.error).toMatchObject({ reason: "rate_limited", retryAfterMs: 1 });
    expect(requestCount).toBe(3);
  });

  test("reports invalid JSON and a body without a reply as malformed", async () => {
    expect(
      (await call((_, response) => void response.writeHead(200, { "content-type": "application/json" }).end("<html>")))
        .error,
    ).toMatchObject({
      reason: "malformed_response",
    });
    const garbled = await call((_, response) => void response.writeHead(200, events).end(`data: {oops\n\n${hello}`));
    expect(garbled.error).toMatchObject({ reason: "interrupted", retryable: true, raw: "{oops" });
  });
});

describe("closing early", () => {
  test("a consumer that stops iterating, and an abort, close the socket", async () => {
    const endless: Answer = (_, response) => {
      keep(response);
      response.writeHead(200, events);
      const timer = setInterval(() => response.write(chunk({ content: "x" })), 5);
      response.on("close", () => clearInterval(timer));
    };
    answer = endless;
    const adapter = openaiCompatible({ baseURL: base, name: "local" });
    for await (const { type } of stream(engine({ adapter, model: "m" }), "hi")) if (type === "text_delta") break;
    expect(await openSockets()).toBe(0);
    answer = endless;
    const result = await chat(engine({ adapter, model: "m" }), "hi", { signal: AbortSignal.timeout(50) });
    expect(result.haltedReason).toBe("cancelled");
    expect(await openSockets()).toBe(0);
  });
});

describe("servers that keep the connection open", () => {
  const completeReply = { outputText: "Hello", error: null };

  test("a complete reply waits for the end of the connection only for the grace time", async () => {
    const silent = await call((_, response) => {
      keep(response);
      response.writeHead(200, events).write(hello);
    });
    expect(silent.reply).toMatchObject(completeReply);
    expect(silent.took).toBeLessThan(5000);
    const pinging = await call((_, response) => {
      keep(response);
      response.writeHead(200, events).write(hello);
      const timer = setInterval(() => response.write(": ping\n\n"), 5);
      response.on("close", () => clearInterval(timer));
    });
    expect(pinging.reply).toMatchObject(completeReply);
    expect(pinging.took).toBeLessThan(5000);
    expect(await openSockets()).toBe(0);
  });

  test("E1: a connection that breaks after the terminal event gives no second one", async () => {
    const ends = async (how: Answer) => {
      answer = how;
      const adapter = openaiCompatible({ baseURL: base, name: "local" });
      const call = {
        signal: new AbortController().signal,
        requestId: "r",
        options: {},
        apiKey: null,
        clock: systemClock,
      };
      const seenTypes: string[] = [];
      const request = { ...asked([user("hi")]), model: "m" };
      for await (const batch of adapter.stream(request, { ...call, rawChunks: false, attempt: 1 })) {
        seenTypes.push(...batch.map(({ type }) => type));
      }
      return seenTypes.filter((type) => type === "message_completed" || type === "error");
    };
    const open: Answer = (_, response) => void response.writeHead(200, events).write(hello);
    const cut: Answer = (_, response) => {
      response.writeHead(200, events).write(hello, () => setTimeout(() => response.destroy(), 20));
    };
    expect(await ends(open)).toEqual(["message_completed"]);
    expect(await ends(cut)).toEqual(["message_completed"]);
  });

  test("limits a stream of comments", async () => {
    const { error } = await call(
      (_, response) => {
        keep(response);
        response.writeHead(200, events);
        const timer = setInterval(() => response.write(": ping\n\n".repeat(10)), 1);
        response.on("close", () => clearInterval(timer));
      },
      { limits: { stream: 1000 } },
    );
    expect(error).toMatchObject({ reason: "malformed_event", message: "local sent a stream of more than 1000 bytes" });
    expect(await openSockets()).toBe(0);
  });
});

describe("the size of a reply", () => {
  const long = "x".repeat(1000);
  const whole = JSON.stringify({ choices: [{ index: 0, message: { content: long }, finish_reason: "stop" }] });
  const tooLong =
    "local sent a reply of more than 500 characters; set limits.reply of the adapter to accept longer ones";

  test.each<[string, Answer]>([
    ["streamed text", (_, response) => void response.writeHead(200, events).end(chunk({ content: long }) + hello)],
    [
      "reasoning",
      (_, response) => void response.writeHead(200, events).end(chunk({ reasoning_content: long }) + hello),
    ],
    [
      "arguments of a call",
      (_, response) =>
        void response
          .writeHead(200, events)
          .end(chunk({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: `"${long}"` } }] }) + hello),
    ],
    ["a whole reply", (_, response) => void response.writeHead(200, { "content-type": "application/json" }).end(whole)],
  ])("%s: fails at the limit, and the socket is closed", async (_, how) => {
    const { error, reply } = await call(how, { limits: { reply: 500 } });
    expect(error).toMatchObject({
      type: "stream_error",
      reason: "malformed_event",
      retryable: false,
      message: tooLong,
    });
    expect((reply.outputText ?? "").length).toBeLessThan(500);
    expect(await openSockets()).toBe(0);
    expect((await call(how, { limits: { reply: 5000 } })).error).toBeNull();
  });

  test("is limited by default, far above what models write", async () => {
    const piece = chunk({ content: "x".repeat(64 * 1024) });
    const flood: Answer = (_, response) => {
      keep(response);
      response.writeHead(200, events);
      const more = () => {
        if (response.destroyed) return;
        while (response.write(piece));
        response.once("drain", more);
      };
      more();
    };
    expect((await call(flood)).error?.message).toMatch(/a reply of more than 4194304 characters/);
    expect(await openSockets()).toBe(0);
  });
});

describe("headers of a complete reply", () => {
  const headers = {
    "x-request-id": "req_1",
    "x-ratelimit-remaining-requests": "59",
    "anthropic-ratelimit-tokens-remaining": "1000",
    "set-cookie": "session=secret",
  };
  const whole = JSON.stringify({ choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }] });

  test.each<[string, Answer]>([
    ["streamed", (_, response) => void response.writeHead(200, { ...events, ...headers }).end(hello)],
    [
      "whole",
      (_, response) => void response.writeHead(200, { "content-type": "application/json", ...headers }).end(whole),
    ],
  ])("request id and rate limits are on the reply: %s", async (_, how) => {
    const { reply } = await call(how);
    expect(reply.requestId).toBe("req_1");
    expect(reply.metadata["rateLimit"]).toEqual({
      "anthropic-ratelimit-tokens-remaining": "1000",
      "x-ratelimit-remaining-requests": "59",
    });
    expect(JSON.stringify(reply)).not.toContain("session=secret");
  });

  test("are absent if the server sends none, and never contain the key", async () => {
    const plain = await call((_, response) => void response.writeHead(200, events).end(hello));
    expect(plain.reply.metadata).toEqual({});
    const echo = { ...events, "x-request-id": "sk-test-key-1234", "x-ratelimit-limit": "sk-test-key-1234" };
    const echoed = await call((_, response) => void response.writeHead(200, echo).end(hello));
    expect(JSON.stringify(echoed.reply)).not.toContain("sk-test-key-1234");
  });
});

describe("a fetch that ignores its signal", () => {
  const never = new Promise<never>(() => undefined);
  const mute = () => Promise.resolve(new Response(new ReadableStream({ pull: () => never }), { headers: events }));
  const asking = (fetch: ProviderOptions["fetch"] & {}, timeouts: ProviderOptions["timeouts"] & {} = {}) =>
    engine({ adapter: openaiCompatible({ baseURL: base, name: "local", fetch, timeouts }), model: "m", retry: false });

  test.each([
    ["no response headers arrived", () => never, 60_000],
    ["no response body arrived", mute, 120_000],
  ])("times out on the engine's clock when %s", async (what, fetch, ms) => {
    const clock = handClock();
    let isOver = false;
    const reply = generate({ ...asking(fetch), clock }, "hi").finally(() => (isOver = true));
    await clock.advance(ms - 1);
    expect(isOver).toBe(false);
    await clock.advance(1);
    const message = `local: ${what} within ${ms} ms`;
    expect((await reply).error).toMatchObject({ reason: "timeout", message });
    expect(clock.sleepers).toBe(0);
  });

  test("measures a date in Retry-After from the engine's clock", async () => {
    const headers = { "retry-after": "Thu, 01 Jan 1970 00:00:07 GMT" };
    const fetch = () => Promise.resolve(new Response("", { status: 429, headers }));
    const { error } = await generate({ ...asking(fetch), clock: handClock() }, "hi");
    expect(error).toMatchObject({ reason: "rate_limited", retryAfterMs: 7000 });
  });

  test("is abandoned when the run is cancelled, and not called after a cancel", async () => {
    for (const fetch of [() => never, mute]) {
      const result = await chat(asking(fetch), "hi", { signal: AbortSignal.timeout(20) });
      expect(result.haltedReason).toBe("cancelled");
    }
    const adapter = openaiCompatible({ baseURL: base, name: "local", fetch: () => expect.fail("called") });
    const request = { ...asked([user("hi")]), model: "m" };
    const call = {
      signal: AbortSignal.abort(new Error("gone")),
      requestId: "r",
      options: {},
      apiKey: null,
      clock: systemClock,
    };
    const reading = adapter.stream(request, { ...call, rawChunks: false, attempt: 1 })[Symbol.asyncIterator]();
    await expect(reading.next()).rejects.toThrow("gone");
  });

  test("leaves no abort listener on the signal that all calls of a run get", async () => {
    let requests = 0;
    const toolCall = [{ index: 0, id: "c", type: "function", function: { name: "look", arguments: "{}" } }];
    const fetch = () => {
      requests += 1;
      if (requests % 2 === 1) return Promise.resolve(new Response("", { status: 503 }));
      const body = requests < 8 ? `${chunk({ tool_calls: toolCall })}${chunk({}, "tool_calls")}` : hello;
      return Promise.resolve(new Response(body, { headers: events }));
    };
    const adapter = openaiCompatible({ baseURL: base, name: "local", fetch });
    const signals: AbortSignal[] = [];
    const listeners: number[] = [];
    const recording: typeof adapter = {
      ...adapter,
      stream: (request, call) => {
        signals.push(call.signal);
        listeners.push(getEventListeners(call.signal, "abort").length);
        return adapter.stream(request, call);
      },
    };
    const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
    const retry = { baseDelayMs: 0, jitterMs: 0 };
    const result = await chat(engine({ adapter: recording, model: "m", tools: [look], retry }), "hi");
    expect(result.haltedReason).toBe("completed");
    expect(signals).toHaveLength(8);
    expect(new Set(signals).size).toBe(1);
    expect(new Set(listeners).size).toBe(1);
    expect(signals.map((signal) => getEventListeners(signal, "abort").length)).toEqual(signals.map(() => 0));
  });

  test("fails the call if it returns nothing or a locked body", async () => {
    const locked = new Response("data: {}\n\n", { headers: events });
    locked.body?.getReader();
    const nothing: unknown = await generate(
      asking(() => Promise.resolve(JSON.parse("{}"))),
      "hi",
    );
    expect(nothing).toMatchObject({ error: { type: expect.stringMatching(/^(adapter|stream)_error$/) } });
    const lockedResult = await generate(
      asking(() => Promise.resolve(locked)),
      "hi",
    );
    expect(lockedResult.error).toMatchObject({ reason: "interrupted", message: expect.stringContaining("local") });
  });
});

describe("options of an adapter", () => {
  test("refuses a baseURL with credentials, a query or a fragment", () => {
    for (const baseURL of [
      "https://me:hunter2@gate/v1",
      "https://gate/v1?token=x",
      "https://gate/v1#x",
      "ftp://gate",
      "/v1",
    ]) {
      const make = () => openaiCompatible({ baseURL, name: "local" });
      expect(make).toThrow(expect.objectContaining({ reason: "invalid_argument" }));
      expect(make).not.toThrow(/hunter2/);
    }
    expect(() => azure({ resource: "evil.example/x?", deployment: "d" })).toThrow(/resource/);
  });

  test("a user's header replaces the adapter's header of the same name", async () => {
    const seen: unknown[] = [];
    const { reply } = await call(
      ({ headers }, response) => {
        seen.push([headers.authorization, headers["content-type"]]);
        response.writeHead(200, events).end(hello);
      },
      { headers: { Authorization: "Bearer other", "Content-Type": "application/json; charset=utf-8" } },
    );
    expect(reply.outputText).toBe("Hello");
    expect(seen).toEqual([["Bearer other", "application/json; charset=utf-8"]]);
  });

  test("accepts infinite timeouts and refuses invalid ones", async () => {
    const { reply } = await call((_, response) => void response.writeHead(200, events).end(hello), {
      timeouts: { connect: Infinity, firstByte: Infinity, betweenChunks: Infinity, total: null },
    });
    expect(reply.outputText).toBe("Hello");
    for (const connect of [0, -1, Number.NaN]) {
      expect(() => openaiCompatible({ baseURL: base, timeouts: { connect } })).toThrow(/timeouts.connect/);
    }
  });

  test("properties of Object.prototype are no providers", () => {
    const combined = providers({
      local: openaiCompatible({ baseURL: base }),
      other: openaiCompatible({ baseURL: base }),
    });
    const call = {
      signal: new AbortController().signal,
      requestId: "r",
      options: {},
      apiKey: null,
      clock: systemClock,
    };
    for (const provider of ["toString", "__proto__"]) {
      const request = { ...asked([user("hi")]), model: modelRef({ id: "m", provider }) };
      expect(() => combined.stream(request, { ...call, rawChunks: false, attempt: 1 })).toThrow(
        /no provider for the model/,
      );
    }
  });
});

describe("[allm 103] keys", () => {
  test("are resolved at every call and appear in no event or error", async () => {
    const key = "sk-secret-0123456789";
    const seen: string[] = [];
    answer = (request, response) => {
      seen.push(request.headers.authorization ?? "");
      response
        .writeHead(401, { "content-type": "application/json" })
        .end(JSON.stringify({ error: { message: `Incorrect API key provided: ${key}` } }));
    };
    const adapter = openaiCompatible({ baseURL: base, name: "local", apiKey: () => Promise.resolve(key) });
    const seenTypes: unknown[] = [];
    for await (const event of stream(engine({ adapter, model: "m" }), "hi")) seenTypes.push(event);
    expect(seen).toEqual([`Bearer ${key}`]);
    expect(JSON.stringify(seenTypes)).toContain("Incorrect API key provided: [key]");
    expect(JSON.stringify(seenTypes)).not.toContain(key);
  });

  test.each([
    [
      "escaped",
      "sk-very/secret+1234",
      (key: string) =>
        JSON.stringify({ error: { message: `bad ${key}` } })
          .replaceAll("/", String.raw`\/`)
          .replaceAll("+", String.raw`\u002b`),
    ],
    ["with a line break at the end", "sk-verysecret-1234\n", (key: string) => `bad ${key.trim()}`],
  ])("are removed from errors of servers that repeat them: %s", async (_, apiKey, errorBody) => {
    const { error } = await call((__, response) => void response.writeHead(401).end(errorBody(apiKey)), { apiKey });
    expect(error?.reason).toBe("authentication_failed");
    expect(JSON.stringify(error)).toContain("[key]");
    expect(JSON.stringify(error)).not.toMatch(/secret/);
  });

  test("that are placeholder words change no error text", async () => {
    const body = { id: "r", model: "m", choices: [{ message: { role: "assistant", content: "none, null" } }] };
    for (const apiKey of ["none", "null"]) {
      const { reply } = await call(
        (_, response) => void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body)),
        { apiKey },
      );
      expect(reply).toMatchObject({ outputText: "none, null", error: null });
      const refused = await call((_, response) => void response.writeHead(400).end("null: none"), { apiKey });
      expect(refused.error).toMatchObject({ reason: "invalid_request", raw: "null: none" });
    }
  });

  test("that cannot be a header value are not quoted in the error", async () => {
    const adapter = openaiCompatible({ baseURL: base, name: "local", apiKey: "sk-bad\nkey-123456" });
    const reply = await generate(engine({ adapter, model: "m", retry: false }), "hi");
    expect(JSON.stringify(reply.error)).not.toContain("key-123456");
    expect(reply.error).toMatchObject({ reason: "authentication_failed", retryable: false });
  });

  test("come from the call, the adapter, the environment or a .env file, in this order", async () => {
    const folder = await mkdtemp(join(tmpdir(), "everturn-keys-"));
    const file = join(folder, ".env");
    await writeFile(file, '# keys\nexport LOCAL_API_KEY="sk-from-file"\n');
    const seen: string[] = [];
    answer = (request, response) => {
      seen.push(request.headers.authorization ?? "none");
      response.writeHead(200, events).end(hello);
    };
    const ask = (options: ProviderOptions, apiKey?: string) => {
      const adapter = openaiCompatible({ baseURL: base, name: "local", ...options });
      return generate(engine({ adapter, model: "m" }), "hi", apiKey === undefined ? {} : { apiKey });
    };
    await ask({});
    await ask({ dotenv: file });
    process.env["LOCAL_API_KEY"] = "sk-from-environment";
    await ask({ dotenv: file });
    await ask({ dotenv: file, apiKey: "sk-of-adapter" });
    await ask({ dotenv: file, apiKey: "sk-of-adapter" }, "sk-of-call");
    delete process.env["LOCAL_API_KEY"];
    await rm(folder, { recursive: true });
    expect(seen).toEqual([
      "none",
      "Bearer sk-from-file",
      "Bearer sk-from-environment",
      "Bearer sk-of-adapter",
      "Bearer sk-of-call",
    ]);
  });

  test("in a .env file: lines of KEY=VALUE, with export, double quotes, comments and blank lines", () => {
    const text = [
      "# a comment",
      "",
      "PLAIN=one",
      "  export EXPORTED = two ",
      'QUOTED="three # not a comment"',
      "_underscore1=four",
      "EMPTY=",
      "URL=a=b",
      "1DIGIT=no",
      "no assignment",
    ].join("\r\n");
    expect(parseDotenv(text)).toEqual({
      PLAIN: "one",
      EXPORTED: "two",
      QUOTED: "three # not a comment",
      _underscore1: "four",
      EMPTY: "",
      URL: "a=b",
    });
  });

  test("whose resolver fails are an error, also for a server without keys", async () => {
    const adapter = openaiCompatible({
      baseURL: base,
      name: "local",
      apiKey: () => Promise.reject(new Error("vault")),
    });
    await expect(generate(engine({ adapter, model: "m" }), "hi")).rejects.toThrow("vault");
  });

  test("that are missing are an error that lists where they were looked for", async () => {
    const adapter = anthropic({ baseURL: base, apiKey: () => null });
    const wanted = generate(engine({ adapter, model: "m" }), "hi");
    await expect(wanted).rejects.toMatchObject({
      reason: "missing_key",
      message: expect.stringContaining("ANTHROPIC_API_KEY"),
      failure: { metadata: { checkedSources: ["apiKey of the call", "apiKey of the adapter", "ANTHROPIC_API_KEY"] } },
    });
    const withFile = anthropic({ baseURL: base, dotenv: "/nowhere/.env" });
    await expect(generate(engine({ adapter: withFile, model: "m" }), "hi", { apiKey: " " })).rejects.toMatchObject({
      reason: "missing_key",
      message: expect.stringMatching(/ANTHROPIC_API_KEY, \.env$/),
    });
  });
});

describe("errors of compatible servers in a response with status 200", () => {
  test.each<[string, string, object]>([
    [
      "plain JSON in place of a stream",
      '{"error":{"message":"out of credit","code":"insufficient_quota"}}',
      { message: "local: out of credit", code: "insufficient_quota" },
    ],
    [
      "the field error of llama.cpp",
      'error: {"code":400,"message":"the request exceeds the available context size","type":"invalid_request_error"}\n\ndata: [DONE]\n\n',
      { message: "local: the request exceeds the available context size", status: 400 },
    ],
  ])("%s is a failure with the words of the server", async (_, body, failure) => {
    const { error } = await call((_, response) => void response.writeHead(200, events).end(body));
    expect(error).toMatchObject(failure);
  });
});
