// Provider options: fields of one provider's API, attached to the message, part, tool, call or request that they belong
// to.
//
// Theory of operation
//   `providerOptions` is an object keyed by provider name. Its fields have the API's own names. The codec of that
//   provider merges them into the JSON object that the value becomes, after its own fields, so an option overrides a
//   field of the same name. Codecs of other providers ignore them.
//
//     imagePart(chart, { providerOptions: { anthropic: { cache_control: { type: "ephemeral" } } } })
//     → { "type": "image", "source": …, "cache_control": { "type": "ephemeral" } }
//
//   The fields that this file declares are typed and checked. All other fields are open JSON: a new field of an API
//   needs no new release.
//
// Invariants
//   1. Options are stored with their message and sent again with every request that contains it. They hold no
//      credentials (`settings`).
//   2. The field is absent if there are no options, unlike other fields without a value, which are `null`: the digest
//      of a history and the recorded effects of a turn cover the JSON of messages and calls, so turns that an older
//      release has started must keep their JSON (docs/decisions/0004).
//   3. Reasoning has no options, because it is signed and is sent back unchanged.

import type { JsonObject } from "../parse/json.ts";
import type { OptionalField, Shape } from "../parse/shape.ts";

import {
  array,
  boolean,
  count,
  jsonObject,
  nullable,
  number,
  oneOf,
  openObject,
  optional,
  settings,
  string,
} from "../parse/shape.ts";

/** A cache breakpoint of Anthropic: the prompt up to and including the block is cached. A request may have four. */
export type CacheControl = JsonObject & {
  readonly type: "ephemeral";
  /** How long the prefix stays cached after its last use. Default: `5m`. */
  readonly ttl?: "5m" | "1h";
};

/** A cache breakpoint of OpenAI: the exact end of a prompt prefix to cache. */
export type PromptCacheBreakpoint = JsonObject & {
  readonly mode: "explicit";
  /** The least time that the prefix stays cached, for example `30m`. Default: that of the request. */
  readonly ttl?: string;
};

/** Anthropic's fields of a content block. */
export type AnthropicPartOptions = JsonObject & {
  /** A cache breakpoint after this block. */
  readonly cache_control?: CacheControl | null;
  /** Documents and search results: whether the model cites them. Default: not. */
  readonly citations?: (JsonObject & { readonly enabled?: boolean }) | null;
  /** Documents: text about the document that the model reads and does not cite. */
  readonly context?: string | null;
  /** Documents: the title. Default: the name of the file. */
  readonly title?: string | null;
  /**
   * Text parts: another type of block, for example `search_result`. The options are then the whole block, and other
   * providers get the text.
   */
  readonly type?: string;
};

/** Fields of a content part in OpenAI's APIs. */
export type OpenAIPartOptions = JsonObject & {
  /**
   * The resolution at which the model looks at an image or at the pages of a file. Overrides `detail` of an image part.
   */
  readonly detail?: string;
  /** A cache breakpoint after this part. */
  readonly prompt_cache_breakpoint?: PromptCacheBreakpoint | null;
};

/** Gemini's fields of a part. */
export type GeminiPartOptions = JsonObject & {
  /** The section of a video that the model sees, and the frames per second. */
  readonly videoMetadata?: JsonObject & {
    /** Frames per second, above 0 and at most 24. Default: 1. */
    readonly fps?: number;
    /** The start of the section, in seconds: `"90s"`. Default: the beginning. */
    readonly startOffset?: string;
    /** The end of the section, in seconds: `"125.5s"`. Default: the end. */
    readonly endOffset?: string;
  };
  /** The resolution of the media, as a level (`MEDIA_RESOLUTION_HIGH`) or in tokens. */
  readonly mediaResolution?: JsonObject & { readonly level?: string; readonly numTokens?: number };
};

/** OpenRouter's fields of a content part. */
export type OpenRouterPartOptions = JsonObject & {
  /** A cache breakpoint after this part, for models of Anthropic and Google. */
  readonly cache_control?: CacheControl | null;
};

/** Options of a part, by provider. */
export type PartProviderOptions = ByProvider & {
  readonly anthropic?: AnthropicPartOptions;
  readonly openai?: OpenAIPartOptions;
  readonly azure?: OpenAIPartOptions;
  readonly gemini?: GeminiPartOptions;
  readonly openrouter?: OpenRouterPartOptions;
};

/** Anthropic's options of a message. The API has no fields on a message, so they are merged into its last block. */
export type AnthropicMessageOptions = JsonObject & {
  /** A cache breakpoint after the message. */
  readonly cache_control?: CacheControl | null;
};

/** Fields of a message in APIs with Chat Completions. */
export type ChatMessageOptions = JsonObject & {
  /** The name of the author. `name` of the message is the same for all providers. */
  readonly name?: string;
};

