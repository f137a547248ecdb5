// Servers that speak OpenAI's Chat Completions: a base URL, a key header, and how they differ, as data.

import type { Adapter } from "../engine/internal.ts";
import type { Quirks } from "../wire/internal.ts";
import type { KeyHeader, ProviderOptions } from "./http-adapter.ts";

import { MisuseError } from "../model/internal.ts";
import { openaiChat } from "../wire/internal.ts";
import { httpAdapter } from "./http-adapter.ts";

export type CompatibleOptions = ProviderOptions & {
  /** What it is called in routes, failures and keys. */
  readonly name?: string;
  readonly quirks?: Quirks;
};

/**
 * Any server that implements OpenAI's Chat Completions API. `baseURL` is required. The default API key is the
 * environment variable `<NAME>_API_KEY`; none is needed.
 */
export function openaiCompatible({
  name = "compatible",
  quirks = {},
  ...options
}: CompatibleOptions & { readonly baseURL: string }): Adapter {
  return httpAdapter(
    {
      provider: name,
      codec: openaiChat,
      baseURL: options.baseURL,
      auth: "bearer",
      variables: [`${name.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_")}_API_KEY`],
      keyless: true,
      quirks: { streamUsage: true, maxTokensField: "max_tokens", systemRole: "system", ...quirks },
    },
    options,
  );
}

type Preset = {
  readonly baseURL: string;
  readonly variables: readonly string[];
  readonly auth?: KeyHeader;
  readonly keyless?: boolean;
  readonly quirks?: Quirks;
};

const presets = {
  ollama: {
    baseURL: "http://localhost:11434/v1",
    variables: ["OLLAMA_API_KEY"],
    keyless: true,
    quirks: { reasoningField: "reasoning", strict: false },
  },
  vllm: {
    baseURL: "http://localhost:8000/v1",
    variables: ["VLLM_API_KEY"],
    keyless: true,
    quirks: { reasoningField: "reasoning_content" },
  },
  llamaCpp: {
    baseURL: "http://localhost:8080/v1",
    variables: ["LLAMA_API_KEY"],
    keyless: true,
    quirks: { reasoningField: "reasoning_content", strict: false },
  },
  lmStudio: {
    baseURL: "http://localhost:1234/v1",
    variables: ["LMSTUDIO_API_KEY"],
    keyless: true,
    quirks: { reasoningField: "reasoning_content", strict: false },
  },
  openrouter: {
    baseURL: "https://openrouter.ai/api/v1",
    variables: ["OPENROUTER_API_KEY"],
    quirks: { reasoningField: "reasoning" },
  },
  groq: {
    baseURL: "https://api.groq.com/openai/v1",
    variables: ["GROQ_API_KEY"],
    quirks: { reasoningField: "reasoning", maxTokensField: "max_completion_tokens" },
  },
  deepseek: {
    baseURL: "https://api.deepseek.com/v1",
    variables: ["DEEPSEEK_API_KEY"],
    quirks: { reasoningField: "reasoning_content", jsonSchema: false, strict: false },
  },
  mistral: {
    baseURL: "https://api.mistral.ai/v1",
    variables: ["MISTRAL_API_KEY"],
    quirks: {
      streamUsage: false,
      callIds: { maxLength: 9, pattern: "letters_and_digits", exact: true },
      without: ["seed", "parallel_tool_calls"],
    },
  },
  xai: { baseURL: "https://api.x.ai/v1", variables: ["XAI_API_KEY"], quirks: { reasoningField: "reasoning_content" } },
  together: {
    baseURL: "https://api.together.xyz/v1",
    variables: ["TOGETHER_API_KEY"],
    quirks: { reasoningField: "reasoning" },
  },
} as const satisfies { readonly [name: string]: Preset };

export type PresetName = keyof typeof presets;

/** A known server that implements OpenAI's Chat Completions API, by name. Throws `MisuseError` for an unknown name. */
export function preset(name: PresetName, options: ProviderOptions = {}): Adapter {
  if (!Object.hasOwn(presets, name)) {
    throw new MisuseError(
      "invalid_argument",
      `preset: "${name}" is not known; there are ${Object.keys(presets).join(", ")}`,
    );
  }
  const known: Preset = presets[name];
  const { baseURL, variables, auth = "bearer", keyless = false, quirks = {} } = known;
  return httpAdapter(
    {
      provider: name,
      codec: openaiChat,
      baseURL,
      auth,
      variables,
      keyless,
      quirks: { streamUsage: true, maxTokensField: "max_tokens", systemRole: "system", ...quirks },
    },
    options,
  );
}

/** A deployment on Azure OpenAI: its own address, an `api-key` header and an API version. */
export function azure({
  resource,
  deployment,
  apiVersion = "2025-04-01-preview",
  ...options
}: ProviderOptions & {
  readonly resource: string;
  readonly deployment: string;
  readonly apiVersion?: string;
}): Adapter {
  if (!/^[a-z\d-]+$/i.test(resource)) {
    const message = `azure: resource is the name of one, of letters, digits and hyphens, and is ${JSON.stringify(resource)}`;
    throw new MisuseError("invalid_argument", message, { path: ["resource"] });
  }
  return httpAdapter(
    {
      provider: "azure",
      codec: openaiChat,
      baseURL: `https://${resource}.openai.azure.com/openai/deployments/${encodeURIComponent(deployment)}`,
      auth: "api-key",
      variables: ["AZURE_OPENAI_API_KEY"],
      query: `?api-version=${encodeURIComponent(apiVersion)}`,
      quirks: { streamUsage: true, maxTokensField: "max_completion_tokens" },
    },
    options,
  );
}
