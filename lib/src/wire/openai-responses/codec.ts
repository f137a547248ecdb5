// The OpenAI Responses API.

import type { Codec } from "../codec.ts";

import { classify } from "../classify.ts";
import { background } from "./background.ts";
import { decodeReply, decoder } from "./decode.ts";
import { encode } from "./encode.ts";
import { providerErrorOf } from "./items.ts";

/** The codec of OpenAI's Responses API. */
export const openaiResponses: Codec = {
  api: "openai-responses",
  encode,
  decoder,
  decodeReply,
  decodeError: (answer, context) => classify(answer, providerErrorOf(answer.body), context),
  background,
};
