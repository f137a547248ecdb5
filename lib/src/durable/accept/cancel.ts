// Cancel is a durable command (Q9, H6): it is stored in `cancels`, and the process that drives the turn settles it into
// the journal.
//
// Order of operations
//   1. Store the cancel, conditional on the commit count of the turn. If the turn has ended, return its outcome
//      instead.
//   2. Cancel the run directly, if this process drives the turn. Other processes find the row (`CancelWatch`).
//   3. Wait for the end of the turn. Meanwhile, drive the turn if no process holds it, and end it without its engine if
//      no engine can (Q16).

import type { Cancelled } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";

import { EngineError, MisuseError, ValidationError } from "../../core/model/internal.ts";
import { actorOf, readOne } from "../drive/context.ts";
import { checkOptions, checkTexts } from "../drive/durable-options.ts";
import { find } from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";
import { merge } from "../rows/batch.ts";
import { turnKey } from "../rows/session-key.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { attach } from "../sessions/handles.ts";
import { endTurn } from "./end-turn.ts";

/** Options of `cancel`. */
export type CancelOptions = {
  /** The turn to cancel. Default: the open turn. */
  readonly turnId?: string;
  /** The reason, stored with the turn. */
  readonly reason?: string;
  /** The origin of the cancel, for example the name of a service, stored with the turn. Default: `"runtime"`. */
  readonly origin?: string;
  /**
   * How long to wait for the end of the turn, in milliseconds. Default: 60,000. After that the result is `"stored"`.
   */
  readonly waitMs?: number;
};

const defaultWaitMs = 60_000;

/**
 * Cancels the open turn. Returns `"cancelled"`; `"completion_won"` if the turn ended before the cancel was recorded;
 * `"nothing_open"` if there is no open turn, or it is parked; or `"stored"` if the turn has not ended within `waitMs`:
 * the cancel takes effect when a process drives it.
 */
export async function cancel(context: VerbContext, id: string, options: CancelOptions = {}): Promise<Cancelled> {
  checkOptions("cancel", options);
  const { waitMs = defaultWaitMs, ...texts } = options;
  checkTexts("cancel", texts, ["turnId", "reason", "origin"]);
  if (!(waitMs >= 0)) {
    throw new MisuseError("invalid_argument", "cancel: waitMs must be a number of 0 or more", { path: ["waitMs"] });
  }
  const { key, head } = await find(context, id);
  const turn = options.turnId ?? head.turn;
  if (turn === null) return "nothing_open";
  const { storage, clock, turns, drives } = context;
  const at = turnKey(key, turn);
  const { reason = "the caller cancelled the turn", origin = "runtime" } = options;
  const evidence = { requestId: turn, origin, reason };
  for (;;) {
    const [rows = [], cancels = []] = await storage.read([
      { table: "turns", prefix: at },
      { table: "cancels", prefix: at },
    ]);
    const [row] = rows;
    if (row === undefined) return "nothing_open";
    const { status, end } = readValue("turns", row);
    if (status === "ended") return end?.outcome.type === "cancelled" ? "cancelled" : "completion_won";
    if (status === "parked") return "nothing_open";
    if (cancels.length > 0) break;
    const fact = {
      action: "cancel",
      actor: actorOf(context),
      tenant: key.tenant,
      sessionId: id,
      target: turn,
    } as const;
    const written = await storage.write(
      merge(auditRow(fact, clock.now()), {
        checks: [
          { table: "turns", key: at, tag: row.tag },
          { table: "cancels", key: at, tag: null },
        ],
        removals: [],
        puts: [{ table: "cancels", key: at, tag: 0, value: writeValue("cancels", { evidence, at: clock.now() }) }],
      }),
    );
    if (written.ok) break;
  }
  turns.cancel(key, turn, origin, reason);
  const ends = async () => typeof (await endTurn(context, key, turn, { type: "cancelled", evidence })) === "number";
  const until = clock.now() + waitMs;
  for (let result = attach(context, id, turn).result; ;) {
    // A cancelled turn performs no effect, so the takeover limit does not apply to it.
    if (drives) await turns.pickUp(key, { force: true });
    // Perhaps no process has the engine any more; the turn is then ended without it (Q16).
    if (drives && !(await hasEngine(context, key, turn)) && (await ends())) return "cancelled";
    try {
      // Checked again every renewal interval: the process that holds the session may crash meanwhile.
      const end = await resultWithin(
        context,
        result,
        Math.min(context.lease.renewMs, Math.max(0, until - clock.now())),
      );
      if (end === null && clock.now() >= until) return "stored";
      if (end === null) continue;
      if (end.status === "parked") return "nothing_open";
      return end.outcome.type === "cancelled" ? "cancelled" : "completion_won";
    } catch (error) {
      // The engine as it is now cannot plan the turn.
      if (!isEngineFault(error)) throw error;
      if (await ends()) return "cancelled";
      result = attach(context, id, turn).result;
    }
  }
}

/** The result; `null`: the time is over first. */
async function resultWithin<T>({ clock }: VerbContext, work: Promise<T>, ms: number): Promise<T | null> {
  const timer = new AbortController();
  const over = clock.sleep(ms, timer.signal).then(
    () => null,
    () => null,
  );
  try {
    return await Promise.race([work, over]);
  } finally {
    timer.abort();
  }
}

/** Returns whether this process has the engine of the turn. */
async function hasEngine({ storage, engines }: VerbContext, key: SessionKey, turn: string): Promise<boolean> {
  const row = await readOne(storage, { table: "starts", prefix: turnKey(key, turn) });
  return row !== null && Object.hasOwn(engines, readValue("starts", row).engine);
}

/** Returns whether the error is caused by the engine and not by the storage. */
function isEngineFault(error: unknown): boolean {
  return error instanceof MisuseError || error instanceof EngineError || error instanceof ValidationError;
}
