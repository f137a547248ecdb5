// Every route x scopes x owner x engines x tenant. What a key must get is computed from the declarations: the scope of
// an operation in the contract, and that of the route of a dialect in the OpenAPI document. `npm test` tries a part of
// the table, and `npm run test:long -- access` all of it.

import type { Outcome, Row } from "../../../test/access-rows.ts";
import type { AccessWorld } from "../../../test/access-world.ts";
import type { Operation, OperationScope, Scope } from "../contract/internal.ts";
import type { ApiKey } from "everturn/http";

import { afterAll, expect, test } from "vitest";

import { ask, isOutcome, onlyReads, rows, valuesOf } from "../../../test/access-rows.ts";
import { accessWorld } from "../../../test/access-world.ts";
import {
  adminOperations,
  inspectionOperations,
  processOperations,
  recordOperations,
  scopes,
  sessionOperations,
  turnOperations,
} from "../contract/internal.ts";

/** The declarations of the API by method and path. */
const declared: ReadonlyMap<string, Operation> = new Map(
  [sessionOperations, turnOperations, recordOperations, inspectionOperations, adminOperations, processOperations]
    .flatMap((table) => Object.values<Operation>(table))
    .map((operation) => [`${operation.method} ${operation.path}`, operation]),
);

const scopeSets: readonly (readonly Scope[])[] = [["read"], ["write"], ["decide"], ["read", "write", "decide"]];

/** `acts`: the tenant that its requests name (`Everturn-Tenant`). */
type MatrixKey = ApiKey & { readonly scopes: readonly Scope[]; readonly acts?: string };

/** The engines of a key: all, those of the sessions and the default one, or another one. */
const engineLists = [undefined, ["default", "pending", "manual", "done"], ["spare"]];

/** The keys of callers that name a tenant: scopes x owner x engines x tenant. */
const tenantKeys: readonly MatrixKey[] = ["owner", "other", "decider", "operator"].flatMap((name) =>
  [...scopeSets, ...(name === "operator" ? [["admin"] as const] : [])].flatMap((scopes) =>
    engineLists.flatMap((engines) =>
      ["shop", "elsewhere"].map((tenant) => ({
        token: `token-${name}-${scopes.join("-")}-${engines?.at(-1) ?? "every"}-${tenant}`,
        name,
        tenant,
        scopes,
        ...(engines === undefined ? {} : { engines }),
        ...(name === "operator" ? { operator: true } : {}),
      })),
    ),
  ),
);

/** The keys of operators: scopes x engines x own tenant x tenant that the request names. */
const adminKeys: readonly MatrixKey[] = [["read"], ["admin"], ["admin", "read"], ["admin", ...scopes.slice(0, 3)]]
  .map((listed) => scopes.filter((scope) => listed.includes(scope)))
  .flatMap((listed) =>
    engineLists.flatMap((engines) =>
      ([undefined, "shop"] as const).flatMap((tenant) =>
        ([undefined, "shop"] as const).map((acts) => ({
          token: `token-admin-${listed.join("-")}-${engines?.at(-1) ?? "every"}-${tenant}-${acts}`,
          // The name of a user of the tenant.
          name: "owner",
          operator: true,
          scopes: listed,
          ...(tenant === undefined ? {} : { tenant }),
          ...(engines === undefined ? {} : { engines }),
          ...(acts === undefined ? {} : { acts }),
        })),
      ),
    ),
  );

const keys = [...tenantKeys, ...adminKeys];

/**
 * The keys with which a row is tried: each eighth one, another eighth for each next row, so that every key and every
 * row is tried. `EVERTURN_ACCESS=all` (the part `access` of `npm run test:long`): all.
 */
function keysOfRow(index: number): readonly MatrixKey[] {
  if (process.env["EVERTURN_ACCESS"] === "all") return keys;
  return keys.filter((_, place) => (place + index) % 8 === 0);
}

/** Whether the scopes of a key are enough for the row: `answer` needs the one of what is answered. */
function hasScopes({ scopes }: MatrixKey, declaredScope: OperationScope, { need, route }: Row): boolean {
  if (declaredScope === "open") return true;
  if (declaredScope !== "answer") return scopes.includes(declaredScope);
  // A token for a call that needs no decision, a result and a message are changes.
  return scopes.includes(need === "decide" || route.includes("/decisions") ? "decide" : "write");
}

/** What the key must get. */
function expected(key: MatrixKey, row: Row, scope: OperationScope): Outcome {
  const { need, model = false } = row;
  const isOperator = key.operator === true;
  const hasAnother = key.engines?.includes("spare") === true;
  if (need === "open") return "done";
  if (need === "admin" && (!isOperator || key.engines !== undefined || key.tenant !== undefined)) return "forbidden";
  if (need === "admin" && !hasScopes(key, scope, row)) return "forbidden";
  if (need === "operator") {
    if (!isOperator || key.engines !== undefined || !hasScopes(key, scope, row)) return "forbidden";
    return actsInVain(key) ? "forbidden" : "done";
  }
  if (actsInVain(key)) return "forbidden";
  if (need === "admin") return "done";
  const mayCall = scope === "answer" ? key.scopes.some((one) => one === "write" || one === "decide") : null;
  if (mayCall === false) return "forbidden";
  if (mayCall === null && !hasScopes(key, scope, row)) return "forbidden";
  if (need === "caller") return model && hasAnother ? "absent" : "done";
  const right = rightOf(key, row);
  // A message to a chat that does not exist starts it.
  if (need === "create" && right === "none") {
    if (!hasScopes(key, scope, row)) return "forbidden";
    return tenantOf(key) === "shop" ? "taken" : "created";
  }
  if (right === "none") return "absent";
  if (hasAnother) return "forbidden";
  if (!hasScopes(key, scope, row)) return "forbidden";
  if (right === "read") return need === "read" || need === "decide" ? "done" : "forbidden";
  return need === "decide" && !isOperator ? "forbidden" : "done";
}

