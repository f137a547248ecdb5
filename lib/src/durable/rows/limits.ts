// Limits of turns by engine, tenant and limit key: the options, the scopes of a turn, and the rows of slots. Pure;
// `drive/admission.ts` reads the rows and decides, `drive/waiting-turns.ts` wakes turns that wait.
//
// Theory of operation
//   A scope is what a limit counts: one engine, one tenant, or one limit key of a tenant. A limit of n is n numbered
//   slots of the scope, and a taken slot is a row of `slots`. The batch that claims a turn takes one slot of each limit
//   of its scopes by compare-and-swap: the row must be absent or as it was read. There is no counter, so claims of
//   different slots do not conflict.
//     concurrency   the row is removed by the batch that ends or parks the turn. The row of a run that is no turn
//                   expires unless it is renewed (`accept/admit-run.ts`)
//     rate          the row expires `perMs` after it was taken, by the storage's clock. So at most `turns` turns start
//                   in any period of that length (a sliding window)
//   Slots belong to turns: the row of the open turn lists them. A process that takes a turn over finds them there; a
//   killed process leaves nothing to clean up.
//
// Invariants
//   1. At most n rows of a scope and kind are taken, because only the numbers 0 to n - 1 are used.
//   2. After a limit was lowered to n, slots with higher numbers may still be taken. A claim uses only numbers below u,
//      where u plus the number of taken slots from u on is at most n. So the sum never exceeds n once all processes
//      have the new limit: slots from u on are only released. While processes have different limits, the largest one
//      holds.
//   3. A turn takes all its slots in one batch or none of them, so turns cannot wait for each other's slots (no hold
//      and wait).

import type { Changes } from "./batch.ts";
import type { SessionKey } from "./session-key.ts";
import type { Check, Key, Put, Query, Removal, Row } from "./storage.ts";
import type { LimitedTurn, Slot, TurnLimit } from "./values.ts";
import type { WorkItem } from "./work.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { noChanges } from "./batch.ts";
import { fnv1a } from "./digest.ts";
import { readValue, writeValue } from "./stored.ts";
import { workPut, workRemoval } from "./work.ts";

/** A limit of the turns of one engine, tenant or limit key. Turns over the limit are accepted and wait. */
export type Limit = {
  /**
   * How many turns are performed at the same time, in all processes together. A whole number from 1 to 10,000. Default:
   * no limit.
   */
  readonly concurrency?: number;
  /**
   * How many turns start in any period of `perMs` milliseconds (a sliding window, by the clock of the storage).
   * `turns`: a whole number from 1 to 10,000. `perMs`: at most ten years. Default: no limit.
   */
  readonly rate?: { readonly turns: number; readonly perMs: number };
};

/**
 * Limits of a runtime. They hold over all processes that share the storage and have the same limits. A turn that is
 * subject to several limits starts when all of them allow it. An entry of `tenants` or `limitKeys` replaces the whole
 * limit for that tenant or key; `{}` means no limit.
 */
export type RuntimeLimits = {
  /** Limits by the name of the engine. Default: none. */
  readonly engines?: { readonly [engine: string]: Limit };
  /** The limit of each tenant, also of the default one. Default: none. */
  readonly perTenant?: Limit;
  /** Limits of single tenants, which replace `perTenant`. */
  readonly tenants?: { readonly [tenant: string]: Limit };
  /**
   * The limit of each limit key of a tenant: the option `limitKey` of a verb, for instance the id of a user. Default:
   * none.
   */
  readonly perLimitKey?: Limit;
  /** Limits of single limit keys, in every tenant, which replace `perLimitKey`. */
  readonly limitKeys?: { readonly [limitKey: string]: Limit };
};

/** What the slots of a scope count. */
const slotKinds = ["concurrency", "rate"] as const;
type SlotKind = (typeof slotKinds)[number];

/** A scope with the limit that applies to it. */
export type LimitedScope = { readonly scope: string; readonly limit: Limit };

