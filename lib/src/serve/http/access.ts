// Who may do what: the sessions of a tenant as one caller may use them (law A2). The only place that evaluates the
// rules `owns` and `decide` of the handler.
//
// Theory of operation
//   Routes and dialects get no `Runtime`. They get `CallerSessions` and `CallerInspection`: the same verbs, each of
//   which first finds out what the caller may do with the session of its id. A route cannot forget the check, because
//   it cannot reach a session without it, and a new verb of the runtime is a compile error here until its right is
//   declared. Verbs that concern other callers or all tenants (`sweep`, sums over all tenants) are part of neither;
//   routes of operators use the runtime and the inspection.
//
//   right    who has it                                                        what it allows
//   own      the owner of the session, and who `owns` names                    everything except decisions
//   read     who may decide about a pending call (`decide` is a function)      reading, and the decision
//   none     every other caller                                                the answer is that of a session which does not exist
//
//   Operators, and every caller with `auth: "none"`, are not limited: their verbs are those of the runtime.
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

import type { JsonObject, PendingToolCall, SessionSummary, SessionView } from "../../core/model/internal.ts";
import type { DecisionInput } from "../../core/session/internal.ts";
import type { Runtime, TurnHandle } from "../../durable/internal.ts";
import type { Inspection } from "../inspect/internal.ts";
import type { Authenticated, Caller } from "./auth.ts";

import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { randomText } from "../../durable/internal.ts";
import { HttpError } from "./failure.ts";

/** A session as the rules `owns` and `decide` see it. */
export type OwnedSession = {
  /** The id of the session. */
  readonly id: string;
  /**
   * The caller that started the session: its name, `key:` and a digest for an API key without a name, or the empty
   * string for a caller of an `auth` function without a name. `null`: a program started it, or an older release.
   */
  readonly owner: string | null;
  /** The callers whose input the newest turn has, as `owner` names them. Empty: no caller did, or an older release. */
  readonly startedBy: readonly string[];
  /** Metadata of the session. */
  readonly metadata: JsonObject;
};

/** A call that waits for a decision, with its session. */
export type CallToDecide = PendingToolCall & {
  /** The session of the call. */
  readonly session: OwnedSession;
};

/** The rules of a handler: the options `owns` and `decide` of `HttpOptions`. */
export type AccessRules = {
  readonly owns?: (session: OwnedSession, caller: Caller) => boolean | Promise<boolean>;
  readonly decide?: "own" | ((call: CallToDecide, caller: Caller) => boolean | Promise<boolean>);
};

/** The rules of these options. Throws `MisuseError`: a rule that is not understood must not be taken for none. */
export function checkedRules({ owns, decide }: AccessRules): AccessRules {
  if (owns !== undefined && typeof owns !== "function") {
    throw new MisuseError("invalid_argument", "owns: must be a function of a session and a caller", { path: ["owns"] });
  }
  if (decide !== undefined && decide !== "own" && typeof decide !== "function") {
    const message = 'decide: must be "own" or a function of a call and a caller';
    throw new MisuseError("invalid_argument", message, { path: ["decide"] });
  }
  return { ...(owns === undefined ? {} : { owns }), ...(decide === undefined ? {} : { decide }) };
}

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
export type CallerInspection = Pick<Inspection, "turns" | "timeline" | "effect" | "exportParts" | "search">;

/** What a caller may use in one request. */
type CallerAccess = { readonly sessions: CallerSessions; readonly inspection: CallerInspection };

/** Verbs that concern other callers, all tenants or the process. */
type OperatorVerb = "source" | "work" | "lease" | "drive" | "sweep" | "close" | "tenant" | "limitedBy" | "calledBy";

/** What a caller may do with a session. */
type Right = "own" | "read" | "none";

/** What the rules need of a session, from `get` or `list`. */
type SeenSession = OwnedSession & { readonly pendingToolCalls: readonly PendingToolCall[] };

/** A version that no session has: a verb with it is refused, unless its idempotency key was accepted before. */
const impossibleVersion = -1;

/**
 * The sessions of a tenant and their inspection for one request. `sessions`, `inspection`: those of the tenant. Rights
 * are evaluated once a request; for decisions, each time.
 */
