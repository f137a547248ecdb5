// Removes journals and events of ended turns after their retention time (`retentionMs`). Recovery never reads them;
// `export` reads journals, and readers that come later than the retention time get no events of the turn. Messages,
// results and usage stay.

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage, Removal } from "../rows/storage.ts";
import type { SessionHead } from "../rows/values.ts";

import { readOne } from "../drive/context.ts";
import { noChanges } from "../rows/batch.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { retainedPut } from "../rows/session-write.ts";
import { readValue } from "../rows/stored.ts";
import { readableHead } from "../sessions/browse.ts";

/** How many journals one call removes at most. */
const batchSize = 64;

/** How many events are read at a time, and how many characters of them at most. */
const eventPage = { limit: 64, maxLength: 1_000_000 };

/**
 * Removes journals and events, expired at `now`, of ended turns and of their child turns. Those of a turn that waits
 * for an answer are kept for another retention time: people read what the session asks, and the answer continues child
 * turns from their journals. Returns the number of entries that were examined.
 */
export async function removeRetained({ storage, retentionMs }: VerbContext, now: number): Promise<number> {
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
    await removeEvents(storage, { tenant, session }, turn);
    await storage.write({ ...noChanges, removals: [...removals, mark] });
  }
  return rows.length;
}

/**
 * Removes the events of a turn, page by page from its last one. They are contiguous in the log, because a session has
 * one open turn, so what is read depends on the turn and not on the length of the log.
 */
async function removeEvents(storage: HostStorage, key: SessionKey, turn: string): Promise<void> {
  const turnRow = await readOne(storage, { table: "turns", prefix: turnKey(key, turn) });
  if (turnRow === null) return;
  let before = readValue("turns", turnRow).sequence + 1;
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
  const waits = session.status === "awaiting_user" || session.status === "awaiting_tools";
  if (turn === id || (waits && lastTurn === id)) return true;
  return session.pendingToolCalls.some(({ idempotencyKey }) => idempotencyKey?.startsWith(`${id}/`) === true);
}
