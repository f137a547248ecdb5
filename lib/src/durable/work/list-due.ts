// Lists the sessions with due turns for `sweep`, page by page, without driving them. The rows of the index are examined
// as by a poll (`due.ts`): a row that is out of date is removed, and the row of a session that a process holds is moved
// to the end of the lease. Otherwise sessions that run for a long time would be listed for ever where no worker runs,
// because the renewal of a lease moves no row.
//
// Order
//   The first page serves the tenants round robin, so that the backlog of one tenant does not delay the others. If it
//   is full, there may be more sessions than the callers get on with, for example sessions that fail again and again,
//   which stay due. So the pages after it are a pass over the index in its order (engine, tenant, time, session), from
//   the cursor on, and half of the places of each belong to the tenants round robin.
//
// Invariants
//   1. Each session that is due during a whole pass is listed by one of its pages, whatever other sessions do. A pass
//      ends.
//   2. A page reads at most about twice `limit` rows of the index that stay there, and one row for each tenant that has
//      open turns. Rows that are moved or removed are read in addition: each is moved at most once in a lease time.

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Query, Row } from "../rows/storage.ts";
import type { DueCursor } from "./due.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { isUnreadable, nextTenant, pageQueries, turnOfRow } from "./due.ts";

/** A page of sessions; `next` is the cursor of the page after it, `null` after the last one. */
export type DuePage = { readonly keys: readonly SessionKey[]; readonly next: string | null };

/** The place of a pass: the row that it examined last; `null`: it begins. */
type PassCursor = readonly [engine: string, tenant: string, due: number, session: string] | null;

/** One page: the first one, or the one of the cursor `after`. Throws `MisuseError` if `after` is no cursor. */
export async function listDue(context: VerbContext, limit: number, after: string | null): Promise<DuePage> {
  const horizon = await context.clock.latest();
  if (after === null) {
    const keys = await roundRobin(context, limit, horizon);
    return { keys, next: keys.length < limit ? null : cursorText(null) };
  }
  const pass = await inOrder(context, Math.ceil(limit / 2), parsedCursor(after), horizon);
  const first = await roundRobin(context, limit - pass.keys.length, horizon);
  const keys = new Map([...pass.keys, ...first].map((key) => [nameOf(key), key]));
  return { keys: [...keys.values()], next: pass.next };
}

/**
 * Due sessions of the tenants, round robin, at most `limit`: first an equal share of each tenant, then what the others
 * leave.
 */
async function roundRobin(context: VerbContext, limit: number, horizon: number): Promise<readonly SessionKey[]> {
  const lines = await linesDue(context, horizon);
  const keys: SessionKey[] = [];
  while (lines.size > 0 && keys.length < limit) {
    const served = [...lines].slice(0, limit - keys.length);
    const share = Math.max(1, Math.floor((limit - keys.length) / served.length));
    for (const line of served) {
      const rows = await read(context, pageQueries(line.engine, line.tenant, line.cursor, horizon, share), share);
      keys.push(...(await examined(context, rows)));
      const last = rows.at(-1);
      if (last === undefined || rows.length < share) lines.delete(line);
      else line.cursor = { due: Number(last.key[2]), session: String(last.key[3]) };
    }
  }
  return keys;
}

/** The due rows of one tenant and engine, and where the next visit continues. */
type Line = { readonly engine: string; readonly tenant: string; cursor: DueCursor | null };

/** The tenants whose earliest row is due, for each engine of this runtime. */
async function linesDue(context: VerbContext, horizon: number): Promise<Set<Line>> {
  const lines = new Set<Line>();
  for (const engine of Object.keys(context.engines)) {
    const visited = new Set<string>();
    for (let after: string | undefined; ;) {
      const row = await nextTenant(context, engine, after);
      const tenant = row === null ? null : String(row.key[1]);
      if (row === null || tenant === null || visited.has(tenant)) break;
      visited.add(tenant);
      if (Number(row.key[2]) <= horizon) lines.add({ engine, tenant, cursor: null });
      after = tenant;
    }
  }
  return lines;
}

/** Examines the next `limit` rows of the index in its order. */
async function inOrder(
  context: VerbContext,
  limit: number,
  after: PassCursor,
  horizon: number,
): Promise<{ readonly keys: readonly SessionKey[]; readonly next: string | null }> {
  const engines = Object.keys(context.engines).toSorted();
  const queries = engines.flatMap((engine): readonly Query[] => {
    const all = { table: "due", prefix: [engine], limit } as const;
    if (after === null || engine > after[0]) return [all];
    if (engine < after[0]) return [];
    const [, tenant, due, session] = after;
    return [
      { table: "due", prefix: [engine, tenant, due], after: session, limit },
      { table: "due", prefix: [engine, tenant], after: due, limit },
      { ...all, after: tenant },
    ];
  });
  const rows = await read(context, queries, limit);
  const last = rows.at(-1);
  const keys = await examined(
    context,
    rows.filter(({ key }) => Number(key[2]) <= horizon),
  );
  if (last === undefined || rows.length < limit) return { keys, next: null };
  const [engine, tenant, due, session] = last.key;
  return { keys, next: cursorText([String(engine), String(tenant), Number(due), String(session)]) };
}

/** The first `limit` rows of the answers, whose queries are in the order of the index. */
async function read({ storage }: VerbContext, queries: readonly Query[], limit: number): Promise<readonly Row[]> {
  return (await storage.read(queries)).flat().slice(0, limit);
}

/** The sessions of rows that are due. Other rows are moved or removed. */
async function examined(context: VerbContext, rows: readonly Row[]): Promise<readonly SessionKey[]> {
  const keys = rows.map((row): SessionKey => ({ tenant: String(row.key[1]), session: String(row.key[3]) }));
  const stored = await context.storage.read(
    keys.flatMap((key) => [
      { table: "open", prefix: keyOf(key) } as const,
      { table: "leases", prefix: keyOf(key) } as const,
    ]),
  );
  const due: SessionKey[] = [];
  for (const [index, row] of rows.entries()) {
    const key = keys[index] ?? { tenant: "", session: "" };
    const [openRow = null] = stored[2 * index] ?? [];
    const [lease = null] = stored[2 * index + 1] ?? [];
    try {
      if ((await turnOfRow(context, key, row, openRow, lease)) !== null) due.push(key);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
  }
  return due;
}

function cursorText(cursor: PassCursor): string {
  return JSON.stringify(cursor ?? []);
}

function parsedCursor(text: string): PassCursor {
  const [engine, tenant, due, session] = cursorParts(text);
  if (engine === undefined) return null;
  if (typeof engine === "string" && typeof tenant === "string" && Number.isSafeInteger(due)) {
    if (typeof session === "string") return [engine, tenant, Number(due), session];
  }
  throw notACursor();
}

function cursorParts(text: string): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(text);
    if (Array.isArray(parts)) return parts;
  } catch {
    // Not JSON.
  }
  throw notACursor();
}

function notACursor(): MisuseError {
  return new MisuseError("invalid_argument", "sweep: after must be the cursor `next` of an earlier sweep", {
    path: ["after"],
  });
}
