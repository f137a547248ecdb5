// The durable journal of a turn: replays recorded rows, then performs effects and hands out their responses.
//
// Theory of operation
//   The loop calls `order` for every effect and awaits `next` for every item. The journal has two phases.
//   replay   `next` returns the recorded items in order. Effects that are ordered meanwhile are deferred. A recorded
//            response removes its effect from the deferred ones, so the effect is not performed (H1). The canonical
//            JSON of the ordered effect must equal the recorded one; otherwise the code has changed and the turn has
//            diverged.
//   live     when the recorded rows are used up, the deferred effects and all later ones are performed. `next` returns
//            responses in the order in which they settle.
//   The journal writes nothing. `TurnCommitter` writes each item in the batch of its consequences (Q1).
//
// Invariants
//   1. An effect whose response is recorded is never performed (H1).
//   2. `before` resolves before an effect is performed: the process still holds the lease.
//   3. After `cancel`, `next` returns the recorded rows that are left and then the cancel, never another response (Q9).
//      After `cancelAfterSettled`, the responses that have settled come first. After `stop`, `next` rejects, and
//      nothing is recorded; after `stopAfterSettled`, it rejects when the responses that have settled are handed out.
//      Nothing is performed meanwhile.

import type { Cancellation, Effect, EffectResponse } from "../../core/kernel/internal.ts";
import type { Json } from "../../core/model/internal.ts";
import type { CancellableJournal, JournalItem } from "../../core/run/internal.ts";
import type { JournalRow } from "../rows/values.ts";

import { canonicalJson } from "../../core/kernel/internal.ts";
import { RuntimeError, runtimeFailure, toCause } from "../../core/model/internal.ts";
import { sha256 } from "../rows/digest.ts";
import { diverged, divergentPaths } from "./divergence.ts";

/** A journal row that is in effect, with its ordinal. */
export type RecordedRow = {
  readonly ordinal: number;
  readonly row: JournalRow & { readonly item: JournalItem };
  /** The row precedes a restarted step: it is replayed even if the code orders another effect now (Q14). */
  readonly binding: boolean;
};

/**
 * The journal rows that are in effect: without the rows of restarted steps and without the rows that restart them
 * (Q14).
 */
export function effectiveRows(rows: readonly JournalRow[]): readonly RecordedRow[] {
  let effective: RecordedRow[] = [];
  for (const [index, row] of rows.entries()) {
    const { item } = row;
    if (item.type === "step_restarted") {
      effective = effective
        .filter(({ ordinal }) => ordinal < item.from)
        .map((recorded) => ({ ...recorded, binding: true }));
    } else {
      effective.push({ ordinal: index + 1, row: { ...row, item }, binding: false });
    }
  }
  return effective;
}

/** How a turn is ended without its engine (Q16). */
export type JournalEnding = {
  /**
   * Selects the effects that are performed after the replay: calls that had started, which are answered by their replay
   * policy.
   */
  readonly performs: (effect: Effect) => boolean;
  /** The item that ends the turn, handed out after the responses of these effects. */
  readonly item: JournalItem;
};

/** Options of {@link DurableJournal}. */
export type JournalOptions = {
  /** Ends the turn after the replay. Recorded rows are replayed without comparing effects. Default: `null`. */
  readonly ending?: JournalEnding | null;
  /**
   * `true`: an effect without a recorded response stops the loop with `replay_missing`. For offline replays. Default:
   * `false`.
   */
  readonly strict?: boolean;
  /** Called before an effect is performed; a rejection stops the loop. */
  readonly before?: ((effect: Effect) => void | Promise<void>) | null;
  /** Completes a response before it is handed out. */
  readonly finish?: ((effect: Effect, response: EffectResponse) => Promise<EffectResponse>) | null;
};

