// Removes journals whose retention time is over. Recovery never reads them: their turns have ended.

import type { VerbContext } from "../context.ts";
import type { Removal } from "../rows/storage.ts";
import type { SessionHead } from "../rows/values.ts";

import { readOne } from "../context.ts";
import { noChanges } from "../rows/batch.ts";
import { retainedPut } from "../rows/session-write.ts";
import { readableHead } from "./browse.ts";

/** How many journals are removed at a time. */
const batchSize = 64;

/** Removes journals of ended turns, and of the child turns inside their calls. A journal whose call still waits is kept: the answer continues it. */
export async function removeRetained({ storage, clock, retentionMs }: VerbContext): Promise<number> {
  const now = clock.now();
  const [rows = []] = await storage.read([{ table: "retained", prefix: [], before: now + 1, limit: batchSize }]);
  for (const row of rows) {
    const [tenant = "", session = "", turn = ""] = row.key.slice(1).map(String);
    const head = await readOne(storage, { table: "sessions", prefix: [tenant, session] });
    const isNeeded = head !== null && mayBeNeeded(readableHead(head), turn);
    const mark: Removal = { table: "retained", prefix: row.key };
    if (isNeeded) {
      const later = retentionMs === null ? [] : [retainedPut({ tenant, session }, turn, now + retentionMs)];
      await storage.write({ checks: [], removals: [mark], puts: later });
      continue;
    }
    // The turn id of a child turn begins with the id of its parent and a slash ("0" is the character after "/").
    const children = { prefix: [tenant, session], after: `${turn}/`, before: `${turn}0` } as const;
    const inside = await storage.read([
      { table: "journal", ...children },
      { table: "records", ...children },
    ]);
    const turns = new Set([turn, ...inside.flat().map(({ key }) => String(key[2]))]);
    const removals = (["journal", "records"] as const).flatMap((table) =>
      [...turns].map((one): Removal => ({ table, prefix: [tenant, session, one] })),
    );
    await storage.write({ ...noChanges, removals: [...removals, mark] });
  }
  return rows.length;
}

/** Does a call of the turn still wait? If the session row cannot be read, its journals are kept; those of other sessions go. */
function mayBeNeeded(head: SessionHead | null, turn: string): boolean {
  if (head === null) return true;
  return head.session.pendingToolCalls.some(({ idempotencyKey }) => idempotencyKey?.startsWith(`${turn}/`) === true);
}
