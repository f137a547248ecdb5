// The request of one model call, independent of any provider. The codecs in `wire/` encode it into a provider's request
// body.

import type { MessageInput } from "../message/message.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Infer, InferOptional, Shape, WordOf } from "../parse/shape.ts";

import { messageShape } from "../message/message.ts";
import { requestOptionsShape } from "../message/provider-options.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  boolean,
  construct,
  count,
  fallback,
  jsonObject,
  literal,
  nullable,
  number,
  object,
  oneOf,
  optional,
  required,
  settings,
  string,
  variant,
} from "../parse/shape.ts";
import { providerToolShape, toolChoiceShape, toolShape } from "../tool/tool.ts";
import { modelNameShape } from "./model-ref.ts";

const scopeFields = {
  /** The id of the session that the call belongs to. */
  sessionId: required(string),
  /** A part of the session, for sessions with several concurrent conversations. */
  frameId: fallback(nullable(string), null),
  /** Identifies the call within the session. A replay produces the same id. */
  requestId: required(string),
};

/** Identifies a model call for providers that cache or trace by session. */
export type RequestScope = Infer<typeof scopeFields>;

const scopeShape: Shape<RequestScope> = object(scopeFields);

const reasoningFields = {
  /** The level, sent verbatim, for example `"low"` or `"high"`; `"none"` disables reasoning. */
  effort: fallback(nullable(string), null),
  /** The largest number of reasoning tokens. */
  budgetTokens: fallback(nullable(count), null),
  /** The kind of reasoning summary to send: `"auto"`, `"concise"` or `"detailed"`. */
  summary: fallback(nullable(string), null),
};

/**
 * Reasoning settings. Providers that count tokens use `budgetTokens`; providers that have levels use `effort`.
 * `null` leaves a setting to the provider.
 */
export type ReasoningSettings = Infer<typeof reasoningFields>;

const reasoningShape: Shape<ReasoningSettings> = object(reasoningFields);

export const cacheRetentions = ["short", "long"] as const;

/**
 * Which cache breakpoints the library places in a request to Anthropic. `system`: after the tools and after the system
 * prompt. `auto`: also after the last message and before the last user turn, so that a growing conversation is read
 * from the cache; it places at most as many as the caller's own (`cache_control`) leave of the four that the API
 * allows. `none`: only those of the caller.
 */
type CacheBreakpoints = WordOf<typeof cacheBreakpoints>;
export const cacheBreakpoints = ["system", "auto", "none"] as const;

const promptCacheFields = {
  /** OpenAI: the cache key. `null`: the id of the session. */
  key: fallback(nullable(string), null),
  /**
   * How long the provider keeps the prefix: Anthropic 5 minutes or 1 hour, OpenAI its default or 24 hours. Default:
   * `short`.
   */
  retention: fallback(oneOf(cacheRetentions), "short"),
  /** Anthropic: which cache breakpoints the library places. Default: `system`. */
  breakpoints: fallback(oneOf<CacheBreakpoints>(cacheBreakpoints), "system"),
};

/** Prompt caching. Every field has a default, so `{}` turns it on. */
export type PromptCacheSettings = Infer<typeof promptCacheFields>;

const promptCacheShape: Shape<PromptCacheSettings> = object(promptCacheFields);

const jsonSchemaFormatFields = {
  type: literal("json_schema"),
  /** The name of the schema, which some providers show to the model. */
  name: required(string),
  /** The JSON Schema of the answer. */
  schema: required(jsonObject),
  /** Whether the provider enforces the schema while the model generates. The default is true. */
  strict: fallback(boolean, true),
};

/** A response format: the answer conforms to a JSON Schema. */
export type JsonSchemaFormat = Infer<typeof jsonSchemaFormatFields>;

const jsonSchemaFormatShape: Shape<JsonSchemaFormat> = object(jsonSchemaFormatFields);

const textFormatFields = { type: literal("text") };
const jsonObjectFormatFields = { type: literal("json_object") };

/** The formats of a structured answer: every response format but text. */
export type StructuredFormat = Infer<typeof jsonObjectFormatFields> | JsonSchemaFormat;

/** The format of the answer: text, any JSON object, or JSON that conforms to a schema. */
export type ResponseFormat = Infer<typeof textFormatFields> | StructuredFormat;

