// Calls that wait for somebody who is not here: until when, and how somebody outside, a webhook for one, completes exactly one of them.

import type { Json, JsonObject, PendingReason, PendingToolCall, Session } from "../../model/internal.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Put } from "../rows/storage.ts";
import type { Deadline, SessionHead } from "../rows/values.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { MisuseError, pendingReasons } from "../../model/internal.ts";
import { isOpen } from "../../session/internal.ts";
import { sha256 } from "../rows/digest.ts";
import { keyOf } from "../rows/session-key.ts";
import { writeValue } from "../rows/stored.ts";

/** How long calls wait, by the reason they do. A reason that is not named waits for ever. */
export type Waits = { readonly [R in PendingReason]?: WaitPolicy };

export type WaitPolicy = {
  readonly afterMs: number;
  /** The model is told that nobody answered, and the turn goes on (the default); or the session fails. */
  readonly onTimeout?: "error_as_result" | "fail_turn";
};

/** Reads what a verb was told about waits. */
export function checkedWaits(given: Json | undefined): Waits {
  if (given === undefined || given === null) return {};
  if (typeof given !== "object" || Array.isArray(given))
    throw refused("it has to say how long calls wait, by their reasons");
  const waits: { [R in PendingReason]?: WaitPolicy } = {};
  for (const [reason, policy] of Object.entries(given)) {
    const known = pendingReasons.find((one) => one === reason);
    if (known === undefined) throw refused(`"${reason}" is nothing a call waits for`);
    waits[known] = checkedPolicy(known, policy);
  }
  return waits;
}

function checkedPolicy(reason: string, policy: Json): WaitPolicy {
  if (typeof policy !== "object" || policy === null || !("afterMs" in policy))
    throw refused(`${reason} has no afterMs`, reason);
  const { afterMs, onTimeout = "error_as_result" } = policy;
  if (typeof afterMs !== "number" || !(afterMs >= 0 && afterMs <= longestMs))
    throw refused(`${reason}.afterMs has to be a number from 0 to ${longestMs}`, reason, "afterMs");
  if (onTimeout !== "error_as_result" && onTimeout !== "fail_turn") {
    throw refused(`${reason}.onTimeout has to be "error_as_result" or "fail_turn"`, reason, "onTimeout");
  }
  return { afterMs, onTimeout };
}

/** A hundred years: longer is for ever, which is what a wait is that is not named. */
const longestMs = 100 * 365 * 86_400_000;

function refused(why: string, ...at: readonly string[]): MisuseError {
  return new MisuseError("invalid_argument", `waits: ${why}`, { path: ["waits", ...at] });
}

/** What waits for somebody under an id. */
type Wait = {
  readonly reason: PendingReason;
  readonly name: string;
  /** What a token for it is bound to. */
  readonly bound: JsonObject;
};

/** A call that waits, or a question whose answer is simply said: the call that asked it has been answered. `null`: neither. */
export function waitFor(session: Session, id: string): Wait | null {
  const call = session.pendingToolCalls.find((one) => one.id === id && isOpen(one));
  if (call !== undefined) {
    const { reason, name, arguments: args, idempotencyKey, path } = call;
    return { reason, name, bound: { id, name, arguments: args, idempotencyKey, path } };
  }
  if (spokenQuestion(session) !== id) return null;
  return { reason: "question", name: "the question", bound: { id, question: session.pendingQuestion } };
}

/** The id of the question that is open and is no call that waits; `null`: there is none. */
function spokenQuestion({ status, pendingToolCallId, pendingToolCalls }: Session): string | null {
  if (status !== "awaiting_user" || pendingToolCalls.some(({ id }) => id === pendingToolCallId)) return null;
  return pendingToolCallId;
}

/** The session with this call as the one whose question is answered: several questions wait in order. */
export function askedBy(session: Session<JsonObject>, pendingToolCallId: string): Session<JsonObject> {
  return { ...session, pendingToolCallId };
}

/** The rows that end waits by themselves: those of calls, and, where the session is given, that of a question that is none. */
export function openCallDeadlines(
  key: SessionKey,
  turn: string,
  calls: readonly PendingToolCall[],
  options: JsonObject,
  now: number,
  session: Session | null = null,
): readonly Put[] {
  const waits = checkedWaits(options["waits"]);
  const asked = session === null ? null : spokenQuestion(session);
  const question = asked === null ? [] : [{ id: asked, reason: "question" } as const];
  return [...calls.filter(isOpen), ...question].flatMap(({ id, reason }): readonly Put[] => {
    const policy = waits[reason];
    if (policy === undefined) return [];
    const deadline: Deadline = { turn, onTimeout: policy.onTimeout ?? "error_as_result" };
    const at = [Math.ceil(now + policy.afterMs), ...keyOf(key), id];
    return [{ table: "deadlines", key: at, tag: 0, value: writeValue("deadlines", deadline) }];
  });
}

/**
 * What a token is bound to: exactly this call, with exactly these arguments, as that turn left it. A call that has been answered may come to wait
 * again, when a turn inside its tool does: that is for somebody else to answer.
 */
export async function waitDigest({ bound }: Wait, { lastTurn, createdAt }: SessionHead): Promise<string> {
  return sha256(canonicalJson({ ...bound, turn: lastTurn ?? createdAt }));
}
