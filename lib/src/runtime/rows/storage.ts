// What a host has to be able to do: keep rows in tables, find them again, and write several of them at once or none of them. Everything else, who
// may write, what follows from what, when something counts as done, is worked out here, above the hosts, as pure functions from rows that
// were read to a batch that is written. So every host obeys the same rules, and a new one is a few statements.
//
// There are no transactions that stay open while somebody thinks. A batch names what it relies on (`checks`); if that no longer holds, nothing is
// written and whoever asked reads again.

import type { TableName } from "./tables.ts";

/** A part of a key. Numbers are whole and sort as numbers; texts sort by their code points. A place in a table has always the same kind. */
export type KeyPart = string | number;
export type Key = readonly KeyPart[];

/**
 * A stored row: its key, a tag that checks compare, an expiry and a value that hosts do not interpret. Exported as
 * `StorageRow`.
 */
export type Row = {
  readonly key: Key;
  /** What checks compare. Whoever writes the row chooses it. */
  readonly tag: number;
  /** When it expires, in milliseconds of the storage's clock; `null`: never. Clients only compare it with other values of the same row. */
  readonly expires: number | null;
  /** The time left until then when the row was read, by the storage's clock; 0 or less: it has expired. `null`: it never expires. */
  readonly remainingMs: number | null;
  readonly value: string;
};

/** Selects rows by key prefix, in key order. Exported as `StorageQuery`. */
export type Query = {
  readonly table: TableName;
  /** The first parts of the key; a whole key asks for one row. */
  readonly prefix: Key;
  /** Only rows whose next part is greater than this, or smaller. */
  readonly after?: KeyPart;
  readonly before?: KeyPart;
  readonly limit?: number;
  /** The last ones first. */
  readonly reverse?: boolean;
};

/** What has to be so for a batch to be written. */
export type Check = {
  readonly table: TableName;
  readonly key: Key;
  /** The row has to be there with this tag; `null`: it must not be there. */
  readonly tag: number | null;
  /** The row must not have expired, by the storage's clock. */
  readonly alive?: boolean;
  /** The row has to expire at exactly this time: a compare-and-swap against a renewal, which keeps the tag. */
  readonly expires?: number | null;
};

export type Put = {
  readonly table: TableName;
  readonly key: Key;
  readonly tag: number;
  readonly value: string;
  /** The row expires this many milliseconds after the write, by the storage's clock; left out or `null`: never. 0: it has expired. */
  readonly ttlMs?: number | null;
};

/** All rows whose key begins like this. */
export type Removal = { readonly table: TableName; readonly prefix: Key };

/**
 * An atomic write: checks first, then removals, then puts. If a check fails, nothing is written. Exported as
 * `StorageBatch`.
 */
export type Batch = {
  readonly checks: readonly Check[];
  readonly removals: readonly Removal[];
  readonly puts: readonly Put[];
  /** `false`: may be lost with the machine, not with the process. For what is only worth seeing now. */
  readonly lasting?: boolean;
};

/** Written; or nothing was, because this check, by its place in the batch, did not hold. */
export type Written = { readonly ok: true } | { readonly ok: false; readonly check: number };

/** Returns the name of a session in the set that `watch` passes to its callback. */
export function sessionName(tenant: string, session: string): string {
  return JSON.stringify([tenant, session]);
}

/**
 * A transactional row store: what a host has to implement. Errors reject with a `RuntimeError` (`storage_full`,
 * `storage_busy`, `corrupt_row`, `newer_schema` or `storage_failed`); nothing of the batch has been written then.
 */
export type HostStorage = {
  /** For people: what is named in errors. */
  readonly name: string;
  /** Does what was written outlive the process? */
  readonly durability: "durable" | "volatile";
  /** Several queries, answered from one moment. */
  readonly read: (queries: readonly Query[]) => Promise<readonly (readonly Row[])[]>;
  readonly write: (batch: Batch) => Promise<Written>;
  /**
   * Calls back soon after a write, in this process or another. It is a hint: several writes may be reported as one, and a write that changed nothing may be
   * reported too. A storage that knows what was written names the sessions (as `sessionName` writes them) and the tables; one that does not leaves them
   * out, and every watcher reads. Returns the function that ends the watch.
   */
  readonly watch: (changed: (sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>) => void) => () => void;
};
