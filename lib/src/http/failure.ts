// What goes wrong at this door, as an answer: a status, and the failure as data. Reasons are the library's own words; what only the operator may know,
// causes and what a provider sent, stays here.

import type { Failure, Json, JsonObject, HttpReason } from "../model/internal.ts";

import { isEverturnError, MisuseError, failureTypes, httpStatusOf, httpStatuses } from "../model/internal.ts";
import { isPlainObject } from "../model/parse/reading.ts";

/**
 * The `error` of an error response: a failure of the handler or of the library, without details that only the
 * operator may see.
 */
export type HttpFailure = {
  readonly type: "http_error" | "misuse" | Failure["type"];
  readonly reason: string;
  readonly message: string;
  /** Where in what was sent, if it is that. */
  readonly path?: readonly (string | number)[];
  readonly issues?: readonly Json[];
  /** Where a replay went another way than its record. */
  readonly paths?: readonly string[];
};

/** Thrown where a request is refused. */
export class HttpError extends Error {
  override readonly name: string = "HttpError";
  readonly reason: HttpReason;
  readonly details: Pick<HttpFailure, "path" | "issues">;
  readonly headers: { readonly [name: string]: string };

  constructor(
    reason: HttpReason,
    message: string,
    more: {
      readonly details?: Pick<HttpFailure, "path" | "issues">;
      readonly headers?: { readonly [name: string]: string };
    } = {},
  ) {
    super(message);
    this.reason = reason;
    this.details = more.details ?? {};
    this.headers = more.headers ?? {};
  }

  get status(): number {
    return httpStatuses[this.reason];
  }
}

/** What an error is to whoever asked. */
export function failureOf(error: unknown): { readonly status: number; readonly failure: HttpFailure } {
  if (error instanceof HttpError) {
    const { status, reason, message, details } = error;
    return { status, failure: { type: "http_error", reason, message, ...details } };
  }
  if (error instanceof MisuseError) {
    const { reason, message, path } = error;
    // What does not fit how a session stands is nobody's bug out here: somebody else was quicker.
    return { status: reason === "invalid_status" ? 409 : 400, failure: { type: "misuse", reason, message, path } };
  }
  if (isEverturnError(error))
    return { status: httpStatusOf(error.failure.type, error.failure.reason), failure: shown(error.failure) };
  return { status: 500, failure: { type: "http_error", reason: "internal", message: "something went wrong here" } };
}

/** A failure without what is only the operator's: causes, and what providers sent. */
function shown(failure: Failure): HttpFailure {
  const { type, reason } = failure;
  return {
    type,
    reason,
    message: wordsOf(failure),
    ...("issues" in failure ? { issues: failure.issues.map((issue): JsonObject => ({ ...issue })) } : {}),
    ...("paths" in failure && failure.paths.length > 0 ? { paths: failure.paths } : {}),
  };
}

/** What may be said of a failure. The words of a provider, of an engine's set-up and of a storage may name accounts, hosts and files: those are told by their reason. */
function wordsOf({ type, reason, message }: Pick<HttpFailure, "type" | "reason" | "message">): string {
  switch (type) {
    case "adapter_error":
    case "image_adapter_error":
    case "stream_error":
      return callersOwn.has(reason) ? message : `the model could not answer: ${reason}`;
    case "engine_error":
      // A status of 400 blames the request and not the engine's configuration.
      return httpStatusOf(type, reason) === 400 ? message : `this engine cannot run as it is set up: ${reason}`;
    case "runtime_error":
      return reason.startsWith("storage") ? `runtime error: ${reason}` : message;
    case "http_error":
    case "misuse":
    case "validation_error":
    case "session_error":
    case "tool_error":
      return message;
  }
}

/** What a provider refuses because of what was asked of it. */
const callersOwn: ReadonlySet<string> = new Set([
  "invalid_request",
  "context_length_exceeded",
  "content_filter",
  "unsupported_feature",
  "unsupported_operation",
]);

/** What is answered, as text. Failures are in many places of it, in the end of a turn, in events, in sessions that failed: wherever one is, what is only the operator's is not told. */
export function told(answer: unknown): string {
  return JSON.stringify(answer, (_, part: unknown) => withoutSecrets(part));
}

function withoutSecrets(part: unknown): unknown {
  if (!isPlainObject(part) || !("cause" in part)) return part;
  const { reason, message } = part;
  const type = failureTypes.find((one) => one === part["type"]);
  if (type === undefined || typeof reason !== "string" || typeof message !== "string") return part;
  const raw = "raw" in part ? { raw: null } : {};
  return { ...part, message: wordsOf({ type, reason, message }), cause: null, ...raw };
}

/** What is gone in a moment, for those who ask again. */
const passes: ReadonlySet<string> = new Set(["shutting_down", "storage_busy", "storage_failed"]);

/** An error as an answer. */
export function failed(error: unknown): Response {
  const { status, failure } = failureOf(error);
  const headers = new Headers({ "content-type": "application/json", "cache-control": "no-store" });
  if (error instanceof HttpError) for (const [name, value] of Object.entries(error.headers)) headers.set(name, value);
  if (passes.has(failure.reason)) headers.set("retry-after", "1");
  return new Response(JSON.stringify({ error: failure }), { status, headers });
}
