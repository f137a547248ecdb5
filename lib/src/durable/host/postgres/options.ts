// Options of `postgresStorage`, and their defaults.

import type { Clock } from "../../../core/clock/clock.ts";
import type { PostgresPool } from "./client.ts";

import { systemClock } from "../../../core/clock/clock.ts";
import { MisuseError } from "../../../core/model/internal.ts";

/** Options of {@link postgresStorage}. Exactly one of `url` and `pool` is required. */
export type PostgresOptions = {
  /**
   * The connection string, `postgres://user:password@host:port/database`. The storage opens a pool of its own with the
   * package `pg`.
   */
  readonly url?: string;
  /**
   * A pool that the caller opened, and closes. It needs at least two connections, because one is held for
   * notifications, unless `transactionPooler` is set.
   */
  readonly pool?: PostgresPool;
  /** The name in error messages. Default: the URL without user and password, or `postgres`. */
  readonly name?: string;
  /** The schema of the tables, which is created if it does not exist. Default: `public`. */
  readonly schema?: string;
  /** The prefix of table names: lower-case letters, digits and underscores. Default: `everturn_`. */
  readonly tablePrefix?: string;
  /**
   * The largest number of connections of the pool that `url` opens. Default: 10. One of them is held for notifications.
   */
  readonly maxConnections?: number;
  /** How long to wait for a connection, in milliseconds. Default: 10,000. Only for `url`. */
  readonly connectMs?: number;
  /**
   * How long an operation is tried again while the server cannot be reached or refuses it for the moment, in
   * milliseconds. Default: 10,000. A write is tried again only if it was certainly not committed.
   */
  readonly retryMs?: number;
  /**
   * `function`: a batch is one call of a PL/pgSQL function, one round trip. `transaction`: a batch is a serializable
   * transaction of several statements, for databases with Postgres's protocol that have no PL/pgSQL or no advisory
   * locks. Default: `function`.
   */
  readonly mode?: "function" | "transaction";
  /**
   * The connections pass a pooler that gives each transaction another connection, such as PgBouncer with
   * `pool_mode = transaction`. The storage then uses nothing that belongs to a connection: no notifications, no
   * prepared statements, no recognition of ended processes. Default: `false`.
   */
  readonly transactionPooler?: boolean;
  /**
   * How often to look for writes of other processes while the storage is watched, in milliseconds. Default: 5,000
   * beside notifications, 100 without them.
   */
  readonly pollMs?: number;
  /**
   * A process counts as ended when its connection for notifications has been closed for this long, in milliseconds. Its
   * turns are then taken over before their leases expire. Default: 500, which is also the smallest value; `null`: only
   * when the leases expire.
   */
  readonly endedAfterMs?: number | null;
  /** The clock of intervals. Expiry is decided by the clock of the server. Default: the system clock. */
  readonly clock?: Clock;
  /**
   * `true`: tables are neither created nor migrated, every write rejects with `storage_failed`, and no connection is
   * kept. Opening rejects if the tables are of another version than this release uses. For checks such as
   * `replayOpenTurns`. Default: `false`.
   */
  readonly readOnly?: boolean;
  /**
   * `true`: messages can be searched (`search` of the runtime), with a `tsvector` and a GIN index. The index takes
   * about as much space as the texts. Once it exists, every process that writes maintains it; words of messages of
   * processes without the option, and of older ones, are added by and by, with writes and searches. Needs Postgres 14
   * and PL/pgSQL, also with `mode: "transaction"`. Default: `false`.
   */
  readonly search?: boolean;
};

/** Options with defaults filled in. */
export type CheckedOptions = {
  readonly source: { readonly url: string } | { readonly pool: PostgresPool };
  readonly name: string;
  readonly schema: string;
  readonly tablePrefix: string;
  readonly maxConnections: number;
  readonly connectMs: number;
  readonly retryMs: number;
  readonly mode: "function" | "transaction";
  readonly transactionPooler: boolean;
  readonly pollMs: number | null;
  readonly endedAfterMs: number | null;
  readonly clock: Clock;
  readonly readOnly: boolean;
  readonly search: boolean;
};

