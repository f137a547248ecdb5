// How a value from outside becomes one of ours: the readers every type of the model is made of.
//
// A shape reads an unknown value and returns it typed, or reports every thing wrong with it and where. Rules:
//   1. Reading JSON never throws, and nothing is called on the value: no `toJSON`, no `toString`, nothing inherited.
//   2. Only own properties of object literals count, so `constructor` and `__proto__` are keys like any other.
//   3. Absent fields become their stated default, which is how data of an older release is read; unknown fields are refused.
//   4. Depth, size and the number of issues are bounded, so hostile input costs bounded time.
//
// Hand-written on purpose: `model` imports nothing (docs/decisions/0005).

import type { Issue, IssueCode } from "../failure/issue.ts";
import type { Json, JsonObject } from "./json.ts";

import { renderIssue } from "../failure/issue.ts";
import { MisuseError } from "../failure/misuse.ts";
import { textHead } from "../message/cut-text.ts";
import { describe, isPlainObject, ownValue } from "./json.ts";

/** Returned by a shape after it has reported why. */
const invalid: unique symbol = Symbol("invalid");

/** Reads one kind of value. */
export type Shape<T> = (input: unknown, reading: Reading) => T | typeof invalid;

/** Deepest nesting of open JSON, counted from where it starts: what fits in a message also fits in the session that holds it. */
export const maxJsonDepth = 128;
/** Deepest nesting of anything. Our own types stay far below what is left above open JSON. */
const maxDepth = 256;
/** Most values (fields, items, leaves) that are read in one go. */
export const maxNodes = 2_000_000;
/** Most issues reported; reading stops there. */
export const maxIssues = 100;
/** Longest key that a path repeats in full. */
const maxKeyLength = 100;

/** One read under way: where it is, what it has found, how much it has seen. */
class Reading {
  readonly issues: Issue[] = [];
  readonly #path: (string | number)[] = [];
  readonly #ancestors: object[] = [];
  #nodes = 0;
  #stopped = false;

  /** True once there is no point in reading on. */
  get stopped(): boolean {
    return this.#stopped;
  }

