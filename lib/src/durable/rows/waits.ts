// Pending calls and questions ("waits"): their deadlines, and what a completion token is bound to. A wait is an open
// pending call, or a question whose answer is a user message: the call that asked it has been answered already.

import type {
  Json,
  JsonObject,
  PendingReason,
  PendingToolCall,
  Session,
  WaitPolicy,
  Waits,
} from "../../core/model/internal.ts";
import type { SessionKey } from "./session-key.ts";
import type { Put } from "./storage.ts";
import type { Deadline, SessionHead } from "./values.ts";

import { canonicalJson } from "../../core/kernel/internal.ts";
import { MisuseError, pendingReasons } from "../../core/model/internal.ts";
import { isOpen } from "../../core/session/internal.ts";
import { sha256 } from "./digest.ts";
import { writeValue } from "./stored.ts";
import { workPut } from "./work.ts";

/** Validates the option `waits`. Throws `MisuseError`. */
export function checkedWaits(value: Json | undefined): Waits {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value))
    throw refused("it must be an object of policies by reason, such as { approval: { afterMs: 60000 } }");
  const waits: { [R in PendingReason]?: WaitPolicy } = {};
  for (const [name, policy] of Object.entries(value)) {
    const reason = pendingReasons.find((known) => known === name);
    if (reason === undefined) throw refused(`"${name}" is not a reason for which a call can be pending`);
    waits[reason] = checkedPolicy(reason, policy);
  }
  return waits;
}

function checkedPolicy(reason: string, policy: Json): WaitPolicy {
  if (typeof policy !== "object" || policy === null || !("afterMs" in policy))
    throw refused(`${reason} has no afterMs`, reason);
  const { afterMs, onTimeout = "error_as_result" } = policy;
  if (typeof afterMs !== "number" || !(afterMs >= 0 && afterMs <= hundredYearsMs))
    throw refused(`${reason}.afterMs must be a number from 0 to ${hundredYearsMs}`, reason, "afterMs");
  if (onTimeout !== "error_as_result" && onTimeout !== "fail_turn") {
    throw refused(`${reason}.onTimeout must be "error_as_result" or "fail_turn"`, reason, "onTimeout");
  }
  return { afterMs, onTimeout };
}

/** The longest deadline. A reason without a deadline is left out of `waits`. */
const hundredYearsMs = 100 * 365 * 86_400_000;

function refused(why: string, ...at: readonly string[]): MisuseError {
  return new MisuseError("invalid_argument", `waits: ${why}`, { path: ["waits", ...at] });
}

/** A pending call or question. */
export type Wait = {
  readonly reason: PendingReason;
  readonly name: string;
  /** What a token is bound to. */
  readonly bound: JsonObject;
};

/** The wait of that id: an open pending call, or a question whose answer is a user message. `null`: neither. */
export function pendingWait(session: Session, id: string): Wait | null {
  const call = session.pendingToolCalls.find((pending) => pending.id === id && isOpen(pending));
  if (call !== undefined) {
    const { reason, name, arguments: args, idempotencyKey, path } = call;
    return { reason, name, bound: { id, name, arguments: args, idempotencyKey, path } };
  }
  if (openQuestion(session) !== id) return null;
  return { reason: "question", name: "the question", bound: { id, question: session.pendingQuestion } };
}

/** The id of the open question whose answer is a user message; `null`: there is none. */
function openQuestion({ status, pendingToolCallId, pendingToolCalls }: Session): string | null {
  if (status !== "awaiting_user" || pendingToolCalls.some(({ id }) => id === pendingToolCallId)) return null;
  return pendingToolCallId;
}

/** The session with this call as the one whose question is answered next: several questions wait in order. */
export function withPendingQuestion(session: Session<JsonObject>, pendingToolCallId: string): Session<JsonObject> {
  return { ...session, pendingToolCallId };
}

/** The deadline rows of open calls and, if the session is given, of the question whose answer is a user message. */
export function openCallDeadlines(
  key: SessionKey,
  turn: string,
  calls: readonly PendingToolCall[],
  options: JsonObject,
  now: number,
  session: Session | null = null,
): readonly Put[] {
  const waits = checkedWaits(options["waits"]);
  const questionId = session === null ? null : openQuestion(session);
  const question = questionId === null ? [] : [{ id: questionId, reason: "question" } as const];
  return [...calls.filter(isOpen), ...question].flatMap(({ id, reason }): readonly Put[] => {
    const policy = waits[reason];
    if (policy === undefined) return [];
    const deadline: Deadline = { turn, onTimeout: policy.onTimeout ?? "error_as_result" };
    const at = Math.ceil(now + policy.afterMs);
    return [workPut({ reason: "deadline", queue: "", key, at, item: id }, { value: writeValue("work", deadline) })];
  });
}

/**
 * The digest that a token is bound to: this call with these arguments, as the last turn left it. A call that was
 * answered may become pending again, when a child turn of its tool waits; an old token must not answer that wait.
 */
export async function waitDigest({ bound }: Wait, { lastTurn, createdAt }: SessionHead): Promise<string> {
  return sha256(canonicalJson({ ...bound, turn: lastTurn ?? createdAt }));
}
