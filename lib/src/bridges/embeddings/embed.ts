// `embed` and `embedMany`. Many texts become requests within the limits of the adapter; some requests are in flight at
// the same time, and the embeddings are returned in the order of the texts.

import type { Usage } from "../../core/model/internal.ts";
import type { Embedding, EmbeddingAdapter, EmbeddingTask } from "./adapter.ts";
import type { Call, EmbeddingCallOptions } from "./call.ts";

import { anything, atLeastOne } from "../../core/engine/internal.ts";
import { addUsage, noUsage, orThrow } from "../../core/model/internal.ts";
import { malformed } from "./adapter.ts";
import { callMeasured, callOf, checkText } from "./call.ts";

/** Options of {@link embed}. */
type EmbedOptions = EmbeddingCallOptions & {
  /** The length of the embeddings. Default: that of the model. Not every model can shorten its embeddings. */
  readonly dimensions?: number;
  /** What the embeddings are for. Default: not said. */
  readonly task?: EmbeddingTask;
};

/** Options of {@link embedMany}. */
type EmbedManyOptions = EmbedOptions & {
  /** How many requests are in flight at the same time. Default: 4. */
  readonly maxConcurrency?: number;
};

/** The embedding of one text. */
export type Embedded = {
  readonly embedding: Embedding;
  /** Tokens and cost. */
  readonly usage: Usage;
};

/** The embeddings of many texts. */
export type EmbeddedMany = {
  /** In the order of the texts. */
  readonly embeddings: readonly Embedding[];
  /** Tokens and cost of all requests. */
  readonly usage: Usage;
  /** The number of requests, without repeated attempts. */
  readonly requests: number;
};

const embedRules = { dimensions: atLeastOne, task: anything };

/**
 * Embeds one text. Throws `AdapterError` if the request fails, `MisuseError` for an empty text or a wrong option.
 *
 * @example
 * ```ts
 * import { cosineSimilarity, embed, fakeEmbeddings } from "everturn/middleware";
 *
 * const model = fakeEmbeddings(); // Or openaiEmbeddings({ model: "text-embedding-3-small" }).
 * const rain = await embed(model, "It rains in Rome.");
 * const same = await embed(model, "It rains in Rome.");
 * cosineSimilarity(rain.embedding, same.embedding); // => 1
 * ```
 */
export async function embed(model: EmbeddingAdapter, text: string, options: EmbedOptions = {}): Promise<Embedded> {
  const call = callOf("embed", options, embedRules);
  checkText("embed", text, ["text"]);
  const { embeddings, usage } = await embedBatch(model, [text], options, call);
  const [embedding] = embeddings;
  if (embedding === undefined) throw malformed(model.provider, "the answer has no embedding", null);
  return { embedding, usage };
}

/**
 * Embeds many texts, in as few requests as the model allows. If a request fails after its retries, the others are
 * aborted and the call throws `AdapterError`: no part of the result is returned.
 */
export async function embedMany(
  model: EmbeddingAdapter,
  texts: readonly string[],
  options: EmbedManyOptions = {},
): Promise<EmbeddedMany> {
  const { maxConcurrency = 4 } = options;
  const call = callOf("embedMany", options, { ...embedRules, maxConcurrency: atLeastOne });
  for (const [index, text] of texts.entries()) checkText("embedMany", text, ["texts", index]);
  const batches = batchesOf(texts, model.limits);
  // One failure ends the call, so the requests that are still in flight are aborted.
  const stopped = new AbortController();
  const stop = (): void => stopped.abort(call.of.signal.reason);
  if (call.of.signal.aborted) stop();
  call.of.signal.addEventListener("abort", stop);
  const ofBatch = { ...call, of: { ...call.of, signal: stopped.signal } };
  const results: Embeddings[] = [];
  const unsent = batches.entries();
  const work = async (): Promise<void> => {
    for (const [index, batch] of unsent) {
      // An adapter of the program may ignore the signal.
      stopped.signal.throwIfAborted();
      results[index] = await embedBatch(model, batch, options, ofBatch);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(maxConcurrency, batches.length) }, work));
  } catch (error) {
    stopped.abort();
    throw error;
  } finally {
    call.of.signal.removeEventListener("abort", stop);
  }
  const usage = results.reduce((sum, result) => orThrow(addUsage(sum, result.usage)), noUsage);
  return { embeddings: results.flatMap(({ embeddings }) => embeddings), usage, requests: batches.length };
}

type Embeddings = { readonly embeddings: readonly Embedding[]; readonly usage: Usage };

/** Embeds the texts of one request. */
async function embedBatch(
  model: EmbeddingAdapter,
  texts: readonly string[],
  settings: EmbedOptions,
  call: Call,
): Promise<Embeddings> {
  const dimensions = settings.dimensions ?? null;
  const task = settings.task ?? null;
  const options = settings.options ?? {};
  const measured = { name: "embeddings", model, metadata: { texts: texts.length } } as const;
  return callMeasured(call, measured, async (attempt) => {
    const { embeddings, usage, requestId } = await model.embed({ texts, dimensions, task, options }, attempt);
    const [first] = embeddings;
    if (embeddings.length !== texts.length) {
      const message = `the answer has ${embeddings.length} embeddings for ${texts.length} texts`;
      throw malformed(model.provider, message, requestId);
    }
    if (first === undefined || embeddings.some((one) => one.length === 0 || one.length !== first.length)) {
      throw malformed(model.provider, "the embeddings of the answer do not all have the same length", requestId);
    }
    return { embeddings, usage, facts: { dimensions: first.length } };
  });
}

/**
 * Divides texts into requests. A text that exceeds the limit of bytes alone gets a request of its own, and the server
 * decides.
 */
function batchesOf(texts: readonly string[], limits: EmbeddingAdapter["limits"]): readonly (readonly string[])[] {
  const batches: string[][] = [];
  const encoder = new TextEncoder();
  let bytes = 0;
  for (const text of texts) {
    const length = encoder.encode(text).length;
    const last = batches.at(-1);
    if (last === undefined || last.length >= limits.texts || bytes + length > limits.bytes) {
      batches.push([text]);
      bytes = length;
    } else {
      last.push(text);
      bytes += length;
    }
  }
  return batches;
}

/**
 * How similar two embeddings are: the cosine of the angle between them, from -1 to 1. Throws `RangeError` if they have
 * different lengths; 0 if one of them has no direction.
 */
export function cosineSimilarity(left: Embedding, right: Embedding): number {
  if (left.length !== right.length) {
    throw new RangeError(
      `the embeddings have ${left.length} and ${right.length} numbers; they are of different models or dimensions`,
    );
  }
  let [product, leftSquares, rightSquares] = [0, 0, 0];
  for (const [index, a] of left.entries()) {
    const b = right[index] ?? 0;
    product += a * b;
    leftSquares += a * a;
    rightSquares += b * b;
  }
  const lengths = Math.sqrt(leftSquares) * Math.sqrt(rightSquares);
  return lengths === 0 ? 0 : Math.max(-1, Math.min(1, product / lengths));
}
