// Applies the deadlines of pending calls and questions (`waits`), by their rows in the index of work. A deadline that
// cannot be applied here, for example because this process lacks the engine, is skipped for `retryMs`.

import type { Answer } from "../accept/answers.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Row } from "../rows/storage.ts";
import type { Deadline } from "../rows/values.ts";
import type { Wait } from "../rows/waits.ts";
import type { WorkItem } from "../rows/work.ts";
import type { WorkKind } from "./visit.ts";

import {
  deadlineAnswer,
  MisuseError,
  RuntimeError,
  runtimeFailure,
  toolFailure,
  user,
} from "../../core/model/internal.ts";
import { failToolCall, addUserMessage } from "../../core/session/internal.ts";
import { answer, decisionAnswer } from "../accept/answers.ts";
import { find, replaceSession } from "../drive/session-rows.ts";
import { noChanges } from "../rows/batch.ts";
import { readValue } from "../rows/stored.ts";
import { withPendingQuestion, pendingWait } from "../rows/waits.ts";
import { workRemoval } from "../rows/work.ts";
import { workerShare } from "./visit.ts";

/** The time until a deadline that could not be applied here is tried again, in milliseconds. */
const retryMs = 2000;

/** Applies deadlines that have passed. `onError`: see `WorkKind`. */
export function deadlines(context: VerbContext, onError: WorkKind["onError"]): WorkKind {
  return {
    reason: "deadline",
    queues: [""],
    share: workerShare,
    retryMs,
    hasPlace: () => true,
    queriesFor: () => [],
    onError,
    handle: async (item, row) => ((await expireOne(context, item, row)) ? "done" : "left"),
  };
}

/** Applies one deadline. Returns `false` if that failed and the row is still there. */
async function expireOne(context: VerbContext, item: WorkItem, row: Row): Promise<boolean> {
  const { tenant, session } = item.key;
  const removal: Changes = { ...noChanges, removals: [workRemoval(item)] };
  try {
    await timeOut({ ...context, tenant }, session, item.item, readValue("work", row), removal);
    return true;
  } catch (error) {
    // `not_found`: the call is no longer pending.
    if (error instanceof RuntimeError && error.reason === "not_found") return (await context.storage.write(removal)).ok;
    // Another process has the engine, or has changed the session meanwhile.
    if (error instanceof MisuseError || (error instanceof RuntimeError && error.reason === "conflict")) return false;
    throw error;
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
