// Ends waits whose deadline has passed.

import type { VerbContext } from "../context.ts";
import type { ActiveTurns } from "../drive/active-turns.ts";
import type { Changes } from "../rows/batch.ts";
import type { Row } from "../rows/storage.ts";
import type { Deadline } from "../rows/values.ts";

import { RuntimeError, runtimeFailure, toolFailure, user } from "../../model/internal.ts";
import { failToolCall, addUserMessage } from "../../session/internal.ts";
import { noChanges } from "../rows/batch.ts";
import { readValue } from "../rows/stored.ts";
import { answer, decided } from "./answers.ts";
import { find, replaceSession } from "./session-rows.ts";
import { askedBy, waitFor } from "./waits.ts";

/** Deadlines read at a time; those that could not be ended and are skipped at most; and the time until they are tried again, in milliseconds. */
const pageSize = 64;
const maxSkipped = 1024;
const retryMs = 2000;

/** Deadlines that could not be ended here, and when to try again, by runtime. */
const skippedUntil = new WeakMap<ActiveTurns, ReadonlyMap<string, number>>();

/**
 * Ends every wait whose deadline has passed, and returns how many. One that cannot be ended here is skipped for a while: another process may have its
 * engine.
 */
export async function expire(context: VerbContext): Promise<number> {
  const { storage, clock, turns } = context;
  const now = clock.now();
  const before = skippedUntil.get(turns);
  const skipped = new Map<string, number>();
  for (let ended = 0; ;) {
    const limit = pageSize + skipped.size;
    const [rows = []] = await storage.read([{ table: "deadlines", prefix: [], before: now + 1, limit }]);
    const fresh = rows.filter(({ key }) => !skipped.has(JSON.stringify(key)));
    for (const row of fresh) {
      const name = JSON.stringify(row.key);
      const until = before?.get(name) ?? 0;
      if (until > now) skipped.set(name, until);
      else if (await expireOne(context, row)) ended += 1;
      else skipped.set(name, now + retryMs);
    }
    skippedUntil.set(turns, skipped);
    if (rows.length < limit || skipped.size >= maxSkipped || fresh.length === 0) return ended;
  }
}

/** Ends one wait. Returns `false` when that failed and the row is still there. */
async function expireOne(context: VerbContext, row: Row): Promise<boolean> {
  const [, tenant = "", session = "", call = ""] = row.key.map(String);
  const removal: Changes = { ...noChanges, removals: [{ table: "deadlines", prefix: row.key }] };
  try {
    await timeOut({ ...context, tenant }, session, call, readValue("deadlines", row), removal);
    return true;
  } catch (error) {
    // `not_found`: the call no longer waits. Any other error may not occur later, or in another process.
    if (!(error instanceof RuntimeError) || error.reason !== "not_found") return false;
    return (await context.storage.write(removal)).ok;
  }
}

async function timeOut(
  context: VerbContext,
  id: string,
  toolCallId: string,
  { turn, onTimeout }: Deadline,
  also: Changes,
): Promise<void> {
  const before = await find(context, id);
  const { head, version } = before;
  const wait = waitFor(head.session, toolCallId);
  // A later turn may wait for another call of the same id.
  if (wait === null || head.lastTurn !== turn) {
    throw new RuntimeError("not_found", { message: `the call ${toolCallId} of session ${id} no longer waits` });
  }
  const why = "nobody answered in time";
  if (onTimeout === "fail_turn") {
    const failure = runtimeFailure("callback_failed", { message: `${wait.name}: ${why}`, metadata: { toolCallId } });
    const metadata = { ...head.session.metadata, error: { ...failure } };
    return replaceSession(context, before, { ...head.session, status: "error", metadata }, also);
  }
  await answer(
    context,
    id,
    { version },
    (session, engine) => {
      if (wait.reason === "question") return addUserMessage(askedBy(session, toolCallId), user(`(${why})`));
      if (wait.reason === "manual") {
        const details = { message: why, toolName: wait.name, toolCallId };
        return failToolCall(session, toolCallId, toolFailure("timeout", details));
      }
      return decided(engine(), session, toolCallId, { type: "deny", reason: why });
    },
    null,
    also,
  );
}
