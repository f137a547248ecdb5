// What a request may say about the turn it begins. A client holds a key, not the purse: what costs money, changes what the model is told, or makes this
// process compute is the operator's to allow, by name.

import type { Budgets, JsonSchema } from "../../engine/internal.ts";
import type { JsonObject, ResponseFormat, ToolChoice } from "../../model/internal.ts";
import type { DurableOptions, WaitPolicy, Waits } from "../../runtime/internal.ts";
import type { Described, DescribedFields } from "../openapi/described.ts";

import { MisuseError, toolModes } from "../../model/internal.ts";
import { isPlainObject, responseFormatShape, toolChoiceShape } from "../../model/parse/reading.ts";
import { about, data, fieldsOf, flag, many, maybe, needed, real, text, whole, wordOf } from "../openapi/described.ts";

/** Options of a turn that can come from outside. */
export type TurnOptions = Pick<
  DurableOptions,
  | "engine"
  | "version"
  | "waits"
  | "model"
  | "instructions"
  | "output"
  | "responseFormat"
  | "repair"
  | "toolChoice"
  | "parallelToolCalls"
  | "temperature"
  | "topP"
  | "maxTokens"
  | "stopSequences"
  | "seed"
  | "mode"
  | "maxTurns"
  | "budgets"
>;

type TurnOptionName = keyof TurnOptions;

/** What needs no permission. */
const always = ["engine", "version", "waits"] as const satisfies readonly TurnOptionName[];

/** What an operator may allow. */
export type AllowedOption = Exclude<TurnOptionName, (typeof always)[number]>;

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

/** The options a handler takes: what needs no permission, and what its operator allowed. */
export function turnOptions(allowed: readonly AllowedOption[]): Described<TurnOptions> {
  const known = Object.keys(fields);
  for (const name of allowed) {
    if (known.includes(name)) continue;
    throw new MisuseError("invalid_argument", `allow: there is no option ${name}; known are ${known.join(", ")}`, {
      path: ["allow"],
    });
  }
  const names: ReadonlySet<string> = new Set([...always, ...allowed]);
  const full = fieldsOf<TurnOptions>(fields);
  const properties: JsonObject = Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => (names.has(name) ? [[name, field.schema]] : [])),
  );
  return {
    shape: (input, reading) => {
      const refused = isPlainObject(input) ? Object.keys(input).filter((key) => !names.has(key)) : [];
      for (const key of refused) {
        const why = known.includes(key) ? "is not for callers to say here" : "unknown field";
        reading.at(key, (_, here) => here.report("unknown_field", `${why}; known are ${[...names].join(", ")}`), null);
      }
      return refused.length > 0
        ? reading.report("unknown_field", "has options that are not taken")
        : full.shape(input, reading);
    },
    schema: { type: "object", properties, additionalProperties: false },
  };
}
