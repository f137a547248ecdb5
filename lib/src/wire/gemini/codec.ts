// The codec of Google's Gemini API. Requests always use `streamGenerateContent?alt=sse`; `generateContent` replies are decoded too. The base URL ends in
// the version of the API (`/v1beta`). The adapter adds the key (`x-goog-api-key`).

import type { Codec } from "../codec.ts";

import { withProviderTools } from "../listed-tools.ts";
import { decodeError, decoder, decodeReply } from "./decode.ts";
import { encode } from "./encode.ts";

/** The codec of Google's Gemini API (`generateContent` and `streamGenerateContent`). */
export const geminiGenerateContent: Codec = {
  api: "gemini",
  encode: (request, context) => encode(withProviderTools(request), context),
  decoder,
  decodeReply,
  decodeError,
};
