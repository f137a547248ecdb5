// What a body may hold: each kind of value with how it is read and how it is described, in one place, so that the description that is served and
// what is really taken cannot differ.

import type { JsonObject, UserMessage, UserPart } from "../../model/internal.ts";
import type { Fields, OptionalField, PresentField, Shape } from "../../model/parse/reading.ts";

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
} from "../../model/parse/reading.ts";

/** How something is read, and how it is described: a JSON Schema. */
export type Described<T> = { readonly shape: Shape<T>; readonly schema: JsonObject };

/** Fields of a body: one for each key of `T`. */
export type DescribedFields<T> = Fields<T> & { readonly [K in keyof T]-?: { readonly schema: JsonObject } };

export function needed<T>({ shape, schema }: Described<T>): PresentField<T> & { readonly schema: JsonObject } {
  return { ...required(shape), schema };
}

export function maybe<T>({ shape, schema }: Described<T>): OptionalField<T> & { readonly schema: JsonObject } {
  return { ...optional(shape), schema };
}

/** An object with these fields and no others. */
export function fieldsOf<T extends object>(fields: DescribedFields<T>): Described<T> {
  const entries = Object.entries<PresentOrNot>(fields);
  const names = entries.filter(([, { absent }]) => absent.type === "refused").map(([name]) => name);
  const properties = Object.fromEntries(entries.map(([name, { schema }]) => [name, schema]));
  return {
    shape: object<T>(fields),
    schema: {
      type: "object",
      properties,
      ...(names.length === 0 ? {} : { required: names }),
      additionalProperties: false,
    },
  };
}

type PresentOrNot = { readonly schema: JsonObject; readonly absent: { readonly type: string } };

/** The same with words about it. */
export function about<T>(description: string, { shape, schema }: Described<T>): Described<T> {
  return { shape, schema: { ...schema, description } };
}

export const text: Described<string> = { shape: string, schema: { type: "string" } };
export const flag: Described<boolean> = { shape: boolean, schema: { type: "boolean" } };
export const real: Described<number> = { shape: number, schema: { type: "number" } };
export const whole: Described<number> = { shape: count, schema: { type: "integer", minimum: 0 } };
export const data: Described<JsonObject> = { shape: jsonObject, schema: { type: "object" } };

export function wordOf<const T extends string>(words: readonly T[]): Described<T> {
  return { shape: oneOf(words), schema: { type: "string", enum: [...words] } };
}

export function many<T>({ shape, schema }: Described<T>): Described<readonly T[]> {
  return { shape: listOf(shape), schema: { type: "array", items: schema } };
}

/** A text, or something else. */
export function textOr<T>(other: Described<T>): Described<string | T> {
  return {
    shape: either((input) => typeof input === "string", string, other.shape),
    schema: { oneOf: [text.schema, other.schema] },
  };
}

/** Is that on the disk of this machine, or among the files that its operator gave to a provider? Neither is for strangers to name. */
function isElsewhere(part: UserPart): boolean {
  if (part.type === "text") return false;
  const { type } = part.type === "image" ? part.image.source : part.source;
  return type === "file" || type === "provider_file";
}

/** What a person says. Other roles are not for somebody outside to speak in: history comes from the session alone. */
export const userMessage: Described<UserMessage> = {
  shape: (input, reading) => {
    const message = messageShape(input, reading);
    if (typeof message === "symbol") return message;
    if (message.role !== "user") {
      return reading.at("role", (_, here) => here.report("unknown", "only user messages are taken from outside"), null);
    }
    if (message.origin !== null) {
      return reading.at(
        "origin",
        (_, here) => here.report("unknown", "who says it is not for the request to say"),
        null,
      );
    }
    const strange = typeof message.content === "string" ? -1 : message.content.findIndex(isElsewhere);
    if (strange < 0) return message;
    const why = "a file is taken as its bytes or by a URL: nothing on a disk, and nothing of the provider's account";
    return reading.at("content", (_, list) => list.at(strange, (_, here) => here.report("unknown", why), null), null);
  },
  schema: { $ref: "#/components/schemas/UserMessage" },
};
