// Schemas as users bring them: any library that speaks Standard Schema and can say itself in JSON Schema, or plain JSON Schema. Both
// become two things: what the model is told, and a check of what it wrote.

import type { Issue, Json, JsonObject } from "../../model/internal.ts";

import { MisuseError } from "../../model/internal.ts";
import { jsonObject, read } from "../../model/parse/reading.ts";
import { checkSchema } from "./schema-check.ts";

/** A schema of any library that implements Standard Schema, such as Zod, Valibot or ArkType. */
export type StandardSchema<Output = unknown> = {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    /** The same schema as JSON Schema, where the library can say it. */
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

/** A schema in either form. */
export type AnySchema = StandardSchema | JsonSchema;

export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly issues: readonly Issue[] };

export function isStandardSchema(schema: unknown): schema is StandardSchema {
  return ((typeof schema === "object" && schema !== null) || typeof schema === "function") && "~standard" in schema;
}

/** What a model is told. A schema that cannot say itself in JSON Schema is the caller's bug, found before anything runs. */
export function toJsonSchema(schema: AnySchema, what: string): JsonObject {
  if (!isStandardSchema(schema)) {
    const plain = read(jsonObject, schema);
    if ("value" in plain) {
      checkSchema(plain.value, what);
      return plain.value;
    }
    throw new MisuseError("invalid_argument", `${what}: the schema is neither JSON Schema nor a Standard Schema`);
  }
  const { jsonSchema, vendor } = schema["~standard"];
  const said: unknown = jsonSchema?.input({ target: "draft-2020-12" });
  if (said === undefined) {
    throw new MisuseError(
      "invalid_argument",
      `${what}: this ${vendor} schema cannot say itself in JSON Schema (Standard JSON Schema is missing); ` +
        `use a version that can, its converter, or plain JSON Schema`,
    );
  }
  // A copy through JSON: what libraries attach for themselves is not for the wire.
  const plain = read(jsonObject, JSON.parse(JSON.stringify(said)));
  if ("value" in plain) return plain.value;
  throw new MisuseError(
    "invalid_argument",
    `${what}: the ${vendor} schema says itself as something else than an object`,
  );
}

/** Checks a value by a Standard Schema. */
export async function checkStandard<Output>(schema: StandardSchema<Output>, value: unknown): Promise<Checked<Output>> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return { ok: true, value: result.value };
  return { ok: false, issues: result.issues.map(issueOf) };
}

function issueOf({ message, path = [] }: StandardIssue): Issue {
  return { path: path.map(keyOf), code: "invalid_value", message };
}

function keyOf(step: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof step === "object" ? step.key : step;
  return typeof key === "symbol" ? String(key) : key;
}

type Validator = {
  readonly validate: (value: unknown) => { readonly valid: boolean; readonly errors: readonly Complaint[] };
};
type Complaint = { readonly instanceLocation: string; readonly keyword: string; readonly error: string };

const validators = new WeakMap<JsonSchema, Promise<Validator>>();

/** Checks a value by plain JSON Schema. The validator is loaded when the first one is needed. */
export async function checkJsonSchema(schema: JsonSchema, value: Json): Promise<Checked<Json>> {
  const known = validators.get(schema) ?? loadValidator(schema);
  validators.set(schema, known);
  const { valid, errors } = (await known).validate(value);
  if (valid) return { ok: true, value };
  const issues = errors.filter(isLeaf).map(complaintIssue);
  return { ok: false, issues: issues.length > 0 ? issues : errors.map(complaintIssue) };
}

async function loadValidator(schema: JsonSchema): Promise<Validator> {
  const { Validator } = await import("@cfworker/json-schema");
  return new Validator(schema, "2020-12", false);
}

/** Complaints about a part repeat as complaints about every whole it belongs to; the parts say what is wrong. */
function isLeaf({ keyword }: Complaint): boolean {
  return !["properties", "items", "prefixItems", "additionalProperties", "$ref", "allOf"].includes(keyword);
}

function complaintIssue({ instanceLocation, error }: Complaint): Issue {
  const path = instanceLocation
    .replace(/^#\/?/, "")
    .split("/")
    .filter((step) => step !== "")
    .map((step) => decodeURIComponent(step.replaceAll("~1", "/").replaceAll("~0", "~")));
  return { path, code: "invalid_value", message: error };
}

/** Checks a value by a schema of either form. */
export async function checkValue(schema: AnySchema, value: Json): Promise<Checked<unknown>> {
  return isStandardSchema(schema) ? checkStandard(schema, value) : checkJsonSchema(schema, value);
}