/** The journal port of one turn. */
export class DurableJournal implements CancellableJournal {
  readonly #recorded: readonly RecordedRow[];
  readonly #strict: boolean;
  readonly #ending: JournalEnding | null;
  /** The number of effects that are being performed. */
  #inFlight = 0;
  readonly #before: JournalOptions["before"];
  readonly #finish: JournalOptions["finish"];
  /** The index of the next recorded row to replay. */
  #next = 0;
  /** Ordered effects as canonical JSON, by id. */
  readonly #ordered = new Map<string, string>();
  /**
   * Effects that were ordered during the replay and have no recorded response so far, by id. Performed after the
   * replay.
   */
  readonly #deferred = new Map<string, () => void>();
  /** Items that have settled before `next` was called. */
  readonly #settled: JournalItem[] = [];
  /** The cancel that follows the settled items; `null`: none. */
  #lastItem: (() => JournalItem) | null = null;
  #waiting: { readonly resolve: (item: JournalItem) => void; readonly reject: (reason: unknown) => void } | null = null;
  /** Why the loop stops; `afterSettled`: not before the responses that have settled are handed out. */
  #stopped: { readonly reason: unknown; readonly afterSettled: boolean } | null = null;
  #cancelled = false;
  #failed = false;
  /** The number of effects that were performed, not replayed. */
  performed = 0;

  constructor(
    recorded: readonly RecordedRow[],
    { strict = false, before = null, finish = null, ending = null }: JournalOptions = {},
  ) {
    this.#recorded = recorded;
    this.#strict = strict;
    this.#before = before;
    this.#finish = finish;
    this.#ending = ending;
  }

