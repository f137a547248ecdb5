// The body of `POST /v1/chat/completions` in OpenAI's format: the readers of unchecked JSON, from which its types are
// inferred. Its meaning is interpreted by request.ts.
//
// Rules
//   1. `null` means the same as an absent field.
//   2. An unknown field is rejected by its path.
//   3. Every field of OpenAI's API is listed: it is used, ignored (`ignoredFields`) or rejected (`unsupportedFields`).

import type { Infer, InferUnion, Shape } from "../../../core/model/parse/reading.ts";

import {
  array,
  boolean,
  either,
  json,
  literal,
  object,
  oneOf,
  required,
  string,
  variant,
} from "../../../core/model/parse/reading.ts";
import { callerSchemaShape } from "../../http/internal.ts";
import { atMost, between, matching, maybe, positive, whole } from "./fields.ts";
import { postedMessageShape } from "./message.ts";

/** A field of any JSON value. */
const anything = maybe<unknown>(json);

/**
 * Ignored, because they do not change the answer: bookkeeping of OpenAI's platform, and hints about speed and caching.
 */
const ignoredFields = {
  metadata: anything,
  prediction: anything,
  prompt_cache_key: anything,
  prompt_cache_options: anything,
  prompt_cache_retention: anything,
  safety_identifier: anything,
  user: anything,
};

/** Rejected unless they have the value of the default behaviour (request.ts). */
const unsupportedFields = {
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
};
export type UnsupportedField = keyof typeof unsupportedFields;

// `auto`, `none` and `required` are values of `tool_choice`.
const toolName = matching(
  /^(?!(?:auto|none|required)$)[A-Za-z0-9_-]{1,64}$/,
  "1 to 64 letters, digits, underscores and hyphens, and not auto, none or required",
);

const toolFields = {
  type: literal("function"),
  function: required(
    object({
      name: required(toolName),
      description: maybe(string),
      parameters: maybe(callerSchemaShape),
      strict: maybe(boolean),
    }),
  ),
};
/** A function tool. Other kinds of tools are rejected. */
export type PostedTool = Infer<typeof toolFields>;

const choiceShape = either(
  (input) => typeof input === "string",
  oneOf(["none", "auto", "required"]),
  object({ type: literal("function"), function: required(object({ name: required(string) })) }),
);

const formats = {
  text: {},
  json_object: {},
  json_schema: {
    json_schema: required(
      object({
        name: required(matching(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 letters, digits, underscores and hyphens")),
        description: maybe(string),
        schema: maybe(callerSchemaShape),
        strict: maybe(boolean),
      }),
    ),
  },
};
/** The `response_format`. */
export type PostedFormat = InferUnion<"type", typeof formats>;

/** The fields of a body. The limits (128 tools, 4 stop sequences, ranges) are those of OpenAI's API. */
const bodyFields = {
  model: required(string),
  messages: required(array(postedMessageShape)),
  tools: maybe(atMost(128, object(toolFields))),
  tool_choice: maybe(choiceShape),
  parallel_tool_calls: maybe(boolean),
  response_format: maybe(variant("type", formats)),
  temperature: maybe(between(0, 2)),
  top_p: maybe(between(0, 1)),
  max_tokens: maybe(positive),
  max_completion_tokens: maybe(positive),
  stop: maybe(either((input) => typeof input === "string", string, atMost(4, string))),
  seed: maybe(whole),
  reasoning_effort: maybe(oneOf(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
  stream: maybe(boolean),
  stream_options: maybe(object({ include_usage: maybe(boolean), include_obfuscation: anything })),
  ...ignoredFields,
  ...unsupportedFields,
};

/** A body after reading: every optional field is present, or `null`. */
export type PostedBody = Infer<typeof bodyFields>;

/** The reader of a body. */
export const bodyShape: Shape<PostedBody> = object(bodyFields);
