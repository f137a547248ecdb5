// Builds the engines from the settings: those of the configuration file, or one engine with the model of the settings.
//
// Rules for the engines of a configuration file
//   1. An engine without an adapter gets the adapter and the model of the settings: one adapter that routes to every
//      known provider by the prefix of the model name. `--model` and `EVERTURN_MODEL` replace adapter and model of the
//      selected engine (`--engine`, by default `default`) even if it has its own.
//   2. Instructions, `maxTurns` and `whenBusy` from a flag or a variable apply to the selected engine; from the file
//      they apply to engines that do not say.
//   3. The tools of the settings are added to every engine. Two tools of one name are an error.
//   4. With the offline model, an engine that has no tools gets the demonstration tools.

import type { ProviderName } from "./known-providers.ts";
import type { Environment, Setting, Settings } from "./settings.ts";
import type { WarnTools } from "./tools-module.ts";
import type { Adapter, Engine, Tool } from "everturn";

import { anthropic, azure, catalog, engine, gemini, openai, openaiCompatible, preset, providers } from "everturn";

import { addressIn, keyVariable, knownProviders, offlineModel } from "./known-providers.ts";
import { offline } from "./offline-model.ts";
import { offlineTools } from "./offline-tools.ts";
import { SettingsError } from "./setting-readers.ts";
import { loadTools } from "./tools-module.ts";

/** The engines of a process, by name. */
export type Engines = {
  readonly engines: { readonly [name: string]: Engine };
  /** The name of the engine that `chat` and `run` use. */
  readonly selected: string;
  /** Its model, for people. */
  readonly model: string;
  /**
   * Whether the command makes the calls of that model, not an adapter of the configuration file. The model then needs
   * its API key.
   */
  readonly isCommandModel: boolean;
};

/**
 * Builds the engines. Imports the user's tool modules; sends no request. `warn` receives messages about exports of tool
 * modules that are not used. Throws `SettingsError` for an unknown model or engine.
 */
export async function createEngines(
  settings: Settings,
  environment: Environment = process.env,
  warn?: WarnTools,
): Promise<Engines> {
  const userTools = await loadTools(settings.tools.value, warn);
  const { program, engine: selectedSetting } = settings;
  const selected = selectedSetting.value;
  if (program.engines === null) {
    if (selected !== "default") throw unknownEngine(selectedSetting, ["default"]);
    const built = { default: builtInEngine(settings, environment, userTools) };
    return { engines: built, selected, model: settings.model.value, isCommandModel: true };
  }
  if (!Object.hasOwn(program.engines, selected)) throw unknownEngine(selectedSetting, Object.keys(program.engines));
  const engines: { [name: string]: Engine } = {};
  for (const [name, own] of Object.entries(program.engines)) {
    const isSelected = name === selected;
    engines[name] = configuredEngine(name, own, { settings, environment, userTools, isSelected });
  }
  const isCommandModel = engines[selected]?.adapter !== program.engines[selected]?.adapter;
  return { engines, selected, model: modelName(engines[selected]?.model ?? null), isCommandModel };
}

/**
 * Builds the engine of the settings alone, without those of a configuration file. Imports the user's tool modules.
 * Throws as `createEngines`.
 */
export async function createEngine(settings: Settings, environment: Environment = process.env): Promise<Engine> {
  return builtInEngine(settings, environment, await loadTools(settings.tools.value));
}

function builtInEngine(settings: Settings, environment: Environment, userTools: readonly Tool[]): Engine {
  return engine({
    adapter: createAdapter(settings, environment),
    model: settings.model.value,
    tools: withOfflineTools(settings, userTools),
    catalog: catalog(),
    instructions: settings.instructions.value,
    options: { maxTurns: settings.maxTurns.value },
    whenBusy: settings.whenBusy.value,
  });
}

type Configured = {
  readonly settings: Settings;
  readonly environment: Environment;
  readonly userTools: readonly Tool[];
  readonly isSelected: boolean;
};

