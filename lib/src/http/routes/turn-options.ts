// The options that an HTTP caller may set for the turn it starts. An API key of this server does not entitle its holder to raise costs, change the
// prompt or use processing time: the operator allows those options by name. engine/run-options.ts and `verbOptionTable` declare which options
// can be allowed; `fields` describes each of them for reading and for the OpenAPI document, and the compiler demands a field for each.

import type { Budgets, JsonSchema, OptionsWith } from "../../engine/internal.ts";
import type { JsonObject, ResponseFormat, ToolChoice } from "../../model/internal.ts";
import type { DurableOptions, VerbOptionsWith, WaitPolicy, Waits } from "../../runtime/internal.ts";
import type { Described, DescribedFields } from "../openapi/described.ts";

import { MisuseError, toolModes } from "../../model/internal.ts";
import { isPlainObject, responseFormatShape, toolChoiceShape } from "../../model/parse/reading.ts";
import { verbOptionTable } from "../../runtime/internal.ts";
import { about, data, fieldsOf, flag, many, maybe, needed, real, text, whole, wordOf } from "../openapi/described.ts";

/** Options that need no permission. */
type FreeOption = VerbOptionsWith<{ readonly http: "always" }>;

/** A turn option that callers may use only if the operator allows it. */
export type AllowedOption = OptionsWith<{ readonly http: "if_allowed" }>;

/** The options of a turn that an HTTP caller can set. */
export type TurnOptions = Pick<DurableOptions, FreeOption | AllowedOption>;

const freeOptions: readonly string[] = Object.entries(verbOptionTable).flatMap(([name, { http }]) =>
  http === "always" ? [name] : [],
);

const policy: Described<WaitPolicy> = fieldsOf<WaitPolicy>({
  afterMs: needed(real),
  onTimeout: maybe(wordOf(["error_as_result", "fail_turn"])),
});

const waits: Described<Waits> = fieldsOf<Waits>({
  manual: maybe(policy),
  approval: maybe(policy),
  question: maybe(policy),
  outcome_unknown: maybe(policy),
});

const budgets: Described<Budgets> = fieldsOf<Budgets>({
  steps: maybe(whole),
  tokens: maybe(whole),
  cost: maybe(real),
  timeMs: maybe(whole),
  noProgress: maybe(whole),
});

const schema: Described<JsonSchema> = data;
const format: Described<ResponseFormat> = { shape: responseFormatShape, schema: { type: "object" } };
const choice: Described<ToolChoice> = {
  shape: toolChoiceShape,
  schema: { oneOf: [{ type: "string", enum: ["auto", "none", "required"] }, { type: "object" }] },
};

const fields: DescribedFields<TurnOptions> = {
  engine: maybe(about("The name of an engine.", text)),
  version: maybe(about("What the session's version has to be.", whole)),
  waits: maybe(about("How long calls may wait for somebody.", waits)),
  model: maybe(about("provider:model", text)),
  instructions: maybe(text),
  output: maybe(about("A JSON Schema that the answer has to fit.", schema)),
  responseFormat: maybe(format),
  repair: maybe(about("How often the model may try again when its answer does not fit.", whole)),
  toolChoice: maybe(choice),
  parallelToolCalls: maybe(flag),
  temperature: maybe(real),
  topP: maybe(real),
  maxTokens: maybe(whole),
  stopSequences: maybe(many(text)),
  seed: maybe(whole),
  mode: maybe(wordOf(toolModes)),
  maxTurns: maybe(whole),
  budgets: maybe(budgets),
};

/** The options that a handler takes: those that need no permission, and those that its operator allowed. */
export function turnOptions(allowed: readonly AllowedOption[]): Described<TurnOptions> {
  const known = Object.keys(fields);
  for (const name of allowed) {
    if (known.includes(name)) continue;
    throw new MisuseError("invalid_argument", `allow: there is no option ${name}; known are ${known.join(", ")}`, {
      path: ["allow"],
    });
  }
  const names: ReadonlySet<string> = new Set([...freeOptions, ...allowed]);
  const full = fieldsOf<TurnOptions>(fields);
  const properties: JsonObject = Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => (names.has(name) ? [[name, field.schema]] : [])),
  );
  return {
    shape: (input, reading) => {
      const refused = isPlainObject(input) ? Object.keys(input).filter((key) => !names.has(key)) : [];
      for (const key of refused) {
        const why = known.includes(key) ? "not allowed on this server" : "unknown field";
        reading.at(key, (_, here) => here.report("unknown_field", `${why}; known are ${[...names].join(", ")}`), null);
      }
      return refused.length > 0
        ? reading.report("unknown_field", "has options that are not taken")
        : full.shape(input, reading);
    },
    schema: { type: "object", properties, additionalProperties: false },
  };
}
