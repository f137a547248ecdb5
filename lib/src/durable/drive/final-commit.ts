// The commit that ends a turn, and the one that parks it: what they store, and what this process does after them.
//
// The ending batch also removes stored cancels, sets the deadlines of pending calls, and reads the inbox once more:
// input that arrived too late for the last checkpoint becomes the next turn in the same batch. The process keeps the
// session for that turn under the next epoch, if the limits admit it; otherwise the batch releases the lease. The slots
// of the ended turn are released in the same batch, and so is the line written that the turn adds to the rollups
// (`rows/rollup.ts`).
//
// A batch is built again if it was refused (`TurnCommitter`), so nothing here changes before `written`.

import type { Turn, TurnHistory } from "../../core/kernel/internal.ts";
import type { ChatResult, Failure, JsonObject, Session, TurnEvent } from "../../core/model/internal.ts";
import type { Changes } from "../rows/batch.ts";
import type { Lease } from "../rows/lease.ts";
import type { SessionChange, SessionWrite, StoredSession } from "../rows/session-write.ts";
import type { StoredEvent, TurnStart } from "../rows/values.ts";
import type { Decision } from "./admission.ts";
import type { RuntimeContext } from "./context.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { NextPlannedTurn } from "./new-turn.ts";
import type { TurnRollup } from "./turn-rollup.ts";

import { appendHistory } from "../../core/kernel/internal.ts";
import { applyChatResult, applyStepResult, recover } from "../../core/session/internal.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { freedScopes } from "../rows/limits.ts";
import { outcomeClassOf } from "../rows/rollup.ts";
import { limitKeyOf } from "../rows/session-write.ts";
import { summaryOf } from "../rows/summary.ts";
import { openCallDeadlines } from "../rows/waits.ts";
import { admit } from "./admission.ts";
import { acceptedTurn } from "./driven-turn.ts";
import { followingTurn } from "./new-turn.ts";

/** A change to write, and what this process knows once it is written. */
export type Commit = {
  readonly change: SessionChange;
  /** The history of the session after the change, if it got messages. */
  readonly history?: TurnHistory;
  /** The turn that this process drives next. */
  readonly next?: NextPlannedTurn | null;
  /** The batch releases the lease. */
  readonly releases?: boolean;
};

/** The turn that this process drives next, and the lease for it. */
export type NextTurn = { readonly turn: DrivenTurn; readonly lease: Lease };

/** The last transition of a turn, and the rows and events of its commit. */
type LastTransition = {
  readonly turn: Turn;
  readonly reported: readonly TurnEvent[];
  /** The number of journal rows with that of this commit. */
  readonly committed: number;
  /** Attempts that were thrown away since the last commit. */
  readonly discarded: number;
  readonly events: readonly StoredEvent[];
  /** The other rows of the batch. */
  readonly also: Changes;
};

/** Builds the last commit of one turn, and keeps what follows from it. */
export class FinalCommit {
  /** The turn that this process drives next, once the commit that ends this one is written; `null`: none. */
  next: NextTurn | null = null;
  /**
   * The scopes of limits in which the last commit freed a slot, and the one that the next turn waits for. Empty before
   * that commit.
   */
  servedScopes: readonly string[] = [];
  /** Whether the turn has a protocol of one's own. */
  hasOwnProtocol = false;
  /** How often the ending batch was refused because another turn had taken a slot of a limit. */
  refusedSlots = 0;
  readonly #context: RuntimeContext;
  readonly #turn: string;
  readonly #start: TurnStart;
  readonly #rollup: TurnRollup;
  readonly #isOffline: boolean;

  /** `isOffline`: the turn is ended without its engine (Q16), and the session after it is usable. */
  constructor(
    context: RuntimeContext,
    of: { readonly id: string; readonly start: TurnStart; readonly rollup: TurnRollup; readonly isOffline: boolean },
  ) {
    this.#context = context;
    this.#turn = of.id;
    this.#start = of.start;
    this.#rollup = of.rollup;
    this.#isOffline = of.isOffline;
  }

