// Limits of JSON Schemas that HTTP callers send: tools and response formats of the Chat Completions API, and the
// options `output` and `responseFormat`.
//
// A schema of a caller is passed to the provider. The schema of `output` is also compiled here, and the answer of the
// model is validated with it on the event loop. A validation cannot be interrupted, so schemas whose cost is not linear
// in the size of the answer, with a small factor, are rejected (schema-cost.ts).
//
//   every schema    at most `maxObjects` objects and lists, nested at most `maxDepth` levels; `min…` keywords at most
//                   `maxMinimum`, because programs that generate values for a schema allocate that much

import type { JsonObject } from "../../core/model/internal.ts";
import type { Shape } from "../../core/model/parse/reading.ts";
import type { BodySchema } from "../contract/internal.ts";

import { isPlainObject, jsonObject } from "../../core/model/parse/reading.ts";
import { costProblem } from "./schema-cost.ts";

const maxObjects = 5000;
const maxDepth = 64;
const maxMinimum = 1_000_000;

/** Keywords that demand a size of the value. */
const minimums: readonly string[] = ["minItems", "minLength", "minProperties", "minContains"];

/** A schema that is only passed on to the provider. */
export const callerSchemaShape: Shape<JsonObject> = (input, reading) => {
  const schema = jsonObject(input, reading);
  const problem = isPlainObject(input) ? sizeProblem(input) : null;
  return problem === null ? schema : reading.report("too_large", `the schema ${problem}`);
};

/** A schema with which answers are validated. */
export const validatedSchema: BodySchema<JsonObject> = {
  shape: (input, reading) => {
    const schema = jsonObject(input, reading);
    const problem = isPlainObject(input) ? (sizeProblem(input) ?? costProblem(input)) : null;
    return problem === null ? schema : reading.report("too_large", `the schema ${problem}`);
  },
  schema: { type: "object" },
};

/**
 * What is too large in a schema; `null`: nothing. Keywords are not told apart from property names, which are rarely
 * named like these.
 */
function sizeProblem(schema: object): string | null {
  const stack: { readonly value: object; readonly depth: number }[] = [{ value: schema, depth: 1 }];
  let objects = 0;
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    objects += 1;
    if (objects > maxObjects) return `has more than ${maxObjects} objects and lists`;
    if (next.depth > maxDepth) return `is nested more than ${maxDepth} levels deep`;
    for (const [key, value] of Object.entries(next.value)) {
      if (minimums.includes(key) && typeof value === "number" && value > maxMinimum) {
        return `has a ${key} of more than ${maxMinimum}`;
      }
      if (typeof value === "object" && value !== null) stack.push({ value, depth: next.depth + 1 });
    }
  }
  return null;
}
