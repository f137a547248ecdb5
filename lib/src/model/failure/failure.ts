// Failures as data: what goes wrong for reasons outside the program.
//
// Theory of operation
//   The table `failureKinds` declares every kind of failure: its fields, its reasons, and the HTTP status of a response with it. The types,
//   the closed lists of reasons and the shapes below are derived from the table. failures.ts builds a failure from its reason; errors.ts has
//   one error class for each kind.
//
//   `type` names the kind: the part that failed. `reason` is a member of the closed list of that kind. A program branches on `reason`, shows
//   `message`, and logs `cause`.
//
// Invariants
//   1. A failure is plain JSON: it is stored in the journal, replayed, and sent over HTTP. It never holds an error object or a stack.
//   2. Reasons are never removed or renamed: stored data contains them. Adding one is a line in the table.
//   3. Retries are decided from `retryable` and `retry`, never from the text of `message`.

import type { JsonObject } from "../parse/json.ts";
import type { PresentField, Shape } from "../parse/shape.ts";
import type { Issue } from "./issue.ts";

import { emptyObject, keysOf } from "../parse/json.ts";
import {
  array,
  boolean,
  count,
  either,
  fallback,
  json,
  nullable,
  object,
  oneOf,
  oneOfOr,
  required,
  settings,
  string,
  variant,
} from "../parse/shape.ts";
import { issueCodes } from "./issue.ts";

/** Which part of a provider call failed. A stored value that this release does not know is read as `unknown`. */
export type ProviderFailureKind = (typeof providerFailureKinds)[number];
export const providerFailureKinds = [
  "transport",
  "timeout",
  "http",
  "stream",
  "auth",
  "validation",
  "quota",
  "unsupported",
  "unknown",
] as const;

/** The general cause of a tool failure, for grouping in dashboards. */
export type ToolFailureClass = (typeof toolFailureClasses)[number];
export const toolFailureClasses = [
  "invalid_request",
  "unavailable",
  "permission_denied",
  "timeout",
  "execution",
  "external",
  "resource_limit",
  "internal",
] as const;

type ToolFailureSource = (typeof toolFailureSources)[number];
export const toolFailureSources = ["runtime", "tool", "plugin", "policy", "cancellation"] as const;

/** Whether a failed tool may be retried. `afterMs`: the earliest time, in milliseconds. `attempts`: how many were made. */
export type RetryDisposition =
  | { readonly type: "never" }
  | { readonly type: "safe"; readonly afterMs: number | null }
  | { readonly type: "exhausted"; readonly attempts: number };

const retryShape = variant<RetryDisposition, "type">("type", {
  never: object({ type: required(oneOf(["never"])) }),
  safe: object({ type: required(oneOf(["safe"])), afterMs: fallback(nullable(count), null) }),
  exhausted: object({ type: required(oneOf(["exhausted"])), attempts: required(count) }),
});

/** The storable part of an error: name, message and cause, without the stack. */
export type FailureCause = {
  readonly name: string;
  readonly message: string;
  readonly cause: FailureCause | null;
};

export const causeShape: Shape<FailureCause> = (input, reading) =>
  typeof input === "object" && input !== null
    ? reading.inside(input, () => causeFields(input, reading))
    : causeFields(input, reading);

const causeFields = object<FailureCause>({
  name: required(string),
  message: required(string),
  cause: fallback(nullable(causeShape), null),
});

export const issueShape: Shape<Issue> = object<Issue>({
  path: required(array(either((key) => typeof key === "number", count, string))),
  code: required(oneOf(issueCodes)),
  message: required(string),
});

/** The fields of every kind of failure. */
const commonFields = {
  message: required(string),
  cause: fallback(nullable<FailureCause>(causeShape), null),
  metadata: fallback<JsonObject>(settings, emptyObject),
};

/** The fields of the three kinds that report a provider's failure. */
const providerFields = {
  ...commonFields,
  provider: fallback(nullable(string), null),
  status: fallback(nullable(count), null),
  retryAfterMs: fallback(nullable(count), null),
  requestId: fallback(nullable(string), null),
  retryable: fallback(boolean, false),
  kind: fallback(oneOfOr<ProviderFailureKind>(providerFailureKinds, "unknown"), "unknown"),
  code: fallback(nullable(string), null),
  raw: fallback(nullable(string), null),
};

