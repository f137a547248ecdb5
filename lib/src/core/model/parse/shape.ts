// Shapes: parser combinators that read an unknown value as a typed one. Every stored type of the library has one.
//
// Theory of operation
//   A `Shape<T>` is a function from an unknown value and the state of the read (`Reading`) to a `T` or to `invalid`.
//   Combinators build shapes from shapes: `object` from one field for every key of `T`, `variant` for discriminated
//   unions, `array`, `nullable`, `either`. `json`, `jsonObject` and `settings` read open JSON, whose structure is not
//   declared. `read` starts one read; `construct` does the same for arguments of the program and throws `MisuseError`
//   where `read` returns issues.
//
//   A table of fields is the one declaration of a stored type: `type Thread = Infer<typeof threadFields>` and
//   `threadShape = object(threadFields)`. The published declaration files contain the inferred types written out
//   (tools/package/inferred-types.ts).
//
//   A failed read continues, so that one call reports every issue with its path, up to `maxIssues`.
//
// Invariants
//   1. Reading JSON never throws and calls nothing on the value: no `toJSON`, no `toString`, no inherited property.
//   2. Only own properties of object literals count, so `constructor` and `__proto__` are ordinary keys (no prototype
//      pollution).
//   3. An absent field gets its declared default, which is how data of an older release is read. An unknown field is an
//      issue.
//   4. Depth, number of values and number of issues are bounded, so the cost of reading untrusted input is bounded.
//   5. The result is a copy. It shares no mutable object with the input.
//
// Written by hand, because `model` imports nothing (docs/decisions/0005).

import type { Issue, IssueCode } from "../failure/issue.ts";
import type { Json, JsonObject } from "./json.ts";

import { renderIssue } from "../failure/issue.ts";
import { invalidArgument, MisuseError } from "../failure/misuse.ts";
import { textHead } from "../message/truncate-text.ts";
import { insteadOfStoring, isCredential } from "./credential.ts";
import { describe, isPlainObject, ownValue } from "./json.ts";
import { shortenArray, shortenerOf, shortening, shortenObject, shortenVariant } from "./shortened.ts";

/** Returned by a shape that has reported at least one issue, or by a read that has stopped. */
const invalid: unique symbol = Symbol("invalid");

/** Reads an unknown value as a `T`, or reports issues and returns `invalid`. */
export type Shape<T> = (input: unknown, reading: Reading) => T | typeof invalid;

/**
 * The deepest nesting of open JSON, in levels. Counted from the start of the open JSON and not of the entire value, so
 * a value that fits into a message also fits into the session that contains the message.
 */
export const maxJsonDepth = 128;
/**
 * The deepest path of any value, in keys: `maxJsonDepth` and as many levels again for the declared types around open
 * JSON.
 */
const maxPathLength = 256;
/** The largest number of values (fields, items, leaves) in one read. */
export const maxNodes = 2_000_000;
/** The largest number of reported issues. The read stops when it is reached. */
export const maxIssues = 100;
/** The longest key that the path of an issue contains in full, in UTF-16 code units. */
const maxKeyLength = 100;

/** The state of one read: the current path, the issues so far, and the counters of the limits. */
class Reading {
  readonly issues: Issue[] = [];
  readonly #path: (string | number)[] = [];
  readonly #ancestors: object[] = [];
  #nodes = 0;
  #stopped = false;

