// A fair share of a limited resource of this process: memory, reads in progress, requests, ticks of the event loop.
//
// Theory of operation
//   A `FairShare` counts units, or amounts such as bytes, that are held: in total, and by key. A key is whoever shares
//   the resource with others, in most cases a tenant. When the total or the share of a key is used up, one of three
//   rules holds, which the caller chooses by the method that it calls:
//     wait     `request`, `run`  a unit waits until one is free. The requests of a key are granted in order; keys with
//                                waiting requests are granted round robin, however many requests each of them has
//     refuse   `tryTake`         nothing is taken, and the caller answers that the limit is reached
//     evict    `hold`            the new amount is taken, and the oldest ones that were taken by `hold` are lost: of
//                                the same key if its share is used up, otherwise of the key that holds the most
//   It is a counting semaphore if there is one key. It knows no time: a caller that gives up waiting releases its
//   permit. It is one process: the slots of limits, which all processes share, are rows of the storage
//   (durable/rows/limits.ts).
//
// Invariants
//   1. What is held is at most the total, and for each key at most its share. There are two exceptions: `take`, for
//      callers that have a reason to exceed them, and a single amount that is larger than the share of its key, which
//      is taken when the key holds nothing else: it could never be taken otherwise.
//   2. A request waits only while the total or the share of its key is used up, as of the last time that something was
//      requested, taken or given back.
//   3. A permit is given back once, also if it is released twice. A permit that is released while it waits leaves the
//      queue, and is never granted.
//   4. A key that holds nothing and waits for nothing has no entry: memory is bounded by what is held, not by the
//      number of keys that were ever seen.
//   5. A grant costs O(1), and O(keys that wait) if the total was used up: each of those that are passed over holds its
//      whole share of the total.

/**
 * What may be held at once. Without a limit, it is unlimited. The values may change: they are read whenever something
 * is requested, taken or given back. After one has become larger, `grantFree` grants what it allows.
 */
export type Capacity = {
  /** By all keys together. */
  readonly total?: number;
  /** By each key. */
  readonly each?: number;
};

/** A unit that was requested. */
export type Permit = {
  readonly state: "waiting" | "held" | "released";
  /** Resolves when the permit is held. Stays pending if the permit is released before. */
  readonly granted: Promise<void>;
  /** Gives the unit back, or stops waiting for it. Further calls have no effect. */
  readonly release: () => void;
};

/** An amount that may be evicted. */
type Evictable = { readonly key: string; readonly amount: number; readonly evicted: () => void };

/**
 * The shares of one resource.
 *
 * @primitive a resource of the process, between keys: wait, refuse or evict
 */
export class FairShare {
  readonly #capacity: Capacity;
  #held = 0;
  readonly #heldByKey = new Map<string, number>();
  /**
   * Keys with waiting requests, and how these are granted, in order. The key that was granted one last is at the end.
   */
  readonly #queues = new Map<string, Set<() => void>>();
  /** What `hold` has taken and may be evicted, by key, oldest first. */
  readonly #evictable = new Map<string, Set<Evictable>>();

  constructor(capacity: Capacity) {
    this.#capacity = capacity;
  }

