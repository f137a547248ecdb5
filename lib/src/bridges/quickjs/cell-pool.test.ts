import type { CellReply, CellRequest } from "./cell-messages.ts";
import type { CellThread, ThreadListener } from "./cell-thread.ts";

import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { defaultCellLimits } from "../../core/engine/internal.ts";
import { CellPool } from "./cell-pool.ts";

/** A worker that the test controls. */
type HandThread = {
  readonly reply: (reply: CellReply) => void;
  readonly end: ThreadListener["ended"];
  /** Ends the worker after it was terminated. */
  readonly terminated: () => void;
  readonly requests: CellRequest[];
  isHeld: boolean;
  isTerminating: boolean;
};

const never = new AbortController().signal;
const finished = { type: "finished", observations: [], error: null, finish: null } as const;
const result: CellReply = { type: "result", result: finished };

function request(code: string, timeMs = 1000): CellRequest {
  return { code, calls: [], tools: [], limits: { ...defaultCellLimits, timeMs } };
}

function poolOf(size: number) {
  const threads: HandThread[] = [];
  const clock = handClock();
  const start = (listener: ThreadListener): CellThread => {
    let terminated: () => void = () => undefined;
    const end = new Promise<void>((resolve) => (terminated = resolve));
    const thread: HandThread = {
      reply: listener.replied,
      end: listener.ended,
      terminated: () => terminated(),
      requests: [],
      isHeld: true,
      isTerminating: false,
    };
    threads.push(thread);
    return {
      run: (given) => void thread.requests.push(given),
      terminate: () => {
        thread.isTerminating = true;
        return end;
      },
      hold: (busy) => void (thread.isHeld = busy),
    };
  };
  return { pool: new CellPool({ size, start, clock }), threads, clock };
}

