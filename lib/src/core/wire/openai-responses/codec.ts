// The codec of OpenAI's Responses API (`POST /responses`). Its replies are lists of items (`message`, `reasoning`,
// `function_call`, ...): `items.ts` reads a complete item, `streamed-item.ts` assembles one from events, `decode.ts`
// orders them, `background.ts` addresses responses that run without a connection.

import type { Codec } from "../codec.ts";

import { classify } from "../classify.ts";
import { asObject, countAt, pickFields } from "../fields.ts";
import { withProviderTools } from "../listed-tools.ts";
import { background } from "./background.ts";
import { decodeReply, decoder } from "./decode.ts";
import { encode } from "./encode.ts";
import { providerErrorOf } from "./items.ts";

/** The codec of OpenAI's Responses API. */
export const openaiResponses: Codec = {
  api: "openai-responses",
  encode: (request, context) => encode(withProviderTools(request), context),
  decoder,
  decodeReply,
  decodeError: (answer, context) => classify(answer, providerErrorOf(answer.body), context),
  background,
  tokenCounting: {
    requestFor: ({ body }) => ({ path: "/responses/input_tokens", body: pickFields(body, countedFields) }),
    read: (body) => countAt(asObject(body), "input_tokens"),
  },
};

/**
 * Fields of a request that `POST /responses/input_tokens` takes
 * (https://developers.openai.com/api/reference/resources/responses/subresources/input_tokens).
 */
const countedFields = [
  "model",
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "text",
  "reasoning",
  "truncation",
  "conversation",
  "previous_response_id",
];
