// Counts what a database holds, for operators: open, waiting and parked turns, overdue work, and the sizes of tables.
//
// Reads are bounded: indexes by a limit of rows, and sessions by a number over all tenants, most recently changed
// first. A count that reached its limit says so (`isCapped`). The sizes come from the storage.

import type { StorageQuery, StorageRow, TableSize } from "everturn/advanced";
import type { HostStorage, Runtime } from "everturn/runtime";

import { storageTables } from "everturn/advanced";

/** A number of rows or sessions. `isCapped`: there are more, or there may be more. */
export type Count = { readonly count: number; readonly isCapped: boolean };

/** What a database holds. */
export type DatabaseStats = {
  /** Open turns: queued, or driven by a process. Parked turns are not among them. */
  readonly open: Count;
  /** Sessions without an open turn that wait for an answer, an approval or the result of a tool. */
  readonly waiting: Count;
  /** Turns that are parked: no process drives them until they are recovered. */
  readonly parked: Count;
  /** Open turns whose due time has passed: no process has claimed them yet, or their process has died. */
  readonly due: Count;
  /** For how long the oldest of them has been due, in milliseconds; `null`: none is due. */
  readonly oldestDueMs: number | null;
  /** Open turns that wait because a limit of the runtime is reached. They are not due. */
  readonly limited: Count;
  /** Deadlines of waiting calls that have passed and were not acted upon yet. */
  readonly overdueDeadlines: Count;
  /** Sessions whose last turn has ended within the last hour, by their status. */
  readonly endedInLastHour: { readonly byStatus: { readonly [status: string]: number }; readonly isCapped: boolean };
  /** The tables; `null`: the storage cannot tell. */
  readonly tables: readonly TableSize[] | null;
};

/** How much is read at most. */
export type StatsLimits = {
  /** Rows of an index. Default: 10,000. */
  readonly rows: number;
  /** Sessions over all tenants. Default: 1,000. */
  readonly sessions: number;
};

const defaultLimits: StatsLimits = { rows: 10_000, sessions: 1_000 };
const hourMs = 3_600_000;

/** Counts. `sessions` is a runtime on the same storage. */
export async function databaseStats(
  storage: HostStorage,
  sessions: Runtime,
  now: number,
  limits: StatsLimits = defaultLimits,
): Promise<DatabaseStats> {
  const limit = limits.rows + 1;
  const queries: readonly StorageQuery[] = [
    { table: "open", prefix: [], limit },
    { table: "work", prefix: ["turn"], limit },
    { table: "work", prefix: ["deadline"], limit },
    { table: "work", prefix: ["limit"], limit },
  ];
  const [open = [], turns = [], deadlines = [], limited = []] = await storage.read(queries);
  const due = passed(turns, now, limits.rows);
  const oldest = due.times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);
  const counts = await sessionCounts(storage, sessions, now, limits.sessions);
  return {
    open: capped(open.length, limits.rows),
    due: due.count,
    limited: capped(limited.length, limits.rows),
    oldestDueMs: due.times.length === 0 ? null : now - oldest,
    overdueDeadlines: passed(deadlines, now, limits.rows).count,
    ...counts,
    tables: (await storage.sizes?.()) ?? null,
  };
}

/** The times of rows of the index of work that have passed, among the first `limit` rows. */
function passed(
  rows: readonly StorageRow[],
  now: number,
  limit: number,
): { readonly times: readonly number[]; readonly count: Count } {
  const times = rows.slice(0, limit).map(({ key }) => Number(key[timeColumn]));
  const due = times.filter((time) => time <= now);
  return { times: due, count: { count: due.length, isCapped: rows.length > limit } };
}

/** The place of the time in the keys of the index of work. */
const timeColumn = storageTables.work.findIndex(({ name }) => name === "at");

function capped(count: number, limit: number): Count {
  return { count: Math.min(count, limit), isCapped: count > limit };
}

type SessionCounts = Pick<DatabaseStats, "waiting" | "parked" | "endedInLastHour">;

/** Counts sessions of all tenants, up to `limit`. */
async function sessionCounts(
  storage: HostStorage,
  sessions: Runtime,
  now: number,
  limit: number,
): Promise<SessionCounts> {
  let [waiting, parked, left, isCapped] = [0, 0, limit, false];
  /** `true` once sessions that changed within the last hour may be among those that were not read. */
  let isHourCapped = false;
  const byStatus = new Map<string, number>();
  for await (const tenant of tenants(storage)) {
    if (left === 0) {
      [isCapped, isHourCapped] = [true, true];
      break;
    }
    const { items, next } = await sessions.tenant(tenant).list({ limit: left });
    left -= items.length;
    for (const { status, turnStatus, changedAt } of items) {
      const isWaiting = status === "awaiting_user" || status === "awaiting_tools";
      if (turnStatus === "parked") parked += 1;
      if (turnStatus !== null) continue;
      if (isWaiting) waiting += 1;
      if (now - changedAt <= hourMs) byStatus.set(status, (byStatus.get(status) ?? 0) + 1);
    }
    if (next === null) continue;
    isCapped = true;
    const last = items.at(-1);
    isHourCapped ||= last === undefined || now - last.changedAt <= hourMs;
  }
  return {
    waiting: { count: waiting, isCapped },
    parked: { count: parked, isCapped },
    endedInLastHour: { byStatus: Object.fromEntries(byStatus), isCapped: isHourCapped },
  };
}

/** The tenants that have sessions, found by a skip scan of the index: one row for each tenant. */
async function* tenants(storage: HostStorage): AsyncGenerator<string> {
  for (let last: string | null = null; ;) {
    const query: StorageQuery = { table: "recent", prefix: [], limit: 1, ...(last === null ? {} : { after: last }) };
    const [[row] = []] = await storage.read([query]);
    if (row === undefined) return;
    last = String(row.key[0]);
    yield last;
  }
}
