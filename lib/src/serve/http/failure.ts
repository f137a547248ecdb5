// Errors as HTTP responses: a status, and `{ error: failure }` as JSON.
//
// Two kinds of failures reach a client. `HttpError` is thrown by this folder when it rejects a request (reasons and
// statuses: core/model/failure/http-reason.ts). All others are failures of the library, whose status comes from
// `httpStatusOf`.
//
// Redaction. Responses disclose what the caller can act on and nothing that only the operator may see. Messages of
// providers, engine configuration and storages may contain account names, host names and file paths, so such a failure
// is described by its reason alone; `cause` and `raw` are removed. Failures also occur inside successful responses (the
// end of a turn, an event, a failed session), so `redactedJson` redacts every failure in a response body, at any depth.
// What a provider has sent (message, code, body, request id) is for operators, also if the caller has caused the
// failure: it may name the account, the deployment or its bill. The words of an adapter that sent nothing are
// disclosed.
//
// Invariants
//   1. Every response body except a turn record is written by `errorResponse`, `redactedJson` or `redactedText`, or
//      contains no failure.
//   2. An error that is not one of the library's becomes 500 `internal` with a fixed message.

import type { RedactionPlace } from "../../core/engine/internal.ts";
import type { Failure, Json, JsonObject, HttpReason } from "../../core/model/internal.ts";

import { hasRedaction, redacted } from "../../core/engine/internal.ts";
import {
  isEverturnError,
  MisuseError,
  failureTypes,
  httpStatusOf,
  httpStatuses,
  raisedToolReasons,
} from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { LargeText, sliceLength } from "./large-text.ts";

/**
 * The `error` of an error response: a failure of the handler or of the library, without details that only the
 * operator may see.
 */
export type HttpFailure = {
  /** The part that failed: the HTTP layer, the request itself, or a failure type of the library. */
  readonly type: "http_error" | "misuse" | Failure["type"];
  /** One word of a closed list. */
  readonly reason: string;
  /** A sentence for people. */
  readonly message: string;
  /** The place in the request that is invalid, if the failure concerns one. */
  readonly path?: readonly (string | number)[];
  /** Every violation in the request, with its path. */
  readonly issues?: readonly Json[];
  /** The places at which a replay diverged from its record. */
  readonly paths?: readonly string[];
  /** Of a decision that was refused because the call has changed: what changed, and the call as it is now. */
  readonly call?: JsonObject;
};

/** Thrown when the HTTP layer rejects a request. The status follows from the reason. */
export class HttpError extends Error {
  override readonly name: string = "HttpError";
  readonly reason: HttpReason;
  readonly details: Pick<HttpFailure, "path" | "issues">;
  /** Response headers, such as `Allow` or `WWW-Authenticate`. */
  readonly headers: { readonly [name: string]: string };

  constructor(
    reason: HttpReason,
    message: string,
    options: {
      readonly details?: Pick<HttpFailure, "path" | "issues">;
      readonly headers?: { readonly [name: string]: string };
    } = {},
  ) {
    super(message);
    this.reason = reason;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
  }

  get status(): number {
    return httpStatuses[this.reason];
  }
}

/** The status of an error and its redacted failure. */
export function failureOf(error: unknown): { readonly status: number; readonly failure: HttpFailure } {
  if (error instanceof HttpError) {
    const { status, reason, message, details } = error;
    return { status, failure: { type: "http_error", reason, message, ...details } };
  }
  if (error instanceof MisuseError) {
    const { reason, message, path } = error;
    // In a program, `invalid_status` is a bug of the caller. Over HTTP it is a conflict: another client may have
    // changed the session between two requests.
    return { status: reason === "invalid_status" ? 409 : 400, failure: { type: "misuse", reason, message, path } };
  }
  if (isEverturnError(error))
    return { status: httpStatusOf(error.failure.type, error.failure.reason), failure: publicFailure(error.failure) };
  return { status: 500, failure: { type: "http_error", reason: "internal", message: "internal server error" } };
}

/** A failure of the library without its cause and without the texts that only the operator may see. */
function publicFailure(failure: Failure): HttpFailure {
  const { type, reason } = failure;
  return {
    type,
    reason,
    message: publicMessage(failure),
    ...("issues" in failure ? { issues: failure.issues.map((issue): JsonObject => ({ ...issue })) } : {}),
    ...("paths" in failure && failure.paths.length > 0 ? { paths: failure.paths } : {}),
    ...(reason === "call_changed" ? { call: failure.metadata } : {}),
  };
}

