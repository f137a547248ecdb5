// Reads limits of turns from texts: `tenant.concurrency=20`, `engine:default.rate=600/1m`. A scope is `engine:NAME`,
// `tenant`, `tenant:NAME`, `key` or `key:NAME`; without a name it is the limit of each tenant or each limit key.

import type { Origin } from "./setting-readers.ts";
import type { Limit, RuntimeLimits } from "everturn/runtime";

import { preview, SettingsError, texts } from "./setting-readers.ts";

const form = /^(engine|tenant|key)(?::(.+))?\.(concurrency|rate)=(\d{1,5})(?:\/(\d*)(ms|s|m|h|d))?$/;
const units: { readonly [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads limits; `null`: none. Several texts about one scope are merged. */
export function limits(value: unknown, origin: Origin): RuntimeLimits | null {
  const parts = texts(value, origin).map((part) => limitIn(part, origin));
  if (parts.length === 0) return null;
  const byScope = new Map<string, { kind: string; name: string | null; limit: Limit }>();
  for (const { kind, name, limit } of parts) {
    const scope = JSON.stringify([kind, name]);
    byScope.set(scope, { kind, name, limit: { ...byScope.get(scope)?.limit, ...limit } });
  }
  const named = (kind: string) =>
    Object.fromEntries(
      [...byScope.values()].flatMap((scope) =>
        scope.kind === kind && scope.name !== null ? [[scope.name, scope.limit]] : [],
      ),
    );
  const each = (kind: string) => byScope.get(JSON.stringify([kind, null]))?.limit;
  const [perTenant, perLimitKey] = [each("tenant"), each("key")];
  return {
    engines: named("engine"),
    tenants: named("tenant"),
    limitKeys: named("key"),
    ...(perTenant === undefined ? {} : { perTenant }),
    ...(perLimitKey === undefined ? {} : { perLimitKey }),
  };
}

function limitIn(part: string, { name: source }: Origin): { kind: string; name: string | null; limit: Limit } {
  const [, kind = "", name, what, digits = "", count = "", unit] = form.exec(part) ?? [];
  const number = Number(digits);
  const isRate = what === "rate";
  const perMs = (count === "" ? 1 : Number(count)) * (units[unit ?? ""] ?? 0);
  const fits = number >= 1 && number <= 10_000 && isRate === (unit !== undefined) && (!isRate || perMs >= 1);
  if (!fits || (kind === "engine" && name === undefined)) {
    throw new SettingsError(
      `${source} has to be SCOPE.concurrency=N or SCOPE.rate=N/PERIOD, for example tenant.concurrency=20, engine:default.rate=600/1m or tenant:acme.rate=10/30s, with N from 1 to 10000, not ${preview(part)}`,
    );
  }
  return { kind, name: name ?? null, limit: isRate ? { rate: { turns: number, perMs } } : { concurrency: number } };
}
