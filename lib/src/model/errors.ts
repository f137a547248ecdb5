// The error classes: a failure with a stack, for when a caller has to be interrupted. One class for each kind of failure,
// all of them the same small wrapper: what there is to know is in `error.failure`, which is data.
//
// Not errors of this kind: the caller's own bugs (MisuseError), and whatever a user's function throws.

import type {
  AdapterErrorReason,
  AdapterFailure,
  EngineErrorReason,
  EngineFailure,
  Failure,
  FailureCause,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  ProviderFailureKind,
  ProviderFields,
  RuntimeErrorReason,
  RuntimeFailure,
  SessionErrorReason,
  SessionFailure,
  StreamErrorReason,
  StreamFailure,
  ToolErrorReason,
  ToolFailure,
  ToolFailureClass,
  ValidationErrorReason,
  ValidationFailure,
} from "./failure.ts";
import type { Issue } from "./issue.ts";
import type { JsonObject } from "./json.ts";
import type { Result } from "./result.ts";

import {
  adapterErrorReasons,
  engineErrorReasons,
  imageAdapterErrorReasons,
  runtimeErrorReasons,
  sessionErrorReasons,
  streamErrorReasons,
  toolErrorReasons,
  validationErrorReasons,
} from "./failure.ts";
import { renderIssue } from "./issue.ts";
import { describe, emptyObject } from "./json.ts";
import { MisuseError } from "./misuse.ts";
import { read, settings } from "./shape.ts";

// Shared by all copies of the package in a process.
const brand = Symbol.for("everturn.error");

/** What every failure of this library is when it is thrown. `catch` it and look at `failure`. */
export abstract class EverturnError<F extends Failure = Failure> extends Error {
  /** Everything that is known, as data: safe to store, log and send. */
  readonly failure: F;

  constructor(failure: F, cause: unknown) {
    super(failure.message, cause === undefined || cause === null ? undefined : { cause });
    this.failure = failure;
    Object.defineProperty(this, brand, { value: true });
  }

  get reason(): F["reason"] {
    return this.failure.reason;
  }
}

/** The fields of a failure a caller may set; the rest follows from the reason. `cause` may be anything that was thrown. */
type Details<F extends Failure> = Partial<Omit<F, "type" | "reason" | "cause">> & { readonly cause?: unknown };

/** The engine lacks something the call needs. Fix the engine; trying again will not help. */
export class EngineError extends EverturnError<EngineFailure> {
  override readonly name: string = "EngineError";

  constructor(reason: EngineErrorReason, details: Details<EngineFailure> = {}) {
    checkReason("EngineError", reason, engineErrorReasons);
    super(
      {
        type: "engine_error",
        reason,
        message: details.message ?? `engine error: ${reason}`,
        provider: details.provider ?? null,
        cause: toCause(details.cause),
        metadata: storable(details.metadata),
      },
      details.cause,
    );
  }
}

/** A model call failed. `failure.retryable` says whether the same request may work later. */
export class AdapterError extends EverturnError<AdapterFailure> {
  override readonly name: string = "AdapterError";

  constructor(reason: AdapterErrorReason, details: Details<AdapterFailure> = {}) {
    checkReason("AdapterError", reason, adapterErrorReasons);
    super({ type: "adapter_error", reason, ...providerFields("adapter error", reason, details) }, details.cause);
  }
}

/** An image call failed. */
export class ImageAdapterError extends EverturnError<ImageAdapterFailure> {
  override readonly name: string = "ImageAdapterError";

  constructor(reason: ImageAdapterErrorReason, details: Details<ImageAdapterFailure> = {}) {
    checkReason("ImageAdapterError", reason, imageAdapterErrorReasons);
    super(
      { type: "image_adapter_error", reason, ...providerFields("image adapter error", reason, details) },
      details.cause,
    );
  }
}

/** A stream broke after it had begun. */
export class StreamError extends EverturnError<StreamFailure> {
  override readonly name: string = "StreamError";

  constructor(reason: StreamErrorReason, details: Details<StreamFailure> = {}) {
    checkReason("StreamError", reason, streamErrorReasons);
    super(
      {
        type: "stream_error",
        reason,
        ...providerFields("stream error", reason, details),
        eventIndex: wholeOrNull(details.eventIndex),
      },
      details.cause,
    );
  }
}

/** A tool call did not work. */
export class ToolError extends EverturnError<ToolFailure> {
  override readonly name: string = "ToolError";

