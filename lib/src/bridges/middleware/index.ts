// Entry point `everturn/middleware`: ready-made middleware for `engine({ middleware })` and what is needed to write one,
// traces as lines of JSON, and embeddings.

export type { Middleware, ModelCall, NextModel, NextTool, ToolInvocation } from "../../core/engine/internal.ts";
export type { CallSettings, SettingsByModel } from "./default-settings.ts";
export type {
  GuardrailOptions,
  GuardVerdict,
  ReplyGuard,
  RequestGuard,
  ToolCallGuard,
  ToolOutcomeGuard,
} from "./guardrails.ts";
export type { Logger, LoggingOptions } from "./logging.ts";
export type { PiiKind } from "./pii-patterns.ts";
export type { RateLimitOptions } from "./rate-limit.ts";
export type { RedactPiiOptions } from "./redact-pii.ts";
export type { ReplyStore, ResponseCacheOptions } from "./response-cache.ts";

export { defaultSettings } from "./default-settings.ts";
export { guardrails } from "./guardrails.ts";
export { logging } from "./logging.ts";
export { rateLimit } from "./rate-limit.ts";
export { redactPii } from "./redact-pii.ts";
export { readReply, replyEvents } from "./reply-events.ts";
export { responseCache } from "./response-cache.ts";

// Embeddings and reranking
export type {
  Embedding,
  EmbeddingAdapter,
  EmbeddingAnswer,
  EmbeddingRequest,
  EmbeddingTask,
  RerankAnswer,
  Reranker,
  RerankRequest,
} from "../embeddings/adapter.ts";
export type { EmbeddingCallOptions } from "../embeddings/call.ts";
export type { Embedded, EmbeddedMany, EmbedManyOptions, EmbedOptions } from "../embeddings/embed.ts";
export type { RankedDocument, Reranked, RerankOptions } from "../embeddings/rerank.ts";
export type { CompatibleEmbeddingOptions, OpenAIEmbeddingOptions } from "../embeddings/openai-embeddings.ts";
export type { GeminiEmbeddingOptions } from "../embeddings/gemini-embeddings.ts";
export type { CompatibleRerankerOptions } from "../embeddings/compatible-reranker.ts";
export type { FakeEmbeddingOptions } from "../embeddings/fake-embeddings.ts";

export { cosineSimilarity, embed, embedMany } from "../embeddings/embed.ts";
export { rerank } from "../embeddings/rerank.ts";
export { compatibleEmbeddings, openaiEmbeddings } from "../embeddings/openai-embeddings.ts";
export { geminiEmbeddings } from "../embeddings/gemini-embeddings.ts";
export { compatibleReranker } from "../embeddings/compatible-reranker.ts";
export { fakeEmbeddings, fakeReranker } from "../embeddings/fake-embeddings.ts";

// Traces
export type { TraceOptions, TraceRecord } from "../../serve/trace/trace-lines.ts";

export { traceTo } from "../../serve/trace/trace-lines.ts";
export { traceViewer } from "../../serve/trace/viewer.ts";
