// The providers that a model can be named with, and which variables hold their keys. Names only: a key is looked up by its adapter, when a call is made.

import type { preset } from "everturn";

import { SettingsError } from "./setting-readers.ts";

type PresetName = Parameters<typeof preset>[0];
export type ProviderName = "anthropic" | "openai" | "gemini" | PresetName;

export type KnownProvider = {
  /** Variables that may hold the key. */
  readonly keys: readonly string[];
  /** Variables that may say where it is. */
  readonly addresses: readonly string[];
  /** Works without a key: a server of one's own. */
  readonly keyless: boolean;
  /** What is used when the key is there and no model is named; `null`: one has to be named. */
  readonly model: string | null;
};

function hosted(prefix: string, model: string | null = null): KnownProvider {
  return { keys: [`${prefix}_API_KEY`], addresses: [`${prefix}_BASE_URL`], keyless: false, model };
}

function own(prefix: string): KnownProvider {
  return { ...hosted(prefix), keyless: true };
}

/** In the order in which a default is looked for. */
export const knownProviders: { readonly [Name in ProviderName]: KnownProvider } = {
  anthropic: hosted("ANTHROPIC", "claude-sonnet-5-5"),
  openai: hosted("OPENAI", "gpt-6.1-sol"),
  gemini: { ...hosted("GEMINI", "gemini-3.8-flash"), keys: ["GEMINI_API_KEY", "GOOGLE_API_KEY"] },
  openrouter: hosted("OPENROUTER"),
  groq: hosted("GROQ"),
  deepseek: hosted("DEEPSEEK"),
  mistral: hosted("MISTRAL"),
  xai: hosted("XAI"),
  together: hosted("TOGETHER"),
  ollama: own("OLLAMA"),
  vllm: own("VLLM"),
  llamaCpp: own("LLAMA"),
  lmStudio: own("LMSTUDIO"),
};

export const offlineModel = "offline:demo";

type Variables = { readonly [name: string]: string | undefined };

/** The variable that holds the provider's key; `null` when none does. */
export function keyVariable({ keys }: KnownProvider, environment: Variables): string | null {
  return keys.find((name) => (environment[name] ?? "").trim() !== "") ?? null;
}

/** The model of the first provider whose key is there, or the offline one. */
export function defaultModel(environment: Variables): { readonly value: string; readonly why: string } {
  for (const [name, provider] of Object.entries(knownProviders)) {
    const variable = keyVariable(provider, environment);
    if (provider.model !== null && variable !== null) {
      return { value: `${name}:${provider.model}`, why: `${variable} is set` };
    }
  }
  return { value: offlineModel, why: "no key is set" };
}

/**
 * Where the environment says a provider is. The address of Anthropic is the one its own SDK takes, without the version; the others are whole.
 */
export function addressIn(name: string, { addresses }: KnownProvider, environment: Variables): string | null {
  const variable = addresses.find((name) => (environment[name] ?? "").trim() !== "");
  if (variable === undefined) return null;
  const url = (environment[variable] ?? "").trim().replace(/\/+$/, "");
  if (!/^https?:\/\//.test(url)) {
    throw new SettingsError(`${variable} has to be an address that begins with http:// or https://`);
  }
  return name === "anthropic" && !url.endsWith("/v1") ? `${url}/v1` : url;
}
