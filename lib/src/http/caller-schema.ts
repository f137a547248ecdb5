// Limits of JSON Schemas that HTTP callers send: tools and response formats of the Chat Completions API, and the options `output` and `responseFormat`.
//
// A schema of a caller is passed to the provider. The schema of `output` is also compiled here, and the answer of the model is validated with it on the event
// loop. A validation cannot be interrupted, so keywords whose cost is not linear in the size of the answer are rejected.
//
//   every schema    at most `maxObjects` objects and lists, nested at most `maxDepth` levels; `min…` keywords at most `maxMinimum`, because programs that
//                   generate values for a schema allocate that much
//   only `output`   no regular expressions (catastrophic backtracking), no `uniqueItems` (quadratic), and at most `maxExpanded` subschemas after each `$ref`
//                   is replaced by its target, which excludes recursion (exponential)

import type { JsonObject } from "../model/internal.ts";
import type { Shape } from "../model/parse/reading.ts";
import type { BodySchema } from "./openapi/body-schema.ts";

import { isPlainObject, jsonObject } from "../model/parse/reading.ts";

const maxObjects = 5000;
const maxDepth = 64;
const maxMinimum = 1_000_000;
const maxExpanded = 5000;

/** Keywords that demand a size of the value. */
const minimums: readonly string[] = ["minItems", "minLength", "minProperties", "minContains"];
/** Keywords whose validation is not linear in the size of the value. */
const costly: readonly string[] = ["pattern", "patternProperties", "uniqueItems"];

/** A schema that is only passed on to the provider. */
export const callerSchemaShape: Shape<JsonObject> = (input, reading) => {
  const schema = jsonObject(input, reading);
  const problem = isPlainObject(input) ? sizeProblem(input) : null;
  return problem === null ? schema : reading.report("too_large", `the schema ${problem}`);
};

/** A schema with which answers are validated. */
export const validatedSchema: BodySchema<JsonObject> = {
  shape: (input, reading) => {
    const schema = callerSchemaShape(input, reading);
    const problem = isPlainObject(input) ? costProblem(input) : null;
    return problem === null ? schema : reading.report("too_large", `the schema ${problem}`);
  },
  schema: { type: "object" },
};

/** What is too large in a schema; `null`: nothing. Keywords are not told apart from property names, which are rarely named like these. */
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

/** What makes the validation with a schema costly; `null`: nothing. The schema has passed `sizeProblem`. */
function costProblem(root: object): string | null {
  let expanded = 0;
  let problem: string | null = null;
  // Every `$ref` is followed each time it occurs. A recursive one reaches the limit as well.
  const visit = (value: unknown, depth: number): void => {
    if (problem !== null || typeof value !== "object" || value === null) return;
    expanded += 1;
    if (expanded > maxExpanded || depth > maxExpanded / 10) {
      problem = `has more than ${maxExpanded} subschemas when each $ref is replaced, or is recursive`;
      return;
    }
    for (const [key, child] of Object.entries(value)) {
      if (costly.includes(key) && (typeof child === "string" || child === true || key === "patternProperties")) {
        problem = `uses ${key}, which is not allowed in schemas of callers`;
        return;
      }
      if (
        key === "$dynamicRef" ||
        (key === "$ref" && typeof child === "string" && !child.startsWith("#/") && child !== "#")
      ) {
        problem = `has a ${key} that is not a JSON pointer of the same schema`;
        return;
      }
      visit(key === "$ref" && typeof child === "string" ? targetOf(root, child) : child, depth + 1);
    }
  };
  visit(root, 0);
  return problem;
}

/** The target of a JSON pointer (RFC 6901, as a URI fragment); `undefined` if there is none, which the validator reports. */
function targetOf(root: object, reference: string): unknown {
  let target: unknown = root;
  for (const token of reference.split("/").slice(1)) {
    const name = decoded(token).replaceAll("~1", "/").replaceAll("~0", "~");
    const isContainer = typeof target === "object" && target !== null && Object.hasOwn(target, name);
    target = isContainer && typeof target === "object" && target !== null ? Reflect.get(target, name) : undefined;
  }
  return target;
}

function decoded(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}
