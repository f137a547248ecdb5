// The rules `owns` and `decide` of a handler: what a program declares, and what they allow one caller.

import type { JsonObject, PendingToolCall, SessionSummary } from "../../core/model/internal.ts";
import type { Authenticated, Caller } from "./auth.ts";

import { MisuseError } from "../../core/model/internal.ts";

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

/** What a caller may do with a session. */
export type Right = "own" | "read" | "none";

/** What the rules need of a session, from `get` or `list`. */
export type SeenSession = OwnedSession & {
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The engine of the newest turn; `null` in rows of older releases. */
  readonly engine: string | null;
};

/** The rules for one caller. */
export type CallerRules = {
  /** What the caller may do with a session. */
  readonly evaluate: (session: SeenSession) => Promise<Right>;
  /** Whether it may decide about a pending call of the session. */
  readonly mayDecide: (session: OwnedSession, call: PendingToolCall) => Promise<boolean>;
  /** Whether it may use the engine of the session. */
  readonly usesEngine: (session: Pick<SeenSession, "engine">) => boolean;
  /** Whether a list shows it the session. */
  readonly isVisible: (session: SessionSummary) => Promise<boolean>;
};

/** The rules for a caller with this id. */
export function rulesFor({ caller, id }: Authenticated, { owns, decide }: AccessRules): CallerRules {
  const shown = withoutToken(caller);
  const isOperator = caller.operator === true;
  const usesEngine = ({ engine }: Pick<SeenSession, "engine">): boolean =>
    caller.engines === undefined || (engine !== null && caller.engines.includes(engine));
  const belongs = async (session: OwnedSession): Promise<boolean> => {
    if (isOperator) return true;
    if (id === null) return false;
    return session.owner === id || (owns !== undefined && (await owns(owned(session), shown)) === true);
  };
  const mayDecide = async (session: OwnedSession, call: PendingToolCall): Promise<boolean> => {
    if (isOperator) return true;
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
  const isVisible = async (session: SessionSummary): Promise<boolean> =>
    usesEngine(session) && (await evaluate(session)) !== "none";
  return { evaluate, mayDecide, usesEngine, isVisible };
}

/** Whether an answer to the call is a decision. Questions and manual tools are answered by the owner. */
export function needsDecision({ reason }: PendingToolCall): boolean {
  switch (reason) {
    case "approval":
    case "outcome_unknown":
      return true;
    case "manual":
    case "question":
      return false;
  }
}

function owned({ id, owner, startedBy, metadata }: OwnedSession): OwnedSession {
  return { id, owner, startedBy, metadata };
}

/**
 * The call as it would run with arguments of the person who approves it. Those of a call of a child agent cannot be
 * changed.
 */
export function withArguments(call: PendingToolCall, args: JsonObject): PendingToolCall {
  return { ...call, arguments: args, shown: { ...call.shown, arguments: args } };
}

/** The caller of a bearer token is its `ApiKey`; rules of the program need no token. */
function withoutToken({ tenant, name, context, limitKey, engines, scopes, operator }: Caller): Caller {
  return {
    ...(tenant === undefined ? {} : { tenant }),
    ...(name === undefined ? {} : { name }),
    ...(context === undefined ? {} : { context }),
    ...(limitKey === undefined ? {} : { limitKey }),
    ...(engines === undefined ? {} : { engines }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(operator === undefined ? {} : { operator }),
  };
}
