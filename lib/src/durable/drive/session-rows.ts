// Reads the rows of a session for verbs, and builds the errors that they share. A verb reads all it needs in one read
// (`readSession`).

import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { JsonObject, LimitWait, Message, OpenTurnView, Session, TurnStatus } from "../../core/model/internal.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { StoredSession } from "../rows/session-write.ts";
import type { Query, Row } from "../rows/storage.ts";
import type { SessionHead, TurnStart } from "../rows/values.ts";
import type { Admission } from "./admission.ts";
import type { VerbContext } from "./context.ts";
import type { VerbOptions } from "./types.ts";

import { appendHistory } from "../../core/kernel/internal.ts";
import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { noChanges } from "../rows/batch.ts";
import { loadHistory } from "../rows/history-cache.ts";
import { scopeParts } from "../rows/limits.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { emptyHead, writeSession } from "../rows/session-write.ts";
import { checkReadable, readValue } from "../rows/stored.ts";
import { admissionOf } from "./admission.ts";
import { readOne } from "./context.ts";

/** The key of a session of the tenant. Throws `MisuseError` if the id is not a non-empty string. */
export function sessionKey({ tenant }: Pick<VerbContext, "tenant">, id: string): SessionKey {
  if (typeof id === "string" && id !== "") return { tenant, session: id };
  throw new MisuseError("invalid_argument", "the id of a session must be a non-empty string", { path: ["id"] });
}

/** The rows of a session that a verb reads first. */
export type SessionRows = {
  readonly key: SessionKey;
  readonly head: Row | null;
  readonly lease: Row | null;
  /** The row of the idempotency key, if the caller gave one. */
  readonly accepted: Row | null;
  /** The rows of the messages; `null`: they were not read. */
  readonly entries: readonly Row[] | null;
  readonly limits: ReadLimits | null;
};

/** Rows of limits that were read together with the session, for a turn with this engine and limit key. */
type ReadLimits = {
  readonly engine: string;
  readonly limitKey: string | null;
  readonly admission: Admission;
  readonly rows: readonly (readonly Row[])[];
};

/**
 * Reads these rows in one read. `turn`: the engine and the limit key of the turn that the verb is expected to start. If
 * this process drives the turns that it accepts, what the limits of the turn depend on is read too, and the messages
 * unless the process has them.
 */
export async function readSession(
  context: VerbContext,
  key: SessionKey,
  idempotencyKey?: string,
  turn: Pick<VerbOptions, "engine" | "limitKey"> | null = null,
): Promise<SessionRows> {
  const { engine = "default", limitKey = context.limitKey } = turn ?? {};
  const drives = turn !== null && context.drives;
  const admission = drives ? admissionOf(context, { key, engine, limitKey, limit: null }) : null;
  // A session that is driven here has an open turn: no other one starts.
  const endRead = drives && !context.turns.drivesSession(key) ? context.histories.beginRead(nameOf(key)) : null;
  const keyQuery: readonly Query[] =
    idempotencyKey === undefined ? [] : [{ table: "accepted", prefix: [...keyOf(key), idempotencyKey] }];
  const queries: readonly Query[] = [
    { table: "sessions", prefix: keyOf(key) },
    { table: "leases", prefix: keyOf(key) },
    ...keyQuery,
    ...(endRead === null ? [] : [{ table: "entries", prefix: keyOf(key) } as const]),
  ];
  try {
    const results = await context.storage.read([...queries, ...(admission?.queries ?? [])]);
    const rowsOf = (table: Query["table"]) => results[queries.findIndex((query) => query.table === table)] ?? null;
    return {
      key,
      head: rowsOf("sessions")?.[0] ?? null,
      lease: rowsOf("leases")?.[0] ?? null,
      accepted: rowsOf("accepted")?.[0] ?? null,
      entries: rowsOf("entries"),
      limits: admission === null ? null : { engine, limitKey, admission, rows: results.slice(queries.length) },
    };
  } finally {
    endRead?.();
  }
}