  get #total(): number {
    return this.#capacity.total ?? Infinity;
  }

  get #each(): number {
    return this.#capacity.each ?? Infinity;
  }

  /** What all keys hold. */
  get held(): number {
    return this.#held;
  }

  /** What a key holds. */
  heldBy(key: string): number {
    return this.#heldByKey.get(key) ?? 0;
  }

  /** The key that holds the most; `null`: none holds anything. */
  get largestKey(): string | null {
    let largest: string | null = null;
    for (const [key, held] of this.#heldByKey) if (largest === null || held > this.heldBy(largest)) largest = key;
    return largest;
  }

  /** Takes an amount if it is free, and returns whether it did. `giveBack` gives it back. */
  tryTake(key: string, amount = 1): boolean {
    const held = this.heldBy(key);
    const isFree = held + amount <= this.#each && this.#held + amount <= this.#total;
    if (!isFree && (held > 0 || amount <= this.#each)) return false;
    this.take(key, amount);
    return true;
  }

  /** Takes an amount also if it is not free. */
  take(key: string, amount = 1): void {
    this.#held += amount;
    const held = this.heldBy(key) + amount;
    if (held > 0) this.#heldByKey.set(key, held);
  }

  /** Gives back an amount that was taken, or a part of it, and grants requests that wait for it. */
  giveBack(key: string, amount = 1): void {
    const wasUsedUp = this.#isUsedUp;
    this.#held -= amount;
    const left = this.heldBy(key) - amount;
    if (left > 0) this.#heldByKey.set(key, left);
    else this.#heldByKey.delete(key);
    // While the total is not used up, a request waits for the share of its key only.
    if (wasUsedUp) this.grantFree();
    else while (this.#grantNext(key));
  }

  /** Grants requests that wait while a unit is free. Called after the capacity has become larger. */
  grantFree(): void {
    // A key that is granted a unit moves to the end, where this loop arrives again.
    for (const waiting of this.#queues.keys()) {
      if (this.#isUsedUp) break;
      this.#grantNext(waiting);
    }
  }

  /** Requests a unit, which is held at once if it is free. */
  request(key: string): Permit {
    let state: Permit["state"] = "waiting";
    let settle: () => void;
    const granted = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const grant = (): void => {
      state = "held";
      settle();
    };
    if (this.tryTake(key)) grant();
    else this.#queues.set(key, (this.#queues.get(key) ?? new Set()).add(grant));
    const release = (): void => {
      const before = state;
      state = "released";
      if (before === "held") this.giveBack(key);
      if (before === "waiting") this.#leaveQueue(key, grant);
    };
    return {
      get state() {
        return state;
      },
      granted,
      release,
    };
  }

  /** Runs `work` while a unit is held. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const permit = this.request(key);
    await permit.granted;
    try {
      return await work();
    } finally {
      permit.release();
    }
  }

  /**
   * Takes an amount, and evicts older ones that were taken by `hold` while it exceeds the share of the key or the
   * total. `evicted` is called if the amount itself is evicted later. Returns the function that gives it back; that has
   * no effect if it is called again or the amount was evicted.
   */
  hold(key: string, amount: number, evicted: () => void): () => void {
    const newest = { key, amount, evicted };
    this.take(key, amount);
    this.#evictable.set(key, (this.#evictable.get(key) ?? new Set()).add(newest));
    while (this.heldBy(key) > this.#each && this.#evictOldest(key, newest));
    while (this.#held > this.#total && this.#evictOldest(this.largestKey ?? key, newest));
    return () => void this.#endHold(newest);
  }

  /** Evicts the oldest amount of a key. Returns whether there is one besides `newest`. */
  #evictOldest(key: string, newest: Evictable): boolean {
    const [oldest = newest] = this.#evictable.get(key) ?? [];
    if (oldest === newest || !this.#endHold(oldest)) return false;
    oldest.evicted();
    return true;
  }

  /** Gives back an amount that `hold` has taken. Returns whether it was held. */
  #endHold(evictable: Evictable): boolean {
    const { key, amount } = evictable;
    const ofKey = this.#evictable.get(key);
    if (ofKey?.delete(evictable) !== true) return false;
    if (ofKey.size === 0) this.#evictable.delete(key);
    this.giveBack(key, amount);
    return true;
  }

  /** No further unit is free, whatever its key. */
  get #isUsedUp(): boolean {
    return this.#held + 1 > this.#total;
  }

  /** Grants the first request of a key, if one waits and a unit is free. Returns whether it did. */
  #grantNext(key: string): boolean {
    const queue = this.#queues.get(key);
    const [grant] = queue ?? [];
    if (queue === undefined || grant === undefined || !this.tryTake(key)) return false;
    this.#leaveQueue(key, grant);
    if (this.#queues.delete(key)) this.#queues.set(key, queue);
    grant();
    return true;
  }

  #leaveQueue(key: string, grant: () => void): void {
    const queue = this.#queues.get(key);
    queue?.delete(grant);
    if (queue?.size === 0) this.#queues.delete(key);
  }
}
