// Shares the ticks of the event loop between tenants. Work that occupies the event loop for a moment, such as the start
// of a request or a slice of a large response, is harmless alone; that of hundreds of clients of one tenant, ready at
// the same time, would delay every request of other tenants until all of it is done.
//
// `TenantTicks` lets a tenant do `perTick` units of work in one tick of the event loop. Further units wait, in order,
// for the next ticks. A tenant with less work never waits, however much work others have. Each unit that waits has a
// timer of its own: on edge platforms a timer belongs to a request and is lost when the request ends, and a request
// that waits for another one is cancelled.

import { microtasksDone } from "../../core/clock/clock.ts";

/** The units that a tenant has begun in this tick, and those that wait. `number`: increases with each tick. */
type Tick = { number: number; begun: number; readonly waiting: Set<symbol> };

/**
 * Lets each tenant do `perTick` units of work in one tick of the event loop.
 *
 * @primitive the ticks of the event loop, by tenant
 */
export class TenantTicks {
  /** Tenants that have begun a unit in this tick, or have units that wait. */
  readonly #tenants = new Map<string, Tick>();
  readonly #perTick: number;

  constructor(perTick: number) {
    this.#perTick = perTick;
  }

  /** Resolves when the tenant may begin a unit of work; `null`: at once. */
  next(tenant: string): Promise<void> | null {
    const tick = this.#tenants.get(tenant) ?? { number: 0, begun: 0, waiting: new Set() };
    this.#tenants.set(tenant, tick);
    if (tick.begun >= this.#perTick) return this.#wait(tenant, tick);
    tick.begun += 1;
    if (tick.begun === 1) void this.#endTick(tenant, tick);
    return null;
  }

  async #wait(tenant: string, tick: Tick): Promise<void> {
    const unit = Symbol();
    tick.waiting.add(unit);
    while (tick.waiting.has(unit)) await this.#endTick(tenant, tick);
  }

  /**
   * Waits for the next tick of the event loop, in which I/O that is ready comes first. The first caller begins the
   * units of the next tick.
   */
  async #endTick(tenant: string, tick: Tick): Promise<void> {
    const { number } = tick;
    await microtasksDone();
    if (tick.number !== number) return;
    tick.number += 1;
    const next = Array.from(tick.waiting).slice(0, this.#perTick);
    for (const unit of next) tick.waiting.delete(unit);
    tick.begun = next.length;
    if (next.length === 0) this.#tenants.delete(tenant);
    else void this.#endTick(tenant, tick);
  }
}
