// The storage contract: what a storage implements. A storage stores rows in ordered tables, answers range queries from
// a consistent snapshot, and writes conditional batches atomically. Leases, fencing, sequence numbers and all other
// rules are pure functions above the storages, from rows that were read to a batch. So every storage has the same
// behaviour, and a new storage is a few statements.
//
// Concurrency is optimistic: no transaction stays open while the caller computes. A batch names the rows it depends on
// (`checks`). If one of them has changed, nothing is written, and the caller reads again or gives up.
//
// Requirements (`storageSuite` of the test kit checks them)
//   1. A batch is applied completely or not at all, also across a crash. Checks are evaluated in the same transaction
//      as the writes.
//   2. All queries of one `read` see the same state.
//   3. The storage's clock alone decides expiry: for `remainingMs`, for `Check.alive` and for `Put.ttlMs`. Expired rows
//      stay readable.
//   4. After `write` resolves, the batch survives a power loss, unless `lasting` is `false`: then it survives a crash
//      of the process.
//   5. A `watch` callback follows every write, of this process and of others that share the storage. A write that only
//      renews leases needs none.

import type { TableName } from "./tables.ts";

/**
 * A part of a key. Numbers are integers and sort numerically; strings sort by code point. A column always has the same
 * type.
 */
export type KeyPart = string | number;
/** The key of a row, or a prefix of it: one part for each column of the table, in order. */
export type Key = readonly KeyPart[];

/**
 * A stored row: its key, a tag that checks compare, an expiry and a value that storages do not interpret. Exported as
 * `StorageRow`.
 */
export type Row = {
  /** The key, with the columns that `storageTables` lists. */
  readonly key: Key;
  /**
   * An integer that checks compare (compare-and-swap). The writer of the row chooses it: a version, an epoch, a count
   * of commits.
   */
  readonly tag: number;
  /**
   * When the row expires, in milliseconds of the storage's clock; `null`: never. Clients only compare it with other
   * values of the same row.
   */
  readonly expires: number | null;
  /**
   * The time until the expiry when the row was read, by the storage's clock; 0 or less: it has expired. `null`: it
   * never expires.
   */
  readonly remainingMs: number | null;
  /** An opaque text. The runtime writes versioned JSON (`stored.ts`). */
  readonly value: string;
};

/** Selects rows by key prefix, in key order. Exported as `StorageQuery`. */
export type Query = {
  /** The table to read. */
  readonly table: TableName;
  /** The first parts of the key. A complete key selects one row; an empty prefix selects the table. */
  readonly prefix: Key;
  /** Only rows whose first key part after the prefix is greater than this. */
  readonly after?: KeyPart;
  /** Only rows whose first key part after the prefix is less than this. */
  readonly before?: KeyPart;
  /** The maximum number of rows. Default: no limit. */
  readonly limit?: number;
  /**
   * Bounds the memory of the answer: it ends before the row whose value would make all values longer than this many
   * characters. The first row is returned in any case. Not exact: a storage may count an escaped form of the values.
   * Default: no limit.
   */
  readonly maxLength?: number;
  /** Returns rows in descending key order; `limit` then selects the last ones. */
  readonly reverse?: boolean;
};

/** A condition on one row. The batch is written only if all its conditions hold. */
export type Check = {
  readonly table: TableName;
  readonly key: Key;
  /** The row must exist with this tag; `null`: the row must not exist. */
  readonly tag: number | null;
  /** `true`: the row must not have expired, by the storage's clock. */
  readonly alive?: boolean;
  /** The row must expire at exactly this time. It detects a lease renewal, which keeps the tag. */
  readonly expires?: number | null;
};

/** A row to write. It replaces a row with the same key. */
export type Put = {
  readonly table: TableName;
  readonly key: Key;
  readonly tag: number;
  readonly value: string;
  /**
   * The row expires this many milliseconds after the write, by the storage's clock. Absent or `null`: never; 0: it has
   * expired at every time (`expires` is 0), also if the clock is set back.
   */
  readonly ttlMs?: number | null;
};

/** Removes all rows whose key begins with the prefix. */
export type Removal = { readonly table: TableName; readonly prefix: Key };

/**
 * An atomic write: checks first, then removals, then puts. If a check fails, nothing is written. Exported as
 * `StorageBatch`.
 */
