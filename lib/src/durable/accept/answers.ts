// The verbs that answer pending calls: results of manual tools, and decisions on approvals. An answer that leaves a
// call open is only recorded. The answer to the last open call starts a turn (Q8), with the engine and the options of
// the turn that made the calls; options of the answer override the latter. The engine cannot be changed: its schemas
// apply to arguments that an approval replaces, and its limits to the turn.

import type { Engine } from "../../core/engine/internal.ts";
import type { JsonObject, Session } from "../../core/model/internal.ts";
import type { DecisionInput } from "../../core/session/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { AnswerOptions, TurnHandle } from "../drive/types.ts";
import type { AuditFact } from "../rows/audit.ts";
import type { Changes } from "../rows/batch.ts";
import type { StoredSession } from "../rows/session-write.ts";

import { resolveTools } from "../../core/engine/internal.ts";
import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import {
  decideWith,
  parseDecision,
  recordedAnswer,
  submitToolResults as submitResults,
} from "../../core/session/internal.ts";
import { actorOf, engineOf } from "../drive/context.ts";
import { checkOptions, storedOptions } from "../drive/durable-options.ts";
import { engineOfSession, existingSession, lastStart, sessionKey } from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { accept, acceptedKey, checkFree, checkVersion, contextContent } from "./accept.ts";

/** An answer to a pending call. */
export type Answer = {
  /**
   * Computes the session after the answer. `engine` returns the engine that made the call, with which the session
   * continues.
   */
  readonly change: (
    session: Session<JsonObject>,
    engine: () => Engine,
  ) => Session<JsonObject> | Promise<Session<JsonObject>>;
  /**
   * The answer denies the call, which is possible without the engine. It is then only recorded; `continue` drives the
   * session when the engine is back.
   */
  readonly denies: boolean;
};

/** Submits results of pending calls. */
export async function submitToolResults(
  context: VerbContext,
  id: string,
  results: readonly (readonly [toolCallId: string, content: unknown])[],
  options: AnswerOptions<unknown> = {},
): Promise<TurnHandle> {
  const submitted: Answer = { change: (session) => submitResults(session, results), denies: false };
  return answer(context, id, options, submitted, ["submit", results], {
    audited: { action: "submit_results", actor: actorOf(context), callIds: results.map(([callId]) => callId) },
  });
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
  const { type } = parseDecision(decision);
  const content = ["decide", toolCallId, decision];
  const change = { ...decisionAnswer(toolCallId, decision), denies: type === "deny" };
  return answer(context, id, options, change, content, {
    isDecision: true,
    audited: { action: type, actor: actorOf(context) ?? decision.by ?? null, callIds: [toolCallId] },
  });
}

/** The answer as the audit log records it, if a call waits for a decision. Answers to questions are not recorded. */
export type AuditedAnswer = Pick<AuditFact, "action" | "actor"> & { readonly callIds: readonly string[] };

/** The rows of the audit log for an answer: one for each call that it decides. */
function auditOf(
  { clock }: VerbContext,
  { key, head }: Pick<StoredSession, "key" | "head">,
  { callIds, ...fact }: AuditedAnswer,
): Changes {
  const decided = head.session.pendingToolCalls.filter(
    ({ id, reason }) => callIds.includes(id) && (reason === "approval" || reason === "outcome_unknown"),
  );
  const facts = decided.map(({ id, digest }) => {
    return auditRow({ ...fact, tenant: key.tenant, sessionId: key.session, target: id, digest }, clock.now());
  });
  return merge(...facts);
}

/**
 * Records an answer, and starts a turn if no call is open afterwards. `content`: what is compared under the idempotency
 * key.
 */
export async function answer(
  context: VerbContext,
  id: string,
  options: AnswerOptions<unknown>,
  { change, denies }: Answer,
  content: unknown,
  {
    also = noChanges,
    isDecision = false,
    audited = null,
  }: {
    readonly also?: Changes;
    readonly isDecision?: boolean;
    /** Default: the audit log gets no row, as for a deadline, which is no act of a person. */
    readonly audited?: AuditedAnswer | null;
  } = {},
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const keyContent = [content, stored, options.engine ?? null, options.continue ?? true, ...contextContent(options)];
  return accept(context, {
    session: sessionKey(context, id),
    options,
    contents: [keyContent],
    decide: async (rows) => {
      const before = existingSession(rows);
      checkVersion(before, options.version);
      checkUndecided(before, audited?.callIds ?? []);
      checkFree(before, options.version);
      const last = await lastStart(context, before);
      const engine = last?.engine ?? (await engineOfSession(context, before));
      const session = await change(before.head.session, () => engineOf(context, engine));
      const onlyRecords = options.continue === false || (denies && !Object.hasOwn(context.engines, engine));
      if (options.engine !== undefined && options.engine !== engine) throw otherEngine(options.engine, engine);
      return {
        type: "turn",
        before,
        session,
        verb: onlyRecords ? null : "chat",
        options: { ...last?.options, ...stored },
        engine,
        context: options.turnContext ?? last?.context ?? null,
        key: await acceptedKey(options.key, keyContent),
        continues: last,
        isDecision,
        also: audited === null ? also : merge(also, auditOf(context, before, audited)),
      };
    },
  });
}

/**
 * Throws `conflict` if a turn runs, because the call was answered: by another person, or in another page. The caller
 * has nothing to cancel.
 */
function checkUndecided({ key, head }: ExistingSession, callIds: readonly string[]): void {
  const [id] = callIds;
  if (id === undefined || head.turn === null || head.session.status === "error") return;
  const recorded = recordedAnswer(head.session, id) ?? `the call "${id}" does not wait any more`;
  throw new RuntimeError("conflict", {
    message: `${recorded}, and your answer was not recorded: turn ${head.turn} of session ${key.session} goes on; read its result`,
    metadata: { turnId: head.turn },
  });
}

/** The error of an answer that names another engine than that of the turn which made the call. */
function otherEngine(named: string, asking: string): MisuseError {
  const message = `engine: the pending calls were made with the engine ${JSON.stringify(asking)}; an answer cannot continue with ${JSON.stringify(named)}`;
  return new MisuseError("invalid_argument", message, { path: ["engine"] });
}

/** A decision as an answer. */
export function decisionAnswer(toolCallId: string, decision: DecisionInput): Answer {
  return { change: (session, engine) => decided(engine, session, toolCallId, decision), denies: false };
}

/** The session after a decision. Keeps the stored context, which `session/` would replace by that of the engine. */
async function decided(
  engine: () => Engine,
  session: Session<JsonObject>,
  toolCallId: string,
  decision: DecisionInput,
): Promise<Session<JsonObject>> {
  const after = await decideWith(() => resolveTools(engine(), {}), session, toolCallId, decision);
  return { ...after, context: session.context };
}
