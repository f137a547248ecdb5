// The codec of Google's Gemini API. Requests always use `streamGenerateContent?alt=sse`; `generateContent` replies are decoded too. The base URL ends in
// the version of the API (`/v1beta`). The adapter adds the key (`x-goog-api-key`).

import type { Codec } from "../codec.ts";

import { decodeError, decoder, decodeReply } from "./decode.ts";
import { encode } from "./encode.ts";

/** The codec of Google's Gemini API (`generateContent` and `streamGenerateContent`). */
export const geminiGenerateContent: Codec = { api: "gemini", encode, decoder, decodeReply, decodeError };
