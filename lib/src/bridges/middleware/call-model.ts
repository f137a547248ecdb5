// The model of a call as one name, and calls as plain JSON.

import type { ModelCall } from "../../core/engine/internal.ts";
import type { Json } from "../../core/model/internal.ts";

/**
 * The provider and the model of a call, `openai:gpt-5`. A prefix of the model's name that repeats the provider is
 * removed.
 */
export function modelOf({ provider, request: { model } }: Pick<ModelCall, "provider" | "request">): string {
  const id = typeof model === "string" ? model : (model?.id ?? "");
  const prefix = `${provider}:`;
  return id.toLowerCase().startsWith(prefix.toLowerCase()) ? `${prefix}${id.slice(prefix.length)}` : `${prefix}${id}`;
}

/** The value after a JSON round trip: without undefined properties. */
export function plainJson(value: object): Json {
  const plain: Json = JSON.parse(JSON.stringify(value));
  return plain;
}
