// Keeping turns going: picking up those that nobody drives, and bringing back those that are parked.

import type { CancelEvidence, ChatResult, OpenTurnView, Recovered, TurnOutcome } from "../../model/internal.ts";
import type { SessionKey } from "../context.ts";
import type { Changes } from "../rows/changes.ts";
import type { Put, Removal, Row } from "../rows/storage.ts";
import type { SessionHead, StoredEvent, TurnProgress } from "../rows/stored.ts";
import type { Desk, Found } from "./desk.ts";

import { chatResult, MisuseError, noUsage, RuntimeError, runtimeFailure } from "../../model/internal.ts";
import { recover as recoverSession } from "../../session/internal.ts";
import { keyOf, readOne } from "../context.ts";
import { countingRows } from "../drive/journal.ts";
import { nextTurn } from "../drive/next-turn.ts";
import { Ring } from "../ring.ts";
import { merge, nothing } from "../rows/changes.ts";
import { ledgerPuts, usageOfRows } from "../rows/ledger.ts";
import { journalPut, retainedPuts } from "../rows/rows.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { summaryOf } from "../rows/summary.ts";
import { commitHead, find, historyOf, keyFor, openTurn } from "./desk.ts";
import { expire } from "./tokens.ts";

const nothingRecovered: Recovered = { pickedUp: 0, usable: false, mayRunTwice: [] };

/** How often a worker looks for turns when nothing tells it to, and how long it rests after having looked: longer when looking took long. */
const workEveryMs = 1000;
const workPauseMs = 20;
const restForLook = 9;

/** Picks turns up, or brings one session back. */
export async function recover(desk: Desk, id?: string, options: { readonly from?: "step" } = {}): Promise<Recovered> {
  if (id === undefined) return { ...nothingRecovered, pickedUp: await pickUpAll(desk, Number.POSITIVE_INFINITY) };
  const found = await find(desk, id);
  const { key, head } = found;
  if (options.from !== undefined && options.from !== "step") {
    throw new MisuseError(
      "invalid_argument",
      `recover: a turn is started again from its "step", not from ${String(options.from)}`,
      {
        path: ["from"],
      },
    );
  }
  const open = await openTurn(desk, key, head.turn);
  if (open?.status === "parked")
    return options.from === "step" ? restartStep(desk, found, open) : closeParked(desk, found, open);
  if (open !== null) return { ...nothingRecovered, pickedUp: (await desk.pilots.pickUp(key)) ? 1 : 0 };
  if (head.session.status !== "error") return nothingRecovered;
  await commitHead(desk, found, recoverSession(head.session), nothing);
  return { ...nothingRecovered, usable: true };
}

