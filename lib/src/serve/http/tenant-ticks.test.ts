// Tenants share the ticks of the event loop.

import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { FairTicks } from "../../core/fair/fair-ticks.ts";

describe("the work of a tenant", () => {
  /** Begins units of work and returns the ticks of the event loop in which they began, in order. */
  async function ticksOf(perTick: number, tenants: readonly string[]) {
    const ticks = new FairTicks(perTick);
    const begun: { readonly tenant: string; readonly tick: number; readonly index: number }[] = [];
    let tick = 0;
    // Counts first in each tick of the event loop.
    const count = () => {
      tick += 1;
      if (begun.length < tenants.length) setImmediate(count);
    };
    setImmediate(count);
    const works = tenants.map(async (tenant, index) => {
      await ticks.next(tenant);
      begun.push({ tenant, tick, index });
    });
    await Promise.all(works);
    return begun;
  }

  test("begins a few units in a tick of the event loop, in order", async () => {
    const begun = await ticksOf(
      2,
      Array.from({ length: 7 }, () => "a"),
    );
    expect(begun.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    const counts = begun.map(({ tick }) => begun.filter((other) => other.tick === tick).length);
    expect(Math.max(...counts)).toBe(2);
  });

  test("does not delay another tenant", async () => {
    const begun = await ticksOf(2, [...Array.from({ length: 20 }, () => "a"), "b"]);
    expect(begun.find(({ tenant }) => tenant === "b")?.tick).toBe(0);
  });

  test("begins at once again when its tick is over", async () => {
    const ticks = new FairTicks(1);
    expect(ticks.next("a")).toBeNull();
    const second = ticks.next("a");
    expect(second).not.toBeNull();
    await second;
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(ticks.next("a")).toBeNull();
  });
});

test("a request is not delayed by requests of another tenant that arrived before it", async () => {
  const agent = engine({ adapter: fake({ script: [] }), model: "fake:m" });
  const handler = createHandler({
    sessions: runtime({ host: memoryStorage(), engines: { default: agent } }),
    auth: (request) => ({ tenant: request.headers.get("x-tenant") ?? "" }),
  });
  /** The tenants of the requests, in the order in which their bodies are read. */
  const begun: string[] = [];
  const post = (tenant: string) => {
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      begun.push(tenant);
      controller.close();
    };
    const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 });
    const headers = { "x-tenant": tenant, "content-type": "application/json" };
    return handler(new Request("http://localhost/sessions", { method: "POST", headers, body, duplex: "half" }));
  };
  await post("ada");
  begun.length = 0;
  const responses = [...Array.from({ length: 100 }, () => post("ada")), post("bob")];
  expect(new Set((await Promise.all(responses)).map(({ status }) => status))).toEqual(new Set([400]));
  expect(begun).toHaveLength(101);
  // Eight of the others begin in the same tick of the event loop.
  expect(begun.indexOf("bob")).toBeLessThanOrEqual(8);
});
