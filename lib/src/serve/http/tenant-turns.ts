// Shares the turns of the event loop between tenants. Work that occupies the event loop for a moment, such as the start of a request or a slice of a large response, is
// harmless alone; that of hundreds of clients of one tenant, ready at the same time, would delay every request of other tenants until all of it is done.
//
// `TenantTurns` lets a tenant do `perTurn` units of work in one turn of the event loop. Further units wait, in order, for the next turns. A tenant with less work never
// waits, however much work others have.

import { microtasksDone } from "../../core/clock/clock.ts";

/** The units that a tenant has begun in this turn, and those that wait. */
type Turn = { begun: number; readonly waiting: (() => void)[] };

/**
 * Lets each tenant do `perTurn` units of work in one turn of the event loop.
 *
 * @primitive the turns of the event loop, by tenant
 */
export class TenantTurns {
  /** Tenants that have begun a unit in this turn, or have units that wait. */
  readonly #tenants = new Map<string, Turn>();
  readonly #perTurn: number;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Resolves when the tenant may begin a unit of work; `null`: at once. */
  next(tenant: string): Promise<void> | null {
    const turn = this.#tenants.get(tenant);
    if (turn === undefined) {
      const first: Turn = { begun: 1, waiting: [] };
      this.#tenants.set(tenant, first);
      this.#endTurn(tenant, first);
      return null;
    }
    if (turn.begun < this.#perTurn) {
      turn.begun += 1;
      return null;
    }
    return new Promise((resolve) => {
      turn.waiting.push(resolve);
    });
  }

  /** Begins the next units in the next turn of the event loop: I/O that is ready comes first. */
  #endTurn(tenant: string, turn: Turn): void {
    const startTurn = (): void => {
      const next = turn.waiting.splice(0, this.#perTurn);
      turn.begun = next.length;
      if (next.length === 0) this.#tenants.delete(tenant);
      else this.#endTurn(tenant, turn);
      for (const begin of next) begin();
    };
    void microtasksDone().then(startTurn);
  }
}
