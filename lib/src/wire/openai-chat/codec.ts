// Chat Completions, as OpenAI made it and many servers speak it. Where they differ is data (`Quirks`) or is taken as it comes.

import type { Codec } from "../codec.ts";

import { decodeReply, decoder } from "./decode.ts";
import { encode } from "./encode.ts";
import { failureOf } from "./finish-usage-errors.ts";

/** The codec of OpenAI's Chat Completions API. */
export const openaiChat: Codec = { api: "openai-chat", encode, decoder, decodeReply, decodeError: failureOf };
