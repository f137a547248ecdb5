// Reads the timeline of a turn in pages, and everything that is stored about one row of its journal.
//
// A page reads its rows, up to 64 rows before and after it (`timeline.ts` says why), and the records inside its tool
// calls and repeated model calls. Its cost depends on the page and not on the turn. A page is also bounded in
// characters, because a row holds a whole reply or result: it may have fewer rows than `limit`.
//
// Turns that run inside a tool call (Q10) are stored in the same session, with a journal and records of their own and
// without a start row. Their ids contain the id of the turn around them. A call that runs has no row; its turns are
// found by the id of its effect (`open-calls.ts`).

import type { EffectDetail, Json, TurnClaim, TurnSummaryView, TurnTimeline } from "../../core/model/internal.ts";
import type { JournalRow, Key, Row, SessionKey } from "../../durable/internal.ts";
import type { InspectionContext } from "./context.ts";
import type { OrderedCall } from "./open-calls.ts";
import type { TimelineRow } from "./timeline.ts";

import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { epochOf, keyOf, readValue, sessionKey, turnKey } from "../../durable/internal.ts";
import { orderedCalls } from "./open-calls.ts";
import { effectOf, rowDetail, timelineOf } from "./timeline.ts";
import { turnSummary } from "./turn-list.ts";

/** Options of `timeline`. */
export type TimelineOptions = { readonly after?: number; readonly limit?: number };

/** The largest page of rows. */
const maxRows = 500;

/** How many rows before and after a page are read. */
const contextRows = 64;

/** How many characters of rows a page reads, and how many of the rows around it. */
const maxLength = 2_000_000;
const contextLength = 500_000;

/**
 * How many effects are examined for records at a time, and how many characters of records one of them has. A page ends
 * after `maxLength` characters of records.
 */
const effectsPerRead = 8;
const effectRecordsLength = 250_000;

/** How many turns inside one tool call are listed, and inside those of a page. */
const maxChildren = 100;
const maxPageChildren = 500;
/**
 * How many characters of the records of a turn inside a tool call are read. Those that name its turns are the first.
 */
const childLength = 65_536;

/** The timeline of a turn, after the row `after`. Rejects with `not_found`. */
export async function readTimeline(
  context: InspectionContext,
  id: string,
  turnId: string,
  { after = 0, limit = maxRows }: TimelineOptions = {},
): Promise<TurnTimeline> {
  checkNumber("after", after, 0);
  checkNumber("limit", limit, 1);
  const key = sessionKey(context, id);
  const at = turnKey(key, turnId);
  const size = Math.min(limit, maxRows);
  const { storage, clock } = context;
  const [before = [], following = []] = await storage.read([
    {
      table: "journal",
      prefix: at,
      before: after + 1,
      reverse: true,
      limit: contextRows,
      maxLength: contextLength,
    },
    { table: "journal", prefix: at, after, limit: size, maxLength },
  ]);
  const last = Number(following.at(-1)?.key[3] ?? after);
  const [next = [], leases = []] = await storage.read([
    { table: "journal", prefix: at, after: last, limit: contextRows, maxLength: contextLength },
    { table: "leases", prefix: keyOf(key) },
  ]);
  const rows = [
    ...before.toReversed().map((row) => timelineRow(row, true)),
    ...following.map((row) => timelineRow(row, false)),
    ...next.map((row) => timelineRow(row, true)),
  ];
  const turn = isInnerTurn(turnId)
    ? await innerSummary(context, id, turnId, rows)
    : await turnSummary(context, id, turnId);
  const { records, children, page } = await insideOf(
    context,
    key,
    at,
    rows.filter(({ isContext }) => isContext !== true),
  );
  const pageEnd = page.at(-1)?.ordinal ?? last;
  const isInner = isInnerTurn(turnId);
  const acceptedAt = isInner ? null : turn.acceptedAt;
  const shown = rows.map((row) => (row.ordinal > pageEnd ? { ...row, isContext: true } : row));
  const timeline = timelineOf({ sessionId: id, turnId, acceptedAt, rows: shown, records, children });
  const isLastPage = next.length === 0 && pageEnd >= last;
  const holder = isLastPage && !isInner && turn.status === "running" ? claimOf(leases[0]) : null;
  const isKnown = holder === null || timeline.claims.some(({ epoch }) => epoch >= holder.epoch);
  const isOpen = isLastPage && (turn.status === "running" || turn.status === "queued");
  return {
    turn,
    now: clock.now(),
    ...timeline,
    claims: isKnown ? timeline.claims : [...timeline.claims, holder],
    open: isOpen ? await openCalls(context, key, turnId, rows) : [],
    next: isLastPage ? null : pageEnd,
    isJournalRemoved: rows.length === 0 && turn.status === "ended" && turn.step > 0,
  };
}

