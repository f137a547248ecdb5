// When the effects of a turn were performed, for people who look at the turn later: stored with the journal rows,
// compared by no replay.

import type { Effect } from "../../core/kernel/internal.ts";
import type { TurnEvent } from "../../core/model/internal.ts";
import type { LiveOrigin } from "../../core/run/internal.ts";
import type { Lease } from "../rows/lease.ts";
import type { EffectTiming } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";

type Times = {
  readonly startedAt: number;
  first: { readonly at: number; readonly attempt: string } | null;
  endedAt: number | null;
};

/** The times of the effects that this process performs in one turn. */
export class EffectTimes {
  readonly #clock: RuntimeContext["clock"];
  readonly #times = new Map<string, Times>();

  constructor(clock: RuntimeContext["clock"]) {
    this.#clock = clock;
  }

  /** The effect begins. */
  start({ id }: Effect): void {
    this.#times.set(id, { startedAt: this.#clock.now(), first: null, endedAt: null });
  }

  /** Live events of an effect: the first part of a reply in each attempt is kept. */
  live(events: readonly TurnEvent[], { effectId, attempt: { epoch, n } }: LiveOrigin): void {
    const times = this.#times.get(effectId);
    const attempt = `${epoch}.${n}`;
    if (times === undefined || times.first?.attempt === attempt || !events.some(isContent)) return;
    times.first = { at: this.#clock.now(), attempt };
  }

  /** The effect has its response. */
  end({ id }: Effect): void {
    const times = this.#times.get(id);
    if (times !== undefined) times.endedAt = this.#clock.now();
  }

  /**
   * The timing of a journal row, of the effect `id` or of an item that answers no effect (`null`). Called once for each
   * effect.
   */
  take(id: string | null, { owner, since, takesOver }: Lease): EffectTiming {
    const times = id === null ? undefined : this.#times.get(id);
    if (id !== null) this.#times.delete(id);
    const now = this.#clock.now();
    return {
      startedAt: times?.startedAt ?? now,
      firstAt: times?.first?.at ?? null,
      endedAt: times?.endedAt ?? now,
      owner,
      heldSince: since,
      takesOver,
    };
  }
}

/** Returns whether an event carries the first content of a reply. */
function isContent({ type }: TurnEvent): boolean {
  return type === "text_delta" || type === "reasoning_delta" || type === "tool_call_started";
}