  report(code: IssueCode, message: string): typeof invalid {
    if (this.issues.length < maxIssues) this.issues.push({ path: this.#path.map(shortened), code, message });
    if (this.issues.length >= maxIssues) this.#stopped = true;
    return invalid;
  }

  /** Reads what stands under `key` of the current value. */
  at<T>(key: string | number, shape: Shape<T>, input: unknown): T | typeof invalid {
    if (this.#stopped) return invalid;
    this.#path.push(key);
    const value = this.#fits() ? shape(input, this) : invalid;
    this.#path.pop();
    return value;
  }

  /** Reads the inside of a container that may hold others of its kind, without following it too deep or in a circle. */
  inside<T>(container: object, read: () => T): T | typeof invalid {
    if (this.#ancestors.includes(container)) return this.report("cycle", "the value contains itself");
    if (this.#ancestors.length >= maxJsonDepth) {
      return this.report("too_deep", `nested more than ${maxJsonDepth} levels deep`);
    }
    this.#ancestors.push(container);
    const value = read();
    this.#ancestors.pop();
    return value;
  }

  /** Counts one more value; false when there have been too many. */
  count(): boolean {
    this.#nodes += 1;
    if (this.#nodes <= maxNodes) return true;
    if (!this.#stopped) this.report("too_large", `more than ${maxNodes} values`);
    this.#stopped = true;
    return false;
  }

  #fits(): boolean {
    if (!this.count()) return false;
    if (this.#path.length > maxDepth) {
      this.report("too_deep", `nested more than ${maxDepth} levels deep`);
      return false;
    }
    return true;
  }
}

function shortened(key: string | number): string | number {
  return typeof key === "string" && key.length > maxKeyLength ? `${textHead(key, maxKeyLength)}…` : key;
}

export const string: Shape<string> = (input, reading) =>
  typeof input === "string" ? input : reading.report("invalid_type", `must be a string, not ${describe(input)}`);

export const boolean: Shape<boolean> = (input, reading) =>
  typeof input === "boolean" ? input : reading.report("invalid_type", `must be a boolean, not ${describe(input)}`);

export const number: Shape<number> = (input, reading) =>
  typeof input === "number" && Number.isFinite(input)
    ? input
    : reading.report("invalid_type", `must be a finite number, not ${describe(input)}`);

/** A whole number of something: tokens, attempts, pixels. */
export const count: Shape<number> = (input, reading) =>
  typeof input === "number" && Number.isSafeInteger(input) && input >= 0
    ? input
    : reading.report("invalid_type", `must be a whole number of 0 or more, not ${describe(input)}`);

/** One word of a closed list. */
export function oneOf<const T extends string>(words: readonly T[]): Shape<T> {
  return (input, reading) =>
    words.find((word) => word === input) ?? reading.report("unknown", `must be one of ${words.join(", ")}`);
}

/** A word of a closed list; a word that a later release may have added becomes `fallback`. */
export function oneOfOr<const T extends string>(words: readonly T[], fallback: T): Shape<T> {
  return (input, reading) =>
    typeof input === "string" ? (words.find((word) => word === input) ?? fallback) : oneOf(words)(input, reading);
}

/** Any JSON: tool arguments, schemas, values, a provider's own data. */
export const json: Shape<Json> = (input, reading) => readJson(input, reading, false);

export const jsonObject: Shape<JsonObject> = (input, reading) => openMap(input, reading, false);

/**
 * An open map of settings: metadata, options, context. Like any JSON, but a credential in it is refused: keys are
 * resolved when a call is made and are never part of what is stored.
 */
export const settings: Shape<JsonObject> = (input, reading) => openMap(input, reading, true);

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (input, reading) => (input === null ? null : shape(input, reading));
}

export function array<T>(item: Shape<T>): Shape<readonly T[]> {
  return (input, reading) => {
    if (!Array.isArray(input)) return reading.report("invalid_type", `must be an array, not ${describe(input)}`);
    const values: T[] = [];
    let whole = true;
    for (let index = 0; index < input.length && !reading.stopped; index += 1) {
      const value = reading.at(index, item, input[index]);
      if (value === invalid) whole = false;
      else values.push(value);
    }
    return whole && !reading.stopped ? values : invalid;
  };
}

/** Tries `first` where `isFirst` says so, otherwise `second`: a string or a list of parts. */
export function either<A, B>(isFirst: (input: unknown) => boolean, first: Shape<A>, second: Shape<B>): Shape<A | B> {
  return (input, reading) => (isFirst(input) ? first(input, reading) : second(input, reading));
}

/** A field that has to be there. */
export function required<T>(shape: Shape<T>): PresentField<T> {
  return { shape, absent: { type: "refused" } };
}

/** A field that is `value` when absent. */
export function fallback<T>(shape: Shape<T>, value: NoInfer<T>): PresentField<T> {
  return { shape, absent: { type: "filled", value: frozen(value) } };
}

/** Defaults are shared by all values that have them, so nobody may change one. */
function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}

/** A key that is there or is not. */
export function optional<T>(shape: Shape<T>): OptionalField<T> {
  return { shape, absent: { type: "omitted" } };
}

export type PresentField<T> = {
  readonly shape: Shape<T>;
  readonly absent: { readonly type: "refused" } | { readonly type: "filled"; readonly value: T };
};
export type OptionalField<T> = { readonly shape: Shape<T>; readonly absent: { readonly type: "omitted" } };

/** One field for every key of `T`: leave one out, or allow a required one to be missing, and this does not compile. */
export type Fields<T> = {
  readonly [K in keyof T]-?: Partial<Pick<T, K>> extends Pick<T, K>
    ? OptionalField<Required<T>[K]>
    : PresentField<T[K]>;
};

export function object<T extends object>(fields: Fields<T>): Shape<T> {
  const known = new Map<string, PresentField<unknown> | OptionalField<unknown>>(Object.entries(fields));
  const names = [...known.keys()].join(", ");
  return (input, reading) => {
    if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
    let whole = true;
    for (const key of Object.keys(input)) {
      if (known.has(key)) continue;
      whole = false;
      reading.at(key, (_, here) => here.report("unknown_field", `unknown field; known are ${names}`), undefined);
    }
    const values: { [key: string]: unknown } = {};
    for (const [key, field] of known) {
      const given = ownValue(input, key);
      const value = given === undefined ? absentValue(field, key, reading) : reading.at(key, field.shape, given);
      if (value === invalid) whole = false;
      else if (value !== omitted) values[key] = value;
    }
    // `fields` has a reader for every key of T and all of them have been read: the compiler cannot follow the loop.
    return whole && !reading.stopped ? (values as T) : invalid;
  };
}

const omitted = Symbol("omitted");

function absentValue(field: PresentField<unknown> | OptionalField<unknown>, key: string, reading: Reading): unknown {
  switch (field.absent.type) {
    case "filled":
      return reading.count() ? field.absent.value : invalid;
    case "omitted":
      return omitted;
    case "refused":
      return reading.at(key, (_, here) => here.report("required", "is required"), undefined);
  }
}

/** A union told apart by the word under `key`. One shape for every word: leave one out and this does not compile. */
export function variant<T extends { readonly [K in Key]: string }, Key extends string>(
  key: Key,
  cases: { readonly [Word in T[Key]]: Shape<Extract<T, { readonly [K in Key]: Word }>> },
): Shape<T> {
  const shapes = new Map<string, Shape<T>>(Object.entries<Shape<T>>(cases));
  const words = [...shapes.keys()];
  return (input, reading) => {
    if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
    const word = ownValue(input, key);
    const shape = typeof word === "string" ? shapes.get(word) : undefined;
    if (shape !== undefined) return shape(input, reading);
    return word === undefined
      ? reading.at(key, (_, here) => here.report("required", `is required: one of ${words.join(", ")}`), undefined)
      : reading.at(key, (_, here) => here.report("unknown", `must be one of ${words.join(", ")}`), undefined);
  };
}

// Open JSON. Read by copying: what comes out is plain data that nobody else holds, whatever tricks the input had in it.

function openMap(input: unknown, reading: Reading, refuseCredentials: boolean): JsonObject | typeof invalid {
  if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
  return readMap(input, reading, refuseCredentials);
}

function readJson(input: unknown, reading: Reading, refuseCredentials: boolean): Json | typeof invalid {
  if (input === null || typeof input === "string" || typeof input === "boolean") return input;
  if (typeof input === "number" && Number.isFinite(input)) return input;
  if (Array.isArray(input)) return readList(input, reading, refuseCredentials);
  if (isPlainObject(input)) return readMap(input, reading, refuseCredentials);
  return reading.report("not_json", `${describe(input)} cannot be stored as JSON`);
}

function readList(
  input: readonly unknown[],
  reading: Reading,
  refuseCredentials: boolean,
): readonly Json[] | typeof invalid {
  return reading.inside(input, () => {
    const items: Json[] = [];
    let whole = true;
    for (let index = 0; index < input.length && !reading.stopped; index += 1) {
      const item = reading.at(index, refuseCredentials ? openSettings : json, input[index]);
      if (item === invalid) whole = false;
      else items.push(item);
    }
    return whole && !reading.stopped ? items : invalid;
  });
}

function readMap(
  input: { readonly [key: string]: unknown },
  reading: Reading,
  refuseCredentials: boolean,
): JsonObject | typeof invalid {
  return reading.inside(input, () => {
    const entries: { [key: string]: Json } = {};
    let whole = true;
    for (const key of Object.keys(input)) {
      if (reading.stopped) return invalid;
      const given = input[key];
      const item =
        refuseCredentials && isCredential(key, given)
          ? credential(key, reading)
          : reading.at(key, refuseCredentials ? openSettings : json, given);
      if (item === invalid) whole = false;
      else define(entries, key, item);
    }
    return whole && !reading.stopped ? entries : invalid;
  });
}

const openSettings: Shape<Json> = (input, reading) => readJson(input, reading, true);

/** Sets a key as data, also one called `__proto__`. */
function define(entries: { [key: string]: Json }, key: string, value: Json): void {
  if (key === "__proto__")
    Object.defineProperty(entries, key, { value, enumerable: true, configurable: true, writable: true });
  else entries[key] = value;
}

function credential(key: string, reading: Reading): typeof invalid {
  const why = "looks like a key; keys are resolved when a call is made, never stored";
  return reading.at(key, (_, here) => here.report("credential", why), undefined);
}

/** By its name, in any spelling (`apiKey`, `OPENAI_API_KEY`, `x-goog-api-key`), or by being a bearer token. */
function isCredential(key: string, value: unknown): boolean {
  // A header may come as a list of its values.
  const text: unknown = Array.isArray(value) ? value[0] : value;
  if (typeof text !== "string") return false;
  const name = key.toLowerCase().replaceAll(/[^a-z]/g, "");
  return /^bearer [\w.~+/=-]{8,}$/i.test(text) || credentialNames.some((ending) => name.endsWith(ending));
}

const credentialNames = [
  "apikey",
  "secretkey",
  "accesskey",
  "privatekey",
  "accesstoken",
  "authtoken",
  "secret",
  "password",
  "authorization",
  "cookie",
] as const;

/** Reads input whole: its value, or at least one issue that says why there is none. */
export function read<T>(
  shape: Shape<T>,
  input: unknown,
): { readonly value: T } | { readonly issues: readonly Issue[] } {
  const reading = new Reading();
  const value = shape(input, reading);
  return value === invalid ? { issues: reading.issues } : { value };
}

/** Builds a value from its fields, filling in what was left out. Fields that do not fit are the caller's bug and throw. */
export function construct<T>(name: string, shape: Shape<T>, fields: unknown): T {
  const outcome = read(shape, fields);
  if ("value" in outcome) return outcome.value;
  const [first] = outcome.issues;
  if (first === undefined) throw new MisuseError("invalid_argument", `${name}: the value could not be read`);
  throw new MisuseError(misuseOf(first.code), `${name}: ${outcome.issues.slice(0, 3).map(renderIssue).join("; ")}`, {
    path: first.path,
  });
}

function misuseOf(code: IssueCode): "unknown_field" | "missing_field" | "invalid_argument" {
  if (code === "unknown_field") return "unknown_field";
  return code === "required" ? "missing_field" : "invalid_argument";
}
