// Reads sessions: one session, a page of sessions (also of those with a status or an engine), a page of messages, and
// the usage of a session. Pagination is by cursor.

import type {
  Json,
  LedgerSum,
  Message,
  Page,
  SessionFilter,
  SessionFilterStatus,
  SessionSummary,
  SessionView,
  Usage,
} from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { SessionHead } from "../rows/values.ts";

import { nextTask } from "../../core/clock/clock.ts";
import {
  boundedSum,
  MisuseError,
  noUsage,
  parse,
  RuntimeError,
  sessionFilterStatuses,
  ValidationError,
} from "../../core/model/internal.ts";
import { engineOfSession, find, openTurn, openTurnStatuses, sessionKey } from "../drive/session-rows.ts";
import { loadHistory, readMessages } from "../rows/history-cache.ts";
import { rowLength } from "../rows/large-values.ts";
import { keyOf } from "../rows/session-key.ts";
import { ownerLabel } from "../rows/session-write.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { forkOriginOf } from "./fork-origin.ts";
import { summary } from "./session-summary.ts";

/** The session as of its last boundary commit, and its open turn; `null`: there is no such session. */
export async function getSession(
  context: VerbContext,
  id: string,
  { messages = "all", maxLength }: { readonly messages?: number | "all"; readonly maxLength?: number } = {},
): Promise<SessionView | null> {
  if (messages !== "all" && !(Number.isSafeInteger(messages) && messages >= 0)) {
    throw new MisuseError("invalid_argument", 'get: messages must be "all" or a whole number of 0 or more', {
      path: ["messages"],
    });
  }
  checkLength("get", maxLength);
  const key = sessionKey(context, id);
  const [rows = [], inbox = []] = await context.storage.read([
    { table: "sessions", prefix: keyOf(key) },
    { table: "inbox", prefix: keyOf(key) },
  ]);
  const [row] = rows;
  const head = row === undefined ? null : readValue("sessions", row);
  if (row === undefined || head === null || head.deleted) return null;
  const count = messages === "all" ? head.length : Math.min(messages, head.length);
  const threadMessages =
    maxLength !== undefined
      ? await lastMessages(context, key, { before: head.length, limit: count, maxLength })
      : count === head.length
        ? await allMessages(context, key, head)
        : await readMessages(context.storage, key, { after: head.length - count - 1, before: head.length });
  // The session was deleted since its row was read.
  if (threadMessages === null)
    return getSession(context, id, { messages, ...(maxLength === undefined ? {} : { maxLength }) });
  const session = { ...head.session, thread: { ...head.session.thread, messages: threadMessages } };
  return {
    session,
    version: row.tag,
    length: head.length,
    engine: await engineOfSession(context, { key, head }),
    owner: head.owner,
    startedBy: head.startedBy,
    openTurn: await openTurn(context, key, head.turn),
    queuedTurns: inbox.flatMap((inputRow) => readValue("inbox", inputRow).ownTurn?.id ?? []),
    forkedFrom: forkOriginOf(session.metadata),
  };
}

/** Which messages are read: those after a position, oldest first, or those before one, newest first. */
type MessageRange = {
  readonly after?: number;
  readonly before: number;
  readonly reverse?: boolean;
  readonly limit: number;
  readonly maxLength: number | undefined;
};

/** How many messages are read from the storage at a time: it loads them before it cuts them off at the length. */
const messagesPerRead = 16;

/**
 * Reads messages of a range: at most `limit`, and of at most `maxLength` characters together, or one. The page waits
 * for a permit of the tenant, so that many requests for long histories do not delay those of other tenants.
 */
async function rangeOfMessages(
  { storage, readPermits, tenant }: VerbContext,
  key: SessionKey,
  { after = -1, before, reverse = false, limit, maxLength }: MessageRange,
): Promise<readonly Message[]> {
  const items: Message[] = [];
  let length = 0;
  const readMore = async (): Promise<boolean> => {
    const [rows = []] = await storage.read([
      {
        table: "entries",
        prefix: keyOf(key),
        ...(reverse ? { before: before - items.length } : { after: after + items.length, before }),
        reverse,
        limit: Math.min(limit - items.length, messagesPerRead),
        ...(maxLength === undefined ? {} : { maxLength: Math.max(0, maxLength - length) }),
      },
    ]);
    for (const row of rows) {
      length += rowLength(row);
      if (items.length > 0 && length > (maxLength ?? Infinity)) return false;
      items.push(readValue("entries", row));
    }
    return rows.length > 0 && items.length < limit && length < (maxLength ?? Infinity);
  };
  // One permit for the whole page: requests that wait for a permit hold no messages.
  await readPermits.run(tenant, async () => {
    for (let isMore = limit > 0; isMore;) isMore = await readMore();
  });
  return items;
}

