// Adapts a JSON Schema to what an API accepts (`schema-rules.ts`). The only place that does: codecs pass the rules of
// their API.
//
// Theory of operation
//   One walk over the schema writes each node again:
//     structure     objects are closed, `oneOf` becomes `anyOf`, a list of types becomes a union of single types, a
//                   missing `type` is inferred, keywords beside `$ref` move into a union of one branch; an optional
//                   field is required and nullable where the API has no optional fields (`added-nulls.ts` undoes that)
//     constraints   a keyword that the API refuses is named in `description`, so that the model can keep to it; the
//                   schema of the program checks it after the reply
//     annotations   keywords without a meaning for the model (`$comment`, `examples`, extensions) are dropped
//   A schema that has no such form (records, open objects, values of any type, tuples, `allOf`, `not`, conditions) is
//   `inexpressible`. The codec then sends the original without strict mode, or in another place, with a warning. OpenAI
//   requires an object at the root, also without strict mode. Another root (a list, a union, a text) is sent as the
//   field `value` of an object, and the value is taken out of that field before the schema of the program validates it
//   (`root` in `added-nulls.ts`). Parameters of functions are objects: `parameters-root.ts`.
//
// Invariants
//   1. Every value that the original schema accepts has a form that the adapted schema accepts: the same value, with
//      `null` in absent fields that were made nullable. Exception: objects are closed, so fields that an open object
//      does not name are not possible.
//   2. A value that the adapted schema accepts, without its added `null`s, is accepted by the original or violates one
//      of the constraints that were moved.
//   3. The adaptation of an adapted schema is the same schema.

import type { Json, JsonObject } from "../model/internal.ts";
import type { SchemaRules } from "./schema-rules.ts";

import { isJsonArray } from "../model/internal.ts";
import { acceptsNull, addedNullsOf } from "./added-nulls.ts";
import { asObject, listAt, objectAt, textAt } from "./fields.ts";
import { annotations, definitionAt, literalsOf, typeOf, typesOf, withoutSingleAllOf } from "./schema-nodes.ts";

/**
 * A schema in the form of an API. `addedNulls`: how a value differs from one of the original schema (`added-nulls.ts`);
 * `null`: not at all.
 */
export type AdaptedSchema = { readonly schema: JsonObject; readonly addedNulls: JsonObject | null } & (
  | { readonly type: "adapted" }
  /**
   * The API has no strict form for the schema. `schema` is the original, with the root that the API requires. `why`
   * names the place and the construct.
   */
  | { readonly type: "inexpressible"; readonly why: string }
);

/** Adapts a schema to the rules of an API. */
export function adaptSchema(schema: JsonObject, rules: SchemaRules): AdaptedSchema {
  const { root, field } = rules.objectRoot ? withObjectRoot(schema) : { root: schema, field: null };
  const walk = new SchemaWalk(root, rules);
  const adapted = walk.adaptRoot();
  const { problem } = walk;
  if (problem !== null)
    return {
      type: "inexpressible",
      why: problem,
      schema: root,
      addedNulls: field === null ? null : { root: field },
    };
  const addedNulls = rules.optionalFields === "nullable" ? addedNullsOf(root, field) : null;
  return { type: "adapted", schema: adapted, addedNulls };
}

/** The field of the object that a root of another type is sent in. */
const valueField = "value";

/**
 * A schema whose root is an object. `field`: the field of it that has the value; `null`: the root is that of the given
 * schema.
 */
function withObjectRoot(schema: JsonObject): { readonly root: JsonObject; readonly field: string | null } {
  const root = withoutSingleAllOf(withoutRootReference(schema));
  const isUnion = root["type"] === undefined && (root["anyOf"] !== undefined || root["oneOf"] !== undefined);
  const types = isUnion ? null : typesOf(root);
  if (types?.length === 1 && types[0] === "object") return { root: { type: "object", ...root }, field: null };
  return { root: withValueField(schema), field: valueField };
}

/** A root that is only a reference, as the definition itself. */
function withoutRootReference(schema: JsonObject): JsonObject {
  const { $ref: reference, ...siblings } = schema;
  const definition = typeof reference === "string" && reference !== "#" ? definitionAt(schema, reference) : null;
  return definition === null ? schema : { ...definition, ...siblings };
}

