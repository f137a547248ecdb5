// Copies into the index of work what processes of the release before have written while a database is not finalized
// (`rows/format.ts`): they write only the tables that the index has replaced. Removes what is left in these tables
// afterwards.
//
// Workers import about once a minute, and finalization imports everything. A row that is copied twice is written again
// with the same content, and one that is out of date is removed by whoever handles it, so no order matters.

import type { HostStorage, Key, Put, Query, Row } from "../rows/storage.ts";
import type { FormerTable, TableName } from "../rows/tables.ts";

import { noChanges, putting } from "../rows/batch.ts";
import { formatQuery } from "../rows/format-row.ts";
import { formatOf, storedFormats } from "../rows/format.ts";
import { workPutOf } from "../rows/former-index.ts";
import { formerTableNames } from "../rows/tables.ts";
import { retainedSession, retainedTurn, workPut } from "../rows/work.ts";
import { readableHead } from "../sessions/browse.ts";
import { rowsAfter } from "./pages.ts";
import { keyIn, restoreWork } from "./restore.ts";

/** How many rows are copied at a time. */
const pageSize = 256;

/**
 * Imports what is due at `now`, if the database is not finalized; otherwise removes rows of the former tables. A
 * volatile storage belongs to one process, so to one release.
 */
export async function importFormer(storage: HostStorage, now: number): Promise<void> {
  if (storage.durability === "volatile") return;
  const [[format] = [], ...former] = await storage.read([
    formatQuery,
    ...formerTableNames.map((table) => ({ table, prefix: [], limit: 1 }) as const),
  ]);
  const isFinalized = formatOf(format, storedFormats, storage.name) === storedFormats.newest;
  const left = formerTableNames.filter((_, index) => (former[index]?.length ?? 0) > 0);
  if (isFinalized) return removeFormer(storage, left);
  await restoreWork({ storage });
  const due = { prefix: [], before: now + 1, limit: pageSize } as const;
  const [deadlines = [], retained = []] = await storage.read([
    { table: "deadlines", ...due },
    { table: "retained", ...due },
  ]);
  await writeMissing(
    storage,
    deadlines.map((row) => workPutOf("deadlines", row)),
  );
  // These rows are moved: whoever handles a row of `work` for retention does not know the time of the former one.
  if (retained.length === 0) return;
  await storage.write({
    checks: [],
    removals: retained.map(({ key }) => ({ table: "retained", prefix: key })),
    puts: retained.map((row) => workPutOf("retained", row)),
  });
}

/** Imports everything that processes of the release before have written. */
export async function importAllFormer(storage: HostStorage): Promise<void> {
  await restoreWork({ storage });
  await copy(storage, "deadlines", (row) => [workPutOf("deadlines", row)]);
  // The release before has rows for retention only if a time is set, and none for sessions.
  await copy(storage, "turn_times", ({ key: [tenant = "", session = "", accepted = 0, turn = ""] }) => {
    const key = { tenant: String(tenant), session: String(session) };
    return [workPut(retainedTurn(key, String(turn), Number(accepted)))];
  });
  await copy(storage, "sessions", (row) => {
    const head = readableHead(row);
    return head === null || head.deleted ? [] : [workPut(retainedSession(keyIn(row), head.createdAt))];
  });
}

async function copy(storage: HostStorage, table: TableName, putsOf: (row: Row) => readonly Put[]): Promise<void> {
  for (let last: Key | null = null; ;) {
    const rows: readonly Row[] = await rowsAfter(storage, { table, prefix: [], limit: pageSize }, last);
    await writeMissing(storage, rows.flatMap(putsOf));
    last = rows.at(-1)?.key ?? null;
    if (last === null || rows.length < pageSize) return;
  }
}

/** Writes the rows that do not exist. */
async function writeMissing(storage: HostStorage, puts: readonly Put[]): Promise<void> {
  if (puts.length === 0) return;
  const stored = await storage.read(puts.map(({ table, key }): Query => ({ table, prefix: key, limit: 1 })));
  const missing = puts.filter((_, index) => stored[index]?.length === 0);
  if (missing.length > 0) await storage.write(putting(...missing));
}

async function removeFormer(storage: HostStorage, tables: readonly FormerTable[]): Promise<void> {
  if (tables.length === 0) return;
  await storage.write({ ...noChanges, removals: tables.map((table) => ({ table, prefix: [] })) });
}
