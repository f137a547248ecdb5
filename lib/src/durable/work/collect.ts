// Garbage collection of unreferenced rows: pieces of turns that are not open, pinned configurations that no turn has
// used for long, and slots of limits.
//
//   pieces     are written without a fencing check, so a process that was paused may write some after the turn has
//              ended
//   contents   are shared by content. A row expires two retention times and one day after the last turn that was
//              accepted with it, if the runtime has a retention time, and is then removed unless an open turn is pinned
//              to it. A turn that stays parked for longer can still be ended, but not restarted
//   tokens     of sessions that were deleted: they complete nothing any more
//   slots      of rates and of runs that are no turn expire, and one slot for each turn of a busy second would stay.
//              Slots of concurrent turns are removed with their turn; one that has no open turn is a leak, for instance
//              of a session that was deleted although its row could not be read
// Each pass examines one page of a table, and the next pass continues after it, so a pass has bounded cost.

import type { ActiveTurns } from "../drive/active-turns.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Key, Removal, Row } from "../rows/storage.ts";

import { readOne } from "../drive/context.ts";
import { readableOpen } from "../drive/waiting-turns.ts";
import { noChanges } from "../rows/batch.ts";
import { readValue } from "../rows/stored.ts";
import { readableHead } from "../sessions/browse.ts";

/** How many sessions with pieces, and how many expired configurations of one tenant, a pass examines. */
const pageSize = 64;
/** How many slots of limits are examined at a time, and how many times in a pass. */
const slotPage = 256;
const slotPages = 16;

/** Where the last pass stopped. */
type Progress = {
  piecesAfter: readonly [tenant: string, session: string] | null;
  contentsAfter: string | null;
  tokensAfter: string | null;
  slotsAfter: Key | null;
};

/** The progress of each runtime of this process. */
const progress = new WeakMap<ActiveTurns, Progress>();

/** Runs one pass. Workers call it about once a minute. */
export async function collectUnused(context: VerbContext): Promise<void> {
  const at = progress.get(context.turns) ?? {
    piecesAfter: null,
    contentsAfter: null,
    tokensAfter: null,
    slotsAfter: null,
  };
  progress.set(context.turns, at);
  await collectPieces(context, at);
  if (context.retentionMs !== null) await collectContents(context, at);
  await collectTokens(context, at);
  for (let page = 0; page < slotPages; page += 1) {
    await collectSlots(context, at);
    if (at.slotsAfter === null) return;
  }
}

/** Removes expired slots, and slots that belong to no open turn, for one page. */
async function collectSlots(context: VerbContext, at: Progress): Promise<void> {
  const { storage } = context;
  const rows = await nextSlots(context, at.slotsAfter);
  at.slotsAfter = rows.length < slotPage ? null : (rows.at(-1)?.key ?? null);
  const held = rows.filter(({ remainingMs }) => remainingMs === null);
  const opened = await storage.read(
    held.map((row) => {
      const { tenant, session } = readValue("slots", row);
      return { table: "open", prefix: [tenant, session] } as const;
    }),
  );
  const leaked = held.filter((row, index) => {
    const openRow = opened[index]?.[0];
    return openRow === undefined || !holds(openRow, row);
  });
  const expired = rows.filter(({ remainingMs }) => remainingMs !== null && remainingMs <= 0);
  for (const { key, tag, expires } of [...leaked, ...expired]) {
    // The tag names the turn: a slot that was released and taken again since the read is kept.
    const checks = [{ table: "slots", key, tag, expires } as const];
    await storage.write({ checks, removals: [{ table: "slots", prefix: key }], puts: [], lasting: false });
  }
  context.turns.serveWaiting([...new Set(leaked.map(({ key }) => String(key[0])))]);
}

/** Returns whether an open turn holds a slot. A turn whose row cannot be read may hold it. */
function holds(openRow: Row, slotRow: Row): boolean {
  const open = readableOpen(openRow);
  if (open === null) return true;
  const [scope, , number] = slotRow.key;
  const { turn, limit } = open;
  if (limit?.type !== "admitted" || readValue("slots", slotRow).turn !== turn) return false;
  return limit.slots.some((slot) => slot.scope === scope && slot.number === number);
}

/** A page of slots after the one with this key. */
async function nextSlots({ storage }: VerbContext, after: Key | null): Promise<readonly Row[]> {
  const page = { table: "slots", limit: slotPage } as const;
  if (after === null) return (await storage.read([{ ...page, prefix: [] }])).flat();
  const [scope = "", kind = "", number = 0] = after;
  const pages = await storage.read([
    { ...page, prefix: [scope, kind], after: number },
    { ...page, prefix: [scope], after: kind },
    { ...page, prefix: [], after: scope },
  ]);
  return pages.flat().slice(0, slotPage);
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

/** Removes the tokens of sessions that were deleted. */
async function collectTokens({ storage }: VerbContext, at: Progress): Promise<void> {
  const after = at.tokensAfter === null ? {} : { after: at.tokensAfter };
  const [rows = []] = await storage.read([{ table: "tokens", prefix: [], limit: pageSize, ...after }]);
  at.tokensAfter = rows.length < pageSize ? null : String(rows.at(-1)?.key[0] ?? "");
  const tokens = rows.map((row) => ({ row, token: readValue("tokens", row) }));
  const heads = await storage.read(
    tokens.map(({ token }) => ({ table: "sessions", prefix: [token.tenant, token.session] }) as const),
  );
  const orphaned = tokens.filter((_, index) => {
    const head = heads[index]?.[0];
    return head === undefined || readableHead(head)?.deleted === true;
  });
  for (const { row } of orphaned) {
    const checks = [{ table: "tokens", key: row.key, tag: row.tag } as const];
    await storage.write({ checks, removals: [{ table: "tokens", prefix: row.key }], puts: [] });
  }
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
