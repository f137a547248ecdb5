// The OpenAI Responses API.

import type { Codec } from "./codec.ts";

import { classify } from "./classify.ts";
import { decodeReply, decoder } from "./openai-responses-decode.ts";
import { encode } from "./openai-responses-encode.ts";
import { complaintOf } from "./openai-responses-items.ts";

export const openaiResponses: Codec = {
  api: "openai-responses",
  encode,
  decoder,
  decodeReply,
  decodeError: (answer, context) => classify(answer, complaintOf(answer.body), context),
};
