import { expect, test } from "vitest";

import {
  anthropicMessagesLoader,
  geminiGenerateContentLoader,
  openaiChatLoader,
  openaiResponsesLoader,
} from "./codec-loaders.ts";

test.each([anthropicMessagesLoader, geminiGenerateContentLoader, openaiChatLoader, openaiResponsesLoader])(
  "the loader of $api describes the codec that it loads",
  async ({ api, hasBackground, load }) => {
    const codec = await load();
    expect({ api: codec.api, hasBackground: codec.background !== undefined }).toEqual({ api, hasBackground });
  },
);
