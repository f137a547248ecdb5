// The memory of event readers: how much they may read at a time, and how much all of them may hold.
//
// Theory of operation
//   A reader reads pages of at most `pageLength` characters, or one event that is longer. A page that is not consumed at once, because the consumer is
//   slow or has stopped reading, stays in memory. `PageBudget` counts these pages by tenant and in total. If a new page exceeds a budget, the oldest
//   pages are dropped, of the same tenant or of the tenant that holds the most: their readers read them again from the storage when they continue.
//   So a reader that does not read costs no memory while others need it, no reader waits for another, and nothing is lost.
//   `ReadSlots` bounds the large pages that are read from the storage at the same time for one tenant. Without it, hundreds of readers of one tenant would
//   occupy the storage and the event loop, and requests of other tenants would wait for all of them.

/** The length of a page, in characters of the stored rows. */
export const pageLength = 65_536;

/** The pages of all readers of one tenant, and of all readers of the process, in characters. */
const tenantLength = 8 * 1_048_576;
const processLength = 32 * 1_048_576;

/** How many pages of one tenant are read from the storage at the same time. */
const readsPerTenant = 2;

/** A page in memory that can be read again. */
export type HeldPage = {
  readonly tenant: string;
  readonly length: number;
  /** Forgets the events that were not taken yet. */
  readonly drop: () => void;
};

/** The pages that readers hold, oldest first. */
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

/** A counting semaphore for each tenant: at most `perTenant` reads at once, the others queue in order. */
export class ReadSlots {
  readonly #tenants = new Map<string, { count: number; readonly waiting: (() => void)[] }>();
  readonly #perTenant: number;

  constructor(perTenant: number = readsPerTenant) {
    this.#perTenant = perTenant;
  }

  /** Runs a read of a tenant in one of its slots. */
  async run<T>(tenant: string, read: () => Promise<T>): Promise<T> {
    const slots = this.#tenants.get(tenant) ?? { count: 0, waiting: [] };
    this.#tenants.set(tenant, slots);
    if (slots.count < this.#perTenant) slots.count += 1;
    // The slot of a read that ends is handed over without being released in between.
    else await new Promise<void>((resolve) => slots.waiting.push(resolve));
    try {
      return await read();
    } finally {
      const next = slots.waiting.shift();
      if (next !== undefined) next();
      else slots.count -= 1;
      if (slots.count === 0) this.#tenants.delete(tenant);
    }
  }
}
