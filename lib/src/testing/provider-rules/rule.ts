// The form of a rule of a provider: what it forbids, where that is documented, and the provider's own words.

import type { Json, JsonObject } from "../../core/model/internal.ts";

/** An API whose documented rules are known. */
export type ProviderApi = "openai-responses" | "openai-chat" | "anthropic-messages" | "gemini";

/** A request to a provider, as it is sent over HTTP. */
export type ProviderRequest = {
  /** The JSON body. */
  readonly body: JsonObject;
  /** The headers, with names in lower case. Default: none. */
  readonly headers?: { readonly [name: string]: string };
  /** The address. Gemini has the name of the model in it. Default: none. */
  readonly url?: string;
  /**
   * The items that the API has stored before this request, for `previous_response_id` and `conversation` of OpenAI
   * Responses. Default: unknown, so rules about stored items do not apply.
   */
  readonly stored?: readonly JsonObject[];
};

/** A rule that a request violates. */
export type Violation = {
  /** The name of the {@link ProviderRule}. */
  readonly rule: string;
  /** The message of the provider. */
  readonly message: string;
  /** Where the request violates the rule, in the notation of the provider. */
  readonly path: string;
};

/** What a rule finds in a request. */
export type Finding = Omit<Violation, "rule">;

/** A documented rule of a provider, with its source and two examples. */
export type ProviderRule = {
  /** Unique among the rules of an API. */
  readonly name: string;
  /** The address of the documentation, or of a report that quotes the answer of the API. */
  readonly source: string;
  /** The HTTP status of the refusal. Default: 400. */
  readonly status?: number;
  /** `error.code` of OpenAI. Default: `null`. */
  readonly code?: string;
  /** Every place where a request violates the rule. */
  readonly find: (request: ProviderRequest) => readonly Finding[];
  /** A request that violates this rule and no other. */
  readonly refused: ProviderRequest;
  /** A similar request that violates no rule. */
  readonly accepted: ProviderRequest;
};

/** One finding if the request is wrong, otherwise none. */
export function findingIf(isWrong: boolean, path: string, message: string): readonly Finding[] {
  return isWrong ? [{ path, message }] : [];
}

/** One finding unless the request is right. */
export function findingUnless(isRight: boolean, path: string, message: string): readonly Finding[] {
  return findingIf(!isRight, path, message);
}

/** A value in a request body, with its path. */
export type Located = { readonly path: string; readonly value: Json | undefined };

/**
 * The values at a path of a body: `metadata`, `tools[].name`, `tools[type=function].name`. `[]` stands for every item
 * of a list, `[key=value]` for the items with that field. `format[type=json_schema]` is the object if it has that
 * field. The last field may be absent; a parent that is absent or of another type has no values.
 */
export function valuesAt(body: JsonObject, path: string): readonly Located[] {
  let values: readonly Located[] = [{ path: "", value: body }];
  for (const segment of path.split(".")) {
    const [, field = "", filter] = /^([^[]*)(?:\[(.*)\])?$/.exec(segment) ?? [];
    values = values.flatMap(({ path: parent, value }): readonly Located[] => {
      const object = objectOf(value);
      if (object === null) return [];
      const child = { path: parent === "" ? field : `${parent}.${field}`, value: object[field] };
      return filter === undefined ? [child] : itemsOf(child, filter);
    });
  }
  return values;
}

function itemsOf({ path, value }: Located, filter: string): readonly Located[] {
  const [key = "", expected = ""] = filter.split("=");
  if (objectOf(value)?.[key] === expected) return [{ path, value }];
  return listOf(value).flatMap((item, index) =>
    filter === "" || objectOf(item)?.[key] === expected ? [{ path: `${path}[${index}]`, value: item }] : [],
  );
}

/** The value if it is an object. */
export function objectOf(value: Json | undefined): JsonObject | null {
  return typeof value === "object" && value !== null && !isList(value) ? value : null;
}

/** The items of a list; none for other values. */
export function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

/** The objects of a list; other items are left out. */
export function objectsOf(value: Json | undefined): readonly JsonObject[] {
  return listOf(value).flatMap((item): readonly JsonObject[] => {
    const object = objectOf(item);
    return object === null ? [] : [object];
  });
}

/** The value if it is a text, otherwise an empty text. */
export function textOrEmpty(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}
