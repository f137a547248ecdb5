// Ends a turn without its engine (Q16): a parked turn, or a cancelled turn whose engine is gone or cannot plan it.
//
// Theory of operation
//   1. Claim the lease, so that no process drives the turn meanwhile.
//   2. Replay the turn in the one loop, from its journal and its pinned configuration, with an engine that performs
//      nothing.
//        calls with a recorded result   keep it
//        calls with a start mark        are answered by their replay policy, and the answers are recorded
//        all other open calls           are answered as cancelled, which deletes their approvals: nothing of the turn
//                                       can run later
//   3. If the journal cannot be replayed at all, the session continues from its last boundary, without the approvals of
//      the turn (`endAtBoundary`).
//   4. Waiting input becomes the next turn (Q11). The lease is released, or kept for that turn.

import type {
  CancelEvidence,
  ChatResult,
  Failure,
  JsonObject,
  PendingToolCall,
  Session,
} from "../../core/model/internal.ts";
import type { JournalItem } from "../../core/run/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Lease } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { JournalRow } from "../rows/values.ts";

import {
  chatResult,
  EngineError,
  noUsage,
  RuntimeError,
  runtimeFailure,
  withDigest,
} from "../../core/model/internal.ts";
import { recover as recoverSession } from "../../core/session/internal.ts";
import { closedTurn, dueAndLimit, loadTurn } from "../drive/driven-turn.ts";
import { effectiveRows } from "../drive/journal.ts";
import { followingTurn } from "../drive/new-turn.ts";
import { writeConflict, extendHistory, find, historyOf } from "../drive/session-rows.ts";
import { TurnDriver } from "../drive/turn-driver.ts";
import { TurnRollup } from "../drive/turn-rollup.ts";
import { merge } from "../rows/batch.ts";
import { tokenCheck } from "../rows/lease.ts";
import { usageOfRows } from "../rows/ledger.ts";
import { freedScopes } from "../rows/limits.ts";
import { outcomeClassOf } from "../rows/rollup.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { writeSession } from "../rows/session-write.ts";
import { readValue } from "../rows/stored.ts";
import { summaryOf } from "../rows/summary.ts";
import { ofTurn } from "../rows/turn-events.ts";

/** Why the turn is ended. */
export type TurnEnding =
  | { readonly type: "cancelled"; readonly evidence: CancelEvidence }
  | { readonly type: "failed"; readonly failure: Failure };

/**
 * Ends the turn. Returns the number of turns that follow and are driven here (0 or 1); `held`: another process holds
 * the session; `over`: the turn is not open any more.
 */
export async function endTurn(
  context: VerbContext,
  key: SessionKey,
  turnId: string,
  ending: TurnEnding,
): Promise<number | "held" | "over"> {
  const { turns, storage } = context;
  const lease = await turns.claims.claim(key);
  if (lease === null) return "held";
  let heldLease: Lease | null = lease;
  let driver: TurnDriver | null = null;
  try {
    const turn = await loadTurn(storage, key, turnId, { parked: true });
    if (turn === null) return "over";
    driver = new TurnDriver(context, turn, lease, itemOf(ending));
    await driver.drive();
    turns.serveWaiting(driver.servedScopes);
    // The ending commit has released the lease, or kept it for the next turn.
    heldLease = driver.next?.lease ?? null;
    if (driver.next === null || !context.drives) return 0;
    turns.drive(key, driver.next.turn, driver.next.lease);
    heldLease = null;
    return 1;
  } catch (error) {
    heldLease = driver?.lease ?? lease;
    if (!cannotBeReplayed(error)) throw error;
    return await endAtBoundary(context, key, turnId, ending, heldLease);
  } finally {
    if (heldLease !== null) await turns.claims.release(key, heldLease);
  }
}

/** The journal item that ends the turn. */
function itemOf(ending: TurnEnding): JournalItem {
  if (ending.type === "failed") return { type: "failure", failure: ending.failure };
  return { type: "cancel", cancellation: { evidence: ending.evidence, received: null, usage: noUsage } };
}

/** Also a turn with a protocol of one's own that this process does not have. */
function cannotBeReplayed(error: unknown): boolean {
  if (error instanceof EngineError) return error.reason === "invalid_engine";
  return error instanceof RuntimeError && ["corrupt_row", "diverged", "replay_missing"].includes(error.reason);
}

