// `everturn keys`: creates, lists, rotates and revokes the API keys that are stored in the database. A change is
// effective at once in every process that accepts them (`everturn serve` does).

import type { CommandContext } from "./context.ts";
import type { JsonObject } from "everturn";
import type { NewKey, Scope, StoredKey, StoredKeys } from "everturn/http";

import { storedKeys } from "everturn/http";

import { safeJson } from "../terminal/safe-text.ts";
import { actorName, tenantOf, withSessions, UsageError } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { age, brief, table } from "./text.ts";

async function withKeys<T>(context: CommandContext, use: (keys: StoredKeys) => Promise<T>): Promise<T> {
  return withSessions(context, ({ source: { host } }) => use(storedKeys({ host })));
}

export async function listKeys(context: CommandContext, { json }: { readonly json: boolean }): Promise<number> {
  const { io, out, say, note } = context;
  const tenant = tenantOf(context);
  const items = await withKeys(context, (keys) => keys.list(tenant === null ? {} : { tenant }));
  if (json) say(safeJson({ items }));
  else if (items.length === 0) note("no keys: everturn keys create NAME creates one");
  else {
    const now = Date.now();
    const rows = items.map((key) => [
      key.id,
      brief(key.name, 40),
      brief(key.tenant ?? "", 40),
      rightsText(key),
      key.engines === null ? "all" : brief(key.engines.join(","), 40),
      stateText(key, now),
    ]);
    const [head = "", ...lines] = table(
      [["ID", "NAME", "TENANT", "SCOPES", "ENGINES", "STATE"], ...rows],
      io.stdout.columns,
    );
    say(out.dim(head));
    for (const line of lines) say(line);
  }
  return exitCodes.ok;
}

function rightsText({ scopes, operator }: StoredKey): string {
  const listed = scopes === null ? "all" : scopes.join(",");
  return operator ? `${listed} (operator)` : listed;
}

function stateText({ state, expiresAt }: StoredKey, now: number): string {
  return state === "valid" && expiresAt !== null ? `expires in ${age(expiresAt - now)}` : state;
}

export type CreateRequest = {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly engines: readonly string[];
  readonly operator: boolean;
  /** A JSON object. */
  readonly toolContext: string | null;
  readonly expires: string | null;
  readonly json: boolean;
};

export async function createKey(context: CommandContext, request: CreateRequest): Promise<number> {
  const { name, scopes, engines, operator, toolContext, expires } = request;
  const tenant = tenantOf(context);
  const grant = {
    name,
    operator,
    ...(tenant === null || tenant === "" ? {} : { tenant }),
    ...(scopes.length === 0 ? {} : { scopes: scopes.map(scopeOf) }),
    ...(engines.length === 0 ? {} : { engines }),
    ...(toolContext === null ? {} : { context: parseObject(toolContext) }),
    ...(expires === null ? {} : { ttlMs: durationOf("--expires", expires) }),
  };
  return printed(context, await withKeys(context, (keys) => keys.create(grant, { by: actorName() })), request.json);
}

const scopeNames: readonly Scope[] = ["read", "write", "decide", "admin"];

function scopeOf(text: string): Scope {
  const scope = scopeNames.find((name) => name === text);
  if (scope !== undefined) return scope;
  throw new UsageError(`--scope must be one of ${scopeNames.join(", ")}`);
}

function parseObject(text: string): JsonObject {
  try {
    const value: JsonObject | null = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Reported below.
  }
  throw new UsageError("--context must be a JSON object");
}

const units: { readonly [unit: string]: number } = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function durationOf(flag: string, text: string): number {
  const [, digits = "", unit = ""] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(digits) * (units[unit] ?? 0);
  if (digits !== "" && (ms > 0 || flag === "--grace")) return ms;
  throw new UsageError(`${flag} must be a time such as 30d, 12h, 15m or 60s`);
}

/** The token goes to standard output, alone, so that a script can store it. */
function printed({ say, note }: CommandContext, { key, token }: NewKey, json: boolean): number {
  if (json) say(safeJson({ key, token }));
  else {
    say(token);
    const where = key.tenant === null ? "" : ` of tenant ${key.tenant}`;
    note(`key ${key.id} of ${key.name}${where}; the token above is not shown again`);
  }
  return exitCodes.ok;
}

export type RotateRequest = { readonly id: string; readonly grace: string | null; readonly json: boolean };

export async function rotateKey(context: CommandContext, { id, grace, json }: RotateRequest): Promise<number> {
  const options = { by: actorName(), ...(grace === null ? {} : { graceMs: durationOf("--grace", grace) }) };
  return printed(context, await withKeys(context, (keys) => keys.rotate(id, options)), json);
}

export async function revokeKeys(context: CommandContext, ids: readonly string[]): Promise<number> {
  return withKeys(context, async (keys) => {
    for (const id of ids) {
      await keys.revoke(id, { by: actorName() });
      context.note(`revoked ${id}`);
    }
    return exitCodes.ok;
  });
}
