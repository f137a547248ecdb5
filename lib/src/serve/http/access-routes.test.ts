// Every route and dialect of the API for every kind of caller (law A2). The rows (lib/test/access-rows.ts) say what
// each kind gets; a route of the OpenAPI document without a row fails.

import type { Need, Outcome } from "../../../test/access-rows.ts";
import type { AccessWorld, Kind } from "../../../test/access-world.ts";

import { describe, expect, test } from "vitest";

import { ask, isOutcome, onlyReads, rows, valuesOf } from "../../../test/access-rows.ts";
import { accessWorld, deciderRules, kinds } from "../../../test/access-world.ts";

const outcomes: { readonly [N in Need]: { readonly [K in Kind]: Outcome } } = {
  read: {
    owner: "done",
    other: "absent",
    decider: "done",
    operator: "done",
    stranger: "absent",
    admin: "absent",
    anonymous: "unauthorized",
  },
  own: {
    owner: "done",
    other: "absent",
    decider: "forbidden",
    operator: "done",
    stranger: "absent",
    admin: "absent",
    anonymous: "unauthorized",
  },
  decide: {
    owner: "forbidden",
    other: "absent",
    decider: "done",
    operator: "done",
    stranger: "absent",
    admin: "absent",
    anonymous: "unauthorized",
  },
  // A message to a chat starts it if it does not exist, so the id of another caller's chat is taken.
  create: {
    owner: "done",
    other: "taken",
    decider: "forbidden",
    operator: "done",
    stranger: "created",
    admin: "created",
    anonymous: "unauthorized",
  },
  caller: {
    owner: "done",
    other: "done",
    decider: "done",
    operator: "done",
    stranger: "done",
    admin: "done",
    anonymous: "unauthorized",
  },
  operator: {
    owner: "forbidden",
    other: "forbidden",
    decider: "forbidden",
    operator: "done",
    stranger: "forbidden",
    admin: "done",
    anonymous: "unauthorized",
  },
  admin: {
    owner: "forbidden",
    other: "forbidden",
    decider: "forbidden",
    // It names a tenant.
    operator: "forbidden",
    stranger: "forbidden",
    admin: "done",
    anonymous: "unauthorized",
  },
  open: {
    owner: "done",
    other: "done",
    decider: "done",
    operator: "done",
    stranger: "done",
    admin: "done",
    anonymous: "done",
  },
};

describe("every route, for every kind of caller", () => {
  test("has a row for each route of the OpenAPI document", async () => {
    const { send } = await accessWorld({ hasData: false });
    const { paths }: { readonly paths: { readonly [path: string]: object } } = JSON.parse(
      (await send("anonymous", "GET", "/openapi.json")).raw,
    );
    const routes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect([...new Set(rows.map(({ route }) => route))].toSorted()).toEqual(routes.toSorted());
  });

  test.each(rows.map((row, index) => [row.route, row.need, index] as const))(
    "%s (%s, row %i)",
    async (_, need, index) => {
      const row = rows[index];
      if (row === undefined) throw new Error("no such row");
      // Requests that change nothing share two servers.
      const shared = { full: await accessWorld(), empty: await accessWorld({ hasData: false }) };
      for (const kind of kinds) {
        const expected = kind === "decider" && row.on === "manual" ? "absent" : outcomes[need][kind];
        const isRefused = expected !== "done" && expected !== "created";
        const changes = !isRefused && !onlyReads(row);
        const world = changes ? await accessWorld() : shared.full;
        const empty = expected === "created" ? await accessWorld({ hasData: false }) : shared.empty;
        const id = kind === "decider" && row.on !== "manual" ? "pending" : (row.on ?? "pending");
        const values = await valuesOf(world, id);
        const before = await world.rows();
        const answer = await ask(world, kind, row, id, values);
        const absent = await ask(empty, kind, row, id, values);
        const place = `${kind}: ${row.route}`;
        const isExpected = isOutcome(expected, answer, absent, row);
        expect(isExpected, `${place} is ${expected}: ${answer.status} ${answer.text}`).toBe(true);
        if (isRefused || onlyReads(row)) expect(await world.rows(), place).toBe(before);
        if (isRefused) expect(world.paid, place).toEqual([]);
      }
    },
  );
});

/** The ids of the sessions in a list or in the hits of a search. */
async function listed(world: AccessWorld, kind: Kind, path: string): Promise<readonly string[]> {
  const { items }: { readonly items: readonly { readonly id?: string; readonly sessionId?: string }[] } = JSON.parse(
    (await world.send(kind, "GET", path)).raw,
  );
  return [...new Set(items.map(({ id, sessionId }) => id ?? sessionId ?? ""))].toSorted();
}

describe("lists and the search", () => {
  const all = ["asking", "done", "manual", "pending"];

  test.each(["/sessions", "/search?q=secret"])("%s has the sessions that the caller may read", async (path) => {
    const world = await accessWorld();
    expect(await listed(world, "owner", path)).toEqual(all);
    expect(await listed(world, "other", path)).toEqual([]);
    expect(await listed(world, "decider", path)).toEqual(["pending"]);
    expect(await listed(world, "operator", path)).toEqual(all);
    expect(await listed(world, "stranger", path)).toEqual([]);
    const standard = await accessWorld({ rules: {} });
    expect(await listed(standard, "owner", path)).toEqual(all);
    for (const kind of ["other", "decider", "stranger"] as const)
      expect(await listed(standard, kind, path)).toEqual([]);
    const shared = await accessWorld({ rules: { owns: ({ id }, { name }) => name === "other" && id === "done" } });
    expect(await listed(shared, "other", path)).toEqual(["done"]);
    expect(await listed(shared, "decider", path)).toEqual([]);
  });

  test("a list with a status has the sessions that the caller may read", async () => {
    for (const rules of [{}, deciderRules]) {
      const world = await accessWorld({ rules });
      expect(await listed(world, "owner", "/sessions?status=waiting")).toEqual(["asking", "manual", "pending"]);
      expect(await listed(world, "owner", "/sessions?status=waiting&engine=pending")).toEqual(["pending"]);
      expect(await listed(world, "other", "/sessions?status=waiting")).toEqual([]);
    }
  });

  test("pages of a list have every session of the caller once", async () => {
    const world = await accessWorld({ rules: {} });
    await world.send("other", "POST", "/sessions", { id: "of-another", input: "hi" });
    const found: string[] = [];
    for (let after = ""; ;) {
      const page = JSON.parse((await world.send("owner", "GET", `/sessions?limit=1${after}`)).raw);
      for (const { id } of page.items) found.push(id);
      if (page.next === null) break;
      after = `&after=${encodeURIComponent(page.next)}`;
    }
    expect(found.toSorted()).toEqual(all);
  });
});
