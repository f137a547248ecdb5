// Calls that wait for somebody who is not here: until when, and how somebody outside, a webhook for one, completes exactly one of them.

import type { Json, JsonObject, PendingReason, PendingToolCall } from "../model/index.ts";
import type { SessionKey } from "./context.ts";
import type { Put } from "./storage.ts";
import type { Deadline } from "./stored.ts";

import { canonicalJson } from "../kernel/index.ts";
import { MisuseError, pendingReasons } from "../model/index.ts";
import { isOpen } from "../session/preconditions.ts";
import { keyOf } from "./context.ts";
import { sha256 } from "./digest.ts";
import { writeValue } from "./stored.ts";

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
    throw refused(`${reason} has no afterMs`);
  const { afterMs, onTimeout = "error_as_result" } = policy;
  if (typeof afterMs !== "number" || !Number.isFinite(afterMs) || afterMs < 0)
    throw refused(`${reason}.afterMs is no time`);
  if (onTimeout !== "error_as_result" && onTimeout !== "fail_turn") {
    throw refused(`${reason}.onTimeout has to be "error_as_result" or "fail_turn"`);
  }
  return { afterMs, onTimeout };
}

function refused(why: string): MisuseError {
  return new MisuseError("invalid_argument", `waits: ${why}`, { path: ["waits"] });
}

/** The rows that end waits by themselves. */
export function openCallDeadlines(
  key: SessionKey,
  turn: string,
  calls: readonly PendingToolCall[],
  options: JsonObject,
  now: number,
): readonly Put[] {
  const waits = checkedWaits(options["waits"]);
  return calls.filter(isOpen).flatMap(({ id, reason }): readonly Put[] => {
    const policy = waits[reason];
    if (policy === undefined) return [];
    const deadline: Deadline = { turn, onTimeout: policy.onTimeout ?? "error_as_result" };
    const at = [Math.ceil(now + policy.afterMs), ...keyOf(key), id];
    return [{ table: "deadlines", key: at, tag: 0, value: writeValue("deadlines", deadline) }];
  });
}

/** What a token is bound to: exactly this call, with exactly these arguments. */
export function callDigest({ id, name, arguments: args, idempotencyKey }: PendingToolCall): Promise<string> {
  return sha256(canonicalJson({ id, name, arguments: args, idempotencyKey }));
}
