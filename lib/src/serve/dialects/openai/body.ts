// The body of `POST /v1/chat/completions` in OpenAI's format: types and readers for unchecked JSON. Its meaning is
// interpreted by request.ts.
//
// Rules
//   1. `null` means the same as an absent field.
//   2. An unknown field is rejected by its path.
//   3. Every field of OpenAI's API is listed: it is used, ignored (`ignoredFields`) or rejected (`unsupportedFields`).

import type { JsonObject } from "../../../core/model/internal.ts";
import type { Shape } from "../../../core/model/parse/reading.ts";
import type { PostedMessage } from "./message.ts";

import { array, boolean, json, object, oneOf, required, string, variant } from "../../../core/model/parse/reading.ts";
import { callerSchemaShape } from "../../http/internal.ts";
import { atMost, between, matching, maybe, positive, whole } from "./fields.ts";
import { postedMessageShape } from "./message.ts";

/** A function tool. Other kinds of tools are rejected. */
export type PostedTool = {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description: string | null;
    readonly parameters: JsonObject | null;
    readonly strict: boolean | null;
  };
};

type NamedChoice = { readonly type: "function"; readonly function: { readonly name: string } };
type PostedChoice = "none" | "auto" | "required" | NamedChoice;

/** The `response_format`. */
export type PostedFormat =
  | { readonly type: "text" }
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly json_schema: {
        readonly name: string;
        readonly description: string | null;
        readonly schema: JsonObject | null;
        readonly strict: boolean | null;
      };
    };

/** A body after reading: every optional field is present, or `null`. */
export type PostedBody = { readonly [Name in (typeof ignoredFields | typeof unsupportedFields)[number]]: unknown } & {
  readonly model: string;
  readonly messages: readonly PostedMessage[];
  readonly tools: readonly PostedTool[] | null;
  readonly tool_choice: PostedChoice | null;
  readonly parallel_tool_calls: boolean | null;
  readonly response_format: PostedFormat | null;
  readonly temperature: number | null;
  readonly top_p: number | null;
  readonly max_tokens: number | null;
  readonly max_completion_tokens: number | null;
  readonly stop: string | readonly string[] | null;
  readonly seed: number | null;
  readonly reasoning_effort: string | null;
  readonly stream: boolean | null;
  readonly stream_options: { readonly include_usage: boolean | null; readonly include_obfuscation: unknown } | null;
};

/**
 * Ignored, because they do not change the answer: bookkeeping of OpenAI's platform, and hints about speed and caching.
 */
const ignoredFields = [
  "metadata",
  "prediction",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "user",
] as const;

/** Rejected unless they have the value of the default behaviour (request.ts). */
export const unsupportedFields = [
  "audio",
  "frequency_penalty",
  "function_call",
  "functions",
  "logit_bias",
  "logprobs",
  "modalities",
  "moderation",
  "n",
  "presence_penalty",
  "service_tier",
  "store",
  "top_logprobs",
  "verbosity",
  "web_search_options",
] as const;

// `auto`, `none` and `required` are values of `tool_choice`.
const toolName = matching(
  /^(?!(?:auto|none|required)$)[A-Za-z0-9_-]{1,64}$/,
  "1 to 64 letters, digits, underscores and hyphens, and not auto, none or required",
);

const toolShape: Shape<PostedTool> = object<PostedTool>({
  type: required(oneOf(["function"])),
  function: required(
    object<PostedTool["function"]>({
      name: required(toolName),
      description: maybe(string),
      parameters: maybe(callerSchemaShape),
      strict: maybe(boolean),
    }),
  ),
});

const choiceWords = oneOf(["none", "auto", "required"]);
const namedChoice = object<NamedChoice>({
  type: required(oneOf(["function"])),
  function: required(object<NamedChoice["function"]>({ name: required(string) })),
});
const choiceShape: Shape<PostedChoice> = (input, reading) =>
  typeof input === "string" ? choiceWords(input, reading) : namedChoice(input, reading);

type SchemaFormat = Extract<PostedFormat, { readonly type: "json_schema" }>;
const formatShape: Shape<PostedFormat> = variant<PostedFormat, "type">("type", {
  text: object<{ readonly type: "text" }>({ type: required(oneOf(["text"])) }),
  json_object: object<{ readonly type: "json_object" }>({ type: required(oneOf(["json_object"])) }),
  json_schema: object<SchemaFormat>({
    type: required(oneOf(["json_schema"])),
    json_schema: required(
      object<SchemaFormat["json_schema"]>({
        name: required(matching(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 letters, digits, underscores and hyphens")),
        description: maybe(string),
        schema: maybe(callerSchemaShape),
        strict: maybe(boolean),
      }),
    ),
  }),
});

const stopsShape = atMost(4, string);
const stopShape: Shape<string | readonly string[]> = (input, reading) =>
  typeof input === "string" ? input : stopsShape(input, reading);

/** A field of any JSON value. */
const anything = maybe<unknown>(json);

/** The reader of a body. The limits (128 tools, 4 stop sequences, ranges) are those of OpenAI's API. */
export const bodyShape: Shape<PostedBody> = object<PostedBody>({
  model: required(string),
  messages: required(array(postedMessageShape)),
  tools: maybe(atMost(128, toolShape)),
  tool_choice: maybe(choiceShape),
  parallel_tool_calls: maybe(boolean),
  response_format: maybe(formatShape),
  temperature: maybe(between(0, 2)),
  top_p: maybe(between(0, 1)),
  max_tokens: maybe(positive),
  max_completion_tokens: maybe(positive),
  stop: maybe(stopShape),
  seed: maybe(whole),
  reasoning_effort: maybe(oneOf(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
  stream: maybe(boolean),
  stream_options: maybe(
    object<NonNullable<PostedBody["stream_options"]>>({
      include_usage: maybe(boolean),
      include_obfuscation: anything,
    }),
  ),
  metadata: anything,
  prediction: anything,
  prompt_cache_key: anything,
  prompt_cache_options: anything,
  prompt_cache_retention: anything,
  safety_identifier: anything,
  user: anything,
  audio: anything,
  frequency_penalty: anything,
  function_call: anything,
  functions: anything,
  logit_bias: anything,
  logprobs: anything,
  modalities: anything,
  moderation: anything,
  n: anything,
  presence_penalty: anything,
  service_tier: anything,
  store: anything,
  top_logprobs: anything,
  verbosity: anything,
  web_search_options: anything,
});
