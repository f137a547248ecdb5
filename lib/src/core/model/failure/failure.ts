// Failures as data: what goes wrong for reasons outside the program.
//
// Theory of operation
//   The table `failureKinds` (failure-reasons.ts) declares every kind of failure and its reasons, `failureFields` the fields of each kind. The types, the
//   closed lists of reasons and the shapes below are derived from the tables. failures.ts builds a failure from its reason; errors.ts has one error class for
//   each kind.
//
//   `type` names the kind: the part that failed. `reason` is a member of the closed list of that kind. A program branches on `reason`, shows
//   `message`, and logs `cause`.
//
// Invariants
//   1. A failure is plain JSON: it is stored in the journal, replayed, and sent over HTTP. It never holds an error object or a stack.
//   2. Reasons are never removed or renamed: stored data contains them.
//   3. Retries are decided from `retryable` and `retry`, never from the text of `message`.

import type { JsonObject } from "../parse/json.ts";
import type { PresentField, Shape } from "../parse/shape.ts";
import type { FailureType, ProviderFailureKind, ReasonOf, ToolFailureClass } from "./failure-reasons.ts";
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
import { failureKinds, providerFailureKinds, toolFailureClasses } from "./failure-reasons.ts";
import { issueCodes } from "./issue.ts";

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

/**
 * The fields of one kind of failure. `base` precedes `type` and `reason` and `own` follows them, which fixes the key order of stored failures.
 */
function fieldsOf<const T extends FailureType, R extends object, Base extends object, Own extends object>(
  type: T,
  reasons: R,
  base: Base,
  own: Own,
) {
  const tag = { type: required(oneOf([type])), reason: required(oneOf(keysOf(reasons))) };
  return { ...base, ...tag, ...own };
}

const failureFields = {
  engine_error: fieldsOf("engine_error", failureKinds.engine_error, commonFields, {
    provider: fallback(nullable(string), null),
  }),
  adapter_error: fieldsOf("adapter_error", failureKinds.adapter_error, providerFields, {}),
  image_adapter_error: fieldsOf("image_adapter_error", failureKinds.image_adapter_error, providerFields, {}),
  stream_error: fieldsOf("stream_error", failureKinds.stream_error, providerFields, {
    eventIndex: fallback(nullable(count), null),
  }),
  tool_error: fieldsOf("tool_error", failureKinds.tool_error, commonFields, {
    class: required(oneOf<ToolFailureClass>(toolFailureClasses)),
    code: required(string),
    source: fallback(oneOf<ToolFailureSource>(toolFailureSources), "runtime"),
    retry: fallback(retryShape, { type: "never" }),
    toolName: fallback(nullable(string), null),
    toolCallId: fallback(nullable(string), null),
    raw: fallback(json, null),
  }),
  session_error: fieldsOf("session_error", failureKinds.session_error, commonFields, {}),
  validation_error: fieldsOf("validation_error", failureKinds.validation_error, commonFields, {
    issues: fallback(array(issueShape), []),
  }),
  runtime_error: fieldsOf("runtime_error", failureKinds.runtime_error, commonFields, {
    paths: fallback(array(string), []),
  }),
};

type FieldsOf<T extends FailureType> = (typeof failureFields)[T];
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
export const engineErrorReasons = keysOf(failureKinds.engine_error);
export const adapterErrorReasons = keysOf(failureKinds.adapter_error);
export const imageAdapterErrorReasons = keysOf(failureKinds.image_adapter_error);
export const streamErrorReasons = keysOf(failureKinds.stream_error);
export const toolErrorReasons = keysOf(failureKinds.tool_error);
export const sessionErrorReasons = keysOf(failureKinds.session_error);
export const validationErrorReasons = keysOf(failureKinds.validation_error);
export const runtimeErrorReasons = keysOf(failureKinds.runtime_error);

export const toolFailureShape: Shape<ToolFailure> = object<ToolFailure>(failureFields.tool_error);

export const failureShape: Shape<Failure> = variant<Failure, "type">("type", {
  engine_error: object(failureFields.engine_error),
  adapter_error: object(failureFields.adapter_error),
  image_adapter_error: object(failureFields.image_adapter_error),
  stream_error: object(failureFields.stream_error),
  tool_error: toolFailureShape,
  session_error: object(failureFields.session_error),
  validation_error: object(failureFields.validation_error),
  runtime_error: object(failureFields.runtime_error),
});
