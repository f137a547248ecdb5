// Merges what the caller sets in the words of a provider's API into what a codec writes: provider options of messages,
// parts, tools and calls, and the options of the request.
//
// Invariants
//   1. The caller wins, leaf by leaf: a field of the caller never removes a field beside it. So
//      `output_config: { effort: "low" }` keeps the JSON Schema that the codec wrote into `output_config.format`.
//   2. Objects with different values of `type` are alternatives of a union (`{ type: "json_object" }`,
//      `{ type: "json_schema", … }`): the caller's replaces the other. JSON Schemas and lists are leaves: a merge of
//      two schemas is neither of them.
//   3. Options of other providers are not read.

import type { Json, JsonObject, ModelRequest, ProviderRoute } from "../model/internal.ts";

import { asObject } from "./fields.ts";

/** A value that may have provider options. */
type WithOptions = { readonly providerOptions?: { readonly [provider: string]: JsonObject } };

/** The options of a value for the provider of the route; `null` if it has none. */
export function optionsFor({ providerOptions }: WithOptions, { provider }: ProviderRoute): JsonObject | null {
  if (providerOptions === undefined || !Object.hasOwn(providerOptions, provider)) return null;
  const options = providerOptions[provider];
  return options === undefined || Object.keys(options).length === 0 ? null : options;
}

/**
 * Merges options into the JSON object that a value becomes. Options with another `type` than the object are the whole
 * object: they replace it, so that a text part can be a block that only one provider has.
 */
export function withOptions(encoded: JsonObject, options: JsonObject | null): JsonObject {
  if (options === null) return encoded;
  return isAlternative(encoded, options) ? options : { ...encoded, ...options };
}

/** The fields that the caller sets in the request body: provider options of the request, then `options`, which win. */
export function callerFields(request: ModelRequest, route: ProviderRoute): JsonObject {
  return mergeFields(optionsFor(request, route) ?? {}, request.options);
}

/**
 * Merges the fields of the caller into those of the codec (invariants 1 and 2). Recursion is bounded by the depth of
 * storable JSON.
 */
export function mergeFields(encoded: JsonObject, caller: JsonObject): JsonObject {
  const merged = new Map<string, Json>(Object.entries(encoded));
  for (const [key, value] of Object.entries(caller)) {
    const encodedObject = schemaKeys.has(key) ? null : asObject(encoded[key]);
    const callerObject = asObject(value);
    const mergesDeep = encodedObject !== null && callerObject !== null && !isAlternative(encodedObject, callerObject);
    merged.set(key, mergesDeep ? mergeFields(encodedObject, callerObject) : value);
  }
  return Object.fromEntries(merged);
}

/** Fields that hold a JSON Schema. */
const schemaKeys: ReadonlySet<string> = new Set([
  "schema",
  "input_schema",
  "parameters",
  "parametersJsonSchema",
  "responseSchema",
  "responseJsonSchema",
]);

function isAlternative(encoded: JsonObject, caller: JsonObject): boolean {
  const { type } = caller;
  return typeof type === "string" && encoded["type"] !== undefined && encoded["type"] !== type;
}
