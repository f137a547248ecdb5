// The quota of a tenant for copies of messages: forks of sessions, and branches of chats (regenerated and edited messages), copy the messages before
// the fork. Without a quota, one small request stores as much as the session holds, again and again.
//
// The quota is kept in this process and starts again with it. Windows of one hour begin with the first copy of a tenant.

import type { Clock } from "../clock/clock.ts";
import type { Runtime } from "../runtime/internal.ts";

import { HttpError } from "./failure.ts";

const hourMs = 3_600_000;

/** The length of the messages that are measured at a time, in characters. */
const stepLength = 1_048_576;

/** Counts the characters that the tenants of a handler copy. */
export class CopyQuota {
  readonly #perHour: number;
  readonly #clock: Clock;
  readonly #windows = new Map<string, { readonly until: number; length: number }>();

  constructor(perHour: number, clock: Clock) {
    this.#perHour = perHour;
    this.#clock = clock;
  }

  /** Counts the first `at` messages of a session, or throws 429. A session that does not exist is left to the verb. */
  async count(tenant: string, sessions: Runtime, id: string, at: number): Promise<void> {
    const view = await sessions.get(id, { messages: 0 });
    let length = 0;
    let after = -1;
    const end = view === null ? 0 : Math.min(at, view.length);
    while (after + 1 < end) {
      const limit = Math.min(16, end - after - 1);
      const { items } = await sessions.messages(id, { after, limit, maxLength: stepLength });
      if (items.length === 0) break;
      after += items.length;
      length += JSON.stringify(items).length;
      if (length > this.#perHour) break;
    }
    this.#add(tenant, length);
  }

  #add(tenant: string, length: number): void {
    const now = this.#clock.now();
    for (const [name, { until }] of this.#windows) if (until <= now) this.#windows.delete(name);
    const window = this.#windows.get(tenant) ?? { until: now + hourMs, length: 0 };
    if (window.length + length > this.#perHour) {
      const message = `limit reached: ${this.#perHour} characters of messages copied by forks in one hour; try again later`;
      const retryAfter = `${Math.ceil((window.until - now) / 1000)}`;
      throw new HttpError("too_many_requests", message, { headers: { "retry-after": retryAfter } });
    }
    window.length += length;
    this.#windows.set(tenant, window);
  }
}