/** The properties of a turn that its limits depend on. */
export type LimitSubject = { readonly engine: string; readonly tenant: string; readonly limitKey: string | null };

const most = 10_000;
const tenYearsMs = 10 * 365 * 86_400_000;

/** The longest limit key, in UTF-16 code units: it is part of the key of a row. */
const longestLimitKey = 256;

/** The rule for limit keys in words. */
export const limitKeyRule = `a string of 1 to ${longestLimitKey} characters`;

/** Returns whether a value is a limit key. */
export function isLimitKey(value: unknown): value is string {
  return typeof value === "string" && value.length >= 1 && value.length <= longestLimitKey;
}

/** Validates a limit key. Throws `MisuseError`. */
export function checkedLimitKey(value: unknown): string {
  if (isLimitKey(value)) return value;
  throw new MisuseError("invalid_argument", `limitKey must be ${limitKeyRule}`, { path: ["limitKey"] });
}

/** Validates the option `limits`. `null`: no limits. Throws `MisuseError`. */
export function checkedLimits(limits: RuntimeLimits | undefined): RuntimeLimits | null {
  if (limits === undefined) return null;
  const names = {
    engines: checkEach,
    perTenant: checkLimit,
    tenants: checkEach,
    perLimitKey: checkLimit,
    limitKeys: checkEach,
  };
  checkFields(limits, names, ["limits"]);
  return limits;
}

type Path = readonly string[];
type Checks = { readonly [name: string]: (value: unknown, path: Path) => void };

function checkFields(value: unknown, checks: Checks, path: Path): void {
  if (!isPlainObject(value)) throw invalid(path, "must be an object");
  for (const [name, given] of Object.entries(value)) {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined) throw invalid([...path, name], `is unknown; known are ${Object.keys(checks).join(", ")}`);
    if (given !== undefined) check(given, [...path, name]);
  }
}

function checkEach(value: unknown, path: Path): void {
  if (!isPlainObject(value)) throw invalid(path, "must be an object of limits by name");
  for (const [name, limit] of Object.entries(value)) checkLimit(limit, [...path, name]);
}

function checkLimit(value: unknown, path: Path): void {
  checkFields(value, { concurrency: checkCount, rate: checkRate }, path);
}

function checkRate(value: unknown, path: Path): void {
  checkFields(value, { turns: checkCount, perMs: checkPeriod }, path);
  if (!isPlainObject(value) || value["turns"] === undefined || value["perMs"] === undefined) {
    throw invalid(path, "needs turns and perMs");
  }
}

function checkCount(value: unknown, path: Path): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1 && value <= most) return;
  throw invalid(path, `must be a whole number from 1 to ${most}; for a higher rate choose a shorter period`);
}

function checkPeriod(value: unknown, path: Path): void {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1 && value <= tenYearsMs) return;
  throw invalid(path, "must be a whole number of milliseconds from 1 to ten years");
}

function invalid(path: Path, what: string): MisuseError {
  return new MisuseError("invalid_argument", `${path.join(".")} ${what}`, { path });
}

/** The scopes of a turn that have a limit, the narrowest first: limit key, tenant, engine. */
export function scopesOf(
  limits: RuntimeLimits | null,
  { engine, tenant, limitKey }: LimitSubject,
): readonly LimitedScope[] {
  if (limits === null) return [];
  const names = [
    ...(limitKey === null ? [] : [`key:${JSON.stringify([tenant, limitKey])}`]),
    `tenant:${tenant}`,
    `engine:${engine}`,
  ];
  return names.flatMap((scope) => {
    const limit = limitOf(limits, scope);
    return limit === null ? [] : [{ scope, limit }];
  });
}

/** The limit of a scope; `null`: it has none. */
export function limitOf(limits: RuntimeLimits | null, scope: string): Limit | null {
  if (limits === null) return null;
  const { kind, name } = scopeParts(scope);
  const limit = limitFor(limits, kind, name);
  return limit?.concurrency === undefined && limit?.rate === undefined ? null : limit;
}

