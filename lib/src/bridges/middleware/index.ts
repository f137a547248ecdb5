// Entry point `everturn/middleware`: ready-made middleware for `engine({ middleware })` and what is needed to write
// one, traces as lines of JSON, and embeddings.

export type { Middleware, ModelCall, NextModel, NextTool, ToolInvocation } from "../../core/engine/internal.ts";
export type { GuardVerdict } from "./guardrails.ts";
export type { Logger } from "./logging.ts";
export type { ReplyStore } from "./response-cache.ts";

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
  RerankAnswer,
  Reranker,
  RerankRequest,
} from "../embeddings/adapter.ts";
export type { Embedded, EmbeddedMany } from "../embeddings/embed.ts";
export type { Reranked } from "../embeddings/rerank.ts";

export { cosineSimilarity, embed, embedMany } from "../embeddings/embed.ts";
export { rerank } from "../embeddings/rerank.ts";
export { compatibleEmbeddings, openaiEmbeddings } from "../embeddings/openai-embeddings.ts";
export { geminiEmbeddings } from "../embeddings/gemini-embeddings.ts";
export { compatibleReranker } from "../embeddings/compatible-reranker.ts";
export { fakeEmbeddings, fakeReranker } from "../embeddings/fake-embeddings.ts";

// Traces
export type { TraceRecord } from "../../serve/trace/trace-lines.ts";

export { traceTo } from "../../serve/trace/trace-lines.ts";
export { traceViewer } from "../../serve/trace/viewer.ts";
