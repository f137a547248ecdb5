// Reads finish reasons, usage and errors of Chat Completions servers. Servers differ in these more than in anything
// else.
//
// Invariants
//   1. Every `finish_reason` maps to a finish reason; an unknown word is `other`.
//   2. Counts are inclusive (docs/decisions/0009). Servers that count cached or reasoning tokens separately are
//      recognised by their sums and corrected (fixtures/wire/openai-chat/cached-usage).
//   3. An error is found wherever servers put it: in place of a reply, in a frame (error-in-stream), in a choice
//      (error-in-choice), as an object or as text.

import type { AdapterFailure, FinishReason, Json, JsonObject, Usage } from "../../model/internal.ts";
import type { ErrorResponse, WireContext } from "../codec.ts";

import { isJsonArray, parseJson, usage } from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { asObject, countAt, numberAt, objectAt, objectsAt, textAt } from "../fields.ts";
import { extraUsage } from "../usage-extra.ts";
import { dropUnstorable } from "./storable-body.ts";

/** All values of `finish_reason` that servers are known to send, in lower case. */
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

/** Maps a `finish_reason`, in any letter case. */
export function finishReasonOf(rawReason: string): FinishReason {
  return finishReasons.get(rawReason.toLowerCase()) ?? "other";
}

/**
 * The word of Gemini for a call that the model wrote and Google's server rejected; `null`: the reason is another.
 * Google's compatible endpoint sends it after `function_call_filter:` (https://github.com/coder/coder/pull/28470),
 * OpenRouter in `native_finish_reason` (https://github.com/vellum-ai/vellum-assistant/pull/43134). The rejected call is
 * not in the reply, so that the reply looks complete.
 */
export function rejectedCallOf(reason: string | null): string | null {
  return /MALFORMED_FUNCTION_CALL|UNEXPECTED_TOOL_CALL/.exec(reason ?? "")?.[0] ?? null;
}

/** Fields of `usage` with a counterpart in `Usage`. The others go into `extra`. */
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
  "prompt_tokens_details.cached_tokens",
  "prompt_tokens_details.cache_write_tokens",
  "input_tokens_details.cached_tokens",
  "input_tokens_details.cache_write_tokens",
  "completion_tokens_details.reasoning_tokens",
  "output_tokens_details.reasoning_tokens",
]);

/**
 * Reads `usage` of a chunk or a body. Names of other APIs (`input_tokens`, `cache_read_input_tokens`) and of single
 * servers are read too: DeepSeek's `prompt_cache_hit_tokens`, `cost` in dollars, and `cost_in_usd_ticks`, of which a
 * dollar has 10^10.
 */
export function chatUsage(raw: JsonObject): Usage {
  const prompt = objectAt(raw, "prompt_tokens_details") ?? objectAt(raw, "input_tokens_details");
  const completion = objectAt(raw, "completion_tokens_details") ?? objectAt(raw, "output_tokens_details");
  const cached =
    countAt(prompt, "cached_tokens") ??
    countAt(raw, "prompt_cache_hit_tokens") ??
    countAt(raw, "cache_read_input_tokens") ??
    countAt(raw, "cached_tokens");
  const cacheWrites = countAt(prompt, "cache_write_tokens") ?? countAt(raw, "cache_creation_input_tokens");
  const total = countAt(raw, "total_tokens");
  const output = countAt(raw, "completion_tokens") ?? countAt(raw, "output_tokens");
  const promptTokens = countAt(raw, "prompt_tokens") ?? countAt(raw, "input_tokens");
  const isSum = promptTokens !== null && output !== null && total === promptTokens + output;
  const input = inclusiveInput(promptTokens, cached ?? 0, cacheWrites ?? 0, isSum);
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
    extra: extraUsage(raw, countedFields),
  });
}

/**
 * The inclusive input count. More cache tokens than prompt tokens mean that the server does not include them in the
 * prompt. A request can also write a prefix to the cache and read it at once (Gemini through OpenRouter), so that both
 * counters together exceed the prompt: then the total is the sum of prompt and output (`isSum`), and neither counter
 * exceeds the prompt.
 */
function inclusiveInput(input: number | null, cached: number, cacheWrites: number, isSum: boolean): number | null {
  const cacheTokens = cached + cacheWrites;
  if (input === null || cacheTokens <= input || (isSum && Math.max(cached, cacheWrites) <= input)) return input;
  return safeCount(input + cacheTokens);
}

/**
 * The inclusive output count. A total above input plus output, or more reasoning than output, means that the server
 * does not include reasoning in the output.
 */
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

/** The sum if it is a safe integer, otherwise `null`: counts that add up to more are wrong. */
function safeCount(sum: number): number | null {
  return Number.isSafeInteger(sum) ? sum : null;
}

/** An error as a server reports it. */
type ServerError = {
  readonly message: string | null;
  readonly code: string | null;
  readonly type: string | null;
  /** The HTTP status that some servers put into the `code` of an error in a stream. */
  readonly status: number | null;
};

/**
 * Finds the error in a body or a frame: `error`, `x_groq.error`, `choices[].error`, or a body with `object: "error"`.
 * `null`: there is none.
 */
export function findServerError(body: Json): ServerError | null {
  const object = asObject(unwrapList(body));
  if (object === null) return null;
  const holders = [object, objectAt(object, "x_groq"), ...objectsAt(object, "choices")];
  for (const holder of holders) {
    const error = holder?.["error"];
    // xAI sends the message as text, with the code beside it.
    if (typeof error === "string" && error !== "")
      return { message: error, code: textAt(holder ?? null, "code"), type: null, status: null };
    const errorObject = asObject(error);
    if (errorObject !== null && Object.keys(errorObject).length > 0) return readServerError(errorObject);
  }
  return textAt(object, "object") === "error" ? readServerError(object) : null;
}

/** The first item of a list: some servers wrap a body in an array. Other values are returned unchanged. */
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

/**
 * Classifies an error response by its `code`; if that gives no reason, by its `type`. Text that is no JSON is the
 * message, cut to 500 characters.
 */
export function chatFailure(response: ErrorResponse, context: WireContext): AdapterFailure {
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