/** An engine of the configuration file, completed from the settings. */
function configuredEngine(
  name: string,
  own: Engine,
  { settings, environment, userTools, isSelected }: Configured,
): Engine {
  const repeated = userTools.find((tool) => own.tools.some((other) => other.name === tool.name && other !== tool));
  if (repeated !== undefined) {
    throw new SettingsError(`tools: the engine ${name} has a tool named "${repeated.name}" already`);
  }
  const added = userTools.filter((tool) => !own.tools.includes(tool));
  const { instructions, maxTurns, whenBusy } = settings;
  const maxTurnsOption = chosen<number | null>(maxTurns, own.options.maxTurns ?? null, isSelected);
  const completed: Engine = {
    ...own,
    tools: [...own.tools, ...added],
    instructions: chosen(instructions, own.instructions, isSelected),
    whenBusy: chosen(whenBusy, own.whenBusy, isSelected),
    options: maxTurnsOption === null ? own.options : { ...own.options, maxTurns: maxTurnsOption },
  };
  const isReplaced = isSelected && isExplicit(settings.model);
  if (own.adapter !== null && !isReplaced) return completed;
  // An engine without an adapter may name its model: `engine({ model: "openai:gpt-6.1-sol", … })`.
  const model = isReplaced ? settings.model.value : (own.model ?? settings.model.value);
  const source = model === own.model ? ({ from: "config", name: `engines.${name}` } as const) : settings.model.source;
  const named = { ...settings, model: { value: modelName(model), source } };
  const tools = completed.tools.length === 0 ? withOfflineTools(named, []) : completed.tools;
  return { ...completed, adapter: createAdapter(named, environment), model, tools };
}

/**
 * A flag or a variable applies to the selected engine; a value of the file applies if the engine has none; a default
 * never.
 */
function chosen<T>(setting: Setting<T | null>, own: T | null, isSelected: boolean): T | null {
  if (isSelected && isExplicit(setting)) return setting.value;
  return own ?? (setting.source.from === "config" ? setting.value : null);
}

/** Whether the user named the value for this process, by a flag or a variable. */
function isExplicit({ source }: Setting<unknown>): boolean {
  return source.from === "flag" || source.from === "environment";
}

function unknownEngine({ value, source }: Setting<string>, names: readonly string[]): SettingsError {
  return new SettingsError(
    `there is no engine ${JSON.stringify(value)} (${source.name}); the engines are ${names.join(", ")}. Engines are defined in a configuration file`,
  );
}

/** The name of a model, for people. */
function modelName(model: Engine["model"]): string {
  if (model === null) return "no model";
  return typeof model === "string" ? model : (model.id ?? "an unnamed model");
}

/** The tools with the demonstration tools if the model is offline. */
function withOfflineTools({ model, pace }: Settings, tools: readonly Tool[]): readonly Tool[] {
  return isOffline(model.value) ? withoutDuplicates([...tools, ...offlineTools({ paceMs: pace.value })]) : tools;
}

/**
 * Returns the variables of the API key that this model needs and that are not set; `null`: a key is set, or none is
 * needed.
 */
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
  const addressOf = (name: ProviderName) => baseUrls.value[name] ?? addressIn(name, knownProviders[name], environment);
  const builtIn = {
    ...knownAdapters((name) => {
      const baseURL = addressOf(name);
      return baseURL === null ? {} : { baseURL };
    }),
    azure: azureAdapter(addressOf("azure"), environment["OPENAI_API_VERSION"] || undefined),
  };
  if (model.value.startsWith("azure:") && addressOf("azure") === null) {
    throw new SettingsError(
      `${model.value} (${model.source.name}) needs the address of the resource: set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com`,
    );
  }
  const others = Object.entries(baseUrls.value)
    .filter(([name]) => !Object.hasOwn(builtIn, name))
    .map(([name, baseURL]): [string, Adapter] => [name, openaiCompatible({ name, baseURL })]);
  const all = { ...builtIn, ...Object.fromEntries(others), offline: offline({ paceMs: pace.value }) };
  checkModel(model.value, Object.keys(all), model.source.name);
  return providers(all);
}

type BaseUrlOption = (name: ProviderName) => { readonly baseURL?: string };

/**
 * Deployments on Azure OpenAI, by Chat Completions: the name of the model is the name of the deployment. `endpoint`:
 * the address of the resource, without a path.
 */
function azureAdapter(endpoint: string | null, apiVersion: string | undefined): Adapter {
  return {
    provider: "azure",
    stream: (request, call) => {
      const deployment = modelName(request.model);
      const baseURL = `${endpoint ?? ""}/openai/deployments/${encodeURIComponent(deployment)}`;
      const version = apiVersion === undefined ? {} : { apiVersion };
      // The base URL replaces the one that follows from the resource.
      return azure({ resource: "endpoint", deployment, baseURL, ...version }).stream(request, call);
    },
  };
}

function knownAdapters(baseUrl: BaseUrlOption): { readonly [Name in Exclude<ProviderName, "azure">]: Adapter } {
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
