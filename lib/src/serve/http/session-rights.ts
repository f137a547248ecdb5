// The rights of one caller to the sessions of its tenant, for one request (access.ts): which runtime a verb is called
// on, and whether the caller may answer a call that waits.

import type { JsonObject, SessionView } from "../../core/model/internal.ts";
import type { DecisionInput } from "../../core/session/internal.ts";
import type { Runtime } from "../../durable/internal.ts";
import type { Inspection } from "../inspect/internal.ts";
import type { CallerRules, Right, SeenSession } from "./access-rules.ts";
import type { Authenticated } from "./auth.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { randomText } from "../../durable/internal.ts";
import { needsDecision, withArguments } from "./access-rules.ts";
import { checkScope } from "./auth.ts";
import { HttpError } from "./failure.ts";

/** A version that no session has: a verb with it is refused, unless its idempotency key was accepted before. */
const impossibleVersion = -1;

/** An answer to pending calls of a session. */
type Answer = {
  readonly sessionId: string;
  /** The ids of the calls. */
  readonly callIds: readonly string[];
  /** Arguments with which the caller approves, instead of those that were shown. */
  readonly edited?: JsonObject | null;
  /** The version that the caller has named. */
  readonly version: number | undefined;
};

/** The sessions of the tenant, their inspection, and whom they are used for. */
type Scope = {
  readonly sessions: Runtime;
  readonly inspection: Inspection;
  readonly authenticated: Authenticated;
  readonly rules: CallerRules;
};

/** Rights are evaluated once; for answers to pending calls, each time. */
export class SessionRights {
  readonly #scope: Scope;
  /** The runtime with the caller as the owner of what it starts. */
  readonly #ofCaller: Runtime;
  readonly #rights = new Map<string, Promise<Right>>();

  constructor(scope: Scope, ofCaller: Runtime) {
    this.#scope = scope;
    this.#ofCaller = ofCaller;
  }

  /** What the caller may do with a session. */
  rightTo(sessionId: string): Promise<Right> {
    const { sessions } = this.#scope;
    const right =
      this.#rights.get(sessionId) ??
      sessions
        .get(sessionId, { messages: 0 })
        .then((view) => this.#evaluate(view === null ? null : seen(sessionId, view)));
    this.#rights.set(sessionId, right);
    return right;
  }

  /** The right to a session. Throws 403 for a session of an engine that the key may not use. */
  async #evaluate(session: SeenSession | null): Promise<Right> {
    const { rules } = this.#scope;
    const right = session === null ? "none" : await rules.evaluate(session);
    if (session !== null && right !== "none" && !rules.usesEngine(session)) throw notItsEngine();
    return right;
  }

  /** Records a right that a verb has established. */
  grant(sessionId: string, right: Right): void {
    this.#rights.set(sessionId, Promise.resolve(right));
  }

  /** Evaluates the right to a session anew when it is needed next. */
  forget(sessionId: string): void {
    this.#rights.delete(sessionId);
  }

  /** The runtime for verbs that read the session. */
  async reading(sessionId: string): Promise<Runtime> {
    return (await this.rightTo(sessionId)) === "none" ? this.absent : this.#ofCaller;
  }

  /** The inspection for the session. */
  async inspecting(sessionId: string): Promise<Inspection> {
    const { inspection } = this.#scope;
    return (await this.rightTo(sessionId)) === "none" ? inspection.tenant(absentName()) : inspection;
  }

