// Failures in OpenAI's error format. `code` is the reason of the library; clients act on the status.
//
// Rules
//   1. Redaction: a failure that the caller can correct has its full message and its path in `param`. What a provider
//      or a tool has sent, and a failure that only the operator can correct, is described by its reason alone, because
//      such messages may contain hosts, accounts and keys.
//   2. A provider key that is rejected belongs to the server, so the status is never 401: a client would take its own
//      token for wrong.
//   3. Clients of this API retry by themselves. `x-should-retry: false` prevents a retry that cannot help, or that
//      would run tools of the engine twice.

import type {
  AdapterErrorReason,
  EngineErrorReason,
  Failure,
  ImageAdapterErrorReason,
  Issue,
  Path,
  PendingToolCall,
  StreamErrorReason,
  ValidationErrorReason,
} from "../../../core/model/internal.ts";

import { errorFromFailure, isEverturnError, renderIssue, renderPath } from "../../../core/model/internal.ts";
import { failureOf } from "../../http/internal.ts";

/** The `error` of a response or frame. */
export type OpenaiError = {
  readonly message: string;
  readonly type: string;
  /** The invalid place in the body; `null` if the error does not concern one. */
  readonly param: string | null;
  readonly code: string | null;
};

/** An error response. */
export type OpenaiErrorResponse = {
  readonly status: number;
  readonly headers: { readonly [name: string]: string };
  readonly error: OpenaiError;
  /** The cause, for the operator; never part of the response. */
  readonly cause: unknown;
};

type ErrorDetails = {
  readonly param?: string | null;
  readonly code?: string | null;
  readonly headers?: OpenaiErrorResponse["headers"];
  readonly cause?: unknown;
};

/** Builds an error response. The error type follows from the status. */
export function openaiError(status: number, message: string, details: ErrorDetails = {}): OpenaiErrorResponse {
  const { param = null, code = null, headers = {}, cause = null } = details;
  return { status, headers, error: { message, type: errorType(status), param, code }, cause };
}

