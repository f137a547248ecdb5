// Operations and routes that declare nothing about what they use: the handler bounds the pages that they hold in memory,
// and their implementations cannot acquire or release a permit.

import type { OperationCall } from "./routes/operation-route.ts";
import type { PermittedCall, RouteCall } from "./routes/route.ts";

import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, expectTypeOf, test } from "vitest";

import { trialDialect, trialPaths } from "../../../test/trial-dialect.ts";
import { readsAtOnce } from "../../durable/internal.ts";

const attacker = "the-token-of-the-attacker";
const innocent = "the-token-of-the-innocent";
const pageLength = 300_000;
const bodyLength = JSON.stringify({ text: "" }).length + pageLength;
/** Room for ten pages. */
const bufferBytesPerTenant = 10.5 * pageLength;

/** A handler with the routes. `mostAtOnce` is the largest number of pages that were being made at the same time. */
function world() {
  let [atOnce, mostAtOnce] = [0, 0];
  const page = async () => {
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    // Like a read of a database: other requests run meanwhile.
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
    return { text: "x".repeat(pageLength) };
  };
  const agent = engine({ adapter: fake({ script: [] }), model: "fake:m" });
  const handler = createHandler({
    sessions: runtime({ host: memoryStorage(), engines: { default: agent } }),
    auth: [
      { token: attacker, tenant: "attacker" },
      { token: innocent, tenant: "innocent" },
    ],
    dialects: [trialDialect(page)],
    limits: { bufferBytesPerTenant },
    // A clock that stands still, so that no client counts as stalled.
    clock: handClock(),
  });
  const get = (path: string, token: string) =>
    handler(new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${token}` } }));
  return { get, mostAtOnce: () => mostAtOnce };
}

describe.each(trialPaths)("%s, which declares nothing", (path) => {
  test("holds few pages while 300 clients do not read, and serves another tenant", async () => {
    const { get, mostAtOnce } = world();
    const stalled = Promise.all(Array.from({ length: 300 }, () => get(path, attacker)));
    const meanwhile = await get(path, innocent);
    expect([meanwhile.status, (await meanwhile.text()).length]).toEqual([200, bodyLength]);
    const responses = await stalled;
    const answered = responses.filter(({ status }) => status === 200);
    expect(answered).toHaveLength(10);
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const { each = 0, total = 0 } = readsAtOnce;
    expect(mostAtOnce()).toBeGreaterThan(0);
    expect(mostAtOnce()).toBeLessThanOrEqual(Math.min(total, each + 1));
    // Nothing is held after the clients have disconnected.
    expect((await get(path, attacker)).status).toBe(429);
    for (const { body } of answered) await body?.cancel();
    const after = await get(path, attacker);
    expect([after.status, (await after.text()).length]).toEqual([200, bodyLength]);
  });
});

test("an implementation sees no permit of its request", () => {
  type Permits = Exclude<keyof PermittedCall, keyof RouteCall>;
  expectTypeOf<Permits>().toEqualTypeOf<"server" | "input" | "releaseRequestPermit" | "pagePermit">();
  expectTypeOf<keyof OperationCall<"/trial", object, null> & Permits>().toEqualTypeOf<never>();
});
