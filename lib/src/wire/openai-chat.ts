// Chat Completions, as OpenAI made it and many servers speak it. Where they differ is data (`Quirks`) or is taken as it comes.

import type { Codec } from "./codec.ts";

import { decodeReply, decoder } from "./openai-chat-decode.ts";
import { encode } from "./openai-chat-encode.ts";
import { failureOf } from "./openai-chat-words.ts";

export const openaiChat: Codec = { api: "openai-chat", encode, decoder, decodeReply, decodeError: failureOf };