/** A session that exists, its lease row, and the rows that were read with it. */
export type ExistingSession = StoredSession & {
  readonly version: number;
  readonly leaseRow: Row | null;
  readonly limits: ReadLimits | null;
  readonly entries: SessionRows["entries"];
};

/** The session of the rows. Throws `not_found` if there is no such session or it was deleted. */
export function existingSession({ key, head: row, lease, limits, entries }: SessionRows): ExistingSession {
  return { key, ...headOf(key.session, row), turn: null, leaseRow: lease, limits, entries };
}

/**
 * The state before a session is created. It may replace a deleted session: version and event sequence continue after
 * the tombstone. Throws `conflict` if the session exists.
 */
export function absentSession(
  { key, head: row, lease, limits }: SessionRows,
  session: Session<JsonObject>,
  now: number,
): StoredSession & Pick<ExistingSession, "leaseRow" | "limits" | "entries"> {
  const before = row === null ? null : readValue("sessions", row);
  if (before !== null && !before.deleted) {
    throw new RuntimeError("conflict", {
      message: `session ${JSON.stringify(key.session)} exists; continue it with reply, or choose another id`,
    });
  }
  const head = { ...emptyHead(session, now), sequence: before?.sequence ?? 0 };
  return { key, head, version: row?.tag ?? null, turn: null, leaseRow: lease, limits, entries: null };
}

/** Reads a session. Rejects with `not_found`. */
export async function find(context: VerbContext, id: string): Promise<ExistingSession> {
  return existingSession(await readSession(context, sessionKey(context, id)));
}

