// Resource limits of the HTTP handler, and what enforces the concurrency limits.
//
// A client can use memory, connections and processing time only up to these limits. Sizes (`bodyBytes`, `idLength`,
// `pageSize`, `pageLength`) and `bodyMs` are enforced where the value is read; `bufferBytes`, `slowReaderMs` and
// `heartbeatMs` in sse.ts; the concurrency limits by `ConcurrencyLimit` below.
//
// Request permits (`RequestPermits`). A permit is taken after authentication and before the body is read, and held
// until the response is built. Permits are divided into pools, so that one kind of request cannot block another: every
// open route has a pool of its own, cancelling has one, and all other routes share one. In each pool a tenant and an
// address have a share. A tenant with fewer than `reservedRequests` permits gets another one also when the pool or the
// share of its address is used up (an address, for open routes, when the pool is): many clients of other tenants, also
// behind the same proxy, cannot block it.
//
// Invariants
//   1. A concurrency limit rejects with 429 and `Retry-After`; it never queues. A queue would hold sockets and bodies
//      of clients that may have disconnected.
//   2. A permit is released exactly once, on every path: `acquire` returns an idempotent release function.

import type { Capacity } from "../../core/fair/fair-share.ts";

import { FairShare } from "../../core/fair/fair-share.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { defaultTokenMs } from "../../durable/internal.ts";
import { HttpError } from "./failure.ts";

/**
 * Limits on what clients can consume. {@link defaultHttpLimits} holds the defaults. Every limit is a number of 1 or
 * more.
 */
export type HttpLimits = {
  /** The size of a request body, in bytes. Default: 1,048,576. Larger bodies get 413 (`body_too_large`). */
  readonly bodyBytes: number;
  /**
   * Concurrent requests of all callers. Streams, requests that wait for a turn, and routes without authentication
   * are counted separately, and so are requests that cancel a turn. Default: 512. Further requests get 429.
   */
  readonly requests: number;
  /** Concurrent requests of one tenant. Default: 256. Further ones get 429. */
  readonly requestsPerTenant: number;
  /**
   * Concurrent requests of one network address (`address` of the options). Default: 256. Further ones get 429. Raise it
   * for a handler behind a proxy, or let `address` return the address that the proxy reports.
   */
  readonly requestsPerAddress: number;
  /**
   * A request whose body has not arrived completely after this many milliseconds is rejected with 408
   * (`request_timeout`). Default: 30,000.
   */
  readonly bodyMs: number;
  /** Concurrent streams and waiting requests of all callers. Default: 10,000. Further ones get 429. */
  readonly streams: number;
  /** Concurrent streams and waiting requests of one tenant. Default: 2,000. Further ones get 429. */
  readonly streamsPerTenant: number;
  /** Turns of one tenant that were started here and have not ended. Default: 2,000. Further ones get 429. */
  readonly turnsPerTenant: number;
  /**
   * Bytes buffered for one slow reader, besides one frame. At the limit the stream is paused until the reader catches
   * up (backpressure). Default: 16,384.
   */
  readonly bufferBytes: number;
  /**
   * Bytes of all responses of one tenant that their clients have not read yet: frames of streams, and JSON bodies;
   * texts that are rendered as a client reads count in characters. At the limit, clients that have accepted nothing for
   * a second are disconnected, streams and the results of `POST` requests wait, and large bodies of `GET` requests
   * get 429. Default: 16,777,216.
   */
  readonly bufferBytesPerTenant: number;
  /** Bytes of all responses of this handler that their clients have not read yet. Default: 67,108,864. */
  readonly bufferBytesTotal: number;
  /**
   * A reader that accepts no data for this many milliseconds is disconnected. It can resume with its cursor.
   * Default: 30,000.
   */
  readonly slowReaderMs: number;
  /** The interval of heartbeats on an idle stream, in milliseconds. Default: 15,000. */
  readonly heartbeatMs: number;
  /** The length of an id, an idempotency key or a cursor, in characters. Default: 256. Longer ones are rejected. */
  readonly idLength: number;
  /** Items per page. Default: 200. A request for more items gets this many. */
  readonly pageSize: number;
  /**
   * The size of a page, in characters. A page that would be larger has fewer items, and at least one. Default: 524,288.
   */
  readonly pageLength: number;
  /**
   * Characters of messages that forks of one tenant may copy in one hour; regenerated and edited messages of a chat are
   * forks. Default: 268,435,456. Further forks get 429. The storage counts them, so the quota holds over processes and
   * restarts.
   */
  readonly copiedLengthPerHour: number;
  /** How long completion tokens are valid, in milliseconds. Default: 604,800,000 (7 days). At most ten years. */
  readonly completionTokenMs: number;
  /** The longest wait for a result (`Prefer: wait`), in seconds. Default: 60. Longer waits are shortened to it. */
  readonly waitSeconds: number;
};

