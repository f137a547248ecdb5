// Scripted models for tests: embeddings and scores that follow from the text alone, without a network.

import type { Embedding, EmbeddingAdapter, Reranker } from "./adapter.ts";

import { usage } from "../../core/model/internal.ts";
import { cosineSimilarity } from "./embed.ts";

/** Options of {@link fakeEmbeddings}. */
type FakeEmbeddingOptions = {
  /** The length of the embeddings if a call does not set it. Default: 64. */
  readonly dimensions?: number;
  /** The largest number of texts of one request. Default: 100. */
  readonly maxTexts?: number;
};

/**
 * An embedding model for tests. Texts with words in common are similar; equal texts have equal embeddings. Counts words
 * as tokens.
 */
export function fakeEmbeddings({ dimensions = 64, maxTexts = 100 }: FakeEmbeddingOptions = {}): EmbeddingAdapter {
  return {
    provider: "fake",
    model: "fake",
    price: 0,
    limits: { texts: maxTexts, bytes: Infinity },
    embed: async ({ texts, dimensions: asked }) => {
      const inputTokens = texts.reduce((sum, text) => sum + wordsOf(text).length, 0);
      return {
        embeddings: texts.map((text) => embeddingOf(text, asked ?? dimensions)),
        usage: usage({ inputTokens, totalTokens: inputTokens }),
        requestId: null,
      };
    },
  };
}

/** A reranker for tests: the score is the similarity of the fake embeddings. */
export function fakeReranker(): Reranker {
  return {
    provider: "fake",
    model: "fake",
    price: 0,
    rerank: async ({ query, documents }) => {
      const asked = embeddingOf(query, 64);
      const scores = documents.map((text, index) => ({ index, score: cosineSimilarity(asked, embeddingOf(text, 64)) }));
      return { scores, usage: usage({}), requestId: null };
    },
  };
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text];
}

/** The sum of one direction for each word, of length 1. */
function embeddingOf(text: string, dimensions: number): Embedding {
  const sums = Array.from({ length: dimensions }, () => 0);
  for (const word of wordsOf(text)) {
    let hash = 2_166_136_261;
    for (const character of word) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16_777_619) >>> 0;
    for (const index of sums.keys()) {
      hash = (Math.imul(hash, 1_664_525) + 1_013_904_223) >>> 0;
      sums[index] = (sums[index] ?? 0) + hash / 2 ** 31 - 1;
    }
  }
  const length = Math.hypot(...sums);
  return sums.map((sum) => (length === 0 ? 0 : sum / length));
}