  /** The runtime for verbs of owners. Throws 403 if the caller may only read the session. */
  async owning(sessionId: string): Promise<Runtime> {
    checkScope(this.#scope.authenticated.caller, "write");
    const right = await this.rightTo(sessionId);
    if (right === "read") throw notOwner();
    return right === "none" ? this.absent : this.#ofCaller;
  }

  /**
   * A tenant that has no sessions, because no other process or request knows its name: all its answers are those for
   * sessions which do not exist.
   */
  get absent(): Runtime {
    return this.#scope.sessions.tenant(absentName());
  }

  /**
   * Evaluates the rules for an answer. Throws 403 if the caller may not answer one of the calls. `null`: the session
   * does not exist for the caller.
   */
  async assess({ sessionId, callIds, edited = null }: Omit<Answer, "version">) {
    const { sessions, rules, authenticated } = this.#scope;
    const view = await sessions.get(sessionId, { messages: 0 });
    const session = view === null ? null : seen(sessionId, view);
    const right = await this.#evaluate(session);
    if (view === null || session === null || right === "none") return null;
    // Also calls whose decision is recorded: who may not decide may not change a decision.
    const pending = session.pendingToolCalls.filter(({ id }) => callIds.includes(id));
    const decided = pending.filter(needsDecision);
    if (decided.length > 0) checkScope(authenticated.caller, "decide");
    if (pending.length > decided.length) checkScope(authenticated.caller, "write");
    for (const call of decided) {
      if (!(await rules.mayDecide(session, call))) throw notDecider();
      if (edited !== null && !(await rules.mayDecide(session, withArguments(call, edited)))) throw notDecider("edited");
    }
    if (right === "read" && pending.length > decided.length) throw notOwner();
    // A call that does not wait is not for a reader: only an answer that was accepted before is found, by its key.
    return { right, version: right === "read" && pending.length === 0 ? impossibleVersion : view.version };
  }

  /**
   * Calls a verb that answers pending calls, if the caller may. The verb gets the runtime and the version that the
   * rules were evaluated for.
   */
  async answering<T>(answer: Answer, call: (runtime: Runtime, version: number) => Promise<T>): Promise<T> {
    const { sessionId, version: expected } = answer;
    for (;;) {
      const assessed = await this.assess(answer);
      if (assessed === null) return call(this.absent, expected ?? impossibleVersion);
      const { right, version } = assessed;
      // A later version than the one that the rules were evaluated for may have other calls under the same ids.
      const named = expected !== undefined && expected > version ? impossibleVersion : expected;
      try {
        const result = await call(this.#ofCaller, named ?? version);
        // Whoever decided reads the turn that follows, in the same request.
        this.grant(sessionId, right);
        return result;
      } catch (error) {
        // Another writer has changed the session since the rules were evaluated.
        const isStale = error instanceof RuntimeError && error.reason === "conflict" && expected === undefined;
        if (!isStale || version === impossibleVersion || error.failure.metadata["wanted"] !== version) throw error;
      }
    }
  }

  /**
   * Calls a verb with a decision, if the caller may. Finds also the turn of a decision that the same named caller sends
   * again after the call was answered, when it may not read the session any more: the name is part of what the
   * idempotency key identifies.
   */
  async deciding<T>(
    answer: Omit<Answer, "edited"> & { readonly decision: DecisionInput; readonly key: string | undefined },
    call: (runtime: Runtime, version: number) => Promise<T>,
  ): Promise<T> {
    const { sessionId, decision, key } = answer;
    const { caller } = this.#scope.authenticated;
    const { name } = caller;
    checkScope(caller, "decide");
    const mayRepeat = key !== undefined && name !== undefined && decision.by === name;
    if (mayRepeat && (await this.rightTo(sessionId)) === "none") {
      try {
        const turn = await call(this.#ofCaller, impossibleVersion);
        this.grant(sessionId, "read");
        return turn;
      } catch (error) {
        if (!(error instanceof RuntimeError)) throw error;
      }
    }
    const edited = decision.type === "approve" ? (decision.arguments ?? null) : null;
    return this.answering({ ...answer, edited }, call);
  }
}

function seen(id: string, { owner, startedBy, engine, session }: SessionView): SeenSession {
  const { metadata, pendingToolCalls } = session;
  return { id, owner, startedBy, engine, metadata, pendingToolCalls };
}

function notItsEngine(): HttpError {
  return new HttpError("forbidden", "this key may not use the engine of the session");
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
