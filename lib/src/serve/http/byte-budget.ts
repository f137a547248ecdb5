// The memory of responses that their clients have not read yet: bytes of streams and of large JSON bodies, counted for
// each tenant and for the process.
//
// Theory of operation
//   A response opens an account. Before it keeps bytes for its client it takes them from the budgets; when the client
//   has read them it gives them back. If a budget is used up, responses whose clients have accepted nothing for
//   `stalledMs` are disconnected first: of the same tenant if its budget is used up, otherwise of the tenant that holds
//   the most. If that is not enough, the response waits and tries again. A waiting response keeps one event in memory,
//   so waiting is bounded too: beyond the budget of the tenant, a response that would have to wait is disconnected. Its
//   client can resume with its cursor. Large responses are written in slices. `nextSlice` lets a tenant write
//   `slicesPerTick` of them in one tick of the event loop: hundreds of clients of one tenant, who read as fast as the
//   server writes, would otherwise delay every request of other tenants in each turn.
//
// Invariants
//   1. Bytes that are held and bytes that wait are each at most the budget of the tenant, apart from a single response
//      that is larger.
//   2. The clients of one tenant cannot use up the budget of another one, unless together with others they use up that
//      of the process.

import type { Clock } from "../../core/clock/clock.ts";

import { TenantTicks } from "./tenant-ticks.ts";

/** A client that has accepted nothing for this long is disconnected if others need the memory, in milliseconds. */
const stalledMs = 1000;

/** How many slices of large responses of one tenant are written in one tick of the event loop. */
const slicesPerTick = 2;

type TenantBytes = {
  held: number;
  waiting: number;
  readonly accounts: Set<ByteAccount>;
};

/**
 * The bytes that all responses of a handler hold.
 *
 * @primitive unread bytes of responses
 */
export class ByteBudget {
  readonly clock: Clock;
  readonly #tenants = new Map<string, TenantBytes>();
  readonly #slices = new TenantTicks(slicesPerTick);
  readonly #tenantBytes: number;
  readonly #processBytes: number;
  #held = 0;

  constructor(limits: { readonly tenant: number; readonly process: number }, clock: Clock) {
    this.#tenantBytes = limits.tenant;
    this.#processBytes = limits.process;
    this.clock = clock;
  }

  /** The bytes of all responses. */
  get held(): number {
    return this.#held;
  }

  /** Opens the account of a response. `cut` disconnects its client. */
  open(tenant: string, cut: () => void): ByteAccount {
    const bytes = this.#tenants.get(tenant) ?? { held: 0, waiting: 0, accounts: new Set() };
    this.#tenants.set(tenant, bytes);
    const account = new ByteAccount(this, tenant, cut);
    bytes.accounts.add(account);
    return account;
  }

  /** Takes bytes for an account. `wait`: try again later. `refused`: too many responses of the tenant wait. */
  take(account: ByteAccount, bytes: number): "taken" | "wait" | "refused" {
    const tenant = this.#tenants.get(account.tenant);
    if (tenant === undefined) return "refused";
    this.#stopWaiting(tenant, account);
    if (!this.#fits(tenant, bytes)) this.#cutStalled(account, tenant, bytes);
    if (this.#fits(tenant, bytes)) {
      tenant.held += bytes;
      this.#held += bytes;
      account.held += bytes;
      return "taken";
    }
    if (tenant.waiting > 0 && tenant.waiting + bytes > this.#tenantBytes) return "refused";
    tenant.waiting += bytes;
    account.waiting = bytes;
    return "wait";
  }

  /** Resolves when the account may write a slice of a large response; `null`: at once. */
  nextSlice({ tenant }: ByteAccount): Promise<void> | null {
    return this.#slices.next(tenant);
  }

  /** The account holds this many bytes now: its client has read the others. */
  reduce(account: ByteAccount, held: number): void {
    const tenant = this.#tenants.get(account.tenant);
    const read = account.held - held;
    if (tenant === undefined || read <= 0) return;
    account.held = held;
    tenant.held -= read;
    this.#held -= read;
  }

  /** Gives all bytes back. Idempotent. */
  close(account: ByteAccount): void {
    const tenant = this.#tenants.get(account.tenant);
    if (tenant?.accounts.has(account) !== true) return;
    this.reduce(account, 0);
    this.#stopWaiting(tenant, account);
    tenant.accounts.delete(account);
    if (tenant.accounts.size === 0) this.#tenants.delete(account.tenant);
  }

  #stopWaiting(tenant: TenantBytes, account: ByteAccount): void {
    tenant.waiting -= account.waiting;
    account.waiting = 0;
  }

  /** A response that is larger than the budget of its tenant gets the bytes when the tenant holds none. */
  #fits({ held }: TenantBytes, bytes: number): boolean {
    if (held === 0 && bytes > this.#tenantBytes) return true;
    return held + bytes <= this.#tenantBytes && this.#held + bytes <= this.#processBytes;
  }

  #cutStalled(asking: ByteAccount, tenant: TenantBytes, bytes: number): void {
    const [largest = tenant] = [...this.#tenants.values()].toSorted((one, other) => other.held - one.held);
    const accounts = tenant.held + bytes > this.#tenantBytes ? tenant.accounts : largest.accounts;
    const before = this.clock.now() - stalledMs;
    for (const account of accounts) {
      account.refresh();
      if (account !== asking && account.held > 0 && account.lastRead <= before) account.cut();
    }
  }
}

/** The bytes that one response holds. */
export class ByteAccount {
  readonly tenant: string;
  /** Disconnects the client. Set by the stream that sends the response. */
  cut: () => void;
  /** The bytes that its client has not read, measured now; `null`: nothing was sent yet. */
  queuedBytes: (() => number) | null = null;
  held = 0;
  waiting = 0;
  /** When the client last accepted data, in milliseconds. */
  lastRead: number;
  readonly #budget: ByteBudget;

  constructor(budget: ByteBudget, tenant: string, cut: () => void) {
    this.#budget = budget;
    this.tenant = tenant;
    this.cut = cut;
    this.lastRead = budget.clock.now();
  }

  take(bytes: number): "taken" | "wait" | "refused" {
    return this.#budget.take(this, bytes);
  }

  /** Resolves when a slice of a large response may be written; `null`: at once. */
  nextSlice(): Promise<void> | null {
    return this.#budget.nextSlice(this);
  }

  /** The client has accepted data, and `held` bytes are left. */
  read(held: number): void {
    this.lastRead = this.#budget.clock.now();
    this.#budget.reduce(this, held);
  }

  /** Gives back what the client has read while its stream waited for an event: a stream is not told of that. */
  refresh(): void {
    const queued = this.queuedBytes?.() ?? this.held;
    if (queued < this.held) this.read(queued);
  }

  close(): void {
    this.#budget.close(this);
  }
}
