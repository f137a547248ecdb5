// Garbage collection of unreferenced rows: pieces of turns that are not open, and pinned configurations that no turn has used for long.
//
//   pieces     are written without a fencing check, so a process that was paused may write some after the turn has ended
//   contents   are shared by content. A row expires two retention times and one day after the last turn that was accepted with it, if the
//              runtime has a retention time, and is then removed unless an open turn is pinned to it. A turn that stays parked for longer can
//              still be ended, but not restarted
// Each pass examines one page of a table, and the next pass continues after it, so a pass has bounded cost.

import type { VerbContext } from "../context.ts";
import type { ActiveTurns } from "../drive/active-turns.ts";
import type { Removal, Row } from "../rows/storage.ts";

import { readOne } from "../context.ts";
import { noChanges } from "../rows/batch.ts";
import { readValue } from "../rows/stored.ts";

/** How many sessions with pieces, and how many expired configurations of one tenant, a pass examines. */
const pageSize = 64;

/** Where the last pass stopped. */
type Progress = { piecesAfter: readonly [tenant: string, session: string] | null; contentsAfter: string | null };

/** The progress of each runtime of this process. */
const progress = new WeakMap<ActiveTurns, Progress>();

/** Runs one pass. Workers call it about once a minute. */
export async function collectUnused(context: VerbContext): Promise<void> {
  const at = progress.get(context.turns) ?? { piecesAfter: null, contentsAfter: null };
  progress.set(context.turns, at);
  await collectPieces(context, at);
  if (context.retentionMs !== null) await collectContents(context, at);
}

/** Removes pieces of turns that are not open, for one page of sessions. */
async function collectPieces(context: VerbContext, at: Progress): Promise<void> {
  const { storage } = context;
  for (let count = 0; count < pageSize; count += 1) {
    const row = await nextPiece(context, at.piecesAfter);
    if (row === null) {
      at.piecesAfter = null;
      return;
    }
    const [tenant = "", session = ""] = row.key.map(String);
    at.piecesAfter = [tenant, session];
    const [opened = [], pieces = []] = await storage.read([
      { table: "open", prefix: [tenant, session] },
      { table: "pieces", prefix: [tenant, session] },
    ]);
    const open = opened[0] === undefined ? null : readValue("open", opened[0]).turn;
    const unused = new Set(pieces.map(({ key }) => String(key[2])).filter((turn) => turn !== open));
    const removals = [...unused].map((turn): Removal => ({ table: "pieces", prefix: [tenant, session, turn] }));
    if (removals.length > 0) await storage.write({ ...noChanges, removals, lasting: false });
  }
}

/** The first row of the next session that has pieces. */
async function nextPiece({ storage }: VerbContext, after: Progress["piecesAfter"]): Promise<Row | null> {
  if (after === null) return readOne(storage, { table: "pieces", prefix: [], limit: 1 });
  const [tenant, session] = after;
  const [same = [], later = []] = await storage.read([
    { table: "pieces", prefix: [tenant], after: session, limit: 1 },
    { table: "pieces", prefix: [], after: tenant, limit: 1 },
  ]);
  return same[0] ?? later[0] ?? null;
}

/** Removes expired configurations of one tenant that no open turn uses. */
async function collectContents(context: VerbContext, at: Progress): Promise<void> {
  const { storage } = context;
  const [next = []] = await storage.read([
    { table: "contents", prefix: [], limit: 1, ...(at.contentsAfter === null ? {} : { after: at.contentsAfter }) },
  ]);
  const tenant = next[0] === undefined ? null : String(next[0].key[0]);
  at.contentsAfter = tenant;
  if (tenant === null) return;
  const [rows = []] = await storage.read([{ table: "contents", prefix: [tenant] }]);
  const expired = rows.filter(({ remainingMs }) => remainingMs !== null && remainingMs <= 0).slice(0, pageSize);
  if (expired.length === 0) return;
  const used = await pinnedByOpenTurns(context, tenant);
  const unused = expired.filter(({ key }) => !used.has(String(key[1])));
  for (const { key, tag, expires } of unused) {
    // The check on the expiry fails if a turn was accepted with the configuration meanwhile, which extends it.
    const checks = [{ table: "contents", key, tag, expires } as const];
    await storage.write({ checks, removals: [{ table: "contents", prefix: key }], puts: [] });
  }
}

/** The digests of the configurations that open turns are pinned to. */
async function pinnedByOpenTurns({ storage }: VerbContext, tenant: string): Promise<ReadonlySet<string>> {
  const [opened = []] = await storage.read([{ table: "open", prefix: [tenant] }]);
  const starts = await storage.read(
    opened.map((row) => ({ table: "starts", prefix: [...row.key, readValue("open", row).turn] }) as const),
  );
  return new Set(starts.flat().map((row) => readValue("starts", row).pinned));
}
