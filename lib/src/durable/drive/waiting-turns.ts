// Starts turns that wait for a limit. They are in the index of work, in one line for each scope.
//
// Theory of operation
//   `serve` looks at the line of a scope: while the scope has free slots, the turns at the front are claimed by this
//   process, or made due for others if this process lacks the engine or a free place. It is called
//     - after a turn here has ended or was parked, for the scopes in which it held a slot;
//     - after a turn had to wait, for the scope that it waits for: a slot may have been released between the read and
//       the write;
//     - by a timer, when a slot of a rate expires and turns wait for it;
//     - by every worker about once a second, for all lines (`serveAll`): the process that should have called it may
//       have crashed.
//   Nothing else polls. An empty line costs one read.
//
// Order
//   The tenants in the line of an engine are served round robin, beginning after the tenant that was served last by
//   this process. The turns of one tenant are served in the order in which they began to wait. A session has one turn
//   in the lines at a time, so its backlog does not delay other sessions.
//
// Crash points
//   a slot was released, `serve` not called   `serveAll` of a worker, or the next `serve` of the scope
//   a row of a line without its turn          `serve` removes it when it is at the front
//   a waiting turn without its row            `recover()` writes it again (`work/restore.ts`)

import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";

import { merge } from "../rows/batch.ts";
import { unclaimed } from "../rows/lease.ts";
import { limitOf, scopeParts } from "../rows/limits.ts";
import { duePut, moveDue } from "../rows/open-rows.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { workItem } from "../rows/work.ts";
import { capacitiesOf } from "./admission.ts";

/** How many turns of a line are examined at a time. */
const pageSize = 16;
/** After this many pages the line is left to the next call. */
const maxPages = 64;
/**
 * The shortest time until a timer looks at a line again, in milliseconds; for large sets of slots, which are read as a
 * whole.
 */
const shortestTimerMs = 5;
const largeTimerMs = 250;
const largeRate = 256;
/** How many lines one pass of `serveAll` examines. */
const maxLines = 256;

/** What the owner of the lines does for them. */
type Driver = {
  /** Whether this process may drive another turn. */
  readonly mayDrive: () => boolean;
  readonly tryPickUp: (key: SessionKey) => Promise<"driven" | "moved" | "left">;
};

export type ServeOptions = { readonly onlyWakes?: boolean };

/**
 * The lines of one runtime.
 *
 * @primitive the stored slots of limits, over all processes
 */
export class WaitingTurns {
  readonly #context: RuntimeContext;
  readonly #driver: Driver;
  /** Scopes that are being served; `true`: they have to be served again. */
  readonly #serving = new Map<string, boolean>();
  /** The next look at a line because of a rate, by scope. */
  readonly #timers = new Map<string, AbortController>();
  /** The tenant that was served last, by the scope of an engine. */
  readonly #lastTenant = new Map<string, string>();
  #isStopped = false;

  constructor(context: RuntimeContext, driver: Driver) {
    this.#context = context;
    this.#driver = driver;
  }

  /** Serves the lines of these scopes in the background. Errors are ignored: a worker serves all lines again soon. */
  serve(scopes: readonly string[]): void {
    for (const scope of scopes) void this.#serveUntilDone(scope).catch(() => undefined);
  }

  /**
   * Serves a page of lines, beginning after the scope `after`. Returns the last scope of the page; `null` after the
   * last line. `onlyWakes`: this process makes turns due and drives none.
   */
  async serveAll(after: string | null, { onlyWakes = false }: ServeOptions): Promise<string | null> {
    const { storage } = this.#context;
    let last = after;
    for (let line = 0; line < maxLines; line += 1) {
      const [rows = []] = await storage.read([
        { table: "work", prefix: ["limit"], limit: 1, ...(last === null ? {} : { after: last }) },
      ]);
      const [row] = rows;
      if (row === undefined) return null;
      last = workItem("limit", row).queue;
      await this.#serveUntilDone(last, onlyWakes);
    }
    return last;
  }

