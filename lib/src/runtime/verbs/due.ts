// Finds due work by its index, the table `due`: open turns by engine, tenant, and the time at which a worker looks at them. A poll reads a few rows of it, whatever the
// backlog is.
//
// How rows move
//   a turn is accepted            due at once; or when the lease expires, if the process that accepts it drives it
//   a turn is claimed             due when the lease expires
//   a lease is renewed            nothing: the worker that meets the row moves it to the new expiry, which happens at most once a lease time
//   a lease is released           due at once
//   a takeover has to wait (Q17)  due when the backoff is over
//   a turn fails in a process     nothing: that process skips it for a while, others may take it
//   a turn ends or is parked      the row is removed; if it had been moved meanwhile, the worker that meets it finds no open turn and removes it
//   a row differs from the open turn   the worker that meets it replaces it by the row of the open turn
// The index only says where to look. Whether a turn may be driven is decided by its lease.
//
// Fairness: tenants of an engine are served in turn, a few turns each, beginning after the tenant that was served last.

import type { VerbContext } from "../context.ts";
import type { ActiveTurns } from "../drive/active-turns.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";

import { RuntimeError } from "../../model/internal.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { keyOf } from "../rows/session-key.ts";
import { duePut, moveDue } from "../rows/session-write.ts";
import { readValue } from "../rows/stored.ts";

/** How many turns of one tenant are taken before the next tenant is served. */
const share = 8;

/** How many due rows of a tenant are read. Workers take a share of them from a random place on, so that they do not all claim the same turns. */
const pageSize = 64;

/** What a runtime remembers between polls. */
type Scan = {
  /** The tenant that was served last, by engine. */
  readonly served: Map<string, string>;
  /** Turns that this process leaves to others for a while, by the name of their row, and until when. Other processes see their rows. */
  readonly skipped: Map<string, number>;
};

/** What one call remembers besides. A turn is taken once in a call: one that fails at once is due at once, and the call would never end. */
type Pass = Scan & {
  /** Turns that were taken, by name. */
  readonly taken: Set<string>;
  /** Rows of turns that were taken and have come back, by the name of the row. */
  readonly left: Set<string>;
};

/** Rows that are skipped at most. */
const maxSkipped = 1024;

const scans = new WeakMap<ActiveTurns, Scan>();

function scanOf(turns: ActiveTurns, now: number): Scan {
  const scan = scans.get(turns) ?? { served: new Map(), skipped: new Map() };
  scans.set(turns, scan);
  for (const [name, until] of scan.skipped) if (until <= now) scan.skipped.delete(name);
  return scan;
}

/**
 * Drives turns that are due until this process drives `limit` turns, and returns how many it took. `patient`: turns that failed here a moment ago are
 * left alone, and an error of one turn does not keep the others from being driven.
 */
export async function pickUpDue(context: VerbContext, limit: number, patient = false): Promise<number> {
  const { turns, engines } = context;
  const scan: Pass = { ...scanOf(turns, context.clock.now()), taken: new Set(), left: new Set() };
  const { served } = scan;
  let count = 0;
  for (const engine of Object.keys(engines)) {
    for (let moved = true; moved && turns.count < limit && !turns.isFull;) {
      moved = false;
      const visited = new Set<string>();
      for (;;) {
        const tenant = await nextTenant(context, engine, served.get(engine));
        if (tenant === null || visited.has(tenant)) break;
        visited.add(tenant);
        served.set(engine, tenant);
        const took = await takeDue(context, scan, engine, tenant, limit, patient);
        count += took.driven;
        moved ||= took.rows > 0;
        if (turns.count >= limit || turns.isFull) return count;
      }
    }
  }
  return count;
}

/** The tenant after that one which has rows in the index, or the first one. */
async function nextTenant({ storage }: VerbContext, engine: string, after: string | undefined): Promise<string | null> {
  const first = { table: "due", prefix: [engine], limit: 1 } as const;
  const [next = [], start = []] = await storage.read([after === undefined ? first : { ...first, after }, first]);
  const row = next[0] ?? start[0];
  return row === undefined ? null : String(row.key[1]);
}

