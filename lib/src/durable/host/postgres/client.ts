// What the storage needs of a Postgres client: a pool of connections that run statements with text parameters. `Pool`
// of the package `pg` has this shape; other clients are adapted in a few lines (docs/guide/postgres.md).

import type { CheckedOptions } from "./options.ts";
import type { ClientBase, Pool as PgPool } from "pg";

import { RuntimeError } from "../../../core/model/internal.ts";

/** A statement with parameters. All values are text or `null`; the SQL casts them. */
export type PostgresStatement = {
  /** SQL with the placeholders `$1`, `$2`, … */
  readonly text: string;
  /** One value for each placeholder. */
  readonly values: (string | null)[];
  /** Statements with a name are prepared once for each connection. Absent: do not prepare. */
  readonly name?: string;
};

/** The rows of a statement. The SQL casts every selected column to text. */
export type PostgresResult = { readonly rows: readonly unknown[] };

/** A connection of a {@link PostgresPool}. */
export type PostgresConnection = {
  /** Runs one statement. Rejects with an error whose `code` is the SQLSTATE, if the server reported it. */
  readonly query: (statement: PostgresStatement) => Promise<PostgresResult>;
  /** Returns the connection to its pool; `true`: the pool closes it. */
  readonly release: (destroy?: boolean) => void;
  /**
   * Reports notifications (`LISTEN`) and the end of the connection. Absent: the client cannot report them, and the
   * storage polls for writes of other processes.
   */
  readonly on?: PostgresListener;
  /** Lets the process end while the connection is open. */
  readonly unref?: () => void;
};

/** How a connection reports events. */
type PostgresListener = {
  (event: "notification", listener: (message: { readonly payload?: string | undefined }) => void): unknown;
  (event: "error", listener: (error: Error) => void): unknown;
  (event: "end", listener: () => void): unknown;
};

/** A pool of connections: `Pool` of the package `pg`, or an object of the same shape. */
export type PostgresPool = {
  /** Takes a connection from the pool, which opens one if necessary. */
  readonly connect: () => Promise<PostgresConnection>;
};

/** A pool that the storage has opened and closes. */
export type OwnPool = PostgresPool & { readonly end: () => Promise<void> };

/** Opens a pool with the package `pg`. Rejects with `RuntimeError` if it is not installed. */
export async function openPool(url: string, options: CheckedOptions): Promise<OwnPool> {
  const { Pool } = await importPg();
  const pool = new Pool({
    connectionString: url,
    max: options.maxConnections,
    connectionTimeoutMillis: options.connectMs,
    keepAlive: true,
    allowExitOnIdle: true,
    application_name: "everturn",
    ...(options.transactionPooler ? {} : { onConnect: prepareConnection }),
  });
  // An idle connection that breaks is removed from the pool; the next operation opens another one.
  pool.on("error", () => undefined);
  return pool;
}

/**
 * Every query of the storage uses the primary key. A table that was small when its plan was made would otherwise be
 * scanned after it has grown, until the server has analysed it.
 */
async function prepareConnection(connection: ClientBase): Promise<void> {
  await connection.query("SET enable_seqscan = off");
}

async function importPg(): Promise<{ readonly Pool: typeof PgPool }> {
  try {
    const { default: pg } = await import("pg");
    return pg;
  } catch (cause) {
    const message =
      'the package "pg" could not be loaded. Run "npm install pg", or pass the option "pool" with a pool of another client.';
    throw new RuntimeError("storage_failed", { message, cause });
  }
}
