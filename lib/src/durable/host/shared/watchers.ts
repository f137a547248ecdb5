// The watchers of a storage. They are called in a microtask after a write, never from inside it. Writes before that
// microtask are reported together, so a write costs no task for each watcher. The report names the sessions and tables
// that were written, so that a watcher of another session does not read. A watcher that throws does not affect the
// others; its error becomes an uncaught exception.

import type { Batch, TableName } from "../../rows/internal.ts";

import { sessionName, tableNames, tables } from "../../rows/internal.ts";

/** The watchers of one storage, or of all storages on one handle. */
export class Watchers {
  readonly #all = new Set<Watcher>();
  /** A call of the watchers is scheduled; later writes are reported with it. */
  #isScheduled = false;
  /** The sessions that were written to since the last call; `undefined`: not known. */
  #sessions: Set<string> | undefined = new Set();
  /** The tables that were written to since the last call; `undefined`: not known. */
  #tables: Set<TableName> | undefined = new Set();

  /** Calls back soon after each `notify`. Returns the function that ends it. */
  add(changed: Watcher["changed"]): () => void {
    const watcher: Watcher = { changed };
    this.#all.add(watcher);
    return () => void this.#all.delete(watcher);
  }

  /** Reports a written batch; `null`: another connection has written something. */
  notify(batch: Batch | null): void {
    if (this.#all.size === 0 || (batch !== null && isRenewal(batch))) return;
    this.report(batch === null ? unknownWrite : namesOf(batch));
  }

  /** Reports a write by the names of what was written. */
  report({ sessions, tables: written }: WrittenNames): void {
    if (this.#all.size === 0) return;
    this.#sessions = union(this.#sessions, sessions);
    this.#tables = union(this.#tables, written);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      const [sessions, written] = [this.#sessions, this.#tables];
      this.#isScheduled = false;
      this.#sessions = new Set();
      this.#tables = new Set();
      // A watcher that is removed during the calls is not called any more; one that is added is not called yet.
      const watchers = Array.from(this.#all);
      for (const watcher of watchers) if (this.#all.has(watcher)) call(watcher, sessions, written);
    });
  }
}

/** The sessions (`sessionName`) and tables that were written to; `undefined`: not known. */
export type WrittenNames = {
  readonly sessions: ReadonlySet<string> | undefined;
  readonly tables: ReadonlySet<TableName> | undefined;
};

/** A write of which nothing is known. */
export const unknownWrite: WrittenNames = { sessions: undefined, tables: undefined };

/**
 * The names of what a batch writes. The removal of a cancel is not reported: every end of a turn removes the cancels of
 * the turn, and nothing waits for that.
 */
export function namesOf({ puts, removals }: Pick<Batch, "puts" | "removals">): WrittenNames {
  const written = new Set<TableName>();
  let sessions: Set<string> | undefined = new Set();
  const removed = removals.filter(({ table }) => table !== "cancels");
  for (const { table, key } of [...puts, ...removed.map(({ table, prefix }) => ({ table, key: prefix }))]) {
    written.add(table);
    const at = sessionAt[table];
    if (at === undefined) continue;
    const [tenant, session] = [key[at.tenant], key[at.session]];
    // A removal by a prefix that is shorter than a session may concern any session.
    if (typeof tenant !== "string" || typeof session !== "string") sessions = undefined;
    else sessions?.add(sessionName(tenant, session));
  }
  return { sessions, tables: written };
}

/**
 * Returns whether a batch only renews leases. Nothing waits for that: a process that drives a thousand turns would wake
 * all their readers for nothing.
 */
export function isRenewal({ puts, removals, lasting }: Batch): boolean {
  return lasting === false && removals.length === 0 && puts.every(({ table }) => table === "leases");
}

/** Adds names to a set; `undefined` in either is not known. */
export function union<T>(known: Set<T> | undefined, added: ReadonlySet<T> | undefined): Set<T> | undefined {
  if (known === undefined || added === undefined) return undefined;
  for (const name of added) known.add(name);
  return known;
}

/** Where tenant and session are in the keys of a table, if its rows belong to a session or to work for a session. */
const sessionAt: { readonly [Table in TableName]?: { readonly tenant: number; readonly session: number } } =
  Object.fromEntries(
    tableNames().flatMap((table) => {
      const names = tables[table].map(({ name }): string => name);
      const [tenant, session] = [names.indexOf("tenant"), names.indexOf("session")];
      const isOfSession = (tenant === 0 && session === 1) || table === "work";
      return isOfSession ? [[table, { tenant, session }]] : [];
    }),
  );

/** An object for each registration: the same function may be added twice, and each registration ends on its own. */
type Watcher = { readonly changed: (sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>) => void };

/** Calls a watcher. Its error is rethrown in a microtask, so that it is reported and does not stop the others. */
function call({ changed }: Watcher, ...written: Parameters<Watcher["changed"]>): void {
  try {
    changed(...written);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
