// The four APIs of recorded requests, by name.

import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { RecordedApi } from "./convert.ts";

import { recordedMessages } from "./anthropic-messages.ts";
import { recordedGemini } from "./gemini.ts";
import { recordedChat } from "./openai-chat.ts";
import { recordedResponses } from "./openai-responses.ts";

export const recordedApis: { readonly [A in WireApi]: RecordedApi } = {
  "openai-responses": recordedResponses,
  "openai-chat": recordedChat,
  "anthropic-messages": recordedMessages,
  gemini: recordedGemini,
};
