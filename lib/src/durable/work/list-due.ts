// Lists the sessions with due turns for `sweep`, page by page, without driving them. The rows of the index are examined
// as by a worker (`due-turns.ts`): a row that is out of date is removed, and the row of a session that a process holds
// is moved to the end of the lease. Otherwise sessions that run for a long time would be listed for ever where no
// worker runs, because the renewal of a lease moves no row.
//
// Order
//   The first page is a visit (`visit.ts`), which serves the tenants round robin, so that the backlog of one tenant
//   does not delay the others. If it is full, there may be more sessions than the callers get on with, for example
//   sessions that fail again and again, which stay due. So the pages after it follow the order of the index, from the
//   cursor on, and half of the places of each belong to a visit.
//
// Invariants
//   1. Each session that is due during all pages is listed by one of them, whatever other sessions do. The pages end.
//   2. A page reads at most about twice `limit` rows of the index that stay there, and one row for each tenant that has
//      open turns. Rows that are moved or removed are read in addition: each is moved at most once in a lease time.

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Key, Row } from "../rows/storage.ts";
import type { WorkKind } from "./visit.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { nameOf } from "../rows/session-key.ts";
import { tables } from "../rows/tables.ts";
import { workItem } from "../rows/work.ts";
import { openQueries, turnOfRow } from "./due-turns.ts";
import { pageOfQueues } from "./pages.ts";
import { isOfRow, visitOnce } from "./visit.ts";

/** A page of sessions; `next` is the cursor of the page after it, `null` after the last one. */
export type DuePage = { readonly keys: readonly SessionKey[]; readonly next: string | null };

/** One page: the first one, or the one of the cursor `after`. Throws `MisuseError` if `after` is no cursor. */
export async function listDue(context: VerbContext, limit: number, after: string | null): Promise<DuePage> {
  const horizon = await context.clock.latest();
  const keys = new Map<string, SessionKey>();
  if (after === null) {
    await visitOnce(context, listing(context, keys, limit), horizon);
    return { keys: [...keys.values()], next: keys.size < limit ? null : JSON.stringify([]) };
  }
  const next = await listInOrder(context, keys, Math.ceil(limit / 2), parsedCursor(after), horizon);
  await visitOnce(context, listing(context, keys, limit), horizon);
  return { keys: [...keys.values()], next };
}

/** Lists due sessions until there are `limit`: an equal share of each tenant, then what the others leave. */
function listing(context: VerbContext, keys: Map<string, SessionKey>, limit: number): WorkKind {
  return {
    reason: "turn",
    queues: Object.keys(context.engines),
    share: (lanes) => Math.max(1, Math.floor((limit - keys.size) / lanes)),
    retryMs: 0,
    hasPlace: () => keys.size < limit,
    queriesFor: openQueries,
    onError: null,
    handle: async ({ key }, row, [opened = [], leases = []]) => {
      if ((await turnOfRow(context, row, opened[0] ?? null, leases[0] ?? null)) === null) return "done";
      keys.set(nameOf(key), key);
      return "seen";
    },
  };
}

/** Lists the due sessions among the next `limit` rows of the index. Returns where the next page continues. */
async function listInOrder(
  context: VerbContext,
  keys: Map<string, SessionKey>,
  limit: number,
  after: Key | null,
  horizon: number,
): Promise<string | null> {
  const { rows, next } = await pageOfQueues(context.storage, "turn", Object.keys(context.engines), after, limit);
  const due = rows.map((row) => ({ row, item: workItem("turn", row) })).filter(({ item }) => item.at <= horizon);
  const stored = await context.storage.read(due.flatMap(({ item }) => openQueries(item)));
  for (const [index, { row, item }] of due.entries()) {
    if (await isDue(context, row, stored[2 * index]?.[0], stored[2 * index + 1]?.[0])) {
      keys.set(nameOf(item.key), item.key);
    }
  }
  return next === null ? null : JSON.stringify(next);
}

/** Returns whether the turn of a row is due. A row that cannot be read concerns its own session only. */
async function isDue(context: VerbContext, row: Row, open: Row | undefined, lease: Row | undefined): Promise<boolean> {
  try {
    return (await turnOfRow(context, row, open ?? null, lease ?? null)) !== null;
  } catch (error) {
    if (isOfRow(error)) return false;
    throw error;
  }
}

/** The key of a cursor; `null`: the first page in the order of the index. */
function parsedCursor(text: string): Key | null {
  const parts = cursorParts(text);
  if (parts.length === 0) return null;
  const key = tables.work.flatMap(({ type }, index): Key => {
    const part = parts[index];
    if (type === "text" && typeof part === "string") return [part];
    return type === "integer" && typeof part === "number" && Number.isSafeInteger(part) ? [part] : [];
  });
  if (parts.length === tables.work.length && key.length === parts.length) return key;
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
