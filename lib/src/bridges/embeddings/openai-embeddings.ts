// OpenAI's embeddings API (`POST /embeddings`), and servers that implement it.

import type { JsonServer, ProviderOptions } from "../../core/adapters/internal.ts";
import type { AdapterCall } from "../../core/engine/internal.ts";
import type { JsonObject } from "../../core/model/internal.ts";
import type { Embedding, EmbeddingAdapter, EmbeddingAnswer, EmbeddingRequest } from "./adapter.ts";

import { checkProviderOptions, compatibleServer, jsonServer, openaiServer } from "../../core/adapters/internal.ts";
import { aString, atLeastOne } from "../../core/engine/internal.ts";
import { usage } from "../../core/model/internal.ts";
import { countAt, objectAt, objectsAt, omitNullish, openaiChatLoader } from "../../core/wire/internal.ts";
import { listPrice, modelRules } from "./adapter-options.ts";
import { checkedEmbedding, malformed, request } from "./adapter.ts";

/** Options of {@link openaiEmbeddings}. */
type OpenAIEmbeddingOptions = ProviderOptions & {
  /** For example `text-embedding-3-small`. */
  readonly model: string;
  /** US dollars for a million tokens. Default: the list price of OpenAI's models; `null` for other models. */
  readonly price?: number;
};

/** Options of {@link compatibleEmbeddings}. */
type CompatibleEmbeddingOptions = ProviderOptions & {
  readonly model: string;
  /** The base URL of the API, for example `http://localhost:11434/v1`. */
  readonly baseURL: string;
  /** The name of the provider in failures, and of the key variable. Default: `compatible`. */
  readonly name?: string;
  /** US dollars for a million tokens. Default: unknown. */
  readonly price?: number;
  /** The largest number of texts of one request. Default: 128. */
  readonly maxTexts?: number;
};

/** List prices of November 2026, in US dollars for a million tokens. */
const prices: { readonly [model: string]: number } = {
  "text-embedding-3-small": 0.02,
  "text-embedding-3-large": 0.13,
  "text-embedding-ada-002": 0.1,
};

/**
 * Embeddings of OpenAI. The default API key is the environment variable `OPENAI_API_KEY`. OpenAI's models make no
 * difference between queries and documents: the option `task` is ignored.
 */
export function openaiEmbeddings(options: OpenAIEmbeddingOptions): EmbeddingAdapter {
  checkProviderOptions("openaiEmbeddings", options, modelRules);
  const { model, price = listPrice(prices, model), ...providerOptions } = options;
  const server = jsonServer(openaiServer, openaiChatLoader, providerOptions);
  return {
    provider: server.provider,
    model,
    price,
    // The API accepts 300,000 tokens a request. A token has at least one byte.
    limits: { texts: 2048, bytes: 300_000 },
    embed: (texts, call) => embedTexts(server, model, texts, call, "base64"),
  };
}

/**
 * Embeddings of a server with OpenAI's API: Ollama, vLLM, llama.cpp, LM Studio, Mistral, Together and others. The
 * default API key is the environment variable `<NAME>_API_KEY`; none is needed.
 */
export function compatibleEmbeddings(options: CompatibleEmbeddingOptions): EmbeddingAdapter {
  checkProviderOptions("compatibleEmbeddings", options, { ...modelRules, name: aString, maxTexts: atLeastOne });
  const { model, name = "compatible", price = null, maxTexts = 128, ...providerOptions } = options;
  const server = jsonServer(compatibleServer(name, providerOptions.baseURL), openaiChatLoader, providerOptions);
  return {
    provider: name,
    model,
    price,
    limits: { texts: maxTexts, bytes: 300_000 },
    embed: (texts, call) => embedTexts(server, model, texts, call, "float"),
  };
}

/** `base64` is a quarter of the size of decimal numbers, and faster to read. Not every compatible server has it. */
async function embedTexts(
  server: JsonServer,
  model: string,
  { texts, dimensions, options }: EmbeddingRequest,
  call: AdapterCall,
  format: "base64" | "float",
): Promise<EmbeddingAnswer> {
  const fields = omitNullish({ model, input: texts, dimensions, encoding_format: format, ...options });
  const { body, requestId } = await request(
    server,
    { model, path: "/embeddings", body: fields, api: "embeddings" },
    call,
  );
  const embeddings: Embedding[] = [];
  for (const [position, item] of objectsAt(body, "data").entries()) {
    const index = countAt(item, "index") ?? position;
    if (index >= texts.length || embeddings[index] !== undefined) {
      throw malformed(server.provider, `embedding ${index} of the answer does not belong to a text`, requestId);
    }
    embeddings[index] = embeddingAt(server.provider, item, requestId);
  }
  // A hole in the list would have no embedding.
  const listed = Array.from(embeddings, (one) => one ?? []);
  const counted = objectAt(body, "usage");
  const inputTokens = countAt(counted, "prompt_tokens");
  const totalTokens = countAt(counted, "total_tokens");
  return { embeddings: listed, requestId, usage: usage({ inputTokens, totalTokens: totalTokens ?? inputTokens }) };
}

function embeddingAt(provider: string, item: JsonObject, requestId: string | null): Embedding {
  const value = item["embedding"];
  return checkedEmbedding(provider, typeof value === "string" ? floatsOf(value) : value, requestId);
}

/** The numbers of a base64 text of 32-bit floats, little-endian; `null`: it is none. */
function floatsOf(text: string): readonly number[] | null {
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    if (bytes.length % 4 !== 0) return null;
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true));
  } catch {
    return null;
  }
}
