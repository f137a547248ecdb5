// Seeded random numbers for the simulator. Every stream of numbers is named, so that removing one operation of a script
// does not change the numbers of the others: that keeps a failing run failing while it is shrunk.

/** A deterministic stream of random choices. */
export type Random = {
  /** A number from 0 (inclusive) to 1 (exclusive). */
  readonly next: () => number;
  /** A whole number from `low` to `high`, both inclusive. */
  readonly whole: (low: number, high: number) => number;
  /** `true` with this probability. */
  readonly chance: (probability: number) => boolean;
  /** One of the items. */
  readonly pick: <const T>(items: readonly [T, ...T[]]) => T;
};

/** The stream of a seed and a name (mulberry32 over a hash of both). */
export function randomStream(seed: number, name: string): Random {
  let state = hashText(`${seed}/${name}`);
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const whole = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    whole,
    chance: (probability) => next() < probability,
    pick: (items) => items[whole(0, items.length - 1)] ?? items[0],
  };
}

/** FNV-1a, 32 bits. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash;
}