/** A failure in a response body, as far as it is known. */
type AnyFailure = Pick<HttpFailure, "type" | "reason" | "message"> & { readonly [field: string]: unknown };

/**
 * The message that a client may read: the original one, or one made of the reason if the original may name accounts,
 * hosts or files.
 */
function publicMessage(failure: AnyFailure): string {
  const { type, reason, message } = failure;
  switch (type) {
    case "adapter_error":
    case "image_adapter_error":
    case "stream_error":
      return callerCausedReasons.has(reason) && !isFromProvider(failure) ? message : `the model call failed: ${reason}`;
    case "engine_error":
      // A status of 400 means that the request caused the error, and not the configuration of the engine.
      return httpStatusOf(type, reason) === 400 ? message : `the engine is not configured correctly: ${reason}`;
    case "runtime_error":
      return reason.startsWith("storage") ? `runtime error: ${reason}` : (programError.exec(message)?.[0] ?? message);
    case "http_error":
    case "misuse":
    case "validation_error":
    case "session_error":
      return message;
    case "tool_error":
      return raisedToolReasons.has(reason) ? hiddenToolError(failure["toolCallId"]) : message;
  }
}

/** The fields of a failure in which an adapter keeps what the provider has sent. */
const providerFields = ["status", "requestId", "code", "raw"] as const;

/** Whether a provider has sent the failure. Its message is then a text of the provider. */
function isFromProvider(failure: { readonly [field: string]: unknown }): boolean {
  return isOfModelCall(failure["type"]) && providerFields.some((field) => (failure[field] ?? null) !== null);
}

function isOfModelCall(type: unknown): boolean {
  return type === "adapter_error" || type === "image_adapter_error" || type === "stream_error";
}

/**
 * The part of a message before the text of an exception that a hook or another function of the program threw. The text
 * may name hosts, paths or queries.
 */
const programError = /^(?:a function of the program threw while [^:]*|Failed to refresh execution environment)(?=:)/;

/** Reasons for which an adapter refuses the content of a request. Its messages help the caller to change it. */
const callerCausedReasons: ReadonlySet<string> = new Set([
  "invalid_request",
  "context_length_exceeded",
  "content_filter",
  "unsupported_feature",
  "unsupported_operation",
]);

/**
 * Replaces the text of an exception, which may name hosts, paths or queries. A failure that a tool returns (`fail`) is
 * written for its reader and stays visible. The id is that of the call: telemetry and the log of the server report the
 * exception with it.
 */
function hiddenToolError(toolCallId: unknown): string {
  return `the tool failed${typeof toolCallId === "string" ? ` (error of call ${toolCallId})` : ""}`;
}

/**
 * The message of a failed tool call that a caller may read. `reason`: of the failure, or the code of a stored tool
 * message.
 */
export function publicToolMessage(reason: string | null, toolCallId: string | null, message: string): string {
  return raisedToolReasons.has(reason ?? "") ? hiddenToolError(toolCallId) : message;
}

/**
 * Keys whose values are ids and words of the protocol, not texts. Inside of data (`dataKeys`) they are texts like all
 * others.
 */
const notTexts: ReadonlySet<string> = new Set([
  "id",
  "type",
  "cursor",
  "next",
  "turnId",
  "sessionId",
  "toolCallId",
  "role",
  "status",
  "digest",
  "hash",
]);

/** Keys of values that callers, models and tools choose: all strings in them are texts, also the names of fields. */
const dataKeys: ReadonlySet<string> = new Set([
  "arguments",
  "value",
  "input",
  "output",
  "metadata",
  "context",
  "opts",
  "raw",
  "progress",
  "observations",
  "protocolEvents",
  "termination",
]);

/**
 * Serialises a response body: redacts every failure in it, at any depth, and applies the redaction hook of the program
 * to its texts.
 */
export function redactedJson(body: unknown, place: "message" | "event" = "message"): string {
  return JSON.stringify(hasRedaction() ? hooked(body, place, false) : body, (_, part: unknown) => redactFailure(part));
}

/**
 * Stands for a long string in JSON. Random, so that no text of a caller contains it. Created at the first use: some
 * platforms have no random numbers before the first request.
 */
let mark: string | null = null;

