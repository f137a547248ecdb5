// GET /overview: whose turns a caller sees, and which periods are refused.

import type { Auth } from "everturn/http";

import { engine, fake } from "everturn";
import { createInspector } from "everturn/client";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

const auth: Auth = [
  { token: "the-token-of-operators", operator: true },
  { token: "the-token-of-an-operator", operator: true, engines: ["default"] },
  { token: "the-token-of-a-tenants-operator", operator: true, tenant: "acme" },
  { token: "the-token-of-a-caller-", tenant: "acme", engines: ["default"] },
];

async function served(options: { readonly inspect?: boolean } = { inspect: true }) {
  const hello = () => fake({ scripts: Array.from({ length: 3 }, () => [{ type: "text", text: "Hello." } as const]) });
  const engines = {
    default: engine({ adapter: hello(), model: "fake:m" }),
    secret: engine({ adapter: hello(), model: "fake:m" }),
  };
  const sessions = runtime({ host: memoryStorage(), engines, live: false });
  for (const [tenant, name] of [
    ["acme", "default"],
    ["acme", "secret"],
    ["other", "default"],
  ] as const) {
    const turn = await sessions.tenant(tenant).start("hi", { engine: name });
    await turn.result;
  }
  const handler = createHandler({ sessions, auth, ...options });
  const fetchHere = (input: string | URL | Request, init?: RequestInit) => handler(new Request(input, init));
  return (token: string) => createInspector({ url: "http://localhost", token, fetch: fetchHere });
}

test("only operators of all engines read the sums, which are those of all callers", async () => {
  const inspector = await served();
  await expect(inspector("the-token-of-a-caller-").overview()).rejects.toMatchObject({ status: 403 });
  await expect(inspector("the-token-of-an-operator").overview()).rejects.toMatchObject({ status: 403 });
  const all = await inspector("the-token-of-operators").overview();
  expect(all.total.turns).toBe(3);
  expect(all.tenants.map(({ name, turns }) => [name, turns])).toEqual([
    ["acme", 2],
    ["other", 1],
  ]);
});

test("an operator that names a tenant reads the sums of that tenant, and no name of another one", async () => {
  const inspector = await served();
  const { total, tenants, engines } = await inspector("the-token-of-a-tenants-operator").overview();
  expect(total.turns).toBe(2);
  expect(tenants.map(({ name }) => name).filter((name) => name !== "acme")).toEqual([]);
  expect(engines.map(({ name }) => name).toSorted()).toEqual(["default", "secret"]);
});

test("a period that cannot be answered is refused with 400", async () => {
  const inspector = await served();
  const ask = inspector("the-token-of-operators").overview;
  await expect(ask({ from: 2, until: 1 })).rejects.toThrow(/from before until/);
  await expect(ask({ from: 0, until: 9_999_999_999_999 })).rejects.toThrow(/at most 90 days/);
});

test("without the option inspect there is no such route", async () => {
  const inspector = await served({});
  await expect(inspector("the-token-of-operators").overview()).rejects.toMatchObject({ status: 404 });
});
