// Tests of background responses against an HTTP server on the loopback interface.

import type { Adapter, JsonObject } from "everturn";
import type { AdapterCall, ModelEvent } from "everturn/advanced";

import { chat, engine, generate, providers, stream, messageText, user } from "everturn";
import { request } from "everturn/advanced";
import { handClock } from "everturn/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { BackgroundServer } from "../../../test/background-server.ts";
import { eventually } from "../../../test/eventually.ts";
import { systemClock } from "../engine/internal.ts";
import { openai } from "./openai.ts";

const pieces = ["The ", "river ", "is ", "long."];
const text = pieces.join("");
let server = new BackgroundServer(pieces);

beforeEach(async () => {
  server = new BackgroundServer(pieces);
  await server.listen();
});
afterEach(() => server.close());

const model = (more: Parameters<typeof openai>[0] = {}): Adapter =>
  openai({ baseURL: server.url, apiKey: "sk-test", background: true, ...more });

function callOf(more: Partial<AdapterCall> = {}): AdapterCall {
  const { signal } = new AbortController();
  const rest = { requestId: "r", options: {}, apiKey: null, rawChunks: false, attempt: 1, clock: systemClock };
  return { signal, ...rest, ...more };
}

const modelRequest = request([user("How long is the river?")], { model: "gpt-5.4" });

async function read(batches: AsyncIterable<readonly ModelEvent[]>): Promise<readonly ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const batch of batches) events.push(...batch);
  return events;
}

function deltas(events: readonly ModelEvent[]): string {
  return events.map((event) => (event.type === "text_delta" ? event.delta : "")).join("");
}

function summary(events: readonly ModelEvent[]) {
  const ends = events.filter(({ type }) => type === "message_completed" || type === "error");
  const [end] = ends;
  return {
    starts: events.filter(({ type }) => type === "message_started").length,
    deltas: deltas(events),
    text: end?.type === "message_completed" ? messageText(end.message) : null,
    failure: end?.type === "error" ? end.error.reason : null,
    usages: events.filter(({ type }) => type === "usage").length,
    ends: ends.length,
  };
}

const completeSummary = { starts: 1, deltas: text, text, failure: null, usages: 1, ends: 1 };

describe("a background response", () => {
  test("is streamed and stored by the provider, and its reference is reported before its first event", async () => {
    const order: unknown[] = [];
    const onReference = (reference: JsonObject) => void order.push(reference);
    for await (const batch of model().stream(modelRequest, callOf({ onReference })))
      order.push(...batch.map(({ type }) => type));
    expect(order.slice(0, 2)).toEqual([
      { endpoint: `${server.url}#openai-responses`, responseId: "resp_1" },
      "message_started",
    ]);
    expect(server.bodies).toMatchObject([{ background: true, store: true, stream: true }]);
    expect(server.requests).toEqual(["POST /responses"]);
  });

  test("is requested by the adapter's option, which a request can override", async () => {
    await generate(engine({ adapter: model({ background: false }), model: "gpt-5.4" }), "Hi", {
      params: { background: true },
    });
    await generate(engine({ adapter: model(), model: "gpt-5.4" }), "Hi", { params: { background: false } });
    await generate(engine({ adapter: openai({ baseURL: server.url, apiKey: "sk-test" }), model: "gpt-5.4" }), "Hi");
    expect(server.bodies.map(({ background, store }) => [background, store])).toEqual([
      [true, true],
      [false, false],
      [undefined, false],
    ]);
  });

  test("is read again from an event that arrives damaged", async () => {
    server.damaged = [3];
    expect(summary(await read(model().stream(modelRequest, callOf())))).toEqual(completeSummary);
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1?stream=true&starting_after=2"]);
  });

  test("is refused with Chat Completions", () => {
    expect(() => openai({ api: "chat", background: true })).toThrow(
      expect.objectContaining({ reason: "invalid_argument", path: ["background"] }),
    );
  });

  test("is polled by its status if it is not streamed", async () => {
    server.ready = 2;
    const clock = handClock();
    const adapter = model();
    const reply = generate(engine({ adapter, model: "gpt-5.4", clock }), "Hi", { params: { stream: false } });
    server.streams = false;
    await eventually(() => expect(clock.sleepers).toBeGreaterThan(0));
    await clock.advance(2000);
    await eventually(() => expect(server.requests).toHaveLength(4));
    server.finish();
    await eventually(async () => {
      await clock.advance(2000);
      expect(server.requests.length).toBeGreaterThan(4);
    });
    expect(await reply).toMatchObject({ outputText: text, usage: { inputTokens: 11, outputTokens: 7 } });
    expect(server.requests.slice(0, 4)).toEqual([
      "POST /responses",
      "GET /responses/resp_1?stream=true",
      "GET /responses/resp_1",
      "GET /responses/resp_1",
    ]);
  });
});

