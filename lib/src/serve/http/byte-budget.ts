// The memory of responses that their clients have not read yet: bytes of streams and of large JSON bodies, counted for
// each tenant and for the process.
//
// Theory of operation
//   A response opens an account. Before it keeps bytes for its client it takes them from the budgets, which are fair
//   shares (core/fair/fair-share.ts); when the client has read them it gives them back. If a budget is used up,
//   responses whose clients have accepted nothing for `stalledMs` are disconnected first: of the same tenant if its
//   budget is used up, otherwise of the tenant that holds the most. If that is not enough, the response waits and tries
//   again. A waiting response keeps one event in memory, so waiting is bounded too: beyond the budget of the tenant, a
//   response that would have to wait is disconnected. Its client can resume with its cursor. Large responses are
//   written in slices. `nextSlice` lets a tenant write `slicesPerTick` of them in one tick of the event loop: hundreds
//   of clients of one tenant, who read as fast as the server writes, would otherwise delay every request of other
//   tenants in each turn.
//
// Invariants
//   1. Bytes that are held and bytes that wait are each at most the budget of the tenant, apart from a single response
//      that is larger.
//   2. The clients of one tenant cannot use up the budget of another one, unless together with others they use up that
//      of the process.

import type { Clock } from "../../core/clock/clock.ts";

import { FairShare } from "../../core/fair/fair-share.ts";
import { FairTicks } from "../../core/fair/fair-ticks.ts";

/** A client that has accepted nothing for this long is disconnected if others need the memory, in milliseconds. */
const stalledMs = 1000;

/** How many slices of large responses of one tenant are written in one tick of the event loop. */
const slicesPerTick = 2;

/** The bytes that all responses of a handler hold. */
export class ByteBudget {
  readonly clock: Clock;
  /** The open accounts of each tenant. */
  readonly #accounts = new Map<string, Set<ByteAccount>>();
  readonly #slices = new FairTicks(slicesPerTick);
  readonly #bytes: FairShare;
  /** The bytes of responses that wait for some of `#bytes`. */
  readonly #waiting: FairShare;
  readonly #tenantBytes: number;

  constructor(limits: { readonly tenant: number; readonly process: number }, clock: Clock) {
    this.#tenantBytes = limits.tenant;
    this.#bytes = new FairShare({ each: limits.tenant, total: limits.process });
    this.#waiting = new FairShare({ each: limits.tenant });
    this.clock = clock;
  }

  /** The bytes of all responses. */
  get held(): number {
    return this.#bytes.held;
  }

  /** Opens the account of a response. `cut` disconnects its client. */
  open(tenant: string, cut: () => void): ByteAccount {
    const account = new ByteAccount(this, tenant, cut);
    this.#accounts.set(tenant, (this.#accounts.get(tenant) ?? new Set()).add(account));
    return account;
  }

  /** Takes bytes for an account. `wait`: try again later. `refused`: too many responses of the tenant wait. */
  take(account: ByteAccount, bytes: number): "taken" | "wait" | "refused" {
    const { tenant } = account;
    if (!this.#accounts.has(tenant)) return "refused";
    this.#stopWaiting(account);
    let isTaken = this.#bytes.tryTake(tenant, bytes);
    if (!isTaken) {
      this.#cutStalled(account, bytes);
      isTaken = this.#bytes.tryTake(tenant, bytes);
    }
    if (isTaken) {
      account.held += bytes;
      return "taken";
    }
    if (!this.#waiting.tryTake(tenant, bytes)) return "refused";
    account.waiting = bytes;
    return "wait";
  }

  /** Resolves when the account may write a slice of a large response; `null`: at once. */
  nextSlice({ tenant }: ByteAccount): Promise<void> | null {
    return this.#slices.next(tenant);
  }

  /** The account holds this many bytes now: its client has read the others. */
  reduce(account: ByteAccount, held: number): void {
    const read = account.held - held;
    if (read <= 0) return;
    account.held = held;
    this.#bytes.giveBack(account.tenant, read);
  }

  /** Gives all bytes back. Idempotent. */
  close(account: ByteAccount): void {
    const accounts = this.#accounts.get(account.tenant);
    if (accounts?.delete(account) !== true) return;
    this.reduce(account, 0);
    this.#stopWaiting(account);
    if (accounts.size === 0) this.#accounts.delete(account.tenant);
  }

  #stopWaiting(account: ByteAccount): void {
    this.#waiting.giveBack(account.tenant, account.waiting);
    account.waiting = 0;
  }

  /** Disconnects clients that have stalled: of the tenant if its share is used up, otherwise of the largest one. */
  #cutStalled(asking: ByteAccount, bytes: number): void {
    const { tenant } = asking;
    const isShareUsedUp = this.#bytes.heldBy(tenant) + bytes > this.#tenantBytes;
    const accounts = this.#accounts.get(isShareUsedUp ? tenant : (this.#bytes.largestKey ?? tenant)) ?? [];
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