/** Lets promises settle. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("a pool of workers", () => {
  test("starts at most `size` workers; further cells wait for a result", async () => {
    const { pool, threads } = poolOf(2);
    const runs = ["a", "b", "c"].map((code) => pool.run(request(code), never));
    await settled();
    expect(threads).toHaveLength(2);
    for (const { reply } of threads) reply({ type: "ready" });
    expect(threads.map(({ requests }) => requests.map(({ code }) => code))).toEqual([["a"], ["b"]]);
    threads[1]?.reply(result);
    await settled();
    expect(threads[1]?.requests.map(({ code }) => code)).toEqual(["b", "c"]);
    for (const { reply } of threads) reply(result);
    expect(await Promise.all(runs)).toEqual([finished, finished, finished]);
    expect(threads).toHaveLength(2);
  });

  test("a tenant with many cells leaves a worker to others, and they get workers round robin", async () => {
    const { pool, threads } = poolOf(3);
    const give = (tenant: string, count: number) =>
      Array.from({ length: count }, (_, index) => pool.run(request(`${tenant}${index}`), never, tenant));
    const runs = [...give("a", 4)];
    await settled();
    // The only tenant may use all workers.
    expect(threads).toHaveLength(3);
    for (const { reply } of threads) reply({ type: "ready" });
    runs.push(...give("b", 3));
    const started = () => threads.flatMap(({ requests }) => requests.map(({ code }) => code));
    threads[0]?.reply(result);
    await settled();
    expect(started()).toContain("b0");
    expect(started()).not.toContain("a3");
    threads[1]?.reply(result);
    await settled();
    // Each tenant has one worker, and the cell of `a` has waited longer.
    expect(started()).toContain("a3");
    threads[2]?.reply(result);
    threads[1]?.reply(result);
    await settled();
    expect(started()).toContain("b1");
    // `b` has two workers of three, and no other tenant waits: the third stays free.
    expect(started()).not.toContain("b2");
    runs.push(...give("c", 1));
    await settled();
    expect(started()).toContain("c0");
    for (let round = 0; round < 3; round += 1) {
      for (const { reply } of threads) reply(result);
      await settled();
    }
    expect(await Promise.all(runs)).toHaveLength(8);
  });

  test("terminates the worker of a cell at its deadline, and replaces it only when it has ended", async () => {
    const { pool, threads, clock } = poolOf(1);
    const first = pool.run(request("a", 500), never);
    const second = pool.run(request("b"), never);
    // The start of the worker is not part of the time of the cell.
    await clock.advance(5000);
    threads[0]?.reply({ type: "ready" });
    await clock.advance(499);
    expect(threads[0]?.isTerminating).toBe(false);
    await clock.advance(1);
    const message = "more than 500 milliseconds (limits.timeMs)";
    expect(await first).toEqual({ type: "failed", reason: "limit_exceeded", message });
    expect(threads[0]?.isTerminating).toBe(true);
    expect(threads).toHaveLength(1);
    threads[0]?.terminated();
    await settled();
    expect(threads).toHaveLength(2);
    threads[1]?.reply({ type: "ready" });
    // A late message of the old worker is ignored.
    threads[0]?.reply({ type: "result", result: { ...finished, observations: ["late"] } });
    threads[1]?.reply(result);
    expect(await second).toEqual(finished);
  });

  test("terminates the worker of a cell whose turn is cancelled, also while the worker starts", async () => {
    for (const isReady of [true, false]) {
      const { pool, threads } = poolOf(1);
      const controller = new AbortController();
      const run = pool.run(request("a"), controller.signal);
      await settled();
      if (isReady) threads[0]?.reply({ type: "ready" });
      controller.abort();
      expect(await run).toMatchObject({ type: "failed", message: "aborted" });
      expect(threads[0]?.isTerminating).toBe(true);
    }
  });

  test("does not start a worker for a cell that was cancelled while it waited", async () => {
    const { pool, threads } = poolOf(1);
    const controller = new AbortController();
    const first = pool.run(request("a"), never);
    const second = pool.run(request("b"), controller.signal);
    await settled();
    controller.abort();
    expect(await second).toMatchObject({ message: "aborted" });
    threads[0]?.reply({ type: "ready" });
    threads[0]?.reply(result);
    expect(await first).toEqual(finished);
    expect(threads[0]?.requests.map(({ code }) => code)).toEqual(["a"]);
  });

  test("fails the cell of a worker that ends, and the next cell gets a new worker", async () => {
    const { pool, threads } = poolOf(1);
    const first = pool.run(request("a"), never);
    await settled();
    threads[0]?.reply({ type: "ready" });
    threads[0]?.end({ outOfMemory: true, message: "heap" });
    expect(await first).toMatchObject({ type: "failed", reason: "limit_exceeded" });
    threads[0]?.terminated();
    await settled();
    const second = pool.run(request("b"), never);
    await settled();
    threads[1]?.reply({ type: "ready" });
    threads[1]?.end({ outOfMemory: false, message: "exit code 1" });
    expect(await second).toMatchObject({ reason: "failed", message: "the sandbox failed: exit code 1" });
  });

  test("rejects if a worker cannot be started, ends early, or does not load the interpreter in time", async () => {
    const { pool, threads, clock } = poolOf(4);
    const runs = ["a", "b", "c"].map((code) => pool.run(request(code), never));
    const expected = runs.map((run) => expect(run).rejects.toMatchObject({ name: "EngineError" }));
    await settled();
    threads[0]?.end({ outOfMemory: false, message: "no such file" });
    threads[1]?.reply({ type: "not_loaded", message: "Cannot find package" });
    await clock.advance(60_000);
    await Promise.all(expected);
    const refusing = new CellPool({
      size: 1,
      clock,
      start: () => {
        throw new Error("this platform has no workers");
      },
    });
    // Also the next one: what could not be started holds nothing.
    for (const code of ["a", "b"])
      await expect(refusing.run(request(code), never)).rejects.toThrow("this platform has no workers");
  });

  test("starts no worker beside an idle one that has not ended yet", async () => {
    const { pool, threads } = poolOf(1);
    const first = pool.run(request("a"), never);
    await settled();
    threads[0]?.reply({ type: "ready" });
    threads[0]?.reply(result);
    await first;
    threads[0]?.reply({ type: "idle" });
    const second = pool.run(request("b"), never);
    await settled();
    expect(threads).toHaveLength(1);
    threads[0]?.terminated();
    await settled();
    threads[1]?.reply({ type: "ready" });
    threads[1]?.reply(result);
    expect(await second).toEqual(finished);
  });

  test("holds the process only while a cell runs, and ends a worker that reports that it is idle", async () => {
    const { pool, threads } = poolOf(1);
    const run = pool.run(request("a"), never);
    await settled();
    threads[0]?.reply({ type: "ready" });
    expect(threads[0]?.isHeld).toBe(true);
    // The report was sent before the cell arrived.
    threads[0]?.reply({ type: "idle" });
    expect(threads[0]?.isTerminating).toBe(false);
    threads[0]?.reply(result);
    await run;
    expect(threads[0]?.isHeld).toBe(false);
    threads[0]?.reply({ type: "idle" });
    expect(threads[0]?.isTerminating).toBe(true);
  });
});
