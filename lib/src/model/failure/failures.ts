// Builds failures from their reasons. Fields that are not given follow from the reason. Details that cannot be stored are left out,
// because the failure itself has to be reported in any case.

import type { Json, JsonObject } from "../parse/json.ts";
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

import { truncateMiddle } from "../message/cut-text.ts";
import { describe, emptyObject, isPlainObject } from "../parse/json.ts";
import { json, read, settings } from "../parse/shape.ts";
import { failureKinds } from "./failure.ts";
import { renderIssue } from "./issue.ts";
import { MisuseError } from "./misuse.ts";

/** The fields of a failure a caller may set; the others follow from the reason. `cause` may be any thrown value. */
export type FailureDetails<F extends Failure> = Partial<Omit<F, "type" | "reason" | "cause">> & {
  readonly cause?: unknown;
};

/** Makes a failure of one kind. A word that is not a reason of the kind throws a `MisuseError`. */
export type FailureConstructor<F extends Failure> = (reason: F["reason"], details?: FailureDetails<F>) => F;

export const engineFailure: FailureConstructor<EngineFailure> = (reason, details = {}) => ({
  ...tagged("engine_error", reason),
  provider: details.provider ?? null,
  ...common(`engine error: ${reason}`, details),
});

/**
 * Builds the failure of a model call. For adapters. The message and `retryable` follow from the reason by default.
 * Throws `MisuseError` for an unknown reason.
 */
export const adapterFailure: FailureConstructor<AdapterFailure> = (reason, details = {}) => ({
  ...tagged("adapter_error", reason),
  ...ofProvider("adapter error", reason, failureKinds.adapter_error.reasons[reason], details),
});

export const imageAdapterFailure: FailureConstructor<ImageAdapterFailure> = (reason, details = {}) => ({
  ...tagged("image_adapter_error", reason),
  ...ofProvider("image adapter error", reason, failureKinds.image_adapter_error.reasons[reason], details),
});

export const streamFailure: FailureConstructor<StreamFailure> = (reason, details = {}) => ({
  ...tagged("stream_error", reason),
  ...ofProvider("stream error", reason, failureKinds.stream_error.reasons[reason], details),
  eventIndex: wholeOrNull(details.eventIndex),
});

/**
 * Builds the failure of a tool call. For tool executors. `class` and `code` follow from the reason by default.
 * Throws `MisuseError` for an unknown reason.
 */
export const toolFailure: FailureConstructor<ToolFailure> = (reason, details = {}) => ({
  ...tagged("tool_error", reason),
  class: details.class ?? failureKinds.tool_error.reasons[reason].class,
  code: details.code ?? reason,
  source: details.source ?? "runtime",
  retry:
    details.retry?.type === "safe"
      ? { type: "safe", afterMs: wholeOrNull(details.retry.afterMs) }
      : (details.retry ?? { type: "never" }),
  toolName: details.toolName ?? null,
  toolCallId: details.toolCallId ?? null,
  raw: storableJson(details.raw),
  ...common(`tool error${inBrackets(details.toolName)}: ${reason}`, details),
});

export const sessionFailure: FailureConstructor<SessionFailure> = (reason, details = {}) => ({
  ...tagged("session_error", reason),
  ...common(`session error: ${reason}`, details),
});

export const validationFailure: FailureConstructor<ValidationFailure> = (reason, details = {}) => ({
  ...tagged("validation_error", reason),
  issues: details.issues ?? [],
  ...common(`validation failed: ${reason} ${summary(details.issues ?? [])}`, details),
});

export const runtimeFailure: FailureConstructor<RuntimeFailure> = (reason, details = {}) => ({
  ...tagged("runtime_error", reason),
  paths: details.paths ?? [],
  ...common(`runtime error: ${reason}`, details),
});

/** Reduces a thrown value to what can be stored. Never throws itself. */
export function toCause(thrown: unknown): FailureCause | null {
  try {
    return causeOf(thrown, 0);
  } catch {
    // The property getters of the object throw.
    return { name: typeof thrown, message: "something that cannot be looked at was thrown", cause: null };
  }
}

function causeOf(thrown: unknown, depth: number): FailureCause | null {
  if (thrown === undefined || thrown === null) return null;
  const message = typeof thrown === "object" ? Reflect.get(thrown, "message") : undefined;
  if (typeof thrown === "object" && typeof message === "string") {
    // Recognised by its properties and not by `instanceof`: errors may come from other realms, failures from a storage.
    const name: unknown = Reflect.get(thrown, "name");
    const inner = depth < 8 ? causeOf(Reflect.get(thrown, "cause"), depth + 1) : null;
    return { name: typeof name === "string" ? name : "object", message, cause: inner };
  }
  const words = typeof thrown === "string" ? thrown : `${describe(thrown)} was thrown`;
  return { name: typeof thrown, message: words, cause: null };
}

function tagged<T extends Failure["type"], R extends string>(
  type: T,
  reason: R,
): { readonly type: T; readonly reason: R } {
  const { error, reasons } = failureKinds[type];
  if (Object.hasOwn(reasons, reason)) return { type, reason };
  const known = Object.keys(reasons).join(", ");
  throw new MisuseError("unknown_reason", `${error}: "${String(reason)}" is not a reason; one of ${known}`);
}

function common(
  message: string,
  details: { readonly message?: string; readonly cause?: unknown; readonly metadata?: JsonObject },
): Pick<Failure, "message" | "cause" | "metadata"> {
  return {
    message: details.message ?? message,
    cause: toCause(details.cause),
    metadata: storableSettings(details.metadata),
  };
}

function ofProvider(
  what: string,
  reason: string,
  byReason: Pick<ProviderFields, "kind" | "retryable">,
  details: Partial<Omit<ProviderFields, "cause">> & { readonly cause?: unknown },
): ProviderFields {
  return {
    ...common(`${what}${inBrackets(details.provider)}: ${reason}`, details),
    provider: details.provider ?? null,
    status: wholeOrNull(details.status),
    retryAfterMs: wholeOrNull(details.retryAfterMs),
    requestId: details.requestId ?? null,
    retryable: details.retryable ?? byReason.retryable,
    kind: details.kind ?? byReason.kind,
    code: details.code ?? null,
    raw: typeof details.raw === "string" ? truncateMiddle(details.raw.trim(), 4000, "chars") : null,
  };
}

function inBrackets(name: string | null | undefined): string {
  return typeof name === "string" ? ` (${name})` : "";
}

function summary(issues: readonly Issue[]): string {
  const shown = issues.slice(0, 3).map(renderIssue).join("; ");
  const count = `(${issues.length} ${issues.length === 1 ? "error" : "errors"})`;
  return shown === "" ? count : `${count}: ${shown}${issues.length > 3 ? "; …" : ""}`;
}

/** Rounds a number: waits may be fractional. Headers may hold anything, so what is out of range becomes `null`. */
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
  const stored = read(json, value ?? null);
  return "value" in stored ? stored.value : null;
}
