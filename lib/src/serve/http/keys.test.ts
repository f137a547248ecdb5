// Stored API keys: what a key may do, how long, and how soon a change is effective.

import type { KeyGrant } from "everturn/http";

import { engine, fake } from "everturn";
import { storageTables } from "everturn/advanced";
import { createHandler, storedKeys } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

const adminToken = "the-token-of-the-administrator";

function world() {
  const clock = handClock();
  const host = memoryStorage({ clock });
  const agent = engine({
    adapter: fake({ scripts: Array.from({ length: 9 }, () => [{ type: "text", text: "Hello!" }]) }),
    model: "fake:m",
    clock,
  });
  const sessions = runtime({ host, engines: { default: agent, other: agent }, clock });
  const handler = createHandler({
    sessions,
    admin: true,
    clock,
    auth: [{ token: adminToken, operator: true, name: "root" }],
    address: (request) => request.headers.get("x-test-address"),
  });
  const send = async (token: string, path: string, init: { method?: string; body?: object; headers?: object } = {}) => {
    const { method = "GET", body, headers } = init;
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", prefer: "wait=5", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    return {
      status: response.status,
      headers: response.headers,
      json: async () => JSON.parse(await response.text()),
      text: () => response.text(),
    };
  };
  return { clock, host, handler, send, sessions, keys: storedKeys({ host, clock }) };
}

const grant: KeyGrant = { name: "ada", tenant: "shop" };