/** The facts of a reason: default field values for its constructor, and the status of an HTTP response. */
type ReasonFacts = {
  readonly kind?: ProviderFailureKind;
  readonly retryable?: boolean;
  readonly class?: ToolFailureClass;
  /** Overrides the status of the kind. */
  readonly httpStatus?: number;
};

type Reasons = { readonly [reason: string]: ReasonFacts };

/**
 * Declares one kind: its `type`, the name of its error class, the status of an HTTP response with such a failure, its fields and its
 * reasons with their facts. `base` precedes `type` and `reason` and `fields` follows them, which fixes the key order of stored failures.
 */
function kind<const T extends string, R extends Reasons, Base extends object, Own extends object>(
  type: T,
  error: string,
  httpStatus: number,
  { base, fields, reasons }: { readonly base: Base; readonly fields: Own; readonly reasons: R },
) {
  const tag = { type: required(oneOf([type])), reason: required(oneOf(keysOf(reasons))) };
  return { error, httpStatus, reasons, fields: { ...base, ...tag, ...fields } };
}

const adapterReasons = {
  rate_limited: { kind: "quota", retryable: true },
  authentication_failed: { kind: "auth", retryable: false },
  invalid_request: { kind: "validation", retryable: false },
  provider_unavailable: { kind: "http", retryable: true },
  context_length_exceeded: { kind: "validation", retryable: false },
  content_filter: { kind: "validation", retryable: false },
  timeout: { kind: "timeout", retryable: true },
  network_error: { kind: "transport", retryable: true },
  malformed_response: { kind: "stream", retryable: false },
  unsupported_feature: { kind: "unsupported", retryable: false },
  no_scripted_response: { kind: "unknown", retryable: false },
  unknown: { kind: "unknown", retryable: false },
} as const satisfies Reasons;

