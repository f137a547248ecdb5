// Takes over turns of processes that have ended, before their leases expire. Only with a storage that can tell (`Liveness`).
//
// The index of due work leads to such a turn when its lease expires. Until then the turn is found here: `recover()` examines every open turn, a worker
// one page of them in each iteration, so the cost of an iteration does not grow with the number of open turns.

import type { VerbContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { OpenCursor } from "./restore-due.ts";

import { holderHasEnded } from "../rows/lease.ts";
import { readValue } from "../rows/stored.ts";
import { keyIn, openPage } from "./restore-due.ts";

/** Takes over the turns of ended processes among all open turns. Returns their number. */
export async function takeOverAllEnded(context: VerbContext): Promise<number> {
  let taken = 0;
  let cursor: OpenCursor = null;
  do {
    const page = await takeOverEnded(context, cursor, Number.POSITIVE_INFINITY);
    taken += page.taken;
    cursor = page.next;
  } while (cursor !== null);
  return taken;
}

/** Does so for one page of open turns, while this process drives fewer than `limit`. Returns where the next page begins; `null` after the last page. */
export async function takeOverEnded(
  { storage, turns }: VerbContext,
  after: OpenCursor,
  limit: number,
): Promise<{ readonly taken: number; readonly next: OpenCursor }> {
  const { keys, next } = await listEnded({ storage }, after);
  let taken = 0;
  for (const key of keys) {
    if (turns.count >= limit) return { taken, next: after };
    if (await turns.pickUp(key)) taken += 1;
  }
  return { taken, next };
}

/** The sessions of one page of open turns whose process has ended. Returns where the next page begins; `null` after the last page. */
export async function listEnded(
  { storage }: Pick<VerbContext, "storage">,
  after: OpenCursor,
): Promise<{ readonly keys: readonly SessionKey[]; readonly next: OpenCursor }> {
  const { liveness } = storage;
  if (liveness === undefined) return { keys: [], next: null };
  const { rows, next } = await openPage(storage, after);
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
