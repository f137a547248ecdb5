// The result of a turn: waits until the turn has ended or is parked, whichever process drives it.
//
// Theory of operation
//   The turn is read when this process no longer drives it, and again after each change of its session and whenever
//   this process leaves a turn. Handles of one turn share each wait and the read after it: hundreds of readers would
//   otherwise read and parse a large result at the same time, and each would hold a copy.
//
// Invariant
//   A wait is joined only before its read begins, so a handle returns nothing older than its first use.

import type { SessionSummary, TurnEnd } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { TurnProgress } from "../rows/values.ts";

import { noUsage, RuntimeError, runtimeFailure, sessionError, textOfReply } from "../../core/model/internal.ts";
import { readOne } from "../drive/context.ts";
import { isHandedOver, isHeldElsewhere } from "../drive/left-turns.ts";
import { headOf } from "../drive/session-rows.ts";
import { ChangeSignal } from "../rows/change-signal.ts";
import { epochOf } from "../rows/lease.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { currentSummary } from "./session-summary.ts";

/** Resolves with the result of a turn when it has ended or is parked. `turn`: `null` if the verb has started none. */
export async function turnEnd(context: VerbContext, key: SessionKey, turn: string | null): Promise<TurnEnd> {
  if (turn === null) return endWithoutTurn(context, key);
  const { storage, turns: active } = context;
  const changes = new ChangeSignal(storage, nameOf(key));
  const stop = active.left.onLeft(changes.notify);
  const read = async () => {
    changes.clear();
    return readEnd(context, key, turn);
  };
  try {
    let end = await joinedRead(context, key, turn, () => active.over(key, turn), read);
    while (end === null) {
      end = await joinedRead(context, key, turn, () => changes.changed().then(() => active.over(key, turn)), read);
    }
    return end;
  } finally {
    stop();
    changes.stop();
  }
}

/** Waits and then reads, or joins a handle of the same turn that waits. */
async function joinedRead(
  { endReads }: VerbContext,
  key: SessionKey,
  turn: string,
  wait: () => Promise<void>,
  read: () => Promise<TurnEnd | null>,
): Promise<TurnEnd | null> {
  const name = JSON.stringify([...keyOf(key), turn]);
  const joined = endReads.get(name);
  if (joined !== undefined) return joined;
  const afterWait = wait()
    .finally(() => endReads.delete(name))
    .then(read);
  endReads.set(name, afterWait);
  return afterWait;
}

/**
 * Reads the result of a turn; `null`: it has not ended, and another process drives it or will. Rejects with the reason
 * if this process left the turn.
 */
async function readEnd(context: VerbContext, key: SessionKey, turn: string): Promise<TurnEnd | null> {
  const { storage, turns: active } = context;
  const [heads = [], turns = [], leases = []] = await storage.read([
    { table: "sessions", prefix: keyOf(key) },
    { table: "turns", prefix: turnKey(key, turn) },
    { table: "leases", prefix: keyOf(key) },
  ]);
  const { head, version } = headOf(key.session, heads[0]);
  const [row] = turns;
  // It may have been stored since.
  if (row === undefined) return (await turnState(context, key, turn)) === "queued" ? null : readEnd(context, key, turn);
  const progress = readValue("turns", row);
  if (progress.status === "ended" || progress.status === "parked") {
    return endOf(turn, progress, await currentSummary(context, key, head, version));
  }
  const error = active.reasonLeft(key, turn, epochOf(leases[0]?.tag ?? 0));
  // `drive` hands a turn over at its deadline; the result then arrives when a process drives the turn again, perhaps
  // this one.
  if (isHandedOver(error) && active.closing) {
    throw new RuntimeError("lease_lost", {
      message: `this process was closed; another process continues the turn ${turn}: attach to it there`,
    });
  }
  if (error !== null && !isHeldElsewhere(error) && !isHandedOver(error)) throw error;
  return null;
}

/**
 * Whether a turn is stored, or queued input will start it. Rejects with `not_found` otherwise. One read, because the
 * start moves it from one to the other.
 */
export async function turnState({ storage }: VerbContext, key: SessionKey, turn: string): Promise<"stored" | "queued"> {
  const [turns = [], inbox = []] = await storage.read([
    { table: "turns", prefix: turnKey(key, turn) },
    { table: "inbox", prefix: keyOf(key) },
  ]);
  if (turns.length > 0) return "stored";
  if (inbox.some((row) => readValue("inbox", row).ownTurn?.id === turn)) return "queued";
  throw noTurn(key, turn);
}

function noTurn({ session }: SessionKey, turn: string): RuntimeError {
  const message = `there is no turn ${JSON.stringify(turn)} in session ${JSON.stringify(session)}`;
  return new RuntimeError("not_found", { message });
}

/** The result of a verb that started no turn: the session still waits. */
async function endWithoutTurn(context: VerbContext, key: SessionKey): Promise<TurnEnd> {
  const { head, version } = headOf(
    key.session,
    await readOne(context.storage, { table: "sessions", prefix: keyOf(key) }),
  );
  const { session } = head;
  const { lastRun } = session;
  return {
    turnId: null,
    status: "waiting",
    text: "",
    output: null,
    haltedReason: lastRun?.haltedReason ?? "completed",
    outcome: lastRun?.outcome ?? { type: "empty" },
    finalResponse: null,
    steps: 0,
    usage: noUsage,
    metadata: {},
    failure: sessionError(session),
    session: await currentSummary(context, key, head, version),
  };
}

/** The result of a turn that has ended or is parked, from its row. */
function endOf(turnId: string, { status, end, failure }: TurnProgress, session: SessionSummary): TurnEnd {
  const shared = { turnId, session };
  if (end === null) {
    const parked = failure ?? runtimeFailure("diverged");
    const outcome = {
      type: "runtime_error",
      failure: parked.type === "runtime_error" ? parked : runtimeFailure("diverged"),
    } as const;
    const empty = { finalResponse: null, steps: 0, usage: noUsage, metadata: {} };
    return {
      ...shared,
      ...empty,
      status: "parked",
      text: "",
      output: null,
      haltedReason: "error",
      outcome,
      failure: parked,
    };
  }
  const { finalResponse } = end;
  const text = textOfReply(finalResponse);
  const output = finalResponse?.output?.value ?? null;
  const failed = "failure" in end.outcome ? end.outcome.failure : null;
  return { ...shared, ...end, status: status === "parked" ? "parked" : "ended", text, output, failure: failed };
}
