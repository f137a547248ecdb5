// Where an adapted schema made an optional field nullable, and how such a `null` is removed from a value.
//
// Theory of operation
//   Strict mode of OpenAI has no optional fields: `schema-adaptation.ts` sends an optional field as a required field
//   that may also be `null`. A `null` that the model writes there stands for an absent field and is removed before the
//   value is validated by the schema of the program. The text of the reply keeps it. The places are described by the
//   original schema, reduced to the keywords that decide where a value belongs (`addedNullsOf`). A field was made
//   nullable if it is not in `required` and its schema does not accept `null`. The reduced schema is plain JSON:
//   `message_started` carries it to readers of partial values. A root that is no object is sent as a field of an
//   object. The keyword `root` of the reduced schema names that field: the value of the program is the value of the
//   field. A model that does not write the object (without strict mode) has written the value itself.
//
// Invariants
//   1. A `null` that the original schema accepts is never removed.
//   2. In a union, the first branch decides that matches the value as strict mode writes it: every field is there, an
//      optional one may be `null`. If none does, the first branch that the value does not contradict.
//   3. The work is bounded by the number of schema nodes times the number of values: matches are computed once for each
//      pair.

import type { Json, JsonObject, ModelEvent, ToolCall } from "../model/internal.ts";
import type { AddedNulls } from "./codec.ts";

import { isJsonArray, messageText, parseJson } from "../model/internal.ts";
import { asObject, listAt, objectAt, textAt } from "./fields.ts";
import { definitionAt, literalsOf, typesOf, withoutSingleAllOf } from "./schema-nodes.ts";

/** The field `addedNulls` of an encoded request; no field if no schema has added nulls. */
export function addedNullsField(
  output: JsonObject | null,
  tools: readonly (readonly [name: string, addedNulls: JsonObject | null])[],
): { readonly addedNulls?: AddedNulls } {
  const ofTools = tools.flatMap(([name, addedNulls]) => (addedNulls === null ? [] : [[name, addedNulls] as const]));
  return output === null && ofTools.length === 0 ? {} : { addedNulls: { output, tools: new Map(ofTools) } };
}

const keptKeywords: ReadonlySet<string> = new Set(["type", "required", "enum", "const", "$ref"]);

/**
 * The reduced schema if strict mode makes a field of it nullable, or if the value is in the field `root` of it;
 * otherwise `null`.
 */
export function addedNullsOf(schema: JsonObject, root: string | null = null): JsonObject | null {
  const reduced = reducedSchema(schema);
  if (root !== null) return { ...reduced, root };
  const nodes: JsonObject[] = [reduced];
  for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
    const current = node;
    const names = Object.keys(objectAt(current, "properties") ?? {});
    if (names.some((name) => isAddedNull(reduced, current, name))) return reduced;
    nodes.push(...childSchemas(current));
  }
  return null;
}

function reducedSchema(given: JsonObject): JsonObject {
  const schema = withoutSingleAllOf(given);
  const entries = Object.entries(schema).flatMap(([key, value]): [string, Json][] => {
    if (keptKeywords.has(key)) return [[key, value]];
    if (key === "properties" || key === "$defs" || key === "definitions") {
      const fields = Object.entries(asObject(value) ?? {}).map(([name, item]): [string, Json] => [
        name,
        reducedSchema(asObject(item) ?? {}),
      ]);
      return [[key, Object.fromEntries(fields)]];
    }
    if (key === "items") return [[key, reducedSchema(asObject(value) ?? {})]];
    if (key !== "anyOf" && key !== "oneOf") return [];
    return [["anyOf", listAt(schema, key).map((item) => reducedSchema(asObject(item) ?? {}))]];
  });
  return Object.fromEntries(entries);
}

/** The value in a list if it is an object, otherwise an empty list. */
function objectsOf(value: Json | undefined): readonly JsonObject[] {
  const object = asObject(value);
  return object === null ? [] : [object];
}

function childSchemas(node: JsonObject): readonly JsonObject[] {
  const groups = ["properties", "$defs", "definitions"].flatMap((key) => Object.values(objectAt(node, key) ?? {}));
  const items = node["items"];
  return [...groups, ...listAt(node, "anyOf"), ...(items === undefined ? [] : [items])].flatMap(objectsOf);
}

