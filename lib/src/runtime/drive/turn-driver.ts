// Drives one turn of one session: puts the durable ports under the one loop (`run/driver.ts`), renews the lease while the loop runs, and stops when the
// turn has ended, another process holds the session, or this process is about to stop.

import type { JournalItem, Plan, Ports, RunPlan, Started } from "../../run/internal.ts";
import type { RuntimeContext } from "../context.ts";
import type { Lease } from "../rows/lease.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { NextTurn } from "./turn-committer.ts";

import { isEverturnError, RuntimeError } from "../../model/internal.ts";
import { startRun, callerInbox } from "../../run/internal.ts";
import { nameOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { childrenOf } from "./children.ts";
import { storedPlan } from "./driven-turn.ts";
import { offlineEngine } from "./offline-engine.ts";
import { HandedOver, TurnCommitter } from "./turn-committer.ts";

export class TurnDriver {
  readonly #context: RuntimeContext;
  readonly #turn: DrivenTurn;
  readonly #committer: TurnCommitter;
  readonly #isEnding: boolean;
  readonly #over = new AbortController();
  #run: Started | null = null;

  /** `ending`: the turn is replayed without its engine and ended with this item (Q16). */
  constructor(context: RuntimeContext, turn: DrivenTurn, lease: Lease, ending: JournalItem | null = null) {
    this.#context = context;
    this.#turn = turn;
    this.#isEnding = ending !== null;
    this.#committer = new TurnCommitter(context, turn, lease, ending);
  }

  /** The turn that follows in this process once this one has ended. */
  get next(): NextTurn | null {
    return this.#committer.next;
  }

  /** The lease, which may have been claimed again since the driver began (Q18). */
  get lease(): Lease {
    return this.#committer.holder.lease;
  }

  /**
   * Drives the turn to its end. Rejects with what stopped it; the turn is then as it was last committed, and the lease is released, unless the turn was to
   * be ended: whoever ends it holds the lease until it is done.
   */
  async drive(): Promise<void> {
    const { hub, pieces } = this.#context;
    const { channel, at } = this.#committer;
    const name = nameOf(this.#turn.stored.key);
    hub.open(name, channel);
    try {
      await this.#runTurn(await this.#plan());
    } catch (error) {
      // The result of a tool is written although the turn stops before its checkpoint. Under a lost lease that is refused.
      await this.#committer.flush().catch(() => undefined);
      if (mustBeParked(error) && !this.#isEnding) await this.#committer.park(error);
      else {
        if (!this.#isEnding) await this.#committer.release();
        throw error;
      }
    } finally {
      this.#over.abort();
      pieces.forget(at);
      hub.close(name, channel);
    }
  }

  /** Hands the turn over to another process: at its next commit, or now. */
  handOver(now: boolean): void {
    this.#committer.draining = true;
    if (!now) return;
    this.#committer.holder.limitBusyWait();
    this.#committer.stop(new HandedOver());
  }

  cancel(origin: string, reason: string): void {
    this.#run?.cancel({ origin, reason });
  }

  #plan(): Plan | Promise<Plan> {
    if (this.#isEnding) return storedPlan(this.#context, this.#turn, offlineEngine);
    return this.#turn.plan ?? storedPlan(this.#context, this.#turn);
  }

  async #runTurn(plan: Plan): Promise<void> {
    const { stored, cancel } = this.#turn;
    const { at, records, holder } = this.#committer;
    const children = childrenOf({ context: this.#context, key: stored.key, plan, scope: records, holder });
    this.#committer.mergesCheckpoints = !callsProgram(plan);
    records.maxConcurrency = plan.maxConcurrency;
    this.#run = startRun(plan, () => withCallerInput(plan, this.#committer.ports), children);
    // Before anything is performed: the journal is replayed, and then the turn is cancelled.
    if (cancel !== null && !this.#isEnding) this.#run.cancel(cancel);
    const renewing = this.#renew();
    const unwatch = this.#context.cancels.watch(at, (row) => {
      const { origin, reason } = readValue("cancels", row).evidence;
      if (!this.#isEnding) this.#run?.cancel({ origin, reason });
    });
    try {
      await this.#run.result;
    } finally {
      unwatch();
      this.#over.abort();
      await renewing;
    }
  }

  /** Renews the lease every `renewMs` until the turn is over. */
  async #renew(): Promise<void> {
    const { clock, lease: timings } = this.#context;
    const { signal } = this.#over;
    for (;;) {
      const slept = await clock.sleep(timings.renewMs, signal).then(
        () => true,
        () => false,
      );
      if (!slept || signal.aborted) return;
      // Every commit extends the lease: only a turn that waits for an effect renews.
      try {
        await this.#committer.holder.renew();
      } catch (error) {
        if (signal.aborted) return;
        // Other errors of the storage may pass before the lease expires.
        if (isEverturnError(error) && error.reason === "lease_lost") {
          this.#committer.stop(error);
          return;
        }
      }
    }
  }
}

/** Does a checkpoint, or the end of a step, call a function of the program? */
function callsProgram({ haltWhen, onCheckpoint, stepHooks }: RunPlan): boolean {
  const functions = [haltWhen, onCheckpoint, stepHooks.beforeStep, stepHooks.afterStep];
  return functions.some((given) => given !== null && given !== undefined);
}

/** Would every process fail at this turn? Then it is parked until a person decides. */
function mustBeParked(error: unknown): error is RuntimeError {
  return error instanceof RuntimeError && ["diverged", "replay_missing", "corrupt_row"].includes(error.reason);
}

/** Input from the engine's `onCheckpoint` follows the input from the inbox. */
function withCallerInput(plan: RunPlan, ports: Ports): Ports {
  if (plan.onCheckpoint === null || plan.onCheckpoint === undefined) return ports;
  const caller = callerInbox(plan);
  return {
    ...ports,
    inbox: {
      claim: async (asked, turn) => {
        const stored = await ports.inbox.claim(asked, turn);
        const more = await caller.claim(asked, turn);
        return {
          ...stored,
          messages: [...stored.messages, ...more.messages],
          transientMessages: [...stored.transientMessages, ...more.transientMessages],
        };
      },
    },
  };
}
