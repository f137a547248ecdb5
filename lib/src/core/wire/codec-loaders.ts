// Loads codecs with the first request that needs one. A codec has 30 to 50 KB of code, and most programs use one
// provider: a program that imports an adapter loads the code of its API at the first call, and that of the other APIs
// never. Bundlers write each codec as a chunk of its own.
//
// The loaders are constants and not a table, so that a bundler drops those of adapters that a program does not use.

import type { Codec, WireApi } from "./codec.ts";

/** A codec that is loaded on demand. */
export type CodecLoader = {
  readonly api: WireApi;
  /** Has the API responses that the provider computes without a connection (`Codec.background`)? */
  readonly hasBackground: boolean;
  /** Has the API an endpoint that counts input tokens (`Codec.tokenCounting`)? */
  readonly countsTokens: boolean;
  /** Rejects if the module cannot be loaded, and tries again at the next call. */
  readonly load: () => Promise<Codec>;
};

/** Keeps the codec when it is loaded: an `import()` costs some microseconds at every call. */
function loadOnce(load: () => Promise<Codec>): () => Promise<Codec> {
  let loaded: Codec | null = null;
  return async () => (loaded ??= await load());
}

export const openaiChatLoader: CodecLoader = {
  api: "openai-chat",
  hasBackground: false,
  countsTokens: false,
  load: loadOnce(async () => (await import("./openai-chat/codec.ts")).openaiChat),
};

export const openaiResponsesLoader: CodecLoader = {
  api: "openai-responses",
  hasBackground: true,
  countsTokens: true,
  load: loadOnce(async () => (await import("./openai-responses/codec.ts")).openaiResponses),
};

export const anthropicMessagesLoader: CodecLoader = {
  api: "anthropic-messages",
  hasBackground: false,
  countsTokens: true,
  load: loadOnce(async () => (await import("./anthropic/codec.ts")).anthropicMessages),
};

export const geminiGenerateContentLoader: CodecLoader = {
  api: "gemini",
  hasBackground: false,
  countsTokens: true,
  load: loadOnce(async () => (await import("./gemini/codec.ts")).geminiGenerateContent),
};
