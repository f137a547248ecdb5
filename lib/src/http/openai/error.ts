// What went wrong, as OpenAI's API words it. The reason stands verbatim in `code`; the status is what its clients act on.
//
// Rules:
//   1. What the one who asked can change is told in full, with its path in `param`. What only the one who runs the server can change is told by
//      its reason alone: a provider's or a tool's own words may name hosts, accounts and keys.
//   2. A key the provider refused is the server's, so it is never a 401: that would tell a client that its own token is wrong.
//   3. Clients of this API try again by themselves. Where that cannot help, or tools of the engine have begun to run, `x-should-retry` says no.

import type {
  AdapterErrorReason,
  EngineErrorReason,
  Failure,
  Issue,
  Path,
  PendingToolCall,
  StreamErrorReason,
  ValidationErrorReason,
} from "../../model/internal.ts";

import { errorFromFailure, isEverturnError, renderIssue, renderPath } from "../../model/internal.ts";

export type OpenaiError = {
  readonly message: string;
  readonly type: string;
  /** Where in the body; `null` when no one place is at fault. */
  readonly param: string | null;
  readonly code: string | null;
};

/** An answer that is an error. */
export type OpenaiRefusal = {
  readonly status: number;
  readonly headers: { readonly [name: string]: string };
  readonly error: OpenaiError;
  /** What lies behind it, for whoever runs the server; never part of the answer. */
  readonly cause: unknown;
};

type RefusalDetails = {
  readonly param?: string | null;
  readonly code?: string | null;
  readonly headers?: OpenaiRefusal["headers"];
  readonly cause?: unknown;
};

export function refusal(status: number, message: string, details: RefusalDetails = {}): OpenaiRefusal {
  const { param = null, code = null, headers = {}, cause = null } = details;
  return { status, headers, error: { message, type: typeOf(status), param, code }, cause };
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** The places of a body that are wrong. The first one is `param`, and `code` unless a reason is given; the message has a few more. */
export function refusalOfIssues(issues: readonly Issue[], reason: string | null = null): OpenaiRefusal {
  const posted = issues.map((issue) => ({ ...issue, path: postedPath(issue.path) }));
  const [first] = posted;
  const message = posted.slice(0, 3).map(renderIssue).join("; ");
  const param = first === undefined || first.path.length === 0 ? null : renderPath(first.path);
  return refusal(400, message === "" ? "the request is invalid" : message, {
    param,
    code: reason ?? first?.code ?? null,
  });
}

/** A path in our data as a path in what was posted. */
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

/** Whatever was thrown. What is no failure of ours broke in a function of the program's, and is nobody else's business. */
export function refusalOfThrown(thrown: unknown, toolsRan: boolean): OpenaiRefusal {
  if (isEverturnError(thrown)) return refusalOfFailure(thrown.failure, toolsRan);
  const message = "something broke on the server while it worked on this; whoever runs it can see what";
  return refusal(500, message, { code: "internal", headers: noRetry, cause: thrown });
}

export function refusalOfFailure(failure: Failure, toolsRan: boolean): OpenaiRefusal {
  const { reason: code } = failure;
  const cause = errorFromFailure(failure);
  switch (failure.type) {
    case "validation_error": {
      if (validationStatuses[failure.reason] === 400) return refusalOfIssues(failure.issues, code);
      const message = `the model's answer does not fit: ${failure.issues.slice(0, 3).map(renderIssue).join("; ")}`;
      return refusal(502, message, { code, headers: noRetry, cause });
    }
    case "adapter_error":
    case "image_adapter_error":
    case "stream_error": {
      const status = failure.type === "stream_error" ? streamStatuses[failure.reason] : providerStatus(failure.reason);
      const message = status === 400 ? failure.message : `the model could not answer: ${code}`;
      return refusal(status, message, { code, headers: retryHeaders(failure, status, toolsRan), cause });
    }
    case "engine_error": {
      const message = `this model cannot be run as it is set up: ${code}; whoever runs the server has to look at it`;
      return refusal(engineStatuses[failure.reason], message, { code, headers: noRetry, cause });
    }
    case "tool_error":
      return refusal(500, `a tool of this model failed: ${code}`, { code, headers: noRetry, cause });
    case "session_error":
    case "runtime_error":
      return refusal(500, `the server could not go on with this: ${code}`, { code, headers: noRetry, cause });
  }
}

/** Calls that wait for somebody this API has no words to ask. */
export function refusalOfWait(code: string, waiting: readonly Pick<PendingToolCall, "reason">[]): OpenaiRefusal {
  const reasons = [...new Set(waiting.map(({ reason }) => reason))].join(", ");
  const what = reasons === "" ? code : reasons;
  const message = `a tool of this model waits for somebody (${what}), and chat completions have no way to answer it; use the sessions of this server`;
  return refusal(422, message, { code, headers: noRetry });
}

export const noRetry: OpenaiRefusal["headers"] = { "x-should-retry": "false" };

function retryHeaders(
  { retryable, retryAfterMs }: { readonly retryable: boolean; readonly retryAfterMs: number | null },
  status: number,
  toolsRan: boolean,
): OpenaiRefusal["headers"] {
  if (status < 429) return {};
  if (!retryable || toolsRan) return noRetry;
  if (retryAfterMs === null) return {};
  return { "retry-after-ms": `${retryAfterMs}`, "retry-after": `${Math.ceil(retryAfterMs / 1000)}` };
}

function providerStatus(reason: AdapterErrorReason | "unsupported_operation"): number {
  return reason === "unsupported_operation" ? 400 : adapterStatuses[reason];
}

const adapterStatuses: { readonly [R in AdapterErrorReason]: number } = {
  rate_limited: 429,
  authentication_failed: 502,
  invalid_request: 400,
  provider_unavailable: 503,
  context_length_exceeded: 400,
  content_filter: 400,
  timeout: 504,
  network_error: 502,
  malformed_response: 502,
  unsupported_feature: 400,
  no_scripted_response: 500,
  unknown: 502,
};

const streamStatuses: { readonly [R in StreamErrorReason]: number } = {
  adapter_error: 502,
  cancelled: 499,
  timeout: 504,
  malformed_event: 502,
  interrupted: 502,
  unknown: 502,
};

const engineStatuses: { readonly [R in EngineErrorReason]: number } = {
  missing_adapter: 500,
  missing_stream_adapter: 500,
  missing_model: 500,
  missing_key: 500,
  unknown_tool: 502,
  invalid_engine: 500,
  unsupported_response_format: 400,
  no_image_adapter: 500,
  unknown_price: 500,
};

const validationStatuses: { readonly [R in ValidationErrorReason]: 400 | 502 } = {
  invalid_request: 400,
  invalid_message: 400,
  invalid_tool: 400,
  invalid_thread: 400,
  invalid_session: 400,
  invalid_session_input: 400,
  unsupported_capability: 400,
  invalid_image_request: 400,
  invalid_data: 400,
  invalid_output: 502,
  invalid_usage: 502,
};