  constructor(reason: ToolErrorReason, details: Details<ToolFailure> = {}) {
    checkReason("ToolError", reason, toolErrorReasons);
    const toolName = details.toolName ?? null;
    super(
      {
        type: "tool_error",
        reason,
        class: details.class ?? toolClasses[reason],
        code: details.code ?? reason,
        message: details.message ?? `tool error${toolName === null ? "" : ` (${toolName})`}: ${reason}`,
        source: details.source ?? "runtime",
        retry: details.retry ?? { type: "never" },
        toolName,
        toolCallId: details.toolCallId ?? null,
        raw: details.raw ?? null,
        cause: toCause(details.cause),
        metadata: storable(details.metadata),
      },
      details.cause,
    );
  }
}

/** A session cannot take what it was given: it is in `error`, or the call is not one it waits for. */
export class SessionError extends EverturnError<SessionFailure> {
  override readonly name: string = "SessionError";

  constructor(reason: SessionErrorReason, details: Details<SessionFailure> = {}) {
    checkReason("SessionError", reason, sessionErrorReasons);
    super(
      {
        type: "session_error",
        reason,
        message: details.message ?? `session error: ${reason}`,
        cause: toCause(details.cause),
        metadata: storable(details.metadata),
      },
      details.cause,
    );
  }
}

/** A value breaks the rules; `failure.issues` lists every rule and where. */
export class ValidationError extends EverturnError<ValidationFailure> {
  override readonly name: string = "ValidationError";

  constructor(reason: ValidationErrorReason, details: Details<ValidationFailure> = {}) {
    checkReason("ValidationError", reason, validationErrorReasons);
    const issues = details.issues ?? [];
    super(
      {
        type: "validation_error",
        reason,
        message: details.message ?? validationMessage(reason, issues),
        issues,
        cause: toCause(details.cause),
        metadata: storable(details.metadata),
      },
      details.cause,
    );
  }
}

/** A turn could not go on, for a reason on our side or the host's. */
export class RuntimeError extends EverturnError<RuntimeFailure> {
  override readonly name: string = "RuntimeError";

  constructor(reason: RuntimeErrorReason, details: Details<RuntimeFailure> = {}) {
    checkReason("RuntimeError", reason, runtimeErrorReasons);
    super(
      {
        type: "runtime_error",
        reason,
        message: details.message ?? `runtime error: ${reason}`,
        paths: details.paths ?? [],
        cause: toCause(details.cause),
        metadata: storable(details.metadata),
      },
      details.cause,
    );
  }
}

/** Is this one of the error classes above, of this copy of the package or of another? */
export function isEverturnError(value: unknown): value is EverturnError {
  return typeof value === "object" && value !== null && Reflect.get(value, brand) === true;
}

/** The error that says what a stored failure says. */
export function errorFromFailure(failure: Failure): EverturnError {
  switch (failure.type) {
    case "engine_error":
      return new EngineError(failure.reason, failure);
    case "adapter_error":
      return new AdapterError(failure.reason, failure);
    case "image_adapter_error":
      return new ImageAdapterError(failure.reason, failure);
    case "stream_error":
      return new StreamError(failure.reason, failure);
    case "tool_error":
      return new ToolError(failure.reason, failure);
    case "session_error":
      return new SessionError(failure.reason, failure);
    case "validation_error":
      return new ValidationError(failure.reason, failure);
    case "runtime_error":
      return new RuntimeError(failure.reason, failure);
  }
}

/** The value of a result; a failure is thrown as its error. */
export function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw errorFromFailure(result.failure);
}

/** What is worth keeping of something that was thrown. Never throws itself, whatever it is given. */
export function toCause(thrown: unknown): FailureCause | null {
  try {
    return causeOf(thrown, 0);
  } catch {
    // An object whose own properties throw when looked at.
    return { name: typeof thrown, message: "something that cannot be looked at was thrown", cause: null };
  }
}

function causeOf(thrown: unknown, depth: number): FailureCause | null {
  if (thrown === undefined || thrown === null) return null;
  const message = typeof thrown === "object" ? Reflect.get(thrown, "message") : undefined;
  if (typeof thrown === "object" && typeof message === "string") {
    // By its looks and not by its class: errors come from other realms, and failures from storage.
    const name: unknown = Reflect.get(thrown, "name");
    const inner = depth < 8 ? causeOf(Reflect.get(thrown, "cause"), depth + 1) : null;
    return { name: typeof name === "string" ? name : "object", message, cause: inner };
  }
  const words = typeof thrown === "string" ? thrown : `${describe(thrown)} was thrown`;
  return { name: typeof thrown, message: words, cause: null };
}

