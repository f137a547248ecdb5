// Tenants share the turns of the event loop.

import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { TenantTurns } from "./tenant-turns.ts";

describe("the work of a tenant", () => {
  /** Begins units of work and returns the turns of the event loop in which they began, in order. */
  async function turnsOf(perTurn: number, tenants: readonly string[]) {
    const turns = new TenantTurns(perTurn);
    const begun: { readonly tenant: string; readonly turn: number; readonly index: number }[] = [];
    let turn = 0;
    // Counts first in each turn of the event loop.
    const tick = () => {
      turn += 1;
      if (begun.length < tenants.length) setImmediate(tick);
    };
    setImmediate(tick);
    const works = tenants.map(async (tenant, index) => {
      await turns.next(tenant);
      begun.push({ tenant, turn, index });
    });
    await Promise.all(works);
    return begun;
  }

  test("begins a few units in a turn of the event loop, in order", async () => {
    const begun = await turnsOf(
      2,
      Array.from({ length: 7 }, () => "a"),
    );
    expect(begun.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    const counts = begun.map(({ turn }) => begun.filter((other) => other.turn === turn).length);
    expect(Math.max(...counts)).toBe(2);
  });

  test("does not delay another tenant", async () => {
    const begun = await turnsOf(2, [...Array.from({ length: 20 }, () => "a"), "b"]);
    expect(begun.find(({ tenant }) => tenant === "b")?.turn).toBe(0);
  });

  test("begins at once again when its turn is over", async () => {
    const turns = new TenantTurns(1);
    expect(turns.next("a")).toBeNull();
    const second = turns.next("a");
    expect(second).not.toBeNull();
    await second;
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(turns.next("a")).toBeNull();
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
  // Eight of the others begin in the same turn of the event loop.
  expect(begun.indexOf("bob")).toBeLessThanOrEqual(8);
});