/** The schema without references and unions: its branches in order, each an object without `$ref` and `anyOf`. */
function branchesOf(root: JsonObject, schema: JsonObject): readonly JsonObject[] {
  const branches: JsonObject[] = [];
  const seen = new Set<JsonObject>();
  const pending = [schema];
  for (let node = pending.shift(); node !== undefined; node = pending.shift()) {
    if (seen.has(node)) continue;
    seen.add(node);
    const reference = textAt(node, "$ref");
    const options = [...listAt(node, "anyOf"), ...listAt(node, "oneOf")];
    const definition = reference === null ? null : definitionAt(root, reference);
    if (definition !== null) pending.unshift(definition);
    else if (options.length > 0) pending.unshift(...options.flatMap(objectsOf));
    else branches.push(node);
  }
  return branches;
}

/** Does a schema accept `null`? */
export function acceptsNull(root: JsonObject, schema: JsonObject): boolean {
  return branchesOf(root, schema).some(
    (branch) => hasType(branch, "null") && (literalsOf(branch)?.includes(null) ?? true),
  );
}

function hasType(branch: JsonObject, type: string): boolean {
  return typesOf(branch)?.includes(type) ?? true;
}

/** Did the adaptation make this field nullable? */
function isAddedNull(root: JsonObject, object: JsonObject, name: string): boolean {
  const properties = objectAt(object, "properties");
  if (properties === null || !Object.hasOwn(properties, name)) return false;
  const property = asObject(properties[name]);
  return property !== null && !listAt(object, "required").includes(name) && !acceptsNull(root, property);
}

/**
 * The value without the `null`s, and without the object around it, that the adaptation made possible. `addedNulls` is
 * the result of {@link addedNullsOf}.
 */
export function removeAddedNulls(addedNulls: JsonObject, value: Json): Json {
  const restored = new NullRemoval(addedNulls).remove(addedNulls, value);
  const inField = valueInField(addedNulls, restored);
  return inField === undefined ? restored : inField;
}

/**
 * The value of the field that `root` of a reduced schema names. `undefined`: the schema has no `root`, or the value is
 * no object with only that field.
 */
export function valueInField(addedNulls: JsonObject, value: Json): Json | undefined {
  const root = textAt(addedNulls, "root");
  const fields = root === null ? null : asObject(value);
  if (root === null || fields === null) return undefined;
  return Object.keys(fields).length === 1 && Object.hasOwn(fields, root) ? fields[root] : undefined;
}

/**
 * The events of a reply without added `null`s: in the arguments of calls, and in the structured output, which is set
 * here for that. `message_started` says where they are, for readers of the text. `rawArguments` and texts stay as the
 * model wrote them.
 */
export function restoreEvents(events: readonly ModelEvent[], { output, tools }: AddedNulls): readonly ModelEvent[] {
  return events.map((event) => {
    switch (event.type) {
      case "message_started":
        return output === null ? event : { ...event, addedNulls: output };
      case "tool_call_completed":
        return event.providerExecuted ? event : restoreCall(event, tools);
      case "message_completed": {
        const message = {
          ...event.message,
          toolCalls: event.message.toolCalls.map((call) => restoreCall(call, tools)),
        };
        const isAnswer = output !== null && event.finishReason === "stop" && event.output === null;
        const answer = isAnswer ? parseJson(messageText(message)) : null;
        return output === null || answer === null
          ? { ...event, message }
          : { ...event, message, output: { value: removeAddedNulls(output, answer.value) } };
      }
      default:
        return event;
    }
  });
}

function restoreCall<Call extends Pick<ToolCall, "name" | "arguments">>(
  call: Call,
  tools: ReadonlyMap<string, JsonObject>,
): Call {
  const addedNulls = tools.get(call.name);
  if (addedNulls === undefined || call.arguments === null) return call;
  const restored = asObject(removeAddedNulls(addedNulls, call.arguments));
  return restored === null ? call : { ...call, arguments: restored };
}

