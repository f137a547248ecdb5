// Deletes a session: one batch removes its rows, leaves a tombstone, and fences the process that drives it. Repeated
// until no writer interferes. The branches of a chat are deleted after it, each in a batch of its own: a deletion that
// was interrupted is completed by the next one.

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { StoredSession } from "../rows/session-write.ts";
import type { Check, Removal, Row } from "../rows/storage.ts";
import type { OpenTurn, TurnStart } from "../rows/values.ts";

import { newSession } from "../../core/model/internal.ts";
import { actorOf, readOne } from "../drive/context.ts";
import { headOf, lastStart, readSession, sessionKey } from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { nextToken, releasePut } from "../rows/lease.ts";
import { freedScopes, limitRemovals } from "../rows/limits.ts";
import { dueRemoval } from "../rows/open-rows.ts";
import { isOwnPinned } from "../rows/own-pinned.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { deleteRows, emptyHead } from "../rows/session-write.ts";
import { readValue, salvageHead } from "../rows/stored.ts";
import { openCallDeadlines } from "../rows/waits.ts";
import { retainedTurn, workRemoval } from "../rows/work.ts";
import { branchesOf } from "./branches.ts";
import { readableHead } from "./browse.ts";

/**
 * Deletes a session, also one whose rows cannot be read. A tombstone remains, so that a writer with the old version
 * cannot restore the session; the lease epoch is increased, so that a process that drives the session is fenced. Pinned
 * configurations with texts of a call are deleted too. Rows that are not keyed by session hold ids and digests only,
 * and are removed later: deadlines of answered calls when they are due, tokens by `collect.ts`,
 * names of cached replies by the cache. Pinned configurations of engines are shared, and hold nothing of a session. The
 * branches of a chat are deleted with it, also one that was created meanwhile.
 */
export async function deleteSession(
  context: VerbContext,
  id: string,
  { isAudited = true }: { readonly isAudited?: boolean } = {},
): Promise<void> {
  await deleteOne(context, id, isAudited);
  const key = sessionKey(context, id);
  for (let branches = await branchesOf(context, key); branches.length > 0; branches = await branchesOf(context, key))
    for (const branch of branches) await deleteSession(context, branch, { isAudited });
}

async function deleteOne(context: VerbContext, id: string, isAudited: boolean): Promise<void> {
  const { storage, clock, histories, owner } = context;
  const key = sessionKey(context, id);
  for (;;) {
    const { head: row, lease } = await readSession(context, key);
    const isCorrupt = row !== null && readableHead(row) === null;
    const stored = isCorrupt ? await corruptSession(context, id, row) : { key, ...headOf(id, row), turn: null };
    const { sequence, check } = await newestEvent(context, stored);
    const before = { ...stored, head: { ...stored.head, sequence } };
    const fencing = releasePut(keyOf(key), { owner: owner(), token: nextToken(lease?.tag ?? 0, clock.random()) });
    const open = await openTurnOf(context, key);
    // The digest of the history, which says what was deleted to whoever has a copy of it.
    const fact = {
      action: "delete",
      actor: actorOf(context),
      ...key,
      sessionId: id,
      digest: stored.head.digest,
    } as const;
    const written = await storage.write(
      merge(isAudited ? auditRow(fact, clock.now()) : noChanges, deleteRows(before, newSession({ id })), {
        checks: [{ table: "leases", key: keyOf(key), tag: lease?.tag ?? null }, ...check],
        removals: [
          ...(await deadlineRemovals(context, before)),
          ...openRemovals(key, open),
          ...(await startRemovals(context, key)),
        ],
        puts: [fencing],
      }),
    );
    if (!written.ok) continue;
    histories.forget(nameOf(key));
    context.turns.serveWaiting(freedScopes(open?.limit ?? null));
    return;
  }
}

/**
 * The number of the newest event, which a new session under the same id continues. While a turn is open, the log has
 * events that the session row does not count, and the turn adds more without writing that row or another epoch: `check`
 * refuses the deletion if it did.
 */
async function newestEvent(
  { storage }: VerbContext,
  { key, head }: StoredSession,
): Promise<{ readonly sequence: number; readonly check: readonly Check[] }> {
  const at = turnKey(key, head.turn ?? "");
  const [events = [], turns = []] = await storage.read([
    { table: "events", prefix: keyOf(key), reverse: true, limit: 1 },
    { table: "turns", prefix: at },
  ]);
  const [turn] = turns;
  const check = turn === undefined ? [] : [{ table: "turns", key: at, tag: turn.tag } as const];
  return { sequence: Math.max(head.sequence, Number(events[0]?.key[2] ?? 0)), check };
}

/**
 * The open turn; `null`: there is none, or its row cannot be read. Workers remove rows of `work` and slots that
 * belong to no open turn.
 */
async function openTurnOf({ storage }: VerbContext, key: SessionKey): Promise<OpenTurn | null> {
  const row = await readOne(storage, { table: "open", prefix: keyOf(key) });
  try {
    return row === null ? null : readValue("open", row);
  } catch {
    return null;
  }
}

/** The removals of the open turn from the index of work, of its slots, and from the turns that wait for a limit. */
function openRemovals(key: SessionKey, open: OpenTurn | null): readonly Removal[] {
  if (open === null) return [];
  return [dueRemoval(key, open), ...limitRemovals(key, open.limit)];
}

/**
 * The removals of the deadlines of pending calls. Their keys begin with the time, so they are computed again as they
 * were written.
 */
async function deadlineRemovals(context: VerbContext, stored: StoredSession): Promise<readonly Removal[]> {
  const { key, head } = stored;
  const { session, lastTurn, changedAt } = head;
  try {
    const last = await lastStart(context, stored);
    const { pendingToolCalls } = session;
    const puts = openCallDeadlines(key, lastTurn ?? "", pendingToolCalls, last?.options ?? {}, changedAt, session);
    return puts.map(({ table, key: prefix }): Removal => ({ table, prefix }));
  } catch {
    // A start row that cannot be read must not prevent the deletion.
    return [];
  }
}

/** The removals of the pinned configurations that belong to the session, and of the rows for the retention of turns. */
async function startRemovals({ storage }: VerbContext, key: SessionKey): Promise<readonly Removal[]> {
  const [rows = []] = await storage.read([{ table: "starts", prefix: keyOf(key) }]);
  const starts = rows.flatMap(readableStart);
  const names = new Set(starts.map(({ start }) => start.pinned).filter(isOwnPinned));
  return [
    ...Array.from(names, (name): Removal => ({ table: "contents", prefix: [key.tenant, name] })),
    ...starts.map(({ turn, start }) => workRemoval(retainedTurn(key, turn, start.acceptedAt))),
  ];
}

/** A turn and its start; empty if its row cannot be read, which must not prevent the deletion. */
function readableStart(row: Row): readonly { readonly turn: string; readonly start: TurnStart }[] {
  try {
    return [{ turn: String(row.key[2]), start: readValue("starts", row) }];
  } catch {
    return [];
  }
}

/** What can be salvaged of a session whose row is corrupt: enough to delete it and to continue its event sequence. */
async function corruptSession(context: VerbContext, id: string, row: Row): Promise<StoredSession> {
  const key = sessionKey(context, id);
  const { changedAt, sequence } = salvageHead(row) ?? { changedAt: 0, sequence: 0 };
  return {
    key,
    head: { ...emptyHead(newSession({ id }), changedAt), attention: "unknown", sequence },
    version: row.tag,
    turn: null,
  };
}
