// The verbs that answer pending calls: results of manual tools, and decisions on approvals. An answer that leaves a call open is only recorded.
// The answer to the last open call starts a turn (Q8), with the options of the turn that made the calls, overridden by those of the answer.

import type { Engine } from "../../engine/internal.ts";
import type { JsonObject, Session } from "../../model/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { VerbContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { AnswerOptions, TurnHandle } from "../types.ts";

import { decide as decideCall, submitToolResults as submitResults } from "../../session/internal.ts";
import { engineOf } from "../context.ts";
import { noChanges } from "../rows/batch.ts";
import { accept, checkFree } from "./accept.ts";
import { checkOptions, storedOptions } from "./durable-options.ts";
import { acceptedKey, acceptOnce } from "./idempotency.ts";
import { existingSession, lastStart, sessionKey } from "./session-rows.ts";

/** Computes the session after an answer. `engine` returns the engine that the session continues with. */
export type Answer = (
  session: Session<JsonObject>,
  engine: () => Engine,
) => Session<JsonObject> | Promise<Session<JsonObject>>;

/** Submits results of pending calls. */
export async function submitToolResults(
  context: VerbContext,
  id: string,
  results: readonly (readonly [toolCallId: string, content: unknown])[],
  options: AnswerOptions<unknown> = {},
): Promise<TurnHandle> {
  return answer(context, id, options, (session) => submitResults(session, results), ["submit", results]);
}

/** Approves a pending call, with its own or edited arguments, or denies it. */
export async function decide(
  context: VerbContext,
  id: string,
  toolCallId: string,
  decision: DecisionInput,
  options: AnswerOptions<unknown> = {},
): Promise<TurnHandle> {
  checkOptions("decide", options);
  const content = ["decide", toolCallId, decision];
  return answer(context, id, options, (session, engine) => decided(engine(), session, toolCallId, decision), content);
}

/** Records an answer, and starts a turn if no call is open afterwards. `content`: what is compared under the idempotency key. */
export async function answer(
  context: VerbContext,
  id: string,
  options: AnswerOptions<unknown>,
  change: Answer,
  content: unknown,
  also: Changes = noChanges,
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const keyContent = [content, stored, options.engine ?? null, options.continue ?? true];
  return acceptOnce(context, sessionKey(context, id), options.key, keyContent, options, async (rows) => {
    const before = existingSession(rows);
    checkFree(before, options.version);
    const last = await lastStart(context, before);
    const engine = options.engine ?? last?.engine ?? "default";
    return accept(context, before, {
      session: await change(before.head.session, () => engineOf(context, engine)),
      verb: options.continue === false ? null : "chat",
      options: { ...last?.options, ...stored },
      engine,
      key: await acceptedKey(options.key, keyContent),
      also,
    });
  });
}

/** The session after a decision. Keeps the stored context, which `session/` would replace by that of the engine. */
export async function decided(
  engine: Engine,
  session: Session<JsonObject>,
  toolCallId: string,
  decision: DecisionInput,
): Promise<Session<JsonObject>> {
  return { ...(await decideCall(engine, session, toolCallId, decision)), context: session.context };
}
