// The error classes: one for each kind of failure. All information is in `error.failure`, which is plain data. An error
// is built from a reason and details, or from a failure.
//
// `MisuseError` (a programming error of the caller) is not one of them, and neither is an error that a function of the
// program throws.
//
// `isEverturnError` checks a globally registered symbol and not `instanceof`, because a process can load several copies
// of the package.

import type { Failure } from "./failure.ts";
import type { FailureConstructor, FailureDetails } from "./failures.ts";
import type { Result } from "./result.ts";

import { errorName } from "./failure-reasons.ts";
import {
  adapterFailure,
  engineFailure,
  imageAdapterFailure,
  runtimeFailure,
  sessionFailure,
  streamFailure,
  toolFailure,
  validationFailure,
} from "./failures.ts";

// Registered globally, so that all copies of the package in a process share it.
const brand = Symbol.for("everturn.error");

/**
 * The base class of the errors that carry a {@link Failure}. `failure` is plain data that can be stored and
 * logged.
 */
export abstract class EverturnError<F extends Failure = Failure> extends Error {
  /** The failure as plain data, which can be stored, logged and sent. */
  readonly failure: F;
  override readonly name: string;

  constructor(failure: F, cause: unknown) {
    super(failure.message, cause === undefined || cause === null ? undefined : { cause });
    this.failure = failure;
    this.name = errorName(failure.type);
    Object.defineProperty(this, brand, { value: true });
  }

  /** The reason of the failure, a member of the closed list of its kind. */
  get reason(): F["reason"] {
    return this.failure.reason;
  }
}

type ErrorClass<F extends Failure> = new (
  reasonOrFailure: F["reason"] | F,
  details?: FailureDetails<F>,
) => EverturnError<F>;

function errorClass<F extends Failure>(buildFailure: FailureConstructor<F>): ErrorClass<F> {
  return class extends EverturnError<F> {
    constructor(reasonOrFailure: F["reason"] | F, details?: FailureDetails<F>) {
      super(
        typeof reasonOrFailure === "object" ? reasonOrFailure : buildFailure(reasonOrFailure, details),
        details?.cause,
      );
    }
  };
}

/** The engine lacks something that the call needs, such as an adapter or a key. A retry does not help. */
export class EngineError extends errorClass(engineFailure) {}

/** A model call failed. `failure.retryable` states whether the same request may succeed later. */
export class AdapterError extends errorClass(adapterFailure) {}

/** An image call failed. `failure.retryable` states whether the same request may succeed later. */
export class ImageAdapterError extends errorClass(imageAdapterFailure) {}

/** A stream ended abnormally after its first event. */
export class StreamError extends errorClass(streamFailure) {}

/** A tool call failed. A handler that throws it chooses reason, code and message of the failure. */
export class ToolError extends errorClass(toolFailure) {}

/** A session cannot accept the operation: its status is `error`, or the named call is not pending. */
export class SessionError extends errorClass(sessionFailure) {}

/** A value violates a rule. `failure.issues` lists every violation with its path. */
export class ValidationError extends errorClass(validationFailure) {}

/**
 * The runtime or its storage could not do what was asked: a conflict, a lost lease, a storage error, a turn that
 * diverged from its record.
 */
export class RuntimeError extends errorClass(runtimeFailure) {}

type FailureOf<T extends Failure["type"]> = Extract<Failure, { readonly type: T }>;

const errorClasses: { readonly [T in Failure["type"]]: new (failure: FailureOf<T>) => EverturnError } = {
  engine_error: EngineError,
  adapter_error: AdapterError,
  image_adapter_error: ImageAdapterError,
  stream_error: StreamError,
  tool_error: ToolError,
  session_error: SessionError,
  validation_error: ValidationError,
  runtime_error: RuntimeError,
};

/**
 * Returns whether a value is an {@link EverturnError}, also one of another copy of the package. A `MisuseError` is
 * not.
 */
export function isEverturnError(value: unknown): value is EverturnError {
  return typeof value === "object" && value !== null && Reflect.get(value, brand) === true;
}

/** Builds the error of the class that belongs to a failure. */
export function errorFromFailure(failure: Failure): EverturnError {
  return errorOf(failure.type, failure);
}

function errorOf<T extends Failure["type"]>(type: T, failure: FailureOf<T>): EverturnError {
  return new errorClasses[type](failure);
}

/** Returns the value of a result, or throws the error class of its failure. */
export function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw errorFromFailure(result.failure);
}
