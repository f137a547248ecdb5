// Restores rows of open turns in the index of work, for `recover()`, and for turns of processes of the release before
// (`import-former.ts`). Otherwise the row of an open turn is written in the batch that changes the turn, so none is
// missing unless the database was damaged or changed by hand.
//
// The rows of `open` and `work` are read at two moments, so a turn that is moved in between may get a second row. That
// is harmless: the worker that reads a row which differs from the open turn replaces it (`due-turns.ts`).

import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage, Put, Row } from "../rows/storage.ts";

import { readableOpen } from "../drive/waiting-turns.ts";
import { putting } from "../rows/batch.ts";
import { waitingPut } from "../rows/limits.ts";
import { duePut } from "../rows/open-rows.ts";

/** How many open turns are read at a time. */
const pageSize = 64;

/** The session that a page of open turns ends with; `null`: the next page is the first one. */
export type OpenCursor = readonly [tenant: string, session: string] | null;

/** Writes the missing rows of every open turn. */
export async function restoreWork({ storage }: { readonly storage: HostStorage }): Promise<void> {
  let cursor: OpenCursor = null;
  do {
    const page: OpenPage = await openPage(storage, cursor);
    cursor = page.next;
    const puts = page.rows.flatMap(workPutOf);
    const stored = await storage.read(puts.map(({ table, key }) => ({ table, prefix: key, limit: 1 }) as const));
    const missing = puts.filter((_, index) => stored[index]?.length === 0);
    if (missing.length > 0) await storage.write(putting(...missing));
  } while (cursor !== null);
}

/** The row of an open turn in the index: among the turns that are due, or among those that wait for a limit. */
function workPutOf(row: Row): readonly Put[] {
  const open = readableOpen(row);
  if (open === null) return [];
  const { turn, limit } = open;
  return [limit?.type === "waiting" ? waitingPut(keyIn(row), turn, limit) : duePut(keyIn(row), open)];
}

/** One page of open turns, and where the next page begins; `null` after the last page. */
export type OpenPage = { readonly rows: readonly Row[]; readonly next: OpenCursor };

/** Reads the page of open turns after a session. */
export async function openPage(storage: HostStorage, after: OpenCursor, limit = pageSize): Promise<OpenPage> {
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