  /** Ends the timers. */
  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers.values()) timer.abort();
    this.#timers.clear();
  }

  /** Concurrent calls for one scope are merged: the first one serves the line once more. */
  async #serveUntilDone(scope: string, onlyWakes = false): Promise<void> {
    if (this.#isStopped) return;
    if (this.#serving.has(scope)) {
      this.#serving.set(scope, true);
      return;
    }
    try {
      do {
        this.#serving.set(scope, false);
        await this.#serveLine(scope, onlyWakes);
      } while (this.#serving.get(scope) === true && !this.#isStopped);
    } finally {
      this.#serving.delete(scope);
    }
  }

  async #serveLine(scope: string, onlyWakes: boolean): Promise<void> {
    const limit = limitOf(this.#context.limits, scope);
    for (let page = 0; page < maxPages && !this.#isStopped; page += 1) {
      const line = await this.#front(scope);
      if (line.length === 0) return;
      const [capacity] = await capacitiesOf(this.#context, [limit === null ? null : { scope, limit }]);
      if (capacity === undefined || capacity.free === 0) {
        const isLarge = (limit?.rate?.turns ?? 0) > largeRate;
        const shortest = isLarge ? largeTimerMs : shortestTimerMs;
        const freeInMs = capacity?.freeInMs ?? null;
        if (freeInMs !== null) this.#serveAfter(scope, Math.max(shortest, freeInMs));
        return;
      }
      if (!(await this.#start(scope, line.slice(0, Math.min(capacity.free, pageSize)), onlyWakes))) return;
    }
  }

  /** Looks at the line of a scope again after some time. */
  #serveAfter(scope: string, ms: number): void {
    if (this.#timers.has(scope)) return;
    const timer = new AbortController();
    this.#timers.set(scope, timer);
    const serveAgain = (): void => {
      this.#timers.delete(scope);
      this.serve([scope]);
    };
    void this.#context.clock.sleep(ms, timer.signal).then(serveAgain, () => undefined);
  }

  /** The rows at the front of a line, in the order in which they are served. */
  async #front(scope: string): Promise<readonly Row[]> {
    const { storage } = this.#context;
    const query = { table: "work", prefix: ["limit", scope], limit: pageSize } as const;
    const [first = []] = await storage.read([query]);
    if (first.length < pageSize || scopeParts(scope).kind !== "engine") return this.#roundRobin(scope, first);
    // The line is longer: the first turns of each of the next tenants. A tenant may have more turns than a page has
    // rows.
    const tenants: string[] = [];
    for (let after = this.#lastTenant.get(scope); tenants.length < pageSize;) {
      const one = { ...query, limit: 1 };
      const [next = [], start = []] = await storage.read([after === undefined ? one : { ...one, after }, one]);
      const row = next[0] ?? start[0];
      const tenant = row === undefined ? undefined : workItem("limit", row).key.tenant;
      if (tenant === undefined || tenants.includes(tenant)) break;
      tenants.push(tenant);
      after = tenant;
    }
    const limit = Math.ceil(pageSize / Math.max(1, tenants.length));
    const rows = await storage.read(
      tenants.map((tenant) => ({ table: "work", prefix: ["limit", scope, tenant], limit }) as const),
    );
    return this.#roundRobin(scope, rows.flat());
  }

  /**
   * Interleaves the rows of the tenants: the first of each tenant, then the second of each. The rows of a tenant are in
   * order.
   */
  #roundRobin(scope: string, rows: readonly Row[]): readonly Row[] {
    const byTenant = new Map<string, Row[]>();
    for (const row of rows) {
      const { tenant } = workItem("limit", row).key;
      const ofTenant = byTenant.get(tenant);
      if (ofTenant === undefined) byTenant.set(tenant, [row]);
      else ofTenant.push(row);
    }
    const last = this.#lastTenant.get(scope);
    const names = [...byTenant.keys()].toSorted();
    const after = last === undefined ? 0 : names.findIndex((tenant) => tenant > last);
    const order = after <= 0 ? names : [...names.slice(after), ...names.slice(0, after)];
    const longest = Math.max(0, ...Array.from(byTenant.values(), (ofTenant) => ofTenant.length));
    return Array.from({ length: longest }, (_, round) =>
      order.flatMap((tenant) => byTenant.get(tenant)?.[round] ?? []),
    ).flat();
  }

  /** Starts these turns, here or in another process. Returns whether the line has changed. */
  async #start(scope: string, rows: readonly Row[], onlyWakes: boolean): Promise<boolean> {
    const { storage, engines } = this.#context;
    const keys = rows.map((row) => workItem("limit", row).key);
    const stored = await storage.read(
      keys.flatMap((key) => [
        { table: "open", prefix: keyOf(key) } as const,
        { table: "leases", prefix: keyOf(key) } as const,
      ]),
    );
    let hasChanged = false;
    for (const [index, row] of rows.entries()) {
      const key = keys[index] ?? { tenant: "", session: "" };
      const openRow = stored[2 * index]?.[0];
      const open = openRow === undefined ? null : readableOpen(openRow);
      // A turn whose row cannot be read is left alone: a newer release may have written it.
      if (openRow !== undefined && open === null) continue;
      if (open === null || !isInLine(open, scope, row)) {
        await this.#removeStale(key, row, open === null, stored[2 * index + 1]?.[0] ?? null);
        hasChanged = true;
        continue;
      }
      if (scopeParts(scope).kind === "engine") this.#lastTenant.set(scope, key.tenant);
      if (!onlyWakes && this.#driver.mayDrive() && Object.hasOwn(engines, open.engine)) {
        if ((await this.#driver.tryPickUp(key)) !== "left") {
          hasChanged = true;
          continue;
        }
      }
      await this.#wake(key, open, stored[2 * index + 1]?.[0] ?? null);
    }
    return hasChanged;
  }

  /**
   * Removes a row whose turn does not wait in this line any more. The turn may return to this line in between, at the
   * same place: then it has another epoch, because every move between lines writes the next one.
   */
  async #removeStale(key: SessionKey, { key: at, tag }: Row, isClosed: boolean, lease: Row | null): Promise<void> {
    const closed = isClosed ? [{ table: "open", key: keyOf(key), tag: null } as const] : [];
    await this.#context.storage.write({
      checks: [{ table: "work", key: at, tag }, unclaimed(keyOf(key), lease), ...closed],
      removals: [{ table: "work", prefix: at }],
      puts: [],
    });
  }

  /**
   * Makes a waiting turn due, so that another process claims it. It stays in its line until then, so new turns do not
   * overtake it.
   */
  async #wake(key: SessionKey, open: OpenTurn, lease: Row | null): Promise<void> {
    const { storage, clock } = this.#context;
    const [due = []] = await storage.read([{ table: "work", prefix: duePut(key, open).key }]);
    if (due.length > 0) return;
    await storage.write(
      merge({ checks: [unclaimed(keyOf(key), lease)], removals: [], puts: [] }, moveDue(key, open, clock.now())),
    );
  }
}

/** Returns whether the open turn is the one that a row of the line describes. */
function isInLine({ turn, limit }: OpenTurn, scope: string, row: Row): boolean {
  if (limit?.type !== "waiting" || limit.scope !== scope || limit.since !== workItem("limit", row).at) return false;
  return readValue("work", row).turn === turn;
}

/** The open turn of a row; `null`: the row cannot be read, which concerns its own session only. */
export function readableOpen(row: Row): OpenTurn | null {
  try {
    return readValue("open", row);
  } catch {
    return null;
  }
}
