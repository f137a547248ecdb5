// Waits that end from outside: by a token somebody was given, or because their time is up.

import type { JsonObject, Session } from "../../model/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { RuntimeContext } from "../context.ts";
import type { Changes } from "../rows/changes.ts";
import type { Row } from "../rows/storage.ts";
import type { Deadline } from "../rows/stored.ts";
import type { TurnHandle } from "../types.ts";
import type { Desk, Found } from "./desk.ts";

import { answersByReason, MisuseError, RuntimeError, runtimeFailure, user } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { hear, wholeDecision } from "../../session/answers.ts";
import { submitToolResults as submitResults } from "../../session/internal.ts";
import { engineOf, readOne } from "../context.ts";
import { nothing } from "../rows/changes.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { answer as answerCall, decided } from "./accept.ts";
import { commitHead, find, lastEngine, tenantDesk } from "./desk.ts";
import { waitDigest, waitFor } from "./waits.ts";

/** What somebody outside says to a call. */
export type TokenAnswer =
  | { readonly type: "result"; readonly value: unknown }
  | { readonly type: "answer"; readonly text: string }
  | DecisionInput;

/** What became of that. `revoked`: the call no longer waits, or not with those arguments. */
export type Completion =
  | { readonly type: "completed"; readonly turn: TurnHandle }
  | { readonly type: "already_completed" | "revoked" | "unknown" };

/** A token that completes this one call, once, and only while it waits with the arguments it has now. Give it to whoever is to answer. */
export async function token(desk: Desk, id: string, toolCallId: string): Promise<string> {
  const { key, head } = await find(desk, id);
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
  await desk.context.storage.write({
    ...nothing,
    puts: [{ table: "tokens", key: [await sha256(token)], tag: 0, value }],
  });
  return token;
}

/** Completes the call a token is for. Whoever is first has answered; later ones are told so, and nothing changes. */
export async function complete(desk: Desk, token: string, answer: TokenAnswer): Promise<Completion> {
  if (typeof token !== "string") throw new MisuseError("invalid_argument", "complete: a token is a text");
  checkAnswer(answer);
  const { storage } = desk.context;
  const digest = await sha256(token);
  const row = await readOne(storage, { table: "tokens", prefix: [digest] });
  if (row === null) return { type: "unknown" };
  const stored = readValue("tokens", row);
  if (stored.usedAt !== null) return { type: "already_completed" };
  const there = tenantDesk(desk, stored.tenant);
  const found = await find(there, stored.session).catch(orNotFound);
  const wait = found === null ? null : waitFor(found.head.session, stored.call);
  if (found === null || wait === null) return { type: "revoked" };
  if ((await waitDigest(wait, found.head)) !== stored.digest) return { type: "revoked" };
  if (!stored.answers.some((one) => one === answer.type)) {
    throw new MisuseError("invalid_argument", `this token takes ${stored.answers.join(" or ")}, not ${answer.type}`);
  }
  const used = writeValue("tokens", { ...stored, usedAt: desk.context.clock.now() });
  const also: Changes = {
    checks: [{ table: "tokens", key: [digest], tag: row.tag }],
    removals: [],
    puts: [{ table: "tokens", key: [digest], tag: row.tag + 1, value: used }],
  };
  try {
    return { type: "completed", turn: await completeCall(there, found, stored.call, answer, also) };
  } catch (error) {
    if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
    // Somebody else was first: with this token, or with another answer.
    return complete(desk, token, answer);
  }
}

/** What somebody outside says comes from anywhere. */
function checkAnswer(answer: TokenAnswer): void {
  const given: unknown = answer;
  const type = isPlainObject(given) ? given["type"] : null;
  if (type === "result") return;
  if (type === "answer") {
    if (isPlainObject(given) && typeof given["text"] === "string") return;
    throw new MisuseError("invalid_argument", "complete: an answer is a text", { path: ["text"] });
  }
  const decision = wholeDecision(given);
  if (decision.type === "deny" || decision.arguments === null) return;
  throw new MisuseError(
    "invalid_argument",
    "complete: a token completes the call with the arguments it has; decide takes others",
    { path: ["arguments"] },
  );
}