export const failureKinds = {
  engine_error: kind("engine_error", "EngineError", 503, {
    base: commonFields,
    fields: { provider: fallback(nullable(string), null) },
    reasons: {
      missing_adapter: {},
      missing_stream_adapter: {},
      missing_model: {},
      missing_key: {},
      unknown_tool: { httpStatus: 400 },
      invalid_engine: {},
      unsupported_response_format: { httpStatus: 400 },
      no_image_adapter: {},
      unknown_price: { httpStatus: 400 },
    },
  }),
  adapter_error: kind("adapter_error", "AdapterError", 502, {
    base: providerFields,
    fields: {},
    reasons: adapterReasons,
  }),
  image_adapter_error: kind("image_adapter_error", "ImageAdapterError", 502, {
    base: providerFields,
    fields: {},
    reasons: {
      authentication_failed: adapterReasons.authentication_failed,
      rate_limited: adapterReasons.rate_limited,
      invalid_request: adapterReasons.invalid_request,
      content_filter: adapterReasons.content_filter,
      context_length_exceeded: adapterReasons.context_length_exceeded,
      provider_unavailable: adapterReasons.provider_unavailable,
      timeout: adapterReasons.timeout,
      network_error: adapterReasons.network_error,
      malformed_response: adapterReasons.malformed_response,
      unsupported_feature: adapterReasons.unsupported_feature,
      unsupported_operation: { kind: "unsupported", retryable: false },
      unknown: adapterReasons.unknown,
    },
  }),
  stream_error: kind("stream_error", "StreamError", 502, {
    base: providerFields,
    fields: { eventIndex: fallback(nullable(count), null) },
    reasons: {
      adapter_error: { kind: "unknown", retryable: false },
      cancelled: { kind: "unknown", retryable: false },
      timeout: adapterReasons.timeout,
      malformed_event: { kind: "stream", retryable: false },
      interrupted: { kind: "stream", retryable: true }, // The stream stopped without the end that its protocol prescribes.
      unknown: adapterReasons.unknown,
    },
  }),
  tool_error: kind("tool_error", "ToolError", 409, {
    base: commonFields,
    fields: {
      class: required(oneOf<ToolFailureClass>(toolFailureClasses)),
      code: required(string),
      source: fallback(oneOf<ToolFailureSource>(toolFailureSources), "runtime"),
      retry: fallback(retryShape, { type: "never" }),
      toolName: fallback(nullable(string), null),
      toolCallId: fallback(nullable(string), null),
      raw: fallback(json, null),
    },
    reasons: {
      handler_raised: { class: "execution" },
      handler_exit: { class: "execution" },
      handler_failed: { class: "execution" }, // The handler returned a failure.
      timeout: { class: "timeout" },
      invalid_return: { class: "internal" },
      invalid_arguments: { class: "invalid_request" },
      not_found: { class: "unavailable" },
      encoding_failed: { class: "internal" },
      denied: { class: "permission_denied" }, // A person or a policy refused the call.
      not_run: { class: "unavailable" }, // Another call of the same reply halted the turn first.
      outcome_unknown: { class: "external" }, // The call started and has no recorded result: the process ended before the commit.
    },
  }),
  session_error: kind("session_error", "SessionError", 409, {
    base: commonFields,
    fields: {},
    reasons: {
      session_in_error_state: {},
      invalid_status_for_operation: {},
      no_pending_tool_call: {},
      unknown_tool_call_id: { httpStatus: 404 },
    },
  }),
  validation_error: kind("validation_error", "ValidationError", 400, {
    base: commonFields,
    fields: { issues: fallback(array(issueShape), []) },
    reasons: {
      invalid_request: {},
      invalid_message: {},
      invalid_tool: {},
      invalid_thread: {},
      invalid_session: {},
      invalid_session_input: {},
      unsupported_capability: {},
      invalid_image_request: {},
      invalid_data: {}, // A stored or received value does not match its type.
      invalid_output: {}, // The model's output does not match the schema.
      invalid_usage: {},
    },
  }),
  runtime_error: kind("runtime_error", "RuntimeError", 409, {
    base: commonFields,
    fields: { paths: fallback(array(string), []) },
    reasons: {
      reconfigure_failed: {}, // The environment could not be synchronised.
      invalid_actions: {}, // A protocol or a host violated its contract.
      invalid_tool_results: {},
      token_usage_overflow: {},
      code_failed: {},
      diverged: {}, // A replay ordered another effect than the recorded one.
      conflict: {}, // Another writer committed first.
      lease_lost: {}, // Another process holds the lease of the session.
      takeover_limit: {}, // Too many processes in a row took the turn over and ended without committing a journal row (Q17).
      storage_failed: { httpStatus: 503 },
      storage_full: { httpStatus: 507 },
      storage_busy: { httpStatus: 503 },
      corrupt_row: { httpStatus: 500 },
      newer_schema: { httpStatus: 503 },
      volatile_storage: { httpStatus: 503 }, // Durable data would be written to a storage that does not survive the process.
      replay_missing: { httpStatus: 404 }, // A replay ordered an effect that is not recorded.
      callback_failed: {}, // A function of the calling program threw.
      not_found: { httpStatus: 404 },
      quota_exceeded: { httpStatus: 429 }, // A quota of the tenant is used up (`copiedLengthPerHour` of `fork`).
    },
  }),
};

/** The `type` of a failure. */
export type FailureType = keyof typeof failureKinds;
type ReasonOf<T extends FailureType> = keyof (typeof failureKinds)[T]["reasons"];
type FieldsOf<T extends FailureType> = (typeof failureKinds)[T]["fields"];
type Value<F> = F extends PresentField<infer V> ? V : never;

export type EngineErrorReason = ReasonOf<"engine_error">;
export type AdapterErrorReason = ReasonOf<"adapter_error">;
export type ImageAdapterErrorReason = ReasonOf<"image_adapter_error">;
export type StreamErrorReason = ReasonOf<"stream_error">;
export type ToolErrorReason = ReasonOf<"tool_error">;
export type ValidationErrorReason = ReasonOf<"validation_error">;
export type RuntimeErrorReason = ReasonOf<"runtime_error">;

/**
 * The fields of a provider failure. `status`: the HTTP status of the response, `null` without one. `retryAfterMs`: the wait that the provider
 * asks for, in milliseconds. `retryable`: the same request may succeed later. `code`: the provider's error code, verbatim. `raw`: the
 * response body, truncated in the middle to 4,000 characters.
 */