function limitFor(limits: RuntimeLimits, kind: ScopeKind, name: string): Limit | undefined {
  switch (kind) {
    case "engine":
      return own(limits.engines, name);
    case "tenant":
      return own(limits.tenants, name) ?? limits.perTenant;
    case "key":
      return own(limits.limitKeys, name) ?? limits.perLimitKey;
  }
}

function own(limits: { readonly [name: string]: Limit } | undefined, name: string): Limit | undefined {
  return limits !== undefined && Object.hasOwn(limits, name) ? limits[name] : undefined;
}

/** What a scope counts. */
export type ScopeKind = "engine" | "tenant" | "key";

/** The kind of a scope, and the name of its engine, tenant or limit key. */
export function scopeParts(scope: string): { readonly kind: ScopeKind; readonly name: string } {
  const at = scope.indexOf(":");
  const name = scope.slice(at + 1);
  const kind = scope.slice(0, at);
  if (kind === "engine" || kind === "tenant") return { kind, name };
  const [, limitKey = ""]: readonly string[] = JSON.parse(name);
  return { kind: "key", name: limitKey };
}

/** A limit of a scope with its slots: `size` of them, each taken until the turn ends (`perMs: null`) or for a time. */
export type SlotSet = {
  readonly scope: string;
  readonly kind: SlotKind;
  readonly size: number;
  readonly perMs: number | null;
};

/** The sets of slots of a scope. */
export function slotSetsOf({ scope, limit }: LimitedScope): readonly SlotSet[] {
  const { concurrency, rate } = limit;
  return [
    ...(concurrency === undefined ? [] : [{ scope, kind: "concurrency", size: concurrency, perMs: null } as const]),
    ...(rate === undefined ? [] : [{ scope, kind: "rate", size: rate.turns, perMs: rate.perMs } as const]),
  ];
}

/** Sets of up to this many slots are read as a whole. Of larger sets a sample is read first. */
const smallSet = 64;
const sampleSize = 16;

/** The numbers of the slots of a set that a claim reads first; `null`: all. */
export function sampleOf({ size }: SlotSet, random: () => number): readonly number[] | null {
  if (size <= smallSet) return null;
  return [...new Set(Array.from({ length: sampleSize }, () => Math.floor(random() * size)))];
}

/** The queries that read a set: all of it, or the sample and the rows above the limit (invariant 2). */
export function slotQueries({ scope, kind, size }: SlotSet, sample: readonly number[] | null): readonly Query[] {
  const all = { table: "slots", prefix: [scope, kind] } as const;
  if (sample === null) return [all];
  return [
    { ...all, after: size - 1 },
    ...sample.map((number) => ({ table: "slots", prefix: [scope, kind, number] }) as const),
  ];
}

/** The state of a set of slots, from its rows. */
export type SlotState = {
  /** The number of free slots. Of a sample: a lower bound. */
  readonly free: number;
  /** When the next slot becomes free by expiry, in milliseconds from the read; `null`: by the end of a turn. */
  readonly freeInMs: number | null;
  /** The check of a free slot, by number, lowest first; at most `limit` of them. */
  readonly choices: (limit: number) => readonly FreeSlot[];
};

type FreeSlot = { readonly number: number; readonly check: Check };

/**
 * Evaluates the rows of a set. `replaces`: the turn that ends in the same batch; its slots count as free. `sample`: the
 * numbers that were read, if not all.
 */