describe("a stored key", () => {
  test("is a caller with its name, tenant, scopes and engines", async () => {
    const { send, keys } = world();
    const { token } = await keys.create({ ...grant, scopes: ["read", "write"], engines: ["other"] });
    const started = await send(token, "/sessions", { method: "POST", body: { id: "s1", input: "hi" } });
    expect(started.status).toBe(200);
    const view = await (await send(token, "/sessions/s1")).json();
    expect(view).toMatchObject({ owner: "ada", engine: "other" });
    const named = { "everturn-tenant": "shop" };
    expect(await (await send(adminToken, "/sessions/s1", { headers: named })).json()).toMatchObject({ owner: "ada" });
    expect((await send(adminToken, "/sessions/s1")).status).toBe(404);
    const decision = { toolCallId: "c1", digest: "d", type: "approve" };
    expect((await send(token, "/sessions/s1/decisions", { method: "POST", body: decision })).status).toBe(403);
  });

  test("is stored without its secret, which is shown once", async () => {
    const { send, host } = world();
    const made = await (await send(adminToken, "/keys", { method: "POST", body: grant })).json();
    const secret = String(made.token).split("_")[2] ?? "";
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(await (await send(adminToken, "/keys")).text()).not.toContain(secret);
    const tables = Object.keys(storageTables) as (keyof typeof storageTables)[];
    const rows = await host.read(tables.map((table) => ({ table, prefix: [] })));
    expect(JSON.stringify(rows)).toContain(made.key.id);
    expect(JSON.stringify(rows)).not.toContain(secret);
  });

  test("is refused with another secret, with another id, and by a handler without stored keys", async () => {
    const { send, keys, sessions } = world();
    const [{ token }, other] = [await keys.create(grant), await keys.create(grant)];
    expect((await send(token, "/sessions")).status).toBe(200);
    const swapped = token.slice(0, 21) + other.token.slice(21);
    const altered = token.slice(0, -1) + (token.endsWith("0") ? "1" : "0");
    for (const wrong of [swapped, altered, `${token}0`]) expect((await send(wrong, "/sessions")).status).toBe(401);
    const without = createHandler({ sessions, auth: [{ token: adminToken }] });
    const headers = { authorization: `Bearer ${token}` };
    expect((await without(new Request("http://localhost/sessions", { headers }))).status).toBe(401);
    expect((await without(new Request("http://localhost/keys", { headers }))).status).toBe(404);
  });

  test("expires", async () => {
    const { send, keys, clock } = world();
    const { token } = await keys.create({ ...grant, ttlMs: 60_000 });
    await clock.advance(59_999);
    expect((await send(token, "/sessions")).status).toBe(200);
    await clock.advance(1);
    expect((await send(token, "/sessions")).status).toBe(401);
    expect((await keys.list())[0]?.state).toBe("expired");
  });

  test("is revoked with the next request", async () => {
    const { send, keys } = world();
    const { token, key } = await keys.create(grant);
    expect((await send(token, "/sessions")).status).toBe(200);
    expect(await (await send(adminToken, `/keys/${key.id}/revoke`, { method: "POST" })).json()).toMatchObject({
      state: "revoked",
    });
    expect((await send(token, "/sessions")).status).toBe(401);
  });

  test("is rotated: the caller stays, and the old token ends after the grace period", async () => {
    const { send, keys, clock } = world();
    const { token, key } = await keys.create({ ...grant, ttlMs: 3_600_000 });
    await send(token, "/sessions", { method: "POST", body: { id: "s1", input: "hi" } });
    const rotated = await keys.rotate(key.id, { graceMs: 1000 });
    expect(rotated.key).toMatchObject({ name: "ada", tenant: "shop", state: "valid", expiresAt: key.expiresAt });
    for (const valid of [token, rotated.token]) expect((await send(valid, "/sessions/s1")).status).toBe(200);
    await clock.advance(1000);
    expect((await send(token, "/sessions/s1")).status).toBe(401);
    expect((await send(rotated.token, "/sessions/s1")).status).toBe(200);
    await expect(keys.rotate(key.id)).rejects.toThrow(/is expired: create a new one/);
    const again = await keys.rotate(rotated.key.id);
    expect((await send(rotated.token, "/sessions/s1")).status).toBe(401);
    expect((await send(again.token, "/sessions/s1")).status).toBe(200);
  });

  test("ends its streams when it is revoked, and those of other keys go on", async () => {
    const { handler, keys, clock, send } = world();
    const [first, second] = [await keys.create(grant), await keys.create(grant)];
    await send(first.token, "/sessions", { method: "POST", body: { id: "s1", input: "hi" } });
    const streams = await Promise.all(
      [first, second].map(async ({ token }) => {
        const headers = { authorization: `Bearer ${token}` };
        const response = await handler(new Request("http://localhost/sessions/s1/events", { headers }));
        const reader = response.body?.getReader();
        if (reader === undefined) throw new Error("no body");
        return reader;
      }),
    );
    const [revoked, valid] = streams;
    expect((await revoked?.read())?.done).toBe(false);
    await keys.revoke(first.key.id);
    const rest = (async () => {
      for (;;) if ((await revoked?.read())?.done === true) return "ended";
    })();
    await clock.advance(1000);
    expect(await rest).toBe("ended");
    expect((await valid?.read())?.done).toBe(false);
    await valid?.cancel();
  });

  test.each<[string, object]>([
    ["without a name", { name: " " }],
    ["with the scope admin, which is for operators", { name: "ada", scopes: ["admin"] }],
    ["with an unknown scope", { name: "ada", scopes: ["all"] }],
    ["with an empty list of engines", { name: "ada", engines: [] }],
    ["with a name of a key", { name: "key:1234" }],
  ])("is not created %s", async (_, body) => {
    const { send, keys } = world();
    expect((await send(adminToken, "/keys", { method: "POST", body })).status).toBe(400);
    expect(await keys.list()).toEqual([]);
  });

  test("with the scope admin and a tenant does not leave the tenant", async () => {
    const { send, keys } = world();
    const { token } = await keys.create({ name: "lead", tenant: "shop", operator: true, scopes: ["read", "admin"] });
    expect((await send(token, "/sessions")).status).toBe(200);
    expect((await send(token, "/keys")).status).toBe(403);
    expect((await send(token, "/sessions", { headers: { "everturn-tenant": "other" } })).status).toBe(403);
  });
});

describe("failed attempts to authenticate", () => {
  const bad = `evk_${"0".repeat(16)}_${"0".repeat(64)}`;
  const from = (address: string) => ({ headers: { "x-test-address": address } });

  test("are limited for each address, and valid keys go on to work", async () => {
    const { send, keys, clock, host } = world();
    const [{ token }, fresh] = [await keys.create(grant), await keys.create(grant)];
    expect((await send(token, "/sessions", from("10.0.0.1"))).status).toBe(200);
    const statuses = [];
    for (let count = 0; count < 25; count += 1) statuses.push((await send(bad, "/sessions", from("10.0.0.1"))).status);
    expect(statuses).toEqual([...Array.from({ length: 20 }, () => 401), ...Array.from({ length: 5 }, () => 429)]);
    const limited = await send("another-wrong-token", "/sessions", from("10.0.0.1"));
    expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "60"]);
    expect((await send(bad, "/sessions", from("10.0.0.2"))).status).toBe(401);
    // Keys of the configuration, and stored ones that were valid before.
    expect((await send(adminToken, "/sessions", from("10.0.0.1"))).status).toBe(200);
    expect((await send(token, "/sessions", from("10.0.0.1"))).status).toBe(200);
    // The storage is not asked about others.
    expect((await send(fresh.token, "/sessions", from("10.0.0.1"))).status).toBe(429);
    expect((await send(fresh.token, "/sessions", from("10.0.0.3"))).status).toBe(200);
    await clock.advance(60_000);
    expect((await send(bad, "/sessions", from("10.0.0.1"))).status).toBe(401);
    expect(host.durability).toBe("volatile");
  });

  test("are not limited if the address is not known", async () => {
    const { send } = world();
    for (let count = 0; count < 30; count += 1) expect((await send(bad, "/sessions")).status).toBe(401);
  });
});

