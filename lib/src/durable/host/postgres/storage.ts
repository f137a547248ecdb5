// The storage in Postgres: many processes on many machines share one database.
//
// Theory of operation
//   A read is one statement, so all its queries see one snapshot. A batch is one call of a function (`schema.ts`), or a
//   serializable transaction (`mode: "transaction"`). Connections come from a pool and are returned after each
//   operation. The server's clock decides expiry. Clients never compare their own clocks with stored times. One
//   connection is kept by the storage (`process-connection.ts`). It sends and receives notifications of writes, and
//   holds a lock by which other processes see that this one lives. Nothing depends on it: without it, other processes
//   notice writes by polling, and take turns over when leases expire.
//
// Failures
//   connection lost       reads are tried again; a write rejects if it may have been committed (`database.ts`), and its
//                         caller reads before it tries again (Q1)
//   failover              the same; the pool connects to whatever server the address leads to. A server that is
//                         read-only, such as a standby before its promotion, answers nothing: its rows may be older
//                         than what was committed. The operation is tried again over a new connection

import type { Closeable } from "../../../core/model/internal.ts";
import type { HostStorage } from "../../rows/internal.ts";
import type { PostgresOptions } from "./options.ts";

import { startTimer } from "../../../core/clock/timer.ts";
import { closeable } from "../../../core/model/internal.ts";
import { checkBatch, checkQuery } from "../shared/access.ts";
import { readOnlyError } from "../shared/read-only.ts";
import { Watchers } from "../shared/watchers.ts";
import { Database } from "./database.ts";
import { checkedOptions } from "./options.ts";
import { ProcessConnection } from "./process-connection.ts";
import { Statements } from "./rows.ts";
import { schemaVersion } from "./schema.ts";
import { messageRecords, SearchIndex } from "./search.ts";

/** The storage that {@link postgresStorage} returns. */
export type PostgresStorage = HostStorage &
  Closeable & {
    /**
     * Connects and creates or migrates the tables now instead of with the first operation. Rejects with `RuntimeError`
     * if that fails.
     */
    readonly open: () => Promise<PostgresInfo>;
    /** Sends pending notifications and closes all connections that the storage opened. Later operations reject. */
    readonly close: () => Promise<void>;
    /** Counters since the storage was created. */
    readonly statistics: () => PostgresStatistics;
  };

/** What {@link PostgresStorage} has opened. */
export type PostgresInfo = {
  /** The version of the tables. */
  readonly schemaVersion: number;
};

/** How long the process is kept alive while connections are closed, in milliseconds. */
const closeMs = 10_000;

/** Counters of a {@link PostgresStorage}. */
type PostgresStatistics = {
  /** Reads that were answered. */
  readonly reads: number;
  /** Batches that were answered, including those whose check failed. */
  readonly writes: number;
  /** Statements that were sent for them, each one a round trip. */
  readonly roundTrips: number;
  /** Operations that were tried again after a failure. */
  readonly retries: number;
  /** Notifications of writes that were sent to other processes. */
  readonly notificationsSent: number;
  /** Notifications of other processes. */
  readonly notificationsReceived: number;
};

/**
 * Creates a storage in a Postgres database. The first operation, or `open()`, connects and creates or migrates the
 * tables. Call `close()` when nothing uses the storage any more. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { postgresStorage } from "everturn/postgres";
 *
 * const storage = postgresStorage({ url: "postgres://app@localhost:5432/app" });
 * storage.name; // => "postgres://localhost:5432/app"
 * ```
 */
export function postgresStorage(options: PostgresOptions): PostgresStorage {
  const checked = checkedOptions(options);
  const { name, mode, transactionPooler, readOnly, search } = checked;
  const database = new Database(checked);
  const statements = new Statements(checked, name, !transactionPooler);
  const index = search ? new SearchIndex(database, checked, readOnly) : null;
  const watchers = new Watchers();
  const processConnection = new ProcessConnection(database, checked, (written) => watchers.report(written));
  let reads = 0;
  let writes = 0;

  return closeable({
    name,
    durability: "durable",
    ...(processConnection.liveness === null ? {} : { liveness: processConnection.liveness }),
    open: async () => {
      await database.open();
      if (!readOnly) {
        await processConnection.start();
        await processConnection.started();
      }
      return { schemaVersion };
    },
    now: () => database.run("read", (connection) => statements.now(connection)),
    read: async (queries) => {
      for (const query of queries) checkQuery(query);
      // A lease is read before it is claimed.
      if (!readOnly && queries.some(({ table }) => table === "leases")) await processConnection.started();
      const rows = await database.run("read", (connection) => statements.read(connection, queries));
      reads += 1;
      return rows;
    },
    write: async (batch) => {
      checkBatch(batch);
      if (readOnly) throw readOnlyError(name);
      const messages = index === null ? null : messageRecords(batch);
      const written = await database.run("write", (connection) =>
        mode === "function"
          ? statements.write(connection, batch, messages)
          : statements.writeInTransaction(connection, batch, messages),
      );
      writes += 1;
      index?.indexSoon();
      if (written.ok && batch.removals.length + batch.puts.length > 0) {
        watchers.notify(batch);
        processConnection.notify(batch);
      }
      return written;
    },
    watch: (changed) => {
      const ends = [watchers.add(changed), processConnection.watch()];
      return () => {
        for (const end of ends.splice(0)) end();
      };
    },
    sizes: () => database.run("read", (connection) => statements.sizes(connection)),
    ...(index === null ? {} : { search: index.search }),
    statistics: () => ({
      reads,
      writes,
      roundTrips: statements.roundTrips,
      retries: database.retries,
      notificationsSent: processConnection.sent,
      notificationsReceived: processConnection.received,
    }),
    close: async () => {
      // Idle connections do not keep the process alive. Without a timer it would end before they are closed.
      const stop = startTimer(checked.clock, closeMs, () => undefined);
      await index?.close();
      await processConnection.close();
      await database.close();
      stop();
    },
  } satisfies Omit<PostgresStorage, keyof Closeable>);
}
