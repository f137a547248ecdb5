// Looking at sessions, and what is done to them as a whole.

import type {
  JsonObject,
  LedgerSum,
  Message,
  Page,
  PendingToolCall,
  Session,
  SessionSummary,
  SessionView,
  Usage,
} from "../../model/internal.ts";
import type { SessionKey } from "../context.ts";
import type { Put, Removal, Row } from "../rows/storage.ts";
import type { SessionHead } from "../rows/stored.ts";
import type { Desk, Found } from "./desk.ts";

import { startHistory } from "../../kernel/internal.ts";
import {
  addUsage,
  MisuseError,
  noUsage,
  parse,
  RuntimeError,
  session as newSession,
  validateSession,
} from "../../model/internal.ts";
import { keyOf, loadHistory, nameOf, readMessages, readOne } from "../context.ts";
import { randomText } from "../rows/digest.ts";
import { readValue, remainsOf, writeHead, writeValue } from "../rows/stored.ts";
import { tablesOfSession } from "../rows/tables.ts";
import { entryPuts, find, forkedStart, headOf, keyFor, lastStart, openTurn } from "./desk.ts";
import { summary } from "./handles.ts";
import { openCallDeadlines } from "./waits.ts";

/** The session at its last boundary, and the turn that is open; `null` when there is none of that name. */
export async function getSession(
  desk: Desk,
  id: string,
  { messages = "all" }: { readonly messages?: number | "all" } = {},
): Promise<SessionView | null> {
  if (messages !== "all" && !(Number.isSafeInteger(messages) && messages >= 0)) {
    throw new MisuseError("invalid_argument", 'get: messages has to be "all" or a whole number of 0 or more', {
      path: ["messages"],
    });
  }
  const key = keyFor(desk, id);
  const row = await readOne(desk.context.storage, { table: "sessions", prefix: keyOf(key) });
  const head = row === null ? null : readValue("sessions", row);
  if (row === null || head === null || head.deleted) return null;
  const wanted = messages === "all" ? head.length : Math.min(messages, head.length);
  const said =
    wanted === head.length
      ? (await loadHistory(desk.context, key, head.length, head.digest)).entries.slice(0, head.length)
      : await readMessages(desk.context.storage, key, { after: head.length - wanted - 1, before: head.length });
  const session = { ...head.session, thread: { ...head.session.thread, messages: said } };
  return { session, version: row.tag, length: head.length, openTurn: await openTurn(desk, key, head.turn) };
}

/** Messages of a session, from a place on: from behind the one of that number, counted from 0, or from where the last page said. */
export async function listMessages(
  desk: Desk,
  id: string,
  { after: given = -1, limit = 100 }: { readonly after?: number | string; readonly limit?: number } = {},
): Promise<Page<Message>> {
  checkLimit("messages", limit);
  const after = typeof given === "string" && /^(?:-1|\d{1,15})$/.test(given) ? Number(given) : given;
  if (typeof after !== "number" || !Number.isSafeInteger(after) || after < -1) {
    throw new MisuseError("invalid_argument", "messages: that is no place in a session", { path: ["after"] });
  }
  const { key, head } = await find(desk, id);
  const items = await readMessages(desk.context.storage, key, { after, before: head.length, limit });
  const last = after + items.length;
  return { items, next: last + 1 < head.length && items.length > 0 ? `${last}` : null };
}

function checkLimit(verb: string, limit: number): void {
  if (Number.isSafeInteger(limit) && limit >= 1) return;
  throw new MisuseError("invalid_argument", `${verb}: the limit has to be a whole number of 1 or more`, {
    path: ["limit"],
  });
}

/** Sessions, those that changed last first. One whose head cannot be read is left out: asking for it by its id says why. */
export async function listSessions(
  desk: Desk,
  { limit = 50, after }: { readonly limit?: number; readonly after?: string } = {},
): Promise<Page<SessionSummary>> {
  checkLimit("list", limit);
  const { storage } = desk.context;
  const tenant = desk.tenant;
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
  const shown = rows.slice(0, limit);
  const heads = await storage.read(
    shown.map((row) => ({ table: "sessions", prefix: [tenant, String(row.key[2])] }) as const),
  );
  const items = heads.flat().flatMap((row): readonly SessionSummary[] => {
    const head = readableHead(row);
    return head === null || head.deleted ? [] : [summary(head, row.tag)];
  });
  const last = shown.at(-1);
  return { items, next: rows.length > limit && last !== undefined ? `${last.key[1]}:${last.key[2]}` : null };
}

/** The head of a session; `null` when its row is corrupt. */
function readableHead(row: Row): SessionHead | null {
  try {
    return readValue("sessions", row);
  } catch (error) {
    if (error instanceof RuntimeError && error.reason === "corrupt_row") return null;
    throw error;
  }
}

