// The rate limit: no minute contains more requests or tokens than allowed, in one process or in several that share a
// storage.

import type { Clock, Usage } from "everturn";
import type { Middleware, ModelCall } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";
import type { HandClock } from "everturn/testing";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chat, engine, fake, user } from "everturn";
import { request, usage } from "everturn/advanced";
import { rateLimit, readReply, replyEvents } from "everturn/middleware";
import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { handClock } from "everturn/testing";
import Libsql from "libsql";
import { describe, expect, test } from "vitest";

import { says } from "../../../test/runs.ts";

type Options = Parameters<typeof rateLimit>[0];

/** An engine with a rate limit, and the times at which its calls were sent. */
function limited<C extends Clock = HandClock>(options: Options, clock: C, tokens = 0, sent: number[] = []) {
  const adapter = fake({
    scripts: Array.from({ length: 500 }, () => says("ok")),
    usage: { inputTokens: tokens, outputTokens: 0 },
  });
  const timed = {
    ...adapter,
    stream: (...args: Parameters<typeof adapter.stream>) => {
      sent.push(clock.now());
      return adapter.stream(...args);
    },
  };
  const middleware = [rateLimit(options)];
  return { clock, sent, agent: engine({ adapter: timed, model: "fake:m", middleware, clock, retry: false }) };
}

/** A clock on which a sleep takes no time: it sets the time to its end. */
function skippingClock(): Clock & { skip: (ms: number) => void } {
  let now = 0;
  const skip = (ms: number) => {
    now += ms;
  };
  return { now: () => now, random: () => 0, sleep: (ms) => Promise.resolve(skip(ms)), skip };
}

/** Makes a model call through a middleware, without an engine, and returns the time at which it was sent. */
async function timeOfCall({ model }: Middleware, clock: Clock, usage: Usage | null = null): Promise<number> {
  let sentAt = -1;
  async function* adapter() {
    sentAt = clock.now();
    yield [...replyEvents("ok"), ...(usage === null ? [] : [{ type: "usage", usage } as const])];
  }
  const call: ModelCall = {
    request: request([user("hi")], { model: "m" }),
    provider: "fake",
    effectId: "e",
    attempt: 1,
    requestId: "r",
    sessionId: null,
    tenant: null,
    endpoint: null,
    signal: new AbortController().signal,
    clock,
    options: {},
    context: {},
    note: () => undefined,
    once: async (_key, work) => work(),
    addUsage: () => undefined,
  };
  const stream = await model?.(call, adapter);
  if (stream !== undefined) await readReply(stream);
  return sentAt;
}

/** Alternates between two engines. */
function pick<T>(agents: readonly T[], n: number): T {
  const agent = agents[n % agents.length];
  if (agent === undefined) throw new Error("there is no engine");
  return agent;
}

/** The largest number of times within any 60 seconds. */
function busiestMinute(times: readonly number[]): number {
  return Math.max(...times.map((start) => times.filter((time) => time >= start && time < start + 60_000).length));
}