function checkReason(name: string, reason: string, reasons: readonly string[]): void {
  if (reasons.includes(reason)) return;
  throw new MisuseError("unknown_reason", `${name}: "${String(reason)}" is not a reason; one of ${reasons.join(", ")}`);
}

function validationMessage(reason: ValidationErrorReason, issues: readonly Issue[]): string {
  const shown = issues.slice(0, 3).map(renderIssue).join("; ");
  const count = `${issues.length} ${issues.length === 1 ? "error" : "errors"}`;
  const more = issues.length > 3 ? "; …" : "";
  return `validation failed: ${reason} (${count})${shown === "" ? "" : `: ${shown}${more}`}`;
}

function providerFields(
  what: string,
  reason: ProviderReason,
  details: Partial<Omit<ProviderFields, "cause">> & { readonly cause?: unknown },
): ProviderFields {
  const provider = details.provider ?? null;
  return {
    message: details.message ?? `${what}${provider === null ? "" : ` (${provider})`}: ${reason}`,
    provider,
    status: wholeOrNull(details.status),
    retryAfterMs: wholeOrNull(details.retryAfterMs),
    requestId: details.requestId ?? null,
    retryable: details.retryable ?? providerReasons[reason].retryable,
    kind: details.kind ?? providerReasons[reason].kind,
    code: details.code ?? null,
    raw: typeof details.raw === "string" ? cutText(details.raw) : null,
    cause: toCause(details.cause),
    metadata: storable(details.metadata),
  };
}

/** Waits are computed and headers are read: what is nearly a whole number is made one, what is none is left out. */
function wholeOrNull(value: number | null | undefined): number | null {
  return typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : null;
}

/** The settings that can be stored; a failure has to be reported even if a detail of it cannot. */
function storable(details: JsonObject | undefined): JsonObject {
  if (details === undefined) return emptyObject;
  const whole = read(settings, details);
  if ("value" in whole) return whole.value;
  const kept = Object.entries(details).filter(([key, value]) => "value" in read(settings, { [key]: value }));
  return Object.fromEntries(kept);
}

/** Head and tail of a long text, and how much was left out between them. */
function cutText(text: string): string {
  const trimmed = text.trim();
  if (trimmed.length <= 4000) return trimmed;
  return `${trimmed.slice(0, 2000)}\n\n... (${trimmed.length - 4000} chars omitted) ...\n\n${trimmed.slice(-2000)}`;
}

type ProviderReason = AdapterErrorReason | ImageAdapterErrorReason | StreamErrorReason;

/** What follows from a reason unless more is known: where it failed, and whether the same request may work later. */
const providerReasons: {
  readonly [R in ProviderReason]: { readonly kind: ProviderFailureKind; readonly retryable: boolean };
} = {
  rate_limited: { kind: "quota", retryable: true },
  authentication_failed: { kind: "auth", retryable: false },
  invalid_request: { kind: "validation", retryable: false },
  provider_unavailable: { kind: "http", retryable: true },
  context_length_exceeded: { kind: "validation", retryable: false },
  content_filter: { kind: "validation", retryable: false },
  timeout: { kind: "timeout", retryable: true },
  network_error: { kind: "transport", retryable: true },
  malformed_response: { kind: "stream", retryable: false },
  malformed_event: { kind: "stream", retryable: false },
  interrupted: { kind: "stream", retryable: true },
  unsupported_feature: { kind: "unsupported", retryable: false },
  unsupported_operation: { kind: "unsupported", retryable: false },
  no_scripted_response: { kind: "unknown", retryable: false },
  adapter_error: { kind: "unknown", retryable: false },
  cancelled: { kind: "unknown", retryable: false },
  unknown: { kind: "unknown", retryable: false },
};

const toolClasses: { readonly [R in ToolErrorReason]: ToolFailureClass } = {
  handler_raised: "execution",
  handler_exit: "execution",
  handler_failed: "execution",
  timeout: "timeout",
  invalid_return: "internal",
  invalid_arguments: "invalid_request",
  not_found: "unavailable",
  encoding_failed: "internal",
  denied: "permission_denied",
  not_run: "unavailable",
  outcome_unknown: "external",
};
