// Who may do what: the sessions of a tenant as one caller may use them (law A2). The right that a verb needs follows
// from the row of its operation (serve/contract); this file has the verbs that need more. access-rules.ts evaluates the
// rules `owns` and `decide` of the handler, and session-rights.ts the rights to a session. Nothing else evaluates them.
//
// Theory of operation
//   Routes and dialects get no `Runtime`. They get `CallerSessions` and `CallerInspection`: the same verbs, each of
//   which first finds out what the caller may do with the session of its id. A route cannot forget the check, because
//   it cannot reach a session without it, and a new verb of the runtime is a compile error here until a row or this
//   file declares its right. Verbs that concern other callers or all tenants (`sweep`, sums over all tenants) are part
//   of neither; routes of operators use the runtime and the inspection.
//
//   right    who has it                                                    what it allows
//   own      the owner of the session, and who `owns` names                everything except decisions
//   read     who may decide about a pending call (`decide` is a function)  reading, and the decision
//   none     every other caller                                            the answer is that of a session which does
//                                                                          not exist
//
//   Operators, and every caller with `auth: "none"`, own every session of the tenant and decide in it. If nothing else
//   limits them, their verbs are those of the runtime.
//
//   Whatever its right is, a caller reaches sessions of the engines of its key only (403), and the verbs that change or
//   decide need its scopes `write` and `decide`: a route whose scope is `answer` does not know yet which of the two it
//   needs. The scopes of all other routes are checked before (request-checks.ts).
//
// Decisions
//   A decision is `decide`, a result for a call that waits for an approval or whose outcome is unknown, and a token for
//   such a call. By default, an owner decides only in turns that other callers started: `startedBy` of the session. It
//   is empty if a program or an older release started the turn, and then only operators decide. A decision does not
//   change the context of the turn, which stays that of the caller that started it. A rule must allow the call as it
//   was shown, and the call with the arguments of the approver: who may approve a small payment may not raise it. The
//   rule is evaluated for a version of the session, and the verb is called for that version: a call that is pending
//   again under the same id is another call.
//
// Invariants
//   1. A caller without a right to a session cannot tell it from one that does not exist: the verb is called for a
//      tenant without sessions, so its answer is the same by construction. Only the id of a new session is refused
//      (409) if another caller has taken it.
//   2. A rule of the program grants only with `true`. One that throws fails the request before anything was changed.
//   3. `owns` and `decide` read no token of the caller.

import type { Closeable, JsonObject } from "../../core/model/internal.ts";
import type { Runtime } from "../../durable/internal.ts";
import type { Operation } from "../contract/internal.ts";
import type { Inspection } from "../inspect/internal.ts";
import type { AccessRules } from "./access-rules.ts";
import type { Authenticated, Caller } from "./auth.ts";

import { sessionOperations, turnOperations } from "../contract/internal.ts";
import { rulesFor } from "./access-rules.ts";
import { checkScope, hasScope } from "./auth.ts";
import { laterHandle, laterIterable } from "./later-handle.ts";
import { SessionRights } from "./session-rights.ts";

/** The sessions of a tenant as one caller may use them. A dialect takes no more than this. */
export type CallerSessions = Omit<Runtime, keyof LimitedVerbs | OperatorVerb> &
  LimitedVerbs & {
    /**
     * Throws 403 if the caller may not answer one of these calls. For requests with several answers, which are accepted
     * one after the other: a request that is refused changes nothing. Absent: the caller is not limited.
     */
    readonly checkAnswers?: (id: string, toolCallIds: readonly string[]) => Promise<void>;
  };

/** Verbs whose forms without an id concern other callers. */
type LimitedVerbs = {
  readonly usage: (id: string) => ReturnType<Runtime["usage"]>;
  readonly recover: (id: string, options?: Parameters<Runtime["recover"]>[1]) => ReturnType<Runtime["recover"]>;
};

/**
 * Inspection of the sessions that one caller may read. Other functions of inspection concern other callers, all tenants
 * or the process.
 */
export type CallerInspection = Pick<Inspection, "turns" | "timeline" | "effect" | "request" | "exportParts" | "search">;

/** What a caller may use in one request. */
type CallerAccess = { readonly sessions: CallerSessions; readonly inspection: CallerInspection };

