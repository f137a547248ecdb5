// The constructors of failures: one for each kind, from a reason and optional details. Fields without a detail get the
// default of the reason.
//
// Details that cannot be stored (functions, cycles, credentials in `metadata`) are dropped and not reported, because
// reporting the original failure has priority over its details.

import type { JsonObject } from "../parse/json.ts";
import type {
  AdapterFailure,
  EngineFailure,
  Failure,
  FailureCause,
  ImageAdapterFailure,
  ProviderFields,
  RuntimeFailure,
  SessionFailure,
  StreamFailure,
  ToolFailure,
  ValidationFailure,
} from "./failure.ts";
import type { Issue } from "./issue.ts";

import { truncateMiddle } from "../message/truncate-text.ts";
import { isCredential } from "../parse/credential.ts";
import { describe, emptyObject, isPlainObject } from "../parse/json.ts";
import { storableCopy } from "../parse/storable-json.ts";
import {
  adapterReasons,
  engineReasons,
  errorName,
  imageAdapterReasons,
  runtimeReasons,
  sessionReasons,
  streamReasons,
  toolReasons,
  validationReasons,
} from "./failure-reasons.ts";
import { renderIssue } from "./issue.ts";
import { MisuseError } from "./misuse.ts";

/**
 * The fields of a failure that a caller may set; the others follow from the reason. `cause` may be any thrown value.
 */
export type FailureDetails<F extends Failure> = Partial<Omit<F, "type" | "reason" | "cause">> & {
  readonly cause?: unknown;
};

/** Builds a failure of one kind. Throws `MisuseError` (`unknown_reason`) if the kind has no such reason. */
export type FailureConstructor<F extends Failure> = (reason: F["reason"], details?: FailureDetails<F>) => F;

export const engineFailure: FailureConstructor<EngineFailure> = (reason, details = {}) => ({
  ...typeAndReason("engine_error", engineReasons, reason),
  provider: details.provider ?? null,
  ...commonFields(`engine error: ${reason}`, details),
});

/**
 * Builds the failure of a model call. For adapters. The message and `retryable` follow from the reason by default.
 * Throws `MisuseError` for an unknown reason.
 */
export const adapterFailure: FailureConstructor<AdapterFailure> = (reason, details = {}) => ({
  ...typeAndReason("adapter_error", adapterReasons, reason),
  ...providerFailureFields("adapter error", reason, adapterReasons[reason], details),
});

export const imageAdapterFailure: FailureConstructor<ImageAdapterFailure> = (reason, details = {}) => ({
  ...typeAndReason("image_adapter_error", imageAdapterReasons, reason),
  ...providerFailureFields("image adapter error", reason, imageAdapterReasons[reason], details),
});

export const streamFailure: FailureConstructor<StreamFailure> = (reason, details = {}) => ({
  ...typeAndReason("stream_error", streamReasons, reason),
  ...providerFailureFields("stream error", reason, streamReasons[reason], details),
  eventIndex: roundedOrNull(details.eventIndex),
});

/**
 * Builds the failure of a tool call. For tool executors. `class` and `code` follow from the reason by default.
 * Throws `MisuseError` for an unknown reason.
 */
export const toolFailure: FailureConstructor<ToolFailure> = (reason, details = {}) => ({
  ...typeAndReason("tool_error", toolReasons, reason),
  class: details.class ?? toolReasons[reason].class,
  code: details.code ?? reason,
  source: details.source ?? "runtime",
  retry:
    details.retry?.type === "safe"
      ? { type: "safe", afterMs: roundedOrNull(details.retry.afterMs) }
      : (details.retry ?? { type: "never" }),
  toolName: details.toolName ?? null,
  toolCallId: details.toolCallId ?? null,
  raw: storableCopy(details.raw) ?? null,
  ...commonFields(`tool error${inParentheses(details.toolName)}: ${reason}`, details),
});

export const sessionFailure: FailureConstructor<SessionFailure> = (reason, details = {}) => ({
  ...typeAndReason("session_error", sessionReasons, reason),
  ...commonFields(`session error: ${reason}`, details),
});

export const validationFailure: FailureConstructor<ValidationFailure> = (reason, details = {}) => ({
  ...typeAndReason("validation_error", validationReasons, reason),
  issues: details.issues ?? [],
  ...commonFields(`validation failed: ${reason} ${summary(details.issues ?? [])}`, details),
});