export function callerAccess(
  sessions: Runtime,
  inspection: Inspection,
  { caller, id }: Authenticated,
  rules: AccessRules,
): CallerAccess {
  const ofCaller = id === null ? sessions : sessions.calledBy(id);
  // A turn that an operator continues stays that of the callers that started it.
  if (caller.operator === true) {
    const ofOperator: CallerSessions = {
      ...sessions,
      start: ofCaller.start,
      decide: (sessionId, callId, decision, options) =>
        sessions.decide(sessionId, callId, decision, withoutContext(options)),
      submitToolResults: (sessionId, results, options) =>
        sessions.submitToolResults(sessionId, results, withoutContext(options)),
      continue: (sessionId, message, options) =>
        sessions.continue(sessionId, message, optionsToContinue(message, options)),
      step: (sessionId, options) => sessions.step(sessionId, withoutContext(options)),
    };
    return { sessions: ofOperator, inspection };
  }
  const { evaluate, mayDecide, isVisible } = accessOf(caller, id, rules);
  const rights = new Map<string, Promise<Right>>();

  const rightTo = (sessionId: string): Promise<Right> => {
    const right =
      rights.get(sessionId) ??
      sessions
        .get(sessionId, { messages: 0 })
        .then((view) => (view === null ? "none" : evaluate(seen(sessionId, view))));
    rights.set(sessionId, right);
    return right;
  };
  const reading = async (sessionId: string): Promise<Runtime> =>
    (await rightTo(sessionId)) === "none" ? absentTenant(sessions) : ofCaller;
  const inspecting = async (sessionId: string): Promise<Inspection> =>
    (await rightTo(sessionId)) === "none" ? inspection.tenant(absentName()) : inspection;
  const owning = async (sessionId: string): Promise<Runtime> => {
    const right = await rightTo(sessionId);
    if (right === "read") throw notOwner();
    return right === "none" ? absentTenant(sessions) : ofCaller;
  };

  /**
   * Evaluates the rules for answers to calls of these ids. Throws 403 if the caller may not answer one of them. `null`:
   * the session does not exist for the caller. `edited`: arguments with which the caller approves, instead of those
   * that were shown.
   */
  const assess = async (sessionId: string, answered: readonly string[], edited: JsonObject | null = null) => {
    const view = await sessions.get(sessionId, { messages: 0 });
    const session = view === null ? null : seen(sessionId, view);
    const right = session === null ? "none" : await evaluate(session);
    if (view === null || session === null || right === "none") return null;
    // Also calls whose decision is recorded: who may not decide may not change a decision.
    const pending = session.pendingToolCalls.filter(({ id: callId }) => answered.includes(callId));
    const decided = pending.filter(needsDecision);
    for (const call of decided) {
      if (!(await mayDecide(session, call))) throw notDecider();
      if (edited !== null && !(await mayDecide(session, withArguments(call, edited)))) throw notDecider("edited");
    }
    if (right === "read" && pending.length > decided.length) throw notOwner();
    // A call that does not wait is not for a reader: only an answer that was accepted before is found, by its key.
    return { right, version: right === "read" && pending.length === 0 ? impossibleVersion : view.version };
  };

  /**
   * Calls a verb that answers pending calls, if the caller may. `answered`: the ids of the calls. The verb gets the
   * runtime and the version that the rules were evaluated for. `expected`: the version that the caller has named.
   * `edited`: as for `assess`.
   */
  const answering = async <T>(
    sessionId: string,
    answered: readonly string[],
    expected: number | undefined,
    call: (runtime: Runtime, version: number) => Promise<T>,
    edited: JsonObject | null = null,
  ): Promise<T> => {
    for (;;) {
      const assessed = await assess(sessionId, answered, edited);
      if (assessed === null) return call(absentTenant(sessions), expected ?? impossibleVersion);
      const { right, version } = assessed;
      // A later version than the one that the rules were evaluated for may have other calls under the same ids.
      const named = expected !== undefined && expected > version ? impossibleVersion : expected;
      try {
        const result = await call(ofCaller, named ?? version);
        // Whoever decided reads the turn that follows, in the same request.
        rights.set(sessionId, Promise.resolve(right));
        return result;
      } catch (error) {
        // Another writer has changed the session since the rules were evaluated.
        const isStale = error instanceof RuntimeError && error.reason === "conflict" && expected === undefined;
        if (!isStale || version === impossibleVersion || error.failure.metadata["wanted"] !== version) throw error;
      }
    }
  };

  /**
   * Finds the turn of a decision that the same named caller sends again after the call was answered, when it may not
   * read the session any more; `null`: there is none. The name is part of what the idempotency key identifies. `repeat`
   * calls the verb with a version that no session has.
   */
  const decidedBefore = async <T>(
    sessionId: string,
    { by }: DecisionInput,
    key: string | undefined,
    repeat: () => Promise<T>,
  ): Promise<T | null> => {
    if (key === undefined || caller.name === undefined || by !== caller.name) return null;
    if ((await rightTo(sessionId)) !== "none") return null;
    try {
      const turn = await repeat();
      rights.set(sessionId, Promise.resolve("read"));
      return turn;
    } catch (error) {
      if (error instanceof RuntimeError) return null;
      throw error;
    }
  };

  const limited: CallerSessions = {
    start: async (...args) => {
      const turn = await ofCaller.start(...args);
      // Also a call that was repeated under its key finds a session of this caller only.
      if (id !== null) rights.set(turn.sessionId, Promise.resolve("own"));
      return turn;
    },
    reply: async (sessionId, ...rest) => (await owning(sessionId)).reply(sessionId, ...rest),
    continue: async (sessionId, message, options) =>
      (await owning(sessionId)).continue(sessionId, message, optionsToContinue(message, options)),
    step: async (sessionId, options) => (await owning(sessionId)).step(sessionId, withoutContext(options)),
    send: async (sessionId, ...rest) => (await owning(sessionId)).send(sessionId, ...rest),
    submitToolResults: (sessionId, results, options) =>
      answering(
        sessionId,
        results.map(([callId]) => callId),
        options?.version,
        (runtime, version) => runtime.submitToolResults(sessionId, results, { ...withoutContext(options), version }),
      ),
    decide: async (sessionId, callId, decision, options) => {
      const send = (runtime: Runtime, version: number) =>
        runtime.decide(sessionId, callId, decision, { ...withoutContext(options), version });
      const before = await decidedBefore(sessionId, decision, options?.key, () => send(ofCaller, impossibleVersion));
      const edited = decision.type === "approve" ? (decision.arguments ?? null) : null;
      return before ?? answering(sessionId, [callId], options?.version, send, edited);
    },
    checkAnswers: async (sessionId, callIds) => void (await assess(sessionId, callIds)),
    token: (sessionId, callId, options) =>
      answering(sessionId, [callId], options?.version, (runtime, version) =>
        runtime.token(sessionId, callId, { version }),
      ),
    steer: async (sessionId, ...rest) => (await owning(sessionId)).steer(sessionId, ...rest),
    withdraw: async (sessionId, ...rest) => (await owning(sessionId)).withdraw(sessionId, ...rest),
    cancel: async (sessionId, ...rest) => (await owning(sessionId)).cancel(sessionId, ...rest),
    delete: async (sessionId, ...rest) => (await owning(sessionId)).delete(sessionId, ...rest),
    fork: async (sessionId, ...rest) => {
      const forkId = await (await owning(sessionId)).fork(sessionId, ...rest);
      // The request may have looked for a session of this id before it existed, as chats do for their branches.
      rights.delete(forkId);
      return forkId;
    },
    recover: async (sessionId, ...rest) => (await owning(sessionId)).recover(sessionId, ...rest),
    get: async (sessionId, ...rest) => (await reading(sessionId)).get(sessionId, ...rest),
    messages: async (sessionId, ...rest) => (await reading(sessionId)).messages(sessionId, ...rest),
    usage: async (sessionId) => (await reading(sessionId)).usage(sessionId),
    events: (sessionId, options) => {
      // Invalid options are misuse at the call, as without rules. Reading begins with the iteration.
      const events = ofCaller.events(sessionId, options);
      const isReadable = rightTo(sessionId).then((right) => right !== "none");
      isReadable.catch(() => undefined);
      return laterIterable(async () =>
        (await isReadable) ? events : absentTenant(sessions).events(sessionId, options),
      );
    },
    attach: (sessionId, turnId, options) => {
      const { turnId: attached } = ofCaller.attach(sessionId, turnId, options);
      const handle = () => reading(sessionId).then((runtime) => runtime.attach(sessionId, turnId, options));
      return laterHandle(sessionId, attached, handle);
    },
    list: (options) =>
      // Without rules of the program the index of the owner has all sessions that the caller may read.
      rules.owns === undefined && typeof rules.decide !== "function" && id !== null
        ? sessions.list({ ...options, owner: id })
        : sessions.list({ ...options, where: isVisible }),
    // A token authorises one answer, whoever sends it.
    complete: sessions.complete,
    book: sessions.book,
    admit: sessions.admit,
  };
  const visible: CallerInspection = {
    turns: async (sessionId, ...rest) => (await inspecting(sessionId)).turns(sessionId, ...rest),
    timeline: async (sessionId, ...rest) => (await inspecting(sessionId)).timeline(sessionId, ...rest),
    effect: async (sessionId, ...rest) => (await inspecting(sessionId)).effect(sessionId, ...rest),
    exportParts: async function* exportParts(sessionId, ...rest) {
      yield* (await inspecting(sessionId)).exportParts(sessionId, ...rest);
    },
    search: (text, options) => inspection.search(text, { ...options, where: isVisible }),
  };
  return { sessions: limited, inspection: visible };
}

