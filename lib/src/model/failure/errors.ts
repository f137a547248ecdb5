// The error classes: one for each kind of failure, for throwing it. Everything that is known is in `error.failure`, which is data. An
// error is made from a reason and details, or from a failure.
//
// Not among them: `MisuseError` (a bug of the caller), and whatever a function of the program throws.

import type { Failure } from "./failure.ts";
import type { FailureConstructor, FailureDetails } from "./failures.ts";
import type { Result } from "./result.ts";

import { failureKinds } from "./failure.ts";
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

/** The base class of every failure this library throws. */
export abstract class EverturnError<F extends Failure = Failure> extends Error {
  /** Everything that is known, as data: safe to store, log and send. */
  readonly failure: F;
  override readonly name: string;

  constructor(failure: F, cause: unknown) {
    super(failure.message, cause === undefined || cause === null ? undefined : { cause });
    this.failure = failure;
    this.name = failureKinds[failure.type].error;
    Object.defineProperty(this, brand, { value: true });
  }

  get reason(): F["reason"] {
    return this.failure.reason;
  }
}

type ErrorClass<F extends Failure> = new (given: F["reason"] | F, details?: FailureDetails<F>) => EverturnError<F>;

function errorClass<F extends Failure>(make: FailureConstructor<F>): ErrorClass<F> {
  return class extends EverturnError<F> {
    constructor(given: F["reason"] | F, details?: FailureDetails<F>) {
      super(typeof given === "object" ? given : make(given, details), details?.cause);
    }
  };
}

/** The engine lacks something the call needs. Trying again without changing the engine does not help. */
export class EngineError extends errorClass(engineFailure) {}

/** A model call failed. `failure.retryable` says whether the same request could succeed later. */
export class AdapterError extends errorClass(adapterFailure) {}

/** An image call failed. */
export class ImageAdapterError extends errorClass(imageAdapterFailure) {}

/** A stream broke after it had begun. */
export class StreamError extends errorClass(streamFailure) {}

/** A tool call failed. */
export class ToolError extends errorClass(toolFailure) {}

/** The session does not accept what was asked of it: its status is `error`, or it does not wait for that call. */
export class SessionError extends errorClass(sessionFailure) {}

/** A value breaks the rules; `failure.issues` lists every broken rule with its path. */
export class ValidationError extends errorClass(validationFailure) {}

/** The runtime, or the host, could not continue a turn. */
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

/** Is this one of the classes above, of this copy of the package or of another? A `MisuseError` is none of them. */
export function isEverturnError(value: unknown): value is EverturnError {
  return typeof value === "object" && value !== null && Reflect.get(value, brand) === true;
}

/** The error that carries a failure. */
export function errorFromFailure(failure: Failure): EverturnError {
  return errorOf(failure.type, failure);
}

function errorOf<T extends Failure["type"]>(type: T, failure: FailureOf<T>): EverturnError {
  return new errorClasses[type](failure);
}

/** The value of a result; a failure is thrown as its error. */
export function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw errorFromFailure(result.failure);
}