/** Verbs that concern other callers, all tenants or the process. */
type OperatorVerb =
  | "source"
  | "work"
  | "lease"
  | "drive"
  | "sweep"
  | "close"
  | keyof Closeable
  | "tenant"
  | "tenants"
  | "deleteAll"
  | "audit"
  | "limitedBy"
  | "calledBy"
  | "actedBy";

/**
 * The sessions of a tenant and their inspection for one request. `sessions`, `inspection`: those of the tenant. Rights
 * are evaluated once a request; for decisions, each time.
 */
export function callerAccess(
  sessions: Runtime,
  inspection: Inspection,
  authenticated: Authenticated,
  rules: AccessRules,
): CallerAccess {
  const { caller, id } = authenticated;
  const ofCaller = id === null ? sessions : sessions.calledBy(id);
  if (isUnlimited(caller)) return { sessions: operatorSessions(sessions, ofCaller), inspection };
  const callerRules = rulesFor(authenticated, rules);
  const rights = new SessionRights({ sessions, inspection, authenticated, rules: callerRules }, ofCaller);
  // Without rules of the program the index of the owner has all sessions that the caller may read.
  const isIndexed =
    caller.operator !== true && rules.owns === undefined && typeof rules.decide !== "function" && id !== null;
  const listed = { where: callerRules.isVisible, ...(isIndexed ? { owner: id } : {}) };
  return {
    sessions: {
      ...verbsOfRows(rights),
      ...verbsOfOwners(rights),
      ...answeringVerbs(rights),
      ...readingVerbs(rights, ofCaller),
      start: async (...args) => {
        checkScope(caller, "write");
        const turn = await ofCaller.start(...args);
        // Also a call that was repeated under its key finds a session of this caller only.
        if (id !== null) rights.grant(turn.sessionId, "own");
        return turn;
      },
      list: (options) => sessions.list({ ...options, ...listed }),
      // A token authorises one answer, whoever sends it.
      complete: sessions.complete,
      book: sessions.book,
      admit: sessions.admit,
    },
    inspection: {
      ...inspectionOf(rights),
      search: (text, options) => inspection.search(text, { ...options, where: callerRules.isVisible }),
    },
  };
}

/** Whether nothing limits the caller inside of its tenant: an operator with all engines that may change and decide. */
function isUnlimited(caller: Caller): boolean {
  return (
    caller.operator === true && caller.engines === undefined && hasScope(caller, "write") && hasScope(caller, "decide")
  );
}

/** The verbs of an operator. A turn that it continues stays that of the callers that started it. */
function operatorSessions(sessions: Runtime, ofCaller: Runtime): CallerSessions {
  return {
    ...sessions,
    start: ofCaller.start,
    decide: (id, callId, decision, options) => sessions.decide(id, callId, decision, withoutContext(options)),
    submitToolResults: (id, results, options) => sessions.submitToolResults(id, results, withoutContext(options)),
    continue: (id, message, options) => sessions.continue(id, message, optionsToContinue(message, options)),
    step: (id, options) => sessions.step(id, withoutContext(options)),
  };
}

const rows = { ...sessionOperations, ...turnOperations };

/** The verbs of rows on one session whose scope says which right they need. */
type RowVerb = {
  [Name in keyof typeof rows]: (typeof rows)[Name] extends Operation<infer Types>
    ? Types extends { readonly path: `/sessions/{id}${string}`; readonly scope: "read" | "write" }
      ? Name
      : never
    : never;
}[keyof typeof rows] &
  VerbOfSession;

/** The verbs of the runtime that take the id of a session first and return a promise. */
type VerbOfSession = {
  [Name in keyof Runtime]: Runtime[Name] extends (id: string, ...rest: never) => Promise<unknown> ? Name : never;
}[keyof Runtime];

/** The names of {@link RowVerb}, and whether they only read. */
const rowVerbs: readonly (readonly [name: string, reads: boolean])[] = Object.entries<Operation>(rows).flatMap(
  ([name, { path, scope }]) =>
    path.startsWith("/sessions/{id}") && (scope === "read" || scope === "write") ? [[name, scope === "read"]] : [],
);

