// Ends a turn without driving it: a parked one, and a cancelled one whose engine is gone or unfit. The session continues from its last boundary.

import type { CancelEvidence, ChatResult, TurnOutcome } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { StoredTurn } from "../rows/session-write.ts";
import type { JournalRow, TurnStart } from "../rows/values.ts";
import type { Found } from "./session-rows.ts";

import { chatResult, noUsage, RuntimeError } from "../../model/internal.ts";
import { recover as recoverSession } from "../../session/internal.ts";
import { countingRows } from "../drive/journal.ts";
import { followingTurn } from "../drive/new-turn.ts";
import { merge } from "../rows/batch.ts";
import { usageOfRows } from "../rows/ledger.ts";
import { nameOf, turnKey } from "../rows/session-key.ts";
import { writeSession } from "../rows/session-write.ts";
import { checkReadable, readValue } from "../rows/stored.ts";
import { summaryOf } from "../rows/summary.ts";
import { ofTurn } from "../rows/turn-events.ts";
import { concurrentWrite, extended, find, historyOf, sessionKey } from "./session-rows.ts";

/** Ends a cancelled turn. Returns `false` while another process holds the session. */
export async function endCancelled(
  context: VerbContext,
  id: string,
  turn: string,
  evidence: CancelEvidence,
): Promise<boolean> {
  const { turns } = context;
  const lease = await turns.claim(sessionKey(context, id));
  if (lease === null) return false;
  const before = await find(context, id);
  try {
    if (before.head.turn === turn) await endTurn(context, before, turn, { type: "cancelled", evidence });
  } finally {
    await turns.release(before.key, lease);
  }
  return true;
}

/** Ends the open turn with this outcome. Returns the number of turns that follow and are driven here: input that waits becomes the next turn (Q11). */
export async function endTurn(
  context: VerbContext,
  found: Found,
  turnId: string,
  outcome: TurnOutcome,
): Promise<number> {
  const { key, head } = found;
  const { storage, clock, retentionMs } = context;
  const { turn, start, rows } = await readTurn(context, key, turnId);
  const spent = countingRows(rows).map(({ row }) => row);
  const metadata = "failure" in outcome ? { error: outcome.failure } : {};
  const usage = usageOfRows(spent, noUsage);
  const thread = { messages: [], metadata: {} };
  const result: ChatResult = { ...chatResult(outcome, { thread, usage }), metadata };
  const recovered = recoverSession(head.session);
  const after = { ...recovered, usage: usageOfRows(spent, recovered.usage) };
  const { messages } = after.thread;
  const history = extended(await historyOf(context, found), messages);
  const now = clock.now();
  const { turn: next, changes } = await followingTurn(context, key, start, after, history, now);
  const { committed, step } = turn.progress;
  const write = writeSession(
    { ...found, turn },
    {
      now,
      session: { after, messages, history },
      turn: {
        type: "end",
        committed,
        step,
        end: { ...summaryOf(result), steps: step },
        next,
        retainedUntil: retentionMs === null ? null : now + retentionMs,
      },
      events: [ofTurn(turnId, committed, -1, { type: "chat_completed", result })],
      also: merge(changes, { checks: [], removals: [{ table: "pieces", prefix: turnKey(key, turnId) }], puts: [] }),
    },
  );
  checkReadable("sessions", write.after.head);
  const written = await storage.write(write.changes);
  if (!written.ok) throw concurrentWrite(key, write.changes.checks[written.check]?.table);
  context.histories.keep(nameOf(key), history);
  return next !== null && context.drives && (await context.turns.pickUp(key)) ? 1 : 0;
}

/** The rows of a turn that is not driven. */
export async function readTurn(
  { storage }: VerbContext,
  key: SessionKey,
  id: string,
): Promise<{
  readonly turn: StoredTurn;
  readonly start: Pick<TurnStart, "engine" | "options">;
  readonly rows: readonly JournalRow[];
}> {
  const at = turnKey(key, id);
  const [turns = [], starts = [], journal = []] = await storage.read([
    { table: "turns", prefix: at },
    { table: "starts", prefix: at },
    { table: "journal", prefix: at },
  ]);
  const [turnRow, startRow] = [turns[0], starts[0]];
  if (turnRow === undefined) throw new RuntimeError("not_found", { message: `there is no turn ${JSON.stringify(id)}` });
  return {
    turn: { id, progress: readValue("turns", turnRow), commits: turnRow.tag },
    start: startRow === undefined ? { engine: "default", options: {} } : readValue("starts", startRow),
    rows: journal.map((row) => readValue("journal", row)),
  };
}
