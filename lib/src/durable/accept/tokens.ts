// Completion of pending calls by token, for webhooks and links in messages. A token is a capability: whoever has it may
// answer one call, once, while the call is pending with the same arguments and the token has not expired, and nothing
// else. Whoever completes a call with it learns which call it was. Tokens have 256 random
// bits; the storage holds only their SHA-256 digest, so a leaked database reveals no token, and the lookup by digest
// needs no constant-time comparison.

import type { DecisionInput } from "../../core/session/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { TurnHandle } from "../drive/types.ts";
import type { Changes } from "../rows/batch.ts";
import type { Answer } from "./answers.ts";

import { answersByReason, MisuseError, RuntimeError, user } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { submitToolResults as submitResults, addUserMessage, parseDecision } from "../../core/session/internal.ts";
import { readOne } from "../drive/context.ts";
import { find } from "../drive/session-rows.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { tenYearsMs } from "../rows/lease.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { withPendingQuestion, waitDigest, pendingWait } from "../rows/waits.ts";
import { checkVersion } from "./accept.ts";
import { answer as answerCall, decisionAnswer } from "./answers.ts";

/** The answer to the call of a token. */
export type TokenAnswer =
  | { readonly type: "result"; readonly value: unknown }
  | { readonly type: "answer"; readonly text: string }
  | DecisionInput;

/** The call of a token. */
type TokenCall = { readonly tenant: string; readonly sessionId: string; readonly toolCallId: string };

/**
 * The result of `complete`, with the call of the token. `completed`: the answer was recorded. `already_completed`: the
 * token was used. `revoked`: the call is no longer pending, or has other arguments than when the token was created.
 * `expired`: the token has expired. `unknown`: there is no such token.
 */
export type Completion =
  | (TokenCall & { readonly type: "completed"; readonly turn: TurnHandle })
  | (TokenCall & { readonly type: "already_completed" | "revoked" | "expired" })
  | { readonly type: "unknown" };

/** Options of `token`. */
export type TokenOptions = {
  /**
   * Optimistic concurrency: the verb rejects with a conflict unless the session has this version. Default: no check.
   */
  readonly version?: number;
  /** How long the token is valid, in milliseconds, up to ten years. Default: 7 days. */
  readonly ttlMs?: number;
};

/** How long a token is valid, in milliseconds. */
export const defaultTokenMs = 7 * 24 * 3_600_000;

/** Creates a token for a pending call or question. Rejects with `not_found` if it is not pending. */
export async function token(
  context: VerbContext,
  id: string,
  toolCallId: string,
  { version, ttlMs = defaultTokenMs }: TokenOptions = {},
): Promise<string> {
  if (!(ttlMs > 0 && ttlMs <= tenYearsMs)) {
    const message = "token: ttlMs must be a number of milliseconds greater than 0, and up to ten years";
    throw new MisuseError("invalid_argument", message, { path: ["ttlMs"] });
  }
  const stored = await find(context, id);
  checkVersion(stored, version);
  const { key, head } = stored;
  const wait = pendingWait(head.session, toolCallId);
  if (wait === null) {
    throw new RuntimeError("not_found", {
      message: `no call ${JSON.stringify(toolCallId)} is pending in session ${id}`,
    });
  }
  const token = randomText(32);
  const value = writeValue("tokens", {
    ...key,
    call: toolCallId,
    digest: await waitDigest(wait, head),
    answers: answersByReason[wait.reason],
    usedAt: null,
  });
  const at = { table: "tokens", key: [await sha256(token)] } as const;
  // A request that arrives again must not make a used token new.
  await context.storage.write({
    checks: [{ ...at, tag: null }],
    removals: [],
    puts: [{ ...at, tag: 0, value, ttlMs }],
  });
  return token;
}

/**
 * Answers the call of a token. The batch that records the answer also marks the token as used, by compare-and-swap: of
 * concurrent answers one is recorded, and the others return `already_completed`.
 */
export async function complete(context: VerbContext, token: string, answer: TokenAnswer): Promise<Completion> {
  if (typeof token !== "string") throw new MisuseError("invalid_argument", "complete: the token must be a string");
  checkAnswer(answer);
  const { storage } = context;
  const digest = await sha256(token);
  const row = await readOne(storage, { table: "tokens", prefix: [digest] });
  if (row === null) return { type: "unknown" };
  const stored = readValue("tokens", row);
  const named = { tenant: stored.tenant, sessionId: stored.session, toolCallId: stored.call };
  if (stored.usedAt !== null) return { type: "already_completed", ...named };
  // Tokens of older releases do not expire.
  if (row.remainingMs !== null && row.remainingMs <= 0) return { type: "expired", ...named };
  const inTenant = { ...context, tenant: stored.tenant };
  const before = await find(inTenant, stored.session).catch(nullIfNotFound);
  const wait = before === null ? null : pendingWait(before.head.session, stored.call);
  if (before === null || wait === null) return { type: "revoked", ...named };
  if ((await waitDigest(wait, before.head)) !== stored.digest) return { type: "revoked", ...named };
  if (!stored.answers.some((type) => type === answer.type)) {
    throw new MisuseError("invalid_argument", `this token takes ${stored.answers.join(" or ")}, not ${answer.type}`);
  }
  const used = writeValue("tokens", { ...stored, usedAt: context.clock.now() });
  const also: Changes = {
    checks: [{ table: "tokens", key: [digest], tag: row.tag }],
    removals: [],
    puts: [{ table: "tokens", key: [digest], tag: row.tag + 1, value: used, ttlMs: row.remainingMs }],
  };
  try {
    // Conditional on the version that was read above.
    const { version } = before;
    const change = changeOf(stored.call, answer);
    const { type: action } = answer;
    const audited = {
      action: action === "approve" || action === "deny" ? action : "submit_results",
      // Whoever has the token.
      actor: "token",
      callIds: [stored.call],
    } as const;
    const turn = await answerCall(inTenant, stored.session, { version }, change, null, { also, audited });
    return { type: "completed", ...named, turn };
  } catch (error) {
    if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
    // Another answer was recorded first, with this token or without it: read again.
    return complete(context, token, answer);
  }
}

/** Validates an answer, which comes from outside. A token cannot change the arguments of its call. */
function checkAnswer(answer: TokenAnswer): void {
  const value: unknown = answer;
  const type = isPlainObject(value) ? value["type"] : null;
  if (type === "result") return;
  if (type === "answer") {
    if (isPlainObject(value) && typeof value["text"] === "string") return;
    throw new MisuseError("invalid_argument", "complete: the text of an answer must be a string", { path: ["text"] });
  }
  const decision = parseDecision(value);
  if (decision.type === "deny" || decision.arguments === null) return;
  throw new MisuseError("invalid_argument", "complete: a token cannot change the arguments of its call; use decide", {
    path: ["arguments"],
  });
}

/** The change of the session that an answer makes. */
function changeOf(call: string, answer: TokenAnswer): Answer {
  switch (answer.type) {
    case "result":
      return { change: (session) => submitResults(session, [[call, answer.value]]), denies: false };
    case "answer": {
      const message = user(answer.text);
      return { change: (session) => addUserMessage(withPendingQuestion(session, call), message), denies: false };
    }
    case "approve":
    case "deny":
      return { ...decisionAnswer(call, answer), denies: answer.type === "deny" };
  }
}

function nullIfNotFound(error: unknown): null {
  if (error instanceof RuntimeError && error.reason === "not_found") return null;
  throw error;
}
