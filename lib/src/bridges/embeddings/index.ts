// Embeddings and reranking: `embed`, `embedMany`, `rerank`, and adapters of their own.

export type {
  Embedding,
  EmbeddingAdapter,
  EmbeddingAnswer,
  EmbeddingRequest,
  EmbeddingTask,
  RerankAnswer,
  Reranker,
  RerankRequest,
} from "./adapter.ts";
export type { EmbeddingCallOptions } from "./call.ts";
export type { Embedded, EmbeddedMany, EmbedManyOptions, EmbedOptions } from "./embed.ts";
export type { RankedDocument, Reranked, RerankOptions } from "./rerank.ts";
export type { CompatibleEmbeddingOptions, OpenAIEmbeddingOptions } from "./openai-embeddings.ts";
export type { GeminiEmbeddingOptions } from "./gemini-embeddings.ts";
export type { CompatibleRerankerOptions } from "./compatible-reranker.ts";
export type { FakeEmbeddingOptions } from "./fake-embeddings.ts";

export { cosineSimilarity, embed, embedMany } from "./embed.ts";
export { rerank } from "./rerank.ts";
export { compatibleEmbeddings, openaiEmbeddings } from "./openai-embeddings.ts";
export { geminiEmbeddings } from "./gemini-embeddings.ts";
export { compatibleReranker } from "./compatible-reranker.ts";
export { fakeEmbeddings, fakeReranker } from "./fake-embeddings.ts";
