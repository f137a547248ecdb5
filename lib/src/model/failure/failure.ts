// Why something did not work, as data. A failure is stored and replayed, so it is JSON and holds no live state; the error
// classes in errors.ts carry one when somebody has to be interrupted.
//
// Eight kinds, told apart by `type`, each with a closed list of reasons: the kind says who failed, the reason how.

import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { Issue } from "./issue.ts";

import { emptyObject } from "../parse/json.ts";
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

export type Failure =
  | EngineFailure
  | AdapterFailure
  | StreamFailure
  | ToolFailure
  | SessionFailure
  | ValidationFailure
  | ImageAdapterFailure
  | RuntimeFailure;

/** The engine cannot do what was asked of it: it lacks an adapter, a model, a key, a tool. */
export type EngineFailure = {
  readonly type: "engine_error";
  readonly reason: EngineErrorReason;
  readonly message: string;
  readonly provider: string | null;
  readonly cause: FailureCause | null;
  readonly metadata: JsonObject;
};

/** A model call failed: the provider said no, could not be reached, or answered something that makes no sense. */
export type AdapterFailure = ProviderFields & {
  readonly type: "adapter_error";
  readonly reason: AdapterErrorReason;
};

/** An image call failed. The same story as {@link AdapterFailure}, with the operation as one more thing to refuse. */
export type ImageAdapterFailure = ProviderFields & {
  readonly type: "image_adapter_error";
  readonly reason: ImageAdapterErrorReason;
};

/** What is known about a provider's failure. */
export type ProviderFields = {
  readonly message: string;
  readonly provider: string | null;
  /** The HTTP status, when there was one. */
  readonly status: number | null;
  /** How long the provider asked to wait. */
  readonly retryAfterMs: number | null;
  readonly requestId: string | null;
  /** Could the same request succeed later? Decided where the fact is known, obeyed where the policy is. */
  readonly retryable: boolean;
  readonly kind: ProviderFailureKind;
  /** The provider's own code, verbatim. */
  readonly code: string | null;
  /** What the provider sent, cut to a readable length. */
  readonly raw: string | null;
  readonly cause: FailureCause | null;
  readonly metadata: JsonObject;
};

/** A stream broke between its first event and its end. */
export type StreamFailure = ProviderFields & {
  readonly type: "stream_error";
  readonly reason: StreamErrorReason;
  /** The index of the event that did not arrive: this many had been delivered. */
  readonly eventIndex: number | null;
};

/** A tool call did not work. The model usually gets to see it and goes on. */
export type ToolFailure = {
  readonly type: "tool_error";
  readonly reason: ToolErrorReason;
  /** Whose fault in general: what a dashboard groups by. */
  readonly class: ToolFailureClass;
  /** The tool's own word for it; the reason when it has none. */
  readonly code: string;
  readonly message: string;
  readonly source: ToolFailureSource;
  readonly retry: RetryDisposition;
  readonly toolName: string | null;
  readonly toolCallId: string | null;
  /** Details for the program; the model never sees them. */
  readonly raw: Json;
  readonly cause: FailureCause | null;
  readonly metadata: JsonObject;
};

/** A session cannot take what it was given. */
export type SessionFailure = {
  readonly type: "session_error";
  readonly reason: SessionErrorReason;
  readonly message: string;
  readonly cause: FailureCause | null;
  readonly metadata: JsonObject;
};

/** A value breaks the rules. Every broken rule is listed, with its path. */
export type ValidationFailure = {
  readonly type: "validation_error";
  readonly reason: ValidationErrorReason;
  readonly message: string;
  readonly issues: readonly Issue[];
  readonly cause: FailureCause | null;
  readonly metadata: JsonObject;
};

/** Something on our side, or the host's, kept a turn from going on. */
export type RuntimeFailure = {
  readonly type: "runtime_error";
  readonly reason: RuntimeErrorReason;
  readonly message: string;
  /** Where a replay went another way than its record. Paths only: values may be anybody's. */
  readonly paths: readonly string[];
  readonly cause: FailureCause | null;
  readonly metadata: JsonObject;
};

