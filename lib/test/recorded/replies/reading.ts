// What a reply says, in a form that neither the APIs nor the codecs use. The readers (`read-<api>.ts`) build a
// `Reading` from the recorded JSON; `decoded.ts` builds one from the events of the codec; `compare.ts` compares the
// two.
//
// The readers share no code with lib/src/core/wire: a defect in a helper of the codecs must not repeat itself here.

import type { Json, JsonObject } from "everturn";

/**
 * A block of a reply. `replay` holds the fields that the provider requires back: signatures, encrypted content, item
 * ids.
 */
export type Block =
  | {
      readonly type: "text";
      readonly text: string;
      readonly isRefusal: boolean;
      readonly phase: string | null;
      /** Citations, annotations, sources. */
      readonly citations: JsonObject;
      readonly replay: JsonObject;
    }
  | { readonly type: "reasoning"; readonly text: string; readonly isHidden: boolean; readonly replay: JsonObject }
  | {
      readonly type: "call" | "provider_call";
      readonly id: string;
      readonly name: string;
      /** `null`: the arguments are no JSON object. */
      readonly arguments: JsonObject | null;
      /** The arguments as the model wrote them; `null` for APIs that send an object. */
      readonly argumentsText: string | null;
      readonly replay: JsonObject;
    }
  | {
      readonly type: "provider_result";
      readonly id: string;
      readonly content: Json;
      readonly isError: boolean;
      readonly replay: JsonObject;
    }
  | {
      readonly type: "image";
      readonly mimeType: string | null;
      readonly data: string;
      readonly revisedPrompt: string | null;
      readonly replay: JsonObject;
    }
  | { readonly type: "item"; readonly kind: string; readonly item: Json };

/**
 * How a reply ended: `failed` with an error of the provider, `interrupted` without the end that the protocol requires.
 */
type Outcome = "completed" | "failed" | "interrupted";

export type Reading = {
  readonly outcome: Outcome;
  /** The error of a reply that failed. */
  readonly error: { readonly message: string | null; readonly code: string | null } | null;
  readonly responseId: string | null;
  readonly model: string | null;
  readonly finishReason: string | null;
  readonly rawFinishReason: string | null;
  readonly blocks: readonly Block[];
  readonly usage: UsageReading | null;
  readonly logprobs: Json;
  /** Fields about the whole reply: stop sequence, container, service tier. */
  readonly metadata: JsonObject;
  /** The deltas, joined. A reply that was not streamed has none, except the arguments of a call that was cut off. */
  readonly deltas: Deltas;
  /**
   * The events of complete blocks, in any order, and the ids of the calls of the message. `null` for recordings: both
   * follow from the blocks.
   */
  readonly completions: Completions | null;
  /** The content of the assistant message in the next request. `null`: the next request is not compared. */
  readonly sentBack: readonly JsonObject[] | null;
  /** OpenAI Responses: the provider has stored the reply (`store`), and stores the next one. */
  readonly isStored: boolean;
};

export type UsageReading = {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cachedInputTokens: number | null;
  readonly cacheWriteInputTokens: number | null;
  readonly reasoningTokens: number | null;
  readonly totalTokens: number | null;
  readonly totalCost: number | null;
  readonly toolUsage: JsonObject;
  /** All other values, by path (`cache_creation.ephemeral_5m_input_tokens`). */
  readonly extra: JsonObject;
};

export type Deltas = {
  readonly text: string;
  readonly reasoning: string;
  /**
   * The argument text of each call that has any, in order. Gemini streams values and no text: then the objects that the
   * text of the codec must give.
   */
  readonly arguments: readonly (string | JsonObject)[];
};

/** The texts, the reasoning and the arguments of calls that events have completed. */
export type Completions = {
  readonly texts: readonly string[];
  readonly reasoning: readonly string[];
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: JsonObject | null }[];
  readonly callIds: readonly string[];
};

export const noReading: Reading = {
  outcome: "completed",
  error: null,
  responseId: null,
  model: null,
  finishReason: null,
  rawFinishReason: null,
  blocks: [],
  usage: null,
  logprobs: {},
  metadata: {},
  deltas: { text: "", reasoning: "", arguments: [] },
  completions: null,
  sentBack: null,
  isStored: false,
};

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !isList(value);
}

export const objectOf = (value: Json | undefined): JsonObject => (isObject(value) ? value : {});
export const listOf = (value: Json | undefined): readonly Json[] => (isList(value) ? value : []);
export const objectsOf = (value: Json | undefined): readonly JsonObject[] => listOf(value).filter(isObject);
export const stringOf = (value: Json | undefined): string => (typeof value === "string" ? value : "");
export const stringOrNull = (value: Json | undefined): string | null => (typeof value === "string" ? value : null);
export const numberOrNull = (value: Json | undefined): number | null => (typeof value === "number" ? value : null);

/** The object without some keys. */
export function without(object: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
}

/** The object with some keys only, and without `null`. */
export function only(object: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key, value]) => keys.includes(key) && value !== null));
}

/** Is there nothing in the value? */
export function isBlank(value: Json | undefined): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** The object without empty values. */
export function withoutBlanks(object: { readonly [key: string]: Json | undefined }): JsonObject {
  return Object.fromEntries(
    Object.entries(object).flatMap(([key, value]): [string, Json][] =>
      value === undefined || isBlank(value) ? [] : [[key, value]],
    ),
  );
}

/** Arguments that arrive as JSON text. */
export function argumentsOf(text: string): JsonObject | null {
  if (text.trim() === "") return {};
  try {
    const value: Json = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** The leaves of a JSON value by path, without empty values and zeros: a counter that is 0 may be left out. */
export function leavesOf(value: Json | undefined, path = ""): JsonObject {
  if (value === undefined || value === 0 || isBlank(value)) return {};
  if (typeof value !== "object" || value === null) return { [path]: value };
  return Object.assign(
    {},
    ...Object.entries(value).map(([key, item]) => leavesOf(item, path === "" ? key : `${path}.${key}`)),
  );
}

/**
 * The finish reason of the library: a normal end with calls for the program is `tool_calls`, and `tool_calls` without
 * calls is `stop`.
 */
export function finishWithCalls(reason: string | null, blocks: readonly Block[]): string | null {
  const hasCalls = blocks.some(({ type }) => type === "call");
  const isNormal = reason === null || ["stop", "other", "paused", "tool_calls"].includes(reason);
  if (hasCalls && isNormal) return "tool_calls";
  return reason === "tool_calls" ? "stop" : reason;
}

/** The blocks with ids of calls that are unique in the reply: the second call with an id gets `id~2`. */
export function withUniqueIds(blocks: readonly Block[]): readonly Block[] {
  const uses = new Map<string, number>();
  return blocks.map((block) => {
    if (block.type !== "call" && block.type !== "provider_call") return block;
    const use = (uses.get(block.id) ?? 0) + 1;
    uses.set(block.id, use);
    return use === 1 ? block : { ...block, id: `${block.id}~${use}` };
  });
}

export function failed(error: { readonly message: string | null; readonly code: string | null }): Reading {
  return { ...noReading, outcome: "failed", error };
}
