// Counts the effects of the engines of stored sessions, and can hold them at a named point, so that the program that
// writes the database can kill a process there.

import type { Clock } from "everturn";

export type Probe = {
  readonly clock: Clock;
  /**
   * Counts one performed effect: a model call (`model`), a tool run (`pay`), a hook (`before pay`) or a cell (`cell`).
   */
  readonly count: (engine: string, effect: string) => void;
  /** Resolves at once, or never, if the process is to be cut at this place. */
  readonly pass: (place: string) => Promise<void>;
};

/** How often each effect was performed, by engine. */
export type Performed = { readonly [engine: string]: { readonly [effect: string]: number } };

export class CountingProbe implements Probe {
  readonly clock: Clock;
  /** The points that were reached and hold their callers. */
  readonly held = new Set<string>();
  readonly #performed: { [engine: string]: { [effect: string]: number } } = {};
  readonly #holds: ReadonlySet<string>;

  constructor(clock: Clock, holds: readonly string[] = []) {
    this.clock = clock;
    this.#holds = new Set(holds);
  }

  get performed(): Performed {
    return this.#performed;
  }

  readonly count = (engine: string, effect: string): void => {
    const counts = (this.#performed[engine] ??= {});
    counts[effect] = (counts[effect] ?? 0) + 1;
  };

  readonly pass = (place: string): Promise<void> => {
    if (!this.#holds.has(place)) return Promise.resolve();
    this.held.add(place);
    return new Promise(() => undefined);
  };
}
