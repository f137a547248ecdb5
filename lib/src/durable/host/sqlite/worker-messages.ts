// Messages between the path form of the storage and its worker thread. A request has an id, which its outcome repeats;
// outcomes may arrive in another order than the requests.

import type { Batch, Query, Row, StorageSearch, TableSize, Written } from "../../rows/internal.ts";
import type { SearchResult } from "../shared/search-steps.ts";
import type { CheckedOptions } from "./options.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { field } from "./database.ts";
import { storageError } from "./failure.ts";

/** The options with which the thread is started. */
export type ThreadOptions = Omit<CheckedOptions, "clock"> & {
  /** An absolute path, or `:memory:`. */
  readonly path: string;
  /** The name of the storage in error messages. */
  readonly storage: string;
  /** See `loadDriver`. */
  readonly driver: string | null;
};

export type OpenRequest = { readonly type: "open"; readonly id: number };
export type ReadRequest = { readonly type: "read"; readonly id: number; readonly queries: readonly Query[] };
export type SizesRequest = { readonly type: "sizes"; readonly id: number };
export type SearchRequest = { readonly type: "search"; readonly id: number; readonly search: StorageSearch };
export type WriteRequest = { readonly type: "write"; readonly id: number; readonly batch: Batch };
/** A message to the thread. */
export type ThreadRequest =
  | OpenRequest
  | ReadRequest
  | SizesRequest
  | SearchRequest
  | WriteRequest
  | { readonly type: "watch"; readonly on: boolean }
  | { readonly type: "close" };

/** The outcome of a request. */
export type Outcome =
  | { readonly type: "opened"; readonly id: number; readonly driver: string; readonly schemaVersion: number }
  | { readonly type: "read"; readonly id: number; readonly rows: readonly (readonly Row[])[] }
  | { readonly type: "sizes"; readonly id: number; readonly sizes: readonly TableSize[] }
  | { readonly type: "found"; readonly id: number; readonly found: SearchResult }
  | { readonly type: "written"; readonly id: number; readonly written: Written }
  | { readonly type: "failed"; readonly id: number; readonly error: SentError };

/** A message from the thread. */
export type ThreadReply =
  /** `transactions`: the number of transactions that were committed for these outcomes. */
  | { readonly type: "outcomes"; readonly outcomes: readonly Outcome[]; readonly transactions: number }
  /** Another connection has written. */
  | { readonly type: "changed" }
  | { readonly type: "closed"; readonly error: SentError | null };

/** A `RuntimeError` as a message: a structured clone of an error keeps neither its class nor its own fields. */
export type SentError = { readonly failure: RuntimeError["failure"]; readonly cause: SentCause | null };
type SentCause = { readonly name: string; readonly message: string; readonly stack: string; readonly code: unknown };

/** Converts an error to a message. */
export function sentError(thrown: unknown, { storage, busyMs }: Pick<ThreadOptions, "storage" | "busyMs">): SentError {
  const error = storageError(thrown, storage, busyMs);
  if (error instanceof RuntimeError) return { failure: error.failure, cause: sentCause(error.cause) };
  // Not expected: requests are validated before they are sent.
  const unexpected = new RuntimeError("storage_failed", { message: `the storage "${storage}" failed`, cause: error });
  return { failure: unexpected.failure, cause: sentCause(error) };
}

/** Restores an error from a message. */
export function receivedError({ failure, cause }: SentError): RuntimeError {
  if (cause === null) return new RuntimeError(failure);
  const { name, message, stack, code } = cause;
  return new RuntimeError(failure, { cause: Object.assign(new Error(message), { name, stack, code }) });
}

function sentCause(cause: unknown): SentCause | null {
  if (cause === undefined || cause === null) return null;
  const code = field(cause, "code") ?? field(cause, "errcode");
  const sendable = typeof code === "string" || typeof code === "number" ? code : undefined;
  return cause instanceof Error
    ? { name: cause.name, message: cause.message, stack: cause.stack ?? "", code: sendable }
    : { name: "Error", message: String(cause), stack: "", code: sendable };
}

/** The size of a batch: the number of characters in its values. Keys are small and not counted. */
export function batchSize(batch: Batch): number {
  return batch.puts.reduce((sum, { value }) => sum + value.length, 0);
}