/** The `type` of an error: OpenAI's clients expect one of these three. */
function errorType(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/**
 * The error response for an invalid body. `param` and `code` come from the first issue (`reason` overrides the code);
 * the message has up to three issues.
 */
export function errorOfIssues(issues: readonly Issue[], reason: string | null = null): OpenaiErrorResponse {
  const postedIssues = issues.map((issue) => ({ ...issue, path: postedPath(issue.path) }));
  const [first] = postedIssues;
  const message = postedIssues.slice(0, 3).map(renderIssue).join("; ");
  const param = first === undefined || first.path.length === 0 ? null : renderPath(first.path);
  return openaiError(400, message === "" ? "the request is invalid" : message, {
    param,
    code: reason ?? first?.code ?? null,
  });
}

/** Translates a path in data of the library to the path in the posted body. */
function postedPath(path: Path): Path {
  return path.map((key) => (typeof key === "string" ? (postedNames.get(key) ?? key) : key));
}

const postedNames: ReadonlyMap<string, string> = new Map([
  ["toolCalls", "tool_calls"],
  ["toolCallId", "tool_call_id"],
  ["responseFormat", "response_format"],
  ["toolChoice", "tool_choice"],
  ["maxTokens", "max_completion_tokens"],
]);

/**
 * The error response for anything that was thrown. An error that is not of the library comes from code of the operator
 * and is not disclosed.
 */
export function errorOfThrown(thrown: unknown, toolsRan: boolean): OpenaiErrorResponse {
  if (isEverturnError(thrown)) return errorOfFailure(thrown.failure, toolsRan);
  const message = "internal server error; the operator of the server can see the cause";
  return openaiError(500, message, { code: "internal", headers: noRetry, cause: thrown });
}

/** The error response for a failure of the library. `toolsRan`: a retry would run tools of the engine again. */
export function errorOfFailure(failure: Failure, toolsRan: boolean): OpenaiErrorResponse {
  const { reason: code } = failure;
  const cause = errorFromFailure(failure);
  switch (failure.type) {
    case "validation_error": {
      if (!causedByModel.includes(failure.reason)) return errorOfIssues(failure.issues, code);
      const message = `the model's answer does not conform to the schema: ${failure.issues.slice(0, 3).map(renderIssue).join("; ")}`;
      return openaiError(502, message, { code, headers: noRetry, cause });
    }
    case "adapter_error":
    case "image_adapter_error":
    case "stream_error": {
      const statuses: { readonly [reason: string]: number | undefined } =
        failure.type === "stream_error" ? streamStatuses : adapterStatuses;
      const status = statuses[code] ?? 502;
      const { message } = failureOf(cause).failure;
      return openaiError(status, message, { code, headers: retryHeaders(failure, status, toolsRan), cause });
    }
    case "engine_error": {
      const message = `this model is not configured correctly on the server: ${code}; the operator has to correct it`;
      return openaiError(engineStatuses[failure.reason] ?? 500, message, { code, headers: noRetry, cause });
    }
    case "tool_error":
      return openaiError(500, `a tool of this model failed: ${code}`, { code, headers: noRetry, cause });
    case "session_error":
    case "runtime_error":
      if (code === "quota_exceeded") return openaiError(429, failure.message, { code, headers: quotaHeaders(failure) });
      return openaiError(500, `the server could not complete the request: ${code}`, { code, headers: noRetry, cause });
  }
}

/** The error response for a run that ended with pending calls of the engine's tools, which this API cannot answer. */
export function errorOfPendingCalls(
  code: string,
  pendingCalls: readonly Pick<PendingToolCall, "reason">[],
): OpenaiErrorResponse {
  const reasons = [...new Set(pendingCalls.map(({ reason }) => reason))].join(", ");
  const pendingReasons = reasons === "" ? code : reasons;
  const message = `a tool of this model is pending (${pendingReasons}) and cannot be answered by chat completions; use the sessions API of this server`;
  return openaiError(422, message, { code, headers: noRetry });
}

export const noRetry: OpenaiErrorResponse["headers"] = { "x-should-retry": "false" };

/** OpenAI's clients read `retry-after-ms` before `retry-after`. */
function retryHeaders(
  { retryable, retryAfterMs }: { readonly retryable: boolean; readonly retryAfterMs: number | null },
  status: number,
  toolsRan: boolean,
): OpenaiErrorResponse["headers"] {
  if (status < 429) return {};
  if (!retryable || toolsRan) return noRetry;
  if (retryAfterMs === null) return {};
  return { "retry-after-ms": `${retryAfterMs}`, "retry-after": `${Math.ceil(retryAfterMs / 1000)}` };
}

/** The headers of a response to a request over a limit of the runtime. */
function quotaHeaders({ metadata }: Pick<Failure, "metadata">): OpenaiErrorResponse["headers"] {
  const retryAfterMs = Number(metadata["retryAfterMs"] ?? 0);
  return retryHeaders({ retryable: true, retryAfterMs }, 429, false);
}

/** The statuses of failed provider calls that are not 502, which is also that of a rejected provider key (rule 2). */
const adapterStatuses: { readonly [R in AdapterErrorReason | ImageAdapterErrorReason]?: number } = {
  rate_limited: 429,
  invalid_request: 400,
  provider_unavailable: 503,
  context_length_exceeded: 400,
  content_filter: 400,
  timeout: 504,
  unsupported_feature: 400,
  unsupported_operation: 400,
  no_scripted_response: 500,
};
const streamStatuses: { readonly [R in StreamErrorReason]?: number } = { cancelled: 499, timeout: 504 };

/** The statuses of errors of an engine that are not 500. */
const engineStatuses: { readonly [R in EngineErrorReason]?: number } = {
  unknown_tool: 502,
  unsupported_response_format: 400,
};

/** What the model has caused; the caller has caused everything else that is not valid. */
const causedByModel: readonly ValidationErrorReason[] = ["invalid_output", "invalid_usage"];
