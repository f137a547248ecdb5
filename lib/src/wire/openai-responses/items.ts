// The items of a response of the OpenAI Responses API, and how a response ends. Items are read the same way whether they were streamed or not.
//
// Rules:
//   1. Function calls and custom tool calls are calls for us. What the provider ran by itself is a call part, with a result part where the item has
//      a result. Everything else, known or not, is an opaque part and goes back as it came.
//   2. An item stands in its replay data once: with the result part where there is one, without the result itself, which is the part's content.
//   3. A call that was cut off is begun and never ended.
//   4. A call without an id gets one from its place. Ids are unique within a reply.

import type {
  AdapterFailure,
  FinishReason,
  Json,
  JsonObject,
  ModelEvent,
  TextPhase,
  Usage,
} from "../../model/internal.ts";
import type { ProviderError } from "../classify.ts";
import type { WireContext } from "../codec.ts";

import { opaquePart, streamFailure, toolResultPart, usage } from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { asObject, countAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { parseArguments, ReplyBuilder } from "../reply-builder.ts";

/** How a response ended. `open`: it did not. */
export type Status = "completed" | "incomplete" | "failed" | "cancelled" | "open";

/** Between paragraphs of one reasoning item. */
export const paragraphSeparator = "\n\n";

/** Tools the provider runs by itself, by the type of their items, and where an item has the result. */
const hostedTools: ReadonlyMap<string, { readonly name: string; readonly result: string | null }> = new Map([
  ["web_search_call", { name: "web_search", result: null }],
  ["file_search_call", { name: "file_search", result: "results" }],
  ["code_interpreter_call", { name: "code_interpreter", result: "outputs" }],
  ["image_generation_call", { name: "image_generation", result: "result" }],
  ["mcp_call", { name: "mcp", result: "output" }],
]);

/** Under which name an item of this type has its result; `null` when it has none. */
export function resultField(type: string | null): string | null {
  return hostedTools.get(type ?? "")?.result ?? null;
}

/** Is this a call that somebody here has to answer? */
export function isFunctionCall(item: JsonObject): boolean {
  const type = textAt(item, "type");
  return type === "function_call" || type === "custom_tool_call";
}

/** Is this kept without being understood? */
export function isOpaque(item: JsonObject): boolean {
  const type = textAt(item, "type") ?? "";
  return type !== "message" && type !== "reasoning" && !isFunctionCall(item) && !hostedTools.has(type);
}

/** An item is announced. Only calls are worth an event. */
export function startItem(
  builder: ReplyBuilder,
  item: JsonObject,
  key: string,
  id: string = callIdOf(item, key),
): ModelEvent | null {
  const hosted = hostedTools.get(textAt(item, "type") ?? "");
  if (hosted === undefined && !isFunctionCall(item)) return null;
  const name = textAt(item, "name") ?? hosted?.name ?? "";
  return builder.startCall(id, name, { providerExecuted: hosted !== undefined, key });
}

/** A whole item. What was told of it before under the same key is completed. `id` is that of its call, if it is one. */
export function readItem(
  builder: ReplyBuilder,
  item: JsonObject,
  key: string,
  id: string = callIdOf(item, key),
): readonly ModelEvent[] {
  switch (textAt(item, "type")) {
    case "message":
      return readMessage(builder, item, key);
    case "reasoning":
      return [readReasoning(builder, item, key)];
    case "function_call":
    case "custom_tool_call":
      return readCall(builder, item, key, id);
    case null:
      return [];
    default:
      return isOpaque(item) ? readOpaque(builder, item) : readHosted(builder, item, key, id);
  }
}

function readMessage(builder: ReplyBuilder, item: JsonObject, key: string): readonly ModelEvent[] {
  const phase = phaseOf(item);
  return objectsAt(item, "content").flatMap((part, at): readonly ModelEvent[] => {
    const id = `${key}.${at}`;
    const refusal = textAt(part, "refusal");
    if (textAt(part, "type") === "refusal" && refusal !== null)
      return [builder.completeText(id, { text: refusal, phase, kind: "refusal" })];
    const text = textAt(part, "text");
    if (text === null) return [];
    const annotations = objectsAt(part, "annotations");
    return [builder.completeText(id, { text, phase, metadata: annotations.length === 0 ? {} : { annotations } })];
  });
}

function phaseOf(item: JsonObject): TextPhase | null {
  const phase = textAt(item, "phase");
  return phase === "commentary" || phase === "final_answer" ? phase : null;
}

/** What is shown of the reasoning is its summary or, from models that keep nothing back, the reasoning itself. */
export function reasoningText(item: JsonObject): string {
  const summary = textsOf(item, "summary");
  return (summary.length === 0 ? textsOf(item, "content") : summary).join(paragraphSeparator);
}

function readReasoning(builder: ReplyBuilder, item: JsonObject, key: string): ModelEvent {
  const text = reasoningText(item);
  const redacted = text === "" && textAt(item, "encrypted_content") !== null;
  return builder.completeReasoning(key, { text, redacted, provider: builder.replayData(item) });
}

function textsOf(item: JsonObject, field: string): readonly string[] {
  return objectsAt(item, field).flatMap((part) => textAt(part, "text") ?? []);
}

function readCall(builder: ReplyBuilder, item: JsonObject, key: string, id: string): readonly ModelEvent[] {
  const { call_id: _, name: __, arguments: argumentsText, input, ...itemFields } = item;
  const isCustom = textAt(item, "type") === "custom_tool_call";
  const name = textAt(item, "name") ?? "";
  const raw = isCustom ? argumentsTextOf(input) : argumentsTextOf(argumentsText);
  const isNew = !builder.hasCall(key);
  const startEvent = isNew ? startItem(builder, item, key, id) : null;
  // What a cut call had so far is told as it would have been in pieces.
  const isIncomplete = textAt(item, "status") === "incomplete";
  const lastEvent = isIncomplete
    ? isNew
      ? builder.appendArguments(key, raw)
      : null
    : builder.completeCall(key, {
        ...(name === "" ? {} : { name }),
        ...(isCustom ? { arguments: { input: raw } } : { raw }),
        provider: builder.replayData(itemFields),
      });
  return [startEvent, lastEvent].flatMap((event) => event ?? []);
}

/** Arguments are text; a server that gives them as an object is understood too. */
function argumentsTextOf(value: Json | undefined): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

/** What the provider ran by itself: the call, and the result where the item has one. */
function readHosted(builder: ReplyBuilder, item: JsonObject, key: string, id: string): readonly ModelEvent[] {
  const startEvent = builder.hasCall(key) ? null : startItem(builder, item, key, id);
  const field = resultField(textAt(item, "type"));
  const error = item["error"] ?? null;
  const itemResult = field === null ? null : (item[field] ?? null);
  const result = itemResult ?? error;
  const endEvent = builder.completeCall(key, {
    arguments: hostedArguments(item),
    provider: result === null ? builder.replayData(item) : null,
    metadata: omitNullish({ type: item["type"], status: item["status"], server: item["server_label"] }),
  });
  if (result !== null) {
    const itemWithoutResult = Object.fromEntries(
      Object.entries(item).filter(([name]) => itemResult === null || name !== field),
    );
    const isError = error !== null || textAt(item, "status") === "failed";
    const provider = builder.replayData(itemWithoutResult);
    builder.part(toolResultPart(builder.callId(key) ?? id, result, { isError, provider }));
  }
  return [startEvent, endEvent].flatMap((event) => event ?? []);
}

function hostedArguments(item: JsonObject): JsonObject | null {
  switch (textAt(item, "type")) {
    case "web_search_call":
      return objectAt(item, "action") ?? {};
    case "file_search_call":
      return omitNullish({ queries: item["queries"] });
    case "code_interpreter_call":
      return omitNullish({ code: item["code"], container_id: item["container_id"] });
    case "image_generation_call":
      return omitNullish({ prompt: item["revised_prompt"] });
    default:
      return parseArguments(argumentsTextOf(item["arguments"]));
  }
}

function readOpaque(builder: ReplyBuilder, item: JsonObject): readonly ModelEvent[] {
  builder.part(opaquePart(textAt(item, "type") ?? "unknown", builder.replayData(item)));
  return [];
}

function callIdOf(item: JsonObject, key: string): string {
  return nonEmptyTextAt(item, "call_id") ?? nonEmptyTextAt(item, "id") ?? `call_${key}`;
}

/** A name: an empty one is none. */
export function nonEmptyTextAt(object: JsonObject, key: string): string | null {
  const text = textAt(object, key);
  return text === "" ? null : text;
}

/** The status of a response; where it says none, or none that is an end, what is known otherwise. */
export function statusOf(response: JsonObject, fallback: Status | null = null): Status {
  const status = textAt(response, "status");
  switch (status) {
    case "completed":
    case "incomplete":
    case "failed":
    case "cancelled":
      return status;
    case "queued":
    case "in_progress":
      return fallback ?? "open";
    default:
      return objectAt(response, "error") === null ? (fallback ?? "completed") : "failed";
  }
}

/** The last events of a response: what it cost, and the message of its items or the failure. `ids` are those its calls were told under. */
export function endingEvents(
  status: Status,
  response: JsonObject,
  items: readonly JsonObject[],
  context: WireContext,
  ids: readonly (string | null)[] = [],
): readonly ModelEvent[] {
  const reportedUsage = usageOf(response);
  const { provider } = context.route;
  switch (status) {
    case "completed":
    case "incomplete": {
      const builder = new ReplyBuilder(context);
      for (const [at, item] of items.entries()) readItem(builder, item, `${at}`, ids[at] ?? undefined);
      const reason = textAt(objectAt(response, "incomplete_details"), "reason");
      return builder.end({
        finishReason: finishReasonOf(status, reason, items),
        rawFinishReason: status === "completed" ? status : (reason ?? status),
        responseId: textAt(response, "id"),
        model: textAt(response, "model"),
        usage: reportedUsage,
        metadata: omitNullish({ serviceTier: textAt(response, "service_tier") }),
      });
    }
    case "failed":
    case "cancelled":
    case "open": {
      const error =
        status === "failed"
          ? failureOf(response, context)
          : streamFailure(status === "open" ? "interrupted" : "cancelled", { provider });
      const usageEvents: readonly ModelEvent[] =
        reportedUsage === null ? [] : [{ type: "usage", usage: reportedUsage }];
      return [...usageEvents, { type: "error", error }];
    }
  }
}

function finishReasonOf(
  status: "completed" | "incomplete",
  reason: string | null,
  items: readonly JsonObject[],
): FinishReason {
  if (status === "completed") return items.some(isRefusal) ? "content_filter" : "stop";
  if (reason === "max_output_tokens") return "length";
  return reason === "content_filter" ? "content_filter" : "other";
}

function isRefusal(item: JsonObject): boolean {
  return (
    textAt(item, "type") === "message" &&
    objectsAt(item, "content").some((part) => textAt(part, "type") === "refusal" && textAt(part, "refusal") !== "")
  );
}

/** What a response cost; the counts already include what was cached and what was reasoning. */
function usageOf(response: JsonObject): Usage | null {
  const reported = objectAt(response, "usage");
  if (reported === null) return null;
  const input = objectAt(reported, "input_tokens_details");
  const output = objectAt(reported, "output_tokens_details");
  const toolUses = Object.entries(objectAt(response, "tool_usage") ?? {}).flatMap(([name, use]): [string, number][] => {
    const count = countAt(asObject(use), "num_requests") ?? 0;
    return count === 0 ? [] : [[name, count]];
  });
  const extra = Object.entries(reported).filter(
    ([name, value]) => !countedUsageKeys.has(name) && Number.isFinite(value),
  );
  return usage({
    inputTokens: countAt(reported, "input_tokens"),
    outputTokens: countAt(reported, "output_tokens"),
    cachedInputTokens: countAt(input, "cached_tokens"),
    cacheWriteInputTokens: countAt(input, "cache_write_tokens"),
    reasoningTokens: countAt(output, "reasoning_tokens"),
    totalTokens: countAt(reported, "total_tokens"),
    toolUsage: Object.fromEntries(toolUses),
    extra: Object.fromEntries(extra),
  });
}

const countedUsageKeys: ReadonlySet<string> = new Set(["input_tokens", "output_tokens", "total_tokens"]);

/** What a response, an event or a body says went wrong. */
export function failureOf(body: Json, context: WireContext): AdapterFailure {
  return classify({ status: null, body, requestId: null, retryAfterMs: null }, providerErrorOf(body), context);
}

/** Errors stand under `error`, or are the body itself; gateways have words of their own. */
export function providerErrorOf(body: Json): ProviderError {
  if (typeof body === "string") return { message: body === "" ? null : body, code: null };
  const bodyObject = asObject(body);
  const nested = objectAt(bodyObject, "error");
  const error = nested ?? bodyObject;
  const message = textAt(error, "message") ?? textAt(bodyObject, "error") ?? textAt(error, "detail");
  // The type of an event is no word for what went wrong.
  return { message, code: textAt(error, "code") ?? (nested === null ? null : textAt(error, "type")) };
}
