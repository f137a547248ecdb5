// Drives one turn of one session in this process: runs the one loop (`core/run/driver.ts`) on the durable ports of a
// `TurnCommitter`, renews the lease meanwhile, and delivers stored cancels to the loop.
//
// How a drive ends
//   the turn ends            the ending commit has released the lease or kept it for the next turn (`next`)
//   the turn is parked       every process would fail at it: divergence, a corrupt row, a missing record. A commit sets
//                            its status
//   hand-over                this process shuts down: `HandedOver`, after the next commit or at once; results that have
//                            arrived are committed before
//   the lease is lost        another process drives the turn; nothing more is written here
//   any other error          the storage failed, or the turn cannot be planned. The lease is released, and a worker may
//                            try again
// In the last three cases `drive` rejects, and the turn stays at its last commit.

import type { CancelEvidence } from "../../core/model/internal.ts";
import type { JournalItem, Plan, RunPlan, Started } from "../../core/run/internal.ts";
import type { Lease } from "../rows/lease.ts";
import type { RuntimeContext } from "./context.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { NextTurn } from "./final-commit.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { startRun } from "../../core/run/internal.ts";
import { noChanges } from "../rows/batch.ts";
import { nameOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { childrenOf, openChildrenOf } from "./children.ts";
import { storedPlan } from "./driven-turn.ts";
import { endingEngine } from "./offline-engine.ts";
import { TurnCommitter } from "./turn-committer.ts";

/** Used once for each drive of a turn. */
export class TurnDriver {
  readonly #context: RuntimeContext;
  readonly #turn: DrivenTurn;
  readonly #committer: TurnCommitter;
  readonly #isEnding: boolean;
  readonly #over = new AbortController();
  #run: Started | null = null;
  /** A cancel that was stored before the run has started. */
  #cancel: Omit<CancelEvidence, "requestId"> | null;

  /** `ending`: replays the turn without its engine and ends it with this item (Q16). */
  constructor(context: RuntimeContext, turn: DrivenTurn, lease: Lease, ending: JournalItem | null = null) {
    this.#context = context;
    this.#turn = turn;
    this.#isEnding = ending !== null;
    this.#cancel = turn.cancel;
    this.#committer = new TurnCommitter(context, turn, lease, ending);
  }

  /** The turn that this process drives next, once this one has ended; `null`: none. */
  get next(): NextTurn | null {
    return this.#committer.final.next;
  }

  /** The scopes of limits whose waiting turns may start because this turn has ended. */
  get servedScopes(): readonly string[] {
    return this.#committer.final.servedScopes;
  }

  /** The current lease. Its epoch may be higher than at the start, because an expired lease is claimed again (Q18). */
  get lease(): Lease {
    return this.#committer.holder.lease;
  }

  /**
   * Calls back after each commit that adds a journal row or ends the turn, and after the first row of a child turn that
   * follows a takeover.
   */
  onProgress(listener: () => void): void {
    this.#committer.onProgress = listener;
  }

  /** Stores that this process may drive other turns beside this one. */
  async endAlone(): Promise<void> {
    const { holder } = this.#committer;
    holder.endAlone();
    await holder.write(noChanges, { lasting: false });
  }

  /**
   * Drives the turn to its end. Rejects with the error that stopped it; the turn is then at its last commit, and the
   * lease is released. With `ending` the lease is not released on an error: the caller holds it until it is done.
   */
  async drive(): Promise<void> {
    const { hub, pieces, cancels } = this.#context;
    const { channel, at } = this.#committer;
    const name = nameOf(this.#turn.stored.key);
    hub.open(name, channel);
    // At once: a turn that this process has accepted is expected there only until `drive` has been called.
    const unwatch = cancels.watch(at, (row) => {
      const { origin, reason } = readValue("cancels", row).evidence;
      this.cancel(origin, reason);
    });
    // Also while the history is read.
    const renewing = this.#committer.holder.keep(this.#over.signal, (error) => this.#committer.stop(error));
    try {
      await this.#runTurn(await this.#plan());
    } catch (error) {
      this.#over.abort();
      await renewing;
      // Writes a held tool result although the turn stops before its checkpoint. The storage refuses it if the lease is
      // lost.
      await this.#committer.flush().then(
        () => this.#run?.recordHeld(),
        () => undefined,
      );
      if (mustBeParked(error) && !this.#isEnding) await this.#committer.park(error);
      else {
        if (!this.#isEnding) await this.#committer.release();
        throw error;
      }
    } finally {
      unwatch();
      this.#over.abort();
      await renewing;
      pieces.forget(at);
      hub.close(name, channel);
    }
  }

  /**
   * Hands the turn over to another process: at once if `now`, otherwise after its next commit, and after those of all
   * tools that are running. No other tool starts. Results that have arrived are committed before.
   */
  handOver(now: boolean): void {
    this.#committer.draining = true;
    this.#run?.startNoTools();
    if (!now) return;
    this.#committer.holder.limitBusyWait();
    this.#committer.handOver();
  }

  /** Cancels the run at once, or when it starts. The cancel is stored. */
  cancel(origin: string | null, reason: string | null): void {
    if (this.#isEnding || this.#over.signal.aborted) return;
    this.#cancel ??= { origin, reason };
    this.#run?.cancel(this.#cancel);
  }

  #plan(): Plan | Promise<Plan> {
    if (this.#isEnding) return storedPlan(this.#context, this.#turn, endingEngine(this.#context, this.#turn.start));
    return this.#turn.plan ?? storedPlan(this.#context, this.#turn);
  }

  async #runTurn(plan: Plan): Promise<void> {
    const { stored } = this.#turn;
    const { records, holder, orStop, writeChildRow } = this.#committer;
    const of = { context: this.#context, key: stored.key, scope: records };
    const children = childrenOf({ ...of, plan, holder, orStop, writeChildRow });
    this.#committer.mergesCheckpoints = !callsProgram(plan);
    this.#committer.final.hasOwnProtocol = plan.pinned.protocol.type === "own";
    records.maxConcurrency = plan.limits.maxConcurrency;
    const { trace, acceptedAt, engine: agent } = this.#turn.start;
    const openChildren = openChildrenOf(of);
    const origin = { parent: null, durable: true, trace, acceptedAt, agent, openChildren };
    const checkedPlan = this.#context.outputChecks.limited(plan, stored.key.tenant);
    this.#run = startRun(checkedPlan, () => this.#committer.ports, children, origin);
    if (this.#committer.draining) this.#run.startNoTools();
    this.#committer.hasRunningTools = this.#run.hasRunningTools;
    // A stored cancel applies before any effect is performed: the recorded rows are replayed, then the turn is
    // cancelled.
    if (this.#cancel !== null && !this.#isEnding) this.#run.cancel(this.#cancel);
    try {
      await this.#run.result;
    } finally {
      this.#over.abort();
    }
  }
}

/**
 * Returns whether a checkpoint or the end of a step calls a function of the program. Such a function must see only
 * committed results, so the checkpoint is then not merged with the tool result before it (`turn-committer.ts`, "Merged
 * checkpoints").
 */
function callsProgram({ options: { haltWhen, onCheckpoint }, hooks }: RunPlan): boolean {
  const functions = [haltWhen, onCheckpoint, hooks.beforeStep, hooks.afterStep];
  return functions.some((callback) => callback !== null && callback !== undefined);
}

/** Returns whether every process would fail at this turn in the same way. It is then parked until `recover`. */
function mustBeParked(error: unknown): error is RuntimeError {
  return error instanceof RuntimeError && ["diverged", "replay_missing", "corrupt_row"].includes(error.reason);
}
