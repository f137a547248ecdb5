// The memory of event readers: how much they may read at a time, and how much all of them may hold.
//
// Theory of operation
//   A reader reads pages of at most `pageLength` characters, or one event that is longer. A page that is not consumed
//   at once, because the consumer is slow or has stopped reading, stays in memory. `PageBudget` counts these pages by
//   tenant and in total. If a new page exceeds a budget, the oldest pages are dropped, of the same tenant or of the
//   tenant that holds the most: their readers read them again from the storage when they continue. So a reader that
//   does not read costs no memory while others need it, no reader waits for another, and nothing is lost. `ReadPermits`
//   bounds the large pages that are read from the storage at the same time, for one tenant and for the process. Without
//   it, hundreds of readers of one tenant would occupy the storage and the event loop, and requests of other tenants
//   would wait for all of them. The HTTP handler has permits of its own, which a page of messages holds from its read
//   until its response counts in the budget of unread responses (serve/http/byte-budget.ts): a page in memory is
//   several times as large as its text.

/** The length of a page, in characters of the stored rows. */
export const pageLength = 65_536;

/** The pages of all readers of one tenant, and of all readers of the process, in characters. */
const tenantLength = 8 * 1_048_576;
const processLength = 32 * 1_048_576;

/** How many pages of one tenant, and of all tenants, are read from the storage at the same time. */
const readsPerTenant = 2;
const readsPerProcess = 8;

/** A page in memory that can be read again. */
export type HeldPage = {
  readonly tenant: string;
  readonly length: number;
  /** Forgets the events that were not taken yet. */
  readonly drop: () => void;
};

/**
 * The pages that readers hold, oldest first.
 *
 * @primitive characters of the pages that readers hold
 */
export class PageBudget {
  readonly #tenants = new Map<string, { length: number; readonly pages: Set<HeldPage> }>();
  readonly #tenantLength: number;
  readonly #processLength: number;
  #length = 0;

  constructor(
    limits: { readonly tenant: number; readonly process: number } = { tenant: tenantLength, process: processLength },
  ) {
    this.#tenantLength = limits.tenant;
    this.#processLength = limits.process;
  }

  /** The length of all pages that are held. */
  get length(): number {
    return this.#length;
  }

  /** Counts a page, and drops older ones if a budget is exceeded. */
  hold(page: HeldPage): void {
    const held = this.#tenants.get(page.tenant) ?? { length: 0, pages: new Set() };
    this.#tenants.set(page.tenant, held);
    held.pages.add(page);
    held.length += page.length;
    this.#length += page.length;
    while (held.length > this.#tenantLength && held.pages.size > 1) this.#dropOldest(held.pages);
    while (this.#length > this.#processLength) {
      const [largest] = [...this.#tenants.values()].toSorted((one, other) => other.length - one.length);
      if (largest === undefined || (largest.pages.size === 1 && largest.pages.has(page))) break;
      this.#dropOldest(largest.pages);
    }
  }

  /** The page was consumed, or its reader has ended. Idempotent. */
  release(page: HeldPage): void {
    const held = this.#tenants.get(page.tenant);
    if (held?.pages.delete(page) !== true) return;
    held.length -= page.length;
    this.#length -= page.length;
    if (held.pages.size === 0) this.#tenants.delete(page.tenant);
  }

  #dropOldest(pages: ReadonlySet<HeldPage>): void {
    for (const oldest of pages) {
      this.release(oldest);
      oldest.drop();
      return;
    }
  }
}

/** The permits of one tenant that are held, and its reads that wait. */
type TenantPermits = { held: number; readonly waiting: (() => void)[] };

/**
 * A counting semaphore with a limit for each tenant and one for the process. The reads of a tenant that wait get their
 * permits in order. Tenants with waiting reads get permits round robin, however many reads each of them has.
 *
 * @primitive reads in progress, by tenant and in the process
 */
export class ReadPermits {
  /** Tenants with held permits or waiting reads. The tenant that got a permit last is at the end. */
  readonly #tenants = new Map<string, TenantPermits>();
  readonly #perTenant: number;
  readonly #perProcess: number;
  readonly #afterWait: (() => Promise<void>) | null;
  #held = 0;

  /** `afterWait`: awaited by a read that had to wait for its permit, before it begins. */
  constructor(
    perTenant: number = readsPerTenant,
    perProcess: number = readsPerProcess,
    { afterWait = null }: { readonly afterWait?: (() => Promise<void>) | null } = {},
  ) {
    this.#perTenant = perTenant;
    this.#perProcess = perProcess;
    this.#afterWait = afterWait;
  }

  /** Runs a read of a tenant in one of its permits. */
  async run<T>(tenant: string, read: () => Promise<T>): Promise<T> {
    const release = await this.acquire(tenant);
    try {
      return await read();
    } finally {
      release();
    }
  }

  /** Waits for a permit, and returns the function that releases it; calling that function again has no effect. */
  async acquire(tenant: string): Promise<() => void> {
    const permits = this.#tenants.get(tenant) ?? { held: 0, waiting: [] };
    this.#tenants.set(tenant, permits);
    let isHeld = false;
    const granted = new Promise<void>((resolve) => {
      permits.waiting.push(() => {
        isHeld = true;
        resolve();
      });
      this.#grant();
    });
    const hasWaited = !isHeld;
    await granted;
    if (hasWaited) await this.#afterWait?.();
    return () => {
      if (!isHeld) return;
      isHeld = false;
      permits.held -= 1;
      this.#held -= 1;
      if (permits.held === 0 && permits.waiting.length === 0) this.#tenants.delete(tenant);
      this.#grant();
    };
  }

  /** Gives free permits to waiting reads. */
  #grant(): void {
    while (this.#held < this.#perProcess) {
      const next = this.#nextTenant();
      if (next === null) return;
      const [tenant, permits] = next;
      this.#tenants.delete(tenant);
      this.#tenants.set(tenant, permits);
      permits.held += 1;
      this.#held += 1;
      permits.waiting.shift()?.();
    }
  }

  /**
   * The first tenant that may get a permit. The search passes only tenants that hold permits, so it is bounded by
   * `#perProcess`.
   */
  #nextTenant(): readonly [string, TenantPermits] | null {
    for (const entry of this.#tenants) {
      const [, { held, waiting }] = entry;
      if (held < this.#perTenant && waiting.length > 0) return entry;
    }
    return null;
  }
}
