// Failures from their reasons: what is not said follows from the reason, and what cannot be stored is left out, because a failure has
// to be reported even if a detail of it cannot be.

import type { Json, JsonObject } from "../parse/json.ts";
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
  RetryDisposition,
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

import { truncateMiddle } from "../message/cut-text.ts";
import { describe, emptyObject, isPlainObject } from "../parse/json.ts";
import { json, read, settings } from "../parse/shape.ts";
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
import { MisuseError } from "./misuse.ts";

/** The fields of a failure a caller may set; the rest follows from the reason. `cause` may be anything that was thrown. */
export type FailureDetails<F extends Failure> = Partial<Omit<F, "type" | "reason" | "cause">> & {
  readonly cause?: unknown;
};

export function engineFailure(reason: EngineErrorReason, details: FailureDetails<EngineFailure> = {}): EngineFailure {
  checkReason("EngineError", reason, engineErrorReasons);
  return {
    type: "engine_error",
    reason,
    provider: details.provider ?? null,
    ...common(`engine error: ${reason}`, details),
  };
}

export function adapterFailure(
  reason: AdapterErrorReason,
  details: FailureDetails<AdapterFailure> = {},
): AdapterFailure {
  checkReason("AdapterError", reason, adapterErrorReasons);
  return { type: "adapter_error", reason, ...providerFields("adapter error", reason, details) };
}

export function imageAdapterFailure(
  reason: ImageAdapterErrorReason,
  details: FailureDetails<ImageAdapterFailure> = {},
): ImageAdapterFailure {
  checkReason("ImageAdapterError", reason, imageAdapterErrorReasons);
  return { type: "image_adapter_error", reason, ...providerFields("image adapter error", reason, details) };
}

export function streamFailure(reason: StreamErrorReason, details: FailureDetails<StreamFailure> = {}): StreamFailure {
  checkReason("StreamError", reason, streamErrorReasons);
  const eventIndex = wholeOrNull(details.eventIndex);
  return { type: "stream_error", reason, ...providerFields("stream error", reason, details), eventIndex };
}

export function toolFailure(reason: ToolErrorReason, details: FailureDetails<ToolFailure> = {}): ToolFailure {
  checkReason("ToolError", reason, toolErrorReasons);
  const toolName = details.toolName ?? null;
  return {
    type: "tool_error",
    reason,
    class: details.class ?? toolClasses[reason],
    code: details.code ?? reason,
    source: details.source ?? "runtime",
    retry: storableRetry(details.retry),
    toolName,
    toolCallId: details.toolCallId ?? null,
    raw: storableJson(details.raw),
    ...common(`tool error${toolName === null ? "" : ` (${toolName})`}: ${reason}`, details),
  };
}

export function sessionFailure(
  reason: SessionErrorReason,
  details: FailureDetails<SessionFailure> = {},
): SessionFailure {
  checkReason("SessionError", reason, sessionErrorReasons);
  return { type: "session_error", reason, ...common(`session error: ${reason}`, details) };
}

export function validationFailure(
  reason: ValidationErrorReason,
  details: FailureDetails<ValidationFailure> = {},
): ValidationFailure {
  checkReason("ValidationError", reason, validationErrorReasons);
  const issues = details.issues ?? [];
  return { type: "validation_error", reason, issues, ...common(validationMessage(reason, issues), details) };
}

export function runtimeFailure(
  reason: RuntimeErrorReason,
  details: FailureDetails<RuntimeFailure> = {},
): RuntimeFailure {
  checkReason("RuntimeError", reason, runtimeErrorReasons);
  return { type: "runtime_error", reason, paths: details.paths ?? [], ...common(`runtime error: ${reason}`, details) };
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

/** What every failure has. */
function common(
  message: string,
  details: { readonly message?: string; readonly cause?: unknown; readonly metadata?: JsonObject },
): { readonly message: string; readonly cause: FailureCause | null; readonly metadata: JsonObject } {
  return {
    message: details.message ?? message,
    cause: toCause(details.cause),
    metadata: storableSettings(details.metadata),
  };
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
    ...common(`${what}${provider === null ? "" : ` (${provider})`}: ${reason}`, details),
    provider,
    status: wholeOrNull(details.status),
    retryAfterMs: wholeOrNull(details.retryAfterMs),
    requestId: details.requestId ?? null,
    retryable: details.retryable ?? providerReasons[reason].retryable,
    kind: details.kind ?? providerReasons[reason].kind,
    code: details.code ?? null,
    raw: typeof details.raw === "string" ? truncateMiddle(details.raw.trim(), 4000, "chars") : null,
  };
}

/** Waits may come out fractional and headers may hold anything: rounds a number, drops what is out of range. */
function wholeOrNull(value: number | null | undefined): number | null {
  return typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : null;
}

function storableSettings(metadata: JsonObject | undefined): JsonObject {
  if (!isPlainObject(metadata)) return emptyObject;
  const whole = read(settings, metadata);
  if ("value" in whole) return whole.value;
  const kept = Object.entries(metadata).filter(([key, value]) => "value" in read(settings, { [key]: value }));
  return Object.fromEntries(kept);
}

function storableJson(value: Json | undefined): Json {
  const found = read(json, value ?? null);
  return "value" in found ? found.value : null;
}

function storableRetry(retry: RetryDisposition | undefined): RetryDisposition {
  if (retry === undefined) return { type: "never" };
  return retry.type === "safe" ? { type: "safe", afterMs: wholeOrNull(retry.afterMs) } : retry;
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