/** Drives whatever nobody drives, until the signal says stop: turns of processes that died, and turns that were only accepted. */
export async function workUntil(
  desk: Desk,
  { concurrency = 16, signal }: { readonly concurrency?: number; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, storage } = desk.context;
  if (!(signal instanceof AbortSignal) || !(concurrency >= 1)) {
    throw new MisuseError(
      "invalid_argument",
      "work: give it a signal that says when to stop, and a concurrency of 1 or more",
    );
  }
  const ring = new Ring(storage);
  signal.addEventListener("abort", ring.ring);
  try {
    while (!signal.aborted && !desk.pilots.closing) {
      ring.clear();
      const from = clock.now();
      await pickUpAll(desk, concurrency, true).catch(() => 0);
      await expire(desk).catch(() => 0);
      await removeRetained(desk).catch(() => 0);
      const pauseMs = Math.min(workEveryMs, Math.max(workPauseMs, restForLook * (clock.now() - from)));
      if (signal.aborted || desk.pilots.closing) return;
      const timer = new AbortController();
      await Promise.race([ring.rung(), clock.sleep(workEveryMs, timer.signal).catch(() => undefined)]);
      timer.abort();
      // Not at every write of a busy storage, and never most of the time.
      await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  } finally {
    ring.stop();
    signal.removeEventListener("abort", ring.ring);
  }
}

/** `patient`: those that went wrong here a moment ago are left alone for a while, and keep nobody from driving the rest. */
async function pickUpAll(desk: Desk, most: number, patient = false): Promise<number> {
  const { storage } = desk.context;
  const now = desk.context.clock.now();
  const [opened = []] = await storage.read([{ table: "open", prefix: [] }]);
  // Those of engines that are not here are for others to look at; those that are driven here are looked after.
  const rows = opened.filter(
    (row) => !desk.pilots.has(sessionIn(row)) && Object.hasOwn(desk.context.engines, engineIn(row)),
  );
  const leases = await storage.read(rows.map(({ key }) => ({ table: "leases", prefix: key }) as const));
  let count = 0;
  for (const [index, row] of rows.entries()) {
    const [lease] = leases[index] ?? [];
    const free = lease === undefined || lease.expires === null || lease.expires <= now;
    if (!free || desk.pilots.count >= most) continue;
    const key = sessionIn(row);
    const picked = patient ? pickUpAgain(desk, key, row).catch(() => false) : desk.pilots.pickUp(key);
    if (await picked) count += 1;
  }
  return count;
}

function sessionIn({ key }: Row): SessionKey {
  return { tenant: String(key[0]), session: String(key[1]) };
}

/** The engine an open turn names; one that cannot be read names none. */
function engineIn(row: Row): string {
  try {
    return readValue("open", row).engine;
  } catch {
    return "";
  }
}

async function pickUpAgain(desk: Desk, key: SessionKey, row: Row): Promise<boolean> {
  return !desk.pilots.hasJustFailed(key, readValue("open", row).turn) && desk.pilots.pickUp(key);
}

/** Starts the open step of a parked turn again (Q14). */
async function restartStep(desk: Desk, found: Found, { turnId }: OpenTurnView): Promise<Recovered> {
  const { key, head, version } = found;
  const { at, turnRow, progress, rows } = await parked(desk, found, turnId);
  const prefix = `${turnId}/${progress.step}/`;
  const index = rows.findIndex(({ item }) => item.type === "response" && item.response.id.startsWith(prefix));
  const from = index === -1 ? rows.length + 1 : index + 1;
  const again = rows.slice(from - 1).flatMap(({ item, effect }) => {
    const runs = effect !== null && /"type":"(call_model|call_tool|run_code)"/.test(effect);
    return item.type === "response" && runs ? [item.response.id] : [];
  });
  const withdrawn = countingRows(rows).filter((one) => one.ordinal >= from);
  const ordinal = rows.length + 1;
  const sequence = head.sequence + 1;
  const event = { type: "step_reset", reason: "restart", withdrawn: again, effectId: null, attempt: null } as const;
  const restarted = { type: "step_restarted", from, step: progress.step } as const;
  const { storage } = desk.context;
  const row = journalPut(at, ordinal, { effect: null, hash: null, item: restarted, epoch: 0, attempt: 1 });
  const told = {
    table: "events",
    key: [...keyOf(key), sequence],
    tag: 0,
    value: writeValue("events", { turn: turnId, ordinal, index: 0, settles: null, event }),
  } as const;
  const session = recoverSession(head.session);
  const usage = usageOfRows(
    withdrawn.map((one) => one.row),
    session.usage,
  );
  const nextHead: SessionHead = {
    ...head,
    session: { ...session, usage, thread: { ...session.thread, messages: [] } },
    sequence,
  };
  const nextProgress: TurnProgress = {
    ...progress,
    status: "running",
    committed: ordinal,
    sequence,
    failure: null,
  };
  const unpaid = withdrawn.filter((one) => one.ordinal > progress.committed);
  const ledger = unpaid.flatMap((one) => ledgerPuts(at, one.row.item, one.ordinal));
  const [records = []] = await storage.read([{ table: "records", prefix: at }]);
  const start = await readOne(storage, { table: "starts", prefix: at });
  const engine = start === null ? "default" : readValue("starts", start).engine;
  const written = await storage.write({
    checks: [
      { table: "sessions", key: keyOf(key), tag: version },
      { table: "turns", key: at, tag: turnRow.tag },
    ],
    removals: records
      .filter((one) => isWithdrawn(one, prefix, again))
      .map((one) => ({ table: "records", prefix: one.key })),
    puts: [
      ...ledger,
      { table: "sessions", key: keyOf(key), tag: version + 1, value: writeValue("sessions", nextHead) },
      { table: "turns", key: at, tag: turnRow.tag + 1, value: writeValue("turns", nextProgress) },
      { table: "open", key: keyOf(key), tag: 0, value: writeValue("open", { turn: turnId, engine }) },
      row,
      told,
    ],
  });
  if (!written.ok)
    throw new RuntimeError("conflict", { message: `somebody else is recovering session ${key.session}` });
  const pickedUp = desk.drives && (await desk.pilots.pickUp(key)) ? 1 : 0;
  return { pickedUp, usable: true, mayRunTwice: again };
}

/**
 * Is this about calls of a step that is started again, which may make others? What a gate or a hook said of a call is; tries at an effect are, once
 * what they cost has been counted with its answer. That a handler may have begun stays known.
 */
function isWithdrawn({ key }: Row, step: string, answered: readonly string[]): boolean {
  const [effect, name] = [String(key[3]), String(key[4])];
  if (!effect.startsWith(step)) return false;
  return name === "prepared" || (answered.includes(effect) && /^(?:attempt|delay)\//.test(name));
}

/** Ends a parked turn as it is: the session goes on from its last boundary. */
async function closeParked(desk: Desk, found: Found, { turnId, failure }: OpenTurnView): Promise<Recovered> {
  const reason = failure?.type === "runtime_error" ? failure : runtimeFailure("diverged");
  const pickedUp = await closeTurn(desk, found, turnId, { type: "runtime_error", failure: reason });
  return { pickedUp, usable: true, mayRunTwice: [] };
}

/**
 * Ends a turn that nobody here can drive, because somebody asked for that: the session goes on from its last boundary. Whether it could be done: not
 * while somebody has the session.
 */
export async function sealCancelled(desk: Desk, id: string, turn: string, evidence: CancelEvidence): Promise<boolean> {
  const lease = await desk.pilots.claim(keyFor(desk, id));
  if (lease === null) return false;
  const found = await find(desk, id);
  try {
    if (found.head.turn === turn) await closeTurn(desk, found, turn, { type: "cancelled", evidence });
  } finally {
    await desk.pilots.release(found.key, lease);
  }
  return true;
}

/** Ends a turn without driving it. What was said to it too late becomes the next one, as always (Q11): how many are driven for that. */
async function closeTurn(desk: Desk, found: Found, turnId: string, outcome: TurnOutcome): Promise<number> {
  const { key, head } = found;
  const { context } = desk;
  const { at, turnRow, progress, rows } = await parked(desk, found, turnId);
  const spent = countingRows(rows).map((one) => one.row);
  const now = context.clock.now();
  const sequence = head.sequence + 1;
  const nothingSaid = { messages: [], metadata: {} };
  const usage = usageOfRows(spent, noUsage);
  const metadata = "failure" in outcome ? { error: outcome.failure } : {};
  const result: ChatResult = { ...chatResult(outcome, { thread: nothingSaid, usage }), metadata };
  const recovered = recoverSession(head.session);
  const session = { ...recovered, usage: usageOfRows(spent, recovered.usage) };
  const startRow = await readOne(context.storage, { table: "starts", prefix: at });
  const start = startRow === null ? { engine: "default", options: {} } : readValue("starts", startRow);
  const history = await historyOf(desk, key, head);
  const follows = await nextTurn(context, key, start, session, history, sequence, now);
  const event: StoredEvent = {
    turn: turnId,
    ordinal: progress.committed,
    index: -1,
    settles: null,
    event: { type: "chat_completed", result },
  };
  const told: Put = { table: "events", key: [...keyOf(key), sequence], tag: 0, value: writeValue("events", event) };
  const end = { ...summaryOf(result), steps: progress.step };
  const ended: TurnProgress = { ...progress, status: "ended", sequence, end };
  const changes: Changes = {
    checks: [
      { table: "turns", key: at, tag: turnRow.tag },
      { table: "inboxes", key: keyOf(key), tag: follows.inboxTag },
    ],
    removals: [{ table: "cancels", prefix: at }],
    puts: [
      { table: "turns", key: at, tag: turnRow.tag + 1, value: writeValue("turns", ended) },
      told,
      ...retainedPuts(context, at, now),
    ],
  };
  const nextHead: SessionHead = { ...head, turn: follows.turn, lastTurn: turnId, sequence };
  await commitHead(desk, { ...found, head: nextHead }, session, merge(changes, follows.changes));
  return follows.turn !== null && desk.drives && (await desk.pilots.pickUp(key)) ? 1 : 0;
}

async function parked(desk: Desk, { key }: Found, turn: string) {
  const { storage } = desk.context;
  const at = [...keyOf(key), turn];
  const turnRow = await readOne(storage, { table: "turns", prefix: at });
  const [rows = []] = await storage.read([{ table: "journal", prefix: at }]);
  if (turnRow === null) throw new RuntimeError("not_found", { message: `there is no turn ${turn}` });
  return { at, turnRow, progress: readValue("turns", turnRow), rows: rows.map((row) => readValue("journal", row)) };
}

/**
 * Removes journals that have been kept for long enough, and those of the turns inside their calls. Recovery never reads them: their turns have
 * ended. One whose call still waits for somebody is kept: what answers it goes on with it.
 */
async function removeRetained({ context }: Desk): Promise<number> {
  const { storage } = context;
  const now = context.clock.now();
  const [rows = []] = await storage.read([{ table: "retained", prefix: [], before: now + 1, limit: 64 }]);
  for (const row of rows) {
    const [tenant = "", session = "", turn = ""] = row.key.slice(1).map(String);
    const head = await readOne(storage, { table: "sessions", prefix: [tenant, session] });
    const calls = head === null ? [] : readValue("sessions", head).session.pendingToolCalls;
    const waits = calls.some(({ idempotencyKey }) => idempotencyKey?.startsWith(`${turn}/`) === true);
    const gone: Removal = { table: "retained", prefix: row.key };
    if (waits) {
      const later = retainedPuts(context, [tenant, session, turn], now);
      await storage.write({ checks: [], removals: [gone], puts: later });
      continue;
    }
    // What stands inside a turn has its name and a slash before its own.
    const inside = { prefix: [tenant, session], after: `${turn}/`, before: `${turn}0` } as const;
    const [journals = []] = await storage.read([{ table: "journal", ...inside }]);
    const [records = []] = await storage.read([{ table: "records", ...inside }]);
    const turns = new Set([turn, ...[...journals, ...records].map(({ key }) => String(key[2]))]);
    const of = (table: "journal" | "records") =>
      [...turns].map((one): Removal => ({ table, prefix: [tenant, session, one] }));
    await storage.write({ ...nothing, removals: [...of("journal"), ...of("records"), gone] });
  }
  return rows.length;
}