/** What lay behind a failure, reduced to what can be stored. Never a stack, never a live object. */
export type FailureCause = {
  readonly name: string;
  readonly message: string;
  readonly cause: FailureCause | null;
};

/** May the tool be tried again? */
export type RetryDisposition =
  | { readonly type: "never" }
  | { readonly type: "safe"; readonly afterMs: number | null }
  | { readonly type: "exhausted"; readonly attempts: number };

export type EngineErrorReason = (typeof engineErrorReasons)[number];
export const engineErrorReasons = [
  "missing_adapter",
  "missing_stream_adapter",
  "missing_model",
  "missing_key",
  "unknown_tool",
  "invalid_engine",
  "unsupported_response_format",
  "no_image_adapter",
  "unknown_price",
] as const;

export type AdapterErrorReason = (typeof adapterErrorReasons)[number];
export const adapterErrorReasons = [
  "rate_limited",
  "authentication_failed",
  "invalid_request",
  "provider_unavailable",
  "context_length_exceeded",
  "content_filter",
  "timeout",
  "network_error",
  "malformed_response",
  "unsupported_feature",
  "no_scripted_response",
  "unknown",
] as const;

export type ImageAdapterErrorReason = (typeof imageAdapterErrorReasons)[number];
export const imageAdapterErrorReasons = [
  "authentication_failed",
  "rate_limited",
  "invalid_request",
  "content_filter",
  "context_length_exceeded",
  "provider_unavailable",
  "timeout",
  "network_error",
  "malformed_response",
  "unsupported_feature",
  "unsupported_operation",
  "unknown",
] as const;

/** `interrupted`: the stream stopped without the protocol's own end. */
export type StreamErrorReason = (typeof streamErrorReasons)[number];
export const streamErrorReasons = [
  "adapter_error",
  "cancelled",
  "timeout",
  "malformed_event",
  "interrupted",
  "unknown",
] as const;

/**
 * `handler_failed`: the handler itself said so. `not_run`: a call of the same reply stopped it from being run.
 * `outcome_unknown`: the process died while it ran. `denied`: a person or a policy said no.
 */
export type ToolErrorReason = (typeof toolErrorReasons)[number];
export const toolErrorReasons = [
  "handler_raised",
  "handler_exit",
  "handler_failed",
  "timeout",
  "invalid_return",
  "invalid_arguments",
  "not_found",
  "encoding_failed",
  "denied",
  "not_run",
  "outcome_unknown",
] as const;

export type SessionErrorReason = (typeof sessionErrorReasons)[number];
export const sessionErrorReasons = [
  "session_in_error_state",
  "invalid_status_for_operation",
  "no_pending_tool_call",
  "unknown_tool_call_id",
] as const;

/** `invalid_data`: a stored or posted value; `invalid_output`: what the model wrote against a schema. */
export type ValidationErrorReason = (typeof validationErrorReasons)[number];
export const validationErrorReasons = [
  "invalid_request",
  "invalid_message",
  "invalid_tool",
  "invalid_thread",
  "invalid_session",
  "invalid_session_input",
  "unsupported_capability",
  "invalid_image_request",
  "invalid_data",
  "invalid_output",
  "invalid_usage",
] as const;

/**
 * `reconfigure_failed`: the environment could not be synced. `invalid_actions`, `invalid_tool_results`: a protocol or a host broke its
 * contract. `diverged`: a replay asked for something else than was recorded. `replay_missing`: it asked for something that was not.
 * `conflict`: another writer was first. `lease_lost`: somebody else has the session now. `callback_failed`: a function of the program's
 * own threw. `volatile_storage`: what has to last was to be kept where it would not. The others are about where rows are kept.
 */
