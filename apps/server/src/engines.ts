// Builds the engine from the settings: one adapter that routes to every known provider by the prefix of the model name, the tools of the user's
// modules, and, for the offline model, its demonstration tools.

import type { ProviderName } from "./known-providers.ts";
import type { Environment, Settings } from "./settings.ts";
import type { WarnTools } from "./tools-module.ts";
import type { Adapter, Engine, Tool } from "everturn";

import { anthropic, catalog, engine, gemini, openai, openaiCompatible, preset, providers } from "everturn";

import { addressIn, keyVariable, knownProviders, offlineModel } from "./known-providers.ts";
import { offline } from "./offline-model.ts";
import { offlineTools } from "./offline-tools.ts";
import { SettingsError } from "./setting-readers.ts";
import { loadTools } from "./tools-module.ts";

/**
 * Builds the engine. Imports the user's tool modules; sends no request. `warn` receives messages about exports of tool modules that are not used.
 * Throws `SettingsError` for an unknown model.
 */
export async function createEngine(
  settings: Settings,
  environment: Environment = process.env,
  warn?: WarnTools,
): Promise<Engine> {
  const model = settings.model.value;
  const userTools = await loadTools(settings.tools.value, warn);
  const tools = isOffline(model)
    ? withoutDuplicates([...userTools, ...offlineTools({ paceMs: settings.pace.value })])
    : userTools;
  return engine({
    adapter: createAdapter(settings, environment),
    model,
    tools,
    catalog: catalog(),
    instructions: settings.instructions.value,
    options: { maxTurns: settings.maxTurns.value },
    whenBusy: settings.whenBusy.value,
  });
}

/** Returns the variables of the API key that this model needs and that are not set; `null`: a key is set, or none is needed. */
export function missingKey(model: string, environment: Environment): readonly string[] | null {
  const [name] = model.split(":");
  const provider = Object.entries(knownProviders).find(([providerName]) => providerName === name)?.[1];
  if (provider === undefined || provider.keyless || keyVariable(provider, environment) !== null) return null;
  return provider.keys;
}

export function isOffline(model: string): boolean {
  return model.startsWith("offline:");
}

/** Keeps the first tool of each name: a user's tool replaces a demonstration tool. */
function withoutDuplicates(tools: readonly Tool[]): readonly Tool[] {
  return tools.filter(({ name }, index) => tools.findIndex((other) => other.name === name) === index);
}

function createAdapter({ model, baseUrls, pace }: Settings, environment: Environment): Adapter {
  const builtIn = knownAdapters((name) => {
    const baseURL = baseUrls.value[name] ?? addressIn(name, knownProviders[name], environment);
    return baseURL === null ? {} : { baseURL };
  });
  const others = Object.entries(baseUrls.value)
    .filter(([name]) => !Object.hasOwn(builtIn, name))
    .map(([name, baseURL]): [string, Adapter] => [name, openaiCompatible({ name, baseURL })]);
  const all = { ...builtIn, ...Object.fromEntries(others), offline: offline({ paceMs: pace.value }) };
  checkModel(model.value, Object.keys(all), model.source.name);
  return providers(all);
}

type BaseUrlOption = (name: ProviderName) => { readonly baseURL?: string };

function knownAdapters(baseUrl: BaseUrlOption): { readonly [Name in ProviderName]: Adapter } {
  return {
    anthropic: anthropic(baseUrl("anthropic")),
    openai: openai(baseUrl("openai")),
    gemini: gemini(baseUrl("gemini")),
    openrouter: preset("openrouter", baseUrl("openrouter")),
    groq: preset("groq", baseUrl("groq")),
    deepseek: preset("deepseek", baseUrl("deepseek")),
    mistral: preset("mistral", baseUrl("mistral")),
    xai: preset("xai", baseUrl("xai")),
    together: preset("together", baseUrl("together")),
    ollama: preset("ollama", baseUrl("ollama")),
    vllm: preset("vllm", baseUrl("vllm")),
    llamaCpp: preset("llamaCpp", baseUrl("llamaCpp")),
    lmStudio: preset("lmStudio", baseUrl("lmStudio")),
  };
}

/** Checks the provider prefix of a model name, so that a typing error is reported before a request is sent. */
function checkModel(model: string, names: readonly string[], source: string): void {
  const [provider = "", ...modelParts] = model.split(":");
  const isKnown = names.includes(provider) && modelParts.join(":") !== "";
  if (isKnown && (provider !== "offline" || model === offlineModel)) return;
  const prefixes = names.filter((name) => name !== "offline").map((name) => `${name}:…`);
  throw new SettingsError(
    `unknown model ${JSON.stringify(model)} (${source}): use PROVIDER:MODEL, one of ${[...prefixes, offlineModel].join(", ")}`,
  );
}
