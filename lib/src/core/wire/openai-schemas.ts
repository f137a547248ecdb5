// Schemas of structured output and of functions in requests to OpenAI, for both of its APIs. Strict mode accepts a
// subset of JSON Schema: `schema-rules.ts`.

import type { JsonObject, ResponseFormat, ToolSpec } from "../model/internal.ts";
import type { Omission } from "./codec.ts";

import { unsupported } from "./omission.ts";
import { objectParameters } from "./parameters-root.ts";
import { adaptSchema } from "./schema-adaptation.ts";
import { openaiStrict } from "./schema-rules.ts";

/**
 * A schema as it is sent. `strict`: the value of the field beside it. `addedNulls`: where fields were made nullable;
 * `null`: nowhere.
 */
export type SentSchema = {
  readonly schema: JsonObject;
  readonly strict: boolean;
  readonly addedNulls: JsonObject | null;
  readonly omissions: readonly Omission[];
};

/** The schema of a structured output. `takesStrict`: the server takes the field `strict`. */
export function formatSchema(
  { schema, strict }: Extract<ResponseFormat, { readonly type: "json_schema" }>,
  takesStrict: boolean,
): SentSchema {
  return strict && takesStrict
    ? strictSchema(schema, "responseFormat")
    : { schema, strict, addedNulls: null, omissions: [] };
}

/**
 * The schema of the parameters of a function. The API refuses an object without `properties`, so a function without
 * parameters has an empty object, and a root that is no object, or that has a union (`parameters-root.ts`). `strict`
 * comes from the provider options or from the metadata of the tool. Provider options with a schema replace the tool's
 * own.
 */
export function parametersSchema(
  { schema: given, metadata }: ToolSpec,
  index: number,
  options: JsonObject | null,
  takesStrict: boolean,
): SentSchema {
  const schema = objectParameters(given);
  const isBare = !describedBy.some((keyword) => schema[keyword] !== undefined);
  const parameters = isBare ? { type: "object", ...schema, properties: {} } : schema;
  const strict =
    options?.["strict"] === undefined ? takesStrict && metadata["strict"] === true : options["strict"] === true;
  if (!strict || options?.["parameters"] !== undefined)
    return { schema: parameters, strict, addedNulls: null, omissions: [] };
  const isOpen = schema["additionalProperties"] !== undefined;
  return strictSchema(
    isBare && !isOpen ? { ...parameters, additionalProperties: false } : parameters,
    `tools[${index}]`,
  );
}

/** Keywords that describe the parameters of a function. */
const describedBy = ["properties", "$ref", "anyOf", "oneOf", "allOf"];

/** The schema for strict mode, or the schema without it and a warning. */
function strictSchema(schema: JsonObject, path: string): SentSchema {
  const adapted = adaptSchema(schema, openaiStrict);
  const { schema: sent, addedNulls } = adapted;
  if (adapted.type === "adapted") return { schema: sent, strict: true, addedNulls, omissions: [] };
  const why = `strict mode has no form of the schema, which is sent without it: ${adapted.why}`;
  return { schema: sent, strict: false, addedNulls, omissions: [unsupported(`${path}.strict`, why)] };
}
