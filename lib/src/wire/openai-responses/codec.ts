// The codec of OpenAI's Responses API (`POST /responses`). Its replies are lists of items (`message`, `reasoning`, `function_call`, ...): `items.ts` reads a
// complete item, `streamed-item.ts` assembles one from events, `decode.ts` orders them, `background.ts` addresses responses that run without a connection.

import type { Codec } from "../codec.ts";

import { classify } from "../classify.ts";
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
};