/** The last messages before a position, oldest first. */
async function lastMessages(
  context: VerbContext,
  key: SessionKey,
  range: Omit<MessageRange, "after" | "reverse">,
): Promise<readonly Message[]> {
  return (await rangeOfMessages(context, key, { ...range, reverse: true })).toReversed();
}

/** All messages of a session; `null`: it was deleted, and perhaps started again, since its row was read. */
async function allMessages(
  context: VerbContext,
  key: SessionKey,
  head: SessionHead,
): Promise<readonly Message[] | null> {
  try {
    return (await loadHistory(context, key, head)).entries.slice(0, head.length);
  } catch (error) {
    if (error instanceof RuntimeError && (error.reason === "not_found" || error.reason === "conflict")) return null;
    throw error;
  }
}

/**
 * A page of messages after the index `after`, counted from 0, or after the cursor `next` of the previous page; the
 * default is from the first. With `before`, the messages before an index: `next` is then the cursor for the page
 * before.
 */
export async function listMessages(
  context: VerbContext,
  id: string,
  { after: cursor = -1, before, limit = 100, maxLength }: MessagePageOptions = {},
): Promise<Page<Message>> {
  checkLimit("messages", limit);
  checkLength("messages", maxLength);
  if (before !== undefined) return messagesBefore(context, id, { before: positionOf(before), limit, maxLength });
  const after = typeof cursor === "string" && /^(?:-1|\d{1,15})$/.test(cursor) ? Number(cursor) : cursor;
  if (typeof after !== "number" || !Number.isSafeInteger(after) || after < -1) {
    throw new MisuseError(
      "invalid_argument",
      "messages: after must be the index of a message, or next of the previous page",
      { path: ["after"] },
    );
  }
  const { key, head } = await find(context, id);
  const items =
    maxLength === undefined
      ? await readMessages(context.storage, key, { after, before: head.length, limit })
      : await rangeOfMessages(context, key, { after, before: head.length, limit, maxLength });
  const last = after + items.length;
  return { items, next: last + 1 < head.length && items.length > 0 ? `${last}` : null };
}

/** Options of `messages`. */
export type MessagePageOptions = {
  readonly after?: number | string;
  readonly before?: number | string;
  readonly limit?: number;
  readonly maxLength?: number;
};

async function messagesBefore(
  context: VerbContext,
  id: string,
  {
    before,
    limit,
    maxLength,
  }: { readonly before: number; readonly limit: number; readonly maxLength: number | undefined },
): Promise<Page<Message>> {
  const { key, head } = await find(context, id);
  const end = Math.min(before, head.length);
  const items = await lastMessages(context, key, { before: end, limit, maxLength });
  const first = end - items.length;
  return { items, next: first > 0 && items.length > 0 ? `${first}` : null };
}

/** An index of a message, as a number or as a cursor. */
function positionOf(before: number | string): number {
  const position = typeof before === "string" && /^\d{1,15}$/.test(before) ? Number(before) : before;
  if (typeof position === "number" && Number.isSafeInteger(position) && position >= 0) return position;
  throw new MisuseError(
    "invalid_argument",
    "messages: before must be the index of a message, or next of a page that was read with before",
    { path: ["before"] },
  );
}

function checkLength(verb: string, maxLength: number | undefined): void {
  if (maxLength === undefined || (Number.isSafeInteger(maxLength) && maxLength >= 1)) return;
  throw new MisuseError("invalid_argument", `${verb}: maxLength must be a whole number of 1 or more`, {
    path: ["maxLength"],
  });
}

function checkLimit(verb: string, limit: number): void {
  if (Number.isSafeInteger(limit) && limit >= 1) return;
  throw new MisuseError("invalid_argument", `${verb}: limit must be a whole number of 1 or more`, {
    path: ["limit"],
  });
}

/** Options of `list`. */
export type SessionPageOptions = SessionFilter &
  SessionChoice & {
    readonly limit?: number;
    readonly after?: string;
  };

/** A function of the program that selects sessions. */
export type SessionChoice = {
  /** Only sessions for which the function returns `true`. Default: all. */
  readonly where?: (session: SessionSummary) => boolean | Promise<boolean>;
};