/** The default limits of the HTTP handler. */
export const defaultHttpLimits: HttpLimits = {
  bodyBytes: 1_048_576,
  requests: 512,
  requestsPerTenant: 256,
  requestsPerAddress: 256,
  bodyMs: 30_000,
  streams: 10_000,
  streamsPerTenant: 2000,
  turnsPerTenant: 2000,
  bufferBytes: 16_384,
  bufferBytesPerTenant: 16_777_216,
  bufferBytesTotal: 67_108_864,
  slowReaderMs: 30_000,
  heartbeatMs: 15_000,
  idLength: 256,
  pageSize: 200,
  pageLength: 524_288,
  copiedLengthPerHour: 268_435_456,
  completionTokenMs: defaultTokenMs,
  waitSeconds: 60,
};

/** Merges the operator's limits with the defaults. Throws `MisuseError` for an unknown name or a value below 1. */
export function checkedLimits(overrides: Partial<HttpLimits>): HttpLimits {
  const limits = { ...defaultHttpLimits, ...overrides };
  for (const [name, value] of Object.entries(limits)) {
    if (!(name in defaultHttpLimits)) {
      const validNames = Object.keys(defaultHttpLimits).join(", ");
      throw new MisuseError("unknown_field", `limits: unknown limit ${name}; the limits are ${validNames}`, {
        path: ["limits", name],
      });
    }
    if (typeof value === "number" && value >= 1) continue;
    throw new MisuseError("invalid_argument", `limits: ${name} must be a number of 1 or more, not ${String(value)}`, {
      path: ["limits", name],
    });
  }
  return limits;
}

/** Counts what is in progress, in total and by key (a tenant in most cases), and rejects what exceeds it with 429. */
export class ConcurrencyLimit {
  readonly #share: FairShare;
  readonly #capacity: Capacity;
  readonly #what: string;

  /** `what` names the counted things in the error message: "open streams". */
  constructor(capacity: Capacity, what: string) {
    this.#share = new FairShare(capacity);
    this.#capacity = capacity;
    this.#what = what;
  }

  /** The number of permits of `key` that are held. */
  held(key: string): number {
    return this.#share.heldBy(key);
  }

  /**
   * Takes a permit of `key` and returns the function that releases it; calling that function again has no effect. If no
   * permit is free, calls `releaseEarlier` (for a permit of another limit that the caller acquired first) and throws.
   * `isReserved`: takes a permit also when none is free.
   */
  acquire(key: string, releaseEarlier?: () => void, isReserved = false): () => void {
    if (isReserved) this.#share.take(key);
    else if (!this.#share.tryTake(key)) {
      releaseEarlier?.();
      const { total, each } = this.#capacity;
      const limit = total !== undefined && this.#share.held >= total ? total : each;
      throw new HttpError("too_many_requests", `limit reached: ${limit} ${this.#what}; try again later`, {
        headers: { "retry-after": "1" },
      });
    }
    let isHeld = true;
    return () => {
      if (isHeld) this.#share.giveBack(key);
      isHeld = false;
    };
  }
}

/**
 * The number of permits that a tenant, or an address for open routes, gets also when the pool is full: 8, and fewer for
 * small pools.
 */
function reservedRequests(requests: number): number {
  return Math.min(8, Math.floor(requests / 16));
}

/** Who sends a request, as far as its permit depends on it. */
export type PermitOwner = {
  /** The kind of request: each pool has its own permits. */
  readonly pool: string;
  /** `null`: the route is open, and the request was not authenticated. */
  readonly tenant: string | null;
  /** `null`: the address is not known. */
  readonly address: string | null;
};

/** The permits of the `requests` limits. */
export class RequestPermits {
  readonly #all: ConcurrencyLimit;
  readonly #tenants: ConcurrencyLimit;
  readonly #addresses: ConcurrencyLimit;
  readonly #reserved: number;

  constructor({
    requests,
    requestsPerTenant,
    requestsPerAddress,
  }: Pick<HttpLimits, "requests" | "requestsPerTenant" | "requestsPerAddress">) {
    this.#reserved = reservedRequests(requests);
    this.#all = new ConcurrencyLimit({ each: requests }, "concurrent requests");
    this.#tenants = new ConcurrencyLimit({ each: requestsPerTenant }, "concurrent requests of one tenant");
    this.#addresses = new ConcurrencyLimit({ each: requestsPerAddress }, "concurrent requests of one address");
  }

  /** Takes a permit and returns the function that releases it. Throws 429 if the pool or a share of it is used up. */
  acquire({ pool, tenant, address }: PermitOwner): () => void {
    const tenantKey = tenant === null ? null : JSON.stringify([pool, tenant]);
    const addressKey = address === null ? null : JSON.stringify([pool, address]);
    const held =
      tenantKey !== null
        ? this.#tenants.held(tenantKey)
        : addressKey !== null
          ? this.#addresses.held(addressKey)
          : Infinity;
    const releases: (() => void)[] = [];
    const release = () => {
      for (const releasePermit of releases) releasePermit();
    };
    const isReserved = held < this.#reserved;
    if (tenantKey !== null) releases.push(this.#tenants.acquire(tenantKey, release));
    if (addressKey !== null)
      releases.push(this.#addresses.acquire(addressKey, release, isReserved && tenantKey !== null));
    releases.push(this.#all.acquire(pool, release, isReserved));
    return release;
  }
}