export const runtimeFailure: FailureConstructor<RuntimeFailure> = (reason, details = {}) => ({
  ...typeAndReason("runtime_error", runtimeReasons, reason),
  paths: details.paths ?? [],
  ...commonFields(`runtime error: ${reason}`, details),
});

/** Returns the storable part of a thrown value: name, message and up to 8 nested causes. Never throws. */
export function toCause(thrown: unknown): FailureCause | null {
  try {
    return causeOf(thrown, 0);
  } catch {
    // The property getters of the object throw.
    return { name: typeof thrown, message: "the thrown object cannot be read: its properties throw", cause: null };
  }
}

function causeOf(thrown: unknown, depth: number): FailureCause | null {
  if (thrown === undefined || thrown === null) return null;
  const message = typeof thrown === "object" ? Reflect.get(thrown, "message") : undefined;
  if (typeof thrown === "object" && typeof message === "string") {
    // Recognised by its properties and not by `instanceof`: an error may come from another realm, and a failure from a
    // storage.
    const name: unknown = Reflect.get(thrown, "name");
    const inner = depth < 8 ? causeOf(Reflect.get(thrown, "cause"), depth + 1) : null;
    return { name: typeof name === "string" ? name : "object", message, cause: inner };
  }
  const text = typeof thrown === "string" ? thrown : `${describe(thrown)} was thrown`;
  return { name: typeof thrown, message: text, cause: null };
}

function typeAndReason<T extends Failure["type"], R extends string>(
  type: T,
  reasons: { readonly [reason in R]: unknown },
  reason: R,
): { readonly type: T; readonly reason: R } {
  if (Object.hasOwn(reasons, reason)) return { type, reason };
  const validReasons = Object.keys(reasons).join(", ");
  const message = `${errorName(type)}: "${String(reason)}" is not a reason; use one of ${validReasons}`;
  throw new MisuseError("unknown_reason", message);
}

function commonFields(
  message: string,
  details: { readonly message?: string; readonly cause?: unknown; readonly metadata?: JsonObject },
): Pick<Failure, "message" | "cause" | "metadata"> {
  return {
    message: details.message ?? message,
    cause: toCause(details.cause),
    metadata: storableSettings(details.metadata),
  };
}

function providerFailureFields(
  label: string,
  reason: string,
  defaults: Pick<ProviderFields, "kind" | "retryable">,
  details: Partial<Omit<ProviderFields, "cause">> & { readonly cause?: unknown },
): ProviderFields {
  return {
    ...commonFields(`${label}${inParentheses(details.provider)}: ${reason}`, details),
    provider: details.provider ?? null,
    status: roundedOrNull(details.status),
    retryAfterMs: roundedOrNull(details.retryAfterMs),
    requestId: details.requestId ?? null,
    retryable: details.retryable ?? defaults.retryable,
    kind: details.kind ?? defaults.kind,
    code: details.code ?? null,
    raw: typeof details.raw === "string" ? truncateMiddle(details.raw.trim(), 4000, "chars") : null,
  };
}

function inParentheses(name: string | null | undefined): string {
  return typeof name === "string" ? ` (${name})` : "";
}

function summary(issues: readonly Issue[]): string {
  const shown = issues.slice(0, 3).map(renderIssue).join("; ");
  const count = `(${issues.length} ${issues.length === 1 ? "error" : "errors"})`;
  return shown === "" ? count : `${count}: ${shown}${issues.length > 3 ? "; …" : ""}`;
}

/**
 * Rounds a number, because waits may be fractional. A number out of range becomes `null`: headers may contain anything.
 */
function roundedOrNull(value: number | null | undefined): number | null {
  return typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : null;
}

/** Returns the metadata without the top-level keys whose values cannot be stored. */
function storableSettings(metadata: JsonObject | undefined): JsonObject {
  if (!isPlainObject(metadata)) return emptyObject;
  const copy = storableCopy(metadata, isCredential);
  if (isPlainObject(copy)) return copy;
  const storable = Object.entries(metadata).filter(
    ([key, value]) => storableCopy({ [key]: value }, isCredential) !== undefined,
  );
  return Object.fromEntries(storable);
}
