// Finds due work by its index, the table `due`: open turns by engine, tenant, and the time at which a worker examines
// them. A poll reads a few rows of the index, whatever the backlog is.
//
// How rows move
//   a turn is accepted            due at once; or when the lease expires, if the process that accepts it drives it
//   a turn is claimed             due when the lease expires
//   a lease is renewed            nothing: the worker that reads the row moves it to the new expiry, which happens at
//                                 most once in a lease time
//   a lease is released           due at once
//   a takeover has to wait (Q17)  due when the backoff is over
//   a turn fails in a process     nothing: that process skips it for a while, others may claim it
//   a turn ends or is parked      the row is removed; if it was moved meanwhile, the worker that reads it finds no open
//                                 turn and removes it
//   a row is out of date          the table `open` has another engine or time for the session: the worker that reads
//                                 the row replaces it by the row that `open` describes
// The index only says where to look. The lease decides whether a turn may be driven.
//
// Order of a poll
//   The engines are served round robin, beginning after the engine that was served last. Within an engine the tenants
//   are served round robin too, beginning after the tenant that was served last; tenants whose rows are all due later
//   are not visited (`due-tenants.ts`). A visit takes at most `share` turns of one tenant. Rounds are repeated until a
//   round finds nothing to do. The rows of a tenant are read page by page. Workers take a share of a page from a random
//   place on, so that they do not all claim the same turns. When this process may take no row of a page, a cursor moves
//   to the next page; the number of rows that it skips is not limited.
//
// Invariants
//   1. A poll sees the rows that were due when it began, so it ends although turns are accepted meanwhile.
//   2. A poll with a budget ends when the budget is spent; `isCutOff` reports it, and the next poll continues.
//      Deadlines and retention are not delayed by a backlog (`work.ts`).
//   3. A turn is taken once in a poll: one that fails at once is due at once, and the poll would not end otherwise.
//   4. A row that cannot be read affects its own session only.

import type { ActiveTurns } from "../drive/active-turns.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Query, Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { DueTenants } from "./due-tenants.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { holderHasEnded, unclaimed } from "../rows/lease.ts";
import { keyOf } from "../rows/session-key.ts";
import { duePut, hasDueRow, moveIndexedDue } from "../rows/session-write.ts";
import { readValue } from "../rows/stored.ts";

/** How many turns of one tenant are taken before the next tenant is served. */
const share = 8;

/** How many due rows of a tenant are read at a time. */
const pageSize = 64;

/** How many rows are skipped for a while at most. Others are examined again by the next poll. */
const maxSkipped = 10_000;

/** A place in the rows of one tenant. */
export type DueCursor = { readonly due: number; readonly session: string };

/** What a runtime remembers between polls. */
type Scan = {
  /** The engine that was served last. */
  engine: string | null;
  /** The tenant that was served last, by engine. */
  readonly served: Map<string, string>;
  /**
   * Turns that this process leaves to others for a while, by the name of their row, and until when. Other processes see
   * their rows.
   */
  readonly skipped: Map<string, number>;
  /** Where the next poll continues, by engine and tenant, if the last one was cut off between two pages. */
  cursors: ReadonlyMap<string, DueCursor>;
};

/** How much one poll may do. */
type Budget = {
  /** Rows that are claimed, moved, removed or tried. */
  rows: number;
  /** Pages that are read. */
  pages: number;
  /** When it ends, in milliseconds. */
  readonly until: number;
};

export type PollOptions = {
  /** How many turns this process drives at most. */
  readonly limit: number;
  /**
   * Turns that failed here a moment ago are left alone, and an error of one turn does not keep the others from being
   * driven.
   */
  readonly patient?: boolean;
  /** `null`: the poll handles everything that was due when it began. */
  readonly budget?: Budget | null;
  /** What the caller remembers of tenants between polls; `null`: every round reads one row of each tenant. */
  readonly tenants?: DueTenants | null;
};

