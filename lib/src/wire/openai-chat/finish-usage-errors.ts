// What servers of Chat Completions say in words and numbers: how a reply ended, what it cost, what went wrong.
//
// Rules:
//   1. Every word has a meaning: one nobody knows is `other`.
//   2. Counts are inclusive. Servers that count reasoning beside the output (it shows in their total) are set right.
//   3. An error is an error wherever it stands: in place of a reply, in a frame, in a choice, as an object or as text.

import type { AdapterFailure, FinishReason, Json, JsonObject, Usage } from "../../model/internal.ts";
import type { ErrorResponse, WireContext } from "../codec.ts";

import { isJsonArray, parseJson, usage } from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { asObject, countAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { dropUnstorable } from "./storable-body.ts";

/** Every word a server is known to end a reply with. */
const finishReasons: ReadonlyMap<string, FinishReason> = new Map([
  ["stop", "stop"],
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["eos", "stop"],
  ["eos_token", "stop"],
  ["complete", "stop"],
  ["length", "length"],
  ["max_tokens", "length"],
  ["max_output_tokens", "length"],
  ["model_length", "length"],
  ["model_context_window_exceeded", "length"],
  ["tool_calls", "tool_calls"],
  ["tool_call", "tool_calls"],
  ["tool_use", "tool_calls"],
  ["function_call", "tool_calls"],
  ["content_filter", "content_filter"],
  ["refusal", "content_filter"],
  ["safety", "content_filter"],
  ["recitation", "content_filter"],
  ["sensitive", "content_filter"],
  ["error", "error"],
  ["network_error", "error"],
  ["insufficient_system_resource", "error"],
]);

export function finishReasonOf(rawReason: string): FinishReason {
  return finishReasons.get(rawReason.toLowerCase()) ?? "other";
}

const countedFields = new Set([
  "prompt_tokens",
  "input_tokens",
  "completion_tokens",
  "output_tokens",
  "total_tokens",
  "reasoning_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "prompt_cache_hit_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "cost",
  "server_tool_use",
]);

/** What a reply cost, out of the `usage` of a chunk or a body. */
export function usageOf(raw: JsonObject): Usage {
  const prompt = objectAt(raw, "prompt_tokens_details") ?? objectAt(raw, "input_tokens_details");
  const completion = objectAt(raw, "completion_tokens_details") ?? objectAt(raw, "output_tokens_details");
  const cached =
    countAt(prompt, "cached_tokens") ??
    countAt(raw, "prompt_cache_hit_tokens") ??
    countAt(raw, "cache_read_input_tokens") ??
    countAt(raw, "cached_tokens");
  const cacheWrites = countAt(prompt, "cache_write_tokens") ?? countAt(raw, "cache_creation_input_tokens");
  const total = countAt(raw, "total_tokens");
  const input = inclusiveInput(countAt(raw, "prompt_tokens") ?? countAt(raw, "input_tokens"), cached, cacheWrites);
  const output = countAt(raw, "completion_tokens") ?? countAt(raw, "output_tokens");
  const reasoning = countAt(completion, "reasoning_tokens") ?? countAt(raw, "reasoning_tokens");
  const ticks = numberAt(raw, "cost_in_usd_ticks");
  return usage({
    inputTokens: input,
    outputTokens: inclusiveOutput(output, reasoning, input, total),
    cachedInputTokens: cached,
    cacheWriteInputTokens: cacheWrites,
    reasoningTokens: reasoning,
    totalTokens: total,
    totalCost:
      numberAt(raw, "cost") ?? numberAt(objectAt(raw, "cost"), "total_cost") ?? (ticks === null ? null : ticks / 1e10),
    toolUsage: objectAt(raw, "server_tool_use") ?? {},
    extra: omitNullish(Object.fromEntries(Object.entries(raw).flatMap(extraFields))),
  });
}

/** More tokens from and for the cache than the prompt has: then the server counts them beside it. */
function inclusiveInput(input: number | null, cached: number | null, cacheWrites: number | null): number | null {
  const cacheTokens = (cached ?? 0) + (cacheWrites ?? 0);
  return input !== null && cacheTokens > input ? safeCount(input + cacheTokens) : input;
}

/** A total that is more than prompt and output, or more reasoning than output: then the server counts reasoning beside it. */
function inclusiveOutput(
  output: number | null,
  reasoning: number | null,
  input: number | null,
  total: number | null,
): number | null {
  if (output === null) return null;
  const impliedOutput = input === null || total === null ? output : Math.max(output, total - input);
  return reasoning !== null && reasoning > impliedOutput ? safeCount(impliedOutput + reasoning) : impliedOutput;
}

/** A sum that can still be counted with. Counts of which it cannot be made are wrong, and wrong is unknown. */
function safeCount(sum: number): number | null {
  return Number.isSafeInteger(sum) ? sum : null;
}

/** What else was reported. Details stand beside each other by their path, so that sums can be made. */
function extraFields([key, value]: [string, Json]): [string, Json][] {
  if (countedFields.has(key)) return [];
  const details = key.endsWith("_details") ? asObject(value) : null;
  if (details === null) return [[key, value]];
  return Object.entries(details).flatMap(([name, item]): [string, Json][] =>
    countedFields.has(name) || item === 0 ? [] : [[`${key}.${name}`, item]],
  );
}

/** An error as a server words it. */
type ServerError = {
  readonly message: string | null;
  readonly code: string | null;
  readonly type: string | null;
  /** Some say the HTTP status as the code of an error in a stream. */
  readonly status: number | null;
};

/** The error a body or a frame is, or holds; `null` when it is none. */
export function findServerError(body: Json): ServerError | null {
  const object = asObject(unwrapList(body));
  if (object === null) return null;
  const holders = [object, objectAt(object, "x_groq"), ...objectsAt(object, "choices")];
  for (const holder of holders) {
    const error = holder?.["error"];
    if (typeof error === "string" && error !== "") return { message: error, code: null, type: null, status: null };
    const errorObject = asObject(error);
    if (errorObject !== null && Object.keys(errorObject).length > 0) return readServerError(errorObject);
  }
  return textAt(object, "object") === "error" ? readServerError(object) : null;
}

/** A list with one thing in it, as some servers answer, is that thing. */
export function unwrapList(body: Json): Json {
  return isJsonArray(body) ? (body[0] ?? null) : body;
}

function readServerError(error: JsonObject): ServerError {
  const numericCode = countAt(error, "code") ?? countAt(error, "status");
  const detail = error["detail"];
  return {
    message:
      textAt(error, "message") ??
      textAt(error, "detail") ??
      (detail === undefined || detail === null ? null : JSON.stringify(detail)),
    code: textAt(error, "code") ?? (numericCode === null ? null : `${numericCode}`),
    type: textAt(error, "type"),
    status: numericCode !== null && numericCode >= 400 && numericCode < 600 ? numericCode : null,
  };
}

/** The failure behind an answer. Where the code says nothing, the type of the error does. */
export function failureOf(response: ErrorResponse, context: WireContext): AdapterFailure {
  const body = dropUnstorable(response.body);
  const parsed = typeof body === "string" ? dropUnstorable(parseJson(body)?.value ?? body) : body;
  const object = asObject(unwrapList(parsed));
  const error = findServerError(parsed) ?? (object === null ? null : readServerError(object));
  const resolvedResponse = { ...response, body, status: response.status ?? error?.status ?? null };
  const text = typeof parsed === "string" && parsed.trim() !== "" ? parsed.trim().slice(0, 500) : null;
  const message = error?.message ?? text;
  const code = error?.code ?? error?.type ?? null;
  const failure = classify(resolvedResponse, { message, code }, context);
  if (failure.reason !== "unknown" || error?.type === null || error?.type === undefined) return failure;
  return { ...classify(resolvedResponse, { message, code: error.type }, context), code };
}