/** The rules for one caller. */
function accessOf(caller: Caller, id: string | null, { owns, decide }: AccessRules) {
  const shown = withoutToken(caller);
  const belongs = async (session: OwnedSession): Promise<boolean> => {
    if (id === null) return false;
    return session.owner === id || (owns !== undefined && (await owns(owned(session), shown)) === true);
  };
  const mayDecide = async (session: OwnedSession, call: PendingToolCall): Promise<boolean> => {
    if (id === null) return false;
    if (typeof decide === "function") return (await decide({ ...call, session: owned(session) }, shown)) === true;
    if (!(await belongs(session))) return false;
    return decide === "own" || (session.startedBy.length > 0 && !session.startedBy.includes(id));
  };
  const evaluate = async (session: SeenSession): Promise<Right> => {
    if (await belongs(session)) return "own";
    if (typeof decide !== "function") return "none";
    for (const call of session.pendingToolCalls)
      if (needsDecision(call) && (await mayDecide(session, call))) return "read";
    return "none";
  };
  const isVisible = async (session: SessionSummary): Promise<boolean> => (await evaluate(session)) !== "none";
  return { evaluate, mayDecide, isVisible };
}

/** Whether an answer to the call is a decision. Questions and manual tools are answered by the owner. */
function needsDecision({ reason }: PendingToolCall): boolean {
  switch (reason) {
    case "approval":
    case "outcome_unknown":
      return true;
    case "manual":
    case "question":
      return false;
  }
}

