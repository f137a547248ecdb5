// Waits that end from outside: by a token somebody was given, or because their time is up.

import type { DecisionInput } from "../session/index.ts";
import type { Changes } from "./changes.ts";
import type { Desk } from "./desk.ts";
import type { TurnHandle } from "./types.ts";

import { MisuseError, RuntimeError, runtimeFailure, user } from "../model/index.ts";
import { hear } from "../session/answers.ts";
import { submitToolResults as submitResults } from "../session/index.ts";
import { isOpen } from "../session/preconditions.ts";
import { answer as answerCall, decided } from "./accept.ts";
import { getSession } from "./browse.ts";
import { nothing } from "./changes.ts";
import { engineOf, readOne } from "./context.ts";
import { commitHead, find, lastEngine, tenantDesk } from "./desk.ts";
import { randomText, sha256 } from "./digest.ts";
import { readValue, writeValue } from "./stored.ts";
import { callDigest } from "./waits.ts";

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
  const call = head.session.pendingToolCalls.find((one) => one.id === toolCallId && isOpen(one));
  if (call === undefined) {
    throw new RuntimeError("not_found", { message: `no call ${JSON.stringify(toolCallId)} waits in session ${id}` });
  }
  const token = randomText(32);
  const value = writeValue("tokens", {
    ...key,
    call: toolCallId,
    digest: await callDigest(call),
    answers:
      call.reason === "question"
        ? ["answer"]
        : call.reason === "approval"
          ? ["approve", "deny"]
          : ["result", "approve", "deny"],
    usedAt: null,
  });
  await desk.context.host.store.write({
    ...nothing,
    puts: [{ table: "tokens", key: [await sha256(token)], tag: 0, value }],
  });
  return token;
}

/** Completes the call a token is for. Whoever is first has answered; later ones are told so, and nothing changes. */
export async function complete(desk: Desk, token: string, answer: TokenAnswer): Promise<Completion> {
  const { store } = desk.context.host;
  const digest = await sha256(token);
  const row = await readOne(store, { table: "tokens", prefix: [digest] });
  if (row === null) return { type: "unknown" };
  const stored = readValue("tokens", row);
  if (stored.usedAt !== null) return { type: "already_completed" };
  const there = tenantDesk(desk, stored.tenant);
  const view = await getSession(there, stored.session, { messages: 0 });
  const call = view?.session.pendingToolCalls.find((one) => one.id === stored.call && isOpen(one));
  if (view === null || call === undefined || (await callDigest(call)) !== stored.digest) return { type: "revoked" };
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
    return { type: "completed", turn: await completeCall(there, stored.session, stored.call, answer, also) };
  } catch (error) {
    if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
    // Somebody else was first: with this token, or with another answer.
    return complete(desk, token, answer);
  }
}

async function completeCall(
  desk: Desk,
  id: string,
  call: string,
  answer: TokenAnswer,
  also: Changes,
): Promise<TurnHandle> {
  const engine = await lastEngine(desk, id);
  switch (answer.type) {
    case "result":
      return answerCall(desk, id, {}, (session) => submitResults(session, [[call, answer.value]]), null, also);
    case "answer":
      return answerCall(desk, id, {}, (session) => hear(session, user(answer.text)), null, also);
    case "approve":
    case "deny":
      return answerCall(
        desk,
        id,
        {},
        (session) => decided(engineOf(desk.context, engine), session, call, answer),
        null,
        also,
      );
  }
}

/** Ends waits whose time is up. */
export async function expire(desk: Desk): Promise<number> {
  const { store } = desk.context.host;
  const now = desk.context.clock.now();
  const [rows = []] = await store.read([{ table: "deadlines", prefix: [], before: now + 1, limit: 64 }]);
  for (const row of rows) {
    const [, tenant, session, call] = row.key.map(String);
    const { onTimeout } = readValue("deadlines", row);
    const removal: Changes = { ...nothing, removals: [{ table: "deadlines", prefix: row.key }] };
    const there = tenantDesk(desk, tenant ?? "");
    await timeUp(there, session ?? "", call ?? "", onTimeout, removal).catch(async (error: unknown) => {
      if (error instanceof RuntimeError && error.reason === "conflict") return;
      await store.write(removal);
    });
  }
  return rows.length;
}

async function timeUp(
  desk: Desk,
  id: string,
  toolCallId: string,
  onTimeout: "error_as_result" | "fail_turn",
  also: Changes,
): Promise<void> {
  const { head } = await find(desk, id);
  const call = head.session.pendingToolCalls.find((one) => one.id === toolCallId && isOpen(one));
  if (call === undefined) throw new RuntimeError("not_found", { message: "it has been answered" });
  const why = "nobody answered in time";
  if (onTimeout === "fail_turn") {
    const failure = runtimeFailure("callback_failed", { message: `${call.name}: ${why}`, metadata: { toolCallId } });
    const failed = {
      ...head.session,
      status: "error" as const,
      metadata: { ...head.session.metadata, error: { ...failure } },
    };
    await commitHead(desk, await find(desk, id), failed, also);
    return;
  }
  const engine = engineOf(desk.context, await lastEngine(desk, id));
  await answerCall(
    desk,
    id,
    {},
    (session) => {
      if (call.reason === "question") return hear({ ...session, pendingToolCallId: call.id }, user(`(${why})`));
      if (call.reason === "manual") return submitResults(session, [[toolCallId, { error: "timeout", message: why }]]);
      return decided(engine, session, toolCallId, { type: "deny", reason: why });
    },
    null,
    also,
  );
}
