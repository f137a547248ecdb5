// A tokenizer for context policies that loads the package gpt-tokenizer, an optional peer dependency, when it is called
// first: the package needs about 0.3 seconds and 70 MB of memory, and most conversations never need it.

import type { Tokenizer } from "../../core/engine/internal.ts";

import { EngineError } from "../../core/model/internal.ts";

/**
 * Words of the format of chats, such as `<|endoftext|>`, are counted as the text that they are in a message. By default
 * gpt-tokenizer throws for them.
 */
const asText = { disallowedSpecial: new Set<string>() };

/**
 * A tokenizer for `contextPolicy.tokenizer`: counts by the encoding of OpenAI's models since GPT-4o (`o200k_base`). Needs
 * the package `gpt-tokenizer`, which is loaded when the tokenizer is called first; without it the tokenizer rejects
 * with `EngineError`. The number is close for these models, and an estimate for others.
 */
export function gptTokenizer(): Tokenizer {
  let loaded: ((text: string) => number) | null = null;
  return (text) => {
    if (loaded !== null) return loaded(text);
    return load().then((count) => {
      loaded = count;
      return count(text);
    });
  };
}

async function load(): Promise<(text: string) => number> {
  try {
    const { countTokens } = await import("gpt-tokenizer/encoding/o200k_base");
    return (text) => countTokens(text, asText);
  } catch (cause) {
    throw new EngineError("invalid_engine", {
      message: "the package gpt-tokenizer cannot be loaded; run: npm install gpt-tokenizer",
      cause,
    });
  }
}