  /** The item that was handed out last, if it was a recorded row; `null`: it is new and must be committed. */
  get replayed(): RecordedRow | null {
    return this.#next > 0 && this.#next <= this.#recorded.length && this.#freshItems === 0
      ? (this.#recorded[this.#next - 1] ?? null)
      : null;
  }
  /** The number of items that were handed out after the replay. */
  #freshItems = 0;

  /** The loop was stopped: no effect that is ordered from now on is performed. */
  get isStopped(): boolean {
    return this.#stopped !== null;
  }

  /** The canonical JSON of an ordered effect, for its journal row; `null`: no effect of that id was ordered. */
  effectText(id: string): string | null {
    return this.#ordered.get(id) ?? null;
  }

  /** Performs an effect, or defers it during the replay. Returns at once. */
  readonly order = (effect: Effect, perform: () => Promise<EffectResponse>): void => {
    this.#ordered.set(effect.id, canonicalJson(effect));
    if (this.#ending !== null && !this.#ending.performs(effect)) return;
    if (this.#next < this.#recorded.length) {
      this.#deferred.set(effect.id, () => this.#perform(effect, perform));
      return;
    }
    this.#perform(effect, perform);
  };

  /** The next item. Only one call may be pending. */
  readonly next = (): Promise<JournalItem> => {
    if (this.#stopped !== null && !(this.#stopped.afterSettled && this.#settled[0]?.type === "response")) {
      return Promise.reject(this.#stopped.reason);
    }
    const recorded = this.#recorded[this.#next];
    if (recorded !== undefined) {
      this.#next += 1;
      return this.#replay(recorded);
    }
    this.#performDeferred();
    if (this.#ending !== null && this.#inFlight === 0 && this.#settled.length === 0) {
      this.#settled.push(this.#ending.item);
    }
    const item = this.#settled.shift() ?? this.#lastItem?.();
    if (item !== undefined) {
      this.#freshItems += 1;
      return Promise.resolve(item);
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      // Performing the deferred effects may have stopped the loop.
      this.#rejectWaiter();
    });
  };

  /** Ends the turn with a cancel: responses that were not handed out yet are dropped. */
  readonly cancel = (cancellation: Cancellation): void => {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#settled.length = 0;
    this.#settle({ type: "cancel", cancellation });
  };

  /** Ends the turn with a cancel after the responses that have settled. */
  readonly cancelAfterSettled = (cancellation: () => Cancellation): void => {
    if (this.#cancelled) return;
    const item = (): JournalItem => ({ type: "cancel", cancellation: cancellation() });
    if (this.#waiting !== null) this.#settle(item());
    this.#cancelled = true;
    this.#lastItem = item;
  };

  /** Ends the turn with a failure: a function of the program threw. */
  readonly fail = (what: string, reason: unknown): void => {
    this.#failed = true;
    const cause = toCause(reason);
    const message = `a function of the program threw while ${what}: ${cause?.message ?? "the thrown value has no message"}`;
    this.#settle({ type: "failure", failure: runtimeFailure("callback_failed", { message, cause }) });
  };

  /** Stops the loop: another process holds the session, or the storage failed. Nothing is recorded. */
  stop(reason: unknown): void {
    this.#stopped = { reason: this.#stopped === null ? reason : this.#stopped.reason, afterSettled: false };
    this.#rejectWaiter();
  }

  /**
   * Stops the loop after the responses that have settled: this process shuts down, and the results that it holds would
   * be lost.
   */
  stopAfterSettled(reason: unknown): void {
    this.#stopped ??= { reason, afterSettled: true };
    this.#rejectWaiter();
  }

  /** Rejects the pending `next` if the loop was stopped. */
  #rejectWaiter(): void {
    if (this.#stopped === null) return;
    this.#waiting?.reject(this.#stopped.reason);
    this.#waiting = null;
  }

  /** Returns the item of a recorded row after comparing its effect with the one that the loop ordered. */
  async #replay({ ordinal, row, binding }: RecordedRow): Promise<JournalItem> {
    if (row.item.type !== "response") return row.item;
    const { id } = row.item.response;
    const ordered = this.#ordered.get(id);
    // A turn that is being ended is not compared. A response that the turn does not await is stale and changes nothing
    // (K4).
    if (this.#ending !== null) {
      this.#deferred.delete(id);
      return row.item;
    }
    if (ordered === undefined) throw diverged(ordinal, id, [`no effect of this id was ordered`]);
    this.#deferred.delete(id);
    if (ordered === row.effect || binding) return row.item;
    if (row.effect === null || (await sha256(row.effect)) !== row.hash) {
      throw new RuntimeError("corrupt_row", {
        message: `row ${ordinal} of the journal does not match its hash; restore it from a backup, or call recover(id, { from: "step" })`,
      });
    }
    const recordedEffect: Json = JSON.parse(row.effect);
    const orderedEffect: Json = JSON.parse(ordered);
    throw diverged(ordinal, id, divergentPaths(recordedEffect, orderedEffect));
  }

  /** Starts the effects that were ordered during the replay and have no recorded response. */
  #performDeferred(): void {
    if (this.#deferred.size === 0) return;
    const performs = [...this.#deferred.values()];
    this.#deferred.clear();
    for (const perform of performs) perform();
  }

  #perform(effect: Effect, perform: () => Promise<EffectResponse>): void {
    // The response would be dropped: the turn has been cancelled, has failed or was stopped.
    if (this.#cancelled || this.#failed || this.#stopped !== null) return;
    if (this.#strict) {
      const message = `the journal has no response to ${effect.id}, and a replay must not perform effects`;
      return this.stop(new RuntimeError("replay_missing", { message, paths: [effect.id] }));
    }
    this.performed += 1;
    this.#inFlight += 1;
    this.#performAndFinish(effect, perform)
      .finally(() => {
        this.#inFlight -= 1;
      })
      .then(
        (response) => this.#settle({ type: "response", response }),
        // A performer rejects only if a function of the program threw. That ends the turn: a retry would throw again.
        (reason: unknown) => this.fail(`${effect.type} was performed`, reason),
      );
  }

  async #performAndFinish(effect: Effect, perform: () => Promise<EffectResponse>): Promise<EffectResponse> {
    const allowed = this.#before?.(effect);
    if (allowed instanceof Promise) await this.#whenAllowed(allowed);
    const response = await perform();
    return this.#finish === null || this.#finish === undefined ? response : this.#finish(effect, response);
  }

  /**
   * Waits for permission to perform. A rejection stops the loop, and the returned promise never settles: the effect has
   * no response.
   */
  async #whenAllowed(allowed: Promise<void>): Promise<void> {
    try {
      await allowed;
    } catch (error) {
      this.stop(error);
      return new Promise(() => undefined);
    }
  }

  /** Hands an item to the waiting loop, or queues it. After a cancel, other items are dropped. */
  #settle(item: JournalItem): void {
    if (this.#cancelled && item.type !== "cancel") return;
    const waiting = this.#waiting;
    if (waiting === null) {
      this.#settled.push(item);
      return;
    }
    this.#waiting = null;
    this.#freshItems += 1;
    waiting.resolve(item);
  }
}
