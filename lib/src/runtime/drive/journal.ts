// A journal that outlives the process. It is given what was recorded, and hands that out first, in its order; only when the record is used up is
// anything performed. What settles after that is handed out as it comes, and is written by whoever commits it: in the same write as what
// follows from it, where the storage can.

import type { Cancellation, Effect, EffectResponse } from "../../kernel/internal.ts";
import type { Json } from "../../model/internal.ts";
import type { CancellableJournal, JournalItem } from "../../run/internal.ts";
import type { JournalRow } from "../rows/values.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { RuntimeError, runtimeFailure, toCause } from "../../model/internal.ts";
import { sha256 } from "../rows/digest.ts";
import { diverged, divergentPaths } from "./divergence.ts";

/** A recorded row that still counts, at its place in the record. */
export type Recorded = {
  readonly ordinal: number;
  readonly row: JournalRow & { readonly item: JournalItem };
  /** It comes before a step that was started again: it holds as it is, whatever the code asks for now (Q14). */
  readonly binding: boolean;
};

/** The rows that count: without those of steps that were started again, and how many ordinals have been used. */
export function countingRows(rows: readonly JournalRow[]): readonly Recorded[] {
  let kept: Recorded[] = [];
  for (const [index, row] of rows.entries()) {
    const { item } = row;
    if (item.type === "step_restarted") {
      kept = kept.filter(({ ordinal }) => ordinal < item.from).map((one) => ({ ...one, binding: true }));
    } else {
      kept.push({ ordinal: index + 1, row: { ...row, item }, binding: false });
    }
  }
  return kept;
}

/** How a turn is ended without its engine (Q16). */
export type JournalEnding = {
  /** Effects that are still performed after the record: calls that had started, which are answered by their replay policy. */
  readonly performs: (effect: Effect) => boolean;
  /** The last item. */
  readonly item: JournalItem;
};

export type JournalOptions = {
  /** The record holds whatever the code asks for now; after it the turn is ended. */
  readonly ending?: JournalEnding | null;
  /** Nothing may be performed: what is not on record is an error. */
  readonly strict?: boolean;
  /** Called before an effect is performed; rejects when this process must not perform it. */
  readonly before?: (() => void | Promise<void>) | null;
  /** What is added to an answer before it counts. */
  readonly finish?: ((effect: Effect, response: EffectResponse) => Promise<EffectResponse>) | null;
};

export class DurableJournal implements CancellableJournal {
  readonly #recorded: readonly Recorded[];
  readonly #strict: boolean;
  readonly #ending: JournalEnding | null;
  /** Effects under way while the turn is being ended. */
  #underWay = 0;
  readonly #before: JournalOptions["before"];
  readonly #finish: JournalOptions["finish"];
  #next = 0;
  /** What was ordered, as canonical text, until it is answered. */
  readonly #ordered = new Map<string, string>();
  /** Effects by id that were ordered during the replay and have no recorded response yet: performed when the record is used up. */
  readonly #deferred = new Map<string, () => void>();
  readonly #settled: JournalItem[] = [];
  #waiting: { readonly resolve: (item: JournalItem) => void; readonly reject: (reason: unknown) => void } | null = null;
  #broken: { readonly reason: unknown } | null = null;
  #cancelled = false;
  #failed = false;
  /** Effects that were performed, not replayed. */
  performed = 0;

  constructor(
    recorded: readonly Recorded[],
    { strict = false, before = null, finish = null, ending = null }: JournalOptions = {},
  ) {
    this.#recorded = recorded;
    this.#strict = strict;
    this.#before = before;
    this.#finish = finish;
    this.#ending = ending;
  }

