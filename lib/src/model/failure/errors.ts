// The error classes: a failure with a stack, for when a caller has to be interrupted. One class for each kind of failure, all of them the
// same small wrapper: what there is to know is in `error.failure`, which is data. Each is made from a reason and what else is known, or
// from a failure that is there already.
//
// Not errors of this kind: the caller's own bugs (MisuseError), and whatever a user's function throws.

import type {
  AdapterErrorReason,
  AdapterFailure,
  EngineErrorReason,
  EngineFailure,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  RuntimeErrorReason,
  RuntimeFailure,
  SessionErrorReason,
  SessionFailure,
  StreamErrorReason,
  StreamFailure,
  ToolErrorReason,
  ToolFailure,
  ValidationErrorReason,
  ValidationFailure,
  Failure,
} from "./failure.ts";
import type { FailureDetails } from "./failures.ts";
import type { Result } from "./result.ts";

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

/** The engine lacks something the call needs. Fix the engine; trying again will not help. */
export class EngineError extends EverturnError<EngineFailure> {
  override readonly name: string = "EngineError";

  constructor(given: EngineErrorReason | EngineFailure, details: FailureDetails<EngineFailure> = {}) {
    super(typeof given === "object" ? given : engineFailure(given, details), details.cause);
  }
}

/** A model call failed. `failure.retryable` says whether the same request may work later. */
export class AdapterError extends EverturnError<AdapterFailure> {
  override readonly name: string = "AdapterError";

  constructor(given: AdapterErrorReason | AdapterFailure, details: FailureDetails<AdapterFailure> = {}) {
    super(typeof given === "object" ? given : adapterFailure(given, details), details.cause);
  }
}

/** An image call failed. */
export class ImageAdapterError extends EverturnError<ImageAdapterFailure> {
  override readonly name: string = "ImageAdapterError";

  constructor(given: ImageAdapterErrorReason | ImageAdapterFailure, details: FailureDetails<ImageAdapterFailure> = {}) {
    super(typeof given === "object" ? given : imageAdapterFailure(given, details), details.cause);
  }
}

/** A stream broke after it had begun. */
export class StreamError extends EverturnError<StreamFailure> {
  override readonly name: string = "StreamError";

  constructor(given: StreamErrorReason | StreamFailure, details: FailureDetails<StreamFailure> = {}) {
    super(typeof given === "object" ? given : streamFailure(given, details), details.cause);
  }
}

/** A tool call did not work. */
export class ToolError extends EverturnError<ToolFailure> {
  override readonly name: string = "ToolError";

  constructor(given: ToolErrorReason | ToolFailure, details: FailureDetails<ToolFailure> = {}) {
    super(typeof given === "object" ? given : toolFailure(given, details), details.cause);
  }
}

/** A session cannot take what it was given: it is in `error`, or the call is not one it waits for. */
export class SessionError extends EverturnError<SessionFailure> {
  override readonly name: string = "SessionError";

  constructor(given: SessionErrorReason | SessionFailure, details: FailureDetails<SessionFailure> = {}) {
    super(typeof given === "object" ? given : sessionFailure(given, details), details.cause);
  }
}

/** A value breaks the rules; `failure.issues` lists every rule and where. */
export class ValidationError extends EverturnError<ValidationFailure> {
  override readonly name: string = "ValidationError";

  constructor(given: ValidationErrorReason | ValidationFailure, details: FailureDetails<ValidationFailure> = {}) {
    super(typeof given === "object" ? given : validationFailure(given, details), details.cause);
  }
}

/** A turn could not go on, for a reason on our side or the host's. */
export class RuntimeError extends EverturnError<RuntimeFailure> {
  override readonly name: string = "RuntimeError";

  constructor(given: RuntimeErrorReason | RuntimeFailure, details: FailureDetails<RuntimeFailure> = {}) {
    super(typeof given === "object" ? given : runtimeFailure(given, details), details.cause);
  }
}

/** Is this one of the classes above, of this copy of the package or of another? A `MisuseError` is none of them. */
export function isEverturnError(value: unknown): value is EverturnError {
  return typeof value === "object" && value !== null && Reflect.get(value, brand) === true;
}

/** The error that says what a failure says. */
export function errorFromFailure(failure: Failure): EverturnError {
  switch (failure.type) {
    case "engine_error":
      return new EngineError(failure);
    case "adapter_error":
      return new AdapterError(failure);
    case "image_adapter_error":
      return new ImageAdapterError(failure);
    case "stream_error":
      return new StreamError(failure);
    case "tool_error":
      return new ToolError(failure);
    case "session_error":
      return new SessionError(failure);
    case "validation_error":
      return new ValidationError(failure);
    case "runtime_error":
      return new RuntimeError(failure);
  }
}

/** The value of a result; a failure is thrown as its error. */
export function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw errorFromFailure(result.failure);
}
