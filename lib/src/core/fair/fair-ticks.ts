// Shares the ticks of the event loop between tenants. Work that occupies the event loop for a moment, such as the start
// of a request, a slice of a large response or the end of a reply, is harmless alone; that of hundreds of clients of
// one tenant, ready at the same time, would delay everything else until all of it is done.
//
// `FairTicks` lets a tenant do `perTick` units of work in one tick of the event loop. Further units wait, in order,
// for the next ticks. A tenant with less work never waits, however much work others have. A unit holds a permit from
// its beginning to the end of the tick (fair-share.ts). Each unit that waits has a timer of its own: on edge
// platforms a timer belongs to a request and is lost when the request ends, and a request that waits for another one
// is cancelled. So the first timer that fires ends the tick for all units of the tenant.

import type { Permit } from "./fair-share.ts";

import { microtasksDone } from "../clock/clock.ts";
import { FairShare } from "./fair-share.ts";

/** Lets each tenant do `perTick` units of work in one tick of the event loop. */
export class FairTicks {
  readonly #share: FairShare;
  /** The units of each tenant that have begun in this tick, and those that wait. Each tick has a set of its own. */
  readonly #ticks = new Map<string, Set<Permit>>();

  constructor(perTick: number) {
    this.#share = new FairShare({ each: perTick });
  }

  /** Resolves when the tenant may begin a unit of work; `null`: at once. */
  next(tenant: string): Promise<void> | null {
    const unit = this.#share.request(tenant);
    const tick = this.#ticks.get(tenant);
    if (tick === undefined) this.#begin(tenant, new Set([unit]));
    else tick.add(unit);
    return unit.state === "held" ? null : this.#wait(tenant, unit);
  }

  async #wait(tenant: string, unit: Permit): Promise<void> {
    while (unit.state === "waiting") await this.#end(tenant);
  }

  #begin(tenant: string, units: Set<Permit>): void {
    this.#ticks.set(tenant, units);
    void this.#end(tenant);
  }

  /** Waits for the next tick of the event loop, in which I/O that is ready comes first, and begins its units. */
  async #end(tenant: string): Promise<void> {
    const tick = this.#ticks.get(tenant);
    await microtasksDone();
    // Another unit of the tenant has begun the next tick.
    if (tick === undefined || this.#ticks.get(tenant) !== tick) return;
    const waiting = new Set<Permit>();
    for (const unit of tick) if (unit.state === "waiting") waiting.add(unit);
    // Gives the permits to the units that wait.
    for (const unit of tick) if (!waiting.has(unit)) unit.release();
    if (waiting.size === 0) this.#ticks.delete(tenant);
    else this.#begin(tenant, waiting);
  }
}