/**
 * Ends a session and forgets it, also one that cannot be read any more: only that it was there is kept, so that nobody who still holds it can bring
 * it back. What is not found by the session goes later or says little: marks of journals to remove, and of deadlines of calls that were answered
 * in part, go when they are due; tokens hold ids and digests only; and what turns were pinned to (instructions, tools, settings) is kept by
 * its content, which other sessions share.
 */
export async function deleteSession(desk: Desk, id: string): Promise<void> {
  const key = keyFor(desk, id);
  const { storage } = desk.context;
  for (;;) {
    const [heads = [], leases = []] = await storage.read([
      { table: "sessions", prefix: keyOf(key) },
      { table: "leases", prefix: keyOf(key) },
    ]);
    const [row] = heads;
    const lost = row !== undefined && readableHead(row) === null ? await lostHead(desk, key, row) : null;
    const { head, version } = lost ?? headOf(id, row);
    const epoch = leases[0]?.tag ?? 0;
    const tombstone: SessionHead = {
      ...head,
      session: newSession({ id }),
      length: 0,
      digest: startHistory([]).digest,
      turn: null,
      lastTurn: null,
      deleted: true,
    };
    const written = await storage.write({
      checks: [
        { table: "sessions", key: keyOf(key), tag: version },
        { table: "leases", key: keyOf(key), tag: leases[0]?.tag ?? null },
      ],
      removals: [
        ...tablesOfSession.map((table) => ({ table, prefix: keyOf(key) })),
        { table: "recent", prefix: [desk.tenant, head.changedAt, id] },
        ...(await deadlineRemovals(desk, key, head)),
      ],
      puts: [
        { table: "sessions", key: keyOf(key), tag: version + 1, value: writeHead(tombstone) },
        // Whoever drives it is fenced off.
        {
          table: "leases",
          key: keyOf(key),
          tag: epoch + 1,
          expires: 0,
          value: writeValue("leases", { owner: desk.context.owner }),
        },
      ],
    });
    if (!written.ok) continue;
    desk.context.histories.forget(nameOf(key));
    return;
  }
}

/** The deadlines of what waits, where nothing was said since: they are found by when they are due. Others go by themselves. */
async function deadlineRemovals(desk: Desk, key: SessionKey, head: SessionHead): Promise<readonly Removal[]> {
  const { session, lastTurn, changedAt } = head;
  try {
    const last = await lastStart(desk, { key, head });
    const puts = openCallDeadlines(
      key,
      lastTurn ?? "",
      session.pendingToolCalls,
      last?.options ?? {},
      changedAt,
      session,
    );
    return puts.map(({ table, key: prefix }): Removal => ({ table, prefix }));
  } catch {
    // What cannot be read any more keeps nobody from deleting the session.
    return [];
  }
}

/** What is left of a head that cannot be read: enough to delete it. */
async function lostHead(desk: Desk, key: SessionKey, row: Row): Promise<Pick<Found, "head" | "version">> {
  const newest = await readOne(desk.context.storage, {
    table: "events",
    prefix: keyOf(key),
    reverse: true,
    limit: 1,
  });
  const known = remainsOf(row) ?? { changedAt: 0, sequence: 0 };
  const head: SessionHead = {
    ...emptyHead(newSession({ id: key.session }), known.changedAt),
    sequence: Math.max(known.sequence, Number(newest?.key[2] ?? 0)),
  };
  return { head, version: row.tag };
}

/** The head of a session that says nothing yet. */
function emptyHead(session: Session<JsonObject>, now: number): SessionHead {
  return {
    session,
    length: 0,
    digest: startHistory([]).digest,
    turn: null,
    lastTurn: null,
    sequence: 0,
    createdAt: now,
    changedAt: now,
    deleted: false,
  };
}

/**
 * A session of its own that begins like this one: with all its messages, or with the first so many. Returns its id. What somebody consented to is
 * not consented to twice: while a turn uses it, the call waits again in the fork, and each call there has a key of its own. Tokens and
 * deadlines are the first one's.
 */
