// Restores rows of the index of due work. An open turn without a row in `due` is found by no worker. A process of an
// older release, which had a file open while it was migrated, accepts such turns: the schema version is checked when a
// file is opened, not with every write.
//
// If the clock of the storage is set back, open turns are due later than any turn is put off (the expiry of a lease, a
// backoff): they are made due now.
//
// `recover()` examines every open turn, a worker one page of them about once a minute. The rows of `open` and `due` are
// read at two moments, so a turn that is moved in between may get a second row. That is harmless: the worker that reads
// a row which differs from the open turn replaces it (`due.ts`).

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage, Put, Row } from "../rows/storage.ts";

import { longestMs } from "../drive/growing-lease.ts";
import { readableOpen } from "../drive/waiting-turns.ts";
import { putting } from "../rows/batch.ts";
import { waitingPut } from "../rows/limits.ts";
import { duePut, moveIndexedDue } from "../rows/session-write.ts";

/** How many open turns one pass examines. */
const pageSize = 64;

/** The session that the last pass ended with; `null`: the next pass begins with the first session. */
export type OpenCursor = readonly [tenant: string, session: string] | null;

/** Restores the rows of every open turn. */
export async function restoreAllDue(context: VerbContext): Promise<void> {
  let cursor: OpenCursor = null;
  do cursor = await restoreDue(context, cursor);
  while (cursor !== null);
}

/**
 * Restores the missing rows of one page of open turns, and those that are due too late. Returns where the next pass
 * continues; `null` after the last page.
 */
export async function restoreDue({ storage, clock, lease }: VerbContext, after: OpenCursor): Promise<OpenCursor> {
  const { rows, next } = await openPage(storage, after);
  const now = await clock.latest();
  const puts = rows.flatMap((row): readonly Put[] => {
    const open = readableOpen(row);
    if (open === null) return [];
    // A turn that waits for a limit is not due; it has a row among the waiting turns instead.
    const { turn, limit } = open;
    return [limit?.type === "waiting" ? waitingPut(keyIn(row), turn, limit) : duePut(keyIn(row), open)];
  });
  const stored = await storage.read(puts.map(({ table, key }) => ({ table, prefix: key, limit: 1 }) as const));
  const missing = puts.filter((_, index) => stored[index]?.length === 0);
  if (missing.length > 0) await storage.write(putting(...missing));
  for (const row of rows) {
    const open = readableOpen(row);
    const isFarAhead =
      open !== null && open.limit?.type !== "waiting" && open.due > now + Math.max(longestMs, lease.ttlMs);
    if (isFarAhead) await storage.write(moveIndexedDue(keyIn(row), open, now));
  }
  return next;
}

/** One page of open turns, and where the next page begins; `null` after the last page. */
export async function openPage(
  storage: HostStorage,
  after: OpenCursor,
  limit = pageSize,
): Promise<{ readonly rows: readonly Row[]; readonly next: OpenCursor }> {
  const page = { table: "open", limit } as const;
  const pages = await storage.read(
    after === null
      ? [{ ...page, prefix: [] }]
      : [
          { ...page, prefix: [after[0]], after: after[1] },
          { ...page, prefix: [], after: after[0] },
        ],
  );
  const rows = pages.flat().slice(0, limit);
  const last = rows.at(-1);
  const next: OpenCursor = last === undefined || rows.length < limit ? null : [keyIn(last).tenant, keyIn(last).session];
  return { rows, next };
}

/** The session of a row of `open`. */
export function keyIn({ key: [tenant = "", session = ""] }: Row): SessionKey {
  return { tenant: String(tenant), session: String(session) };
}