const structuredFormats = { json_object: object(jsonObjectFormatFields), json_schema: jsonSchemaFormatShape };

export const structuredFormatShape: Shape<StructuredFormat> = variant("type", structuredFormats);
export const responseFormatShape: Shape<ResponseFormat> = variant("type", {
  text: object(textFormatFields),
  ...structuredFormats,
});

const requestFields = {
  /** The conversation, the system prompt included. */
  messages: required(array(messageShape)),
  /** The model to call, by name or as a reference. */
  model: fallback(nullable(modelNameShape), null),
  /** The tools that the model may call. */
  tools: fallback(array(toolShape), []),
  /** Tools that the provider runs itself. Adapters of other providers omit them. */
  providerTools: fallback(array(providerToolShape), []),
  /** Whether the model must, may or must not call a tool. */
  toolChoice: fallback(nullable(toolChoiceShape), null),
  /** Whether the model may make several calls in one reply. */
  parallelToolCalls: fallback(nullable(boolean), null),
  /** From 0 to 2. */
  temperature: fallback(nullable(number), null),
  /** Nucleus sampling: the share of the probability mass that is sampled from, from 0 to 1. */
  topP: fallback(nullable(number), null),
  /** The largest number of output tokens, 1 or more. A reply that reaches it ends with the finish reason `length`. */
  maxTokens: fallback(nullable(number), null),
  /** Texts at which the model stops. The text itself is not in the reply. */
  stopSequences: fallback(array(string), []),
  /** A seed for sampling, for providers that accept one. */
  seed: fallback(nullable(number), null),
  /** How much the model reasons, and what is shown of it. */
  reasoning: fallback(nullable(reasoningShape), null),
  /** Prompt caching; `null` does not ask for it. */
  promptCache: fallback(nullable(promptCacheShape), null),
  /**
   * The provider replaces older messages by an item of its own when the input has this many tokens; absent: it does
   * not. Anthropic and OpenAI Responses only. Set by `contextPolicy`.
   */
  compactAt: optional(count),
  /** Text, any JSON object, or JSON that matches a schema. */
  responseFormat: fallback(nullable(responseFormatShape), null),
  /**
   * Make a separate model call for the structured output, after the tools have run. Requires a response format of type
   * `json_object` or `json_schema`.
   */
  structuredFinalize: fallback(boolean, false),
  /** Whether the caller reads a stream. For information only: every call is streamed. */
  stream: fallback(boolean, false),
  /**
   * The session of this call; `null` outside a session. Adapters may use it for caching and tracing, never for content.
   */
  scope: fallback(nullable(scopeShape), null),
  /**
   * Merged into the request body, whatever the provider is. A key here replaces the field of the same name; objects on
   * both sides are merged key by key, at every level.
   */
  options: fallback(settings, emptyObject),
  /** Fields of the request body by provider, merged like `options` and before them. Sent to that provider only. */
  providerOptions: fallback(requestOptionsShape, {}),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/**
 * The input of one model call, independent of any provider. Fields that are `null` are not sent, so the provider's
 * default applies.
 */
export type ModelRequest = InferOptional<typeof requestFields>;

export const requestShape: Shape<ModelRequest> = object(requestFields);

/**
 * Builds a model request and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type.
 *
 * @example
 * ```ts
 * import { request } from "everturn/advanced"; import { user } from "everturn";
 *
 * const sum = request([user("What is 2 + 2?")], { temperature: 0 });
 * sum.temperature; // => 0
 * sum.tools; // => []
 * ```
 */
export function request(
  messages: readonly MessageInput[],
  fields: Partial<Omit<ModelRequest, "messages" | "reasoning" | "promptCache">> & {
    readonly reasoning?: Partial<ReasoningSettings> | null;
    readonly promptCache?: Partial<PromptCacheSettings> | null;
  } = {},
): ModelRequest {
  return construct("request", requestShape, { ...fields, messages });
}

/** Builds a response format that asks for an answer in a JSON Schema. `strict` is true by default. */
export function jsonSchema(
  name: string,
  schema: JsonObject,
  options: { readonly strict?: boolean } = {},
): JsonSchemaFormat {
  return construct("jsonSchema", jsonSchemaFormatShape, { ...options, type: "json_schema", name, schema });
}