export function slotState(
  { scope, kind, size }: SlotSet,
  rows: readonly Row[],
  { replaces = null, sample = null }: { readonly replaces?: string | null; readonly sample?: readonly number[] | null },
): SlotState {
  const isTaken = (row: Row): boolean => {
    if (row.remainingMs !== null && row.remainingMs <= 0) return false;
    return kind === "rate" || replaces === null || readValue("slots", row).turn !== replaces;
  };
  const byNumber = new Map(rows.map((row) => [Number(row.key[2]), row]));
  const taken = rows.filter(isTaken);
  const takenNumbers = new Set(taken.map(({ key }) => Number(key[2])));
  const usable = usableOf(size, [...takenNumbers]);
  // The sample lacks taken slots that invariant 2 needs: the whole set has to be read.
  if (sample !== null && usable < size) return { free: 0, freeInMs: null, choices: () => [] };
  const numbers = sample?.filter((number) => number < usable).toSorted((left, right) => left - right);
  const takenUsable = [...takenNumbers].filter((number) => number < usable).length;
  const check = (number: number): Check => {
    const row = byNumber.get(number);
    const key = [scope, kind, number];
    return row === undefined
      ? { table: "slots", key, tag: null }
      : { table: "slots", key, tag: row.tag, expires: row.expires };
  };
  const choices = (limit: number): readonly FreeSlot[] => {
    const found: FreeSlot[] = [];
    const last = numbers === undefined ? usable : numbers.length;
    for (let index = 0; index < last && found.length < limit; index += 1) {
      const number = numbers === undefined ? index : (numbers[index] ?? 0);
      if (!takenNumbers.has(number)) found.push({ number, check: check(number) });
    }
    return found;
  };
  const remaining = taken.flatMap(({ remainingMs }) => (remainingMs === null ? [] : [remainingMs]));
  return {
    free: Math.max(0, (numbers?.length ?? usable) - takenUsable),
    freeInMs: kind === "rate" && remaining.length > 0 ? Math.max(1, Math.ceil(Math.min(...remaining))) : null,
    choices,
  };
}

/** The numbers below this one may be taken (invariant 2). */
function usableOf(size: number, taken: readonly number[]): number {
  for (let usable = size; ;) {
    const above = taken.filter((number) => number >= usable).length;
    if (usable + above <= size) return Math.max(0, usable);
    usable = size - above;
  }
}

/**
 * The row of a slot that a turn takes. The tag identifies the turn, so that a slot which was released and taken again
 * is recognised.
 */
export function slotPut(
  { scope, kind, perMs }: SlotSet,
  number: number,
  { tenant, session }: SessionKey,
  turn: string,
): Put {
  const value = writeValue("slots", { tenant, session, turn });
  return { table: "slots", key: [scope, kind, number], tag: fnv1a(turn), ttlMs: perMs, value };
}

/** The item of a turn that waits, in the index of work. */
function waitingItem(key: SessionKey, { scope, since }: Pick<LimitedTurn, "scope" | "since">): WorkItem {
  return { reason: "limit", queue: scope, key, at: since, item: "" };
}

/** The row of a turn that waits. */
export function waitingPut(key: SessionKey, turn: string, limit: LimitedTurn): Put {
  const value = writeValue("work", { turn, onTimeout: "error_as_result" });
  return workPut(waitingItem(key, limit), { tag: fnv1a(turn), value });
}

/**
 * The removals of all rows that a turn has because of limits: its concurrency slots, or its place among the waiting
 * turns.
 */
export function limitRemovals(key: SessionKey, limit: TurnLimit | null): readonly Removal[] {
  if (limit === null) return [];
  if (limit.type === "waiting") return [workRemoval(waitingItem(key, limit))];
  return limit.slots.map(({ scope, number }): Removal => ({ table: "slots", prefix: slotKey({ scope, number }) }));
}

/** The key of a concurrency slot. */
function slotKey({ scope, number }: Slot): Key {
  return [scope, "concurrency", number];
}

/** The scopes in which the end of a turn frees a slot. */
export function freedScopes(limit: TurnLimit | null): readonly string[] {
  return limit?.type === "admitted" ? [...new Set(limit.slots.map(({ scope }) => scope))] : [];
}

/** The changes that remove a turn from the waiting turns. */
export function leaveLine(key: SessionKey, limit: TurnLimit | null): Changes {
  return limit?.type === "waiting" ? { ...noChanges, removals: limitRemovals(key, limit) } : noChanges;
}