/** What is recorded inside the effects of a page. */
type Inside = {
  readonly records: ReadonlyMap<string, ReadonlyMap<string, Json>>;
  readonly children: ReadonlyMap<string, readonly string[]>;
  /** The rows of the page: fewer than there were if the records of all of them are too long. */
  readonly page: readonly TimelineRow[];
};

/**
 * Reads the records and the turns inside the effects of these rows, a few effects at a time, until they are as long as
 * a page may be.
 */
async function insideOf(
  context: InspectionContext,
  key: SessionKey,
  at: Key,
  rows: readonly TimelineRow[],
): Promise<Inside> {
  const records = new Map<string, ReadonlyMap<string, Json>>();
  const children = new Map<string, readonly string[]>();
  let [length, childCount, end] = [0, 0, 0];
  while (end < rows.length && length < maxLength && childCount < maxPageChildren) {
    const group = rowsWithRecords(rows, end);
    end += group.length;
    const found = await recordsOf(context, at, group);
    length += found.length;
    for (const [effect, named] of found.records) records.set(effect, named);
    for (const [effect, turns] of await childTurns(context, key, group, found.records)) {
      children.set(effect, turns);
      childCount += turns.length;
    }
  }
  return { records, children, page: rows.slice(0, end) };
}

/** The next rows of which at most `effectsPerRead` may have records. */
function rowsWithRecords(rows: readonly TimelineRow[], from: number): readonly TimelineRow[] {
  let end = from;
  for (let count = 0; end < rows.length && count < effectsPerRead; end += 1) {
    const row = rows[end];
    if (row !== undefined && recordedEffect(row) !== null) count += 1;
  }
  return rows.slice(from, end);
}

/**
 * The claim of the process that drives the turn now, from the lease of the session; `null`: none does, or an older
 * release does.
 */
function claimOf(lease: Row | undefined): TurnClaim | null {
  if (lease === undefined || (lease.remainingMs ?? 0) <= 0) return null;
  const { owner, released, since, tookOverFrom } = readValue("leases", lease);
  return released || since === null
    ? null
    : { owner, epoch: epochOf(lease.tag), since, takesOver: tookOverFrom !== null };
}

function timelineRow(row: Row, isContext: boolean): TimelineRow {
  return { ordinal: Number(row.key[3]), row: readValue("journal", row), isContext };
}

function checkNumber(name: "after" | "limit", value: number, least: number): void {
  if (Number.isSafeInteger(value) && value >= least) return;
  throw new MisuseError("invalid_argument", `timeline: ${name} must be a whole number of ${least} or more`, {
    path: [name],
  });
}

/**
 * The id of the effect of a row, if records inside it are shown. Of model calls, only those that were repeated have
 * some.
 */
function recordedEffect({ row }: TimelineRow): string | null {
  const effect = effectOf(row);
  const isRepeated = row.attempt > 1 || row.timing?.takesOver === true;
  const isRecorded = effect?.type === "call_tool" || (effect?.type === "call_model" && isRepeated);
  return effect !== null && isRecorded ? effect.id : null;
}

