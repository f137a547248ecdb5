// Schemas of tool arguments and structured output. A user passes a plain JSON Schema, or a schema of any library that
// implements Standard Schema (https://standardschema.dev) with its JSON Schema extension. Both are used for two things:
// the JSON Schema (draft 2020-12) that is sent to the model, and the validation of the JSON that the model wrote.

import type { Issue, Json, JsonObject } from "../../model/internal.ts";

import { invalidArgument, truncateMiddle } from "../../model/internal.ts";
import { jsonObject, readOrNull } from "../../model/parse/reading.ts";
import { checkSchema } from "./schema-check.ts";

/** A schema of any library that implements Standard Schema, such as Zod, Valibot or ArkType. */
export type StandardSchema<Output = unknown> = {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    /** Converts the schema to JSON Schema, if the library can. */
    readonly jsonSchema?: StandardJsonSchema | undefined;
  };
};

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

type StandardIssue = {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
};

type StandardJsonSchema = {
  readonly input: (options: { readonly target: "draft-2020-12" }) => { readonly [key: string]: unknown };
  readonly output: (options: { readonly target: "draft-2020-12" }) => { readonly [key: string]: unknown };
};

/**
 * A plain JSON Schema. It is checked to be JSON where it is passed in; a recursive type here would cost users
 * seconds of compile time.
 */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** The schema of a structured output of the type `Output`; a plain JSON Schema has the type `Json`. */
export type OutputSchema<Output> = StandardSchema<Output> | JsonSchema;

/** A schema in either form. */
export type AnySchema = StandardSchema | JsonSchema;

/** The result of a validation. */
export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly issues: readonly Issue[] };

/**
 * Returns whether a schema implements Standard Schema. ArkType schemas are functions. JSON that an HTTP caller sent
 * never does: it has no function `validate`.
 */
export function isStandardSchema(schema: unknown): schema is StandardSchema {
  if (!isObject(schema) || !("~standard" in schema)) return false;
  const standard = schema["~standard"];
  return isObject(standard) && "validate" in standard && typeof standard.validate === "function";
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

/**
 * Converts a schema to the JSON Schema that is sent to the model. Throws `MisuseError` if the schema cannot be
 * converted or is not a valid JSON Schema, before any model call. `what` names the schema in the error.
 */
export function toJsonSchema(schema: AnySchema, what: string): JsonObject {
  if (!isStandardSchema(schema)) {
    const plain = readOrNull(jsonObject, schema);
    if (plain === null) throw invalidArgument(`${what}: ${notASchema(schema)}`, ["schema"]);
    checkSchema(plain, what);
    return plain;
  }
  const { vendor } = schema["~standard"];
  const converted = convertedSchema(schema, what);
  if (converted === undefined) {
    throw invalidArgument(
      `${what}: this ${vendor} schema cannot be converted to JSON Schema (it does not implement Standard JSON Schema); ` +
        `use a newer version of the library, its converter, or plain JSON Schema`,
    );
  }
  // A copy through JSON drops symbols, functions and accessors that libraries attach.
  const plain = readOrNull(jsonObject, JSON.parse(JSON.stringify(converted)));
  if (plain !== null) return plain;
  throw invalidArgument(`${what}: the JSON Schema of this ${vendor} schema is not an object`);
}

/** Says what is wrong with a value that is neither JSON Schema nor a Standard Schema. */
function notASchema(schema: unknown): string {
  if (schema === undefined) return "the schema is missing";
  const field = isObject(schema) ? Object.entries(schema).find(([, value]) => isStandardSchema(value)) : undefined;
  return field === undefined
    ? "the schema is neither JSON Schema nor a Standard Schema"
    : `the schema is a plain object with the schema ${JSON.stringify(field[0])} in it; make it a schema: z.object({ … }) with Zod`;
}

/**
 * The JSON Schema of a Standard Schema; `undefined`: the library cannot convert it. Throws `MisuseError` for a type
 * that JSON does not have, such as a date, and names the field.
 */
function convertedSchema(schema: StandardSchema, what: string): unknown {
  try {
    return inputSchema(schema);
  } catch (error) {
    const path = unconvertiblePath(schema);
    const where = path.length === 0 ? "the schema" : `the field ${path.join(".")} of the schema`;
    const why = error instanceof Error ? error.message : String(error);
    const advice = "use a type that JSON has, such as a string, and convert it afterwards";
    throw invalidArgument(`${what}: ${where} cannot be converted to JSON Schema: ${why}; ${advice}`, [
      "schema",
      ...path,
    ]);
  }
}

function inputSchema(schema: StandardSchema): unknown {
  // `input`, not `output`: the model writes the value before the schema applies its defaults and conversions.
  return schema["~standard"].jsonSchema?.input({ target: "draft-2020-12" });
}

/**
 * The path of the first field whose schema alone cannot be converted. Zod has the fields in `shape`, Valibot in
 * `entries`.
 */
function unconvertiblePath(schema: StandardSchema): readonly string[] {
  const shape = Reflect.get(schema, "shape") ?? Reflect.get(schema, "entries");
  if (!isObject(shape)) return [];
  for (const [name, field] of Object.entries(shape)) {
    if (!isStandardSchema(field)) continue;
    try {
      inputSchema(field);
    } catch {
      return [name, ...unconvertiblePath(field)];
    }
  }
  return [];
}

/** Validates a value with a Standard Schema. The result is the schema's output, with its defaults and conversions. */
export async function checkStandard<Output>(schema: StandardSchema<Output>, value: unknown): Promise<Checked<Output>> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return { ok: true, value: result.value };
  return { ok: false, issues: result.issues.map(issueOf) };
}

