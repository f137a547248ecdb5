// Completion from outside: a token is a capability to answer exactly one call, once, while it waits with the same arguments. Only its digest is stored.

import type { DecisionInput } from "../../session/internal.ts";
import type { VerbContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { TurnHandle } from "../types.ts";
import type { Answer } from "./answers.ts";

import { answersByReason, MisuseError, RuntimeError, user } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { submitToolResults as submitResults, addUserMessage, parseDecision } from "../../session/internal.ts";
import { readOne } from "../context.ts";
import { putting } from "../rows/batch.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { answer as answerCall, decided } from "./answers.ts";
import { find } from "./session-rows.ts";
import { askedBy, waitDigest, waitFor } from "./waits.ts";

/** The answer that a token gives to its call. */
export type TokenAnswer =
  | { readonly type: "result"; readonly value: unknown }
  | { readonly type: "answer"; readonly text: string }
  | DecisionInput;

/**
 * The result of `complete`. `revoked` means that the call is no longer pending, or has other arguments than when
 * the token was made.
 */
export type Completion =
  | { readonly type: "completed"; readonly turn: TurnHandle }
  | { readonly type: "already_completed" | "revoked" | "unknown" };

/** Creates a token for a call that waits. */
export async function token(context: VerbContext, id: string, toolCallId: string): Promise<string> {
  const { key, head } = await find(context, id);
  const wait = waitFor(head.session, toolCallId);
  if (wait === null) {
    throw new RuntimeError("not_found", { message: `no call ${JSON.stringify(toolCallId)} waits in session ${id}` });
  }
  const token = randomText(32);
  const value = writeValue("tokens", {
    ...key,
    call: toolCallId,
    digest: await waitDigest(wait, head),
    answers: answersByReason[wait.reason],
    usedAt: null,
  });
  await context.storage.write(putting({ table: "tokens", key: [await sha256(token)], tag: 0, value }));
  return token;
}

/** Answers the call of a token. The first answer counts; a later one returns `already_completed` and changes nothing. */
export async function complete(context: VerbContext, token: string, answer: TokenAnswer): Promise<Completion> {
  if (typeof token !== "string") throw new MisuseError("invalid_argument", "complete: a token is a text");
  checkAnswer(answer);
  const { storage } = context;
  const digest = await sha256(token);
  const row = await readOne(storage, { table: "tokens", prefix: [digest] });
  if (row === null) return { type: "unknown" };
  const stored = readValue("tokens", row);
  if (stored.usedAt !== null) return { type: "already_completed" };
  const inTenant = { ...context, tenant: stored.tenant };
  const found = await find(inTenant, stored.session).catch(orNotFound);
  const wait = found === null ? null : waitFor(found.head.session, stored.call);
  if (found === null || wait === null) return { type: "revoked" };
  if ((await waitDigest(wait, found.head)) !== stored.digest) return { type: "revoked" };
  if (!stored.answers.some((one) => one === answer.type)) {
    throw new MisuseError("invalid_argument", `this token takes ${stored.answers.join(" or ")}, not ${answer.type}`);
  }
  const used = writeValue("tokens", { ...stored, usedAt: context.clock.now() });
  const also: Changes = {
    checks: [{ table: "tokens", key: [digest], tag: row.tag }],
    removals: [],
    puts: [{ table: "tokens", key: [digest], tag: row.tag + 1, value: used }],
  };
  try {
    // Only if the session is as it was read.
    const { version } = found;
    const change = answering(stored.call, answer);
    return { type: "completed", turn: await answerCall(inTenant, stored.session, { version }, change, null, also) };
  } catch (error) {
    if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
    // Another answer was faster, with this token or without it.
    return complete(context, token, answer);
  }
}

/** The answer comes from outside: its form is checked. */
function checkAnswer(answer: TokenAnswer): void {
  const given: unknown = answer;
  const type = isPlainObject(given) ? given["type"] : null;
  if (type === "result") return;
  if (type === "answer") {
    if (isPlainObject(given) && typeof given["text"] === "string") return;
    throw new MisuseError("invalid_argument", "complete: an answer is a text", { path: ["text"] });
  }
  const decision = parseDecision(given);
  if (decision.type === "deny" || decision.arguments === null) return;
  throw new MisuseError(
    "invalid_argument",
    "complete: a token completes the call with the arguments it has; decide takes others",
    { path: ["arguments"] },
  );
}

function answering(call: string, answer: TokenAnswer): Answer {
  switch (answer.type) {
    case "result":
      return (session) => submitResults(session, [[call, answer.value]]);
    case "answer":
      return (session) => addUserMessage(askedBy(session, call), user(answer.text));
    case "approve":
    case "deny":
      return (session, engine) => decided(engine(), session, call, answer);
  }
}

function orNotFound(error: unknown): null {
  if (error instanceof RuntimeError && error.reason === "not_found") return null;
  throw error;
}