/** The records inside the effects of these rows, by effect id and name, and their length in characters. */
async function recordsOf(
  { storage }: InspectionContext,
  at: Key,
  rows: readonly TimelineRow[],
): Promise<{ readonly records: ReadonlyMap<string, ReadonlyMap<string, Json>>; readonly length: number }> {
  const ids = rows.flatMap((row) => recordedEffect(row) ?? []);
  if (ids.length === 0) return { records: new Map(), length: 0 };
  const found = await storage.read(
    ids.map((effect) => ({ table: "records", prefix: [...at, effect], maxLength: effectRecordsLength })),
  );
  return {
    records: new Map(ids.map((effect, index) => [effect, namedRecords(found[index] ?? [])])),
    length: found.flat().reduce((sum, { value }) => sum + value.length, 0),
  };
}

function namedRecords(rows: readonly Row[]): ReadonlyMap<string, Json> {
  return new Map(rows.map((row) => [String(row.key[4]), readValue("records", row)]));
}

/** The turns that ran inside the tool calls of these rows, by effect id. */
async function childTurns(
  context: InspectionContext,
  key: SessionKey,
  rows: readonly TimelineRow[],
  records: ReadonlyMap<string, ReadonlyMap<string, Json>>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const calls = rows.flatMap(({ row }): readonly RecordedCall[] => {
    const effect = effectOf(row);
    if (effect?.type !== "call_tool") return [];
    const { id: effectId, idempotencyKey } = effect;
    return [{ effectId, idempotencyKey, records: [...(records.get(effectId)?.keys() ?? [])] }];
  });
  return turnsInside(context, key, calls);
}

/** A call, and the names of the records inside its effect. */
type RecordedCall = Pick<OrderedCall, "effectId" | "idempotencyKey"> & { readonly records: readonly string[] };

