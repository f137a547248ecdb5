// Fills an index table that a storage has just created in a database with older rows. Without it, sessions and turns of
// an older release would be found by no worker and in no list. The same for every storage: a generator asks for rows
// and returns rows to write, and the storage answers within the transaction that creates the table.
//
// It also writes the row of the format (`rows/format.ts`), if there is none: the tables are of an older release, whose
// processes may run, also if nothing is stored yet. Later the tables are complete, and an empty database is a new one.
//
// A row that cannot be read affects its own session only: it is left out.

import type { Key, Put, Query, Row, TableName, WorkItem } from "../../rows/internal.ts";

import {
  firstFormat,
  formatPut,
  formatQuery,
  retainedSession,
  retainedTurn,
  workPut,
  workPutOf,
} from "../../rows/internal.ts";

/** What a storage has to do next: answer the queries, or write the rows. */
type BackfillRequest =
  | { readonly type: "read"; readonly queries: readonly Query[] }
  | { readonly type: "write"; readonly puts: readonly Put[] };

/** The rows of the queries of the last request; none after a write. */
type Answer = readonly (readonly Row[])[];

type Backfill = Generator<BackfillRequest, void, Answer>;

/** A row with its parsed data; rows whose value is not an object are left out. */
type DataRow = Pick<Row, "key" | "tag" | "value"> & { readonly data: { readonly [field: string]: unknown } };

/** How many rows are read at once, and how many characters. */
const page = { limit: 500, maxLength: 4 * 1_048_576 };

/** Fills those of the tables that are indexes of other tables. `created`: the tables that the database lacked. */
export function* backfill(created: readonly TableName[]): Backfill {
  if (created.length > 0) {
    const [formats = []]: Answer = yield { type: "read", queries: [formatQuery] };
    if (formats.length === 0) yield { type: "write", puts: [formatPut(firstFormat)] };
  }
  if (created.includes("work")) {
    yield* each("open", openTurnWork);
    yield* each("starts", retainedTurnWork);
    yield* each("sessions", retainedSessionWork);
    yield* each("waiting", (row) => [workPutOf("waiting", row)]);
    yield* each("deadlines", (row) => [workPutOf("deadlines", row)]);
  }
  if (created.includes("attention")) yield* each("sessions", attentionRows);
  if (created.includes("turn_times")) yield* each("starts", turnTimeRows);
}

type IndexRow = Pick<Put, "table" | "key"> & Partial<Put>;

/**
 * Reads a table page by page, and writes the index rows of each page. Rows of sessions are read with the status of
 * their open turns.
 */
function* each(table: TableName, indexRows: (row: DataRow, turnStatus: unknown) => readonly IndexRow[]): Backfill {
  let last: Key = [];
  for (;;) {
    const pages: Answer = yield { type: "read", queries: following(table, last) };
    const rows = pages.find(({ length }) => length > 0);
    if (rows === undefined) return;
    last = rows.at(-1)?.key ?? last;
    const readable = rows.flatMap(dataOf);
    const queries = table === "sessions" ? readable.map(openTurn) : [];
    const turns: Answer = queries.length === 0 ? [] : yield { type: "read", queries };
    const puts = readable.flatMap((row, index) => {
      const turnStatus = turns[index]?.flatMap(dataOf)[0]?.data["status"];
      return indexRows(row, turnStatus).map((indexRow): Put => ({ tag: 0, value: "", ...indexRow }));
    });
    if (puts.length > 0) yield { type: "write", puts };
  }
}

/** Selects the row of the open turn of a session; no turn has an empty name. */
function openTurn({ key, data: { turn } }: DataRow): Query {
  return { table: "turns", prefix: [...key, typeof turn === "string" ? turn : ""] };
}

/**
 * The queries for the rows after a key, those with the longest common prefix first; the first one that has rows
 * continues the table.
 */
function following(table: TableName, last: Key): readonly Query[] {
  if (last.length === 0) return [{ table, prefix: [], ...page }];
  return last.map((after, length): Query => ({ table, prefix: last.slice(0, length), after, ...page })).toReversed();
}

/**
 * Open turns, unless they wait for a limit. Those of releases without a time are due at once. A row that names no
 * engine is left out.
 */
function openTurnWork(row: DataRow): readonly IndexRow[] {
  const { engine, due, limit } = row.data;
  if (typeof engine !== "string" || (isObject(limit) && limit["type"] === "waiting")) return [];
  return [workPut({ reason: "turn", queue: engine, key: sessionKey(row), at: timeOf(due) ?? 0, item: "" })];
}

/** Turns by the time of their acceptance, for a retention time that is set later. */
function retainedTurnWork(row: DataRow): readonly IndexRow[] {
  const turn = String(row.key[2]);
  const accepted = timeOf(row.data["acceptedAt"]);
  return accepted === null || turn === "forked" ? [] : [workPut(retainedTurn(sessionKey(row), turn, accepted))];
}

/** Sessions by the time of their creation. */
function retainedSessionWork(row: DataRow): readonly IndexRow[] {
  const created = timeOf(row.data["createdAt"]);
  return created === null || row.data["deleted"] === true ? [] : [workPut(retainedSession(sessionKey(row), created))];
}

function sessionKey({ key: [tenant = "", session = ""] }: DataRow): WorkItem["key"] {
  return { tenant: String(tenant), session: String(session) };
}

/**
 * Sessions that wait for a person, and those whose turn is parked. Sessions of releases without this index have no
 * owner.
 */
function attentionRows({ key: [tenant = "", id = ""], data }: DataRow, turnStatus: unknown): readonly IndexRow[] {
  const { deleted, session, turn = null } = data;
  const changed = timeOf(data["changedAt"]);
  const sessionStatus = isObject(session) ? session["status"] : null;
  const isWaiting = turn === null && (sessionStatus === "awaiting_user" || sessionStatus === "awaiting_tools");
  const status = isWaiting ? "waiting" : turnStatus === "parked" ? "parked" : null;
  if (deleted === true || changed === null || status === null) return [];
  return [{ table: "attention", key: [tenant, status, changed, id] }];
}

/**
 * Turns by the time of their acceptance. A fork stores the start of a turn of another session under the name `forked`.
 */
function turnTimeRows({ key: [tenant = "", session = "", turn = ""], data }: DataRow): readonly IndexRow[] {
  const accepted = timeOf(data["acceptedAt"]);
  if (accepted === null || turn === "forked") return [];
  return [{ table: "turn_times", key: [tenant, session, accepted, turn] }];
}

/** A time of a row; 0: the row has none. `null`: it is not a whole number. */
function timeOf(value: unknown): number | null {
  if (value === undefined) return 0;
  return typeof value === "number" && Number.isSafeInteger(value) ? value : null;
}

/** The prefix of values with references to large texts (`durable/rows/large-values.ts`): the value is below `data`. */
const large = "large:";

/** The data of a row; nothing if its value cannot be read. */
function dataOf({ key, tag, value }: Row): readonly DataRow[] {
  try {
    const parsed: unknown = JSON.parse(value.startsWith(large) ? value.slice(large.length) : value);
    const stored = value.startsWith(large) && isObject(parsed) ? parsed["data"] : parsed;
    const data = isObject(stored) ? stored["data"] : null;
    return isObject(data) ? [{ key, tag, value, data }] : [];
  } catch {
    return [];
  }
}

function isObject(value: unknown): value is { readonly [field: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
