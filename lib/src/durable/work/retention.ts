// Removes what has expired, by the rows of the index of work: journals and events of ended turns (`retentionMs`), and
// whole sessions (`sessionRetentionMs`). Recovery never reads journals of ended turns; `export` does, and readers that
// come later than the retention time get no events of the turn. Messages, results and usage of a turn stay until its
// session is removed.
//
// Every turn and every session has a row in the index, whether or not a retention time is set, so that a retention time
// that is set later applies to what exists. The row of a turn has the time at which the turn was accepted, and that of
// a session the time of its creation, because deletion finds these rows by them. Whoever reads a row compares the end
// of the turn, or the last change of the session, and moves the row there if that is later. So a session is examined
// once in a retention time, and a change of a session moves no row.

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage, Query, Removal, Row } from "../rows/storage.ts";
import type { SessionHead } from "../rows/values.ts";
import type { WorkItem } from "../rows/work.ts";
import type { Handled, WorkKind } from "./visit.ts";

import { noChanges } from "../rows/batch.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { workPut, workRemoval } from "../rows/work.ts";
import { readableHead } from "../sessions/browse.ts";
import { deleteSession } from "../sessions/delete.ts";
import { workerShare } from "./visit.ts";

/** For how long a row is skipped that could not be handled, in milliseconds. */
const retryMs = 60_000;

/** How many events are read at a time, and how many characters of them at most. */
const eventPage = { limit: 64, maxLength: 1_000_000 };

/** What may be removed, and since when it must have ended or been unchanged. */
export type Expiring = { readonly kind: WorkKind; readonly horizon: number };

/** What expires at `now`, if the runtime has retention times. `onError`: see `WorkKind`. */
export function expiring(context: VerbContext, now: number, onError: WorkKind["onError"]): readonly Expiring[] {
  const { retentionMs, sessionRetentionMs } = context;
  const horizons = [
    { ms: retentionMs, queue: "turns", remove: removeTurn },
    { ms: sessionRetentionMs, queue: "sessions", remove: removeSession },
  ];
  return horizons.flatMap(({ ms, queue, remove }) => {
    if (ms === null) return [];
    const horizon = now - ms;
    const kind: WorkKind = {
      reason: "retention",
      queues: [queue],
      share: workerShare,
      retryMs,
      hasPlace: () => true,
      queriesFor: retainedQueries,
      onError,
      handle: (item, _row, [heads = [], turns = []]) => remove(context, item, heads[0], turns[0], horizon, now),
    };
    return [{ kind, horizon }];
  });
}

function retainedQueries({ key, item }: WorkItem): readonly Query[] {
  const head = { table: "sessions", prefix: keyOf(key) } as const;
  return item === "" ? [head] : [head, { table: "turns", prefix: turnKey(key, item) }];
}

/** Puts the row of an item to a later time. */
async function postpone({ storage }: VerbContext, item: WorkItem, at: number): Promise<Handled> {
  if (at <= item.at) return "seen";
  await storage.write({ checks: [], removals: [workRemoval(item)], puts: [workPut({ ...item, at })] });
  return "done";
}

/**
 * Removes journal and events of an ended turn and of its child turns. Those of a turn that waits for an answer are kept
 * for another retention time: people read what the session asks, and the answer continues child turns from their
 * journals.
 */
async function removeTurn(
  context: VerbContext,
  item: WorkItem,
  head: Row | undefined,
  turnRow: Row | undefined,
  horizon: number,
  now: number,
): Promise<Handled> {
  const { storage } = context;
  const { key, item: turn } = item;
  if (head !== undefined && mayBeNeeded(readableHead(head), turn)) return postpone(context, item, now);
  const endedAt = turnRow === undefined ? null : readValue("turns", turnRow).endedAt;
  if (endedAt !== null && endedAt > horizon) return postpone(context, item, endedAt);
  // The turn id of a child turn begins with the id of its parent and a slash ("0" is the character after "/").
  const children = { prefix: keyOf(key), after: `${turn}/`, before: `${turn}0` } as const;
  const childRows = await storage.read([
    { table: "journal", ...children },
    { table: "records", ...children },
  ]);
  const ids = new Set([turn, ...childRows.flat().map(({ key: row }) => String(row[2]))]);
  const removals = (["journal", "records"] as const).flatMap((table) =>
    [...ids].map((id): Removal => ({ table, prefix: turnKey(key, id) })),
  );
  if (turnRow !== undefined) await removeEvents(storage, key, turn, readValue("turns", turnRow).sequence);
  await storage.write({ ...noChanges, removals: [...removals, workRemoval(item)] });
  return "done";
}

/**
 * Deletes a session that has not changed for its retention time. One with an open turn, and one that waits for an
 * answer, is kept for another retention time.
 */
async function removeSession(
  context: VerbContext,
  item: WorkItem,
  row: Row | undefined,
  _turn: Row | undefined,
  horizon: number,
  now: number,
): Promise<Handled> {
  const head = row === undefined ? null : readValue("sessions", row);
  if (head === null || head.deleted) {
    await context.storage.write({ ...noChanges, removals: [workRemoval(item)] });
    return "done";
  }
  if (head.changedAt > horizon) return postpone(context, item, head.changedAt);
  if (head.turn !== null || waits(head)) return postpone(context, item, now);
  const { tenant, session } = item.key;
  await deleteSession({ ...context, tenant }, session, { isAudited: false });
  await context.storage.write({ ...noChanges, removals: [workRemoval(item)] });
  return "done";
}

/**
 * Removes the events of a turn, page by page from its last one. They are contiguous in the log, because a session has
 * one open turn, so what is read depends on the turn and not on the length of the log.
 */
async function removeEvents(storage: HostStorage, key: SessionKey, turn: string, sequence: number): Promise<void> {
  let before = sequence + 1;
  for (;;) {
    const [rows = []] = await storage.read([
      { table: "events", prefix: keyOf(key), before, reverse: true, ...eventPage },
    ]);
    const others = rows.findIndex((row) => readValue("events", row).turn !== turn);
    const own = others === -1 ? rows : rows.slice(0, others);
    const first = own.at(-1)?.key[2];
    if (typeof first !== "number") return;
    await storage.write({
      ...noChanges,
      removals: own.map(({ key: prefix }): Removal => ({ table: "events", prefix })),
    });
    if (others !== -1) return;
    before = first;
  }
}

/**
 * Returns whether the turn is open, is the one with which the session waits for an answer, or has a call that is still
 * pending. The call that asks a question is answered already, so it is not pending; and a call keeps its idempotency
 * key if a later turn waits for it again. If the session row cannot be read, everything is kept.
 */
function mayBeNeeded(head: SessionHead | null, id: string): boolean {
  if (head === null) return true;
  const { session, turn, lastTurn } = head;
  if (turn === id || (waits(head) && lastTurn === id)) return true;
  return session.pendingToolCalls.some(({ idempotencyKey }) => idempotencyKey?.startsWith(`${id}/`) === true);
}

function waits({ session: { status } }: SessionHead): boolean {
  return status === "awaiting_user" || status === "awaiting_tools";
}
