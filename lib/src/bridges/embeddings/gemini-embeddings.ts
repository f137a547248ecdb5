// Gemini's embeddings API: `batchEmbedContents`, one request in it for each text.

import type { JsonServer, ProviderOptions } from "../../core/adapters/internal.ts";
import type { AdapterCall } from "../../core/engine/internal.ts";
import type { EmbeddingAdapter, EmbeddingAnswer, EmbeddingRequest, EmbeddingTask } from "./adapter.ts";

import { checkProviderOptions, geminiServer, jsonServer } from "../../core/adapters/internal.ts";
import { usage } from "../../core/model/internal.ts";
import { countAt, geminiGenerateContentLoader, objectAt, objectsAt, omitNullish } from "../../core/wire/internal.ts";
import { listPrice, modelRules } from "./adapter-options.ts";
import { checkedEmbedding, request } from "./adapter.ts";

/** Options of {@link geminiEmbeddings}. */
type GeminiEmbeddingOptions = ProviderOptions & {
  /** For example `gemini-embedding-001`. */
  readonly model: string;
  /** US dollars for a million tokens. Default: the list price of `gemini-embedding-001`; `null` for other models. */
  readonly price?: number;
};

/** List prices of November 2026, in US dollars for a million tokens. */
const prices: { readonly [model: string]: number } = { "gemini-embedding-001": 0.15 };

const taskTypes: { readonly [Task in EmbeddingTask]: string } = {
  query: "RETRIEVAL_QUERY",
  document: "RETRIEVAL_DOCUMENT",
};

/**
 * Embeddings of Google, by the Gemini API. The default API key is the environment variable `GEMINI_API_KEY` or
 * `GOOGLE_API_KEY`. `options` of a call are merged into the request of each text: `{ taskType: "CLUSTERING" }`.
 */
export function geminiEmbeddings(options: GeminiEmbeddingOptions): EmbeddingAdapter {
  checkProviderOptions("geminiEmbeddings", options, modelRules);
  const { model, price = listPrice(prices, model), ...providerOptions } = options;
  const server = jsonServer(geminiServer, geminiGenerateContentLoader, providerOptions);
  return {
    provider: server.provider,
    model,
    price,
    limits: { texts: 100, bytes: 200_000 },
    embed: (texts, call) => embedTexts(server, model, texts, call),
  };
}

async function embedTexts(
  server: JsonServer,
  model: string,
  { texts, dimensions, task, options }: EmbeddingRequest,
  call: AdapterCall,
): Promise<EmbeddingAnswer> {
  const name = model.startsWith("models/") ? model : `models/${model}`;
  const path = `/${name.split("/").map(encodeURIComponent).join("/")}:batchEmbedContents`;
  const requests = texts.map((text) =>
    omitNullish({
      model: name,
      content: { parts: [{ text }] },
      taskType: task === null ? null : taskTypes[task],
      outputDimensionality: dimensions,
      ...options,
    }),
  );
  const { body, requestId } = await request(server, { model, path, body: { requests }, api: "embeddings" }, call);
  const embeddings = objectsAt(body, "embeddings").map(({ values }) =>
    checkedEmbedding(server.provider, values, requestId),
  );
  const inputTokens = countAt(objectAt(body, "usageMetadata"), "promptTokenCount");
  return { embeddings, requestId, usage: usage({ inputTokens, totalTokens: inputTokens }) };
}