/** Like `redactedJson`; a value with long strings is rendered in slices, when they are needed. */
export function redactedText(body: unknown, place: "message" | "event" = "message"): string | LargeText {
  const strings: string[] = [];
  const text = JSON.stringify(hasRedaction() ? hooked(body, place, false) : body, (_, part: unknown) => {
    if (typeof part !== "string") return redactFailure(part);
    if (part.length <= sliceLength) return part;
    strings.push(part);
    return (mark ??= crypto.randomUUID());
  });
  return mark === null || strings.length === 0 ? text : LargeText.withStrings(text, mark, strings);
}

/** Serialises a turn record, or a part of one, with the redaction hook applied. Its failures stay as they are. */
export function redactedRecord(record: object): string {
  return JSON.stringify(hasRedaction() ? hooked(record, "record", false) : record);
}

/**
 * A copy of a JSON value with the redaction hook applied to its texts. `isData`: the value is inside of one of
 * `dataKeys`.
 */
function hooked(value: unknown, place: RedactionPlace, isData: boolean, key = ""): unknown {
  if (typeof value === "string") return isData || !notTexts.has(key) ? redacted(value, place) : value;
  if (Array.isArray(value)) return value.map((item: unknown) => hooked(item, place, isData, key));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [
      isData ? redacted(name, place) : name,
      hooked(part, place, isData || dataKeys.has(name), name),
    ]),
  );
}

/**
 * Replaces the message of a failure by its public one and its cause by `null`, and removes the request id of a reply
 * and the URL of the provider's server, which may be a host of the operator. Returns every other value as it is.
 */
function redactFailure(part: unknown): unknown {
  if (!isPlainObject(part)) return part;
  if (isRaisedAnswer(part)) return { ...part, content: hiddenToolError(part["toolCallId"] ?? part["id"]) };
  if (isReply(part)) return { ...part, requestId: null };
  const endpoint = serverUrl.exec(routeEndpoint(part))?.[1];
  if (endpoint !== undefined) return { ...part, endpoint };
  if (!("cause" in part)) return part;
  const { reason, message } = part;
  const type = failureTypes.find((candidate) => candidate === part["type"]);
  if (type === undefined || typeof reason !== "string" || typeof message !== "string") return part;
  const failure = { ...part, type, reason, message };
  const redactedFailure = { ...failure, message: publicMessage(failure), cause: null };
  if (!isOfModelCall(type)) return "raw" in part ? { ...redactedFailure, raw: null } : redactedFailure;
  // The request id names the operator's account at the provider.
  const ofProvider = isFromProvider(part) ? { metadata: {} } : {};
  return { ...redactedFailure, raw: null, requestId: null, code: null, ...ofProvider };
}

/** The endpoint of a route of a model call, or of replay data, which has the fields of one. Empty: it is neither. */
function routeEndpoint({ provider, endpoint, model }: { readonly [key: string]: unknown }): string {
  return typeof provider === "string" && typeof model === "string" && typeof endpoint === "string" ? endpoint : "";
}

/** The endpoint of a route: the base URL and the name of the API, which is disclosed. */
const serverUrl = /^https?:\/\/.*(#[a-z-]+)$/;

/** Whether a value is the reply of a model, or the event of one, with the id of its request. */
function isReply(part: { readonly [key: string]: unknown }): boolean {
  return "rawFinishReason" in part && "route" in part && typeof part["requestId"] === "string";
}

/** Returns whether a value is a tool message, or the event of one, whose content is the text of an exception. */
function isRaisedAnswer(part: { readonly [key: string]: unknown }): boolean {
  const isAnswer = part["role"] === "tool" || part["type"] === "tool_result_encoded";
  return isAnswer && part["status"] === "failure" && raisedToolReasons.has(String(part["code"]));
}

/** Reasons of transient failures. Their responses carry `Retry-After: 1`. */
const transientReasons: ReadonlySet<string> = new Set(["shutting_down", "storage_busy", "storage_failed"]);

/** The error response for anything that was thrown. */
export function errorResponse(error: unknown): Response {
  const { status, failure } = failureOf(error);
  const headers = new Headers({ "content-type": "application/json", "cache-control": "no-store" });
  if (error instanceof HttpError) for (const [name, value] of Object.entries(error.headers)) headers.set(name, value);
  if (transientReasons.has(failure.reason)) headers.set("retry-after", "1");
  if (isEverturnError(error) && error.failure.reason === "quota_exceeded") {
    headers.set("retry-after", `${Math.ceil(Number(error.failure.metadata["retryAfterMs"] ?? 0) / 1000)}`);
  }
  return new Response(JSON.stringify({ error: failure }), { status, headers });
}
