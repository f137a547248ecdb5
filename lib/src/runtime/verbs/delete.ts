// Deletes a session.

import type { VerbContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { StoredSession } from "../rows/session-write.ts";
import type { Removal, Row } from "../rows/storage.ts";

import { newSession } from "../../model/internal.ts";
import { readOne } from "../context.ts";
import { merge } from "../rows/batch.ts";
import { releasePut } from "../rows/lease.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { deleteRows, emptyHead } from "../rows/session-write.ts";
import { readValue, salvageHead } from "../rows/stored.ts";
import { readableHead } from "./browse.ts";
import { headOf, lastStart, readSession, sessionKey } from "./session-rows.ts";
import { openCallDeadlines } from "./waits.ts";

/**
 * Deletes a session, also one whose rows cannot be read. A tombstone stays, so that a process that still holds the session cannot write it again; a
 * process that drives it is fenced off by a higher epoch. Rows that are not found by the session are removed when they are due (marks of journals, and
 * deadlines of calls that were answered) or hold nothing of it (tokens are digests; pinned configurations are shared by content).
 */
export async function deleteSession(context: VerbContext, id: string): Promise<void> {
  const { storage, histories, owner } = context;
  const key = sessionKey(context, id);
  for (;;) {
    const { head: row, lease } = await readSession(context, key);
    const isCorrupt = row !== null && readableHead(row) === null;
    const before = isCorrupt ? await corruptSession(context, id, row) : { key, ...headOf(id, row), turn: null };
    const epoch = lease?.tag ?? 0;
    const fenced = releasePut(keyOf(key), { owner: owner(), epoch: epoch + 1 });
    const written = await storage.write(
      merge(deleteRows(before, newSession({ id })), {
        checks: [{ table: "leases", key: keyOf(key), tag: lease?.tag ?? null }],
        removals: [...(await deadlineRemovals(context, before)), ...(await dueRemovals(context, key))],
        puts: [fenced],
      }),
    );
    if (!written.ok) continue;
    histories.forget(nameOf(key));
    return;
  }
}

/** The row of the open turn in the index of due work. */
async function dueRemovals({ storage }: VerbContext, key: SessionKey): Promise<readonly Removal[]> {
  const row = await readOne(storage, { table: "open", prefix: keyOf(key) });
  if (row === null) return [];
  try {
    const { engine, due } = readValue("open", row);
    return [{ table: "due", prefix: [engine, key.tenant, due, key.session] }];
  } catch {
    // A worker removes a row in `due` that belongs to no open turn.
    return [];
  }
}

/** Deadlines of the calls that wait. Their rows are found by time, so they are computed again as they were written. */
async function deadlineRemovals(context: VerbContext, stored: StoredSession): Promise<readonly Removal[]> {
  const { key, head } = stored;
  const { session, lastTurn, changedAt } = head;
  try {
    const last = await lastStart(context, stored);
    const { pendingToolCalls } = session;
    const puts = openCallDeadlines(key, lastTurn ?? "", pendingToolCalls, last?.options ?? {}, changedAt, session);
    return puts.map(({ table, key: prefix }): Removal => ({ table, prefix }));
  } catch {
    // A start that cannot be read does not keep the session from being deleted.
    return [];
  }
}

/** What is known of a session whose row is corrupt: enough to delete it. */
async function corruptSession(context: VerbContext, id: string, row: Row): Promise<StoredSession> {
  const key = sessionKey(context, id);
  const query = { table: "events", prefix: keyOf(key), reverse: true, limit: 1 } as const;
  const newest = await readOne(context.storage, query);
  const remains = salvageHead(row) ?? { changedAt: 0, sequence: 0 };
  const sequence = Math.max(remains.sequence, Number(newest?.key[2] ?? 0));
  return { key, head: { ...emptyHead(newSession({ id }), remains.changedAt), sequence }, version: row.tag, turn: null };
}
