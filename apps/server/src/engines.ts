// The engine that the settings describe: one adapter for every provider, the tools of the user's modules, or the offline model with tools of its own.

import type { ProviderName } from "./known-providers.ts";
import type { Environment, Settings } from "./settings.ts";
import type { Adapter, Engine, Tool } from "everturn";

import { anthropic, catalog, engine, gemini, openai, openaiCompatible, preset, providers } from "everturn";

import { addressIn, keyVariable, knownProviders, offlineModel } from "./known-providers.ts";
import { offline } from "./offline-model.ts";
import { offlineTools } from "./offline-tools.ts";
import { SettingsError } from "./setting-readers.ts";
import { loadTools } from "./tools-module.ts";

/** The engine as it is set. Imports the user's tools; calls nobody. */
export async function createEngine(settings: Settings, environment: Environment = process.env): Promise<Engine> {
  const model = settings.model.value;
  const own = await loadTools(settings.tools.value);
  const tools = isOffline(model) ? withoutDoubles([...own, ...offlineTools({ paceMs: settings.pace.value })]) : own;
  return engine({
    adapter: createAdapter(settings, environment),
    model,
    tools,
    catalog: catalog(),
    instructions: settings.instructions.value,
    options: { maxTurns: settings.maxTurns.value },
  });
}

/** The variables that could hold the key this model needs, where none of them does; `null`: it needs none, or has one. */
export function missingKey(model: string, environment: Environment): readonly string[] | null {
  const [name] = model.split(":");
  const provider = Object.entries(knownProviders).find(([known]) => known === name)?.[1];
  if (provider === undefined || provider.keyless || keyVariable(provider, environment) !== null) return null;
  return provider.keys;
}

export function isOffline(model: string): boolean {
  return model.startsWith("offline:");
}

/** A tool of the user's goes before one that is only there to try things with. */
function withoutDoubles(tools: readonly Tool[]): readonly Tool[] {
  return tools.filter(({ name }, index) => tools.findIndex((other) => other.name === name) === index);
}

function createAdapter({ model, baseUrls, pace }: Settings, environment: Environment): Adapter {
  const known = knownAdapters((name) => {
    const baseURL = baseUrls.value[name] ?? addressIn(name, knownProviders[name], environment);
    return baseURL === null ? {} : { baseURL };
  });
  const others = Object.entries(baseUrls.value)
    .filter(([name]) => !Object.hasOwn(known, name))
    .map(([name, baseURL]): [string, Adapter] => [name, openaiCompatible({ name, baseURL })]);
  const all = { ...known, ...Object.fromEntries(others), offline: offline({ paceMs: pace.value }) };
  checkModel(model.value, Object.keys(all), model.source.name);
  return providers(all);
}

type Where = (name: ProviderName) => { readonly baseURL?: string };

function knownAdapters(where: Where): { readonly [Name in ProviderName]: Adapter } {
  return {
    anthropic: anthropic(where("anthropic")),
    openai: openai(where("openai")),
    gemini: gemini(where("gemini")),
    openrouter: preset("openrouter", where("openrouter")),
    groq: preset("groq", where("groq")),
    deepseek: preset("deepseek", where("deepseek")),
    mistral: preset("mistral", where("mistral")),
    xai: preset("xai", where("xai")),
    together: preset("together", where("together")),
    ollama: preset("ollama", where("ollama")),
    vllm: preset("vllm", where("vllm")),
    llamaCpp: preset("llamaCpp", where("llamaCpp")),
    lmStudio: preset("lmStudio", where("lmStudio")),
  };
}

/** A model is named with its provider, so that a typo is found before anything is asked. */
function checkModel(model: string, names: readonly string[], source: string): void {
  const [provider = "", ...rest] = model.split(":");
  const isKnown = names.includes(provider) && rest.join(":") !== "";
  if (isKnown && (provider !== "offline" || model === offlineModel)) return;
  const known = names.filter((name) => name !== "offline").map((name) => `${name}:…`);
  throw new SettingsError(
    `no model ${JSON.stringify(model)} (${source}): name it with its provider, ${[...known, offlineModel].join(", ")}`,
  );
}
