// Which tenants have due work. The index is ordered by engine, tenant and time, because tenants are served round robin.
// A poll therefore has to find the tenants first, and most of them may have rows of later times only: turns that are
// being driven are due when their leases expire.
//
// Theory of operation
//   A worker remembers the time of the earliest row of every tenant. The memory of an engine is complete once a round
//   has visited all tenants of the engine. From then on a poll reads the earliest rows of stale tenants, in one read,
//   and visits the tenants whose earliest row is due. Its cost depends on the tenants that have due work or were
//   written to, not on the number of tenants. A tenant is stale when the storage reports a write to one of its
//   sessions, and when it was visited. A write that the storage cannot describe, for instance one of another process to
//   an SQLite file, makes the memory incomplete: the next round reads one row of every tenant. Reports of writes are
//   hints, so the memory is also given up every `maxAgeMs`.
//
// Limit: with several processes over one SQLite file a poll after a write of another process costs one read for each
// tenant that has open turns. `work.ts` rests nine times as long as such a poll took, up to one second. An index by
// engine and time alone would avoid that; it would not let a poll serve tenants round robin.

import type { HostStorage, Row } from "../rows/storage.ts";
import type { TableName } from "../rows/tables.ts";

/** How long the memory is relied on, in milliseconds, without reading one row of every tenant. */
const maxAgeMs = 30_000;

/** The tenants of one engine. */
type EngineTenants = {
  /** The time of the earliest row, by tenant. Complete, except for stale tenants. */
  readonly earliest: Map<string, number>;
  readonly stale: Set<string>;
  readonly since: number;
};

export class DueTenants {
  readonly #engines = new Map<string, EngineTenants>();
  /** Counts the writes that the storage could not describe. */
  #unknownWrites = 0;
  /** Tenants that were written to during a round which visits all tenants. */
  readonly #writtenTo = new Set<string>();
  readonly #unwatch: () => void;

  constructor(storage: Pick<HostStorage, "watch">) {
    this.#unwatch = storage.watch((sessions, tables) => this.#written(sessions, tables));
  }

  stop(): void {
    this.#unwatch();
  }

  /**
   * Returns the tenants of an engine that have rows due at `horizon`, in order; `null`: they are not known, and a round
   * over all tenants is needed.
   */
  async dueAt(storage: HostStorage, engine: string, horizon: number): Promise<readonly string[] | null> {
    const known = this.#engines.get(engine);
    if (known === undefined || horizon >= known.since + maxAgeMs) return null;
    const stale = [...known.stale];
    // Before the read: a write during the read makes its tenant stale again.
    known.stale.clear();
    const queries = stale.map((tenant) => ({ table: "due", prefix: [engine, tenant], limit: 1 }) as const);
    const rows = await storage.read(queries).catch((error: unknown) => {
      this.#engines.delete(engine);
      throw error;
    });
    for (const [index, tenant] of stale.entries()) this.#note(known, tenant, rows[index]?.[0]);
    if (this.#engines.get(engine) !== known) return null;
    return [...known.earliest].flatMap(([tenant, due]) => (due <= horizon ? [tenant] : [])).toSorted();
  }

  #note({ earliest }: EngineTenants, tenant: string, row: Row | undefined): void {
    if (row === undefined) earliest.delete(tenant);
    else earliest.set(tenant, Number(row.key[2]));
  }

  /** Marks a tenant that was visited: its rows have moved. */
  visited(engine: string, tenant: string): void {
    this.#engines.get(engine)?.stale.add(tenant);
  }

  /** Begins a round that visits all tenants of an engine. */
  round(engine: string, horizon: number): TenantRound {
    const before = this.#unknownWrites;
    const earliest = new Map<string, number>();
    this.#engines.delete(engine);
    this.#writtenTo.clear();
    return {
      note: (row) => void earliest.set(String(row.key[1]), Number(row.key[2])),
      complete: () => {
        if (this.#unknownWrites !== before) return;
        // Those with due rows were visited.
        const served = [...earliest].flatMap(([tenant, due]) => (due <= horizon ? [tenant] : []));
        this.#engines.set(engine, { earliest, stale: new Set([...served, ...this.#writtenTo]), since: horizon });
      },
    };
  }

  #written(sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>): void {
    if (tables !== undefined && !tables.has("due")) return;
    // Rows of the index name no session by themselves. A batch without any other row is not described.
    if (sessions === undefined || sessions.size === 0) {
      this.#unknownWrites += 1;
      this.#engines.clear();
      return;
    }
    for (const name of sessions) {
      const [tenant = ""]: readonly string[] = JSON.parse(name);
      this.#writtenTo.add(tenant);
      for (const { stale } of this.#engines.values()) stale.add(tenant);
    }
  }
}

/** A round that visits all tenants of one engine. */
export type TenantRound = {
  /** Records the earliest row of a tenant. */
  readonly note: (row: Row) => void;
  /** All tenants were visited: their earliest rows are known, unless a write in between could not be described. */
  readonly complete: () => void;
};