async function completeCall(
  desk: Desk,
  { key: { session: id }, version }: Found,
  call: string,
  answer: TokenAnswer,
  also: Changes,
): Promise<TurnHandle> {
  const engine = await lastEngine(desk, id);
  // Of the session as it was looked at, and no other.
  const as = { version };
  switch (answer.type) {
    case "result":
      return answerCall(desk, id, as, (session) => submitResults(session, [[call, answer.value]]), null, also);
    case "answer":
      return answerCall(desk, id, as, (session) => hear(asking(session, call), user(answer.text)), null, also);
    case "approve":
    case "deny":
      return answerCall(
        desk,
        id,
        as,
        (session) => decided(engineOf(desk.context, engine), session, call, answer),
        null,
        also,
      );
  }
}

function orNotFound(error: unknown): null {
  if (error instanceof RuntimeError && error.reason === "not_found") return null;
  throw error;
}

/** The session while it asks what that call wants to know: several questions wait in order, and this answer is for that one. */
function asking(session: Session<JsonObject>, pendingToolCallId: string): Session<JsonObject> {
  return { ...session, pendingToolCallId };
}

/** How many waits are looked at in one go, how many that could not be ended are looked past, and when those are tried again. */
const expiredAtOnce = 64;
const mostLeft = 1024;
const againAfterMs = 2000;

/** Waits that could not be ended here, and when to try again, by runtime. */
const leftUntil = new WeakMap<RuntimeContext, ReadonlyMap<string, number>>();

/** Ends waits whose time is up. Those that cannot be ended here and now are left: for whoever has their engine, or for later. */
export async function expire(desk: Desk): Promise<number> {
  const { context } = desk;
  const now = context.clock.now();
  const before = leftUntil.get(context);
  const left = new Map<string, number>();
  for (let ended = 0; ;) {
    const limit = expiredAtOnce + left.size;
    const [rows = []] = await context.storage.read([{ table: "deadlines", prefix: [], before: now + 1, limit }]);
    const fresh = rows.filter(({ key }) => !left.has(JSON.stringify(key)));
    for (const row of fresh) {
      const name = JSON.stringify(row.key);
      const until = before?.get(name) ?? 0;
      if (until > now) left.set(name, until);
      else if (await expireOne(desk, row)) ended += 1;
      else left.set(name, now + againAfterMs);
    }
    leftUntil.set(context, left);
    if (rows.length < limit || left.size >= mostLeft || fresh.length === 0) return ended;
  }
}

/** Ends one wait. `false`: that could not be done, and its row is still there. */
async function expireOne(desk: Desk, row: Row): Promise<boolean> {
  const [, tenant, session, call] = row.key.map(String);
  const removal: Changes = { ...nothing, removals: [{ table: "deadlines", prefix: row.key }] };
  try {
    await timeUp(tenantDesk(desk, tenant ?? ""), session ?? "", call ?? "", readValue("deadlines", row), removal);
    return true;
  } catch (error) {
    // Nothing waits any more. Whatever else went wrong may go right later, or elsewhere.
    if (!(error instanceof RuntimeError) || error.reason !== "not_found") return false;
    return (await desk.context.storage.write(removal)).ok;
  }
}

async function timeUp(
  desk: Desk,
  id: string,
  toolCallId: string,
  { turn, onTimeout }: Deadline,
  also: Changes,
): Promise<void> {
  const found = await find(desk, id);
  const { head, version } = found;
  const wait = waitFor(head.session, toolCallId);
  // A later turn may have asked for a call of the same id.
  if (wait === null || head.lastTurn !== turn) throw new RuntimeError("not_found", { message: "it has been answered" });
  const why = "nobody answered in time";
  if (onTimeout === "fail_turn") {
    const failure = runtimeFailure("callback_failed", { message: `${wait.name}: ${why}`, metadata: { toolCallId } });
    const failed = {
      ...head.session,
      status: "error" as const,
      metadata: { ...head.session.metadata, error: { ...failure } },
    };
    await commitHead(desk, found, failed, also);
    return;
  }
  const engine = engineOf(desk.context, await lastEngine(desk, id));
  await answerCall(
    desk,
    id,
    { version },
    (session) => {
      if (wait.reason === "question") return hear(asking(session, toolCallId), user(`(${why})`));
      if (wait.reason === "manual") return submitResults(session, [[toolCallId, { error: "timeout", message: why }]]);
      return decided(engine, session, toolCallId, { type: "deny", reason: why });
    },
    null,
    also,
  );
}