  /** True once a limit is reached: the rest of the value is not read. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Adds an issue at the current path and returns `invalid`, so that a shape can return the call. */
  report(code: IssueCode, message: string): typeof invalid {
    if (this.issues.length < maxIssues) this.issues.push({ path: this.#path.map(shortened), code, message });
    if (this.issues.length >= maxIssues) this.#stopped = true;
    return invalid;
  }

  /** Reads the value under `key` of the current value. */
  at<T>(key: string | number, shape: Shape<T>, input: unknown): T | typeof invalid {
    if (this.#stopped) return invalid;
    this.#path.push(key);
    const value = this.#fits() ? shape(input, this) : invalid;
    this.#path.pop();
    return value;
  }

  /**
   * Reads the content of a container of a recursive type. Reports a cycle, and nesting beyond `maxJsonDepth`. The check
   * for a cycle is linear in the depth.
   */
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

  /** Counts one more value. Returns false beyond `maxNodes`, which stops the read. */
  count(): boolean {
    this.#nodes += 1;
    if (this.#nodes <= maxNodes) return true;
    if (!this.#stopped) this.report("too_large", `more than ${maxNodes} values`);
    this.#stopped = true;
    return false;
  }

  #fits(): boolean {
    if (!this.count()) return false;
    if (this.#path.length > maxPathLength) {
      this.report("too_deep", `nested more than ${maxPathLength} levels deep`);
      return false;
    }
    return true;
  }
}

function shortened(key: string | number): string | number {
  return typeof key === "string" && key.length > maxKeyLength ? `${textHead(key, maxKeyLength)}…` : key;
}

/** A string. */
export const string: Shape<string> = (input, reading) =>
  typeof input === "string" ? input : reading.report("invalid_type", `must be a string, not ${describe(input)}`);

/** A boolean. */
export const boolean: Shape<boolean> = (input, reading) =>
  typeof input === "boolean" ? input : reading.report("invalid_type", `must be a boolean, not ${describe(input)}`);

/** A finite number. */
export const number: Shape<number> = (input, reading) =>
  typeof input === "number" && Number.isFinite(input)
    ? input
    : reading.report("invalid_type", `must be a finite number, not ${describe(input)}`);

/** A whole number from 0 to `Number.MAX_SAFE_INTEGER`: tokens, attempts, pixels. */
export const count: Shape<number> = (input, reading) =>
  typeof input === "number" && Number.isSafeInteger(input) && input >= 0
    ? input
    : reading.report("invalid_type", `must be a whole number of 0 or more, not ${describe(input)}`);

/** A string of a closed list. */
export function oneOf<const T extends string>(words: readonly T[]): Shape<T> {
  return (input, reading) =>
    words.find((word) => word === input) ?? reading.report("unknown", `must be one of ${words.join(", ")}`);
}

/**
 * The words of a list as a type. Not `L[number]`, whose name the compiler drops from the types of fields in declaration
 * files.
 */
export type WordOf<L extends readonly string[]> = { readonly [Word in L[number]]: Word }[L[number]];

/** A string of a list that later releases may extend. An unknown string is read as `fallback`. */
export function oneOfOr<const T extends string>(words: readonly T[], fallback: T): Shape<T> {
  return (input, reading) =>
    typeof input === "string" ? (words.find((word) => word === input) ?? fallback) : oneOf(words)(input, reading);
}

/** Any JSON value: tool arguments, schemas, tool values, provider data. */
export const json: Shape<Json> = (input, reading) => readJson(input, reading, false);

/** Any JSON object. */
export const jsonObject: Shape<JsonObject> = (input, reading) => openMap(input, reading, false);

/**
 * Any JSON object without credentials: metadata, options, context. A value that looks like an API key is an issue,
 * because keys are resolved when a call is made and are never stored.
 */
export const settings: Shape<JsonObject> = (input, reading) => openMap(input, reading, true);

/**
 * A JSON object in which the fields of `known` have a shape and may be absent. All other fields are read with `others`,
 * by default as settings: any JSON without credentials. `T` describes both.
 */
export function openObject<T extends JsonObject>(known: KnownFields<T>, others: Shape<Json> = openSettings): Shape<T> {
  const shapes = new Map<string, Shape<Json>>(Object.entries<Shape<Json>>(known));
  return (input, reading) => {
    if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
    const result = readMap(input, reading, (key, item) => {
      const shape = shapes.get(key);
      if (shape !== undefined) return reading.at(key, shape, item);
      return isCredential(key, item) ? reportCredential(key, reading) : reading.at(key, others, item);
    });
    // Every field of `known` that is present has been read by its shape; the compiler cannot infer that.
    return result === invalid ? invalid : (result as T);
  };
}

/** The shapes of the declared fields of an open object. Fields that only its index signature allows have none. */
export type KnownFields<T> = {
  readonly [K in keyof T as string extends K ? never : K]-?: Shape<Exclude<T[K], undefined> & Json>;
};

/** `null`, or a value of the shape. */
export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return shortening((input, reading) => (input === null ? null : shape(input, reading)), shortenerOf(shape));
}

/** An array of values of one shape. */
export function array<T>(item: Shape<T>): Shape<readonly T[]> {
  const shape: Shape<readonly T[]> = (input, reading) => {
    if (!Array.isArray(input)) return reading.report("invalid_type", `must be an array, not ${describe(input)}`);
    const values: T[] = [];
    let valid = true;
    for (let index = 0; index < input.length && !reading.stopped; index += 1) {
      const value = reading.at(index, item, input[index]);
      if (value === invalid) valid = false;
      else values.push(value);
    }
    return valid && !reading.stopped ? values : invalid;
  };
  return shortening(shape, shortenArray(item));
}

/**
 * A union without a discriminant, for example a string or a list of parts: `first` if `isFirst` returns true, otherwise
 * `second`.
 */
export function either<A, B>(isFirst: (input: unknown) => boolean, first: Shape<A>, second: Shape<B>): Shape<A | B> {
  const shape: Shape<A | B> = (input, reading) => (isFirst(input) ? first(input, reading) : second(input, reading));
  const [shortenFirst, shortenSecond] = [shortenerOf(first), shortenerOf(second)];
  if (shortenFirst === null && shortenSecond === null) return shape;
  return shortening(shape, (value) => (isFirst(value) ? shortenFirst : shortenSecond)?.(value) ?? value);
}

/** A value of the shape, completed by fields that are computed from it. */
export function derived<S, T>(shape: Shape<S>, complete: (value: S) => T): Shape<T> {
  const completed: Shape<T> = (input, reading) => {
    const value = shape(input, reading);
    return value === invalid ? invalid : complete(value);
  };
  return shortening(completed, shortenerOf(shape));
}

/** A field that must be present. */
export function required<T>(shape: Shape<T>): PresentField<T> {
  return { shape, absent: { type: "refused" } };
}

/** A field whose default is `value`. */
export function fallback<T>(shape: Shape<T>, value: NoInfer<T>): PresentField<T> {
  return { shape, absent: { type: "filled", value: frozen(value) } };
}

/** A field that must be present and has one value: the tag of a member of a union. */
export function literal<const T extends string>(word: T): PresentField<T> {
  return required(oneOf([word]));
}

/** Freezes a default deeply, because all values that have the default share it. */
function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}

/**
 * A field that may be absent and then has no default. Only the metadata of results has such fields
 * (docs/decisions/0004).
 */
export function optional<T>(shape: Shape<T>): OptionalField<T> {
  return { shape, absent: { type: "omitted" } };
}

/** A field that is present in the result: required, or with a default. */
export type PresentField<T> = {
  readonly shape: Shape<T>;
  readonly absent: { readonly type: "refused" } | { readonly type: "filled"; readonly value: T };
};
/** A field that may be absent from the result. */
export type OptionalField<T> = { readonly shape: Shape<T>; readonly absent: { readonly type: "omitted" } };

/** Fields by name: the declaration of an object type. `Infer` gives the type, `object` the shape. */
export type FieldTable = { readonly [name: string]: PresentField<unknown> | OptionalField<unknown> };

/**
 * The type of objects with these fields, all of them present. Doc comments of the fields are those of its properties.
 * `K` is a parameter, because declaration files would show the type without its name otherwise.
 */
export type Infer<F extends FieldTable, K extends keyof F = keyof F> = { readonly [P in K]: ValueOf<F[P]> };

/** The type of objects with these fields, some of which are optional. It costs the compiler more than `Infer`. */
export type InferOptional<F extends FieldTable> = { readonly [K in keyof Values<F>]: Values<F>[K] };

/**
 * The union whose members are the cases of a table, each with its word under `Key`. A field of a case must not have the
 * name `Key`.
 */
export type InferUnion<Key extends string, C extends CaseTable> = {
  [Word in keyof C]: { readonly [K in keyof Case<Key, Word, C[Word]>]: Case<Key, Word, C[Word]>[K] };
}[keyof C];

/** The declared fields of an open object, by the table of their shapes. Each of them may be absent. */
export type InferSome<S extends { readonly [name: string]: Shape<unknown> }> = {
  readonly [K in keyof S]?: InferShapes<S>[K];
};

/** The types of the values of a table of shapes. */
export type InferShapes<S extends { readonly [name: string]: Shape<unknown> }> = {
  readonly [K in keyof S]: S[K] extends Shape<infer T> ? T : never;
};

/** Fields of the members of a union, by their word. */
type CaseTable = { readonly [word: string]: FieldTable };
type Case<Key extends string, Word, F> = { readonly [K in Key]: Word } & Values<F>;

// Intersected and not written as one mapped type: a key remapping (`as`) would lose the doc comments.
type Values<F> = Always<F, Exclude<keyof F, OptionalKey<F>>> & Sometimes<F, OptionalKey<F>>;
type Always<F, K extends keyof F> = { readonly [P in K]: ValueOf<F[P]> };
type Sometimes<F, K extends keyof F> = { readonly [P in K]?: ValueOf<F[P]> };
type OptionalKey<F> = { [K in keyof F]: F[K] extends OptionalField<unknown> ? K : never }[keyof F];
type ValueOf<F> = F extends PresentField<infer T> ? T : F extends OptionalField<infer T> ? T : never;

/** One field for every key of `T`. A missing key, or an optional field for a required key, does not compile. */
export type Fields<T> = {
  readonly [K in keyof T]-?: Partial<Pick<T, K>> extends Pick<T, K>
    ? OptionalField<Required<T>[K]>
    : PresentField<T[K]>;
};

/**
 * An object literal with exactly these fields. The second form is for a type that is declared elsewhere: a generic or a
 * recursive one.
 */
export function object<F extends FieldTable>(fields: F): Shape<{ readonly [K in keyof Values<F>]: Values<F>[K] }>;
export function object<T extends object>(fields: Fields<T>): Shape<T>;
export function object(fields: FieldTable): Shape<object> {
  const entries = Object.entries(fields);
  const fieldsByName = new Map(entries);
  const names = [...fieldsByName.keys()].join(", ");
  const shape: Shape<object> = (input, reading) => {
    if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
    let valid = true;
    for (const key of Object.keys(input)) {
      if (fieldsByName.has(key)) continue;
      valid = false;
      reading.at(key, (_, here) => here.report("unknown_field", `unknown field; the fields are ${names}`), undefined);
    }
    const values: { [key: string]: unknown } = {};
    for (const [key, field] of entries) {
      const fieldInput = ownValue(input, key);
      const value =
        fieldInput === undefined ? absentValue(field, key, reading) : reading.at(key, field.shape, fieldInput);
      if (value === invalid) valid = false;
      else if (value !== omitted) values[key] = value;
    }
    return valid && !reading.stopped ? values : invalid;
  };
  return shortening(shape, shortenObject(fieldsByName));
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

/**
 * A union discriminated by the string under `key`. The first form takes the fields of each member besides `key`, the
 * second the shape of each member; a member without a shape does not compile.
 */
export function variant<Key extends string, C extends CaseTable>(key: Key, cases: C): Shape<InferUnion<Key, C>>;
export function variant<T extends { readonly [K in Key]: string }, Key extends string>(
  key: Key,
  cases: { readonly [Word in T[Key]]: Shape<Extract<T, { readonly [K in Key]: Word }>> },
): Shape<T>;
export function variant(key: string, cases: { readonly [word: string]: FieldTable | Shape<unknown> }): Shape<unknown> {
  const shapes = new Map(
    Object.entries(cases).map(([word, shape]): [string, Shape<unknown>] => [
      word,
      typeof shape === "function" ? shape : object({ [key]: literal(word), ...shape }),
    ]),
  );
  const words = [...shapes.keys()];
  const union: Shape<unknown> = (input, reading) => {
    if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
    const word = ownValue(input, key);
    const shape = typeof word === "string" ? shapes.get(word) : undefined;
    if (shape !== undefined) return shape(input, reading);
    return word === undefined
      ? reading.at(key, (_, here) => here.report("required", `is required: one of ${words.join(", ")}`), undefined)
      : reading.at(key, (_, here) => here.report("unknown", `must be one of ${words.join(", ")}`), undefined);
  };
  return shortening(union, shortenVariant(key, shapes));
}

// Open JSON. It is copied: the result is plain data even if the input has getters, proxies or shared objects.

function openMap(input: unknown, reading: Reading, refuseCredentials: boolean): JsonObject | typeof invalid {
  if (!isPlainObject(input)) return reading.report("invalid_type", `must be an object, not ${describe(input)}`);
  return readOpenMap(input, reading, refuseCredentials);
}

function readJson(input: unknown, reading: Reading, refuseCredentials: boolean): Json | typeof invalid {
  if (input === null || typeof input === "string" || typeof input === "boolean") return input;
  if (typeof input === "number" && Number.isFinite(input)) return input;
  if (Array.isArray(input)) return readList(input, reading, refuseCredentials);
  if (isPlainObject(input)) return readOpenMap(input, reading, refuseCredentials);
  return reading.report("not_json", `${describe(input)} cannot be stored as JSON`);
}

function readList(
  input: readonly unknown[],
  reading: Reading,
  refuseCredentials: boolean,
): readonly Json[] | typeof invalid {
  return reading.inside(input, () => {
    const items: Json[] = [];
    let valid = true;
    for (let index = 0; index < input.length && !reading.stopped; index += 1) {
      const item = reading.at(index, refuseCredentials ? openSettings : json, input[index]);
      if (item === invalid) valid = false;
      else items.push(item);
    }
    return valid && !reading.stopped ? items : invalid;
  });
}

function readMap(
  input: { readonly [key: string]: unknown },
  reading: Reading,
  readItem: (key: string, item: unknown) => Json | typeof invalid,
): JsonObject | typeof invalid {
  return reading.inside(input, () => {
    const entries: { [key: string]: Json } = {};
    let valid = true;
    for (const key of Object.keys(input)) {
      if (reading.stopped) return invalid;
      const item = readItem(key, input[key]);
      if (item === invalid) valid = false;
      else define(entries, key, item);
    }
    return valid && !reading.stopped ? entries : invalid;
  });
}

/** Reads an object whose fields are all open JSON. */
function readOpenMap(
  input: { readonly [key: string]: unknown },
  reading: Reading,
  refuseCredentials: boolean,
): JsonObject | typeof invalid {
  return readMap(input, reading, (key, item) =>
    refuseCredentials && isCredential(key, item)
      ? reportCredential(key, reading)
      : reading.at(key, refuseCredentials ? openSettings : json, item),
  );
}

const openSettings: Shape<Json> = (input, reading) => readJson(input, reading, true);

/** Sets a key as an own property. Assigning `__proto__` would change the prototype instead (prototype pollution). */
function define(entries: { [key: string]: Json }, key: string, value: Json): void {
  if (key === "__proto__")
    Object.defineProperty(entries, key, { value, enumerable: true, configurable: true, writable: true });
  else entries[key] = value;
}

function reportCredential(key: string, reading: Reading): typeof invalid {
  const message = `looks like a credential; API keys are resolved when a call is made and are never stored${insteadOfStoring(key)}`;
  return reading.at(key, (_, here) => here.report("credential", message), undefined);
}

/** Reads a value of unknown type. Returns the typed value, or at least one issue. */
export function read<T>(
  shape: Shape<T>,
  input: unknown,
): { readonly value: T } | { readonly issues: readonly Issue[] } {
  const reading = new Reading();
  const value = shape(input, reading);
  return value === invalid ? { issues: reading.issues } : { value };
}

/** Like `read`, for a value that counts as absent if it has issues. */
export function readOrNull<T>(shape: Shape<T>, input: unknown): T | null {
  const result = read(shape, input);
  return "value" in result ? result.value : null;
}

/**
 * Builds a value from arguments of the program and fills in defaults. Throws `MisuseError` for fields that do not match
 * the shape.
 */
export function construct<T>(name: string, shape: Shape<T>, fields: unknown): T {
  const result = read(shape, fields);
  if ("value" in result) return result.value;
  const [first] = result.issues;
  if (first === undefined) throw invalidArgument(`${name}: the value could not be read`);
  throw new MisuseError(misuseOf(first.code), `${name}: ${result.issues.slice(0, 3).map(renderIssue).join("; ")}`, {
    path: first.path,
  });
}

function misuseOf(code: IssueCode): "unknown_field" | "missing_field" | "invalid_argument" {
  if (code === "unknown_field") return "unknown_field";
  return code === "required" ? "missing_field" : "invalid_argument";
}
