// `rerank`: orders documents by how well they answer a query.

import type { Usage } from "../../core/model/internal.ts";
import type { Reranker } from "./adapter.ts";
import type { EmbeddingCallOptions } from "./call.ts";

import { atLeastOne } from "../../core/engine/internal.ts";
import { noUsage } from "../../core/model/internal.ts";
import { malformed } from "./adapter.ts";
import { callMeasured, callOf, checkText } from "./call.ts";

/** Options of {@link rerank}. */
type RerankOptions = EmbeddingCallOptions & {
  /** How many documents to return, the best ones. Default: all. */
  readonly top?: number;
};

/** A document with its score. */
type RankedDocument = {
  /** The index in the list of documents. */
  readonly index: number;
  readonly document: string;
  /** How well it answers the query. Higher is better; the range depends on the model. */
  readonly score: number;
};

/** The documents, best first. */
export type Reranked = { readonly ranking: readonly RankedDocument[]; readonly usage: Usage };

/**
 * Orders documents by how well they answer the query, best first. Throws `AdapterError` if the request fails,
 * `MisuseError` for a wrong argument.
 */
export async function rerank(
  model: Reranker,
  query: string,
  documents: readonly string[],
  options: RerankOptions = {},
): Promise<Reranked> {
  const { top = null, options: fields = {} } = options;
  const call = callOf("rerank", options, { top: atLeastOne });
  checkText("rerank", query, ["query"]);
  for (const [index, document] of documents.entries()) checkText("rerank", document, ["documents", index]);
  if (documents.length === 0) return { ranking: [], usage: noUsage };
  const request = { query, documents, top: top === null ? null : Math.min(top, documents.length), options: fields };
  const measured = { name: "rerank", model, metadata: { documents: documents.length } } as const;
  const { ranking, usage } = await callMeasured(call, measured, async (attempt) => {
    const answer = await model.rerank(request, attempt);
    const ranked = new Map<number, RankedDocument>();
    for (const { index, score } of answer.scores) {
      const document = documents[index];
      if (document === undefined || ranked.has(index)) {
        const what = document === undefined ? "does not exist" : "is there twice";
        throw malformed(model.provider, `document ${index} of the answer ${what}`, answer.requestId);
      }
      ranked.set(index, { index, document, score });
    }
    if (ranked.size < (request.top ?? documents.length)) {
      const message = `the answer has ${ranked.size} documents instead of ${request.top ?? documents.length}`;
      throw malformed(model.provider, message, answer.requestId);
    }
    return { ranking: [...ranked.values()], usage: answer.usage };
  });
  // The order of equal scores is that of the documents.
  const best = ranking.sort((a, b) => b.score - a.score || a.index - b.index).slice(0, request.top ?? ranking.length);
  return { ranking: best, usage };
}
