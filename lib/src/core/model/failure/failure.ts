// Failures as data: what goes wrong for reasons outside the program.
//
// Theory of operation
//   The table `failureKinds` (failure-reasons.ts) declares every kind of failure and its reasons, the tables of fields
//   below what each kind has besides. The types, the closed lists of reasons and the shapes below are derived from
//   them. failures.ts builds a failure from its reason; errors.ts has one error class for each kind.
//
//   `type` names the kind: the part that failed. `reason` is a member of the closed list of that kind. A program
//   branches on `reason`, shows `message`, and logs `cause`.
//
// Invariants
//   1. A failure is plain JSON: it is stored in the journal, replayed, and sent over HTTP. It never holds an error
//      object or a stack.
//   2. Reasons are never removed or renamed: stored data contains them.
//   3. Retries are decided from `retryable` and `retry`, never from the text of `message`.

import type { Infer, InferUnion, Shape } from "../parse/shape.ts";
import type { ProviderFailureKind, ReasonOf, ToolFailureClass } from "./failure-reasons.ts";
import type { Issue, IssueCode } from "./issue.ts";

import { emptyObject, keysOf } from "../parse/json.ts";
import {
  array,
  boolean,
  count,
  either,
  fallback,
  json,
  literal,
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

export const failureTypes = keysOf(failureKinds);

export type EngineErrorReason = ReasonOf<"engine_error">;
export type AdapterErrorReason = ReasonOf<"adapter_error">;
export type ImageAdapterErrorReason = ReasonOf<"image_adapter_error">;
export type StreamErrorReason = ReasonOf<"stream_error">;
export type ToolErrorReason = ReasonOf<"tool_error">;
type SessionErrorReason = ReasonOf<"session_error">;
export type ValidationErrorReason = ReasonOf<"validation_error">;
export type RuntimeErrorReason = ReasonOf<"runtime_error">;

export const engineErrorReasons = keysOf(failureKinds.engine_error);
export const adapterErrorReasons = keysOf(failureKinds.adapter_error);
export const imageAdapterErrorReasons = keysOf(failureKinds.image_adapter_error);
export const streamErrorReasons = keysOf(failureKinds.stream_error);
export const toolErrorReasons = keysOf(failureKinds.tool_error);
export const sessionErrorReasons = keysOf(failureKinds.session_error);
export const validationErrorReasons = keysOf(failureKinds.validation_error);
export const runtimeErrorReasons = keysOf(failureKinds.runtime_error);

export const toolFailureSources = ["runtime", "tool", "plugin", "policy", "cancellation"] as const;

const retryCases = {
  never: {},
  safe: { afterMs: fallback(nullable(count), null) },
  exhausted: { attempts: required(count) },
};

/**
 * Whether a failed tool may be retried. `afterMs`: the earliest time, in milliseconds. `attempts`: how many were made.
 */
export type RetryDisposition = InferUnion<"type", typeof retryCases>;

const retryShape: Shape<RetryDisposition> = variant("type", retryCases);

// Recursive, so its type cannot be inferred from its shape.
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
  code: required(oneOf<IssueCode>(issueCodes)),
  message: required(string),
});

// The order of fields is that of stored failures: the fields of every kind, `type`, `reason`, the fields of the kind.
const commonFields = {
  message: required(string),
  cause: fallback(nullable(causeShape), null),
  metadata: fallback(settings, emptyObject),
};

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
 * The fields of a provider failure. `status`: the HTTP status of the response, `null` without one. `retryAfterMs`: the
 * wait that the provider asks for, in milliseconds. `retryable`: the same request may succeed later. `code`: the
 * provider's error code, verbatim. `raw`: the response body, truncated in the middle to 4,000 characters.
 */
export type ProviderFields = Infer<typeof providerFields>;

const engineFields = {
  ...commonFields,
  type: literal("engine_error"),
  reason: required(oneOf<EngineErrorReason>(engineErrorReasons)),
  provider: fallback(nullable(string), null),
};

/** The engine lacks something that the call needs: an adapter, a model, a key, a tool. */
export type EngineFailure = Infer<typeof engineFields>;

const adapterFields = {
  ...providerFields,
  type: literal("adapter_error"),
  reason: required(oneOf<AdapterErrorReason>(adapterErrorReasons)),
};

/** A model call failed: the provider refused it, could not be reached, or sent an invalid response. */
export type AdapterFailure = Infer<typeof adapterFields>;

const imageAdapterFields = {
  ...providerFields,
  type: literal("image_adapter_error"),
  reason: required(oneOf<ImageAdapterErrorReason>(imageAdapterErrorReasons)),
};

/**
 * An image call failed. The fields of {@link AdapterFailure}, and one more reason: the provider lacks the operation.
 */
export type ImageAdapterFailure = Infer<typeof imageAdapterFields>;

const streamFields = {
  ...providerFields,
  type: literal("stream_error"),
  reason: required(oneOf<StreamErrorReason>(streamErrorReasons)),
  eventIndex: fallback(nullable(count), null),
};

/**
 * A stream failed between its first event and its end. `eventIndex`: the number of events delivered before the failure.
 */
export type StreamFailure = Infer<typeof streamFields>;

const toolFields = {
  ...commonFields,
  type: literal("tool_error"),
  reason: required(oneOf<ToolErrorReason>(toolErrorReasons)),
  class: required(oneOf<ToolFailureClass>(toolFailureClasses)),
  code: required(string),
  source: fallback(oneOf(toolFailureSources), "runtime"),
  retry: fallback(retryShape, { type: "never" }),
  toolName: fallback(nullable(string), null),
  toolCallId: fallback(nullable(string), null),
  raw: fallback(json, null),
};

/**
 * A tool call failed. By default the model receives the failure and continues. `code`: the tool's own error code, the
 * reason by default. `raw`: details for the program, which the model never sees.
 */
export type ToolFailure = Infer<typeof toolFields>;

export const toolFailureShape: Shape<ToolFailure> = object(toolFields);

const sessionFields = {
  ...commonFields,
  type: literal("session_error"),
  reason: required(oneOf<SessionErrorReason>(sessionErrorReasons)),
};

/** The status of a session does not allow the operation. */
export type SessionFailure = Infer<typeof sessionFields>;

const validationFields = {
  ...commonFields,
  type: literal("validation_error"),
  reason: required(oneOf<ValidationErrorReason>(validationErrorReasons)),
  issues: fallback(array(issueShape), []),
};

/** A value violates a rule. `issues`: every violation, with its path. */
export type ValidationFailure = Infer<typeof validationFields>;

const runtimeFields = {
  ...commonFields,
  type: literal("runtime_error"),
  reason: required(oneOf<RuntimeErrorReason>(runtimeErrorReasons)),
  paths: fallback(array(string), []),
};

/**
 * The runtime or its storage could not do what was requested. `paths`: where a replay diverged from its journal. The
 * values at these paths are omitted, because they may be private.
 */
export type RuntimeFailure = Infer<typeof runtimeFields>;

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

export const failureShape: Shape<Failure> = variant("type", {
  engine_error: object(engineFields),
  adapter_error: object(adapterFields),
  image_adapter_error: object(imageAdapterFields),
  stream_error: object(streamFields),
  tool_error: toolFailureShape,
  session_error: object(sessionFields),
  validation_error: object(validationFields),
  runtime_error: object(runtimeFields),
});