/** The state of one poll. */
type Pass = {
  readonly scan: Scan;
  readonly limit: number;
  readonly patient: boolean;
  readonly budget: Budget;
  readonly tenants: DueTenants | null;
  /** Rows that are due later are not examined. */
  readonly horizon: number;
  /** Turns that were taken, by name. */
  readonly taken: Set<string>;
  /** Rows that this poll does not examine again, by name. */
  readonly handled: Set<string>;
  readonly cursors: Map<string, DueCursor>;
  /** How many turns were taken. */
  driven: number;
};

export type Poll = {
  /** How many turns this process took. */
  readonly driven: number;
  /** The budget was spent before all due rows were examined. */
  readonly isCutOff: boolean;
};

const scans = new WeakMap<ActiveTurns, Scan>();

function scanOf(turns: ActiveTurns, now: number): Scan {
  const scan = scans.get(turns) ?? { engine: null, served: new Map(), skipped: new Map(), cursors: new Map() };
  scans.set(turns, scan);
  for (const [name, until] of scan.skipped) if (until <= now) scan.skipped.delete(name);
  return scan;
}

/** Drives turns that are due until this process drives `limit` turns, no row is left, or the budget is spent. */
export async function pickUpDue(
  context: VerbContext,
  { limit, patient = false, budget = null, tenants = null }: PollOptions,
): Promise<Poll> {
  const horizon = await context.clock.latest();
  const scan = scanOf(context.turns, horizon);
  const pass: Pass = {
    scan,
    limit,
    patient,
    budget: budget ?? { rows: Infinity, pages: Infinity, until: Infinity },
    tenants,
    horizon,
    taken: new Set(),
    handled: new Set(),
    cursors: new Map(scan.cursors),
    driven: 0,
  };
  scan.cursors = new Map();
  while (await serveEngines(context, pass));
  const isCutOff = isSpent(context, pass);
  if (isCutOff) scan.cursors = pass.cursors;
  return { driven: pass.driven, isCutOff };
}

function isSpent({ clock }: VerbContext, { budget }: Pass): boolean {
  return budget.rows <= 0 || budget.pages <= 0 || clock.now() >= budget.until;
}

/**
 * May this process drive another turn? While a suspect is driven alone, a worker takes none; `recover` queues the turns
 * that it finds.
 */
function hasPlace({ turns }: VerbContext, { limit, patient }: Pass): boolean {
  return turns.count < limit && !turns.isFull && !(patient && turns.isIsolating);
}

/** May the poll take another turn? */
function mayContinue(context: VerbContext, pass: Pass): boolean {
  return hasPlace(context, pass) && !isSpent(context, pass);
}

/** One round: serves every engine once. Returns whether another round may find more. */
async function serveEngines(context: VerbContext, pass: Pass): Promise<boolean> {
  const { engine: last } = pass.scan;
  const names = Object.keys(context.engines);
  const first = last === null ? 0 : names.indexOf(last) + 1;
  let hasProgress = false;
  for (const engine of [...names.slice(first), ...names.slice(0, first)]) {
    if (await serveEngine(context, pass, engine)) hasProgress = true;
  }
  return hasProgress && mayContinue(context, pass);
}

/**
 * Serves every tenant of an engine that has due rows once, beginning after the one that was served last. Returns
 * whether another round may find more.
 */
async function serveEngine(context: VerbContext, pass: Pass, engine: string): Promise<boolean> {
  const { scan, horizon, tenants } = pass;
  let hasProgress = false;
  const serve = async (tenant: string): Promise<void> => {
    scan.engine = engine;
    scan.served.set(engine, tenant);
    tenants?.visited(engine, tenant);
    if (await serveTenant(context, pass, engine, tenant)) hasProgress = true;
  };
  const last = scan.served.get(engine);
  if (!mayContinue(context, pass)) return false;
  const due = tenants === null ? null : await tenants.dueAt(context.storage, engine, horizon);
  if (due !== null) {
    const first = last === undefined ? 0 : due.findIndex((tenant) => tenant > last);
    for (const tenant of first === -1 ? due : [...due.slice(first), ...due.slice(0, first)]) {
      if (!mayContinue(context, pass)) return false;
      await serve(tenant);
    }
    return hasProgress;
  }
  const round = tenants?.round(engine, horizon);
  const visited = new Set<string>();
  while (hasPlace(context, pass)) {
    const row = await nextTenant(context, engine, scan.served.get(engine));
    const tenant = row === null ? null : String(row.key[1]);
    if (row === null || tenant === null || visited.has(tenant)) {
      round?.complete();
      return hasProgress;
    }
    visited.add(tenant);
    round?.note(row);
    if (Number(row.key[2]) > horizon) {
      // Reading past a tenant needs no budget. The next poll continues after it, so that tenants after many others are
      // reached.
      scan.served.set(engine, tenant);
      continue;
    }
    if (!mayContinue(context, pass)) return false;
    await serve(tenant);
  }
  return false;
}

