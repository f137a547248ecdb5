// The verbs that answer pending calls: results of manual tools, and decisions on approvals. An answer that leaves a call open is only recorded.
// The answer to the last open call starts a turn (Q8), with the engine and the options of the turn that made the calls; options of the answer
// override the latter. The engine cannot be changed: its schemas apply to arguments that an approval replaces, and its limits to the turn.

import type { Engine } from "../../engine/internal.ts";
import type { JsonObject, Session } from "../../model/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { VerbContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { AnswerOptions, TurnHandle } from "../types.ts";

import { resolveTools } from "../../engine/internal.ts";
import { MisuseError } from "../../model/internal.ts";
import { decide as decideCall, submitToolResults as submitResults } from "../../session/internal.ts";
import { engineOf } from "../context.ts";
import { noChanges } from "../rows/batch.ts";
import { accept, checkFree } from "./accept.ts";
import { checkOptions, storedOptions } from "./durable-options.ts";
import { acceptedKey, acceptOnce, contextContent } from "./idempotency.ts";
import { engineOfSession, existingSession, lastStart, sessionKey } from "./session-rows.ts";

/** Computes the session after an answer. `engine` returns the engine that made the call, with which the session continues. */
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
  const keyContent = [content, stored, options.engine ?? null, options.continue ?? true, ...contextContent(options)];
  return acceptOnce(context, sessionKey(context, id), options.key, keyContent, options, async (rows) => {
    const before = existingSession(rows);
    checkFree(before, options.version);
    const last = await lastStart(context, before);
    const engine = last?.engine ?? (await engineOfSession(context, before));
    if (options.engine !== undefined && options.engine !== engine) throw otherEngine(options.engine, engine);
    return accept(context, before, {
      session: await change(before.head.session, () => engineOf(context, engine)),
      verb: options.continue === false ? null : "chat",
      options: { ...last?.options, ...stored },
      engine,
      context: options.turnContext ?? last?.context ?? null,
      key: await acceptedKey(options.key, keyContent),
      continues: last,
      also,
    });
  });
}

/** The error of an answer that names another engine than that of the turn which made the call. */
function otherEngine(named: string, asking: string): MisuseError {
  const message = `engine: the pending calls were made with the engine ${JSON.stringify(asking)}; an answer cannot continue with ${JSON.stringify(named)}`;
  return new MisuseError("invalid_argument", message, { path: ["engine"] });
}

/** The session after a decision. Keeps the stored context, which `session/` would replace by that of the engine. */
export async function decided(
  engine: Engine,
  session: Session<JsonObject>,
  toolCallId: string,
  decision: DecisionInput,
): Promise<Session<JsonObject>> {
  const after = await decideCall(engine, session, toolCallId, decision);
  const call = session.pendingToolCalls.find(({ id }) => id === toolCallId);
  const hasNewArguments = decision.type === "approve" && (decision.arguments ?? null) !== null;
  const hasTool = resolveTools(engine, {}).some(({ name }) => name === call?.name);
  if (hasNewArguments && call !== undefined && !hasTool) {
    const message = `decide: the engine has no tool ${JSON.stringify(call.name)} to check the arguments with`;
    throw new MisuseError("invalid_argument", message, { path: ["arguments"] });
  }
  return { ...after, context: session.context };
}