/** How many rows of an index are read at a time while sessions are filtered. */
const rowsPerRead = 64;

/** How many rows of an index one filtered page may read. */
const maxScannedRows = 1024;

/**
 * A page of sessions, most recently changed first. A session whose row cannot be read is left out; `get` with its id
 * reports the error. A session that changes between two pages moves to the front, so it may be missing or appear twice.
 *
 * The statuses `waiting` and `parked` and the owner have an index (`attention`), so their pages cost what they return.
 * Other filters examine sessions in the order of the list: a page examines at most 1,024 of them, may have fewer items
 * than `limit`, also none, and still have a `next`.
 */
export async function listSessions(
  context: VerbContext,
  { limit = 50, after, status, engine, owner, metadata, where }: SessionPageOptions = {},
): Promise<Page<SessionSummary>> {
  checkLimit("list", limit);
  if (status !== undefined && !sessionFilterStatuses.includes(status)) {
    throw new MisuseError("invalid_argument", `list: status must be one of ${sessionFilterStatuses.join(", ")}`, {
      path: ["status"],
    });
  }
  const { tenant } = context;
  const label = owner !== undefined ? ownerLabel(owner) : status === "waiting" || status === "parked" ? status : null;
  const index =
    label === null
      ? ({ table: "recent", prefix: [tenant] } as const)
      : ({ table: "attention", prefix: [tenant, label] } as const);
  const isFiltered =
    engine !== undefined ||
    where !== undefined ||
    metadata !== undefined ||
    (status !== undefined && status !== label) ||
    owner !== undefined;
  const wanted = Object.entries(metadata ?? {});
  const matches = async (item: SessionSummary): Promise<boolean> =>
    (status === undefined || filterStatus(item) === status) &&
    (engine === undefined || item.engine === engine) &&
    (owner === undefined || item.owner === owner) &&
    wanted.every(([name, text]) => Object.hasOwn(item.metadata, name) && stringOrJson(item.metadata[name]) === text) &&
    (where === undefined || (await where(item)));
  const items: SessionSummary[] = [];
  let from = after === undefined ? null : pageCursor(after);
  for (let scanned = 0; ;) {
    const { rows, isLast } = await indexPage(context, index, from, isFiltered ? rowsPerRead : limit - items.length);
    const summaries = await summariesOf(context, rows);
    for (const [position, row] of rows.entries()) {
      const item = summaries[position] ?? null;
      from = row;
      if (item === null || !(await matches(item))) continue;
      items.push(item);
      if (items.length >= limit) {
        const isEnd = isLast && position === rows.length - 1;
        return { items, next: isEnd ? null : cursorText(row) };
      }
    }
    scanned += rows.length;
    if (isLast || from === null) return { items, next: null };
    if (!isFiltered || scanned >= maxScannedRows) return { items, next: cursorText(from) };
  }
}

