// The return type of functions that can fail for reasons outside the program, and its two constructors.

import type { Failure } from "./failure.ts";

/**
 * A value, or the failure that prevented it. Functions that can fail for reasons outside the program return this
 * instead of throwing.
 */
export type Result<T, F = Failure> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: F };

/** Wraps a value as a successful result. */
export function ok<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

/** Wraps a failure as a result. */
export function failed<F>(failure: F): { readonly ok: false; readonly failure: F } {
  return { ok: false, failure };
}