/** Whether the key names a tenant with its requests and may not. */
function actsInVain({ acts, tenant, scopes: listed }: MatrixKey): boolean {
  return acts !== undefined && (tenant !== undefined || !listed.includes("admin"));
}

function tenantOf({ tenant, acts }: MatrixKey): string | undefined {
  return tenant ?? acts;
}

function rightOf(key: MatrixKey, { on }: Row): "own" | "read" | "none" {
  const { name, operator } = key;
  if (tenantOf(key) !== "shop") return "none";
  if (operator === true || name === "owner") return "own";
  // Who decides sees the session with the approval only.
  return name === "decider" && (on ?? "pending") === "pending" ? "read" : "none";
}

/** The scope that the OpenAPI document names for a route. */
function describedScope(security: readonly { readonly bearer: readonly string[] }[]): string {
  const names = security.flatMap(({ bearer }) => bearer);
  return names.length === 2 ? "answer" : (names[0] ?? "open");
}

async function describedScopes(world: AccessWorld): Promise<ReadonlyMap<string, string>> {
  const { paths } = JSON.parse((await world.send("anonymous", "GET", "/openapi.json")).raw);
  return new Map(
    Object.entries<object>(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { security }]): [string, string] => [
        `${method.toUpperCase()} ${path}`,
        describedScope(security),
      ]),
    ),
  );
}

function isScope(text: string | undefined): text is OperationScope {
  return text !== undefined && ["read", "write", "decide", "admin", "answer", "open"].includes(text);
}

test("the OpenAPI document names the scope of each operation", async () => {
  const described = await describedScopes(await accessWorld({ hasData: false }));
  for (const [route, { scope }] of declared) expect([route, described.get(route)]).toEqual([route, scope]);
});

/** A server with the sessions of the table, and one without any, for all rows: refused requests change nothing. */
const worlds = { full: await matrixWorld({}), empty: await matrixWorld({ hasData: false }) };
const scopesOfRoutes = await describedScopes(worlds.empty);

/** Its storage lives as long as the file. */
async function matrixWorld(settings: { readonly hasData?: boolean }): Promise<AccessWorld> {
  return accessWorld({ ...settings, keys, closes: afterAll });
}

test.each(rows.map((row, index) => [row.route, row.need, index] as const))(
  "%s (%s, row %i) for its keys",
  async (route, _, index) => {
    const row = rows[index];
    if (row === undefined) throw new Error("no such row");
    const { full, empty } = worlds;
    const scope = declared.get(route)?.scope ?? scopesOfRoutes.get(route);
    if (!isScope(scope)) throw new Error(`${route} declares no scope`);
    const kind = row.on ?? "pending";
    const values = await valuesOf(full, kind);
    const outcomes = keysOfRow(index).map((key) => ({ key, outcome: expected(key, row, scope) }));
    // What changes rows comes last: all rows are read again after a change.
    const ordered = outcomes.toSorted((left, right) => Number(isAccepted(left)) - Number(isAccepted(right)));
    for (const [count, { key, outcome }] of ordered.entries()) {
      const isRefused = !isAccepted({ outcome });
      // A request that changes a session gets one of its own.
      const changes = !isRefused && !route.startsWith("GET") && !["caller", "open", "admin"].includes(row.need);
      const id = changes ? `${kind}-${index}-${count}` : kind;
      if (changes) await full.start(kind, id);
      const isUnchanged = isRefused || onlyReads(row);
      const before = isUnchanged ? await full.rows() : "";
      const headers = key.acts === undefined ? {} : { "everturn-tenant": key.acts };
      const answer = await ask(full, key, row, id, changes ? await valuesOf(full, id) : values, headers);
      const hasAbsent = outcome === "absent" || outcome === "created" || (outcome === "done" && route.includes("{id}"));
      const absent = hasAbsent ? await ask(empty, key, row, id, values, headers) : answer;
      const place = `${route}: ${key.token}`;
      const isExpected =
        outcome === "absent" && row.model === true ? answer.status === 404 : isOutcome(outcome, answer, absent, row);
      expect(isExpected, `${place} is ${outcome}: ${answer.status} ${answer.text}`).toBe(true);
      if (isUnchanged) expect((await full.rows()) === before, `${place} changed rows`).toBe(true);
    }
  },
  120_000,
);

/** Whether the request is carried out. */
function isAccepted({ outcome }: { readonly outcome: Outcome }): boolean {
  return outcome === "done" || outcome === "created";
}