export type ProviderFields = { readonly [K in keyof typeof providerFields]: Value<(typeof providerFields)[K]> };
/** The engine lacks something that the call needs: an adapter, a model, a key, a tool. */
export type EngineFailure = { readonly [K in keyof FieldsOf<"engine_error">]: Value<FieldsOf<"engine_error">[K]> };
/** A model call failed: the provider refused it, could not be reached, or sent an invalid response. */
export type AdapterFailure = { readonly [K in keyof FieldsOf<"adapter_error">]: Value<FieldsOf<"adapter_error">[K]> };
/** An image call failed. The fields of {@link AdapterFailure}, and one more reason: the provider lacks the operation. */
export type ImageAdapterFailure = {
  readonly [K in keyof FieldsOf<"image_adapter_error">]: Value<FieldsOf<"image_adapter_error">[K]>;
};
/** A stream failed between its first event and its end. `eventIndex`: the number of events delivered before the failure. */
export type StreamFailure = { readonly [K in keyof FieldsOf<"stream_error">]: Value<FieldsOf<"stream_error">[K]> };
/**
 * A tool call failed. By default the model receives the failure and continues. `code`: the tool's own error code, the reason by default.
 * `raw`: details for the program, which the model never sees.
 */
export type ToolFailure = { readonly [K in keyof FieldsOf<"tool_error">]: Value<FieldsOf<"tool_error">[K]> };
/** The status of a session does not allow the operation. */
export type SessionFailure = { readonly [K in keyof FieldsOf<"session_error">]: Value<FieldsOf<"session_error">[K]> };
/** A value violates a rule. `issues`: every violation, with its path. */
export type ValidationFailure = {
  readonly [K in keyof FieldsOf<"validation_error">]: Value<FieldsOf<"validation_error">[K]>;
};
/**
 * The runtime or its storage could not do what was requested. `paths`: where a replay diverged from its journal. The values at these paths
 * are omitted, because they may be private.
 */
export type RuntimeFailure = { readonly [K in keyof FieldsOf<"runtime_error">]: Value<FieldsOf<"runtime_error">[K]> };

/**
 * A failure for a reason outside the program, as plain data. `type` names the kind, `reason` is a member of the
 * closed list of that kind.
 */
export type Failure =
  | EngineFailure
  | AdapterFailure
  | ImageAdapterFailure
  | StreamFailure
  | ToolFailure
  | SessionFailure
  | ValidationFailure
  | RuntimeFailure;

export const failureTypes = keysOf(failureKinds);
export const engineErrorReasons = keysOf(failureKinds.engine_error.reasons);
export const adapterErrorReasons = keysOf(failureKinds.adapter_error.reasons);
export const imageAdapterErrorReasons = keysOf(failureKinds.image_adapter_error.reasons);
export const streamErrorReasons = keysOf(failureKinds.stream_error.reasons);
export const toolErrorReasons = keysOf(failureKinds.tool_error.reasons);
export const sessionErrorReasons = keysOf(failureKinds.session_error.reasons);
export const validationErrorReasons = keysOf(failureKinds.validation_error.reasons);
export const runtimeErrorReasons = keysOf(failureKinds.runtime_error.reasons);

export const toolFailureShape: Shape<ToolFailure> = object<ToolFailure>(failureKinds.tool_error.fields);

export const failureShape: Shape<Failure> = variant<Failure, "type">("type", {
  engine_error: object(failureKinds.engine_error.fields),
  adapter_error: object(failureKinds.adapter_error.fields),
  image_adapter_error: object(failureKinds.image_adapter_error.fields),
  stream_error: object(failureKinds.stream_error.fields),
  tool_error: toolFailureShape,
  session_error: object(failureKinds.session_error.fields),
  validation_error: object(failureKinds.validation_error.fields),
  runtime_error: object(failureKinds.runtime_error.fields),
});

/** Returns the status of an HTTP response that carries this failure: the one of the reason, else the one of the kind. */
export function httpStatusOf(type: FailureType, reason: string): number {
  const { httpStatus, reasons } = failureKinds[type];
  const facts: Reasons = reasons;
  return facts[reason]?.httpStatus ?? httpStatus;
}