/** Fills in defaults. Throws `MisuseError` for invalid values. */
export function checkedOptions(options: PostgresOptions): CheckedOptions {
  const { url, pool, schema = "public", tablePrefix = "everturn_", mode = "function" } = options;
  if ((url === undefined) === (pool === undefined)) refuse("url", "or pool is required, and not both");
  const source = pool === undefined ? { url: url ?? "" } : { pool };
  if (!/^[a-z_][a-z0-9_]{0,30}$/.test(tablePrefix)) refuse("tablePrefix", identifierRule);
  if (!/^[a-z_][a-z0-9_]{0,30}$/.test(schema)) refuse("schema", identifierRule);
  if (mode !== "function" && mode !== "transaction") refuse("mode", 'must be "function" or "transaction"');
  const { maxConnections = 10, connectMs = 10_000, retryMs = 10_000, endedAfterMs = 500, pollMs = null } = options;
  const { search = false } = options;
  if (!isWhole(maxConnections, 2)) refuse("maxConnections", "must be a whole number of 2 or more");
  if (!isWhole(connectMs, 1)) refuse("connectMs", millisecondsRule);
  if (!isWhole(retryMs, 0)) refuse("retryMs", "must be a whole number of milliseconds of 0 or more");
  if (pollMs !== null && !isWhole(pollMs, 1)) refuse("pollMs", millisecondsRule);
  if (endedAfterMs !== null && !isWhole(endedAfterMs, 500)) {
    refuse("endedAfterMs", "must be a whole number of milliseconds of 500 or more, or null");
  }
  if (typeof search !== "boolean") refuse("search", "must be true or false");
  if (pool !== undefined && options.transactionPooler !== true && options.readOnly !== true && poolSize(pool) < 2) {
    refuse("pool", "must have 2 or more connections, because one is held for notifications; or set transactionPooler");
  }
  return {
    source,
    name: options.name ?? (url === undefined ? "postgres" : databaseName(url)),
    schema,
    tablePrefix,
    maxConnections,
    connectMs,
    retryMs,
    mode,
    transactionPooler: options.transactionPooler ?? false,
    pollMs,
    endedAfterMs,
    clock: options.clock ?? systemClock,
    readOnly: options.readOnly === true,
    search,
  };
}

/** The size of a pool of `pg`; others do not tell it. */
function poolSize(pool: PostgresPool): number {
  const poolOptions: unknown = Reflect.get(pool, "options");
  const max: unknown = typeof poolOptions === "object" && poolOptions !== null ? Reflect.get(poolOptions, "max") : null;
  return typeof max === "number" ? max : Infinity;
}

const identifierRule =
  "must consist of at most 31 lower-case letters, digits and underscores, and must not begin with a digit";
const millisecondsRule = "must be a whole number of milliseconds of 1 or more";

function isWhole(value: number, least: number): boolean {
  return Number.isSafeInteger(value) && value >= least;
}

function refuse(option: keyof PostgresOptions, rule: string): never {
  throw new MisuseError("invalid_argument", `postgresStorage: ${option} ${rule}`, { path: [option] });
}

/**
 * The URL without user, password and parameters. Throws `MisuseError`, without the URL, if it is none. A `/`, `?` or
 * `#` in a password ends the host, so the rest of the password would be part of the path and of the name.
 */
function databaseName(url: string): string {
  if (!URL.canParse(url))
    refuse("url", `must have the form postgres://user:password@host:port/database, ${encodingRule}`);
  const { protocol, host, pathname, search, hash } = new URL(url);
  if (protocol !== "postgres:" && protocol !== "postgresql:") {
    refuse("url", "must begin with postgres:// or postgresql://");
  }
  const isCut = /^\/[^/]*[@/]/.test(pathname) || hash !== "" || (pathname.length <= 1 && search.includes("@"));
  if (isCut) refuse("url", `has more than one path segment, or a fragment: write it ${encodingRule}`);
  return `postgres://${host}${pathname}`;
}

const encodingRule = "with special characters of the user and the password percent-encoded";
