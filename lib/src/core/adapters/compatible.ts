// Adapters of servers that implement OpenAI's Chat Completions API; some of them implement the Responses API too. A
// server is data: a base URL, the variables of its key, and its `Quirks`. A new server is a new row of `presets`; a
// difference that no quirk describes is a new field of `Quirks` in `core/wire/codec.ts`.
//
// Quirks of the presets
//   ollama, llamaCpp, lmStudio   no field `strict`; no key
//   deepseek                     no JSON Schema, only `json_object`; `reasoning_content` required in replies with calls
//   mistral                      call ids of exactly 9 letters or digits; the seed is `random_seed`; no
//                                `stream_options`
//   groq                         `max_completion_tokens`; the others use `max_tokens`
//   openrouter                   more audio formats than WAV and MP3
//   xai                          calls of its own tools in `custom_tool_call` items (Responses API)

import type { Adapter, Rules } from "../engine/internal.ts";
import type { Quirks } from "../wire/internal.ts";
import type { OpenAIApi } from "./adapter-rules.ts";
import type { KeyHeader, ProviderOptions, ProviderProfile } from "./http-adapter.ts";

import { aName, aString } from "../engine/internal.ts";
import { invalidArgument } from "../model/internal.ts";
import { openaiChatLoader, openaiResponsesLoader } from "../wire/internal.ts";
import { apiRule, checkProviderOptions, quirkRules } from "./adapter-rules.ts";
import { compatibleServer } from "./base-url.ts";
import { httpAdapter } from "./http-adapter.ts";
import { modelFamilies, presetNames } from "./model-name.ts";

/** Options of {@link openaiCompatible}. */
export type CompatibleOptions = ProviderOptions & {
  /** The name of the provider in routes and failures, and of the key variable. Default: `compatible`. */
  readonly name?: string;
  /** How the server deviates from the API. Defaults: usage in streams, `max_tokens`, the role `system`. */
  readonly quirks?: Quirks;
};

/**
 * Any server that implements OpenAI's Chat Completions API. `baseURL` is required. The default API key is the
 * environment variable `<NAME>_API_KEY`; none is needed.
 */
export function openaiCompatible(options: CompatibleOptions & { readonly baseURL: string }): Adapter {
  checkProviderOptions("openaiCompatible", options, { name: aString, quirks: quirkRules });
  const { name = "compatible", quirks = {}, ...providerOptions } = options;
  return httpAdapter(
    {
      ...compatibleServer(name, providerOptions.baseURL),
      ownPrefixes: "any",
      codec: openaiChatLoader,
      quirks: { streamUsage: true, maxTokensField: "max_tokens", systemRole: "system", ...quirks },
    },
    providerOptions,
  );
}

type Preset = {
  readonly baseURL: string;
  /** Appended to the base URL of the environment variable, as the SDK of the server does. Default: nothing. */
  readonly basePath?: string;
  readonly variables: readonly string[];
  readonly auth?: KeyHeader;
  readonly keyless?: boolean;
  readonly quirks?: Quirks;
  /**
   * The server has the Responses API, with these quirks. Absent: it has not, or the library has not been checked with
   * it.
   */
  readonly responses?: Quirks;
};

/** The names that {@link preset} accepts. */
export type PresetName = (typeof presetNames)[number];

const presets: { readonly [Name in PresetName]: Preset } = {
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
    quirks: {
      reasoningField: "reasoning",
      audioFormats: ["wav", "mp3", "aac", "aiff", "flac", "m4a", "ogg"],
    },
  },
  groq: {
    baseURL: "https://api.groq.com/openai/v1",
    basePath: "/openai/v1",
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
      seedField: "random_seed",
    },
  },
  xai: {
    baseURL: "https://api.x.ai/v1",
    variables: ["XAI_API_KEY"],
    quirks: { reasoningField: "reasoning_content" },
    responses: { systemRole: "system", customCalls: "provider" },
  },
  together: {
    baseURL: "https://api.together.xyz/v1",
    variables: ["TOGETHER_API_KEY"],
    quirks: { reasoningField: "reasoning" },
  },
};