function seen(id: string, { owner, startedBy, session }: SessionView): SeenSession {
  const { metadata, pendingToolCalls } = session;
  return { id, owner, startedBy, metadata, pendingToolCalls };
}

function owned({ id, owner, startedBy, metadata }: OwnedSession): OwnedSession {
  return { id, owner, startedBy, metadata };
}

/**
 * The call as it would run with arguments of the person who approves it. Those of a call of a child agent cannot be
 * changed.
 */
function withArguments(call: PendingToolCall, args: JsonObject): PendingToolCall {
  return { ...call, arguments: args, shown: { ...call.shown, arguments: args } };
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

/** The caller of a bearer token is its `ApiKey`; rules of the program need no token. */
function withoutToken({ tenant, name, context, limitKey, engines, operator }: Caller): Caller {
  return {
    ...(tenant === undefined ? {} : { tenant }),
    ...(name === undefined ? {} : { name }),
    ...(context === undefined ? {} : { context }),
    ...(limitKey === undefined ? {} : { limitKey }),
    ...(engines === undefined ? {} : { engines }),
    ...(operator === undefined ? {} : { operator }),
  };
}

/**
 * A tenant that has no sessions, because no other process or request knows its name: all its answers are those for
 * sessions which do not exist.
 */
function absentTenant(sessions: Runtime): Runtime {
  return sessions.tenant(absentName());
}

function absentName(): string {
  return `absent-${randomText(16)}`;
}

function notOwner(): HttpError {
  return new HttpError(
    "forbidden",
    "the session belongs to another caller; its owner or an operator may do this, or the option `owns` of the handler says who else",
  );
}

function notDecider(what: "call" | "edited" = "call"): HttpError {
  if (what === "edited")
    return new HttpError(
      "forbidden",
      "the option `decide` of the handler does not let this caller approve the call with these arguments; approve it as it is shown, or ask an operator",
    );
  return new HttpError(
    "forbidden",
    "the caller that started a turn does not decide in it; an operator may, or the option `decide` of the handler says who else",
  );
}

/**
 * Values of an iterable that is opened once the right to it is known. `return` reaches the inner iterator also while it
 * waits for a value.
 */
function laterIterable<T>(open: () => Promise<AsyncIterable<T>>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      let opened: Promise<AsyncIterator<T>> | null = null;
      const inner = () => (opened ??= open().then((iterable) => iterable[Symbol.asyncIterator]()));
      return {
        next: async () => (await inner()).next(),
        return: async () => {
          if (opened !== null) await (await opened).return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/**
 * A handle on a turn of a session that is read once the right to it is known. Waiting for the result begins at the
 * first access, as for every handle.
 */
function laterHandle<Output>(
  sessionId: string,
  turnId: string | null,
  open: () => Promise<TurnHandle<Output>>,
): TurnHandle<Output> {
  return {
    sessionId,
    turnId,
    isOpen: null,
    events: laterIterable(async () => (await open()).events),
    get result() {
      return open().then((handle) => handle.result);
    },
  };
}
