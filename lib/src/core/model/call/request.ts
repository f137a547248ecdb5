// The request of one model call, independent of any provider. The codecs in `wire/` encode it into a provider's request body.

import type { Message, MessageInput } from "../message/message.ts";
import type { RequestProviderOptions } from "../message/provider-options.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ProviderTool, ToolChoice, ToolSpec } from "../tool/tool.ts";
import type { ModelName } from "./model-ref.ts";

import { messageShape } from "../message/message.ts";
import { requestOptionsShape } from "../message/provider-options.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  boolean,
  construct,
  count,
  either,
  fallback,
  jsonObject,
  nullable,
  number,
  object,
  oneOf,
  required,
  settings,
  string,
  variant,
} from "../parse/shape.ts";
import { providerToolShape, toolShape } from "../tool/tool.ts";
import { modelNameShape } from "./model-ref.ts";

/**
 * The input of one model call, independent of any provider. Fields that are `null` are not sent, so the provider's
 * default applies.
 */
export type ModelRequest = {
  /** The conversation, the system prompt included. */
  readonly messages: readonly Message[];
  /** The model to call, by name or as a reference. */
  readonly model: ModelName | null;
  /** The tools that the model may call. */
  readonly tools: readonly ToolSpec[];
  /** Tools that the provider runs itself. Adapters of other providers omit them. */
  readonly providerTools: readonly ProviderTool[];
  /** Whether the model must, may or must not call a tool. */
  readonly toolChoice: ToolChoice | null;
  /** Whether the model may make several calls in one reply. */
  readonly parallelToolCalls: boolean | null;
  /** From 0 to 2. */
  readonly temperature: number | null;
  /** Nucleus sampling: the share of the probability mass that is sampled from, from 0 to 1. */
  readonly topP: number | null;
  /** The largest number of output tokens, 1 or more. A reply that reaches it ends with the finish reason `length`. */
  readonly maxTokens: number | null;
  /** Texts at which the model stops. The text itself is not in the reply. */
  readonly stopSequences: readonly string[];
  /** A seed for sampling, for providers that accept one. */
  readonly seed: number | null;
  /** How much the model reasons, and what is shown of it. */
  readonly reasoning: ReasoningSettings | null;
  /** Prompt caching; `null` does not ask for it. */
  readonly promptCache: PromptCacheSettings | null;
  /** Text, any JSON object, or JSON that matches a schema. */
  readonly responseFormat: ResponseFormat | null;
  /** Make a separate model call for the structured output, after the tools have run. Requires a response format of type `json_object` or `json_schema`. */
  readonly structuredFinalize: boolean;
  /** Whether the caller reads a stream. For information only: every call is streamed. */
  readonly stream: boolean;
  /** The session of this call; `null` outside a session. Adapters may use it for caching and tracing, never for content. */
  readonly scope: RequestScope | null;
  /**
   * Merged into the request body, whatever the provider is. A key here replaces the field of the same name; objects on both sides are merged key by key, at every
   * level.
   */
  readonly options: JsonObject;
  /** Fields of the request body by provider, merged like `options` and before them. Sent to that provider only. */
  readonly providerOptions: RequestProviderOptions;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

/** Identifies a model call for providers that cache or trace by session. */
export type RequestScope = {
  /** The id of the session that the call belongs to. */
  readonly sessionId: string;
  /** A part of the session, for sessions with several concurrent conversations. */
  readonly frameId: string | null;
  /** Identifies the call within the session. A replay produces the same id. */
  readonly requestId: string;
};

/**
 * Reasoning settings. Providers that count tokens use `budgetTokens`; providers that have levels use `effort`.
 * `null` leaves a setting to the provider.
 */
export type ReasoningSettings = {
  /** The level, sent verbatim, for example `"low"` or `"high"`; `"none"` disables reasoning. */
  readonly effort: string | null;
  /** The largest number of reasoning tokens. */
  readonly budgetTokens: number | null;
  /** The kind of reasoning summary to send: `"auto"`, `"concise"` or `"detailed"`. */
  readonly summary: string | null;
};

/** Prompt caching. Every field has a default, so `{}` turns it on. */
export type PromptCacheSettings = {
  /** OpenAI: the cache key. `null`: the id of the session. */
  readonly key: string | null;
  /** How long the provider keeps the prefix: Anthropic 5 minutes or 1 hour, OpenAI its default or 24 hours. Default: `short`. */
  readonly retention: CacheRetention;
  /** Anthropic: which cache breakpoints the library places. Default: `system`. */
  readonly breakpoints: CacheBreakpoints;
};

type CacheRetention = (typeof cacheRetentions)[number];
export const cacheRetentions = ["short", "long"] as const;

/**
 * Which cache breakpoints the library places in a request to Anthropic. `system`: after the tools and after the system prompt. `auto`: also
 * after the last message and before the last user turn, so that a growing conversation is read from the cache; it places at most as many as the
 * caller's own (`cache_control`) leave of the four that the API allows. `none`: only those of the caller.
 */
type CacheBreakpoints = (typeof cacheBreakpoints)[number];
export const cacheBreakpoints = ["system", "auto", "none"] as const;

/** The format of the answer: text, any JSON object, or JSON that conforms to a schema. */
export type ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat;
type TextFormat = { readonly type: "text" };
type JsonObjectFormat = { readonly type: "json_object" };
/** The formats of a structured answer: every response format but text. */
export type StructuredFormat = JsonObjectFormat | JsonSchemaFormat;
/** A response format: the answer conforms to a JSON Schema. */
export type JsonSchemaFormat = {
  readonly type: "json_schema";
  /** The name of the schema, which some providers show to the model. */
  readonly name: string;
  /** The JSON Schema of the answer. */
  readonly schema: JsonObject;
  /** Whether the provider enforces the schema while the model generates. The default is true. */
  readonly strict: boolean;
};

export const toolChoiceShape: Shape<ToolChoice> = either(
  (input) => typeof input === "string",
  oneOf(["auto", "none", "required"]),
  object<{ readonly type: "tool"; readonly name: string }>({
    type: required(oneOf(["tool"])),
    name: required(string),
  }),
);

const jsonSchemaFormatShape: Shape<JsonSchemaFormat> = object<JsonSchemaFormat>({
  type: required(oneOf(["json_schema"])),
  name: required(string),
  schema: required(jsonObject),
  strict: fallback(boolean, true),
});

export const responseFormatShape: Shape<ResponseFormat> = variant<ResponseFormat, "type">("type", {
  text: object<TextFormat>({ type: required(oneOf(["text"])) }),
  json_object: object<JsonObjectFormat>({ type: required(oneOf(["json_object"])) }),
  json_schema: jsonSchemaFormatShape,
});

export const requestShape: Shape<ModelRequest> = object<ModelRequest>({
  messages: required(array(messageShape)),
  model: fallback(nullable(modelNameShape), null),
  tools: fallback(array(toolShape), []),
  providerTools: fallback(array(providerToolShape), []),
  toolChoice: fallback(nullable(toolChoiceShape), null),
  parallelToolCalls: fallback(nullable(boolean), null),
  temperature: fallback(nullable(number), null),
  topP: fallback(nullable(number), null),
  maxTokens: fallback(nullable(number), null),
  stopSequences: fallback(array(string), []),
  seed: fallback(nullable(number), null),
  reasoning: fallback(
    nullable(
      object<ReasoningSettings>({
        effort: fallback(nullable(string), null),
        budgetTokens: fallback(nullable(count), null),
        summary: fallback(nullable(string), null),
      }),
    ),
    null,
  ),
  promptCache: fallback(
    nullable(
      object<PromptCacheSettings>({
        key: fallback(nullable(string), null),
        retention: fallback(oneOf(cacheRetentions), "short"),
        breakpoints: fallback(oneOf(cacheBreakpoints), "system"),
      }),
    ),
    null,
  ),
  responseFormat: fallback(nullable(responseFormatShape), null),
  structuredFinalize: fallback(boolean, false),
  stream: fallback(boolean, false),
  scope: fallback(
    nullable(
      object<RequestScope>({
        sessionId: required(string),
        frameId: fallback(nullable(string), null),
        requestId: required(string),
      }),
    ),
    null,
  ),
  options: fallback(settings, emptyObject),
  providerOptions: fallback(requestOptionsShape, {}),
  metadata: fallback(settings, emptyObject),
});

/**
 * Builds a model request and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type.
 *
 * @example
 * ```ts
 * import { request, user } from "everturn/model";
 *
 * const sum = request([user("What is 2 + 2?")], { temperature: 0 });
 * sum.temperature; // => 0
 * sum.tools; // => []
 * ```
 */
export function request(
  messages: readonly MessageInput[],
  fields: Partial<Omit<ModelRequest, "messages" | "promptCache">> & {
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