/** The turns that were begun inside calls, by effect id. */
async function turnsInside(
  { storage }: InspectionContext,
  { tenant, session }: SessionKey,
  calls: readonly RecordedCall[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const conversations = calls.flatMap(({ effectId, idempotencyKey, records }) => {
    const names = records.filter((name) => name.startsWith("child/"));
    return names.slice(0, maxChildren).map((name) => ({ effectId, base: `${idempotencyKey}/${name}` }));
  });
  if (conversations.length === 0) return new Map();
  const found = await storage.read(
    conversations.map(({ base }) => ({
      table: "records",
      prefix: [tenant, session, base, base],
      maxLength: childLength,
    })),
  );
  const children = new Map<string, string[]>();
  for (const [index, { effectId, base }] of conversations.entries()) {
    const turns = (found[index] ?? []).flatMap((row) => {
      const [, number] = /^begun\/(\d+)$/.exec(String(row.key[4])) ?? [];
      // A conversation that waited is continued by a later call, which has begun the later turns.
      return number !== undefined && readValue("records", row) === effectId ? [`${base}/${number}`] : [];
    });
    children.set(effectId, [...(children.get(effectId) ?? []), ...turns]);
  }
  return children;
}

/** The calls of a turn that runs and has no row for them yet, with the turns that were begun inside them. */
async function openCalls(
  context: InspectionContext,
  key: SessionKey,
  turnId: string,
  rows: readonly TimelineRow[],
): Promise<TurnTimeline["open"]> {
  const { storage } = context;
  const at = turnKey(key, turnId);
  // Only a turn without a reply may run calls that it was started with.
  const mayContinue = !isInnerTurn(turnId) && rows.every(({ row }) => effectOf(row)?.type !== "call_model");
  const [start] = mayContinue ? await storage.read([{ table: "starts", prefix: at, limit: 1 }]) : [];
  const answers = start?.[0] === undefined ? [] : readValue("starts", start[0]).answers;
  const calls = orderedCalls(turnId, rows, answers).slice(0, contextRows);
  if (calls.length === 0) return [];
  const found = await storage.read(
    calls.map(({ effectId }) => ({ table: "records", prefix: [...at, effectId], maxLength: childLength })),
  );
  const recorded = calls.map((call, index) => ({
    ...call,
    records: (found[index] ?? []).map((record) => String(record.key[4])),
  }));
  const turns = await turnsInside(context, key, recorded);
  return calls.map(({ effectId, toolCallId, name }) => {
    const children = (turns.get(effectId) ?? []).map((child) => ({ sessionId: key.session, turnId: child }));
    return { effectId, toolCallId, name, children };
  });
}

/** Returns whether a turn runs inside a tool call: its id begins with that of the call. */
function isInnerTurn(turnId: string): boolean {
  return /\/child\/\d+\/\d+\/\d+$/.test(turnId);
}

/** The view of a turn inside a tool call, as far as its journal shows it. */
async function innerSummary(
  context: InspectionContext,
  id: string,
  turnId: string,
  rows: readonly TimelineRow[],
): Promise<TurnSummaryView> {
  const key = sessionKey(context, id);
  const begun = await beginning(context, key, turnId);
  const [ended = []] = await context.storage.read([
    { table: "records", prefix: [...turnKey(key, turnId), turnId, "ended"] },
  ]);
  if (rows.length === 0 && ended.length === 0 && begun === null) throw noRow(turnId);
  const outer = await turnSummary(context, id, begun ?? outermostTurn(turnId));
  return {
    turnId,
    verb: "chat",
    engine: outer.engine,
    acceptedAt: rows.find(({ ordinal }) => ordinal === 1)?.row.timing?.startedAt ?? outer.acceptedAt,
    base: 0,
    status: ended.length > 0 || outer.status === "ended" ? "ended" : outer.status,
    step: 0,
    end: null,
    failure: null,
    limitWait: null,
    discarded: 0,
  };
}

/**
 * The turn of the session under which a turn inside a tool call was begun: after an answer that is a later one than the
 * turn that its id begins with. `null`: it was not begun.
 */
async function beginning({ storage }: InspectionContext, key: SessionKey, turnId: string): Promise<string | null> {
  let turn = turnId;
  while (isInnerTurn(turn)) {
    const end = turn.lastIndexOf("/");
    const base = turn.slice(0, end);
    const at = [...turnKey(key, base), base, `begun/${turn.slice(end + 1)}`];
    const [[record] = []] = await storage.read([{ table: "records", prefix: at }]);
    const effectId = record === undefined ? null : readValue("records", record);
    const [, caller] = /^(.+)\/\d+\/(?:tool|cell)\/\d+$/.exec(typeof effectId === "string" ? effectId : "") ?? [];
    if (caller === undefined) return null;
    turn = caller;
  }
  return turn;
}

function outermostTurn(turnId: string): string {
  return turnId.slice(0, turnId.indexOf("/"));
}

function noRow(turnId: string): RuntimeError {
  return new RuntimeError("not_found", { message: `there is no journal of turn ${JSON.stringify(turnId)}` });
}

/** How many characters of records one effect returns. */
const maxRecordsLength = 1_000_000;

/** Everything that is stored about one row of the journal of a turn. Rejects with `not_found`. */
export async function readEffect(
  context: InspectionContext,
  id: string,
  turnId: string,
  ordinal: number,
): Promise<EffectDetail> {
  const at = turnKey(sessionKey(context, id), turnId);
  const valid = Number.isSafeInteger(ordinal) && ordinal >= 1;
  const [rows = []] = valid ? await context.storage.read([{ table: "journal", prefix: [...at, ordinal] }]) : [];
  const [stored] = rows;
  if (stored === undefined) {
    // Distinguishes an unknown session or turn from an unknown row.
    if (!isInnerTurn(turnId)) await turnSummary(context, id, turnId);
    throw new RuntimeError("not_found", {
      message: `the journal of turn ${JSON.stringify(turnId)} has no row ${String(ordinal)}`,
    });
  }
  const row: JournalRow = readValue("journal", stored);
  const effect = effectOf(row);
  const [records = []] =
    effect === null
      ? []
      : await context.storage.read([{ table: "records", prefix: [...at, effect.id], maxLength: maxRecordsLength }]);
  return {
    ...rowDetail(ordinal, row),
    records: records.map((record) => ({ name: String(record.key[4]), value: readValue("records", record) })),
  };
}
