// Options of both forms of `sqliteStorage`, and their defaults.

import type { Clock } from "../../../core/clock/clock.ts";

import { systemClock } from "../../../core/clock/clock.ts";
import { MisuseError } from "../../../core/model/internal.ts";

/** Options of {@link sqliteStorage}. */
export type SqliteOptions = {
  /** The prefix of table names: letters, digits and underscores. Default: `everturn_`. */
  readonly tablePrefix?: string;
  /**
   * How often to poll for writes of other connections while the storage is watched, in milliseconds. Default: 25; at
   * least 1.
   */
  readonly pollMs?: number;
  /**
   * The clock that decides expiry and measures `pollMs`. Default: the system clock. `busyMs` is measured by real time.
   */
  readonly clock?: Clock;
  /** The name in error messages. Default: the path of the file. */
  readonly name?: string;
  /**
   * How long to wait for a lock of another connection, in milliseconds; after that the operation rejects with
   * `storage_busy`. Default: 60,000 for a path. For a handle: 15,000, and the wait blocks the process.
   */
  readonly busyMs?: number;
  /**
   * `full`: a write resolves after an fsync, so it survives a power loss. `normal`: the latest writes may be lost with
   * the machine, never with the process. Default: `full`.
   */
  readonly synchronous?: "full" | "normal";
  /**
   * `true`: tables are neither created nor migrated, and every write rejects with `storage_failed`. Opening rejects if
   * the tables are of another version than this release uses. For checks such as `replayOpenTurns`. Default: `false`.
   */
  readonly readOnly?: boolean;
  /**
   * `true`: messages can be searched (`search` of the runtime), with FTS5. The index takes about as much space as the
   * texts, and once it exists every process that writes to the file maintains it. Messages that exist already are
   * indexed by and by, with writes and searches. Default: `false`.
   */
  readonly search?: boolean;
};

/** Options with defaults filled in. */
export type CheckedOptions = Required<Omit<SqliteOptions, "name">>;

/** Fills in defaults. Throws `MisuseError` for invalid values. */
export function checkedOptions(options: SqliteOptions, defaultBusyMs: number): CheckedOptions {
  const { tablePrefix = "everturn_", pollMs = 25, clock = systemClock } = options;
  const { busyMs = defaultBusyMs, synchronous = "full", readOnly = false, search = false } = options;
  const refuse = (option: keyof SqliteOptions, rule: string) => {
    throw new MisuseError("invalid_argument", `${option} ${rule}`, { path: [option] });
  };
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(tablePrefix)) {
    refuse("tablePrefix", "must consist of letters, digits and underscores, and must not begin with a digit");
  }
  if (!Number.isSafeInteger(pollMs) || pollMs < 1)
    refuse("pollMs", "must be a whole number of milliseconds of 1 or more");
  if (!Number.isSafeInteger(busyMs) || busyMs < 0)
    refuse("busyMs", "must be a whole number of milliseconds of 0 or more");
  if (synchronous !== "full" && synchronous !== "normal") refuse("synchronous", 'must be "full" or "normal"');
  if (typeof readOnly !== "boolean") refuse("readOnly", "must be true or false");
  if (typeof search !== "boolean") refuse("search", "must be true or false");
  return { tablePrefix, pollMs, clock, busyMs, synchronous, readOnly, search };
}
