// Error responses of a server as errors: failures of the library become their own error classes, so that a program
// handles them as in process; rejections of the HTTP layer, unknown failures and connection errors become a
// `ClientError`.
//
// Invariant: no error contains a token.

import type { Issue, Path } from "../../core/model/internal.ts";

import {
  AdapterError,
  adapterErrorReasons,
  EngineError,
  engineErrorReasons,
  ImageAdapterError,
  imageAdapterErrorReasons,
  MisuseError,
  misuseReasons,
  RuntimeError,
  runtimeErrorReasons,
  SessionError,
  sessionErrorReasons,
  StreamError,
  streamErrorReasons,
  ToolError,
  toolErrorReasons,
  ValidationError,
  validationErrorReasons,
  httpReasons,
} from "../../core/model/internal.ts";
import { jsonObject, readOrNull } from "../../core/model/parse/reading.ts";

/**
 * Why a request failed in the client. `unreachable`: no response. `connection_lost`: a stream was cut and could
 * not be resumed. `unexpected_answer`: the response is not of this API. The other reasons come from the server; a
 * newer server may send more.
 */
export type ClientErrorReason = (typeof clientErrorReasons)[number];
const clientErrorReasons = ["unreachable", "connection_lost", "unexpected_answer", ...httpReasons] as const;

/** Optional fields of a {@link ClientError}. */
type ClientErrorDetails = {
  readonly status?: number;
  readonly path?: Path;
  readonly issues?: readonly Issue[];
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
};

/**
 * The server could not be reached, or its HTTP layer rejected the request. Failures of the library are thrown as
 * their own error classes.
 */
export class ClientError extends Error {
  override readonly name: string = "ClientError";
  /** A {@link ClientErrorReason}, or a reason of a newer server. */
  readonly reason: string;
  /** The HTTP status; `null` if there was no response. */
  readonly status: number | null;
  /** The invalid place in the request; empty if the error does not concern one. */
  readonly path: Path;
  /** All invalid places in the request. */
  readonly issues: readonly Issue[];
  /** The `Retry-After` of the server, in milliseconds. */
  readonly retryAfterMs: number | null;

  constructor(reason: ClientErrorReason | (string & {}), message: string, details: ClientErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.reason = reason;
    this.status = details.status ?? null;
    this.path = details.path ?? [];
    this.issues = details.issues ?? [];
    this.retryAfterMs = details.retryAfterMs ?? null;
  }
}

/** The `error` of an error response or of a frame `failure`. */
export type ServerFailure = {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly path?: Path;
  readonly issues?: readonly Issue[];
  readonly paths?: readonly string[];
  readonly call?: unknown;
};

/** The failure in a parsed body or frame; `null` if there is none. */
export function serverFailure(body: unknown): ServerFailure | null {
  const error: unknown = typeof body === "object" && body !== null ? Reflect.get(body, "error") : null;
  if (typeof error !== "object" || error === null) return null;
  if (!("type" in error && "reason" in error && "message" in error)) return null;
  const { type, reason, message } = error;
  if (typeof type !== "string" || typeof reason !== "string" || typeof message !== "string") return null;
  return { ...error, type, reason, message };
}

/** The error of a failure. */
export function errorOfFailure(failure: ServerFailure, status: number | null, retryAfterMs: number | null): Error {
  const typedError = libraryError(failure);
  if (typedError !== null) return typedError;
  const { reason, message, path = [], issues = [] } = failure;
  return new ClientError(reason, message, { path, issues, retryAfterMs, ...(status === null ? {} : { status }) });
}

/** A failure of the library as its own error class; `null` if it has another type, or a reason of a newer release. */
function libraryError(failure: ServerFailure): Error | null {
  const { type, message, issues = [], paths = [], path = [] } = failure;
  const metadata = readOrNull(jsonObject, failure.call) ?? {};
  switch (type) {
    case "engine_error":
      return withKnownReason(engineErrorReasons, failure, (reason) => new EngineError(reason, { message }));
    case "adapter_error":
      return withKnownReason(adapterErrorReasons, failure, (reason) => new AdapterError(reason, { message }));
    case "image_adapter_error":
      return withKnownReason(imageAdapterErrorReasons, failure, (reason) => new ImageAdapterError(reason, { message }));
    case "stream_error":
      return withKnownReason(streamErrorReasons, failure, (reason) => new StreamError(reason, { message }));
    case "tool_error":
      return withKnownReason(toolErrorReasons, failure, (reason) => new ToolError(reason, { message }));
    case "session_error":
      return withKnownReason(sessionErrorReasons, failure, (reason) => new SessionError(reason, { message, metadata }));
    case "validation_error":
      return withKnownReason(
        validationErrorReasons,
        failure,
        (reason) => new ValidationError(reason, { message, issues }),
      );
    case "runtime_error":
      return withKnownReason(runtimeErrorReasons, failure, (reason) => new RuntimeError(reason, { message, paths }));
    case "misuse":
      return withKnownReason(misuseReasons, failure, (reason) => new MisuseError(reason, message, { path }));
    default:
      // Not a closed union: a newer server may send other types.
      return null;
  }
}

/** Builds an error if this release knows the reason. */
function withKnownReason<const R extends string>(
  reasons: readonly R[],
  { reason }: ServerFailure,
  create: (reason: R) => Error,
): Error | null {
  const knownReason = reasons.find((candidate) => candidate === reason);
  return knownReason === undefined ? null : create(knownReason);
}

/** Whether the server reported that the session does not exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof RuntimeError && error.reason === "not_found";
}

/**
 * Whether a later request may succeed: another process drives the turn, the storage was busy, or the process shuts
 * down.
 */
export function isTransient({ type, reason }: ServerFailure): boolean {
  return transientFailures.has(`${type}/${reason}`);
}

const transientFailures: ReadonlySet<string> = new Set([
  "runtime_error/lease_lost",
  "runtime_error/storage_busy",
  "runtime_error/storage_failed",
  "http_error/shutting_down",
  "http_error/too_many_requests",
]);
