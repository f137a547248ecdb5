// Takes over turns of processes that have ended, before their leases expire. Only with a storage that can tell
// (`Liveness`).
//
// The index of due work leads to such a turn when its lease expires. Until then the turn is found here: `recover()`
// examines every open turn, and so does a worker when the storage reports that a process has ended, for a limited time.
// Otherwise a worker examines one page of them in each iteration, so the cost of an iteration does not grow with the
// number of open turns.

import type { Clock } from "../../core/clock/clock.ts";
import type { ActiveTurns } from "../drive/active-turns.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { OpenCursor } from "./restore-due.ts";

import { holderHasEnded } from "../rows/lease.ts";
import { readValue } from "../rows/stored.ts";
import { keyIn, openPage } from "./restore-due.ts";

/** How many turns are claimed at the same time. */
const maxConcurrentClaims = 8;

/** How many open turns a pass over all of them reads at a time. */
const passPageSize = 256;

/** What a call took over, and where the next one continues; `null` after the last page. */
export type Taken = { readonly taken: number; readonly next: OpenCursor };

/** How much a call does. Default: without limits. */
type TakeoverLimits = {
  /** How many turns this process drives at most. */
  readonly limit?: number;
  /** When to stop between two pages, in milliseconds. */
  readonly until?: number;
};

/** Takes over the turns of ended processes among all open turns after the cursor. */
export async function takeOverAllEnded(
  context: VerbContext,
  after: OpenCursor,
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
function hasPlace({ count, isFull, isIsolating }: ActiveTurns, limit: number): boolean {
  return count < limit && (limit === Number.POSITIVE_INFINITY || !(isFull || isIsolating));
}

/** Does so for one page of open turns, while this process drives fewer than `limit`. */
export async function takeOverEnded(
  { storage, turns, clock }: VerbContext,
  after: OpenCursor,
  limit: number,
  pageSize?: number,
): Promise<Taken> {
  const { keys, next } = await listEnded({ storage }, after, pageSize);
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
 * The sessions of one page of open turns whose process has ended. Returns where the next page begins; `null` after the
 * last page.
 */
export async function listEnded(
  { storage }: Pick<VerbContext, "storage">,
  after: OpenCursor,
  pageSize?: number,
): Promise<{ readonly keys: readonly SessionKey[]; readonly next: OpenCursor }> {
  const { liveness } = storage;
  if (liveness === undefined) return { keys: [], next: null };
  const { rows, next } = await openPage(storage, after, pageSize);
  const leases = await storage.read(rows.map(({ key }) => ({ table: "leases", prefix: key }) as const));
  const isAbandoned = (lease: Row | undefined): boolean => {
    try {
      return lease !== undefined && holderHasEnded(readValue("leases", lease), liveness);
    } catch {
      // A row that cannot be read concerns its own session only.
      return false;
    }
  };
  return { keys: rows.filter((_, index) => isAbandoned(leases[index]?.[0])).map(keyIn), next };
}