export type Batch = {
  /** Conditions. If one of them fails, nothing is written. */
  readonly checks: readonly Check[];
  /** Rows to remove. */
  readonly removals: readonly Removal[];
  /** Rows to write. A row of the same key is replaced. */
  readonly puts: readonly Put[];
  /**
   * `false`: the write need not be flushed to disk. It survives a crash of the process, but not necessarily a power
   * loss. For lease renewals and live text. Default: `true`.
   */
  readonly lasting?: boolean;
};

/** The result of a write. `check`: the index of the first check that failed; nothing was written then. */
export type Written = { readonly ok: true } | { readonly ok: false; readonly check: number };

/** Returns the name of a session in the set that `watch` passes to its callback. */
export function sessionName(tenant: string, session: string): string {
  return JSON.stringify([tenant, session]);
}

/**
 * Recognises leases of processes that have ended, so that they are claimed before they expire. Only for a storage whose
 * processes can tell: a wrong answer lets two processes perform the same effect. Writes stay fenced by the epoch in any
 * case.
 */
export type Liveness = {
  /**
   * Identifies this process for ever, among all processes that use the storage; `null`: it cannot be identified. Stored
   * in lease rows.
   */
  readonly process: string | null;
  /**
   * Returns `true` only if the process of that identity has certainly ended; `false` if it runs, or if that cannot be
   * found out. Never throws.
   */
  readonly hasEnded: (process: string) => boolean;
  /**
   * Calls back when another process has ended, so that its turns are taken over at once. Returns the function that ends
   * it. Absent: workers ask `hasEnded` about once a second.
   */
  readonly onEnded?: (ended: () => void) => () => void;
};

/** The size of a table, for operators. */
export type TableSize = {
  readonly table: TableName;
  /** The number of rows; `null`: it is not known. */
  readonly rows: number | null;
  /** `true`: `rows` is an estimate of the database. */
  readonly isEstimate: boolean;
  /** The disk space of the table and its indexes, in bytes; `null`: it is not known. */
  readonly bytes: number | null;
};

/** A search for messages that contain all words. */
export type StorageSearch = {
  readonly tenant: string;
  /**
   * At least one word, of letters and digits. The last one may be the beginning of a word. Case and diacritics are
   * ignored.
   */
  readonly words: readonly string[];
  /** The largest number of messages. */
  readonly limit: number;
};

/** A message that a search has found: its key in `entries`. */
export type StorageHit = { readonly session: string; readonly position: number };

/**
 * A transactional row store: what a storage has to implement. Errors reject with a `RuntimeError`: `storage_full`,
 * `storage_busy`, `corrupt_row`, `newer_schema` or `storage_failed`. No part of the batch has been written then, with
 * one exception: a `storage_failed` with `transient: true` in its metadata. It says that the storage could not be
 * reached and that the operation is worth repeating; a batch may then have been written completely. A process that
 * holds results of a turn repeats operations after `storage_full`, `storage_busy` and such an error, and leaves the
 * turn after any other.
 */
export type HostStorage = {
  /** The name of the storage in error messages. */
  readonly name: string;
  /** `durable`: written rows outlive the process. */
  readonly durability: "durable" | "volatile";
  /** Recognises leases of ended processes. Absent: a lease is claimed when it is released or has expired. */
  readonly liveness?: Liveness;
  /**
   * Returns the present time of the storage's clock, in milliseconds: the clock of `expires`. Times in rows come from
   * it, so that the clocks of processes do not matter. Absent: all processes share the clock of the storage.
   */
  readonly now?: () => Promise<number>;
  /** Answers several queries from one snapshot, in order. */
  readonly read: (queries: readonly Query[]) => Promise<readonly (readonly Row[])[]>;
  /** Writes a conditional batch. A failed check resolves with `ok: false`; it is not an error. */
  readonly write: (batch: Batch) => Promise<Written>;
  /**
   * Calls back soon after a write, of this process or another. The callback is a hint: several writes may be reported
   * as one, and a write that changed nothing may be reported too. A storage that knows what was written passes the
   * names of the sessions (`sessionName`) and the tables. A storage that does not know omits them, and every watcher
   * reads. Returns the function that ends the watch.
   */
  readonly watch: (changed: (sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>) => void) => () => void;
  /** Returns the sizes of the tables, for operators; the runtime does not call it. Absent: the storage cannot tell. */
  readonly sizes?: () => Promise<readonly TableSize[]>;
  /**
   * Finds messages (rows of `entries`) of a tenant by the words of their texts, newest first. The index is written in
   * the transaction of the rows; at least the first 20,000 characters of a message are in it. Absent: the storage
   * cannot search.
   */
  readonly search?: (search: StorageSearch) => Promise<readonly StorageHit[]>;
};