describe("a lost connection", () => {
  test.each([0, 1, 2, 3, 4, 5])("is resumed after event %i in the same attempt", async (cut) => {
    server.cuts = [cut];
    const events = await read(model().stream(modelRequest, callOf()));
    expect(summary(events)).toEqual(completeSummary);
    expect(server.requests).toEqual(["POST /responses", `GET /responses/resp_1?stream=true&starting_after=${cut}`]);
  });

  test("is resumed every time, and no reader sees a reset", async () => {
    server.cuts = [1, 2, 3, 4];
    const seen: string[] = [];
    const running = stream(engine({ adapter: model(), model: "gpt-5.4" }), "Hi");
    for await (const { type } of running) seen.push(type);
    expect(await running.text).toBe(text);
    expect(seen.filter((type) => type === "text_delta")).toHaveLength(pieces.length);
    expect(seen).not.toContain("step_reset");
    expect(seen).not.toContain("retry_scheduled");
    expect(server.requests.slice(1)).toEqual(
      [1, 2, 3, 4].map((n) => `GET /responses/resp_1?stream=true&starting_after=${n}`),
    );
  });

  test("is completed from the whole response when it can no longer be streamed", async () => {
    server.cuts = [3];
    server.streams = false;
    expect(summary(await read(model().stream(modelRequest, callOf())))).toEqual(completeSummary);
    expect(server.requests).toEqual([
      "POST /responses",
      "GET /responses/resp_1?stream=true&starting_after=3",
      "GET /responses/resp_1",
    ]);
  });

  test("is completed from the whole response when events have no numbers", async () => {
    server.cuts = [3];
    server.numbers = false;
    expect(summary(await read(model().stream(modelRequest, callOf())))).toEqual(completeSummary);
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1"]);
  });

  test("is retried with backoff while the provider is overloaded, and fails after six failures in a row", async () => {
    const clock = handClock();
    server.cuts = [3];
    server.refusals = [503, 429];
    const reading = read(model().stream(modelRequest, callOf({ clock })));
    await eventually(async () => {
      await clock.advance(1000);
      expect(server.requests).toHaveLength(4);
    });
    expect(summary(await reading)).toEqual(completeSummary);

    server.cuts = [3];
    server.refusals = Array.from({ length: 20 }, () => 503);
    const failing = read(model().stream(modelRequest, callOf({ clock })));
    await eventually(async () => {
      await clock.advance(10_000);
      expect(server.refusals).toHaveLength(14);
    });
    expect(summary(await failing)).toMatchObject({ failure: "provider_unavailable", ends: 1 });
  });

  test("to a deleted response is an interruption, retried only if nothing was shown", async () => {
    server.cuts = [3];
    server.knows = false;
    const shown = await generate(engine({ adapter: model(), model: "gpt-5.4" }), "Hi");
    expect(shown.error).toMatchObject({ type: "stream_error", reason: "interrupted" });
    expect(server.bodies).toHaveLength(1);

    const clock = handClock();
    server.cuts = [1];
    const reply = generate(engine({ adapter: model(), model: "gpt-5.4", clock }), "Hi");
    await eventually(async () => {
      await clock.advance(1000);
      expect(server.bodies).toHaveLength(3);
    });
    expect((await reply).outputText).toBe(text);
  });

  test("is not resumed after timeouts.total, and the response is cancelled", async () => {
    server.ready = 3;
    const adapter = model({ timeouts: { total: 5000 } });
    const clock = handClock();
    const reply = generate(engine({ adapter, model: "gpt-5.4", clock, retry: false }), "Hi");
    await eventually(async () => {
      await clock.advance(1000);
      expect(server.requests).toContain("POST /responses/resp_1/cancel");
    });
    expect((await reply).error).toMatchObject({
      reason: "timeout",
      message: "openai: the response did not end within 5000 ms",
    });
    expect(server.requests).toEqual(["POST /responses", "POST /responses/resp_1/cancel"]);
  });
});