/** The value and the version of a session row. Throws `not_found` if it is absent or a tombstone. */
export function headOf(
  id: string,
  row: Row | null | undefined,
): { readonly head: SessionHead; readonly version: number } {
  const head = row === undefined || row === null ? null : readValue("sessions", row);
  if (row === undefined || row === null || head === null || head.deleted) {
    throw new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(id)}` });
  }
  return { head, version: row.tag };
}

/**
 * The turn id under which a fork stores the start row of the turn it was forked after: that turn belongs to another
 * session.
 */
export const forkedStart = "forked";

/** The start row of the turn that ended last, or that the session was forked after; `null`: there is none. */
export async function lastStart(
  { storage }: VerbContext,
  { key, head }: Pick<StoredSession, "key" | "head">,
): Promise<TurnStart | null> {
  const row = await readOne(storage, { table: "starts", prefix: turnKey(key, head.lastTurn ?? forkedStart) });
  return row === null ? null : readValue("starts", row);
}

/** The engine that a session continues with: that of its newest turn. */
export async function engineOfSession(
  context: VerbContext,
  session: Pick<StoredSession, "key" | "head">,
): Promise<string> {
  return session.head.engine ?? (await lastStart(context, session))?.engine ?? "default";
}

/**
 * The history of a session, from the rows that were read with it, from the cache or from the storage. A process that
 * does not drive turns needs no messages: length and digest are enough to accept a turn.
 */
export async function historyOf(
  context: VerbContext,
  { key, head, entries: rows = null }: Pick<StoredSession, "key" | "head"> & Partial<Pick<SessionRows, "entries">>,
): Promise<TurnHistory> {
  const { length, digest } = head;
  if (!context.drives) return { entries: [], length, digest };
  if (rows?.length !== length) return loadHistory(context, key, head);
  const history = { entries: rows.map((row) => readValue("entries", row)), length, digest };
  context.histories.keep(nameOf(key), history);
  return history;
}

/** Appends messages to a history, also to one that has only its length and digest: the digest is rolling. */
export function extendHistory(history: TurnHistory, messages: readonly Message[]): TurnHistory {
  if (history.entries.length >= history.length) return appendHistory(history, messages);
  const { digest } = appendHistory({ entries: [], length: 0, digest: history.digest }, messages);
  return { entries: [], length: history.length + messages.length, digest };
}

/**
 * The state of an open turn as callers see it. The row of a turn says `queued` until its first commit, which follows
 * the first reply of the model; a turn whose session has a valid lease is being driven, and is reported as `running`.
 */
export function visibleStatus(stored: TurnStatus, leaseRow: Row | undefined): TurnStatus {
  return stored === "queued" && (leaseRow?.remainingMs ?? 0) > 0 ? "running" : stored;
}

/** The state of an open turn, and the limit that it waits for. */
export type OpenTurnStatus = { readonly status: TurnStatus; readonly limitWait: LimitWait | null };

/**
 * The states of the open turns of these sessions, in order; `null`: a session without one. One read, and none if no
 * session has an open turn.
 */
export async function openTurnStatuses(
  { storage }: VerbContext,
  sessions: readonly { readonly key: SessionKey; readonly turn: string | null }[],
): Promise<readonly (OpenTurnStatus | null)[]> {
  const open = sessions.flatMap(({ key, turn }) => (turn === null ? [] : [{ key, turn }]));
  if (open.length === 0) return sessions.map(() => null);
  const rows = await storage.read(
    open.flatMap(({ key, turn }) => [
      { table: "turns", prefix: turnKey(key, turn) } as const,
      { table: "leases", prefix: keyOf(key) } as const,
      { table: "open", prefix: keyOf(key) } as const,
    ]),
  );
  const statuses = open.map((_, index): OpenTurnStatus | null => {
    const turnRow = rows[3 * index]?.[0];
    // The turn has ended, and its row was removed, since the session was read.
    if (turnRow === undefined) return null;
    const status = visibleStatus(readValue("turns", turnRow).status, rows[3 * index + 1]?.[0]);
    return { status, limitWait: limitWaitOf(rows[3 * index + 2]?.[0]) };
  });
  let next = 0;
  return sessions.map(({ turn }) => (turn === null ? null : (statuses[next++] ?? null)));
}

/** The limit that the turn of a row of `open` waits for; `null`: none. */
export function limitWaitOf(row: Row | undefined): LimitWait | null {
  const limit = row === undefined ? null : readValue("open", row).limit;
  return limit?.type === "waiting" ? { limit: scopeParts(limit.scope).kind, since: limit.since } : null;
}

/** The open turn of a session as callers see it. */
export async function openTurn(
  { storage }: VerbContext,
  key: SessionKey,
  turn: string | null,
): Promise<OpenTurnView | null> {
  if (turn === null) return null;
  const [turns = [], starts = [], leases = [], opened = []] = await storage.read([
    { table: "turns", prefix: turnKey(key, turn) },
    { table: "starts", prefix: turnKey(key, turn) },
    { table: "leases", prefix: keyOf(key) },
    { table: "open", prefix: keyOf(key) },
  ]);
  const [turnRow, startRow] = [turns[0], starts[0]];
  if (turnRow === undefined || startRow === undefined) return null;
  const { status: storedStatus, step, failure } = readValue("turns", turnRow);
  const status = visibleStatus(storedStatus, leases[0]);
  const { engine, base } = readValue("starts", startRow);
  return { turnId: turn, status, step, failure, engine, base, limitWait: limitWaitOf(opened[0]) };
}

/** Replaces the data of a session that has no open turn. Rejects with `conflict` if another writer has changed it. */
export async function replaceSession(
  context: VerbContext,
  before: StoredSession,
  after: Session<JsonObject>,
  also: Changes = noChanges,
): Promise<void> {
  const { key, head } = before;
  const write = writeSession(before, {
    now: context.clock.now(),
    session: { after, messages: [], history: head },
    also,
  });
  checkReadable("sessions", write.after.head);
  const written = await context.storage.write(write.changes);
  if (!written.ok) throw writeConflict(key, write.changes.checks[written.check]?.table);
}

/** The error of a verb whose batch was refused because another writer changed the session. */
export function writeConflict({ session }: SessionKey, table = "?"): RuntimeError {
  return new RuntimeError("conflict", {
    message: `session ${session} was changed concurrently (table ${table}); read it again and repeat the call`,
    metadata: { table },
  });
}
