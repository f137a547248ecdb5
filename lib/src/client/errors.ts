// What a server's refusal is here: the library's own error where it names one of its failures, else a `ClientError`. No token is in any of them.

import type { Issue, Path } from "../model/internal.ts";

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
} from "../model/internal.ts";

/**
 * Why a request failed in the client. `unreachable`: no response. `connection_lost`: a stream was cut and could
 * not be resumed. `unexpected_answer`: the response is not of this API. The other reasons come from the server; a
 * newer server may send more.
 */
export type ClientErrorReason = (typeof clientErrorReasons)[number];
const clientErrorReasons = ["unreachable", "connection_lost", "unexpected_answer", ...httpReasons] as const;

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
  /** One of `clientErrorReasons`, or a word of a newer server's. */
  readonly reason: string;
  /** The HTTP status; `null` when there was no answer. */
  readonly status: number | null;
  /** Where in what was sent, if it is that. */
  readonly path: Path;
  readonly issues: readonly Issue[];
  /** How long the server asked to wait. */
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

/** What a server says that went wrong. */
export type SentFailure = {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly path?: Path;
  readonly issues?: readonly Issue[];
  readonly paths?: readonly string[];
};

/** The failure in an answer, or in a frame of a stream; `null`: there is none. */
export function sentFailure(body: unknown): SentFailure | null {
  const error: unknown = typeof body === "object" && body !== null ? Reflect.get(body, "error") : null;
  if (typeof error !== "object" || error === null) return null;
  if (!("type" in error && "reason" in error && "message" in error)) return null;
  const { type, reason, message } = error;
  if (typeof type !== "string" || typeof reason !== "string" || typeof message !== "string") return null;
  return { ...error, type, reason, message };
}

/** The error that says what the server said. */
export function errorOf(failure: SentFailure, status: number | null, retryAfterMs: number | null): Error {
  const known = libraryError(failure);
  if (known !== null) return known;
  const { reason, message, path = [], issues = [] } = failure;
  return new ClientError(reason, message, { path, issues, retryAfterMs, ...(status === null ? {} : { status }) });
}

/** A failure of the library's, as its own error; `null`: it is none, or a newer release's. */
function libraryError(failure: SentFailure): Error | null {
  const { type, message, issues = [], paths = [], path = [] } = failure;
  switch (type) {
    case "engine_error":
      return known(engineErrorReasons, failure, (reason) => new EngineError(reason, { message }));
    case "adapter_error":
      return known(adapterErrorReasons, failure, (reason) => new AdapterError(reason, { message }));
    case "image_adapter_error":
      return known(imageAdapterErrorReasons, failure, (reason) => new ImageAdapterError(reason, { message }));
    case "stream_error":
      return known(streamErrorReasons, failure, (reason) => new StreamError(reason, { message }));
    case "tool_error":
      return known(toolErrorReasons, failure, (reason) => new ToolError(reason, { message }));
    case "session_error":
      return known(sessionErrorReasons, failure, (reason) => new SessionError(reason, { message }));
    case "validation_error":
      return known(validationErrorReasons, failure, (reason) => new ValidationError(reason, { message, issues }));
    case "runtime_error":
      return known(runtimeErrorReasons, failure, (reason) => new RuntimeError(reason, { message, paths }));
    case "misuse":
      return known(misuseReasons, failure, (reason) => new MisuseError(reason, message, { path }));
    default:
      // Not a closed union: what a server says is data.
      return null;
  }
}

function known<const R extends string>(
  reasons: readonly R[],
  { reason }: SentFailure,
  make: (reason: R) => Error,
): Error | null {
  const found = reasons.find((one) => one === reason);
  return found === undefined ? null : make(found);
}

/** Is this the server saying that what was asked for does not exist? */
export function isNotFound(error: unknown): boolean {
  return error instanceof RuntimeError && error.reason === "not_found";
}

/** What passes: a process that stops while another goes on, a storage that is busy. */
export function isPassing({ type, reason }: SentFailure): boolean {
  return passing.has(`${type}/${reason}`);
}

const passing: ReadonlySet<string> = new Set([
  "runtime_error/lease_lost",
  "runtime_error/storage_busy",
  "runtime_error/storage_failed",
  "http_error/shutting_down",
  "http_error/too_many_requests",
]);
