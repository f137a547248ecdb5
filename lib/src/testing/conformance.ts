// What the suites of the test kit are made of: cases any test runner can run, and the few checks they need. No test framework is known here;
// a rule that is broken is an `Error` that says what was expected, what came, and which rule it was.

import { systemClock } from "../clock/clock.ts";
import { startTimer } from "../clock/timer.ts";

/** One conformance case. `run` rejects if the implementation violates it. Any test runner can run it. */
export type ConformanceCase = { readonly name: string; readonly run: () => Promise<void> };

/** The longest a case waits for something that has to happen, and for something that has to happen at once. */
export const patienceMs = 5000;
export const promptMs = 500;

/** What to throw when a rule is broken. */
export function broken(rule: string, expected: string, came: unknown): Error {
  return new Error(`expected ${expected}; got ${written(came)}. The rule: ${rule}`);
}

/** The condition has to hold. */
export function holds(condition: boolean, rule: string, expected: string, came: unknown): asserts condition {
  if (!condition) throw broken(rule, expected, came);
}

/** Both have to be the same data, whatever the order of their keys. */
export function same(came: unknown, wanted: unknown, rule: string, what: string): void {
  if (written(came) !== written(wanted)) throw broken(rule, `${what} to be ${written(wanted)}`, came);
}

/** The work has to be done in time: of the system clock, because the code under test may have no other. */
export function within<T>(ms: number, work: Promise<T>, rule: string, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(broken(rule, `${what} within ${ms} ms`, "nothing by then"));
    work.finally(startTimer(systemClock, ms, late)).then(resolve, reject);
  });
}

/** What the work threw, or rejected with; `null` when it did neither. */
export async function thrownBy(work: () => unknown): Promise<{ readonly error: unknown } | null> {
  try {
    await work();
    return null;
  } catch (error) {
    return { error };
  }
}

/** A value as text for people and for comparing: JSON with its keys in order. */
export function written(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value, (_, item: unknown) => inOrder(item)) ?? String(value);
  } catch {
    return String(value);
  }
}

function inOrder(item: unknown): unknown {
  if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
  return Object.fromEntries(Object.entries(item).toSorted(([left], [right]) => (left < right ? -1 : 1)));
}