/** Takes a few due turns of one tenant. `rows`: how many rows of the index were driven, moved or removed; rows that stay are not counted. */
async function takeDue(
  context: VerbContext,
  pass: Pass,
  engine: string,
  tenant: string,
  limit: number,
  patient: boolean,
): Promise<{ readonly rows: number; readonly driven: number }> {
  const { storage, clock, turns } = context;
  const now = clock.now();
  const { skipped, left } = pass;
  const limits = { before: now + 1, limit: pageSize + skipped.size + left.size };
  const [read = []] = await storage.read([{ table: "due", prefix: [engine, tenant], ...limits }]);
  const due = read.filter((row) => !skipped.has(rowName(row)) && !left.has(rowName(row))).slice(0, pageSize);
  const first = Math.floor(clock.random() * (Math.max(0, due.length - share) + 1));
  const rows = due.slice(first, first + share);
  const keys = rows.map((row): SessionKey => ({ tenant, session: String(row.key[3]) }));
  const found = await storage.read(
    keys.flatMap((key) => [
      { table: "open", prefix: keyOf(key) } as const,
      { table: "leases", prefix: keyOf(key) } as const,
    ]),
  );
  const count = { rows: 0, driven: 0 };
  for (const [index, row] of rows.entries()) {
    if (turns.count >= limit || turns.isFull) return count;
    const key = keys[index] ?? { tenant, session: "" };
    const [openRow] = found[2 * index] ?? [];
    const [lease] = found[2 * index + 1] ?? [];
    try {
      const took = await takeOne(context, pass, key, row, openRow ?? null, lease ?? null, patient);
      if (took === "driven") count.driven += 1;
      if (took === "driven" || took === "moved") count.rows += 1;
      else if (took === "taken") left.add(rowName(row));
      else if (skipped.size < maxSkipped) skipped.set(rowName(row), now + skipMs(context));
    } catch (error) {
      // A row that cannot be read concerns its own session only. Other errors are the storage's.
      if (isUnreadable(error) && skipped.size < maxSkipped) skipped.set(rowName(row), now + skipMs(context));
      else if (patient) return count;
      else throw error;
    }
  }
  return count;
}

function rowName({ key }: Row): string {
  return JSON.stringify(key);
}

/** How long this process leaves a turn to others. */
function skipMs({ lease }: VerbContext): number {
  return lease.renewMs;
}

/** Drives the turn of one row, moves or removes the row, or leaves it to other processes. */
async function takeOne(
  context: VerbContext,
  { taken }: Pass,
  key: SessionKey,
  row: Row,
  openRow: Row | null,
  lease: Row | null,
  patient: boolean,
): Promise<"driven" | "moved" | "skipped" | "taken"> {
  const { storage, clock, turns, lease: timings } = context;
  const now = clock.now();
  const removal: Changes = { checks: [], removals: [{ table: "due", prefix: row.key }], puts: [] };
  if (openRow === null) {
    // A turn may be accepted in between, and be due at the time of this row.
    const closed: Changes = { ...noChanges, checks: [{ table: "open", key: keyOf(key), tag: null }] };
    await storage.write(merge(closed, removal));
    return "moved";
  }
  // A row that cannot be read is reported as such, and its row in the index stays: a newer release may have written it.
  const open = readValue("open", openRow);
  if (open.due !== row.key[2] || open.engine !== row.key[0]) {
    // The row in the index follows the open turn. That restores it, should it be missing.
    await storage.write(merge(removal, putting(duePut(key, open))));
    return "moved";
  }
  const remaining = lease?.remainingMs ?? 0;
  if (lease !== null && remaining > 0 && remaining <= timings.ttlMs) {
    // Held: looked at again when the lease expires. Not if it was released meanwhile.
    const held: Changes = {
      checks: [{ table: "leases", key: keyOf(key), tag: lease.tag, alive: true }],
      removals: [],
      puts: [],
    };
    await storage.write(merge(held, moveDue(key, open, now + Math.ceil(remaining))));
    return "moved";
  }
  const name = JSON.stringify([...keyOf(key), open.turn]);
  if (taken.has(name)) return "taken";
  if (patient && turns.hasJustFailed(key, open.turn)) return "skipped";
  const picked = await turns.tryPickUp(key);
  if (picked === "driven") taken.add(name);
  return picked === "left" ? "skipped" : picked;
}

function isUnreadable(error: unknown): boolean {
  return error instanceof RuntimeError && (error.reason === "corrupt_row" || error.reason === "newer_schema");
}
