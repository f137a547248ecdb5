// Applies the deadlines of pending calls and questions (`waits`). Workers call `expire` several times a second; it
// reads only deadlines that have passed, because the key of `deadlines` begins with the time. A deadline that cannot be
// applied here, for example because this process lacks the engine, is skipped for `retryMs`.

import type { Answer } from "../accept/answers.ts";
import type { ActiveTurns } from "../drive/active-turns.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Row } from "../rows/storage.ts";
import type { Deadline } from "../rows/values.ts";
import type { Wait } from "../rows/waits.ts";

import { deadlineAnswer, RuntimeError, runtimeFailure, toolFailure, user } from "../../core/model/internal.ts";
import { failToolCall, addUserMessage } from "../../core/session/internal.ts";
import { answer, decisionAnswer } from "../accept/answers.ts";
import { find, replaceSession } from "../drive/session-rows.ts";
import { noChanges } from "../rows/batch.ts";
import { readValue } from "../rows/stored.ts";
import { withPendingQuestion, pendingWait } from "../rows/waits.ts";

/** How many deadlines are read at a time. */
const pageSize = 64;
/** How many deadlines are skipped at most; then the pass ends. */
const maxSkipped = 1024;
/** The time until a skipped deadline is tried again, in milliseconds. */
const retryMs = 2000;

/** Deadlines that could not be applied here, and when to try again, by runtime. */
const skippedUntil = new WeakMap<ActiveTurns, ReadonlyMap<string, number>>();

/**
 * Applies every deadline that has passed at `now`, and returns how many. A deadline that cannot be applied here is
 * skipped for a while: another process may have the engine.
 */
export async function expire(context: VerbContext, now: number): Promise<number> {
  const { storage, turns } = context;
  const before = skippedUntil.get(turns);
  const skipped = new Map<string, number>();
  for (let ended = 0; ;) {
    const limit = pageSize + skipped.size;
    const [rows = []] = await storage.read([{ table: "deadlines", prefix: [], before: now + 1, limit }]);
    const unseen = rows.filter(({ key }) => !skipped.has(JSON.stringify(key)));
    for (const row of unseen) {
      const name = JSON.stringify(row.key);
      const until = before?.get(name) ?? 0;
      if (until > now) skipped.set(name, until);
      else if (await expireOne(context, row)) ended += 1;
      else skipped.set(name, now + retryMs);
    }
    skippedUntil.set(turns, skipped);
    if (rows.length < limit || skipped.size >= maxSkipped || unseen.length === 0) return ended;
  }
}

/** Applies one deadline. Returns `false` if that failed and the row is still there. */
async function expireOne(context: VerbContext, row: Row): Promise<boolean> {
  const [, tenant = "", session = "", call = ""] = row.key.map(String);
  const removal: Changes = { ...noChanges, removals: [{ table: "deadlines", prefix: row.key }] };
  try {
    await timeOut({ ...context, tenant }, session, call, readValue("deadlines", row), removal);
    return true;
  } catch (error) {
    // `not_found`: the call is no longer pending. Any other error may not occur later or in another process.
    if (!(error instanceof RuntimeError) || error.reason !== "not_found") return false;
    return (await context.storage.write(removal)).ok;
  }
}

/**
 * Answers the call as its policy says: with an error as its result, or by failing the session. Removes the deadline in
 * the same batch.
 */
async function timeOut(
  context: VerbContext,
  id: string,
  toolCallId: string,
  { turn, onTimeout }: Deadline,
  also: Changes,
): Promise<void> {
  const before = await find(context, id);
  const { head, version } = before;
  const wait = pendingWait(head.session, toolCallId);
  // Providers repeat call ids: the deadline of an earlier turn must not end a call of a later one.
  if (wait === null || head.lastTurn !== turn) {
    throw new RuntimeError("not_found", { message: `the call ${toolCallId} of session ${id} is no longer pending` });
  }
  const why = "no answer arrived before the deadline";
  if (onTimeout === "fail_turn") {
    const failure = runtimeFailure("callback_failed", { message: `${wait.name}: ${why}`, metadata: { toolCallId } });
    const metadata = { ...head.session.metadata, error: { ...failure } };
    return replaceSession(context, before, { ...head.session, status: "error", metadata }, also);
  }
  await answer(context, id, { version }, deadlineAnswerOf(wait, toolCallId, why), null, { also });
}

/** The answer to a wait whose deadline has passed. */
function deadlineAnswerOf({ reason, name }: Wait, toolCallId: string, why: string): Answer {
  switch (reason) {
    case "question": {
      const message = user(deadlineAnswer);
      return { change: (session) => addUserMessage(withPendingQuestion(session, toolCallId), message), denies: false };
    }
    case "manual": {
      const failure = toolFailure("timeout", { message: why, toolName: name, toolCallId });
      return { change: (session) => failToolCall(session, toolCallId, failure), denies: false };
    }
    case "approval":
    case "outcome_unknown":
      return decisionAnswer(toolCallId, { type: "deny", reason: why });
  }
}