describe("administrators", () => {
  test("list the tenants, and delete the sessions of a user or a tenant with their keys", async () => {
    const { send, keys, sessions } = world();
    const made = await Promise.all(
      [grant, { ...grant, name: "bob" }, { name: "ada", tenant: "other" }].map((given) => keys.create(given)),
    );
    for (const [index, { token }] of made.entries())
      for (const id of ["a", "b"])
        await send(token, "/sessions", { method: "POST", body: { id: `${id}${index}`, input: "hi" } });
    expect(await (await send(adminToken, "/tenants")).json()).toEqual({ items: ["other", "shop"], next: null });
    expect(await (await send(adminToken, "/tenants?limit=1&after=other")).json()).toMatchObject({ items: ["shop"] });
    const shop = { method: "DELETE", headers: { "everturn-tenant": "shop" } };
    expect((await send(adminToken, "/sessions", shop)).status).toBe(400);
    expect(await (await send(adminToken, "/sessions?owner=ada", shop)).json()).toEqual({ sessions: 2, keys: 1 });
    const ids = async (tenant: string) => (await sessions.tenant(tenant).list()).items.map(({ id }) => id).toSorted();
    expect([await ids("shop"), await ids("other")]).toEqual([
      ["a1", "b1"],
      ["a2", "b2"],
    ]);
    expect((await Promise.all(made.map(({ token }) => send(token, "/sessions")))).map(({ status }) => status)).toEqual([
      401, 200, 200,
    ]);
    expect(await (await send(adminToken, "/sessions?all=true", shop)).json()).toEqual({ sessions: 2, keys: 1 });
    expect([await ids("shop"), await ids("other")]).toEqual([[], ["a2", "b2"]]);
  });

  test("read the audit log: who did what, when, without texts", async () => {
    const { send, keys, clock } = world();
    await clock.advance(5000);
    const { token, key } = await keys.create(grant, { by: "ops" });
    await send(token, "/sessions", { method: "POST", body: { id: "s1", input: "a secret text" } });
    await send(token, "/sessions/s1", { method: "DELETE" });
    await send(adminToken, `/keys/${key.id}/revoke`, { method: "POST" });
    const page = await (await send(adminToken, "/audit")).json();
    expect(page).toMatchObject({
      items: [
        { action: "key_revoke", actor: "root", tenant: "shop", target: key.id },
        {
          action: "delete",
          actor: "ada",
          tenant: "shop",
          sessionId: "s1",
          digest: expect.stringMatching(/^[0-9a-f]{16}$/),
        },
        { action: "key_create", actor: "ops", tenant: "shop", target: key.id, at: 5000 },
      ],
      next: null,
    });
    expect(JSON.stringify(page)).not.toContain("secret");
    const first = await (await send(adminToken, "/audit?limit=1")).json();
    const rest = await (await send(adminToken, `/audit?after=${first.next}`)).json();
    expect([...first.items, ...rest.items]).toEqual(page.items);
    const filtered = await (await send(adminToken, "/audit?session=s1&tenant=shop&actor=ada")).json();
    expect(filtered.items).toHaveLength(1);
    expect((await (await send(adminToken, "/audit?tenant=other")).json()).items).toEqual([]);
    const actionsOf = async (query: string): Promise<readonly string[]> =>
      (await (await send(adminToken, `/audit?${query}`)).json()).items.map(({ action }: { action: string }) => action);
    expect(await actionsOf("action=delete")).toEqual(["delete"]);
    await clock.advance(1000);
    await keys.create(grant);
    expect(await actionsOf("from=5001")).toEqual(["key_create"]);
    expect(await actionsOf("until=6000")).toEqual(["key_revoke", "delete", "key_create"]);
    expect(await actionsOf("from=5000&until=5000")).toEqual([]);
    expect(await actionsOf(`until=6000&after=${first.next}`)).toEqual(["delete", "key_create"]);
  });
});