  /**
   * The commit that ends the turn: the session after it, the deadlines of pending calls, and the next turn.
   * `mayContinue`: may this process drive the next turn?
   */
  async ended(stored: StoredSession, last: LastTransition, mayContinue: () => boolean, now: number): Promise<Commit> {
    const { key, head } = stored;
    const { turn, committed, discarded, events, also } = last;
    const result = resultIn(last.reported);
    const after = this.#sessionAfter(head.session, result);
    const history = appendHistory(turn.history, after.thread.messages);
    const messages = history.entries.slice(head.length, history.length);
    const ended = { ...this.#start, id: this.#turn };
    const { turn: next, changes } = await followingTurn(this.#context, key, ended, after, history, now);
    // A turn without a plan is for a process that has its engine.
    const drivesNext = next !== null && next.plan !== null && mayContinue();
    const decision = drivesNext ? await this.#admitNext(stored, next) : null;
    const keepsLease = decision !== null && decision.limit?.type !== "waiting";
    const deadlines = openCallDeadlines(key, this.#turn, after.pendingToolCalls, this.#start.options, now, after);
    const change: SessionChange = {
      now,
      session: { after, messages, history },
      turn: {
        type: "end",
        committed,
        step: turn.step,
        discarded,
        end: summaryOf(result),
        next,
        nextDue: keepsLease ? now + this.#context.lease.ttlMs : now,
        nextLimit: decision?.limit ?? null,
        endedAt: now,
        acceptedAt: this.#start.acceptedAt,
        rollup: this.#rollup.line(outcomeClassOf(result.outcome), now),
      },
      events,
      also: merge(also, changes, putting(...deadlines), decision?.changes ?? noChanges),
    };
    return { change, history, next: keepsLease ? next : null, releases: !keepsLease };
  }

  /** The commit that parks the turn with a failure. The session gets the status `error`. */
  parked({ head }: StoredSession, failure: Failure, events: readonly StoredEvent[], now: number): Commit {
    const { session: before, length, digest } = head;
    const metadata = { ...before.metadata, error: { ...failure } };
    const after: Session<JsonObject> = { ...before, status: "error", metadata };
    const session = { after, messages: [], history: { length, digest } };
    const turn = { type: "park", failure, rollup: this.#rollup.line("parked", now) } as const;
    return { change: { now, session, turn, events }, releases: true };
  }

  /**
   * Keeps what follows from a commit that was written, and reports a turn that it ends with a failure or parks. Does
   * nothing after a commit with which the turn continues. `lease`: the one for the next turn.
   */
  written({ change, next = null }: Commit, before: StoredSession, write: SessionWrite, lease: Lease): void {
    const { turn } = change;
    if (turn?.type !== "end" && turn?.type !== "park") return;
    const waitsFor = turn.type === "end" && turn.nextLimit?.type === "waiting" ? [turn.nextLimit.scope] : [];
    this.servedScopes = [...freedScopes(before.turn?.limit ?? null), ...waitsFor];
    if (next !== null) this.next = { turn: acceptedTurn(write, next), lease };
    const { tenant, session: sessionId } = before.key;
    const report = { tenant, sessionId, turnId: this.#turn, error: null };
    if (turn.type === "park") this.#context.reportFailure({ ...report, status: "parked", failure: turn.failure });
    // A turn that was parked before is not reported again.
    else if (!this.#isOffline && "failure" in turn.end.outcome)
      this.#context.reportFailure({ ...report, status: "failed", failure: turn.end.outcome.failure });
  }

  /**
   * What the limits decide about the next turn. The slots of this turn count as free, unless other turns wait for them.
   */
  async #admitNext({ key }: StoredSession, { id, start: { engine, options } }: NextPlannedTurn): Promise<Decision> {
    const subject = { key, engine, limitKey: limitKeyOf(options), limit: null };
    return admit(this.#context, subject, { turn: id, replaces: this.#turn, attempt: this.refusedSlots });
  }

  /** The session after the turn, without messages that are stored already. */
  #sessionAfter(session: Session<JsonObject>, result: ChatResult): Session<JsonObject> {
    // The operations of `session/` compute the session. They get an empty thread, because the messages of the turn are
    // stored already; what they append is what is left to store.
    const emptyThread = { ...session.thread, messages: [] };
    const step = result.steps.at(-1);
    // How a step of a protocol of one's own ends the turn does not follow from its reply.
    const isStep = this.#start.verb === "step" && !this.hasOwnProtocol;
    const after =
      isStep && step !== undefined && result.outcome.type !== "cancelled"
        ? applyStepResult(session, { ...step, thread: emptyThread })
        : applyChatResult(session, { ...result, thread: emptyThread });
    const { contextWindow } = result;
    const usable = { ...(this.#isOffline ? recover(after) : after), contextWindow };
    return usable.lastRun === null ? usable : { ...usable, lastRun: { ...usable.lastRun, turnId: this.#turn } };
  }
}

/** The result of the run, from the event that reports it. */
function resultIn(reported: readonly TurnEvent[]): ChatResult {
  const result = reported.findLast((event) => event.type === "chat_completed")?.result;
  if (result === undefined) throw new Error("a turn ended without a chat_completed event");
  return result;
}
