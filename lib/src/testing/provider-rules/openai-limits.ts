// Limits of fields that both APIs of OpenAI have, with examples that follow from the limit.

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { FieldLimit } from "./field-limits.ts";
import type { ProviderRequest } from "./rule.ts";

export const specification = "https://github.com/openai/openai-openapi/blob/master/openapi.yaml";

/** A request with a value at the field of the limit. */
type Example<Value> = (value: Value) => ProviderRequest;

/** A text of at most `max` characters. */
export function maxLength(
  name: string,
  path: string,
  max: number,
  example: Example<string>,
  source = specification,
): FieldLimit {
  const constraint = { type: "max_length", max } as const;
  return { name, source, path, constraint, refused: example("n".repeat(max + 1)), accepted: example("n".repeat(max)) };
}

/** A list, or the entries of an object, of at most `max`. The example gets as many names. */
export function maxCount(
  name: string,
  path: string,
  type: "max_items" | "max_properties",
  max: number,
  example: Example<readonly string[]>,
  source = specification,
): FieldLimit {
  const names = Array.from({ length: max + 1 }, (_, index) => `k${index}`);
  return {
    name,
    source,
    path,
    constraint: { type, max },
    refused: example(names),
    accepted: example(names.slice(1)),
  };
}

/** The pattern of a name, and its length. */
export function nameLimits(
  name: string,
  path: string,
  max: number,
  example: Example<string>,
  patternSource = specification,
): readonly FieldLimit[] {
  const pattern: FieldLimit = {
    name: `${name}_pattern`,
    source: patternSource,
    path,
    constraint: { type: "pattern", pattern: "^[a-zA-Z0-9_-]+$" },
    refused: example("the weather.now"),
    accepted: example("the_weather-1"),
  };
  return [pattern, maxLength(`${name}_length`, path, max, example)];
}

/** The highest value of a number. */
export function maximum(path: string, max: number, body: Example<JsonObject>): FieldLimit {
  const constraint = { type: "max", max } as const;
  const example = (value: Json) => body({ [path]: value });
  const refused = example(Number.isInteger(max) && max > 2 ? max + 1 : max + 0.1);
  return { name: `${path}_maximum`, source: specification, path, constraint, refused, accepted: example(max) };
}

/** The limits of settings. */
export function settingLimits(body: Example<JsonObject>): readonly FieldLimit[] {
  const temperature: FieldLimit = {
    name: "temperature_minimum",
    source:
      "https://github.com/pydantic/pydantic-ai/blob/main/tests/models/cassettes/test_openai_responses/test_openai_responses_model_http_error.yaml",
    path: "temperature",
    constraint: { type: "min", min: 0 },
    refused: body({ temperature: -0.1 }),
    accepted: body({ temperature: 0 }),
  };
  return [
    maxCount("metadata_count", "metadata", "max_properties", 16, (keys) =>
      body({ metadata: Object.fromEntries(keys.map((key) => [key, "v"])) }),
    ),
    temperature,
    maximum("temperature", 2, body),
    maximum("top_p", 1, body),
    maximum("top_logprobs", 20, body),
    maxLength("safety_identifier_length", "safety_identifier", 64, (text) => body({ safety_identifier: text })),
  ];
}
