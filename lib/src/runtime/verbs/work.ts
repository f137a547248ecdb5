// Workers: drive turns that no process drives, end waits whose deadline has passed, and remove journals whose retention time is over.

import type { VerbContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";

import { MisuseError } from "../../model/internal.ts";
import { ChangeSignal } from "../change-signal.ts";
import { readValue } from "../rows/stored.ts";
import { expire } from "./expire.ts";
import { removeRetained } from "./retention.ts";

/** The longest and the shortest time between two polls, in milliseconds. A worker rests nine times as long as a poll took, within these bounds. */
const pollMs = 1000;
const minRestMs = 20;
const restFactor = 9;

/** Drives turns until the signal aborts: those of processes that died, and those that were only accepted. */
export async function work(
  context: VerbContext,
  { concurrency = 16, signal }: { readonly concurrency?: number; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, storage, turns } = context;
  if (!(signal instanceof AbortSignal) || !(concurrency >= 1)) {
    throw new MisuseError("invalid_argument", "work: pass a signal that ends it, and a concurrency of 1 or more");
  }
  const changes = new ChangeSignal(storage);
  signal.addEventListener("abort", changes.notify);
  try {
    while (!signal.aborted && !turns.closing) {
      changes.clear();
      const from = clock.now();
      await pickUpAll(context, concurrency, true).catch(() => 0);
      await expire(context).catch(() => 0);
      await removeRetained(context).catch(() => 0);
      const restMs = Math.min(pollMs, Math.max(minRestMs, restFactor * (clock.now() - from)));
      if (signal.aborted || turns.closing) return;
      const timer = new AbortController();
      await Promise.race([changes.changed(), clock.sleep(pollMs, timer.signal).catch(() => undefined)]);
      timer.abort();
      // Not at every write of a busy storage.
      await clock.sleep(restMs, signal).catch(() => undefined);
    }
  } finally {
    changes.stop();
    signal.removeEventListener("abort", changes.notify);
  }
}

/**
 * Drives up to `limit` turns that no process drives, and returns how many it took. `patient`: turns that failed here a moment ago are left alone, and
 * an error of one turn does not keep the others from being driven.
 */
export async function pickUpAll(context: VerbContext, limit: number, patient = false): Promise<number> {
  const { storage, turns, engines } = context;
  const [opened = []] = await storage.read([{ table: "open", prefix: [] }]);
  // Turns of engines that this process does not have are for others.
  const rows = opened.filter((row) => !turns.has(sessionIn(row)) && Object.hasOwn(engines, engineIn(row)));
  const leases = await storage.read(rows.map(({ key }) => ({ table: "leases", prefix: key }) as const));
  let count = 0;
  for (const [index, row] of rows.entries()) {
    const [lease] = leases[index] ?? [];
    const free = lease === undefined || lease.remainingMs === null || lease.remainingMs <= 0;
    if (!free || turns.count >= limit) continue;
    const key = sessionIn(row);
    const picked = patient ? pickUpAgain(context, key, row).catch(() => false) : turns.pickUp(key);
    if (await picked) count += 1;
  }
  return count;
}

async function pickUpAgain({ turns }: VerbContext, key: SessionKey, row: Row): Promise<boolean> {
  return !turns.hasJustFailed(key, readValue("open", row).turn) && turns.pickUp(key);
}

function sessionIn({ key }: Row): SessionKey {
  return { tenant: String(key[0]), session: String(key[1]) };
}

/** The engine of an open turn; a row that cannot be read names none. */
function engineIn(row: Row): string {
  try {
    return readValue("open", row).engine;
  } catch {
    return "";
  }
}
