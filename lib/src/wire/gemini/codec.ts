// Gemini: `generateContent`, always streamed. The base URL ends in the version of the API (`/v1beta`).

import type { Codec } from "../codec.ts";

import { decodeError, decoder, decodeReply } from "./decode.ts";
import { encode } from "./encode.ts";

/** The codec of Google's Gemini API (`generateContent` and `streamGenerateContent`). */
export const geminiGenerateContent: Codec = { api: "gemini", encode, decoder, decodeReply, decodeError };
