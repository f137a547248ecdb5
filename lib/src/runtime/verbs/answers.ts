// The verbs that answer calls which wait: results of manual tools, and decisions on approvals. The answer that closes the last open call drives the session
// (Q8), with the options of the turn that asked, overridden by those of the answer.

import type { Engine } from "../../engine/internal.ts";
import type { JsonObject, Session } from "../../model/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { VerbContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { DurableOptions, TurnHandle } from "../types.ts";

import { decide as decideCall, submitToolResults as submitResults } from "../../session/internal.ts";
import { engineOf } from "../context.ts";
import { noChanges } from "../rows/batch.ts";
import { accept, checkFree } from "./accept.ts";
import { checkOptions, storedOptions } from "./durable-options.ts";
import { acceptedKey, once } from "./idempotency.ts";
import { found, lastStart, sessionKey } from "./session-rows.ts";

export type AnswerOptions = DurableOptions & { readonly continue?: boolean };

/** Computes the session after an answer. The engine is the one that the session continues with. */
export type Answer = (
  session: Session<JsonObject>,
  engine: () => Engine,
) => Session<JsonObject> | Promise<Session<JsonObject>>;

/** Submits results of calls that wait. The last one drives the session, unless `continue` is `false`. */
export async function submitToolResults(
  context: VerbContext,
  id: string,
  results: readonly (readonly [toolCallId: string, content: unknown])[],
  options: AnswerOptions = {},
): Promise<TurnHandle> {
  return answer(context, id, options, (session) => submitResults(session, results), ["submit", results]);
}

/** Approves a call, with its own or other arguments, or denies it. */
export async function decide(
  context: VerbContext,
  id: string,
  toolCallId: string,
  decision: DecisionInput,
  options: AnswerOptions = {},
): Promise<TurnHandle> {
  checkOptions("decide", options);
  const content = ["decide", toolCallId, decision];
  return answer(context, id, options, (session, engine) => decided(engine(), session, toolCallId, decision), content);
}

/** Records an answer, and drives the session if nothing is left open. `content` is what an idempotency key stands for. */
export async function answer(
  context: VerbContext,
  id: string,
  options: AnswerOptions,
  change: Answer,
  content: unknown,
  also: Changes = noChanges,
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const keyed = [content, stored, options.engine ?? null, options.continue ?? true];
  return once(context, sessionKey(context, id), options.key, keyed, async (rows) => {
    const before = found(rows);
    checkFree(before, options.version);
    const last = await lastStart(context, before);
    const engine = options.engine ?? last?.engine ?? "default";
    return accept(context, before, {
      session: await change(before.head.session, () => engineOf(context, engine)),
      verb: options.continue === false ? null : "chat",
      options: { ...last?.options, ...stored },
      engine,
      key: await acceptedKey(options.key, keyed),
      also,
    });
  });
}

/** The session after a decision. Its context stays its own: `session/` would take the engine's. */
export async function decided(
  engine: Engine,
  session: Session<JsonObject>,
  toolCallId: string,
  decision: DecisionInput,
): Promise<Session<JsonObject>> {
  return { ...(await decideCall(engine, session, toolCallId, decision)), context: session.context };
}