class NullRemoval {
  readonly #root: JsonObject;
  /**
   * Matches by schema and value; `false` while a match is computed, because a reference that leads to itself matches
   * nothing.
   */
  readonly #matches = {
    complete: new Map<JsonObject, Map<Json, boolean>>(),
    open: new Map<JsonObject, Map<Json, boolean>>(),
  };

  constructor(root: JsonObject) {
    this.#root = root;
  }

  remove(schema: JsonObject, value: Json): Json {
    if (typeof value !== "object" || value === null) return value;
    const branches = branchesOf(this.#root, schema);
    const branch =
      branches.length === 1
        ? branches[0]
        : (branches.find((candidate) => this.#fits(candidate, value, "complete")) ??
          branches.find((candidate) => this.#fits(candidate, value, "open")));
    if (branch === undefined) return value;
    if (isJsonArray(value)) {
      const items = objectAt(branch, "items");
      return items === null ? value : value.map((item) => this.remove(items, item));
    }
    const properties = objectAt(branch, "properties") ?? {};
    const entries = Object.entries(value).flatMap(([name, field]): [string, Json][] => {
      if (field === null && isAddedNull(this.#root, branch, name)) return [];
      const property = Object.hasOwn(properties, name) ? asObject(properties[name]) : null;
      return [[name, property === null ? field : this.remove(property, field)]];
    });
    return Object.fromEntries(entries);
  }

  #matchesAny(schema: JsonObject, value: Json, mode: "complete" | "open"): boolean {
    const known = this.#matches[mode].get(schema) ?? new Map<Json, boolean>();
    this.#matches[mode].set(schema, known);
    const match = known.get(value);
    if (match !== undefined) return match;
    known.set(value, false);
    const result = branchesOf(this.#root, schema).some((branch) => this.#fits(branch, value, mode));
    known.set(value, result);
    return result;
  }

  /** Does a value fit a branch, as strict mode writes it? `open`: fields may be missing. */
  #fits(branch: JsonObject, value: Json, mode: "complete" | "open"): boolean {
    const literals = literalsOf(branch);
    if (literals !== null) return literals.includes(value);
    if (!typeNamesOf(value).some((type) => hasType(branch, type))) return false;
    if (typeof value !== "object" || value === null) return true;
    if (isJsonArray(value)) {
      const items = objectAt(branch, "items");
      return items === null || value.every((item) => this.#matchesAny(items, item, mode));
    }
    const properties = objectAt(branch, "properties") ?? {};
    if (mode === "complete" && !Object.keys(properties).every((name) => Object.hasOwn(value, name))) return false;
    return Object.entries(value).every(([name, field]) => {
      const property = Object.hasOwn(properties, name) ? asObject(properties[name]) : null;
      if (property === null) return false;
      return (field === null && isAddedNull(this.#root, branch, name)) || this.#matchesAny(property, field, mode);
    });
  }
}

function typeNamesOf(value: Json): readonly string[] {
  if (value === null) return ["null"];
  if (typeof value === "number") return Number.isInteger(value) ? ["integer", "number"] : ["number"];
  if (typeof value === "object") return [isJsonArray(value) ? "array" : "object"];
  return [typeof value];
}

/** Finds added `null`s while a value is being received: the branches that the value at one place may belong to. */
export class PartialBranches {
  readonly #root: JsonObject;
  readonly #branches: readonly JsonObject[];

  private constructor(root: JsonObject, branches: readonly JsonObject[]) {
    this.#root = root;
    this.#branches = branches;
  }

  /** The branches of the whole value. */
  static of(addedNulls: JsonObject): PartialBranches {
    return new PartialBranches(addedNulls, branchesOf(addedNulls, addedNulls));
  }

  /** The branches of an item, or of the field `name`. `fields`: what was received of the object. */
  child(name: string | null, fields: JsonObject): PartialBranches {
    const schemas = this.#candidates(fields).flatMap((branch) => {
      const properties = objectAt(branch, "properties") ?? {};
      if (name === null) return objectsOf(branch["items"]);
      return Object.hasOwn(properties, name) ? objectsOf(properties[name]) : [];
    });
    return new PartialBranches(
      this.#root,
      schemas.flatMap((schema) => branchesOf(this.#root, schema)),
    );
  }

  /**
   * Is `null` in this field an added one? The first branch decides that has the field and that no literal received so
   * far contradicts.
   */
  isAddedNull(name: string, fields: JsonObject): boolean {
    const branch = this.#candidates(fields).find((candidate) =>
      Object.hasOwn(objectAt(candidate, "properties") ?? {}, name),
    );
    return branch !== undefined && isAddedNull(this.#root, branch, name);
  }

  #candidates(fields: JsonObject): readonly JsonObject[] {
    if (this.#branches.length < 2) return this.#branches;
    return this.#branches.filter((branch) =>
      Object.entries(objectAt(branch, "properties") ?? {}).every(([name, property]) => {
        const literals = literalsOf(asObject(property) ?? {});
        return literals === null || !Object.hasOwn(fields, name) || literals.includes(fields[name] ?? null);
      }),
    );
  }
}
