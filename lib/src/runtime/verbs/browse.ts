// Reads sessions: one session, a page of sessions, a page of messages, and the usage of a session. Pagination is by cursor.

import type { LedgerSum, Message, Page, SessionSummary, SessionView, Usage } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { SessionHead } from "../rows/values.ts";

import { addUsage, MisuseError, noUsage, parse, RuntimeError, ValidationError } from "../../model/internal.ts";
import { loadHistory, readMessages } from "../history-cache.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { summary } from "./handles.ts";
import { engineOfSession, find, openTurn, openTurnStatuses, sessionKey } from "./session-rows.ts";

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
    openTurn: await openTurn(context, key, head.turn),
    queuedTurns: inbox.flatMap((inputRow) => readValue("inbox", inputRow).ownTurn?.id ?? []),
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
 * Reads messages of a range: at most `limit`, and of at most `maxLength` characters together, or one. The page waits for a slot of the tenant, so that many
 * requests for long histories do not delay those of other tenants.
 */
async function rangeOfMessages(
  { storage, readSlots, tenant }: VerbContext,
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
      length += row.value.length;
      if (items.length > 0 && length > (maxLength ?? Infinity)) return false;
      items.push(readValue("entries", row));
    }
    return rows.length > 0 && items.length < limit && length < (maxLength ?? Infinity);
  };
  // One slot for the whole page: requests that wait for a slot hold no messages.
  await readSlots.run(tenant, async () => {
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
 * A page of messages after the index `after`, counted from 0, or after the cursor `next` of the previous page; the default is from the first. With
 * `before`, the messages before an index: `next` is then the cursor for the page before.
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

/**
 * A page of sessions, most recently changed first. A session whose row cannot be read is left out; `get` with its id reports the error. A
 * session that changes between two pages moves to the front, so it may be missing or appear twice.
 */
export async function listSessions(
  context: VerbContext,
  { limit = 50, after }: { readonly limit?: number; readonly after?: string } = {},
): Promise<Page<SessionSummary>> {
  checkLimit("list", limit);
  const { storage, tenant } = context;
  const from = after === undefined ? null : pageCursor(after);
  const query = { table: "recent", limit: limit + 1, reverse: true } as const;
  const [same = [], older = []] = await storage.read([
    {
      ...query,
      prefix: from === null ? [tenant, -1] : [tenant, from.changed],
      ...(from === null ? {} : { before: from.session }),
    },
    { ...query, prefix: [tenant], ...(from === null ? {} : { before: from.changed }) },
  ]);
  const rows = [...same, ...older].slice(0, limit + 1);
  const pageRows = rows.slice(0, limit);
  const heads = await storage.read(
    pageRows.map((row) => ({ table: "sessions", prefix: [tenant, String(row.key[2])] }) as const),
  );
  const listed = heads.flat().flatMap((row) => {
    const head = readableHead(row);
    if (head === null || head.deleted) return [];
    return [{ head, version: row.tag, key: sessionKey(context, head.session.id ?? ""), turn: head.turn }];
  });
  const statuses = await openTurnStatuses(context, listed);
  const items = listed.map(({ head, version }, index) => summary(head, version, statuses[index] ?? null));
  const last = pageRows.at(-1);
  return { items, next: rows.length > limit && last !== undefined ? `${last.key[1]}:${last.key[2]}` : null };
}

/** Reads a session row; `null`: it is corrupt or was written by a newer release. One such row must not prevent the listing of others. */
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
 * Adds usage to the ledger line of a model that belongs to no session. Compare-and-swap: concurrent writers, also in other processes, add to
 * the same line. Rejects with `ValidationError` for invalid usage.
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
    const value = writeValue("ledger", { source: "model", model, usage: plus(before, parsed.value) });
    const written = await storage.write({
      checks: [{ table: "ledger", key, tag: row?.tag ?? null }],
      removals: [],
      puts: [{ table: "ledger", key, tag: (row?.tag ?? 0) + 1, value }],
    });
    if (written.ok) return;
  }
}

/** The usage of a session, summed by source and model; `null`: the usage without a session. Reads all its ledger lines. */
export async function usageOf(context: VerbContext, id: string | null): Promise<LedgerSum> {
  const prefix = id === null ? [context.tenant, noSession] : keyOf((await find(context, id)).key);
  const [rows = []] = await context.storage.read([{ table: "ledger", prefix }]);
  const sums = new Map<string, { source: string; model: string | null; usage: Usage }>();
  let total: Usage = noUsage;
  for (const row of rows) {
    const { source, model, usage } = readValue("ledger", row);
    const name = JSON.stringify([source, model]);
    const line = sums.get(name) ?? { source, model, usage: noUsage };
    sums.set(name, { ...line, usage: plus(line.usage, usage) });
    total = plus(total, usage);
  }
  return { total, lines: [...sums.values()] };
}

/** Parses the cursor of `list`: time of the last change and session id. */
function pageCursor(text: string): { readonly changed: number; readonly session: string } {
  const match = /^(\d{1,15}):(.*)$/s.exec(text);
  if (match === null)
    throw new MisuseError("invalid_argument", "list: after must be next of the previous page", { path: ["after"] });
  return { changed: Number(match[1]), session: match[2] ?? "" };
}

function plus(sum: Usage, more: Usage): Usage {
  const total = addUsage(sum, more);
  return total.ok ? total.value : sum;
}
