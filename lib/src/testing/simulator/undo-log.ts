// The log of a simulated storage that can lose writes: what each of its last batches has replaced, so that the batches
// can be taken back.
//
//   power loss   the writes since the last lasting one are lost (`Batch.lasting`): a flush to disk covers everything
//                before it
//   failover     the storage is replaced by a copy that lacks the last writes, at least the newest claim of a session,
//                lasting or not
//
// A row is restored with its expiry. The expiry of a put is counted from the clock of the storage, so that clock is set
// for the write of such a row.

import type { Batch, HostStorage, Key, Put, Row, TableName } from "../../durable/internal.ts";

/** How many batches the log keeps at least. */
const keptBatches = 12;

/** A row before a batch; `null`: there was none. */
type Replaced = { readonly table: TableName; readonly key: Key; readonly row: Row | null };

type LoggedBatch = { readonly batch: Batch; readonly replaced: readonly Replaced[] };

/** See the head of this file. */
export class UndoLog {
  readonly #real: HostStorage;
  /** Sets the clock of the storage; `null`: it runs again. */
  readonly #setClock: (now: number | null) => void;
  #batches: LoggedBatch[] = [];

  constructor(real: HostStorage, setClock: (now: number | null) => void) {
    this.#real = real;
    this.#setClock = setClock;
  }

  /** Writes a batch and logs what it replaces. */
  async write(batch: Batch): ReturnType<HostStorage["write"]> {
    const replaced = await this.#replacedBy(batch);
    const written = await this.#real.write(batch);
    if (!written.ok) return written;
    this.#batches.push({ batch, replaced });
    const unsynced = this.#unsynced();
    this.#batches = this.#batches.slice(-Math.max(keptBatches, unsynced));
    return written;
  }

  /** Takes back the writes since the last lasting one. Returns how many there were. */
  async losePower(): Promise<number> {
    return this.#undo(this.#unsynced());
  }

  /**
   * Takes back the last writes, from the newest claim of a session on, and up to `more` before it. Returns how many
   * there were.
   */
  async failOver(more: number): Promise<number> {
    const claim = this.#batches.findLastIndex(isClaim);
    return claim === -1 ? 0 : this.#undo(Math.min(this.#batches.length, this.#batches.length - claim + more));
  }

  #unsynced(): number {
    const last = this.#batches.findLastIndex(({ batch }) => batch.lasting !== false);
    return this.#batches.length - 1 - last;
  }

  async #replacedBy({ puts, removals }: Batch): Promise<readonly Replaced[]> {
    const queries = [
      ...puts.map(({ table, key }) => ({ table, prefix: key })),
      ...removals.map(({ table, prefix }) => ({ table, prefix })),
    ];
    const all = queries.length === 0 ? [] : await this.#real.read(queries);
    const rows = all.flatMap((found, index) => found.map((row) => ({ table: queries[index]?.table, row })));
    const absent = puts.flatMap(({ table, key }, index) =>
      all[index]?.length === 0 ? [{ table, key, row: null }] : [],
    );
    return [
      ...absent,
      ...rows.flatMap(({ table, row }) => (table === undefined ? [] : [{ table, key: row.key, row }])),
    ];
  }

  async #undo(count: number): Promise<number> {
    if (count === 0) return 0;
    // The oldest row of each key is the one to restore.
    const oldest = new Map<string, Replaced>();
    for (const { replaced } of this.#batches.splice(-count).reverse()) {
      for (const row of replaced) oldest.set(JSON.stringify([row.table, ...row.key]), row);
    }
    const replaced = [...oldest.values()];
    const removals = replaced.map(({ table, key }) => ({ table, prefix: key }));
    const lasting = replaced.flatMap(({ table, row }) =>
      row === null || (row.expires ?? 0) > 0 ? [] : [putOf(table, row, row.expires)],
    );
    await this.#real.write({ checks: [], removals, puts: lasting });
    for (const { table, row } of replaced) {
      if (row === null || row.expires === null || row.expires === 0) continue;
      this.#setClock(row.expires - 1);
      await this.#real.write({ checks: [], removals: [], puts: [putOf(table, row, 1)] });
    }
    this.#setClock(null);
    return count;
  }
}

function putOf(table: TableName, { key, tag, value }: Row, ttlMs: number | null): Put {
  return { table, key, tag, value, ttlMs };
}

/** Returns whether a batch claims a session: it writes the lease under another epoch. */
function isClaim({ batch, replaced }: LoggedBatch): boolean {
  const lease = batch.puts.find(({ table }) => table === "leases");
  if (lease === undefined) return false;
  const before = replaced.find(({ table, key }) => table === "leases" && key.join("/") === lease.key.join("/"));
  return (before?.row?.tag ?? null) !== lease.tag;
}