/**
 * Ends a turn whose journal cannot be replayed: the session continues from its last boundary. The usage of readable
 * rows is booked.
 */
async function endAtBoundary(
  context: VerbContext,
  key: SessionKey,
  turnId: string,
  ending: TurnEnding,
  lease: Lease,
): Promise<number> {
  const { storage, clock } = context;
  const stored = await find(context, key.session);
  const at = turnKey(key, turnId);
  const [turnRows = [], startRows = [], journal = [], opened = []] = await storage.read([
    { table: "turns", prefix: at },
    { table: "starts", prefix: at },
    { table: "journal", prefix: at },
    { table: "open", prefix: keyOf(key) },
  ]);
  const [turnRow, startRow] = [turnRows[0], startRows[0]];
  const open = opened[0] === undefined ? closedTurn : readValue("open", opened[0]);
  if (turnRow === undefined) {
    throw new RuntimeError("not_found", { message: `there is no turn ${JSON.stringify(turnId)}` });
  }
  const progress = readValue("turns", turnRow);
  const start =
    startRow === undefined
      ? { engine: "default", options: {}, context: null, startedBy: [], trace: null, acceptedAt: null, pinned: null }
      : readValue("starts", startRow);
  const rows = journal.flatMap(readable);
  const spent = effectiveRows(rows).map(({ row }) => row);
  const outcome =
    ending.type === "cancelled"
      ? ending
      : ({
          type: "runtime_error",
          failure: ending.failure.type === "runtime_error" ? ending.failure : runtimeFailure("diverged"),
        } as const);
  const metadata = "failure" in outcome ? { error: outcome.failure } : {};
  const usage = usageOfRows(spent, noUsage);
  const result: ChatResult = { ...chatResult(outcome, { thread: { messages: [], metadata: {} }, usage }), metadata };
  const recovered = withoutApprovals(recoverSession(stored.head.session));
  const after = { ...recovered, usage: usageOfRows(spent, recovered.usage) };
  const history = extendHistory(await historyOf(context, stored), []);
  const now = clock.now();
  const { turn: next, changes } = await followingTurn(context, key, { ...start, id: turnId }, after, history, now);
  const { committed, step, takeovers } = progress;
  const { engine, acceptedAt } = start;
  const measured = { engine, acceptedAt, isParked: progress.status === "parked", rows, takeovers };
  const write = writeSession(
    {
      ...stored,
      turn: { id: turnId, progress, commits: turnRow.tag, engine: start.engine, ...dueAndLimit(start, open) },
    },
    {
      now,
      session: { after, messages: [], history },
      turn: {
        type: "end",
        committed,
        step,
        end: { ...summaryOf(result), steps: step },
        next,
        nextDue: now,
        nextLimit: null,
        endedAt: now,
        acceptedAt: acceptedAt ?? now,
        rollup: new TurnRollup(measured, lease).line(outcomeClassOf(outcome), now),
      },
      events: [ofTurn(turnId, committed, -1, { type: "chat_completed", result })],
      also: merge(changes, {
        checks: [tokenCheck(keyOf(key), lease)],
        removals: [{ table: "pieces", prefix: at }],
        puts: [],
      }),
    },
  );
  const written = await storage.write(write.changes);
  if (!written.ok) throw writeConflict(key, write.changes.checks[written.check]?.table);
  context.histories.keep(nameOf(key), history);
  context.turns.serveWaiting(freedScopes(open.limit));
  return 0;
}

/** The value of a journal row; empty if it cannot be read. */
function readable(row: Parameters<typeof readValue>[1]): readonly JournalRow[] {
  try {
    return [readValue("journal", row)];
  } catch {
    return [];
  }
}

/** Makes approved calls pending again with the reason `outcome_unknown`: they may have run. */
function withoutApprovals(session: Session<JsonObject>): Session<JsonObject> {
  const pendingToolCalls = session.pendingToolCalls.map((call): PendingToolCall => {
    return call.decision === null ? call : withDigest({ ...call, reason: "outcome_unknown", decision: null });
  });
  const waits = pendingToolCalls.some(({ decision }) => decision === null);
  return {
    ...session,
    pendingToolCalls,
    status: waits && session.status === "idle" ? "awaiting_tools" : session.status,
  };
}
