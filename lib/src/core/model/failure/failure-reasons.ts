// The reasons of failures: a table of reasons for each kind of failure, the table `failureKinds` of all kinds, and the
// status of HTTP responses. The types and shapes of failure.ts are derived from them. It is a file of its own, without
// shapes, because every failure is built from it. The constructor of a kind reads the table of its own reasons only, so
// that a bundler drops the other tables.
//
// Reasons are never removed or renamed: stored data contains them. Adding one is a line here.

import type { WordOf } from "../parse/shape.ts";

/** Which part of a provider call failed. A stored value that this release does not know is read as `unknown`. */
export type ProviderFailureKind = WordOf<typeof providerFailureKinds>;
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
export type ToolFailureClass = WordOf<typeof toolFailureClasses>;
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

/** The facts of a reason: default field values for its constructor. */
type ReasonFacts = {
  readonly kind?: ProviderFailureKind;
  readonly retryable?: boolean;
  readonly class?: ToolFailureClass;
};

type Reasons = { readonly [reason: string]: ReasonFacts };

export const adapterReasons = {
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

export const engineReasons = {
  missing_adapter: {},
  missing_stream_adapter: {},
  missing_model: {},
  missing_key: {},
  unknown_tool: {},
  invalid_engine: {},
  unsupported_response_format: {},
  no_image_adapter: {},
  unknown_price: {},
} as const satisfies Reasons;

export const imageAdapterReasons = {
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
} as const satisfies Reasons;

export const streamReasons = {
  adapter_error: { kind: "unknown", retryable: false },
  cancelled: { kind: "unknown", retryable: false },
  timeout: adapterReasons.timeout,
  malformed_event: { kind: "stream", retryable: false },
  interrupted: { kind: "stream", retryable: true }, // The stream stopped without the end that its protocol prescribes.
  unknown: adapterReasons.unknown,
} as const satisfies Reasons;

export const toolReasons = {
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
} as const satisfies Reasons;

export const sessionReasons = {
  session_in_error_state: {},
  invalid_status_for_operation: {},
  no_pending_tool_call: {},
  unknown_tool_call_id: {},
  call_changed: {}, // A decision has the digest of another wait, or of other arguments, than the pending call.
} as const satisfies Reasons;

export const validationReasons = {
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
} as const satisfies Reasons;

export const runtimeReasons = {
  reconfigure_failed: {}, // The environment could not be synchronised.
  invalid_actions: {}, // A protocol or a driver violated its contract.
  invalid_tool_results: {},
  token_usage_overflow: {},
  code_failed: {},
  diverged: {}, // A replay ordered another effect than the recorded one.
  conflict: {}, // Another writer committed first.
  lease_lost: {}, // Another process holds the lease of the session.
  takeover_limit: {}, // Too many processes in a row took the turn over and ended without committing a journal row (Q17).
  storage_failed: {},
  storage_full: {},
  storage_busy: {},
  corrupt_row: {},
  newer_schema: {},
  volatile_storage: {}, // Durable data would be written to a storage that does not survive the process.
  replay_missing: {}, // A replay ordered an effect that is not recorded.
  callback_failed: {}, // A function of the calling program threw.
  not_found: {},
  quota_exceeded: {}, // Used up: a quota of the tenant (`copiedLengthPerHour` of `fork`), or the budget of summaries.
} as const satisfies Reasons;

export const failureKinds = {
  engine_error: engineReasons,
  adapter_error: adapterReasons,
  image_adapter_error: imageAdapterReasons,
  stream_error: streamReasons,
  tool_error: toolReasons,
  session_error: sessionReasons,
  validation_error: validationReasons,
  runtime_error: runtimeReasons,
} as const satisfies { readonly [type: string]: Reasons };

/** The `type` of a failure. */
export type FailureType = keyof typeof failureKinds;
/** The reasons of one kind. */
export type ReasonOf<T extends FailureType> = keyof (typeof failureKinds)[T];

/**
 * The status of an HTTP response with a failure of a kind, and of the reasons that have another one. A table of its
 * own: only servers read it.
 */
const statusesByKind: {
  readonly [T in FailureType]: { readonly default: number } & { readonly [reason in ReasonOf<T>]?: number };
} = {
  engine_error: { default: 503, unknown_tool: 400, unsupported_response_format: 400, unknown_price: 400 },
  adapter_error: { default: 502 },
  image_adapter_error: { default: 502 },
  stream_error: { default: 502 },
  tool_error: { default: 409 },
  session_error: { default: 409, unknown_tool_call_id: 404 },
  validation_error: { default: 400 },
  runtime_error: {
    default: 409,
    storage_failed: 503,
    storage_full: 507,
    storage_busy: 503,
    corrupt_row: 500,
    newer_schema: 503,
    volatile_storage: 503,
    replay_missing: 404,
    not_found: 404,
    quota_exceeded: 429,
  },
};

/**
 * Returns the status of an HTTP response that carries this failure: the one of the reason, else the one of the kind.
 */
export function httpStatusOf(type: FailureType, reason: string): number {
  const statuses: { readonly default: number; readonly [reason: string]: number | undefined } = statusesByKind[type];
  return (Object.hasOwn(statuses, reason) ? statuses[reason] : undefined) ?? statuses.default;
}

/** Returns the name of the error class of a kind: `ToolError` for `tool_error`. */
export function errorName(type: FailureType): string {
  return type.replaceAll(/(?:^|_)([a-z])/g, (_, initial: string) => initial.toUpperCase());
}

/**
 * Reasons of tool failures whose message is the text of an exception. Also the codes of the tool messages that the
 * model reads.
 */
export const raisedToolReasons: ReadonlySet<string> = new Set(["handler_raised", "handler_exit", "encoding_failed"]);