/** Fields of a message of DeepSeek and Mistral. */
export type PrefixMessageOptions = ChatMessageOptions & {
  /**
   * The last message of the request, from the assistant: the reply continues its text. DeepSeek needs the base URL
   * `https://api.deepseek.com/beta`.
   */
  readonly prefix?: boolean;
};

/** Options of a message, by provider. */
export type MessageProviderOptions = ByProvider & {
  readonly anthropic?: AnthropicMessageOptions;
  readonly openai?: ChatMessageOptions;
  readonly deepseek?: PrefixMessageOptions;
  readonly mistral?: PrefixMessageOptions;
};

/** Anthropic's fields of a tool. */
export type AnthropicToolOptions = JsonObject & {
  /** A cache breakpoint after this tool. Not together with `defer_loading`. */
  readonly cache_control?: CacheControl | null;
  /** The model's arguments always match the schema. Default: not guaranteed. */
  readonly strict?: boolean;
  /** The tool is not in the prompt until the tool search tool finds it. Default: false. */
  readonly defer_loading?: boolean;
  /** Examples of arguments, which must match the schema. */
  readonly input_examples?: readonly JsonObject[];
  /** Who may call the tool: `direct` (the model), or the code execution tool by its type. Default: `["direct"]`. */
  readonly allowed_callers?: readonly string[];
  /** Arguments are streamed without buffering, so they may be invalid JSON while they arrive. */
  readonly eager_input_streaming?: boolean | null;
};

/** OpenAI's fields of a function tool. */
export type OpenAIToolOptions = JsonObject & {
  /** The model's arguments always match the schema. Default: `metadata.strict` of the tool, then false. */
  readonly strict?: boolean | null;
  /** Responses API: the tool is not in the prompt until the tool search tool finds it. Default: false. */
  readonly defer_loading?: boolean;
  /** Responses API: who may call the tool. Default: the model. */
  readonly allowed_callers?: readonly string[] | null;
};

/** Gemini's fields of a function declaration. */
export type GeminiToolOptions = JsonObject & {
  /** `NON_BLOCKING`: the model continues without waiting for the result. */
  readonly behavior?: string;
};

/** Options of a tool, by provider. */
export type ToolProviderOptions = ByProvider & {
  readonly anthropic?: AnthropicToolOptions;
  readonly openai?: OpenAIToolOptions;
  readonly azure?: OpenAIToolOptions;
  readonly gemini?: GeminiToolOptions;
};

/** Options of a tool call in the history, by provider. */
export type ToolCallProviderOptions = ByProvider & { readonly anthropic?: AnthropicMessageOptions };

/** Fields of the request body of Anthropic's Messages API. */
export type AnthropicRequestOptions = JsonObject & {
  /** The capacity that serves the request: `auto` or `standard_only`. */
  readonly service_tier?: string;
  /** Sampling from the most probable tokens only. */
  readonly top_k?: number;
  /** A cache breakpoint on the last block of the request, which the API places. `promptCache` places several. */
  readonly cache_control?: CacheControl | null;
  /** Data about the request, for example the user on whose behalf it is made. */
  readonly metadata?: JsonObject & { readonly user_id?: string | null };
  /** Thinking. Overrides what `reasoning` gives, field by field. */
  readonly thinking?: JsonObject;
  /** Effort and format of the answer. Overrides what `reasoning` and `responseFormat` give, field by field. */
  readonly output_config?: JsonObject;
  /** How the API removes old content from a long conversation. */
  readonly context_management?: JsonObject | null;
  /** MCP servers that the API connects to. Needs a beta: `adapterOptions: { betas: […] }`. */
  readonly mcp_servers?: readonly JsonObject[];
};

/** Fields of the request body of OpenAI's APIs. */
export type OpenAIRequestOptions = JsonObject & {
  /** The capacity that serves the request: `auto`, `default`, `flex` or `priority`. */
  readonly service_tier?: string | null;
  /** Whether the provider stores the response. The Responses API gets `false` by default. */
  readonly store?: boolean | null;
  /** Responses API: further data in the reply. Added to what the library requests. */
  readonly include?: readonly string[];
  /** Responses API: verbosity and format of the answer. Overrides what `responseFormat` gives, field by field. */
  readonly text?: JsonObject;
  /** Responses API: reasoning. Overrides what `reasoning` gives, field by field. */
  readonly reasoning?: JsonObject;
  /** A stable id of the user, for abuse detection. */
  readonly safety_identifier?: string;
};

/** Fields of the request body of the Gemini API. */
export type GeminiRequestOptions = JsonObject & {
  /** Limits on harmful content, one for each category. */
  readonly safetySettings?: readonly JsonObject[];
  /** The name of a cached prompt: `cachedContents/…`. */
  readonly cachedContent?: string;
  /** Sampling, format and thinking. Overrides what the library writes, field by field. */
  readonly generationConfig?: JsonObject;
};

