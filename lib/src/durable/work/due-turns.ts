// Turns that are due, by their rows in the index of work.
//
// How rows move
//   a turn is accepted            due at once; or when the lease expires, if the process that accepts it drives it
//   a turn is claimed             due when the lease expires
//   a lease is renewed            nothing: the worker that reads the row moves it to the new expiry, which happens at
//                                 most once in a lease time
//   a lease is released           due at once
//   a takeover has to wait (Q17)  due when the backoff is over
//   a turn fails in a process     nothing: that process skips it for a while, others may claim it
//   a turn ends or is parked      the row is removed; if it was moved meanwhile, the worker that reads it finds no open
//                                 turn and removes it
//   a row is out of date          the table `open` has another engine or time for the session: the worker that reads
//                                 the row replaces it by the row that `open` describes
// The index only says where to look. The lease decides whether a turn may be driven.
//
// Invariant: a turn is taken once in a visit. One that fails at once is due at once, and the visit would not end
// otherwise.

import type { VerbContext } from "../drive/context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Query, Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { WorkItem } from "../rows/work.ts";
import type { Handled, WorkKind } from "./visit.ts";

import { merge } from "../rows/batch.ts";
import { holderHasEnded, unclaimed } from "../rows/lease.ts";
import { duePut, hasDueRow, moveIndexedDue } from "../rows/open-rows.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { workItem, workRemoval } from "../rows/work.ts";
import { workerShare } from "./visit.ts";

/** Selects what the decision about a due turn needs: its row in `open`, and the lease of its session. */
export function openQueries({ key }: WorkItem): readonly Query[] {
  return [
    { table: "open", prefix: keyOf(key) },
    { table: "leases", prefix: keyOf(key) },
  ];
}

/**
 * Drives turns that are due until this process drives `limit` turns. With `onError`, for workers: turns that failed
 * here a moment ago are left alone, and no turn is taken while a suspect is driven alone. Without it, for `recover`:
 * the turns that are found are queued.
 */
export function dueTurns(
  context: VerbContext,
  {
    limit = Number.POSITIVE_INFINITY,
    onError = null,
  }: { readonly limit?: number; readonly onError?: WorkKind["onError"] } = {},
): WorkKind {
  const isWorker = onError !== null;
  const { turns, engines, lease } = context;
  const taken = new Set<string>();
  return {
    reason: "turn",
    queues: Object.keys(engines),
    share: workerShare,
    retryMs: lease.renewMs,
    hasPlace: () => turns.count < limit && !turns.places.isFull && !(isWorker && turns.places.isIsolating),
    queriesFor: openQueries,
    onError,
    handle: async (item, row, [opened = [], leases = []]): Promise<Handled> => {
      const { key } = item;
      const turn = await turnOfRow(context, row, opened[0] ?? null, leases[0] ?? null);
      if (turn === null) return "done";
      const name = JSON.stringify([nameOf(key), turn]);
      if (taken.has(name)) return "seen";
      if (isWorker && turns.left.hasJustFailed(key, turn)) return "left";
      const picked = await turns.tryPickUp(key);
      if (picked === "driven") taken.add(name);
      return picked === "driven" ? "taken" : picked === "moved" ? "done" : "left";
    },
  };
}

/**
 * The turn of a row that is due; `null`: the row was out of date or a process holds the session, and the row was moved
 * or removed. Throws if a row cannot be read: such a row stays, because a newer release may have written it.
 */
export async function turnOfRow(
  context: VerbContext,
  row: Row,
  openRow: Row | null,
  lease: Row | null,
): Promise<string | null> {
  const { storage, clock } = context;
  const item = workItem("turn", row);
  const { key } = item;
  if (openRow === null) {
    // A turn may be accepted in between, and be due at the time of this row.
    const closed = { table: "open", key: keyOf(key), tag: null } as const;
    await storage.write({ checks: [closed], removals: [workRemoval(item)], puts: [] });
    return null;
  }
  const open = readValue("open", openRow);
  if (open.due !== item.at || open.engine !== item.queue) {
    await replaceRow(context, item, open, lease);
    return null;
  }
  const remaining = lease?.remainingMs ?? 0;
  if (lease === null || remaining <= 0) return open.turn;
  const holder = readValue("leases", lease);
  // A row with more time left than it was written with outlasts a clock that was set back (`rows/lease.ts`, invariant
  // 6).
  if (remaining > holder.ttlMs || holderHasEnded(holder, storage.liveness ?? null)) return open.turn;
  // Held: due when the lease expires. Conditional: if the lease was released meanwhile, the row must stay due now.
  const held: Changes = {
    checks: [{ table: "leases", key: keyOf(key), tag: lease.tag, alive: true }],
    removals: [],
    puts: [],
  };
  await storage.write(merge(held, moveIndexedDue(key, open, lease.expires ?? clock.now())));
  return null;
}

/**
 * Removes a row that differs from the open turn, whose own row stays. Without its own row the turn gets one first, and
 * the next pass removes the other. The turn may be moved in between, also to the time of this row: then its own row is
 * not the one that was read, or another epoch is stored.
 */
async function replaceRow({ storage }: VerbContext, item: WorkItem, open: OpenTurn, lease: Row | null): Promise<void> {
  const { key } = item;
  const own = duePut(key, open);
  const [stored = []] = await storage.read([{ table: "work", prefix: own.key, limit: 1 }]);
  const checks = [unclaimed(keyOf(key), lease)];
  await storage.write(
    stored.length === 0
      ? { checks, removals: [], puts: [own] }
      : { checks: [...checks, hasDueRow(key, open)], removals: [workRemoval(item)], puts: [] },
  );
}
