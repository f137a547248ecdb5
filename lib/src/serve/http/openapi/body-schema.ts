// Schemas of request bodies. Each one pairs the reader of a value with its JSON Schema, so that the OpenAPI document and what the
// server accepts cannot differ.
//
// Invariants
//   1. An object schema rejects fields that it does not list (`additionalProperties: false`).
//   2. A message from outside has the role `user`, no origin, and no file or URL that the content policy rejects (content-policy.ts). Other
//      roles would let a caller write history or instructions.

import type { JsonObject, UserMessage } from "../../../core/model/internal.ts";
import type { Fields, OptionalField, PresentField, Shape } from "../../../core/model/parse/reading.ts";
import type { ContentPolicy } from "../content-policy.ts";

import {
  boolean,
  count,
  either,
  array as listOf,
  jsonObject,
  messageShape,
  number,
  object,
  oneOf,
  optional,
  required,
  string,
} from "../../../core/model/parse/reading.ts";
import { partProblem } from "../content-policy.ts";

/** A reader for values of type `T`, and the JSON Schema that describes them. */
export type BodySchema<T> = { readonly shape: Shape<T>; readonly schema: JsonObject };

/** The fields of an object schema: one for each key of `T`. */
export type BodyFields<T> = Fields<T> & { readonly [K in keyof T]-?: { readonly schema: JsonObject } };

export function requiredField<T>({ shape, schema }: BodySchema<T>): PresentField<T> & { readonly schema: JsonObject } {
  return { ...required(shape), schema };
}

export function optionalField<T>({ shape, schema }: BodySchema<T>): OptionalField<T> & { readonly schema: JsonObject } {
  return { ...optional(shape), schema };
}

/** An object with these fields and no others. */
export function objectSchema<T extends object>(fields: BodyFields<T>): BodySchema<T> {
  const entries = Object.entries<AnyField>(fields);
  const requiredNames = entries.filter(([, { absent }]) => absent.type === "refused").map(([name]) => name);
  const properties = Object.fromEntries(entries.map(([name, { schema }]) => [name, schema]));
  return {
    shape: object<T>(fields),
    schema: {
      type: "object",
      properties,
      ...(requiredNames.length === 0 ? {} : { required: requiredNames }),
      additionalProperties: false,
    },
  };
}

type AnyField = { readonly schema: JsonObject; readonly absent: { readonly type: string } };

/** Adds a description to a schema. */
export function withDescription<T>(description: string, { shape, schema }: BodySchema<T>): BodySchema<T> {
  return { shape, schema: { ...schema, description } };
}

export const stringSchema: BodySchema<string> = { shape: string, schema: { type: "string" } };
export const booleanSchema: BodySchema<boolean> = { shape: boolean, schema: { type: "boolean" } };
export const numberSchema: BodySchema<number> = { shape: number, schema: { type: "number" } };
/** An integer of 0 or more. */
export const countSchema: BodySchema<number> = { shape: count, schema: { type: "integer", minimum: 0 } };
export const jsonObjectSchema: BodySchema<JsonObject> = { shape: jsonObject, schema: { type: "object" } };

export function enumSchema<const T extends string>(values: readonly T[]): BodySchema<T> {
  return { shape: oneOf(values), schema: { type: "string", enum: [...values] } };
}

export function arraySchema<T>({ shape, schema }: BodySchema<T>): BodySchema<readonly T[]> {
  return { shape: listOf(shape), schema: { type: "array", items: schema } };
}

/** A string, or a value of another schema. */
export function stringOr<T>(other: BodySchema<T>): BodySchema<string | T> {
  return {
    shape: either((input) => typeof input === "string", string, other.shape),
    schema: { oneOf: [stringSchema.schema, other.schema] },
  };
}

/**
 * Provider options are fields of the operator's requests: they can select other block types, files of the provider account and prices. A route of the
 * application that trusts its caller adds them itself.
 */
const noProviderOptions = "must be absent: requests cannot set provider options";

/**
 * A user message from an HTTP caller. Other roles, origins and provider options are rejected: history comes from the session alone. So are files
 * and URLs that the policy does not allow.
 */
export const userMessage = (policy: ContentPolicy): BodySchema<UserMessage> => ({
  shape: (input, reading) => {
    const message = messageShape(input, reading);
    if (typeof message === "symbol") return message;
    if (message.role !== "user") {
      return reading.at(
        "role",
        (_, here) => here.report("unknown", "must be user: requests add user messages only"),
        null,
      );
    }
    if (message.origin !== null) {
      return reading.at(
        "origin",
        (_, here) => here.report("unknown", "must be absent: requests cannot set the origin of a message"),
        null,
      );
    }
    if (message.providerOptions !== undefined) {
      return reading.at("providerOptions", (_, here) => here.report("unknown", noProviderOptions), null);
    }
    const optionsIndex =
      typeof message.content === "string"
        ? -1
        : message.content.findIndex(({ providerOptions }) => providerOptions !== undefined);
    if (optionsIndex >= 0) {
      return reading.at(
        "content",
        (_, list) =>
          list.at(
            optionsIndex,
            (_, part) => part.at("providerOptions", (_, here) => here.report("unknown", noProviderOptions), null),
            null,
          ),
        null,
      );
    }
    const problems =
      typeof message.content === "string" ? [] : message.content.map((part) => partProblem(part, policy));
    const rejectedIndex = problems.findIndex((problem) => problem !== null);
    if (rejectedIndex < 0) return message;
    return reading.at(
      "content",
      (_, list) => list.at(rejectedIndex, (_, here) => here.report("unknown", `must ${problems[rejectedIndex]}`), null),
      null,
    );
  },
  schema: { $ref: "#/components/schemas/UserMessage" },
});