function issueOf({ message, path = [] }: StandardIssue): Issue {
  return { path: path.map(segmentKey), code: "invalid_value", message };
}

function segmentKey(segment: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof segment === "object" ? segment.key : segment;
  return typeof key === "symbol" ? String(key) : key;
}

type Validator = {
  readonly validate: (value: unknown) => { readonly valid: boolean; readonly errors: readonly ValidatorError[] };
};
type ValidatorError = { readonly instanceLocation: string; readonly keyword: string; readonly error: string };

/**
 * Compiled validators by schema object. Weak keys: a schema that the program drops frees its validator. `first`: it
 * stops at the first error.
 */
const validators = {
  all: new WeakMap<JsonSchema, Promise<Validator>>(),
  first: new WeakMap<JsonSchema, Promise<Validator>>(),
};

/**
 * Only the first error of a value with more parts is reported: a validator that collects all errors can produce one for
 * each part and each keyword, which are millions for a list that a model has chosen.
 */
const mostParts = 200;
const mostIssues = 100;
const longestIssue = 500;

/**
 * Validates a value with a plain JSON Schema. The validator package is imported on first use, so programs without plain
 * schemas do not load it.
 */
export async function checkJsonSchema(schema: JsonSchema, value: Json): Promise<Checked<Json>> {
  const which = countParts(value, mostParts) < mostParts ? "all" : "first";
  const validator = validators[which].get(schema) ?? loadValidator(schema, which === "first");
  validators[which].set(schema, validator);
  const { valid, errors } = validated(await validator, value);
  if (valid) return { ok: true, value };
  const leaves = errors.filter(isLeaf);
  return { ok: false, issues: (leaves.length > 0 ? leaves : errors).slice(0, mostIssues).map(validatorIssue) };
}

/** The validator writes names of properties into URLs, and throws for a lone surrogate. */
function validated(validator: Validator, value: Json): ReturnType<Validator["validate"]> {
  try {
    return validator.validate(value);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    const message = "the name of a property has a lone surrogate, which is not valid Unicode";
    return { valid: false, errors: [{ instanceLocation: "#", keyword: "propertyNames", error: message }] };
  }
}

/** The number of objects, lists and other values in a value; counts up to `most`. */
function countParts(value: Json, most: number): number {
  const stack: Json[] = [value];
  let count = 0;
  for (let next = stack.pop(); next !== undefined && count < most; next = stack.pop()) {
    count += 1;
    if (typeof next === "object" && next !== null) for (const part of Object.values(next)) stack.push(part);
  }
  return count;
}

/**
 * The validator package, once it is imported. Kept, because an import takes a task of the event loop each time, even of
 * a module that is loaded.
 */
let validatorPackage: ReturnType<typeof importValidator> | null = null;

function importValidator() {
  return import("@cfworker/json-schema");
}

async function loadValidator(schema: JsonSchema, stopsAtFirst: boolean): Promise<Validator> {
  const { Validator } = await (validatorPackage ??= importValidator());
  return new Validator(schema, "2020-12", stopsAtFirst);
}

/**
 * The validator reports an invalid part once itself and once for every keyword that encloses it. Only the innermost
 * errors name the cause; if there are none, all are reported.
 */
function isLeaf({ keyword }: ValidatorError): boolean {
  return !["properties", "items", "prefixItems", "additionalProperties", "$ref", "allOf"].includes(keyword);
}

function validatorIssue({ instanceLocation, keyword, error }: ValidatorError): Issue {
  const path = instanceLocation
    .replace(/^#\/?/, "")
    .split("/")
    .filter((segment) => segment !== "")
    .map((segment) => decodeURIComponent(segment.replaceAll("~1", "/").replaceAll("~0", "~")));
  // The validator reports a property that `additionalProperties: false` forbids as "False boolean schema", which tells
  // a model nothing.
  const isForbidden = keyword === "false" && path.length > 0;
  const message = isForbidden ? "the schema allows no property of this name; remove it" : error;
  return { path, code: "invalid_value", message: truncateMiddle(message, longestIssue) };
}

/** Validates a value with a schema of either form. */
export async function checkValue(schema: AnySchema, value: Json): Promise<Checked<unknown>> {
  return isStandardSchema(schema) ? checkStandard(schema, value) : checkJsonSchema(schema, value);
}