function stringOrJson(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A row of an index of sessions: the time of the last change and the id. */
type IndexRow = { readonly changed: number; readonly session: string };

/** The next rows of an index, newest first, after `from`. */
async function indexPage(
  { storage }: VerbContext,
  { table, prefix }: { readonly table: "recent" | "attention"; readonly prefix: readonly string[] },
  from: IndexRow | null,
  limit: number,
): Promise<{ readonly rows: readonly IndexRow[]; readonly isLast: boolean }> {
  const query = { table, limit: limit + 1, reverse: true } as const;
  const [sameTime = [], older = []] = await storage.read([
    {
      ...query,
      prefix: [...prefix, from?.changed ?? -1],
      ...(from === null ? {} : { before: from.session }),
    },
    { ...query, prefix, ...(from === null ? {} : { before: from.changed }) },
  ]);
  const all = [...sameTime, ...older];
  const rows = all.slice(0, limit).map(({ key }) => ({ changed: Number(key.at(-2)), session: String(key.at(-1)) }));
  return { rows, isLast: all.length <= limit };
}

/** The summaries of these sessions, in order; `null`: it was deleted, or its row cannot be read. */
async function summariesOf(
  context: VerbContext,
  rows: readonly IndexRow[],
): Promise<readonly (SessionSummary | null)[]> {
  const heads = await context.storage.read(
    rows.map(({ session }) => ({ table: "sessions", prefix: [context.tenant, session] }) as const),
  );
  const listed = rows.map(({ session }, index) => {
    const row = heads[index]?.[0];
    const head = row === undefined ? null : readableHead(row);
    const isListed = head !== null && !head.deleted;
    return { key: { tenant: context.tenant, session }, head: isListed ? head : null, version: row?.tag ?? 0 };
  });
  const statuses = await openTurnStatuses(
    context,
    listed.map(({ key, head }) => ({ key, turn: head?.turn ?? null })),
  );
  return listed.map(({ head, version }, index) =>
    head === null ? null : summary(head, version, statuses[index] ?? null),
  );
}

/** The status under which `list` selects a session. */
function filterStatus({ turnId, turnStatus, status }: SessionSummary): SessionFilterStatus {
  if (turnId !== null) return turnStatus === "parked" ? "parked" : "running";
  if (status === "error") return "failed";
  return status === "awaiting_user" || status === "awaiting_tools" ? "waiting" : "ended";
}

/**
 * Reads a session row; `null`: it is corrupt or was written by a newer release. One such row must not prevent the
 * listing of others.
 */
export function readableHead(row: Row): SessionHead | null {
  try {
    return readValue("sessions", row);
  } catch (error) {
    if (error instanceof RuntimeError && ["corrupt_row", "newer_schema"].includes(error.reason)) return null;
    throw error;
  }
}

/** The key of ledger lines without a session: no session has an empty id. */
const noSession = "";
const noTurn = "booked";

/**
 * Adds usage to the ledger line of a model that belongs to no session. Compare-and-swap: concurrent writers, also in
 * other processes, add to the same line. Rejects with `ValidationError` for invalid usage.
 */
export async function bookUsage(
  { storage, tenant }: VerbContext,
  usage: Usage,
  { model = null }: { readonly model?: string | null } = {},
): Promise<void> {
  const parsed = parse("usage", usage);
  if (!parsed.ok) throw new ValidationError("invalid_data", { issues: parsed.failure.issues });
  const key = [tenant, noSession, noTurn, JSON.stringify(model)];
  for (;;) {
    const [rows = []] = await storage.read([{ table: "ledger", prefix: key }]);
    const [row] = rows;
    const before = row === undefined ? noUsage : readValue("ledger", row).usage;
    const value = writeValue("ledger", { source: "model", model, usage: boundedSum(before, parsed.value) });
    const written = await storage.write({
      checks: [{ table: "ledger", key, tag: row?.tag ?? null }],
      removals: [],
      puts: [{ table: "ledger", key, tag: (row?.tag ?? 0) + 1, value }],
    });
    if (written.ok) return;
  }
}

/** How many ledger lines are read at a time. */
const linesPerRead = 1000;

/**
 * The usage of a session, summed by source and model; `null`: the usage without a session. Reads all its ledger lines,
 * in pages; other work runs between two pages.
 */
export async function readUsage(context: VerbContext, id: string | null): Promise<LedgerSum> {
  const prefix = id === null ? [context.tenant, noSession] : keyOf((await find(context, id)).key);
  const sums = new Map<string, { source: string; model: string | null; usage: Usage }>();
  let total: Usage = noUsage;
  const add = (row: Row): void => {
    const { source, model, usage } = readValue("ledger", row);
    const name = JSON.stringify([source, model]);
    const line = sums.get(name) ?? { source, model, usage: noUsage };
    sums.set(name, { ...line, usage: boundedSum(line.usage, usage) });
    total = boundedSum(total, usage);
  };
  const query = { table: "ledger", limit: linesPerRead } as const;
  let [rows = []] = await context.storage.read([{ ...query, prefix }]);
  for (;;) {
    for (const row of rows) add(row);
    const [, , turn, line] = rows.at(-1)?.key ?? [];
    if (turn === undefined || line === undefined || rows.length < linesPerRead) break;
    await nextTask();
    // The rest of the turn, and the turns after it.
    const [sameTurn = [], laterTurns = []] = await context.storage.read([
      { ...query, prefix: [...prefix, turn], after: line },
      { ...query, prefix, after: turn },
    ]);
    rows = [...sameTurn, ...laterTurns].slice(0, linesPerRead);
  }
  return { total, lines: [...sums.values()] };
}

function cursorText({ changed, session }: IndexRow): string {
  return `${changed}:${session}`;
}

/** Parses the cursor of `list`: time of the last change and session id. */
function pageCursor(text: string): IndexRow {
  const match = /^(\d{1,15}):(.*)$/s.exec(text);
  if (match === null)
    throw new MisuseError("invalid_argument", "list: after must be next of the previous page", { path: ["after"] });
  return { changed: Number(match[1]), session: match[2] ?? "" };
}
