// The contracts of embedding adapters and rerankers, and what their HTTP implementations share. An adapter makes one
// attempt at one request; `embed.ts` and `rerank.ts` divide, repeat and price.

import type { JsonServer } from "../../core/adapters/internal.ts";
import type { AdapterCall } from "../../core/engine/internal.ts";
import type { JsonObject, Usage } from "../../core/model/internal.ts";

import { requestJson } from "../../core/adapters/internal.ts";
import { defaultTimeouts } from "../../core/engine/internal.ts";
import { AdapterError, errorFromFailure } from "../../core/model/internal.ts";

/** An embedding: a point in the space of the model. */
export type Embedding = readonly number[];

/** A model that turns texts into embeddings. Write one for a server that has no adapter here. */
export type EmbeddingAdapter = {
  /** The name of the provider in failures. */
  readonly provider: string;
  /** The name of the model, as the provider spells it. */
  readonly model: string;
  /** The largest number of texts of one request, and of bytes of these texts in UTF-8. */
  readonly limits: { readonly texts: number; readonly bytes: number };
  /** US dollars for a million tokens; `null`: unknown. */
  readonly price: number | null;
  /**
   * Makes one attempt at one request. Returns one embedding for each text, in the order of the texts. Throws
   * `AdapterError`.
   */
  readonly embed: (request: EmbeddingRequest, call: AdapterCall) => Promise<EmbeddingAnswer>;
};

/** The texts of one request. */
export type EmbeddingRequest = {
  readonly texts: readonly string[];
  /** The length of the embeddings; `null`: the default of the model. */
  readonly dimensions: number | null;
  /** What the embeddings are for; `null`: not said. */
  readonly task: EmbeddingTask | null;
  /** Fields of the provider's API, merged into the body last. */
  readonly options: JsonObject;
};

/**
 * What an embedding is for: `query` is compared with those of `document`s. Models that do not distinguish the two
 * ignore it.
 */
export type EmbeddingTask = "query" | "document";

/** The answer to one request. */
export type EmbeddingAnswer = {
  readonly embeddings: readonly Embedding[];
  readonly usage: Usage;
  /** The id of the HTTP request, as the provider reports it. */
  readonly requestId: string | null;
};

/** A model that orders documents by how well they answer a query. */
export type Reranker = {
  /** The name of the provider in failures. */
  readonly provider: string;
  /** The name of the model, as the provider spells it. */
  readonly model: string;
  /** US dollars for a million tokens; `null`: unknown. */
  readonly price: number | null;
  /** Makes one attempt. Throws `AdapterError`. */
  readonly rerank: (request: RerankRequest, call: AdapterCall) => Promise<RerankAnswer>;
};

/** A query and the documents to order. */
export type RerankRequest = {
  readonly query: string;
  readonly documents: readonly string[];
  /** How many documents to return; `null`: all. */
  readonly top: number | null;
  /** Fields of the provider's API, merged into the body last. */
  readonly options: JsonObject;
};

/** The answer to one request: indices of documents with their scores, in any order. */
export type RerankAnswer = {
  readonly scores: readonly { readonly index: number; readonly score: number }[];
  readonly usage: Usage;
  readonly requestId: string | null;
};

/** Sends one request. Throws `AdapterError` if there is no JSON answer. */
export async function request(
  server: JsonServer,
  {
    model,
    path,
    body,
    api,
  }: { readonly model: string; readonly path: string; readonly body: JsonObject; readonly api: string },
  call: AdapterCall,
): Promise<{ readonly body: JsonObject; readonly requestId: string | null }> {
  const jsonBody = { type: "json", value: body } as const;
  const answer = await requestJson(server, { model, path, body: jsonBody, api, timeouts: defaultTimeouts }, call);
  if (answer.ok) return answer;
  throw errorFromFailure(answer.failure);
}

/** An embedding of an answer. Throws `AdapterError` if it is not a list of numbers. */
export function checkedEmbedding(provider: string, value: unknown, requestId: string | null): Embedding {
  if (Array.isArray(value) && value.every((one) => typeof one === "number" && Number.isFinite(one))) return value;
  throw malformed(provider, "an embedding of the answer is not a list of numbers", requestId);
}

/** The error for an answer that is not what the API promises. */
export function malformed(provider: string, message: string, requestId: string | null): AdapterError {
  return new AdapterError("malformed_response", { provider, requestId, message: `${provider}: ${message}` });
}
