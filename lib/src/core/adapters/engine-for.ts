// An engine from one name, `"openai:gpt-6.1-sol"`: the name of the provider selects the adapter. It is a function of
// its own and not a form of `engine`, because it refers to every adapter: a program that builds its adapter itself does
// not contain the others (docs/decisions/0069).

import type { Adapter, Engine, EngineFields, NeededContext, Tool, TypedEngine } from "../engine/internal.ts";
import type { CallerContext } from "../model/internal.ts";
import type { PresetName } from "./compatible.ts";

import { engine } from "../engine/internal.ts";
import { invalidArgument } from "../model/internal.ts";
import { anthropic } from "./anthropic.ts";
import { preset } from "./compatible.ts";
import { gemini } from "./gemini.ts";
import { presetNames, providerNamed } from "./model-name.ts";
import { openai } from "./openai.ts";

const ownAdapters = { openai, anthropic, gemini };

/** A provider whose adapter needs no options. */
type NamedProvider = keyof typeof ownAdapters | PresetName;

const providerNames: readonly NamedProvider[] = ["openai", "anthropic", "gemini", ...presetNames];

/**
 * Builds an engine for a model that is named with its provider: `openai`, `anthropic`, `gemini`, or the name of a
 * {@link preset}. The adapter has its default options; its API key is an environment variable, such as
 * `OPENAI_API_KEY`. The fields are those of {@link engine}, without adapter and model. Throws `MisuseError` for an
 * unknown provider.
 *
 * @example
 * ```ts
 * import { engineFor } from "everturn";
 *
 * const assistant = engineFor("openai:gpt-6.1-sol", { instructions: "Be brief." });
 * assistant.adapter?.provider; // => "openai"
 * assistant.model; // => "gpt-6.1-sol"
 * ```
 */
export function engineFor<Context extends CallerContext = CallerContext, One extends Tool<Context> = Tool<Context>>(
  model: `${NamedProvider}:${string}` | (string & {}),
  fields?: Omit<EngineFields<Context>, "adapter" | "model"> & {
    readonly tools?: readonly One[];
  } & NeededContext<NoInfer<Context>>,
): Engine<Context> & TypedEngine<One>;
export function engineFor(model: string, fields: Omit<EngineFields, "adapter" | "model"> = {}): Engine {
  const colon = typeof model === "string" ? model.indexOf(":") : -1;
  const given = colon === -1 ? "" : model.slice(0, colon);
  const named = providerNamed(given);
  const provider = providerNames.find((name) => name === named);
  if (provider === undefined) {
    const choices = `the providers are ${providerNames.join(", ")}`;
    const problem =
      colon === -1
        ? `name the provider before the model, such as "openai:gpt-6.1-sol", not ${JSON.stringify(model)}`
        : `there is no provider ${JSON.stringify(given)} with default options`;
    throw invalidArgument(`engineFor: ${problem}; ${choices}. For another one: engine({ adapter, model })`, ["model"]);
  }
  return engine({ ...fields, adapter: adapterOf(provider), model: model.slice(colon + 1) });
}

function adapterOf(provider: NamedProvider): Adapter {
  switch (provider) {
    case "openai":
    case "anthropic":
    case "gemini":
      return ownAdapters[provider]();
    default:
      return preset(provider);
  }
}