/** Options of a request, by provider: fields of the request body. */
export type RequestProviderOptions = ByProvider & {
  readonly anthropic?: AnthropicRequestOptions;
  readonly openai?: OpenAIRequestOptions;
  readonly azure?: OpenAIRequestOptions;
  readonly gemini?: GeminiRequestOptions;
};

/** Options for providers without declared fields. The key is the provider name of the adapter. */
type ByProvider = { readonly [provider: string]: JsonObject };

const cacheControl = openObject<CacheControl>({ type: oneOf(["ephemeral"]), ttl: oneOf(["5m", "1h"]) });
const promptCacheBreakpoint = openObject<PromptCacheBreakpoint>({ mode: oneOf(["explicit"]), ttl: string });

const anthropicPart = openObject<AnthropicPartOptions>({
  cache_control: nullable(cacheControl),
  citations: nullable(openObject<NonNullable<AnthropicPartOptions["citations"]>>({ enabled: boolean })),
  context: nullable(string),
  title: nullable(string),
  type: string,
});
const openaiPart = openObject<OpenAIPartOptions>({
  detail: string,
  prompt_cache_breakpoint: nullable(promptCacheBreakpoint),
});
const geminiPart = openObject<GeminiPartOptions>({
  videoMetadata: openObject<NonNullable<GeminiPartOptions["videoMetadata"]>>({
    fps: number,
    startOffset: string,
    endOffset: string,
  }),
  mediaResolution: openObject<NonNullable<GeminiPartOptions["mediaResolution"]>>({ level: string, numTokens: count }),
});
const openrouterPart = openObject<OpenRouterPartOptions>({ cache_control: nullable(cacheControl) });
const anthropicMessage = openObject<AnthropicMessageOptions>({ cache_control: nullable(cacheControl) });
const chatMessage = openObject<ChatMessageOptions>({ name: string });
const prefixMessage = openObject<PrefixMessageOptions>({ name: string, prefix: boolean });
const openaiTool = openObject<OpenAIToolOptions>({
  strict: nullable(boolean),
  defer_loading: boolean,
  allowed_callers: nullable(array(string)),
});

/** The field `providerOptions` of a part. */
export const partOptions: OptionalField<PartProviderOptions> = optional(
  openObject<PartProviderOptions>(
    { anthropic: anthropicPart, openai: openaiPart, azure: openaiPart, gemini: geminiPart, openrouter: openrouterPart },
    settings,
  ),
);

/** The field `providerOptions` of a message. */
export const messageOptions: OptionalField<MessageProviderOptions> = optional(
  openObject<MessageProviderOptions>(
    {
      anthropic: anthropicMessage,
      openai: chatMessage,
      deepseek: prefixMessage,
      mistral: prefixMessage,
    },
    settings,
  ),
);

/** The field `providerOptions` of a tool. Examples of arguments may have any names, also those of credentials. */
export const toolOptions: OptionalField<ToolProviderOptions> = optional(
  openObject<ToolProviderOptions>(
    {
      anthropic: openObject<AnthropicToolOptions>({
        cache_control: nullable(cacheControl),
        strict: boolean,
        defer_loading: boolean,
        input_examples: array(jsonObject),
        allowed_callers: array(string),
        eager_input_streaming: nullable(boolean),
      }),
      openai: openaiTool,
      azure: openaiTool,
      gemini: openObject<GeminiToolOptions>({ behavior: string }),
    },
    settings,
  ),
);

/** The field `providerOptions` of a tool call. */
export const toolCallOptions: OptionalField<ToolCallProviderOptions> = optional(
  openObject<ToolCallProviderOptions>({ anthropic: anthropicMessage }, settings),
);

const openaiRequest = openObject<OpenAIRequestOptions>({
  service_tier: nullable(string),
  store: nullable(boolean),
  include: array(string),
  text: settings,
  reasoning: settings,
  safety_identifier: string,
});

/** The field `providerOptions` of a request. */
export const requestOptionsShape: Shape<RequestProviderOptions> = openObject<RequestProviderOptions>(
  {
    anthropic: openObject<AnthropicRequestOptions>({
      service_tier: string,
      top_k: number,
      cache_control: nullable(cacheControl),
      metadata: openObject<NonNullable<AnthropicRequestOptions["metadata"]>>({ user_id: nullable(string) }),
      thinking: settings,
      output_config: settings,
      context_management: nullable(settings),
      mcp_servers: array(settings),
    }),
    openai: openaiRequest,
    azure: openaiRequest,
    gemini: openObject<GeminiRequestOptions>({
      safetySettings: array(settings),
      cachedContent: string,
      generationConfig: settings,
    }),
  },
  settings,
);
