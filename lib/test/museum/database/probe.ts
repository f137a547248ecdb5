// What the engines of the stored sessions report to: it counts what they perform, and it can hold them at a named place, so that the program that
// writes the database can cut a process there.

import type { Clock } from "everturn/engine";

export type Probe = {
  readonly clock: Clock;
  /** Counts one performed effect: a model call (`model`), a tool run (`pay`), a hook (`before pay`) or a cell (`cell`). */
  readonly count: (engine: string, effect: string) => void;
  /** Resolves at once, or never, if the process is to be cut at this place. */
  readonly pass: (place: string) => Promise<void>;
};

/** How often each effect was performed, by engine. */
export type Performed = { readonly [engine: string]: { readonly [effect: string]: number } };

export class CountingProbe implements Probe {
  readonly clock: Clock;
  /** The places that were reached and hold whoever reached them. */
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
