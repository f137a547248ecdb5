// Operations and routes that declare nothing about what they use: the handler bounds the pages that they hold in
// memory, and their implementations cannot acquire or release a permit.

import type { OperationCall } from "./routes/operation-route.ts";
import type { PermittedCall, Route, RouteCall } from "./routes/route.ts";

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, expectTypeOf, test } from "vitest";

import { trialDialect, trialPaths } from "../../../test/trial-dialect.ts";
import { readsAtOnce } from "../../durable/internal.ts";

const serve = join(import.meta.dirname, "..");
const read = (name: string): string => readFileSync(join(serve, name), "utf8");

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

test("a route is made of a declaration only: no other value is one", () => {
  // An object with the fields of a route, and a handler that gets the permits.
  type ByHand = Omit<Route, "answer"> & {
    readonly answer: { readonly to: (call: PermittedCall) => Promise<Response> };
  };
  expectTypeOf<ByHand>().not.toExtend<Route>();
  // The files that make routes of declarations, or that acquire a permit.
  const files = readdirSync(serve, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const taking = files.filter(
    (name) =>
      !name.endsWith(".test.ts") && /\b(?:new Answer|acquire(?:Page|Stream|Turn)|pagePermit)\(/.test(read(name)),
  );
  expect(taking.toSorted()).toEqual([
    "http/request-steps.ts",
    "http/routes/dialect-route.ts",
    "http/routes/operation-route.ts",
    "http/routes/permits.ts",
    "http/routes/turn-answer.ts",
    "http/server-context.ts",
  ]);
});

test("an implementation sees no permit of its request", () => {
  type Permits = Exclude<keyof PermittedCall, keyof RouteCall>;
  expectTypeOf<Permits>().toEqualTypeOf<"server" | "input" | "releaseRequestPermit" | "pagePermit">();
  expectTypeOf<keyof OperationCall<"/trial", object, null> & Permits>().toEqualTypeOf<never>();
});
