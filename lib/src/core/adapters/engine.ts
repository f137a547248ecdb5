// The public function `engine`: an engine from its fields, or from the name of a model with its provider in front,
// `"openai:gpt-6.1-sol"`, which selects the adapter. The fields are checked in core/engine/engine.ts; this file is
// among the adapters because it refers to them (docs/decisions/0074).
//
// Two signatures, which differ in the number of arguments. The compiler reports a mistake in an argument by the
// signatures of the same number: with two for one argument it would say "No overload matches this call" and not which
// field is wrong (lib/test/first-hour.test.ts).

import type { Adapter, Engine, EngineFields, NeededContext, Tool, TypedEngine } from "../engine/internal.ts";
import type { CallerContext } from "../model/internal.ts";
import type { PresetName } from "./compatible.ts";

import { engine as engineOfFields } from "../engine/internal.ts";
import { invalidArgument } from "../model/internal.ts";
import { anthropic } from "./anthropic.ts";
import { preset } from "./compatible.ts";
import { gemini } from "./gemini.ts";
import { presetNames, providerNamed } from "./model-name.ts";
import { openai } from "./openai.ts";

const ownAdapters = { openai, anthropic, gemini };

/** A provider whose adapter needs no options. */
type NamedProvider = keyof typeof ownAdapters | PresetName;

/** A model with its provider in front. Any text is accepted; those with a known provider are suggested by editors. */
type NamedModel = `${NamedProvider}:${string}` | (string & {});

const providerNames: readonly NamedProvider[] = ["openai", "anthropic", "gemini", ...presetNames];

/**
 * Builds an engine from its fields, or from the name of a model with its provider in front and the other fields. Every
 * field has a default. The provider of a name is `openai`, `anthropic`, `gemini`, or the name of a {@link preset}; its
 * adapter has its default options, and its API key is an environment variable, such as `OPENAI_API_KEY`.
 *
 * Throws `MisuseError` for an unknown provider, for an unknown field, which says where an option belongs that was given
 * in the wrong place, for an API key among the settings, and for two tools of one name.
 *
 * @example
 * ```ts
 * import { engine, openai } from "everturn";
 *
 * const agent = engine("openai:gpt-6.1-sol", { instructions: "Be brief." });
 * agent.model; // => "gpt-6.1-sol"
 * // The full form, with options of the adapter:
 * engine({ adapter: openai({ project: "p-1" }), model: "gpt-6.1-sol", instructions: "Be brief." });
 * ```
 */
export function engine<Context extends CallerContext = CallerContext, One extends Tool<Context> = Tool<Context>>(
  model: NamedModel,
  fields: Omit<EngineFields<Context>, "adapter" | "model"> & {
    readonly tools?: readonly One[];
  } & NeededContext<NoInfer<Context>>,
): Engine<Context> & TypedEngine<One>;
/** Builds an engine from its fields, or from the name of a model alone. */
export function engine<Context extends CallerContext = CallerContext, One extends Tool<Context> = Tool<Context>>(
  fields?: NamedModel | (EngineFields<Context> & { readonly tools?: readonly One[] } & NeededContext<NoInfer<Context>>),
): Engine<Context> & TypedEngine<One>;
export function engine(given: string | EngineFields = {}, others: EngineFields = {}): Engine {
  if (typeof given !== "string") return engineOfFields(given);
  for (const field of ["adapter", "model"] as const) {
    if (others[field] === undefined) continue;
    const message = `engine: ${JSON.stringify(given)} names the ${field}; leave out ${field}, or write engine({ adapter, model })`;
    throw invalidArgument(message, [field]);
  }
  const colon = given.indexOf(":");
  const prefix = colon === -1 ? "" : given.slice(0, colon);
  const named = providerNamed(prefix);
  const provider = providerNames.find((name) => name === named);
  if (provider === undefined) {
    const choices = `the providers are ${providerNames.join(", ")}`;
    const problem =
      colon === -1
        ? `name the provider before the model, such as "openai:gpt-6.1-sol", not ${JSON.stringify(given)}`
        : `there is no provider ${JSON.stringify(prefix)} with default options`;
    throw invalidArgument(`engine: ${problem}; ${choices}. For another one: engine({ adapter, model })`, ["model"]);
  }
  return engineOfFields({ ...others, adapter: adapterOf(provider), model: given.slice(colon + 1) });
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
