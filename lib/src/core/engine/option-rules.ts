// Checks options at run time, for callers without a compiler: a misspelt option must not be ignored, and a wrong value
// must not fail later. A function declares one rule for each of its options; the names that it accepts follow from the
// rules.

import { invalidArgument, MisuseError } from "../model/internal.ts";
import { describe } from "../model/parse/reading.ts";
import { placeOf } from "./option-place.ts";

/** What the value of an option has to be. */
export type Rule = {
  /** The rule as a part of a sentence: `timeoutMs must be …`. */
  readonly must: string;
  readonly fits: (value: unknown) => boolean;
  /** The wrong value as the error shows it. Default: its type, because it may be a secret. */
  readonly show?: (value: unknown) => string;
  /** The option has no default. */
  readonly required?: true;
  /** The rules of the fields of an object. */
  readonly fields?: { readonly [name: string]: Rule };
};

/** One rule for each option; the compiler requires all of them. */
export type Rules<Options> = { readonly [Name in keyof Options]-?: Rule };

/** A wrong value as a program writes it; an object or a function by its type. */
function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  return typeof value === "object" || typeof value === "function" ? describe(value) : String(value);
}

/** The option is checked where it is used, or by the compiler alone. */
export const anything: Rule = { must: "any value", fits: () => true };
export const aFunction: Rule = { must: "a function", fits: (value) => typeof value === "function" };
export const aBoolean: Rule = { must: "true or false", fits: (value) => typeof value === "boolean", show: shown };
export const aString: Rule = { must: "a string", fits: (value) => typeof value === "string" };
/** A string that is not empty. */
export const aName: Rule = { must: "a name", fits: (value) => typeof value === "string" && value !== "" };
export const anObject: Rule = { must: "an object", fits: (value) => typeof value === "object" && value !== null };
export const listOfFunctions: Rule = {
  must: "a list of functions",
  fits: (value) => Array.isArray(value) && value.every((item) => typeof item === "function"),
};
/** A number greater than 0, also `Infinity`. */
export const positive: Rule = {
  must: "a number greater than 0",
  fits: (value) => typeof value === "number" && value > 0,
  show: shown,
};

/** A finite number of 0 or more. */
export const finiteAmount: Rule = {
  must: "a number of 0 or more",
  fits: (value) => typeof value === "number" && Number.isFinite(value) && value >= 0,
  show: shown,
};

/** The values that a number may have. `least` is the smallest one; `whole` refuses fractions and infinity. */
export type NumberRange = { readonly least: number; readonly whole: boolean };

export function numberIn({ least, whole }: NumberRange): Rule {
  return {
    must: `${whole ? "a whole number" : "a number"} of ${least} or more`,
    fits: (value) => typeof value === "number" && value >= least && (!whole || Number.isSafeInteger(value)),
    show: shown,
  };
}

/** A whole number of 1 or more. */
export const atLeastOne: Rule = numberIn({ least: 1, whole: true });

export function oneOf(words: readonly string[]): Rule {
  return {
    must: words.map((word) => JSON.stringify(word)).join(" or "),
    fits: (value) => words.some((word) => word === value),
    show: shown,
  };
}

/** An object whose fields have rules of their own. */
export function objectOf<Fields>(fields: Rules<Fields>): Rule {
  return { ...anObject, fields };
}

/** Rules for the names of an object that is complete, such as an object of defaults. */
export function namesOf<Fields extends object>(complete: Required<Fields>): { readonly [name: string]: Rule } {
  return Object.fromEntries(Object.keys(complete).map((name) => [name, anything]));
}

/** The path of a value in the arguments of a function. */
type Path = readonly (string | number)[];

/**
 * Throws `MisuseError`: `unknown_field` for a name without a rule, `invalid_argument` for a value that does not fit.
 * `caller` begins the message. `path`: where the options are.
 */
export function checkOptions(
  caller: string,
  options: unknown,
  rules: { readonly [name: string]: Rule },
  path: Path = [],
): void {
  if (options === undefined) return;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    const what = path.length === 0 ? "the options" : path.join(".");
    throw invalidArgument(`${caller}: ${what} must be an object`, [...path]);
  }
  const unknownName = Object.keys(options).find((name) => !Object.hasOwn(rules, name));
  if (unknownName !== undefined) throw unknownOption(caller, Object.keys(rules), [...path, unknownName]);
  for (const [name, rule] of Object.entries(rules)) {
    const value: unknown = Reflect.get(options, name);
    if (value === undefined && rule.required !== true) continue;
    checkRule(`${caller}: `, [...path, name], value, rule);
    if (rule.fields !== undefined) checkOptions(caller, value, rule.fields, [...path, name]);
  }
}

/** Throws `MisuseError` (`invalid_argument`) for a value that does not fit. `prefix` begins the message. */
export function checkRule(prefix: string, path: Path, value: unknown, rule: Rule): void {
  if (rule.fits(value)) return;
  const { must, show = describe } = rule;
  throw invalidArgument(`${prefix}${path.join(".")} must be ${must}, not ${show(value)}`, [...path]);
}

function unknownOption(caller: string, names: readonly string[], path: Path): MisuseError {
  const name = String(path.at(-1));
  const similarName = names.find((other) => other.toLowerCase() === name.toLowerCase());
  const place = path.length === 1 ? placeOf(name) : null;
  const advice =
    similarName === undefined ? (place ?? `the options are ${names.join(", ")}`) : `did you mean ${similarName}?`;
  return new MisuseError("unknown_field", `${caller}: unknown option "${path.join(".")}"; ${advice}`, {
    path: [...path],
  });
}