describe("requestsPerMinute", () => {
  test("delays calls beyond the limit until the minute has passed, in order", async () => {
    const { agent, clock, sent } = limited({ requestsPerMinute: 2 }, handClock());
    const order: number[] = [];
    const running = [0, 1, 2, 3, 4].map((n) => chat(agent, String(n)).then(() => order.push(n)));
    await expect.poll(() => sent).toEqual([0, 0]);
    await clock.advance(1000);
    expect(sent).toEqual([0, 0]);
    await clock.advance(59_000);
    await expect.poll(() => sent).toEqual([0, 0, 60_000, 60_000]);
    await clock.advance(60_000);
    await Promise.all(running);
    expect(sent).toEqual([0, 0, 60_000, 60_000, 120_000]);
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  test("no minute has more calls than the limit, whenever they arrive", async () => {
    const { agent, clock, sent } = limited({ requestsPerMinute: 7 }, skippingClock());
    for (let n = 0; n < 40; n += 1) {
      await chat(agent, "hi");
      clock.skip((n * 7919) % 9000);
    }
    expect(busiestMinute(sent)).toBe(7);
  });

  test("each model has a window of its own, and key changes that", async () => {
    const { agent, sent } = limited({ requestsPerMinute: 1 }, handClock());
    await chat(agent, "hi");
    await chat(agent, "hi", { model: "fake:other" });
    expect(sent).toHaveLength(2);
    const { agent: joined, sent: times, clock } = limited({ requestsPerMinute: 1, key: () => "all" }, handClock());
    await chat(joined, "hi");
    const second = chat(joined, "hi", { model: "fake:other" });
    await clock.advance(59_000);
    expect(times).toHaveLength(1);
    await clock.advance(1000);
    await second;
  });

  test("a call that waits can be cancelled, and the next one in line is sent", async () => {
    const { agent, clock, sent } = limited({ requestsPerMinute: 1 }, handClock());
    await chat(agent, "0");
    const stop = new AbortController();
    const cancelled = chat(agent, "1", { signal: stop.signal });
    const next = chat(agent, "2");
    await clock.advance(1000);
    stop.abort();
    expect((await cancelled).haltedReason).toBe("cancelled");
    await clock.advance(60_000);
    expect((await next).haltedReason).toBe("completed");
    expect(sent).toHaveLength(2);
  });

  test("maxWaitMs fails the call with rate_limited and the time to wait", async () => {
    const { agent, clock } = limited({ requestsPerMinute: 1, maxWaitMs: 10_000 }, handClock());
    await chat(agent, "0");
    await expect(chat(agent, "1")).rejects.toMatchObject({ failure: { reason: "rate_limited", retryAfterMs: 60_000 } });
    await clock.advance(55_000);
    const second = chat(agent, "2");
    await clock.advance(5000);
    expect((await second).haltedReason).toBe("completed");
  });
});

describe("tokensPerMinute", () => {
  /** The times of six calls, each of which is estimated and uses these numbers of tokens. */
  async function times(tokensPerMinute: number, estimate: number, used: number): Promise<readonly number[]> {
    const { agent, sent } = limited({ tokensPerMinute, estimateTokens: () => estimate }, skippingClock(), used);
    for (let n = 0; n < 6; n += 1) await chat(agent, "hi");
    return sent;
  }

  test("counts what the provider reports in place of the estimate", async () => {
    // Each call reserves 600 tokens and uses 100.
    expect(await times(1000, 600, 100)).toEqual([0, 0, 0, 0, 0, 60_000]);
  });

  test("a call that uses more than estimated delays the next one", async () => {
    expect(await times(1000, 1, 500)).toEqual([0, 0, 60_000, 60_000, 120_000, 120_000]);
  });

  test("a call larger than the limit is sent when the window is empty", async () => {
    expect(await times(10, 5000, 5000)).toEqual([0, 60_000, 120_000, 180_000, 240_000, 300_000]);
  });

  test("an estimate stays if the provider reports no tokens, and may be infinite", async () => {
    for (const estimate of [80, Infinity]) {
      const clock = skippingClock();
      const limit = rateLimit({
        tokensPerMinute: 100,
        estimateTokens: () => estimate,
        storage: memoryStorage({ clock }),
      });
      expect(await timeOfCall(limit, clock, usage())).toBe(0);
      expect(await timeOfCall(limit, clock, usage())).toBe(60_000);
    }
  });

  test("the default estimate counts text and maxTokens", async () => {
    const { agent, sent } = limited({ tokensPerMinute: 100 }, skippingClock(), 90);
    // 50 tokens of text and 40 of the reply.
    for (let n = 0; n < 2; n += 1) await chat(agent, "x".repeat(200), { maxTokens: 40 });
    expect(sent).toEqual([0, 60_000]);
  });
});

describe("a shared limit", () => {
  test("two processes share one limit on a memory storage", async () => {
    const clock = skippingClock();
    const storage = memoryStorage({ clock });
    const sent: number[] = [];
    const agents = [0, 1].map(() => limited({ requestsPerMinute: 5, storage }, clock, 0, sent).agent);
    await Promise.all(Array.from({ length: 12 }, (_, n) => chat(pick(agents, n), "hi")));
    expect(sent).toHaveLength(12);
    expect(busiestMinute(sent)).toBe(5);
  });

  test("two SQLite connections share one limit, also under concurrent calls", async () => {
    const folder = mkdtempSync(join(tmpdir(), "everturn-rate-"));
    try {
      const databases = [0, 1].map(() => new Libsql(join(folder, "test.db")));
      const storages: HostStorage[] = databases.map((database) => sqliteStorage(database));
      const sent: number[] = [];
      // The clock of the storage is the system's: within the test no minute passes.
      const agents = storages.map(
        (storage) => limited({ requestsPerMinute: 6, storage, maxWaitMs: 1 }, handClock(), 0, sent).agent,
      );
      const ended = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => chat(pick(agents, n), "hi")));
      expect(sent).toHaveLength(6);
      expect(ended.filter(({ status }) => status === "rejected")).toHaveLength(14);
      for (const database of databases) database.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("many calls keep the stored window small, and it stays a limit", async () => {
    const clock = skippingClock();
    const storage = memoryStorage({ clock });
    const limit = rateLimit({ requestsPerMinute: 400, storage });
    const sent: number[] = [];
    for (let n = 0; n < 900; n += 1) {
      sent.push(await timeOfCall(limit, clock));
      clock.skip(n % 100);
    }
    expect(busiestMinute(sent)).toBeLessThanOrEqual(400);
    expect(sent.at(-1)).toBeLessThan(180_000);
    const [rows = []] = await storage.read([{ table: "shared", prefix: [] }]);
    expect(rows[0]?.value.length).toBeLessThan(10_000);
  });

  test("windows that are not used for an hour are removed, and others stay", async () => {
    const clock = skippingClock();
    const storage = memoryStorage({ clock });
    let user = "";
    const limit = rateLimit({ requestsPerMinute: 5, storage, key: () => user });
    const callOf = async (name: string) => {
      user = name;
      await timeOfCall(limit, clock);
    };
    for (let n = 0; n < 250; n += 1) await callOf(`early ${n}`);
    clock.skip(50 * 60_000);
    await callOf("early 7");
    clock.skip(50 * 60_000);
    for (let n = 0; n < 9; n += 1) await callOf(`late ${n}`);
    const [rows = []] = await storage.read([{ table: "shared", prefix: [] }]);
    expect(rows.map(({ key }) => key[2])).toEqual(["early 7", ...Array.from({ length: 9 }, (_, n) => `late ${n}`)]);
  });

  test("a row that cannot be read is an empty window", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const key = ["rate_limit/rate_limit", 0, "fake:m"] as const;
    await storage.write({
      checks: [],
      removals: [],
      puts: [{ table: "shared", key, tag: 3, value: "{", ttlMs: 1000 }],
    });
    const { agent } = limited({ requestsPerMinute: 1, storage }, clock);
    expect((await chat(agent, "hi")).haltedReason).toBe("completed");
  });
});

test("refuses wrong options", () => {
  expect(() => rateLimit({})).toThrow("requestsPerMinute");
  expect(() => rateLimit({ requestsPerMinute: 0 })).toThrow("1 or more");
  expect(() => rateLimit({ requestsPerMinute: 0.5 })).toThrow("1 or more");
  expect(() => rateLimit(JSON.parse('{"requestsPerMinute":1,"perMinute":2}'))).toThrow('unknown option "perMinute"');
});
