// Readers that the shapes of OpenAI's bodies share.

import type { Shape } from "../../../core/model/parse/reading.ts";

import { array, fallback, isPlainObject, nullable } from "../../../core/model/parse/reading.ts";

/** An optional field. `null` means the same as absent. */
export function maybe<T>(shape: Shape<T>) {
  return fallback(nullable(shape), null);
}

/** A field that is not supported with any value. */
export function unsupportedField(why: string) {
  return maybe<never>((_, reading) => reading.report("unknown_field", why));
}

/** A number in a closed range. */
export function between(least: number, most: number): Shape<number> {
  return (input, reading) =>
    typeof input === "number" && input >= least && input <= most
      ? input
      : reading.report("out_of_range", `must be a number from ${least} to ${most}`);
}

export const whole: Shape<number> = (input, reading) =>
  typeof input === "number" && Number.isSafeInteger(input)
    ? input
    : reading.report("invalid_type", "must be a whole number");

export const positive: Shape<number> = (input, reading) =>
  typeof input === "number" && Number.isSafeInteger(input) && input > 0
    ? input
    : reading.report("must_be_positive", "must be a whole number of 1 or more");

/** Text that matches a pattern. `what` completes the message "must be …". */
export function matching(pattern: RegExp, what: string): Shape<string> {
  return (input, reading) =>
    typeof input === "string" && pattern.test(input) ? input : reading.report("invalid_format", `must be ${what}`);
}

/** Drops the fields that are not in `names` before reading. */
export function lenient<T>(names: readonly string[], shape: Shape<T>): Shape<T> {
  return (input, reading) =>
    shape(
      isPlainObject(input) ? Object.fromEntries(Object.entries(input).filter(([name]) => names.includes(name))) : input,
      reading,
    );
}

/** Text, or a list of parts. */
export function textOrParts<P>(part: Shape<P>): Shape<string | readonly P[]> {
  return (input, reading) => (typeof input === "string" ? input : array(part)(input, reading));
}

/** A list of at most this many items. */
export function atMost<T>(most: number, item: Shape<T>): Shape<readonly T[]> {
  return (input, reading) =>
    Array.isArray(input) && input.length > most
      ? reading.report("too_large", `must have at most ${most} items, not ${input.length}`)
      : array(item)(input, reading);
}