describe("resume", () => {
  const reference = () => ({ endpoint: `${server.url}#openai-responses`, responseId: "resp_1" });
  const resume = (adapter = model(), given: JsonObject = reference()) => {
    if (adapter.resume === undefined) throw new Error("the adapter cannot resume");
    return read(adapter.resume(given, modelRequest, callOf()));
  };
  /** Reads until the first text and stops, like a process that crashes then. */
  async function abandoned(adapter = model()): Promise<void> {
    for await (const batch of adapter.stream(modelRequest, callOf())) if (deltas(batch) !== "") return;
  }

  test("reads an ended response with one request", async () => {
    await abandoned();
    expect(summary(await resume())).toEqual(completeSummary);
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1"]);
  });

  test("streams a response that is still running, from its beginning", async () => {
    server.ready = 4;
    await abandoned();
    const reading = resume();
    await eventually(() => expect(server.requests).toHaveLength(3));
    server.finish();
    expect(summary(await reading)).toEqual(completeSummary);
    expect(server.requests.slice(1)).toEqual(["GET /responses/resp_1", "GET /responses/resp_1?stream=true"]);
  });

  test("emits only a failure if the response failed, was deleted or belongs to another server", async () => {
    server.ready = 4;
    await abandoned();
    server.finish("failed");
    expect(summary(await resume())).toMatchObject({ failure: "provider_unavailable", deltas: "", usages: 1, ends: 1 });
    server.knows = false;
    const gone = { starts: 1, deltas: "", failure: "invalid_request", ends: 1 };
    expect(summary(await resume())).toMatchObject(gone);
    const before = server.requests.length;
    expect(summary(await resume(model(), { endpoint: "elsewhere", responseId: "resp_1" }))).toMatchObject(gone);
    expect(server.requests).toHaveLength(before);
  });

  test("goes to the adapter of the reference when there are several", async () => {
    const references: JsonObject[] = [];
    const onReference = (one: JsonObject) => void references.push(one);
    const all = providers({ cloud: model(), other: model() });
    const named = (name: string) => request([user("Hi")], { model: `${name}:gpt-5.4` });
    await read(all.stream(named("cloud"), callOf({ onReference })));
    const [first = {}] = references;
    const again = await read(all.resume?.(first, named("cloud"), callOf()) ?? all.stream(modelRequest, callOf()));
    expect(summary(again)).toEqual(completeSummary);
    const elsewhere = await read(all.resume?.(first, named("other"), callOf()) ?? all.stream(modelRequest, callOf()));
    expect(summary(elsewhere)).toMatchObject({ failure: "invalid_request", ends: 1 });
    await all.cancel?.(first, callOf());
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1", "POST /responses/resp_1/cancel"]);
  });
});

describe("a run in memory", () => {
  test("cancels the response when it is cancelled", async () => {
    server.ready = 4;
    const stop = new AbortController();
    const running = stream(engine({ adapter: model(), model: "gpt-5.4" }), "Hi", { signal: stop.signal });
    for await (const { type } of running) if (type === "text_delta") stop.abort();
    expect(await running.result).toMatchObject({ haltedReason: "cancelled" });
    await eventually(() => expect(server.requests).toContain("POST /responses/resp_1/cancel"));
    expect(server.requests).toHaveLength(2);
  });

  test("cancels nothing when it completes, and counts its usage once", async () => {
    server.cuts = [2, 4];
    const result = await chat(engine({ adapter: model(), model: "gpt-5.4" }), "Hi");
    expect(result.usage).toMatchObject({ inputTokens: 11, outputTokens: 7, totalTokens: 18 });
    expect(server.requests.filter((one) => one.startsWith("POST"))).toEqual(["POST /responses"]);
  });
});