export type RuntimeErrorReason = (typeof runtimeErrorReasons)[number];
export const runtimeErrorReasons = [
  "reconfigure_failed",
  "invalid_actions",
  "invalid_tool_results",
  "token_usage_overflow",
  "code_failed",
  "diverged",
  "conflict",
  "lease_lost",
  "storage_failed",
  "storage_full",
  "storage_busy",
  "corrupt_row",
  "newer_schema",
  "volatile_storage",
  "replay_missing",
  "callback_failed",
  "not_found",
] as const;

/** Which part of the call failed. A word of a later release reads as `unknown`. */
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

export type ToolFailureSource = (typeof toolFailureSources)[number];
export const toolFailureSources = ["runtime", "tool", "plugin", "policy", "cancellation"] as const;

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

const shared = {
  message: required(string),
  cause: fallback(nullable(causeShape), null),
  metadata: fallback(settings, emptyObject),
};

const providerShared = {
  ...shared,
  provider: fallback(nullable(string), null),
  status: fallback(nullable(count), null),
  retryAfterMs: fallback(nullable(count), null),
  requestId: fallback(nullable(string), null),
  retryable: fallback(boolean, false),
  kind: fallback(oneOfOr(providerFailureKinds, "unknown"), "unknown"),
  code: fallback(nullable(string), null),
  raw: fallback(nullable(string), null),
};

export const toolFailureShape: Shape<ToolFailure> = object<ToolFailure>({
  ...shared,
  type: required(oneOf(["tool_error"])),
  reason: required(oneOf(toolErrorReasons)),
  class: required(oneOf(toolFailureClasses)),
  code: required(string),
  source: fallback(oneOf(toolFailureSources), "runtime"),
  retry: fallback(
    variant<RetryDisposition, "type">("type", {
      never: object<{ readonly type: "never" }>({ type: required(oneOf(["never"])) }),
      safe: object<{ readonly type: "safe"; readonly afterMs: number | null }>({
        type: required(oneOf(["safe"])),
        afterMs: fallback(nullable(count), null),
      }),
      exhausted: object<{ readonly type: "exhausted"; readonly attempts: number }>({
        type: required(oneOf(["exhausted"])),
        attempts: required(count),
      }),
    }),
    { type: "never" },
  ),
  toolName: fallback(nullable(string), null),
  toolCallId: fallback(nullable(string), null),
  raw: fallback(json, null),
});

const validationFailureShape: Shape<ValidationFailure> = object<ValidationFailure>({
  ...shared,
  type: required(oneOf(["validation_error"])),
  reason: required(oneOf(validationErrorReasons)),
  issues: fallback(array(issueShape), []),
});

export const failureShape: Shape<Failure> = variant<Failure, "type">("type", {
  engine_error: object<EngineFailure>({
    ...shared,
    type: required(oneOf(["engine_error"])),
    reason: required(oneOf(engineErrorReasons)),
    provider: fallback(nullable(string), null),
  }),
  adapter_error: object<AdapterFailure>({
    ...providerShared,
    type: required(oneOf(["adapter_error"])),
    reason: required(oneOf(adapterErrorReasons)),
  }),
  image_adapter_error: object<ImageAdapterFailure>({
    ...providerShared,
    type: required(oneOf(["image_adapter_error"])),
    reason: required(oneOf(imageAdapterErrorReasons)),
  }),
  stream_error: object<StreamFailure>({
    ...providerShared,
    type: required(oneOf(["stream_error"])),
    reason: required(oneOf(streamErrorReasons)),
    eventIndex: fallback(nullable(count), null),
  }),
  tool_error: toolFailureShape,
  session_error: object<SessionFailure>({
    ...shared,
    type: required(oneOf(["session_error"])),
    reason: required(oneOf(sessionErrorReasons)),
  }),
  validation_error: validationFailureShape,
  runtime_error: object<RuntimeFailure>({
    ...shared,
    type: required(oneOf(["runtime_error"])),
    reason: required(oneOf(runtimeErrorReasons)),
    paths: fallback(array(string), []),
  }),
});