/** The verbs whose right follows from their rows: `read` for the scope `read`, `own` for `write`. */
function verbsOfRows(rights: SessionRights): Pick<Runtime, RowVerb> {
  type Verb = (id: string, ...rest: readonly unknown[]) => Promise<unknown>;
  const verbs = rowVerbs.map(([name, reads]) => {
    const verb: Verb = async (id, ...rest) => {
      const runtime: { readonly [name: string]: unknown } = await (reads ? rights.reading(id) : rights.owning(id));
      return (runtime[name] as Verb)(id, ...rest);
    };
    return [name, verb] as const;
  });
  // `RowVerb` pairs each name with the type of its verb, which the compiler cannot infer for one name.
  return Object.fromEntries(verbs) as Pick<Runtime, RowVerb>;
}

/** The verbs that need the right `own`, and more than their rows say. */
function verbsOfOwners(rights: SessionRights) {
  return {
    continue: async (id, message, options) =>
      (await rights.owning(id)).continue(id, message, optionsToContinue(message, options)),
    step: async (id, options) => (await rights.owning(id)).step(id, withoutContext(options)),
    fork: async (id, ...rest) => {
      const forkId = await (await rights.owning(id)).fork(id, ...rest);
      // The request may have looked for a session of this id before it existed, as chats do for their branches.
      rights.forget(forkId);
      return forkId;
    },
  } satisfies Partial<CallerSessions>;
}

/** The verbs that answer pending calls. */
function answeringVerbs(rights: SessionRights) {
  return {
    submitToolResults: (id, results, options) => {
      const callIds = results.map(([callId]) => callId);
      return rights.answering({ sessionId: id, callIds, version: options?.version }, (runtime, version) =>
        runtime.submitToolResults(id, results, { ...withoutContext(options), version }),
      );
    },
    decide: (id, callId, decision, options) =>
      rights.deciding(
        { sessionId: id, callIds: [callId], version: options?.version, decision, key: options?.key },
        (runtime, version) => runtime.decide(id, callId, decision, { ...withoutContext(options), version }),
      ),
    checkAnswers: async (id, callIds) => void (await rights.assess({ sessionId: id, callIds })),
    token: (id, callId, options) =>
      rights.answering({ sessionId: id, callIds: [callId], version: options?.version }, (runtime, version) =>
        runtime.token(id, callId, { ...options, version }),
      ),
  } satisfies Partial<CallerSessions>;
}

/**
 * The verbs that need the right `read`, and are no promise or no operation. Invalid options are misuse at the call, as
 * without rules.
 */
function readingVerbs(rights: SessionRights, ofCaller: Runtime) {
  return {
    exported: async (id, ...rest) => (await rights.reading(id)).exported(id, ...rest),
    events: (id, options) => {
      // Reading begins with the iteration.
      const events = ofCaller.events(id, options);
      const isReadable = rights.rightTo(id).then((right) => right !== "none");
      isReadable.catch(() => undefined);
      return laterIterable(async () => ((await isReadable) ? events : rights.absent.events(id, options)));
    },
    attach: (id, turn, options) => {
      const { turnId } = ofCaller.attach(id, turn, options);
      return laterHandle(id, turnId, async () => (await rights.reading(id)).attach(id, turn, options));
    },
  } satisfies Partial<CallerSessions>;
}

/** The inspection of one session. */
function inspectionOf(rights: SessionRights) {
  return {
    turns: async (id, ...rest) => (await rights.inspecting(id)).turns(id, ...rest),
    timeline: async (id, ...rest) => (await rights.inspecting(id)).timeline(id, ...rest),
    effect: async (id, ...rest) => (await rights.inspecting(id)).effect(id, ...rest),
    request: async (id, ...rest) => (await rights.inspecting(id)).request(id, ...rest),
    exportParts: async function* exportParts(id, ...rest) {
      yield* (await rights.inspecting(id)).exportParts(id, ...rest);
    },
  } satisfies Partial<CallerInspection>;
}

/** The options of `continue`: without a message, the turn acts on earlier input, for the caller that sent it. */
function optionsToContinue<Options extends { readonly turnContext?: JsonObject }>(
  message: unknown,
  options: Options | undefined,
) {
  return (message ?? null) === null ? withoutContext(options) : options;
}

/**
 * The options of a verb that adds no input: a decision, a result, a step. The turn goes on with the context that it
 * has: its tools act for the caller that started it, not for the one that decides.
 */
function withoutContext<Options extends { readonly turnContext?: JsonObject }>(options: Options | undefined) {
  const { turnContext: _, ...others } = options ?? {};
  return others;
}
