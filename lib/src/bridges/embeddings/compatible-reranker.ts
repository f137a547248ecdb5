// Rerankers: `POST /rerank` in the form that Jina, Cohere, vLLM, llama.cpp, OpenRouter and others share. OpenAI and
// Gemini have no API for it.

import type { JsonServer, ProviderOptions } from "../../core/adapters/internal.ts";
import type { AdapterCall } from "../../core/engine/internal.ts";
import type { RerankAnswer, Reranker, RerankRequest } from "./adapter.ts";

import { checkProviderOptions, compatibleServer, jsonServer } from "../../core/adapters/internal.ts";
import { aString } from "../../core/engine/internal.ts";
import { usage } from "../../core/model/internal.ts";
import { countAt, numberAt, objectAt, objectsAt, omitNullish, openaiChatLoader } from "../../core/wire/internal.ts";
import { modelRules } from "./adapter-options.ts";
import { malformed, request } from "./adapter.ts";

/** Options of {@link compatibleReranker}. */
type CompatibleRerankerOptions = ProviderOptions & {
  readonly model: string;
  /** The base URL of the API, for example `https://api.jina.ai/v1` or `https://api.cohere.com/v2`. */
  readonly baseURL: string;
  /** The name of the provider in failures, and of the key variable. Default: `compatible`. */
  readonly name?: string;
  /** US dollars for a million tokens. Default: unknown. */
  readonly price?: number;
};

/**
 * A reranker of any server with `POST /rerank`. The default API key is the environment variable `<NAME>_API_KEY`; none
 * is needed.
 */
export function compatibleReranker(options: CompatibleRerankerOptions): Reranker {
  checkProviderOptions("compatibleReranker", options, { ...modelRules, name: aString });
  const { model, name = "compatible", price = null, ...providerOptions } = options;
  const server = jsonServer(compatibleServer(name, providerOptions.baseURL), openaiChatLoader, providerOptions);
  return { provider: name, model, price, rerank: (documents, call) => rerankDocuments(server, model, documents, call) };
}

async function rerankDocuments(
  server: JsonServer,
  model: string,
  { query, documents, top, options }: RerankRequest,
  call: AdapterCall,
): Promise<RerankAnswer> {
  const fields = omitNullish({ model, query, documents, top_n: top, ...options });
  const { body, requestId } = await request(server, { model, path: "/rerank", body: fields, api: "rerank" }, call);
  const scores = objectsAt(body, "results").map((result) => {
    const index = countAt(result, "index");
    const score = numberAt(result, "relevance_score") ?? numberAt(result, "score");
    if (index !== null && score !== null) return { index, score };
    throw malformed(server.provider, "a result of the answer has no index or no score", requestId);
  });
  // Jina, vLLM and llama.cpp report tokens in `usage`; Cohere in `meta.billed_units`, or counts searches instead.
  const counted = objectAt(body, "usage") ?? objectAt(objectAt(body, "meta"), "tokens");
  const totalTokens = countAt(counted, "total_tokens") ?? countAt(counted, "input_tokens");
  return { scores, requestId, usage: usage({ inputTokens: totalTokens, totalTokens }) };
}
