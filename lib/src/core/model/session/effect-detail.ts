// The request and the response in a stored row of the journal. The row is JSON of a server that may be of a newer or an
// older release, so fields are looked up and not assumed.

import type { Json } from "../parse/json.ts";
import type { EffectDetail } from "./inspection.ts";

import { isJsonObject, parseJson } from "../parse/json.ts";

/**
 * What a row of the journal ordered: a model call with its options, or a tool call with its arguments. A model call
 * that logs its request body has that body.
 */
export function effectRequest({ effect, item }: Pick<EffectDetail, "effect" | "item">): Json {
  const body = field(field(item, "response"), "requestBody");
  if (typeof body === "string") return parseJson(body)?.value ?? body;
  const call = field(effect, "call");
  return call === null ? effect : call;
}

/** What a row of the journal recorded: the reply, the result of the tool, or the item. */
export function effectResponse({ item }: Pick<EffectDetail, "item">): Json {
  const response = field(item, "response");
  if (response === null) return item;
  return field(response, "reply") ?? field(response, "outcome") ?? field(response, "error") ?? response;
}

/** A field of a JSON object; `null`: absent, or not an object. */
function field(value: Json, name: string): Json {
  return isJsonObject(value) && Object.hasOwn(value, name) ? (value[name] ?? null) : null;
}
