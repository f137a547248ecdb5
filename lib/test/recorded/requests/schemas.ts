// Harmless differences of schemas. Recorded requests have schemas that are looser than the documented rules of strict
// mode, or have keywords that the API ignores; the library writes them in the documented form
// (`lib/src/core/wire/schema-rules.ts`). `schema-adaptation.test.ts` checks that form by rules of its own.

import type { SchemaRules } from "../../../src/core/wire/schema-rules.ts";
import type { JsonObject } from "everturn";

import { adaptSchema } from "../../../src/core/wire/schema-adaptation.ts";
import { isEmpty, isObject, listOf, objectOf, without } from "./json.ts";

/** An object with a field `strict` and a schema, in the documented form. Without `strict: true` it stays. */
export function documentedSchema(object: JsonObject, name: string, rules: SchemaRules): JsonObject {
  const schema = object[name];
  if (object["strict"] !== true || !isObject(schema)) return object;
  const adapted = adaptSchema(schema, rules);
  return adapted.type === "adapted" ? { ...object, [name]: adapted.schema } : { ...object, strict: false };
}

/** The declaration of a function without the schema of no parameters, which SDKs write in several ways. */
export function withoutEmptyParameters(declaration: JsonObject): JsonObject {
  const { properties, required, additionalProperties, ...others } = objectOf(declaration["parameters"]);
  const isEmptyObject =
    isEmpty(objectOf(properties)) &&
    listOf(required).length === 0 &&
    (additionalProperties === undefined || additionalProperties === false) &&
    isEmpty(without(others, "type", "$schema"));
  return isEmptyObject ? without(declaration, "parameters") : declaration;
}
