// Removes journals of ended turns after their retention time (`retentionMs`). Recovery never reads them; `export` does.

import type { VerbContext } from "../context.ts";
import type { Removal } from "../rows/storage.ts";
import type { SessionHead } from "../rows/values.ts";

import { readOne } from "../context.ts";
import { noChanges } from "../rows/batch.ts";
import { retainedPut } from "../rows/session-write.ts";
import { readableHead } from "./browse.ts";

/** How many journals one call removes at most. */
const batchSize = 64;

/**
 * Removes expired journals of ended turns and of their child turns. A journal with a pending call is kept for another retention time: the
 * answer continues the child turn from its journal. Returns the number of entries that were examined.
 */
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
    const childRows = await storage.read([
      { table: "journal", ...children },
      { table: "records", ...children },
    ]);
    const turns = new Set([turn, ...childRows.flat().map(({ key }) => String(key[2]))]);
    const removals = (["journal", "records"] as const).flatMap((table) =>
      [...turns].map((id): Removal => ({ table, prefix: [tenant, session, id] })),
    );
    await storage.write({ ...noChanges, removals: [...removals, mark] });
  }
  return rows.length;
}

/** Returns whether a call of the turn is still pending. If the session row cannot be read, its journals are kept. */
function mayBeNeeded(head: SessionHead | null, turn: string): boolean {
  if (head === null) return true;
  return head.session.pendingToolCalls.some(({ idempotencyKey }) => idempotencyKey?.startsWith(`${turn}/`) === true);
}
