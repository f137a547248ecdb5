// What the requests of a session leave out or shorten of its history, and how many tokens they have.
//
// The history of a session is append-only and stays whole. A frame stands for its first messages in requests: the
// messages stay in the thread, and a frame is no message. Both are decided by the kernel
// (core/kernel/machine/context.ts) and rendered by core/kernel/history/framed-history.ts.

import type { Infer, Shape } from "../parse/shape.ts";

import { noUsage, usageShape } from "../call/usage.ts";
import { array, count, fallback, nullable, number, object, oneOf, required, string } from "../parse/shape.ts";

const frameFields = {
  /** Identifies the frame in its session: `<turn>/<step>/frame`. */
  id: required(string),
  /** The number of messages of the history that the frame stands for, from the first one. */
  to: required(count),
  /** What the model reads in place of these messages; `null`: no summary could be made, and they are left out. */
  summary: fallback(nullable(string), null),
  /** The positions of the messages before `to` that requests still contain as they are. */
  pinned: fallback(array(count), []),
  /**
   * When `undoCompaction` took the frame back, in milliseconds since 1970-01-01 UTC: requests contain its messages
   * again. `null`: it was not taken back.
   */
  undoneAt: fallback(nullable(count), null),
};

/**
 * An entry of a session beside its messages: it stands for the first `to` messages in requests. The messages stay in
 * the history.
 */
export type HistoryFrame = Infer<typeof frameFields>;

export const frameShape: Shape<HistoryFrame> = object(frameFields);

const tokenCountFields = {
  /** Input tokens of the newest request. */
  tokens: required(count),
  /** `counted`: the provider has reported the number. `estimated`: it has not. */
  source: required(oneOf(["counted", "estimated"])),
  /**
   * What the number comes from. `usage`: the usage of a reply. `provider`: the provider's endpoint that counts tokens.
   * `tokenizer`: the tokenizer of the context policy. `characters`: the lengths of the texts.
   */
  by: fallback(oneOf(["usage", "provider", "tokenizer", "characters"]), "usage"),
  /** The number of messages of the history at that request. */
  length: required(count),
};

/** How many input tokens a request has. */
export type TokenCount = Infer<typeof tokenCountFields>;

const tokenCountShape: Shape<TokenCount> = object(tokenCountFields);

const compactionRequestFields = {
  /** What the summary has to keep, besides what the context policy and the library ask for; `null`: nothing more. */
  instructions: fallback(nullable(string), null),
};

/** A request to replace old messages by a summary before the next model call, however short the history is. */
export type CompactionRequest = Infer<typeof compactionRequestFields>;

const contextWindowFields = {
  /** The newest frame; `null`: requests contain the whole history. */
  frame: fallback(nullable(frameShape), null),
  /** Long tool results before this position are sent shortened. It moves in rare, large steps. */
  prunedBefore: fallback(count, 0),
  /**
   * The tokens of the newest request; `null`: there was none since a frame or pruning changed what requests contain.
   */
  count: fallback(nullable(tokenCountShape), null),
  /**
   * The tokens of the newest request that was counted, divided by their estimate from characters. Later estimates are
   * multiplied by it.
   */
  ratio: fallback(number, 1),
  /** The length of the history at the last attempt to compact it. */
  attemptedAt: fallback(count, 0),
  /** The length of the history at the last count of tokens that failed. */
  uncountedAt: fallback(count, 0),
  /** Set by the verb `compact` and by `compactTool`, until the next model call; `null`: none is requested. */
  requested: fallback(nullable(object(compactionRequestFields)), null),
  /** The usage of all summaries of the session. It is a part of the usage of the session. */
  summaryUsage: fallback(usageShape, noUsage),
};

/** What the requests of a session leave out or shorten of its history, and how many tokens the newest one had. */
export type ContextWindow = Infer<typeof contextWindowFields>;

export const contextWindowShape: Shape<ContextWindow> = object(contextWindowFields);

/** What the next requests of a session leave out of its history. */
export type Compaction = {
  /** The newest frame; `null`: requests contain the whole history. */
  readonly frame: HistoryFrame | null;
  /** The compaction that precedes the next model call; `null`: none is requested. */
  readonly requested: CompactionRequest | null;
};

/** Requests contain the whole history, and none was sent yet. */
export const wholeHistory: ContextWindow = {
  frame: null,
  prunedBefore: 0,
  count: null,
  ratio: 1,
  attemptedAt: 0,
  uncountedAt: 0,
  requested: null,
  summaryUsage: noUsage,
};

/** The form of a context window that a session stores; `null`: requests contain the whole history. */
export function storedWindow(window: ContextWindow): ContextWindow | null {
  const { frame, prunedBefore, count: counted, requested, summaryUsage } = window;
  const { inputTokens, outputTokens, totalTokens, totalCost } = summaryUsage;
  const isUnused = [inputTokens, outputTokens, totalTokens, totalCost].every((number) => number === null);
  return frame === null && prunedBefore === 0 && counted === null && requested === null && isUnused ? null : window;
}

/** The part of a context window that is valid for the first `length` messages of its session. */
export function windowUpTo(window: ContextWindow | null, length: number): ContextWindow {
  if (window === null) return wholeHistory;
  const { frame, prunedBefore, count: counted, attemptedAt, uncountedAt, summaryUsage } = window;
  if (frame !== null && frame.to > length) return { ...wholeHistory, summaryUsage };
  return {
    ...window,
    prunedBefore: Math.min(prunedBefore, length),
    count: counted !== null && counted.length > length ? null : counted,
    attemptedAt: Math.min(attemptedAt, length),
    uncountedAt: Math.min(uncountedAt, length),
  };
}
