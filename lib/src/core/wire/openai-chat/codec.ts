// The codec of OpenAI's Chat Completions API, which many other servers implement. Differences in requests are data
// (`Quirks`, set by the presets of `core/adapters/compatible.ts`). Differences in replies are detected: the decoder
// accepts every known form from every server.

import type { Codec } from "../codec.ts";

import { withProviderTools } from "../listed-tools.ts";
import { decodeReply, decoder } from "./decode.ts";
import { encode } from "./encode.ts";
import { chatFailure } from "./finish-usage-errors.ts";

/** The codec of OpenAI's Chat Completions API. */
export const openaiChat: Codec = {
  api: "openai-chat",
  encode: (request, context) => encode(withProviderTools(request), context),
  decoder,
  decodeReply,
  decodeError: chatFailure,
};