/** The earliest row of the tenant after that one which has rows in the index, or of the first one. */
export async function nextTenant(
  { storage }: VerbContext,
  engine: string,
  after: string | undefined,
): Promise<Row | null> {
  const first = { table: "due", prefix: [engine], limit: 1 } as const;
  const [next = [], start = []] = await storage.read([after === undefined ? first : { ...first, after }, first]);
  return next[0] ?? start[0] ?? null;
}

/** Takes a few due turns of one tenant. Returns whether another visit may find more. */
async function serveTenant(context: VerbContext, pass: Pass, engine: string, tenant: string): Promise<boolean> {
  const { storage, clock } = context;
  const { handled, budget } = pass;
  const due = await nextRows(context, pass, engine, tenant);
  const first = Math.floor(clock.random() * (Math.max(0, due.length - share) + 1));
  const rows = due.slice(first, first + share);
  if (rows.length === 0) return false;
  const keys = rows.map((row): SessionKey => ({ tenant, session: String(row.key[3]) }));
  const stored = await storage.read(
    keys.flatMap((key) => [
      { table: "open", prefix: keyOf(key) } as const,
      { table: "leases", prefix: keyOf(key) } as const,
    ]),
  );
  for (const [index, row] of rows.entries()) {
    if (!mayContinue(context, pass)) return false;
    budget.rows -= 1;
    const key = keys[index] ?? { tenant, session: "" };
    const [openRow] = stored[2 * index] ?? [];
    const [lease] = stored[2 * index + 1] ?? [];
    try {
      const outcome = await takeOne(context, pass, key, row, openRow ?? null, lease ?? null);
      if (outcome === "driven") pass.driven += 1;
      else if (outcome === "taken") handled.add(rowName(row));
      else if (outcome === "skipped") skip(context, pass, row);
    } catch (error) {
      // A row that cannot be read concerns its own session only. Other errors are the storage's.
      if (isUnreadable(error)) skip(context, pass, row);
      else if (pass.patient) return false;
      else throw error;
    }
  }
  return true;
}

/** Leaves the turn of a row to other processes for one renewal time. */
function skip({ lease }: VerbContext, { scan, handled, horizon }: Pass, row: Row): void {
  handled.add(rowName(row));
  if (scan.skipped.size < maxSkipped) scan.skipped.set(rowName(row), horizon + lease.renewMs);
}

/** The due rows of the first page of a tenant that has rows for this process. The cursor stays at that page. */
async function nextRows(
  { storage }: VerbContext,
  { scan, handled, cursors, budget, horizon }: Pass,
  engine: string,
  tenant: string,
): Promise<readonly Row[]> {
  const name = JSON.stringify([engine, tenant]);
  while (budget.pages > 0) {
    budget.pages -= 1;
    const pages = await storage.read(pageQueries(engine, tenant, cursors.get(name) ?? null, horizon));
    const page = pages.flat().slice(0, pageSize);
    const rows = page.filter((row) => !scan.skipped.has(rowName(row)) && !handled.has(rowName(row)));
    if (rows.length > 0) return rows;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) break;
    cursors.set(name, { due: Number(last.key[2]), session: String(last.key[3]) });
  }
  return [];
}

/**
 * Queries for the next `limit` due rows of a tenant: the rows of the same time after the cursor, and the rows of later
 * times.
 */
