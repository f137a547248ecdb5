// What the next turn of a session takes over from the last one.

import type { JsonObject, Session } from "../../core/model/internal.ts";
import type { TurnStart } from "../rows/values.ts";

import { canonicalJson } from "../../core/kernel/internal.ts";
import { RuntimeError } from "../../core/model/internal.ts";

/**
 * The context of the next turn; `null`: that of the session. Approved calls that have not run yet run in that turn.
 * They were made for the context of the turn that asked, so an answer to a question keeps that context, and other input
 * with another one is a conflict.
 */
export function contextOfTurn(
  session: Session<JsonObject>,
  last: TurnStart | null,
  turnContext: JsonObject | undefined,
): JsonObject | null {
  const ofLast = last?.context ?? null;
  if (turnContext === undefined) return ofLast;
  const isApproved = session.pendingToolCalls.some(({ decision }) => decision !== null && decision.type !== "deny");
  if (!isApproved || canonicalJson(ofLast ?? session.context) === canonicalJson(turnContext)) return turnContext;
  if (session.status === "awaiting_user") return ofLast;
  throw new RuntimeError("conflict", {
    message:
      "the session has approved calls that have not run, and the input has another context than the turn that made them; continue the session without a message first",
  });
}

/**
 * Returns whether the last turn of the session stopped for an answer, so that the next turn continues it: with its
 * engine and its options, such as the schema of `output`. Also if the answer is recorded and no call is pending any
 * more.
 */
export function isWaitingTurn({ status, pendingToolCalls, lastRun }: Session): boolean {
  if (status === "awaiting_user" || pendingToolCalls.length > 0) return true;
  switch (lastRun?.outcome.type) {
    case "ask_user":
    case "manual_tool_calls":
    case "approval":
    case "outcome_unknown":
      return true;
    default:
      return false;
  }
}