export async function fork(
  desk: Desk,
  id: string,
  options: { readonly id?: string; readonly at?: number } = {},
): Promise<string> {
  const { key, head } = await find(desk, id);
  const { length } = head;
  const at = options.at ?? length;
  if (!Number.isSafeInteger(at) || at < 0 || at > length) {
    throw new MisuseError("invalid_argument", `fork: the session has ${length} messages, not ${String(at)}`, {
      path: ["at"],
    });
  }
  const history = await loadHistory(desk.context, key, length, head.digest);
  const kept = history.entries.slice(0, at);
  const whole = at === length;
  const forked = newSession({
    ...(whole ? await unspent(desk, key, head) : {}),
    id: options.id ?? `session-${randomText(10)}`,
    thread: { ...head.session.thread, messages: [] },
    context: head.session.context,
    metadata: {
      ...(whole ? head.session.metadata : withoutError(head.session.metadata)),
      forkedFrom: { sessionId: id, at },
    },
  });
  const valid = parse("session", { ...forked, thread: { ...forked.thread, messages: kept } });
  if (!valid.ok) throw new MisuseError("invalid_argument", `fork: ${valid.failure.message}`);
  const checked = validateSession(valid.value);
  if (!checked.ok) {
    throw new MisuseError(
      "invalid_argument",
      `fork: a session cannot end at message ${at}: ${checked.failure.message}`,
      { path: ["at"] },
    );
  }
  const target = keyFor(desk, forked.id ?? "");
  const now = desk.context.clock.now();
  const begun = startHistory(kept);
  const { storage } = desk.context;
  // One that was deleted may be there again, as with start.
  const there = await readOne(storage, { table: "sessions", prefix: keyOf(target) });
  const gone = there === null ? null : readValue("sessions", there);
  const newHead: SessionHead = {
    ...emptyHead(forked, now),
    length: at,
    digest: begun.digest,
    sequence: gone?.sequence ?? 0,
  };
  // Answers go on with what the turn that asked was told: the fork has to know it too.
  const last = whole ? await lastStart(desk, { key, head }) : null;
  const told: readonly Put[] =
    last === null
      ? []
      : [{ table: "starts", key: [...keyOf(target), forkedStart], tag: 0, value: writeValue("starts", last) }];
  const written =
    (gone === null || gone.deleted) &&
    (await storage.write({
      checks: [{ table: "sessions", key: keyOf(target), tag: there?.tag ?? null }],
      removals: [],
      puts: [
        ...told,
        { table: "sessions", key: keyOf(target), tag: (there?.tag ?? 0) + 1, value: writeHead(newHead) },
        { table: "recent", key: [desk.tenant, now, target.session], tag: 0, value: "" },
        ...entryPuts(target, 0, kept),
      ],
    }));
  if (written === false || !written.ok)
    throw new RuntimeError("conflict", {
      message: `fork: a session ${JSON.stringify(target.session)} is there already`,
    });
  desk.context.histories.keep(nameOf(target), begun);
  return target.session;
}

/** The session as a fork has it: with nothing that the turn which is open is using up. */
async function unspent(
  desk: Desk,
  key: SessionKey,
  { session, turn, length }: SessionHead,
): Promise<Session<JsonObject>> {
  const own = session.pendingToolCalls.map((call): PendingToolCall => ({ ...call, idempotencyKey: null }));
  // What somebody consented to here is not consented to there.
  if (turn === null && own.every(({ decision }) => decision === null)) return { ...session, pendingToolCalls: own };
  const row =
    turn === null ? null : await readOne(desk.context.storage, { table: "starts", prefix: [...keyOf(key), turn] });
  // A turn that has said more has used what it began with: the results are among the messages.
  const isUsed = turn !== null && (row === null || length > readValue("starts", row).base);
  if (isUsed) return { ...session, pendingToolCalls: [], suspendedCell: null };
  const pendingToolCalls = own.map((call): PendingToolCall => ({ ...call, decision: null }));
  const asked = pendingToolCalls.find(({ reason }) => reason === "question") ?? null;
  const status = pendingToolCalls.length > 0 ? "awaiting_tools" : session.status;
  return {
    ...session,
    pendingToolCalls,
    status: asked === null ? status : "awaiting_user",
    pendingQuestion: asked?.question ?? null,
    pendingToolCallId: asked?.id ?? null,
  };
}

/** What a session has cost, by what it was paid for and by model. */
export async function usageOf(desk: Desk, id: string): Promise<LedgerSum> {
  const { key } = await find(desk, id);
  const [rows = []] = await desk.context.storage.read([{ table: "ledger", prefix: keyOf(key) }]);
  const sums = new Map<string, { source: string; model: string | null; usage: Usage }>();
  let total: Usage = noUsage;
  for (const row of rows) {
    const { source, model, usage } = readValue("ledger", row);
    const name = JSON.stringify([source, model]);
    const known = sums.get(name) ?? { source, model, usage: noUsage };
    sums.set(name, { ...known, usage: plus(known.usage, usage) });
    total = plus(total, usage);
  }
  return { total, lines: [...sums.values()] };
}

function pageCursor(text: string): { readonly changed: number; readonly session: string } {
  const found = /^(\d{1,15}):(.*)$/s.exec(text);
  if (found === null)
    throw new MisuseError("invalid_argument", "list: that is no page of this list", { path: ["after"] });
  return { changed: Number(found[1]), session: found[2] ?? "" };
}

function plus(sum: Usage, more: Usage): Usage {
  const total = addUsage(sum, more);
  return total.ok ? total.value : sum;
}

/** What is said of a session that failed is not true of one that begins before it did. */
function withoutError(metadata: JsonObject): JsonObject {
  const { error: _, ...rest } = metadata;
  return rest;
}