/**
 * A known server that implements OpenAI's Chat Completions API, by name. The default API key and base URL are
 * environment variables: `GROQ_API_KEY` and `GROQ_BASE_URL`, and so on. `api: "responses"` selects the Responses API,
 * which `xai` has; reasoning of Grok is kept between calls only there. Default of `api`: `chat`. Throws `MisuseError`
 * for an unknown name, and for a server without the selected API.
 */
export function preset(name: PresetName, options: ProviderOptions & { readonly api?: OpenAIApi } = {}): Adapter {
  if (!Object.hasOwn(presets, name)) {
    throw invalidArgument(`preset: unknown name "${name}"; valid names are ${presetNames.join(", ")}`);
  }
  checkProviderOptions(name, options, { api: apiRule });
  const { api = "chat", ...providerOptions } = options;
  const { baseURL, basePath = "", variables, auth = "bearer", keyless = false, quirks = {}, responses } = presets[name];
  if (api === "responses" && responses === undefined) {
    const message = `${name}: the preset has Chat Completions only; leave out api: "responses"`;
    throw invalidArgument(message, ["api"]);
  }
  return httpAdapter(
    {
      provider: name,
      ownPrefixes: keyless ? modelFamilies : [],
      codec: api === "responses" ? openaiResponsesLoader : openaiChatLoader,
      baseURL,
      baseURLVariables: variables.map((variable) => ({
        name: variable.replace(/_API_KEY$/, "_BASE_URL"),
        path: basePath,
      })),
      auth,
      variables,
      keyless,
      quirks:
        api === "responses"
          ? (responses ?? {})
          : { streamUsage: true, maxTokensField: "max_tokens", systemRole: "system", ...quirks },
    },
    providerOptions,
  );
}

/** Options of {@link azure}. */
type AzureOptions = ProviderOptions & {
  /** The name of the Azure resource: letters, digits and hyphens. It becomes part of the host name. */
  readonly resource: string;
  /** The name of the deployment. It is sent whatever model the engine names. */
  readonly deployment: string;
  /** The API: `responses`, or `chat` for Chat Completions. Default: `chat`. */
  readonly api?: OpenAIApi;
  /**
   * The query `api-version`. Default: `2025-04-01-preview` for Chat Completions; none for the Responses API, which is
   * versioned by its path.
   */
  readonly apiVersion?: string;
};

const azureRules = {
  resource: {
    must: "a resource name of letters, digits and hyphens",
    fits: (value) => typeof value === "string" && /^[a-z\d-]+$/i.test(value),
    show: JSON.stringify,
    required: true,
  },
  deployment: { ...aName, must: "the name of a deployment", required: true },
  api: apiRule,
  apiVersion: aString,
} satisfies Rules<Omit<AzureOptions, keyof ProviderOptions>>;

/**
 * A deployment on Azure OpenAI, by Chat Completions (`/openai/deployments/<deployment>/chat/completions`, the default)
 * or the Responses API (`/openai/v1/responses`). The default API key is the environment variable
 * `AZURE_OPENAI_API_KEY`. The name of a deployment says nothing about its model: name the model itself in the engine,
 * so that the library knows whether it reasons.
 */
export function azure(options: AzureOptions): Adapter {
  checkProviderOptions("azure", options, azureRules);
  const { resource, deployment, api = "chat", apiVersion, ...providerOptions } = options;
  const server = `https://${resource}.openai.azure.com/openai`;
  const common = {
    provider: "azure",
    baseURLVariables: [],
    auth: "api-key",
    variables: ["AZURE_OPENAI_API_KEY"],
  } as const;
  const profile: ProviderProfile =
    api === "responses"
      ? {
          ...common,
          codec: openaiResponsesLoader,
          baseURL: `${server}/v1`,
          query: apiVersion === undefined ? "" : versionQuery(apiVersion),
          sentModel: deployment,
        }
      : {
          ...common,
          codec: openaiChatLoader,
          baseURL: `${server}/deployments/${encodeURIComponent(deployment)}`,
          query: versionQuery(apiVersion ?? "2025-04-01-preview"),
          quirks: { streamUsage: true, maxTokensField: "max_completion_tokens" },
        };
  return httpAdapter(profile, providerOptions);
}

function versionQuery(version: string): string {
  return `?api-version=${encodeURIComponent(version)}`;
}
