// Readers the shapes of OpenAI's bodies have in common.

import type { Shape } from "../../model/parse/reading.ts";

import { array, fallback, isPlainObject, nullable } from "../../model/parse/reading.ts";

/** A field that may be `null` or absent, which both say nothing. */
export function maybe<T>(shape: Shape<T>) {
  return fallback(nullable(shape), null);
}

/** A field that says something nobody here can take, whatever it is. */
export function none(why: string) {
  return maybe<never>((_, reading) => reading.report("unknown_field", why));
}

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

/** Text of one form. */
export function matching(pattern: RegExp, what: string): Shape<string> {
  return (input, reading) =>
    typeof input === "string" && pattern.test(input) ? input : reading.report("invalid_format", `must be ${what}`);
}

/** The fields a shape knows, and none of the others. */
export function lenient<T>(names: readonly string[], shape: Shape<T>): Shape<T> {
  return (input, reading) =>
    shape(
      isPlainObject(input) ? Object.fromEntries(Object.entries(input).filter(([name]) => names.includes(name))) : input,
      reading,
    );
}

/** Text, or a list of parts. */
export function content<P>(part: Shape<P>): Shape<string | readonly P[]> {
  return (input, reading) => (typeof input === "string" ? input : array(part)(input, reading));
}

/** A list that is not longer than this. */
export function atMost<T>(most: number, item: Shape<T>): Shape<readonly T[]> {
  return (input, reading) =>
    Array.isArray(input) && input.length > most
      ? reading.report("too_large", `must have at most ${most} items, not ${input.length}`)
      : array(item)(input, reading);
}
