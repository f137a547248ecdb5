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
import type { InferSome, OptionalField, Shape } from "../parse/shape.ts";

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

// `type` and `mode` are required where a program writes one, so these two types are not inferred.

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

const cacheControl = openObject<CacheControl>({ type: oneOf(["ephemeral"]), ttl: oneOf(["5m", "1h"]) });
const cachePoint = nullable(cacheControl);
const promptCacheBreakpoint = openObject<PromptCacheBreakpoint>({ mode: oneOf(["explicit"]), ttl: string });

/** Options for providers without declared fields. The key is the provider name of the adapter. */
type ByProvider = { readonly [provider: string]: JsonObject };

const citationFields = { enabled: boolean };
/** Whether the model cites a document. */
type Citations = JsonObject & InferSome<typeof citationFields>;

const anthropicPart = {
  /** A cache breakpoint after this block. */
  cache_control: cachePoint,
  /** Documents and search results: whether the model cites them. Default: not. */
  citations: nullable(openObject<Citations>(citationFields)),
  /** Documents: text about the document that the model reads and does not cite. */
  context: nullable(string),
  /** Documents: the title. Default: the name of the file. */
  title: nullable(string),
  /**
   * Text parts: another type of block, for example `search_result`. The options are then the whole block, and other
   * providers get the text.
   */
  type: string,
};
/** Anthropic's fields of a content block. */
export type AnthropicPartOptions = JsonObject & InferSome<typeof anthropicPart>;

const openaiPart = {
  /**
   * The resolution at which the model looks at an image or at the pages of a file. Overrides `detail` of an image part.
   */
  detail: string,
  /** A cache breakpoint after this part. */
  prompt_cache_breakpoint: nullable(promptCacheBreakpoint),
};
/** Fields of a content part in OpenAI's APIs. */
export type OpenAIPartOptions = JsonObject & InferSome<typeof openaiPart>;

const videoMetadata = {
  /** Frames per second, above 0 and at most 24. Default: 1. */
  fps: number,
  /** The start of the section, in seconds: `"90s"`. Default: the beginning. */
  startOffset: string,
  /** The end of the section, in seconds: `"125.5s"`. Default: the end. */
  endOffset: string,
};
/** A section of a video. */
type VideoMetadata = JsonObject & InferSome<typeof videoMetadata>;
const mediaResolution = { level: string, numTokens: count };
/** The resolution of media. */
type MediaResolution = JsonObject & InferSome<typeof mediaResolution>;

const geminiPart = {
  /** The section of a video that the model sees, and the frames per second. */
  videoMetadata: openObject<VideoMetadata>(videoMetadata),
  /** The resolution of the media, as a level (`MEDIA_RESOLUTION_HIGH`) or in tokens. */
  mediaResolution: openObject<MediaResolution>(mediaResolution),
};
/** Gemini's fields of a part. */
export type GeminiPartOptions = JsonObject & InferSome<typeof geminiPart>;

const openrouterPart = {
  /** A cache breakpoint after this part, for models of Anthropic and Google. */
  cache_control: cachePoint,
};
/** OpenRouter's fields of a content part. */
export type OpenRouterPartOptions = JsonObject & InferSome<typeof openrouterPart>;

const partFields = {
  anthropic: openObject<AnthropicPartOptions>(anthropicPart),
  openai: openObject<OpenAIPartOptions>(openaiPart),
  azure: openObject<OpenAIPartOptions>(openaiPart),
  gemini: openObject<GeminiPartOptions>(geminiPart),
  openrouter: openObject<OpenRouterPartOptions>(openrouterPart),
};
/** Options of a part, by provider. */
export type PartProviderOptions = ByProvider & InferSome<typeof partFields>;

/** The field `providerOptions` of a part. */
export const partOptions: OptionalField<PartProviderOptions> = optional(
  openObject<PartProviderOptions>(partFields, settings),
);

const anthropicMessage = {
  /** A cache breakpoint after the message. */
  cache_control: cachePoint,
};
/** Anthropic's options of a message. The API has no fields on a message, so they are merged into its last block. */
export type AnthropicMessageOptions = JsonObject & InferSome<typeof anthropicMessage>;

const chatMessage = {
  /** The name of the author. `name` of the message is the same for all providers. */
  name: string,
};
/** Fields of a message in APIs with Chat Completions. */
export type ChatMessageOptions = JsonObject & InferSome<typeof chatMessage>;

const prefixMessage = {
  /**
   * The last message of the request, from the assistant: the reply continues its text. DeepSeek needs the base URL
   * `https://api.deepseek.com/beta`.
   */
  prefix: boolean,
};
/** Fields of a message of DeepSeek and Mistral. */
export type PrefixMessageOptions = ChatMessageOptions & InferSome<typeof prefixMessage>;
const prefixMessageShape = openObject<PrefixMessageOptions>({ ...chatMessage, ...prefixMessage });

const messageFields = {
  anthropic: openObject<AnthropicMessageOptions>(anthropicMessage),
  openai: openObject<ChatMessageOptions>(chatMessage),
  deepseek: prefixMessageShape,
  mistral: prefixMessageShape,
};
/** Options of a message, by provider. */
export type MessageProviderOptions = ByProvider & InferSome<typeof messageFields>;

/** The field `providerOptions` of a message. */
export const messageOptions: OptionalField<MessageProviderOptions> = optional(
  openObject<MessageProviderOptions>(messageFields, settings),
);