/** Does a reference name the root, or a place in it that is no definition? */
function isOfRoot(reference: string): boolean {
  return /^#(?!\/(?:\$defs|definitions)\/)/.test(reference);
}

/**
 * A closed object with the schema as its only field. References to the root name a definition, to which the root moves.
 */
function withValueField(schema: JsonObject): JsonObject {
  const { $schema: dialect, $defs, definitions, ...value } = schema;
  const namesRoot = referencesOf(schema, false).some(isOfRoot);
  let name = "root";
  while (Object.hasOwn(asObject($defs) ?? {}, name)) name = `${name}_`;
  const moved = (node: Json): Json => {
    if (typeof node !== "object" || node === null) return node;
    if (isJsonArray(node)) return node.map(moved);
    const entries = Object.entries(node).map(([key, item]): [string, Json] =>
      key === "$ref" && typeof item === "string" && isOfRoot(item)
        ? [key, `#/$defs/${name}${item.slice(1)}`]
        : [key, moved(item)],
    );
    return Object.fromEntries(entries);
  };
  const definedRoot = namesRoot ? { [name]: moved(value) } : {};
  const defs = { ...asObject(moved($defs ?? null)), ...definedRoot };
  return {
    ...(dialect === undefined ? {} : { $schema: dialect }),
    type: "object",
    properties: { [valueField]: namesRoot ? { $ref: `#/$defs/${name}` } : value },
    required: [valueField],
    additionalProperties: false,
    ...(Object.keys(defs).length === 0 ? {} : { $defs: defs }),
    ...(definitions === undefined ? {} : { definitions: moved(definitions) }),
  };
}

/** Keywords of the root that belong to no node. */
const rootKeywords: ReadonlySet<string> = new Set(["$schema", "$defs", "definitions"]);

/** Constraints that are named in the description if they are not sent. */
const constraints = [
  "default",
  "format",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
] as const;

/** Keywords that change which values belong to a schema in a way that no union of closed objects has. */
const refusedKeywords = [
  "allOf",
  "not",
  "if",
  "then",
  "else",
  "patternProperties",
  "propertyNames",
  "dependentRequired",
  "dependentSchemas",
  "dependencies",
  "unevaluatedProperties",
  "unevaluatedItems",
  "prefixItems",
  "additionalItems",
  "contains",
  "minContains",
  "maxContains",
  "$dynamicRef",
  "$recursiveRef",
] as const;

/** The types that a keyword applies to; a keyword that is not listed applies to every type. */
const keywordTypes: { readonly [keyword: string]: readonly string[] } = {
  properties: ["object"],
  required: ["object"],
  additionalProperties: ["object"],
  minProperties: ["object"],
  maxProperties: ["object"],
  items: ["array"],
  minItems: ["array"],
  maxItems: ["array"],
  uniqueItems: ["array"],
  format: ["string"],
  pattern: ["string"],
  minLength: ["string"],
  maxLength: ["string"],
  minimum: ["number", "integer"],
  maximum: ["number", "integer"],
  exclusiveMinimum: ["number", "integer"],
  exclusiveMaximum: ["number", "integer"],
  multipleOf: ["number", "integer"],
};

class SchemaWalk {
  readonly #root: JsonObject;
  readonly #rules: SchemaRules;
  /** Why the schema is inexpressible; `null`: it is not. The first reason is kept. */
  problem: string | null = null;
  #fields = 0;
  #enumValues = 0;
  #characters = 0;

  constructor(root: JsonObject, rules: SchemaRules) {
    this.#root = root;
    this.#rules = rules;
  }

