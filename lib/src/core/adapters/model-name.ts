// The name of a model as its provider knows it, and the names of the presets of `compatible.ts`. `"openai:gpt-5"` names
// a provider and a model; the prefix selects an adapter in `providers` and must not reach the provider, which knows no
// such model.
//
// Rules for a name with a colon, by the text before the first one
//   the adapter's own provider      removed
//   another provider in `names`     refused: the model is of another provider
//   anything else                   part of the name: `llama3.3:70b`, `ft:gpt-4.1:me::1`
// Letter case is ignored (`OpenAI:gpt-5`), and `google` is another name of `gemini`. A model reference has the provider
// in a field of its own, so its id is sent unchanged.

import type { JsonObject, ModelName } from "../model/internal.ts";
import type { ProviderProfile } from "./http-adapter.ts";

import { EngineError } from "../model/internal.ts";
import { isPlainObject } from "../model/parse/reading.ts";

/** The names of the servers with the Chat Completions API that `preset` knows. */
export const presetNames = [
  "ollama",
  "vllm",
  "llamaCpp",
  "lmStudio",
  "openrouter",
  "groq",
  "deepseek",
  "mistral",
  "xai",
  "together",
] as const;

/** The providers that a name in front of a colon means, by that name in lower case. */
const names: ReadonlyMap<string, string> = new Map([
  ...["openai", "anthropic", "gemini", "azure", ...presetNames].map((name) => [name.toLowerCase(), name] as const),
  ["google", "gemini"],
]);

/**
 * Names of providers that are also names of open models, such as `mistral:7b`. Servers that users run themselves have
 * models of that name.
 */
export const modelFamilies: readonly string[] = ["mistral", "deepseek"];

/** The provider that a name in front of a colon means, without regard to letter case; `null`: none. */
export function providerNamed(name: string): string | null {
  return names.get(name.toLowerCase()) ?? null;
}

/** Whose models an adapter accepts. */
export type ModelOwner = {
  /** The adapter's own provider. */
  readonly provider: string;
  /**
   * Providers whose names are parts of model names here; `any`: all of them, for servers that the library does not
   * know. Default: none.
   */
  readonly ownPrefixes?: "any" | readonly string[];
};

/**
 * Returns the name to send; `""`: none is set. Throws `EngineError` (`missing_model`) for a model of another provider.
 */
export function modelNameFor({ provider, ownPrefixes = [] }: ModelOwner, model: ModelName | null): string {
  const [text, prefix] = typeof model === "string" ? [model, prefixOf(model)] : [model?.id ?? "", model?.provider];
  if (prefix === null || prefix === undefined) return text;
  const named = providerNamed(prefix);
  if (prefix.toLowerCase() === provider.toLowerCase() || (named === provider && ownPrefixes !== "any")) {
    return typeof model === "string" ? text.slice(prefix.length + 1) : text;
  }
  if (named !== null && ownPrefixes !== "any" && !ownPrefixes.includes(named)) {
    const message = `the model ${JSON.stringify(text)} is of the provider ${named}, and the adapter is ${provider}; use the adapter of ${named}, or combine adapters with providers({ … })`;
    throw new EngineError("missing_model", { provider, message });
  }
  return text;
}

/** The text before the first colon; `null` without one. */
function prefixOf(name: string): string | null {
  const colon = name.indexOf(":");
  return colon === -1 ? null : name.slice(0, colon);
}

/**
 * The model name that the provider knows; `""` if `options` name the model in another way: a prompt template of OpenAI
 * does (`prompt`, Responses API). Throws `EngineError` (`missing_model`) if none is set, or if it is of another
 * provider.
 */
export function requiredModelName(profile: ProviderProfile, model: ModelName | null, options: JsonObject): string {
  const name = modelNameFor(profile, model);
  const hasTemplate = profile.codec.api === "openai-responses" && isPlainObject(options["prompt"]);
  if (name !== "" || hasTemplate) return name;
  const { provider } = profile;
  const message = `no model is set for ${provider}; set one: engine({ model: "…" })`;
  throw new EngineError("missing_model", { provider, message });
}