const anthropicTool = {
  /** A cache breakpoint after this tool. Not together with `defer_loading`. */
  cache_control: cachePoint,
  /** The model's arguments always match the schema. Default: not guaranteed. */
  strict: boolean,
  /** The tool is not in the prompt until the tool search tool finds it. Default: false. */
  defer_loading: boolean,
  /** Examples of arguments, which must match the schema. They may have any names, also those of credentials. */
  input_examples: array(jsonObject),
  /** Who may call the tool: `direct` (the model), or the code execution tool by its type. Default: `["direct"]`. */
  allowed_callers: array(string),
  /** Arguments are streamed without buffering, so they may be invalid JSON while they arrive. */
  eager_input_streaming: nullable(boolean),
};
/** Anthropic's fields of a tool. */
export type AnthropicToolOptions = JsonObject & InferSome<typeof anthropicTool>;

const openaiTool = {
  /** The model's arguments always match the schema. Default: `metadata.strict` of the tool, then false. */
  strict: nullable(boolean),
  /** Responses API: the tool is not in the prompt until the tool search tool finds it. Default: false. */
  defer_loading: boolean,
  /** Responses API: who may call the tool. Default: the model. */
  allowed_callers: nullable(array(string)),
};
/** OpenAI's fields of a function tool. */
export type OpenAIToolOptions = JsonObject & InferSome<typeof openaiTool>;

const geminiTool = {
  /** `NON_BLOCKING`: the model continues without waiting for the result. */
  behavior: string,
};
/** Gemini's fields of a function declaration. */
export type GeminiToolOptions = JsonObject & InferSome<typeof geminiTool>;

const toolFields = {
  anthropic: openObject<AnthropicToolOptions>(anthropicTool),
  openai: openObject<OpenAIToolOptions>(openaiTool),
  azure: openObject<OpenAIToolOptions>(openaiTool),
  gemini: openObject<GeminiToolOptions>(geminiTool),
};
/** Options of a tool, by provider. */
export type ToolProviderOptions = ByProvider & InferSome<typeof toolFields>;

/** The field `providerOptions` of a tool. */
export const toolOptions: OptionalField<ToolProviderOptions> = optional(
  openObject<ToolProviderOptions>(toolFields, settings),
);

const toolCallFields = { anthropic: openObject<AnthropicMessageOptions>(anthropicMessage) };
/** Options of a tool call in the history, by provider. */
export type ToolCallProviderOptions = ByProvider & InferSome<typeof toolCallFields>;

/** The field `providerOptions` of a tool call. */
export const toolCallOptions: OptionalField<ToolCallProviderOptions> = optional(
  openObject<ToolCallProviderOptions>(toolCallFields, settings),
);

const requestMetadata = { user_id: nullable(string) };
/** Data about a request. */
type RequestMetadata = JsonObject & InferSome<typeof requestMetadata>;

const anthropicRequest = {
  /** The capacity that serves the request: `auto` or `standard_only`. */
  service_tier: string,
  /** Sampling from the most probable tokens only. */
  top_k: number,
  /** A cache breakpoint on the last block of the request, which the API places. `promptCache` places several. */
  cache_control: cachePoint,
  /** Data about the request, for example the user on whose behalf it is made. */
  metadata: openObject<RequestMetadata>(requestMetadata),
  /** Thinking. Overrides what `reasoning` gives, field by field. */
  thinking: settings,
  /** Effort and format of the answer. Overrides what `reasoning` and `responseFormat` give, field by field. */
  output_config: settings,
  /** How the API removes old content from a long conversation. */
  context_management: nullable(settings),
  /** MCP servers that the API connects to. Needs a beta: `adapterOptions: { betas: […] }`. */
  mcp_servers: array(settings),
};
/** Fields of the request body of Anthropic's Messages API. */
export type AnthropicRequestOptions = JsonObject & InferSome<typeof anthropicRequest>;

const openaiRequest = {
  /** The capacity that serves the request: `auto`, `default`, `flex` or `priority`. */
  service_tier: nullable(string),
  /** Whether the provider stores the response. The Responses API gets `false` by default. */
  store: nullable(boolean),
  /** Responses API: further data in the reply. Added to what the library requests. */
  include: array(string),
  /** Responses API: verbosity and format of the answer. Overrides what `responseFormat` gives, field by field. */
  text: settings,
  /** Responses API: reasoning. Overrides what `reasoning` gives, field by field. */
  reasoning: settings,
  /** A stable id of the user, for abuse detection. */
  safety_identifier: string,
};
/** Fields of the request body of OpenAI's APIs. */
export type OpenAIRequestOptions = JsonObject & InferSome<typeof openaiRequest>;

const geminiRequest = {
  /** Limits on harmful content, one for each category. */
  safetySettings: array(settings),
  /** The name of a cached prompt: `cachedContents/…`. */
  cachedContent: string,
  /** Sampling, format and thinking. Overrides what the library writes, field by field. */
  generationConfig: settings,
};
/** Fields of the request body of the Gemini API. */
export type GeminiRequestOptions = JsonObject & InferSome<typeof geminiRequest>;

const requestFields = {
  anthropic: openObject<AnthropicRequestOptions>(anthropicRequest),
  openai: openObject<OpenAIRequestOptions>(openaiRequest),
  azure: openObject<OpenAIRequestOptions>(openaiRequest),
  gemini: openObject<GeminiRequestOptions>(geminiRequest),
};
/** Options of a request, by provider: fields of the request body. */
export type RequestProviderOptions = ByProvider & InferSome<typeof requestFields>;

/** The field `providerOptions` of a request. */
export const requestOptionsShape: Shape<RequestProviderOptions> = openObject<RequestProviderOptions>(
  requestFields,
  settings,
);
