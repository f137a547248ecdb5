// `recover`: drives open turns that no process holds, makes failed sessions usable, and restarts or ends parked turns.
//
//   no id                             restores missing rows of the index of work, takes over turns of ended processes,
//                                     drives every due turn, and starts turns that wait for a limit with a free slot
//   id, the turn is open              drives it at once, without backoff, and resets its count of takeovers (Q17)
//   id, the turn is parked            ends the turn (Q16)
//   id, parked, `from: "step"`        restarts the open step (Q14)
//   id, no turn, the status is error  makes the session usable, and starts the turn of input that waits

import type { OpenTurnView, Recovered } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";

import { MisuseError, runtimeFailure } from "../../core/model/internal.ts";
import { recover as recoverSession } from "../../core/session/internal.ts";
import { endTurn } from "../accept/end-turn.ts";
import { actorOf } from "../drive/context.ts";
import { loadTurn } from "../drive/driven-turn.ts";
import { effectiveRows } from "../drive/journal.ts";
import { followingTurn } from "../drive/new-turn.ts";
import { writeConflict, find, historyOf, lastStart, openTurn } from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { journalPut } from "../rows/journal-rows.ts";
import { epochOf } from "../rows/lease.ts";
import { ledgerPuts, usageOfRows } from "../rows/ledger.ts";
import { turnKey } from "../rows/session-key.ts";
import { writeSession } from "../rows/session-write.ts";
import { checkReadable } from "../rows/stored.ts";
import { ofTurn } from "../rows/turn-events.ts";
import { dueTurns } from "./due-turns.ts";
import { takeOverAllEnded } from "./open-turns.ts";
import { restoreWork } from "./restore.ts";
import { visitOnce } from "./visit.ts";

/** How often a session that other writers change meanwhile is read again before `recover` rejects with `conflict`. */
const maxAttempts = 5;

const nothingRecovered: Recovered = { pickedUp: 0, usable: false, mayRunTwice: [] };

/** Recovers one session, or without an id drives every due turn. */
export async function recover(
  context: VerbContext,
  id?: string,
  options: { readonly from?: "step" } = {},
): Promise<Recovered> {
  if (id === undefined) {
    await restoreWork(context);
    // This makes open turns due that are due too late, so it comes first.
    const ended = await takeOverAllEnded(context, null);
    const due = await visitOnce(context, dueTurns(context), await context.clock.latest());
    let line: string | null = null;
    do line = await context.turns.serveAllWaiting(line);
    while (line !== null);
    return { ...nothingRecovered, pickedUp: due.taken + ended.taken };
  }
  if (options.from !== undefined && options.from !== "step") {
    const message = `recover: from must be "step", not ${String(options.from)}`;
    throw new MisuseError("invalid_argument", message, { path: ["from"] });
  }
  for (let attempt = 1; ; attempt += 1) {
    const before = await find(context, id);
    const recovered = await recoverOne(context, before, options);
    if (recovered !== "changed") return recovered;
    // Another writer has changed the session since it was read, for example another process that recovers it.
    if (attempt >= maxAttempts) throw writeConflict(before.key, "sessions");
  }
}

/** One attempt to recover a session as it was read. `changed`: nothing was written, because the session has changed. */
async function recoverOne(
  context: VerbContext,
  before: ExistingSession,
  options: { readonly from?: "step" },
): Promise<Recovered | "changed"> {
  const { key, head } = before;
  const open = await openTurn(context, key, head.turn);
  if (open?.status === "parked") {
    return options.from === "step" ? restartStep(context, before, open) : endParked(context, before, open);
  }
  if (open !== null)
    return { ...nothingRecovered, pickedUp: (await context.turns.pickUp(key, { force: true })) ? 1 : 0 };
  if (head.session.status !== "error") return nothingRecovered;
  const pickedUp = await makeUsable(context, before);
  return pickedUp === "changed" ? "changed" : { ...nothingRecovered, usable: true, pickedUp };
}

/**
 * Makes a session usable whose last turn failed. Input that waits in its inbox starts the next turn. Returns how many
 * turns are driven here (0 or 1); `changed`: nothing was written, because the session has changed.
 */
async function makeUsable(context: VerbContext, before: ExistingSession): Promise<number | "changed"> {
  const { storage, clock } = context;
  const { key, head } = before;
  const after = recoverSession(head.session);
  const start = await lastStart(context, before);
  const now = clock.now();
  const history = await historyOf(context, before);
  const { turn, changes } =
    start === null || head.lastTurn === null
      ? { turn: null, changes: noChanges }
      : await followingTurn(context, key, { ...start, id: head.lastTurn }, after, history, now);
  const write = writeSession(before, {
    now,
    session: { after, messages: [], history: head },
    ...(turn === null ? {} : { turn: { type: "begin", turn, due: now, limit: null } }),
    also: changes,
  });
  checkReadable("sessions", write.after.head);
  const written = await storage.write(write.changes);
  if (!written.ok) return "changed";
  if (turn === null || !context.drives) return 0;
  const epoch = epochOf(before.leaseRow?.tag ?? 0);
  return (await context.turns.driveStored({ key, turn: turn.id, epoch })) ? 1 : 0;
}

