// Who wants to hear of writes. They are called after the write, never from inside it, and one that throws takes no other with it. A thousand of them
// are told in one go: a write is not to cost a task for each. With it they are told which sessions were written to, so that those who wait for others
// need not look.

import type { Batch, TableName } from "../../runtime/host-contract.ts";

import { sessionName, tables } from "../../runtime/host-contract.ts";

export class Watchers {
  readonly #all = new Set<Watcher>();
  /** They are about to be called; what is written until then is told with it. */
  #told = false;
  /** The sessions that were written to since they were called last; `undefined`: nobody knows which. */
  #sessions: Set<string> | undefined = new Set();
  /** The tables that were written to since then; `undefined`: not known. */
  #tables: Set<TableName> | undefined = new Set();

  /** Calls back soon after each `tell`. Returns what ends it. */
  add(changed: Watcher["changed"]): () => void {
    const watcher: Watcher = { changed };
    this.#all.add(watcher);
    return () => void this.#all.delete(watcher);
  }

  /** Something was written: that, or, by somebody else, nobody knows what. */
  tell(batch: Batch | null): void {
    if (this.#all.size === 0) return;
    this.#note(batch);
    if (this.#told) return;
    this.#told = true;
    queueMicrotask(() => {
      const [sessions, written] = [this.#sessions, this.#tables];
      this.#told = false;
      this.#sessions = new Set();
      this.#tables = new Set();
      // Those who leave while it is told are not called any more, and those who come are not called yet.
      const now = Array.from(this.#all);
      for (const watcher of now) if (this.#all.has(watcher)) call(watcher, sessions, written);
    });
  }

  #note(batch: Batch | null): void {
    const places =
      batch === null ? null : [...batch.puts, ...batch.removals.map(({ table, prefix }) => ({ table, key: prefix }))];
    for (const { table, key } of places ?? []) {
      this.#tables?.add(table);
      if (!isOfSession(table)) continue;
      const [tenant, session] = key;
      // What is removed by less than its session may be of any.
      if (typeof tenant !== "string" || typeof session !== "string") this.#sessions = undefined;
      else this.#sessions?.add(sessionName(tenant, session));
    }
    if (places !== null) return;
    this.#sessions = undefined;
    this.#tables = undefined;
  }
}

/** Is a row of that table found by its session? */
function isOfSession(table: TableName): boolean {
  return tables[table][0].name === "tenant" && tables[table][1]?.name === "session";
}

/** Each is one of its own, also where two have the same function. */
type Watcher = { readonly changed: (sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>) => void };

function call({ changed }: Watcher, ...written: Parameters<Watcher["changed"]>): void {
  try {
    changed(...written);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