  /** The row that was handed out last, if it came from the record. */
  get replayed(): Recorded | null {
    return this.#next > 0 && this.#next <= this.#recorded.length && this.#live === 0
      ? (this.#recorded[this.#next - 1] ?? null)
      : null;
  }
  #live = 0;

  /** An effect that was ordered, as it is written down. */
  effectText(id: string): string | null {
    return this.#ordered.get(id) ?? null;
  }

  readonly order = (effect: Effect, perform: () => Promise<EffectResponse>): void => {
    this.#ordered.set(effect.id, canonicalJson(effect));
    if (this.#ending !== null && !this.#ending.performs(effect)) return;
    if (this.#next < this.#recorded.length) {
      this.#deferred.set(effect.id, () => this.#perform(effect, perform));
      return;
    }
    this.#perform(effect, perform);
  };

  readonly next = (): Promise<JournalItem> => {
    if (this.#broken !== null) return Promise.reject(this.#broken.reason);
    const recorded = this.#recorded[this.#next];
    if (recorded !== undefined) {
      this.#next += 1;
      return this.#replay(recorded);
    }
    this.#performDeferred();
    if (this.#ending !== null && this.#underWay === 0 && this.#settled.length === 0) {
      this.#settled.push(this.#ending.item);
    }
    const item = this.#settled.shift();
    if (item !== undefined) {
      this.#live += 1;
      return Promise.resolve(item);
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      // What was ordered just now may have been refused.
      this.#refuse();
    });
  };

  readonly cancel = (cancellation: Cancellation): void => {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#settled.length = 0;
    this.#settle({ type: "cancel", cancellation });
  };

  readonly fail = (what: string, reason: unknown): void => {
    this.#failed = true;
    const cause = toCause(reason);
    const message = `a function of the program threw while ${what}: ${cause?.message ?? "no reason was given"}`;
    this.#settle({ type: "failure", failure: runtimeFailure("callback_failed", { message, cause }) });
  };

  /** Stops the loop: somebody else has the session, or the storage failed. Nothing is recorded. */
  break(reason: unknown): void {
    this.#broken ??= { reason };
    this.#refuse();
  }

  #refuse(): void {
    if (this.#broken === null) return;
    this.#waiting?.reject(this.#broken.reason);
    this.#waiting = null;
  }

  async #replay({ ordinal, row, binding }: Recorded): Promise<JournalItem> {
    if (row.item.type !== "response") return row.item;
    const { id } = row.item.response;
    const asked = this.#ordered.get(id);
    // A response that the turn does not wait for is stale, and changes nothing (K4).
    if (this.#ending !== null) {
      this.#deferred.delete(id);
      return row.item;
    }
    if (asked === undefined) throw diverged(ordinal, id, [`nothing of that name was asked for`]);
    this.#deferred.delete(id);
    if (asked === row.effect || binding) return row.item;
    if (row.effect === null || (await sha256(row.effect)) !== row.hash) {
      throw new RuntimeError("corrupt_row", {
        message: `row ${ordinal} of the journal does not fit its own hash; restore it from a backup, or recover(id, { from: "step" })`,
      });
    }
    const recorded: Json = JSON.parse(row.effect);
    const wanted: Json = JSON.parse(asked);
    throw diverged(ordinal, id, divergentPaths(recorded, wanted));
  }

  #performDeferred(): void {
    if (this.#deferred.size === 0) return;
    const performs = [...this.#deferred.values()];
    this.#deferred.clear();
    for (const perform of performs) perform();
  }

  #perform(effect: Effect, perform: () => Promise<EffectResponse>): void {
    // Nothing is begun that nobody here will hear the answer to.
    if (this.#cancelled || this.#failed || this.#broken !== null) return;
    if (this.#strict) {
      const message = `the record has no answer to ${effect.id}, and nothing may be performed here`;
      return this.break(new RuntimeError("replay_missing", { message, paths: [effect.id] }));
    }
    this.performed += 1;
    this.#underWay += 1;
    this.#performed(effect, perform)
      .finally(() => {
        this.#underWay -= 1;
      })
      .then(
        (response) => this.#settle({ type: "response", response }),
        // A function of the program's own threw. That ends the turn: trying again would throw again.
        (reason: unknown) => this.fail(`${effect.type} was performed`, reason),
      );
  }

  async #performed(effect: Effect, perform: () => Promise<EffectResponse>): Promise<EffectResponse> {
    const allowed = this.#before?.();
    if (allowed instanceof Promise) await this.#allowed(allowed);
    const response = await perform();
    return this.#finish === null || this.#finish === undefined ? response : this.#finish(effect, response);
  }

  /** An effect that this process must not perform stops the loop; its promise never settles. */
  async #allowed(allowed: Promise<void>): Promise<void> {
    try {
      await allowed;
    } catch (error) {
      this.break(error);
      return new Promise(() => undefined);
    }
  }

  #settle(item: JournalItem): void {
    if (this.#cancelled && item.type !== "cancel") return;
    const waiting = this.#waiting;
    if (waiting === null) {
      this.#settled.push(item);
      return;
    }
    this.#waiting = null;
    this.#live += 1;
    waiting.resolve(item);
  }
}