/**
 * Ends a parked turn with the failure it was parked for. Its row of the audit log is written before: several batches
 * may be needed to end a turn.
 */
async function endParked(
  context: VerbContext,
  before: ExistingSession,
  { turnId, failure }: OpenTurnView,
): Promise<Recovered> {
  await context.storage.write(auditOf(context, before.key, turnId));
  const reason = failure?.type === "runtime_error" ? failure : runtimeFailure("diverged");
  const pickedUp = await endTurn(context, before.key, turnId, { type: "failed", failure: reason });
  if (pickedUp === "held") throw writeConflict(before.key, "leases");
  return { pickedUp: pickedUp === "over" ? 0 : pickedUp, usable: true, mayRunTwice: [] };
}

/** The row of the audit log for a parked turn that is ended or restarted. */
function auditOf(context: VerbContext, { tenant, session }: SessionKey, turnId: string): Changes {
  const fact = { action: "recover", actor: actorOf(context), tenant, sessionId: session, target: turnId } as const;
  return auditRow(fact, context.clock.now());
}

/**
 * Restarts the open step of a parked turn (Q14). A `step_restarted` journal row supersedes the rows of the step;
 * inputs, usage and start marks survive. Returns the effects that are performed again although they had a response.
 */
async function restartStep(
  context: VerbContext,
  before: ExistingSession,
  { turnId }: OpenTurnView,
): Promise<Recovered> {
  const { key, head } = before;
  const parked = await loadTurn(context.storage, key, turnId, { parked: true });
  if (parked === null || parked.stored.turn === null) throw writeConflict(key, "turns");
  const { rows, stored } = parked;
  const { step, committed } = parked.stored.turn.progress;
  const at = turnKey(key, turnId);
  const prefix = `${turnId}/${step}/`;
  const index = rows.findIndex(({ item }) => item.type === "response" && item.response.id.startsWith(prefix));
  const from = index === -1 ? rows.length + 1 : index + 1;
  const performed = rows.slice(from - 1).flatMap(({ item, effect }) => {
    const runs = effect !== null && /"type":"(call_model|call_tool|run_code)"/.test(effect);
    return item.type === "response" && runs ? [item.response.id] : [];
  });
  // A step that was restarted before has several responses to one effect.
  const again = [...new Set(performed)];
  const withdrawn = effectiveRows(rows).filter((recorded) => recorded.ordinal >= from);
  const ordinal = rows.length + 1;
  const restarted = { type: "step_restarted", from, step } as const;
  const row = { effect: null, hash: null, item: restarted, epoch: 0, attempt: 1, timing: null };
  const session = recoverSession(head.session);
  const usage = usageOfRows(
    withdrawn.map((recorded) => recorded.row),
    session.usage,
  );
  const unbooked = withdrawn.filter((recorded) => recorded.ordinal > committed);
  const [records = []] = await context.storage.read([{ table: "records", prefix: at }]);
  const event = { type: "step_reset", reason: "restart", withdrawn: again, effectId: null, attempt: null } as const;
  const now = context.clock.now();
  const write = writeSession(
    { ...stored, version: before.version },
    {
      now,
      session: { after: { ...session, usage }, messages: [], history: head },
      turn: { type: "restart", committed: ordinal, due: now },
      events: [ofTurn(turnId, ordinal, 0, event)],
      also: merge(auditOf(context, key, turnId), {
        checks: [],
        removals: records
          .filter((record) => isWithdrawn(record, prefix, again))
          .map((record) => ({ table: "records", prefix: record.key })),
        puts: [
          journalPut(at, ordinal, row),
          ...unbooked.flatMap((recorded) => ledgerPuts(at, recorded.row.item, recorded.ordinal)),
        ],
      }),
    },
  );
  const written = await context.storage.write(write.changes);
  if (!written.ok) throw writeConflict(key, write.changes.checks[written.check]?.table);
  const epoch = epochOf(before.leaseRow?.tag ?? 0);
  const isDriven = context.drives && (await context.turns.driveStored({ key, turn: turnId, epoch }));
  const pickedUp = isDriven ? 1 : 0;
  return { pickedUp, usable: true, mayRunTwice: again };
}

/**
 * Returns whether a record is void when the step is restarted. The decision of an approval or a hook is void: the
 * restarted step may make other calls. Attempts and delays are void once their usage was booked with the response of
 * the effect. Start marks are kept (H4).
 */
function isWithdrawn({ key }: Row, step: string, answered: readonly string[]): boolean {
  const [effect, name] = [String(key[3]), String(key[4])];
  if (!effect.startsWith(step)) return false;
  return name === "prepared" || (answered.includes(effect) && /^(?:attempt|delay)\//.test(name));
}
