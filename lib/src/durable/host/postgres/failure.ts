// Classifies errors of Postgres clients and converts them to errors of the storage contract.
//
// For a write the question is whether the batch may have been committed. An error that the server reports for a
// statement (a SQLSTATE) means that its transaction was rolled back. A connection that ends while a statement runs
// leaves the outcome unknown, unless the statement was not sent, or the statement was not the `COMMIT` of its
// transaction.

import type { RuntimeErrorReason } from "../../../core/model/internal.ts";

import { isEverturnError, MisuseError, RuntimeError } from "../../../core/model/internal.ts";

/**
 * `lost`: the connection failed, or the server is shutting down or starting; the outcome of a statement that was sent
 * is unknown. `refused`: the server rolled the statement back for a reason that passes, such as a serialization
 * failure. `failed`: trying again would fail again.
 */
export type FailureKind = "lost" | "refused" | "failed";

/** Errors of sockets and of the name service, as Node reports them. */
const socketCodes = /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_AGAIN|EADDRNOTAVAIL|ENOENT|CONNECTION_)/;

/**
 * SQLSTATE classes and codes: 08 connection, 40003 outcome unknown to the server itself, 57P01–57P05 shutdown, start
 * and ended sessions.
 */
const lostStates = /^(08|40003|57P0)/;

/** The SQLSTATE of a statement that a read-only server refused. */
const readOnlyState = "25006";

/**
 * Serialization failure, deadlock, lock timeout, too many connections, a statement that was cancelled
 * (`statement_timeout`), and a read-only server.
 */
const passingStates: ReadonlySet<string> = new Set(["40001", "40P01", "55P03", "53300", "57014", readOnlyState]);

/** The SQLSTATE class of errors of the operating system, such as `io_error`. */
const systemStates = /^58/;

/** The SQLSTATE of a serializable transaction on a standby (and of other features that a server lacks). */
const unsupportedState = "0A000";

/**
 * The error of an operation that ran on a server which refuses writes: a standby, also one that is about to be
 * promoted, or a former primary. What such a server returns may be older than what was committed, so neither rows nor a
 * failed check of it count.
 */
export function readOnlyServer(cause?: unknown): Error {
  return Object.assign(new Error("the server is read-only", { cause }), { code: readOnlyState });
}

/** Converts an error of the statement that begins a serializable transaction: a standby supports none. */
export function beginError(error: unknown): unknown {
  return sqlState(error) === unsupportedState ? readOnlyServer(error) : error;
}

/**
 * Returns whether the connection may be used again after an error: the server refused one statement, and would accept
 * it later.
 */
export function isUsableAfter(error: unknown): boolean {
  return kindOf(error) === "refused" && sqlState(error) !== readOnlyState;
}

/** Classifies an error of the client. */
export function kindOf(error: unknown): FailureKind {
  const code = sqlState(error);
  if (code === null) {
    // pg reports a connection that ended without a code.
    return error instanceof Error && /connection|timeout/i.test(error.message) ? "lost" : "failed";
  }
  if (socketCodes.test(code) || lostStates.test(code)) return "lost";
  return passingStates.has(code) ? "refused" : "failed";
}

/** The SQLSTATE of an error, or the code of a socket error; `null`: it has none. */
function sqlState(error: unknown): string | null {
  if (typeof error !== "object" || error === null || !("code" in error)) return null;
  return typeof error.code === "string" ? error.code : null;
}

/**
 * The failure of a transaction before its `COMMIT` was sent: the server rolls it back, also if the connection is lost.
 * `cause` is the error of the client.
 */
export class NotCommitted extends Error {
  override readonly name: string = "NotCommitted";

  constructor(cause: unknown) {
    super("the transaction failed before its commit", { cause });
  }
}

/** What the storage knows about the batch of a failed write. */
export type WriteOutcome = "not_written" | "unknown";

/** The error to throw in place of a client's error. Errors of this library are returned unchanged. */
export function storageError(thrown: unknown, storage: string, outcome: WriteOutcome): unknown {
  if (isEverturnError(thrown) || thrown instanceof MisuseError) return thrown;
  const { reason, what, todo } = explain(thrown);
  const written =
    outcome === "unknown" ? "The batch may have been written: read before you try again." : "Nothing was written.";
  return new RuntimeError(reason, {
    message: `the storage "${storage}" ${what}. ${written} ${todo}`,
    cause: thrown,
    metadata: {
      storage,
      ...(outcome === "unknown" ? { outcome } : {}),
      ...(reason === "storage_failed" && passes(thrown) ? { transient: true } : {}),
    },
  });
}

/** Returns whether the server may be reachable again later, or may have been able to write. */
function passes(thrown: unknown): boolean {
  return kindOf(thrown) === "lost" || systemStates.test(sqlState(thrown) ?? "");
}

type Explanation = { readonly reason: RuntimeErrorReason; readonly what: string; readonly todo: string };

function explain(thrown: unknown): Explanation {
  const code = sqlState(thrown) ?? "";
  if (code === "53100" || code === "53200") {
    return {
      reason: "storage_full",
      what: `has no ${code === "53100" ? "disk space" : "memory"} left`,
      todo: "Free some on the database server and try again; earlier data is intact.",
    };
  }
  if (code === readOnlyState) {
    return {
      reason: "storage_busy",
      what: "is read-only, as a standby is",
      todo: "Connect to the primary server; during a failover, try again.",
    };
  }
  if (code.startsWith("28")) {
    return {
      reason: "storage_failed",
      what: "refused the user or the password",
      todo: "Check the user and the password of the connection.",
    };
  }
  if (code === "54000") {
    return {
      reason: "storage_failed",
      what: "refused a row: a key is too long for an index of Postgres (2,704 bytes)",
      todo: "Use shorter tenants, session ids, limit keys and idempotency keys.",
    };
  }
  if (code === "3D000") {
    return { reason: "storage_failed", what: "has no such database", todo: "Create it: createdb <name>." };
  }
  if (code === "42501") {
    return {
      reason: "storage_failed",
      what: "refused an operation for lack of a privilege",
      todo: "Let the user create tables and functions in the schema, or run the migration with a user who may.",
    };
  }
  if (code.startsWith("XX001") || code.startsWith("XX002")) {
    return { reason: "corrupt_row", what: "has damaged data", todo: "Restore a backup." };
  }
  switch (kindOf(thrown)) {
    case "lost":
      return {
        reason: "storage_failed",
        what: "could not be reached, or the connection to it was lost",
        todo: "Check that the server runs and accepts connections.",
      };
    case "refused":
      return {
        reason: "storage_busy",
        what: `refused the operation for the moment (${code})`,
        todo: "Try again; if it stays busy, look for long transactions and for the number of connections.",
      };
    case "failed":
      return { reason: "storage_failed", what: "failed", todo: "See the cause." };
  }
}
