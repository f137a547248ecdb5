// The building blocks of the conformance suites: cases that any test runner can run, and a few assertions. The suites
// import no test framework. A violation is an `Error` that states what was expected, the actual value, and the violated
// rule.

import { systemClock } from "../core/clock/clock.ts";
import { startTimer } from "../core/clock/timer.ts";

/** One conformance case. `run` rejects if the implementation violates it. Any test runner can run it. */
export type ConformanceCase = {
  /** The behaviour that the case checks, as a test title. */
  readonly name: string;
  /** Runs the case. Rejects with an error that states the expectation, the actual value and the rule. */
  readonly run: () => Promise<void>;
};

/** What runs each case, by the name of the case. */
export type Cases = { readonly [name: string]: () => Promise<void> };

/** The cases in the order of their names in the object. */
export function casesOf(cases: Cases): readonly ConformanceCase[] {
  return Object.entries(cases).map(([name, run]) => ({ name, run }));
}

/** How long a case waits for something that must happen, in milliseconds. */
export const patienceMs = 5000;
/** How long a case waits for something that must happen at once, in milliseconds. */
export const promptMs = 500;

/** Builds the error of a violated rule. */
export function broken(rule: string, expected: string, actual: unknown): Error {
  return new Error(`expected ${expected}; got ${written(actual)}. The rule: ${rule}`);
}

/** Throws unless the condition is true. */
export function holds(condition: boolean, rule: string, expected: string, actual: unknown): asserts condition {
  if (!condition) throw broken(rule, expected, actual);
}

/** Throws unless both values are equal as JSON, whatever the order of their keys. */
export function same(actual: unknown, expected: unknown, rule: string, what: string): void {
  if (written(actual) !== written(expected)) throw broken(rule, `${what} to be ${written(expected)}`, actual);
}

/** Rejects if the work takes longer than `ms`. Uses the system clock, because the code under test may have no other. */
export function within<T>(ms: number, work: Promise<T>, rule: string, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(broken(rule, `${what} within ${ms} ms`, "nothing until then"));
    work.finally(startTimer(systemClock, ms, late)).then(resolve, reject);
  });
}

/** Returns the error that the work threw or rejected with; `null` if it succeeded. */
export async function thrownBy(work: () => unknown): Promise<{ readonly error: unknown } | null> {
  try {
    await work();
    return null;
  } catch (error) {
    return { error };
  }
}

/** Formats a value for error messages and comparison: JSON with sorted keys. */
export function written(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value, (_, item: unknown) => withSortedKeys(item)) ?? String(value);
  } catch {
    return String(value);
  }
}

function withSortedKeys(item: unknown): unknown {
  if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
  return Object.fromEntries(Object.entries(item).toSorted(([left], [right]) => (left < right ? -1 : 1)));
}