  adaptRoot(): JsonObject {
    const { recursion, limits, keywords, mode } = this.#rules;
    if (mode === "strict" && !recursion && isRecursive(this.#root))
      this.#refuse("", "a definition that refers to itself");
    const adapted = this.#adapt(this.#root, "", 0);
    if (limits !== null) {
      if (this.#fields > limits.fields) this.#refuse("", `${this.#fields} fields; the limit is ${limits.fields}`);
      if (this.#enumValues > limits.enumValues)
        this.#refuse("", `${this.#enumValues} enum values; the limit is ${limits.enumValues}`);
      if (this.#characters > limits.characters)
        this.#refuse("", `${this.#characters} characters of names and values; the limit is ${limits.characters}`);
    }
    const { $schema: dialect } = this.#root;
    return {
      ...(dialect !== undefined && keywords.has("$schema") ? { $schema: dialect } : {}),
      ...adapted,
      ...this.#definitions("$defs"),
      ...this.#definitions("definitions"),
    };
  }

  #definitions(group: "$defs" | "definitions"): JsonObject {
    const definitions = objectAt(this.#root, group);
    if (definitions === null) return {};
    return { [group]: this.#adaptValues(definitions, `/${group}`, 0) };
  }

  #adaptValues(schemas: JsonObject, path: string, level: number): JsonObject {
    const entries = Object.entries(schemas).map(([name, schema]): [string, Json] => {
      this.#characters += name.length;
      return [name, this.#adaptAny(schema, `${path}/${name}`, level)];
    });
    return Object.fromEntries(entries);
  }

  #refuse(path: string, what: string): void {
    if (this.#rules.mode === "strict") this.problem ??= `${path === "" ? "the root" : path} has ${what}`;
  }

  #adaptAny(schema: Json, path: string, level: number): Json {
    const object = asObject(schema);
    if (object !== null) return this.#adapt(object, path, level);
    this.#refuse(path, `the schema ${JSON.stringify(schema)}`);
    return schema;
  }

  #adapt(given: JsonObject, path: string, level: number): JsonObject {
    const schema = withoutSingleAllOf(given);
    const refused = refusedKeywords.find((keyword) => schema[keyword] !== undefined);
    if (refused !== undefined && !this.#rules.keywords.has(refused)) this.#refuse(path, `the keyword ${refused}`);
    const reference = textAt(schema, "$ref");
    if (reference !== null) return this.#adaptReference(schema, reference, path);
    if (schema["anyOf"] !== undefined || schema["oneOf"] !== undefined) return this.#adaptUnion(schema, path, level);
    const types = typesOf(schema);
    if (types === null) {
      this.#refuse(path, "a value of any type");
      return this.#rest(schema, {}, path, level);
    }
    const isUnion = types.length > 1 && types.some((type) => type === "object" || type === "array");
    if (this.#rules.mode === "strict" && (isUnion || types.filter((type) => type !== "null").length > 1))
      return this.#adapt(splitTypes(schema, types), path, level);
    const [type] = types;
    return this.#rest(schema, { type: types.length === 1 && type !== undefined ? type : types }, path, level);
  }

  /** A reference. The APIs refuse other keywords beside it, so they are written around it. */
  #adaptReference(schema: JsonObject, reference: string, path: string): JsonObject {
    if (definitionAt(this.#root, reference) === null) this.#refuse(path, `the reference ${reference}`);
    const around = this.#annotations(schema);
    const { $ref: _, ...siblings } = schema;
    const structural = Object.keys(siblings).find((key) => structuralKeywords.has(key));
    if (structural !== undefined) this.#refuse(path, `${structural} beside $ref`);
    return Object.keys(around).length === 0 ? { $ref: reference } : { anyOf: [{ $ref: reference }], ...around };
  }

  #adaptUnion(schema: JsonObject, path: string, level: number): JsonObject {
    const name = schema["anyOf"] === undefined ? "oneOf" : "anyOf";
    const structural = Object.keys(schema).find((key) => key !== name && structuralKeywords.has(key));
    if (structural !== undefined) {
      this.#refuse(path, `${structural} beside ${name}`);
      return schema;
    }
    const options = listAt(schema, name);
    if (options.length === 0) this.#refuse(path, `${name} without branches`);
    const anyOf = options.map((option, index) => this.#adaptAny(option, `${path}/${name}/${index}`, level));
    return { anyOf, ...this.#annotations(schema) };
  }

  /** A node without reference and union: `type`, literals, fields or items, and constraints. */
  #rest(schema: JsonObject, type: JsonObject, path: string, level: number): JsonObject {
    const types = [type["type"] ?? []].flat();
    return {
      ...type,
      ...this.#literals(schema, path),
      ...(types.includes("object") ? this.#object(schema, path, level + 1) : {}),
      ...(types.includes("array") ? this.#array(schema, path, level) : {}),
      ...this.#kept(schema, path, level),
      ...this.#annotations(schema),
    };
  }

  #literals(schema: JsonObject, path: string): JsonObject {
    const { const: literal } = schema;
    const values = literalsOf(schema);
    if (values === null) return {};
    if (values.length === 0) this.#refuse(path, "an empty enum");
    if (values.some((value) => typeof value === "object" && value !== null))
      this.#refuse(path, "an enum of objects or lists");
    for (const value of values) if (typeof value === "string") this.#characters += value.length;
    if (literal === undefined) this.#enumValues += values.length;
    const isEnumValue = typeof literal === "string" || typeof literal === "number";
    if (literal !== undefined) return this.#rules.const || !isEnumValue ? { const: literal } : { enum: [literal] };
    return { enum: values };
  }

  #object(schema: JsonObject, path: string, level: number): JsonObject {
    const { optionalFields, mode, limits } = this.#rules;
    const { additionalProperties } = schema;
    const properties = objectAt(schema, "properties");
    const required = listAt(schema, "required");
    const isOpen = additionalProperties !== undefined && additionalProperties !== false;
    if (isOpen) this.#refuse(path, "fields of any name (additionalProperties)");
    else if (properties === null && additionalProperties === undefined)
      this.#refuse(path, "an object without properties");
    if (limits !== null && level > limits.levels) this.#refuse(path, `more than ${limits.levels} levels of objects`);
    const fields = properties ?? {};
    const names = Object.keys(fields);
    this.#fields += names.length;
    const unknown = required.find((name) => typeof name !== "string" || !Object.hasOwn(fields, name));
    if (unknown !== undefined) this.#refuse(path, `the required field ${JSON.stringify(unknown)} without a schema`);
    const adapted = Object.entries(this.#adaptValues(fields, `${path}/properties`, level));
    const isNullable = (name: string) => optionalFields === "nullable" && !required.includes(name);
    const written = adapted.map(([name, field]): [string, Json] => [
      name,
      isNullable(name) ? this.#nullable(fields[name], field) : field,
    ]);
    if (mode === "lenient") {
      const additional = asObject(additionalProperties);
      return {
        ...(properties === null ? {} : { properties: Object.fromEntries(written) }),
        ...(schema["required"] === undefined ? {} : { required }),
        ...(additionalProperties === undefined
          ? {}
          : {
              additionalProperties:
                additional === null
                  ? additionalProperties
                  : this.#adapt(additional, `${path}/additionalProperties`, level),
            }),
      };
    }
    return {
      properties: Object.fromEntries(written),
      ...(optionalFields === "nullable"
        ? { required: [...required, ...names.filter((name) => !required.includes(name))] }
        : schema["required"] === undefined
          ? {}
          : { required }),
      additionalProperties: false,
    };
  }

  /** The schema of an optional field, which also accepts `null`. */
  #nullable(original: Json | undefined, adapted: Json): Json {
    const [schema, field] = [asObject(original), asObject(adapted)];
    if (schema === null || field === null || acceptsNull(this.#root, schema)) return adapted;
    const { type, enum: literals, anyOf, const: literal } = field;
    if (anyOf !== undefined && isJsonArray(anyOf)) return { ...field, anyOf: [...anyOf, { type: "null" }] };
    if (typeof type === "string" && type !== "object" && type !== "array" && literal === undefined) {
      const withNull = literals !== undefined && isJsonArray(literals) ? { enum: [...literals, null] } : {};
      return { ...field, type: [type, "null"], ...withNull };
    }
    const { description, ...inner } = field;
    return { anyOf: [inner, { type: "null" }], ...(description === undefined ? {} : { description }) };
  }

  #array(schema: JsonObject, path: string, level: number): JsonObject {
    const { items } = schema;
    if (items === undefined) {
      this.#refuse(path, "a list without items");
      return {};
    }
    return { items: this.#adaptAny(items, `${path}/items`, level) };
  }

  /** The constraints that are sent. In lenient mode also constructs that have no other form. */
  #kept(schema: JsonObject, path: string, level: number): JsonObject {
    const entries = Object.entries(schema).flatMap(([key, value]): [string, Json][] => {
      if (rootKeywords.has(key)) return [];
      if (key === "prefixItems" && this.#rules.keywords.has(key) && isJsonArray(value))
        return [[key, value.map((item, index) => this.#adaptAny(item, `${path}/${key}/${index}`, level))]];
      if (this.#isKept(key, value)) return [[key, value]];
      const isSentAnyway = this.#rules.mode === "lenient" && refusedKeywords.some((keyword) => keyword === key);
      return isSentAnyway ? [[key, value]] : [];
    });
    return Object.fromEntries(entries);
  }

  #isKept(key: string, value: Json | undefined): boolean {
    const { keywords, formats, maxMinItems, refusedPattern } = this.#rules;
    if (value === undefined || !keywords.has(key)) return false;
    if (key === "format") return formats === null || (typeof value === "string" && formats.has(value));
    if (key === "pattern") return typeof value === "string" && refusedPattern?.test(value) !== true;
    return key !== "minItems" || (typeof value === "number" && value <= maxMinItems);
  }

  /** Title and description, which also names the constraints that are not sent. */
  #annotations(schema: JsonObject): JsonObject {
    const { title, description } = schema;
    const moved = constraints.flatMap((key) => {
      const value = schema[key];
      return value === undefined || this.#isKept(key, value) || isIntegerRange(schema, key)
        ? []
        : [`${key} ${JSON.stringify(value)}`];
    });
    const texts = [
      ...(typeof description === "string" && description !== "" ? [description] : []),
      ...(moved.length === 0 ? [] : [`Constraints: ${moved.join(", ")}.`]),
    ];
    return {
      ...(title === undefined ? {} : { title }),
      ...(texts.length === 0 ? {} : { description: texts.join("\n\n") }),
    };
  }
}

/** Keywords that decide the type or the parts of a value. */
const structuralKeywords: ReadonlySet<string> = new Set([
  "type",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "anyOf",
  "oneOf",
  "enum",
  "const",
  "$ref",
]);

/** The bounds of safe integers, which schema libraries write for every integer. They tell the model nothing. */
function isIntegerRange(schema: JsonObject, key: string): boolean {
  return (
    (key === "minimum" && schema[key] === Number.MIN_SAFE_INTEGER) ||
    (key === "maximum" && schema[key] === Number.MAX_SAFE_INTEGER)
  );
}

/** A node with several types as a union of nodes with one type. */
function splitTypes(schema: JsonObject, types: readonly string[]): JsonObject {
  const anyOf = types.map((type): JsonObject => {
    const entries = Object.entries(schema).flatMap(([key, value]): [string, Json][] => {
      if (key === "type" || key === "default" || annotations.has(key) || rootKeywords.has(key)) return [];
      if (key === "enum" && isJsonArray(value)) return [[key, value.filter((item) => isOfType(item, type))]];
      const types = Object.hasOwn(keywordTypes, key) ? keywordTypes[key] : undefined;
      return (types?.includes(type) ?? true) ? [[key, value]] : [];
    });
    return { type, ...Object.fromEntries(entries) };
  });
  const around = Object.entries(schema).filter(([key]) => key === "default" || annotations.has(key));
  const possible = anyOf.filter((branch) => {
    const { const: literal, enum: literals, type } = branch;
    if (literal !== undefined) return typeof type === "string" && isOfType(literal, type);
    return literals === undefined || !isJsonArray(literals) || literals.length > 0;
  });
  return { anyOf: possible, ...Object.fromEntries(around) };
}

function isOfType(value: Json, type: string): boolean {
  return typeOf(value) === type || (type === "integer" && Number.isInteger(value));
}

/** Does a definition refer to itself, directly or through others? `#` is the root. */
function isRecursive(root: JsonObject): boolean {
  const done = new Set<JsonObject>();
  const open = new Set<JsonObject>();
  const visit = (definition: JsonObject): boolean => {
    if (open.has(definition)) return true;
    if (done.has(definition)) return false;
    open.add(definition);
    const found = referencesOf(definition, definition === root).some((reference) => {
      const target = definitionAt(root, reference);
      return target !== null && visit(target);
    });
    open.delete(definition);
    done.add(definition);
    return found;
  };
  return visit(root);
}

/** All references inside of a schema. `isRoot`: definitions are not part of it. */
function referencesOf(schema: JsonObject, isRoot: boolean): readonly string[] {
  const references: string[] = [];
  const nodes: Json[] = Object.entries(schema).flatMap(([key, value]) =>
    isRoot && rootKeywords.has(key) ? [] : [value],
  );
  if (typeof schema["$ref"] === "string") references.push(schema["$ref"]);
  for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
    if (typeof node !== "object" || node === null) continue;
    const reference = isJsonArray(node) ? null : textAt(node, "$ref");
    if (reference !== null) references.push(reference);
    nodes.push(...Object.values(node));
  }
  return references;
}
