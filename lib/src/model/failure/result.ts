import type { Failure } from "./failure.ts";

/**
 * A value, or the failure that prevented it. Functions that can fail for reasons outside the program return this
 * instead of throwing.
 */
export type Result<T, F = Failure> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: F };

export function ok<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

export function failed<F>(failure: F): { readonly ok: false; readonly failure: F } {
  return { ok: false, failure };
}
