// Keeping turns going: picking up those that nobody drives, and bringing back those that are parked.

import type { Desk, Found } from "./desk.ts";
import type { SessionHead, TurnProgress } from "./stored.ts";
import type { OpenTurnView } from "./types.ts";

import { noUsage, RuntimeError, runtimeFailure } from "../model/index.ts";
import { recover as recoverSession } from "../session/index.ts";
import { nothing } from "./changes.ts";
import { keyOf, readOne } from "./context.ts";
import { commitHead, find, openTurn } from "./desk.ts";
import { tellLeft } from "./outbox.ts";
import { journalPut } from "./rows.ts";
import { readValue, writeValue } from "./stored.ts";
import { expire } from "./tokens.ts";

/** What recovery did. */
export type Recovered = {
  /** How many turns are driven again. */
  readonly pickedUp: number;
  /** The session that had failed can be used again. */
  readonly usable: boolean;
  /** Effects that had been answered and will be asked for again. */
  readonly mayRunTwice: readonly string[];
};

const nothingRecovered: Recovered = { pickedUp: 0, usable: false, mayRunTwice: [] };

/** How often a worker looks for turns when nothing tells it to, and how long it rests after having looked. */
const workEveryMs = 1000;
const workPauseMs = 20;

/** Picks turns up, or brings one session back. */
export async function recover(desk: Desk, id?: string, options: { readonly from?: "step" } = {}): Promise<Recovered> {
  if (id === undefined) return { ...nothingRecovered, pickedUp: await pickUpAll(desk, Number.POSITIVE_INFINITY) };
  const found = await find(desk, id);
  const { key, head } = found;
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
  const { clock, host } = desk.context;
  let changed = true;
  let wake: (() => void) | null = null;
  const unwatch = host.store.watch(() => {
    changed = true;
    wake?.();
  });
  const stop = () => wake?.();
  signal.addEventListener("abort", stop);
  try {
    while (!signal.aborted && !desk.pilots.closing) {
      changed = false;
      await pickUpAll(desk, concurrency).catch(() => 0);
      await expire(desk).catch(() => 0);
      if (signal.aborted || desk.pilots.closing) return;
      const timer = new AbortController();
      if (!changed) {
        await Promise.race([
          new Promise<void>((resolve) => {
            wake = resolve;
          }),
          clock.sleep(workEveryMs, timer.signal).catch(() => undefined),
        ]);
      }
      timer.abort();
      wake = null;
      // Not at every write of a busy storage.
      await clock.sleep(workPauseMs, signal).catch(() => undefined);
    }
  } finally {
    unwatch();
    signal.removeEventListener("abort", stop);
  }
}

async function pickUpAll(desk: Desk, most: number): Promise<number> {
  const { store } = desk.context.host;
  const now = desk.context.clock.now();
  await tellLeft(desk.context.host, []);
  const [rows = []] = await store.read([{ table: "open", prefix: [] }]);
  const leases = await store.read(rows.map(({ key }) => ({ table: "leases", prefix: key }) as const));
  let count = 0;
  for (const [index, row] of rows.entries()) {
    const [lease] = leases[index] ?? [];
    const free = lease === undefined || lease.expires === null || lease.expires <= now;
    if (!free || desk.pilots.count >= most) continue;
    const key = { tenant: String(row.key[0]), session: String(row.key[1]) };
    if (await desk.pilots.pickUp(key)) count += 1;
  }
  return count;
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
  const ordinal = rows.length + 1;
  const sequence = head.sequence + 1;
  const event = { type: "step_reset", reason: "restart", withdrawn: again, effectId: null, attempt: null } as const;
  const restarted = { type: "step_restarted", from, step: progress.step } as const;
  const { host } = desk.context;
  const row = journalPut(at, ordinal, { effect: null, hash: null, item: restarted, epoch: 0, attempt: 1 });
  const told = {
    table: "events",
    key: [...keyOf(key), sequence],
    tag: 0,
    value: writeValue("events", { turn: turnId, ordinal, index: 0, settles: null, event }),
  } as const;
  const session = recoverSession(head.session);
  const nextHead: SessionHead = {
    ...head,
    session: { ...session, thread: { ...session.thread, messages: [] } },
    sequence,
  };
  const nextProgress: TurnProgress = {
    ...progress,
    status: "running",
    committed: ordinal,
    published: ordinal,
    sequence,
    failure: null,
  };
  const start = await readOne(host.store, { table: "starts", prefix: at });
  const engine = start === null ? "default" : readValue("starts", start).engine;
  if (host.journal !== host.store) await host.journal.write({ ...nothing, puts: [row] });
  const written = await host.store.write({
    checks: [
      { table: "sessions", key: keyOf(key), tag: version },
      { table: "turns", key: at, tag: turnRow.tag },
    ],
    removals: [],
    puts: [
      { table: "sessions", key: keyOf(key), tag: version + 1, value: writeValue("sessions", nextHead) },
      { table: "turns", key: at, tag: turnRow.tag + 1, value: writeValue("turns", nextProgress) },
      { table: "open", key: keyOf(key), tag: 0, value: writeValue("open", { turn: turnId, engine }) },
      ...(host.journal === host.store ? [row] : []),
      ...(host.events === host.store ? [told] : []),
    ],
  });
  if (!written.ok)
    throw new RuntimeError("conflict", { message: `somebody else is recovering session ${key.session}` });
  if (host.events !== host.store) await host.events.write({ ...nothing, puts: [told] });
  const pickedUp = desk.drives && (await desk.pilots.pickUp(key)) ? 1 : 0;
  return { pickedUp, usable: true, mayRunTwice: again };
}

/** Ends a parked turn as it is: the session goes on from its last boundary. */
async function closeParked(desk: Desk, found: Found, { turnId, failure }: OpenTurnView): Promise<Recovered> {
  const { at, turnRow, progress } = await parked(desk, found, turnId);
  const reason = failure ?? runtimeFailure("diverged");
  const end = {
    haltedReason: "error",
    outcome: { type: "runtime_error", failure: reason.type === "runtime_error" ? reason : runtimeFailure("diverged") },
    finalResponse: null,
    steps: progress.step,
    usage: noUsage,
    metadata: { error: { ...reason } },
  } as const;
  const ended: TurnProgress = { ...progress, status: "ended", end };
  const head: SessionHead = { ...found.head, turn: null, lastTurn: turnId };
  await commitHead(desk, { ...found, head }, recoverSession(head.session), {
    checks: [{ table: "turns", key: at, tag: turnRow.tag }],
    removals: [],
    puts: [{ table: "turns", key: at, tag: turnRow.tag + 1, value: writeValue("turns", ended) }],
  });
  return { ...nothingRecovered, usable: true };
}

async function parked(desk: Desk, { key }: Found, turn: string) {
  const { store, journal } = desk.context.host;
  const at = [...keyOf(key), turn];
  const turnRow = await readOne(store, { table: "turns", prefix: at });
  const [rows = []] = await journal.read([{ table: "journal", prefix: at }]);
  if (turnRow === null) throw new RuntimeError("not_found", { message: `there is no turn ${turn}` });
  return { at, turnRow, progress: readValue("turns", turnRow), rows: rows.map((row) => readValue("journal", row)) };
}
