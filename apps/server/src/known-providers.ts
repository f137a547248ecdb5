// The model providers that the command knows, and the environment variables of their API keys and base URLs. This file
// holds names only: an adapter looks up its key for each call.

import type { preset } from "everturn";

import { SettingsError } from "./setting-readers.ts";

type PresetName = Parameters<typeof preset>[0];
export type ProviderName = "anthropic" | "openai" | "gemini" | "azure" | PresetName;

/** A provider and its environment variables. */
export type KnownProvider = {
  /** Variables of the API key, in order of precedence. */
  readonly keys: readonly string[];
  /** Variables of the base URL, in order of precedence. */
  readonly addresses: readonly string[];
  /** Whether it works without a key, as self-hosted servers do. */
  readonly keyless: boolean;
  /** The default model when the key is set and no model is configured; `null`: the provider is never the default. */
  readonly model: string | null;
};

function hosted(prefix: string, model: string | null = null): KnownProvider {
  return { keys: [`${prefix}_API_KEY`], addresses: [`${prefix}_BASE_URL`], keyless: false, model };
}

function selfHosted(prefix: string): KnownProvider {
  return { ...hosted(prefix), keyless: true };
}

/** All known providers. The order decides which one is the default if several keys are set. */
export const knownProviders: { readonly [Name in ProviderName]: KnownProvider } = {
  anthropic: hosted("ANTHROPIC", "claude-sonnet-5-5"),
  openai: hosted("OPENAI", "gpt-6.1-sol"),
  gemini: { ...hosted("GEMINI", "gemini-3.8-flash"), keys: ["GEMINI_API_KEY", "GOOGLE_API_KEY"] },
  // The model name is the name of a deployment.
  azure: { ...hosted("AZURE_OPENAI"), addresses: ["AZURE_OPENAI_ENDPOINT"] },
  openrouter: hosted("OPENROUTER"),
  groq: hosted("GROQ"),
  deepseek: hosted("DEEPSEEK"),
  mistral: hosted("MISTRAL"),
  xai: hosted("XAI"),
  together: hosted("TOGETHER"),
  ollama: { ...selfHosted("OLLAMA"), addresses: ["OLLAMA_BASE_URL", "OLLAMA_HOST"] },
  vllm: selfHosted("VLLM"),
  llamaCpp: selfHosted("LLAMA"),
  lmStudio: selfHosted("LMSTUDIO"),
};

/** The built-in scripted model, which needs no key and no network. */
export const offlineModel = "offline:demo";

type Variables = { readonly [name: string]: string | undefined };

/** Returns the name of the variable that contains the provider's key; `null`: none is set. */
export function keyVariable({ keys }: KnownProvider, environment: Variables): string | null {
  return keys.find((name) => (environment[name] ?? "").trim() !== "") ?? null;
}

/** Returns the default model of the first provider whose key is set, else the offline model, with the reason. */
export function defaultModel(environment: Variables): { readonly value: string; readonly why: string } {
  for (const [name, provider] of Object.entries(knownProviders)) {
    const variable = keyVariable(provider, environment);
    if (provider.model !== null && variable !== null) {
      return { value: `${name}:${provider.model}`, why: `${variable} is set` };
    }
  }
  return { value: offlineModel, why: "no API key is set" };
}

/**
 * Returns the base URL of a provider from the environment; `null`: none is set. `ANTHROPIC_BASE_URL` has no version, as
 * in Anthropic's SDK, so `/v1` is appended; `OLLAMA_HOST` is completed as Ollama does (`hostAddress`); the others are
 * used as they are.
 */
export function addressIn(name: string, { addresses }: KnownProvider, environment: Variables): string | null {
  const variable = addresses.find((name) => (environment[name] ?? "").trim() !== "");
  if (variable === undefined) return null;
  const text = (environment[variable] ?? "").trim().replace(/\/+$/, "");
  const url = variable === "OLLAMA_HOST" ? hostAddress(text) : text;
  if (!/^https?:\/\//.test(url)) {
    throw new SettingsError(`${variable} has to be a URL that begins with http:// or https://`);
  }
  return name === "anthropic" && !url.endsWith("/v1") ? `${url}/v1` : url;
}

/**
 * The base URL for a value of `OLLAMA_HOST`, by Ollama's rules: the scheme is `http` by default; the port is 11434, or
 * that of the scheme if one is given; a host that is left out is this machine. `0.0.0.0` and `[::]` are addresses that
 * a server listens on, and mean this machine too. `/v1` is the path of the Chat Completions API.
 */
function hostAddress(text: string): string {
  const hasScheme = /^https?:\/\//.test(text);
  const [, host = "", port = "", path = ""] =
    /^(\[[^\]]*\]|[^:/]*)(?::(\d+))?(\/.*)?$/.exec(text.replace(/^https?:\/\//, "")) ?? [];
  const scheme = text.startsWith("https://") ? "https" : "http";
  const name = host === "" || host === "0.0.0.0" ? "127.0.0.1" : host === "[::]" ? "[::1]" : host;
  const suffix = port !== "" ? `:${port}` : hasScheme ? "" : ":11434";
  return `${scheme}://${name}${suffix}${path}/v1`;
}