export function pageQueries(
  engine: string,
  tenant: string,
  cursor: DueCursor | null,
  horizon: number,
  limit = pageSize,
): readonly Query[] {
  const rest = { table: "due", prefix: [engine, tenant], before: horizon + 1, limit } as const;
  if (cursor === null || cursor.due > horizon) return [rest];
  const same = { table: "due", prefix: [engine, tenant, cursor.due], after: cursor.session, limit } as const;
  return [same, { ...rest, after: cursor.due }];
}

function rowName({ key }: Row): string {
  return JSON.stringify(key);
}

/** Drives the turn of one row, moves or removes the row, or leaves it to other processes. */
async function takeOne(
  context: VerbContext,
  { taken, patient }: Pass,
  key: SessionKey,
  row: Row,
  openRow: Row | null,
  lease: Row | null,
): Promise<"driven" | "moved" | "skipped" | "taken"> {
  const { turns } = context;
  const turn = await turnOfRow(context, key, row, openRow, lease);
  if (turn === null) return "moved";
  const name = JSON.stringify([...keyOf(key), turn]);
  if (taken.has(name)) return "taken";
  if (patient && turns.left.hasJustFailed(key, turn)) return "skipped";
  const picked = await turns.tryPickUp(key);
  if (picked === "driven") taken.add(name);
  return picked === "left" ? "skipped" : picked;
}

/**
 * The turn of a row that is due; `null`: the row was out of date or a process holds the session, and the row was moved
 * or removed. Throws if a row cannot be read: such a row stays, because a newer release may have written it.
 */
export async function turnOfRow(
  context: VerbContext,
  key: SessionKey,
  row: Row,
  openRow: Row | null,
  lease: Row | null,
): Promise<string | null> {
  const { storage, clock } = context;
  const removal: Changes = { checks: [], removals: [{ table: "due", prefix: row.key }], puts: [] };
  if (openRow === null) {
    // A turn may be accepted in between, and be due at the time of this row.
    const closed: Changes = { ...noChanges, checks: [{ table: "open", key: keyOf(key), tag: null }] };
    await storage.write(merge(closed, removal));
    return null;
  }
  const open = readValue("open", openRow);
  if (open.due !== row.key[2] || open.engine !== row.key[0]) {
    await replaceRow(context, key, row, open, lease);
    return null;
  }
  const remaining = lease?.remainingMs ?? 0;
  if (lease === null || remaining <= 0) return open.turn;
  const holder = readValue("leases", lease);
  // A row with more time left than it was written with outlasts a clock that was set back (`rows/lease.ts`, invariant
  // 6).
  if (remaining > holder.ttlMs || holderHasEnded(holder, storage.liveness ?? null)) return open.turn;
  // Held: due when the lease expires. Conditional: if the lease was released meanwhile, the row must stay due now.
  const held: Changes = {
    checks: [{ table: "leases", key: keyOf(key), tag: lease.tag, alive: true }],
    removals: [],
    puts: [],
  };
  await storage.write(merge(held, moveIndexedDue(key, open, lease.expires ?? clock.now())));
  return null;
}

/**
 * Removes a row that differs from the open turn, whose own row stays. Without its own row the turn gets one first, and
 * the next pass removes the other. The turn may be moved in between, also to the time of this row: then its own row is
 * not the one that was read, or another epoch is stored.
 */
async function replaceRow(
  { storage }: VerbContext,
  key: SessionKey,
  row: Row,
  open: OpenTurn,
  lease: Row | null,
): Promise<void> {
  const own = duePut(key, open);
  const [stored = []] = await storage.read([{ table: "due", prefix: own.key, limit: 1 }]);
  const checks = [unclaimed(keyOf(key), lease)];
  await storage.write(
    stored.length === 0
      ? { checks, removals: [], puts: [own] }
      : { checks: [...checks, hasDueRow(key, open)], removals: [{ table: "due", prefix: row.key }], puts: [] },
  );
}

/** Whether an error concerns one row only. Other errors are the storage's. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof RuntimeError && (error.reason === "corrupt_row" || error.reason === "newer_schema");
}
