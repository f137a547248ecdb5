// The options that an HTTP caller may set for the turn it starts. An API key of this server does not entitle its holder
// to raise costs, change the prompt or use processing time, so those options are an allowlist of the operator
// (`allow`). core/engine/run-options.ts and `verbOptionTable` declare which options can be allowed; `fields` describes
// each of them for reading and for the OpenAPI document, and the compiler demands a field for each.
//
// Invariants
//   1. An option that is not allowed is rejected by name with 400, and never ignored.
//   2. The OpenAPI document lists exactly the options that this handler accepts.

import type { JsonSchema, OptionsWith } from "../../../core/engine/internal.ts";
import type {
  Budgets,
  JsonObject,
  ResponseFormat,
  ToolChoice,
  WaitPolicy,
  Waits,
} from "../../../core/model/internal.ts";
import type { VerbOptionsWith } from "../../../durable/internal.ts";
import type { BodyFields, BodySchema, TurnOptions } from "../../contract/internal.ts";

import { MisuseError, toolModes } from "../../../core/model/internal.ts";
import { isPlainObject, responseFormatShape, toolChoiceShape } from "../../../core/model/parse/reading.ts";
import { verbOptionTable } from "../../../durable/internal.ts";
import {
  objectSchema,
  booleanSchema,
  arraySchema,
  optionalField,
  requiredField,
  numberSchema,
  stringSchema,
  countSchema,
  enumSchema,
} from "../../contract/internal.ts";
import { callerSchemaShape, validatedSchema } from "../caller-schema.ts";

/** Options that every caller may set. */
type FreeOption = VerbOptionsWith<{ readonly http: "always" }>;

/** A turn option that callers may use only if the operator allows it. */
export type AllowedOption = OptionsWith<{ readonly http: "if_allowed" }>;

const freeOptions: readonly string[] = Object.entries(verbOptionTable).flatMap(([name, { http }]) =>
  http === "always" ? [name] : [],
);

const waitPolicy: BodySchema<WaitPolicy> = objectSchema<WaitPolicy>({
  afterMs: requiredField(numberSchema),
  onTimeout: optionalField(enumSchema(["error_as_result", "fail_turn"])),
});

const waits: BodySchema<Waits> = objectSchema<Waits>({
  manual: optionalField(waitPolicy),
  approval: optionalField(waitPolicy),
  question: optionalField(waitPolicy),
  outcome_unknown: optionalField(waitPolicy),
});

const budgets: BodySchema<Budgets> = objectSchema<Budgets>({
  steps: optionalField(countSchema),
  tokens: optionalField(countSchema),
  cost: optionalField(numberSchema),
  timeMs: optionalField(countSchema),
  noProgress: optionalField(countSchema),
});

const schema: BodySchema<JsonSchema> = validatedSchema;
const format: BodySchema<ResponseFormat> = {
  shape: (input, reading) => {
    const given = isPlainObject(input) ? input["schema"] : undefined;
    if (given !== undefined) reading.at("schema", callerSchemaShape, given);
    return responseFormatShape(input, reading);
  },
  schema: { type: "object" },
};
/** Each correction is another model call, and budgets are checked only after the last one. */
const corrections: BodySchema<number> = {
  shape: (input, reading) => {
    const value = countSchema.shape(input, reading);
    return typeof value === "number" && value > 10 ? reading.report("out_of_range", "must be at most 10") : value;
  },
  schema: { type: "integer", minimum: 0, maximum: 10 },
};
const choice: BodySchema<ToolChoice> = {
  shape: toolChoiceShape,
  schema: { oneOf: [{ type: "string", enum: ["auto", "none", "required"] }, { type: "object" }] },
};

/** The compiler demands a field for each option of the tables, and for no other. */
const fields: { readonly [Name in FreeOption | AllowedOption]: BodyFields<TurnOptions>[Name] } = {
  engine: optionalField(stringSchema, "The name of an engine of this server."),
  version: optionalField(countSchema, "Rejects the request with 409 unless the session has this version."),
  waits: optionalField(waits, "How long calls may stay pending, in milliseconds by reason."),
  model: optionalField(stringSchema, "The model, as `provider:model`."),
  instructions: optionalField(stringSchema),
  output: optionalField(schema, "A JSON Schema that the answer must conform to."),
  responseFormat: optionalField(format),
  repair: optionalField(corrections, "How often the model may correct an answer that does not conform to `output`."),
  toolChoice: optionalField(choice),
  activeTools: optionalField(
    arraySchema(stringSchema),
    "The names of the tools of the engine that the turn has. Default: all.",
  ),
  parallelToolCalls: optionalField(booleanSchema),
  temperature: optionalField(numberSchema),
  topP: optionalField(numberSchema),
  maxTokens: optionalField(countSchema),
  stopSequences: optionalField(arraySchema(stringSchema)),
  seed: optionalField(countSchema),
  mode: optionalField(enumSchema(toolModes)),
  maxTurns: optionalField(countSchema),
  budgets: optionalField(budgets),
};

/**
 * The schema of the options that a handler accepts: those that need no permission, and those in `allow`. Throws
 * `MisuseError` for an unknown name.
 */
export function turnOptions(allowed: readonly AllowedOption[]): BodySchema<TurnOptions> {
  const optionNames = Object.keys(fields);
  for (const name of allowed) {
    if (optionNames.includes(name)) continue;
    throw new MisuseError(
      "invalid_argument",
      `allow: unknown option ${name}; the options are ${optionNames.join(", ")}`,
      {
        path: ["allow"],
      },
    );
  }
  const allowedNames: ReadonlySet<string> = new Set([...freeOptions, ...allowed]);
  const allOptions = objectSchema<TurnOptions>(fields);
  const properties: JsonObject = Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => (allowedNames.has(name) ? [[name, field.schema]] : [])),
  );
  return {
    shape: (input, reading) => {
      const rejectedKeys = isPlainObject(input) ? Object.keys(input).filter((key) => !allowedNames.has(key)) : [];
      for (const key of rejectedKeys) {
        const why = optionNames.includes(key) ? "not allowed on this server" : "unknown field";
        reading.at(
          key,
          (_, here) => here.report("unknown_field", `${why}; allowed are ${[...allowedNames].join(", ")}`),
          null,
        );
      }
      return rejectedKeys.length > 0
        ? reading.report("unknown_field", "contains options that are not allowed")
        : allOptions.shape(input, reading);
    },
    schema: { type: "object", properties, additionalProperties: false },
  };
}
