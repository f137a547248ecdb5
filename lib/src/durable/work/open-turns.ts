// Examines every open turn by its row in the index of work, whatever its time is, page by page: turns whose rows say
// that they are due later, but that should be driven now.
//
//   the process that drives it has ended   the turn is taken over before its lease expires. Only with a storage that
//                                          can tell (`Liveness`)
//   the clock of the storage was set back  open turns are due later than any turn is put off (the expiry of a lease, a
//                                          backoff): they are made due now
//
// `recover()` examines every open turn, and so does a worker when the storage reports that a process has ended, for a
// limited time. Otherwise a worker examines one page of them in each iteration, so the cost of an iteration does not
// grow with the number of open turns.

import type { Clock } from "../../core/clock/clock.ts";
import type { ActiveTurns } from "../drive/active-turns.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Key, Row } from "../rows/storage.ts";
import type { WorkItem } from "../rows/work.ts";

import { longestMs } from "../drive/growing-lease.ts";
import { readableOpen } from "../drive/waiting-turns.ts";
import { holderHasEnded } from "../rows/lease.ts";
import { moveIndexedDue } from "../rows/open-rows.ts";
import { readValue } from "../rows/stored.ts";
import { workItem } from "../rows/work.ts";
import { openQueries } from "./due-turns.ts";
import { pageOfQueues } from "./pages.ts";

/** How many turns are claimed at the same time. */
const maxConcurrentClaims = 8;

/** How many open turns are examined at a time: in an iteration of a worker, and by a pass over all of them. */
const pageSize = 64;
const passPageSize = 256;

/** What a call took over, and the key after which the next one continues; `null` after the last page. */
export type Taken = { readonly taken: number; readonly next: Key | null };

/** How much a call does. Default: without limits. */
type TakeoverLimits = {
  /** How many turns this process drives at most. */
  readonly limit?: number;
  /** When to stop between two pages, in milliseconds. */
  readonly until?: number;
};

/** Takes over the turns of ended processes among all open turns after a key. */
export async function takeOverAllEnded(
  context: VerbContext,
  after: Key | null,
  { limit = Number.POSITIVE_INFINITY, until = Number.POSITIVE_INFINITY }: TakeoverLimits = {},
): Promise<Taken> {
  let taken = 0;
  let cursor = after;
  do {
    const page = await takeOverEnded(context, cursor, limit, passPageSize);
    taken += page.taken;
    cursor = page.next;
  } while (cursor !== null && hasPlace(context.turns, limit) && context.clock.now() < until);
  return { taken, next: cursor };
}

/**
 * May this process drive another turn? While all places are taken or a suspect is driven alone, a worker takes none;
 * without a limit, turns are queued in this process.
 */
function hasPlace({ count, places: { isFull, isIsolating } }: ActiveTurns, limit: number): boolean {
  return count < limit && (limit === Number.POSITIVE_INFINITY || !(isFull || isIsolating));
}

/** Does so for one page of open turns, while this process drives fewer than `limit`. */
export async function takeOverEnded(
  context: VerbContext,
  after: Key | null,
  limit: number,
  size = pageSize,
): Promise<Taken> {
  const { turns, clock } = context;
  const { keys, next } = await examinePage(context, after, size);
  // Every worker finds the turns of an ended process at the same time. In a random order they compete for few of them.
  const waiting = shuffled(keys, clock);
  let taken = 0;
  while (waiting.length > 0) {
    if (!hasPlace(turns, limit)) return { taken, next: after };
    const claimed = waiting.splice(0, Math.min(maxConcurrentClaims, limit - turns.count));
    const isDriven = await Promise.all(claimed.map((key) => turns.pickUp(key)));
    taken += isDriven.filter(Boolean).length;
  }
  return { taken, next };
}

/** The Fisher–Yates shuffle, on a copy. */
function shuffled<T>(items: readonly T[], { random }: Clock): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    const [left, right] = [copy[last], copy[other]];
    if (left !== undefined && right !== undefined) [copy[last], copy[other]] = [right, left];
  }
  return copy;
}

/**
 * Examines one page of open turns: makes those due that are due too late, and returns the sessions whose process has
 * ended. `next`: the key after which the next page begins; `null` after the last page.
 */
export async function examinePage(
  context: VerbContext,
  after: Key | null,
  size = pageSize,
): Promise<{ readonly keys: readonly SessionKey[]; readonly next: Key | null }> {
  const { storage, engines, clock, lease } = context;
  const { rows, next } = await pageOfQueues(storage, "turn", Object.keys(engines), after, size);
  const items = rows.map((row) => workItem("turn", row));
  const latest = (await clock.latest()) + Math.max(longestMs, lease.ttlMs);
  await makeDue(
    context,
    items.filter(({ at }) => at > latest),
  );
  if (storage.liveness === undefined || items.length === 0) return { keys: [], next };
  const stored = await storage.read(items.flatMap(openQueries));
  const ended = items.filter((_, index) => isAbandoned(context, stored[2 * index]?.[0], stored[2 * index + 1]?.[0]));
  return { keys: ended.map(({ key }) => key), next };
}

/** Returns whether a turn is open and the process that holds its session has ended. */
function isAbandoned({ storage: { liveness } }: VerbContext, open: Row | undefined, lease: Row | undefined): boolean {
  try {
    if (open === undefined || lease === undefined || liveness === undefined) return false;
    return holderHasEnded(readValue("leases", lease), liveness);
  } catch {
    // A row that cannot be read concerns its own session only.
    return false;
  }
}

/** Makes open turns due now. */
async function makeDue({ storage, clock }: VerbContext, items: readonly WorkItem[]): Promise<void> {
  if (items.length === 0) return;
  const stored = await storage.read(items.flatMap(openQueries));
  for (const [index, { key }] of items.entries()) {
    const row = stored[2 * index]?.[0];
    const open = row === undefined ? null : readableOpen(row);
    if (open !== null) await storage.write(moveIndexedDue(key, open, clock.now()));
  }
}
