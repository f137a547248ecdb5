// Reads complete items of a response of the OpenAI Responses API, and the end of a response. Streamed and whole
// responses use the same functions (W3).
//
// Invariants
//   1. `function_call`, `custom_tool_call` and the items of `client-calls.ts` are calls for the program. Items of tools
//      that the provider ran (`hostedTools`, and other types that end in `_call`) are `tool_call` parts, with a
//      `tool_result` part if the item has a result (fixtures/wire/openai-responses/hosted-tools). All other items are
//      opaque parts and are sent back unchanged. The result of `image_generation_call` is an image part after the call;
//      its replay data holds the rest of the item.
//   2. An item is stored once: the replay data of its result part, or of its call part, holds the item without the
//      result, which is the content of the part.
//   3. A call with the status `incomplete` is started and never completed; so is an item of `client-calls.ts` that a
//      stream left `in_progress`.
//   4. A call without an id gets one from its key. Ids are unique within a reply.
//   5. A message item after reasoning keeps its id and status as replay data of its texts, unless the provider did not
//      store the response: with `store: true` the API refuses the reasoning without the stored item after it
//      (encode-messages.ts). Other messages are sent back by their text.

import type {
  AdapterFailure,
  FinishReason,
  ImagePart,
  Json,
  JsonObject,
  ModelEvent,
  TextPhase,
  Usage,
} from "../../model/internal.ts";
import type { ProviderError } from "../classify.ts";
import type { WireContext } from "../codec.ts";

import {
  imageFromBase64,
  imagePart,
  isStorableJson,
  opaquePart,
  streamFailure,
  toolResultPart,
  usage,
} from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { parseArguments, ReplyBuilder } from "../reply-builder.ts";
import { extraUsage } from "../usage-extra.ts";
import { clientCallOf, replayFieldsOf } from "./client-calls.ts";
import { markStoredReply } from "./stored-history.ts";

/** How a response ended. `open`: it is still running. */
export type Status = "completed" | "incomplete" | "failed" | "cancelled" | "open";

/** Joins the summary parts of one reasoning item. */
export const paragraphSeparator = "\n\n";

/** Tools that the provider runs, by the type of their items, and the field that holds the result. */
const hostedTools: ReadonlyMap<string, { readonly name: string; readonly result: string | null }> = new Map([
  ["web_search_call", { name: "web_search", result: null }],
  ["file_search_call", { name: "file_search", result: "results" }],
  ["code_interpreter_call", { name: "code_interpreter", result: "outputs" }],
  ["image_generation_call", { name: "image_generation", result: "result" }],
  ["mcp_call", { name: "mcp", result: "output" }],
]);

/** The field that holds the result in items of this type; `null`: there is none. */
export function resultField(type: string | null): string | null {
  return hostedTools.get(type ?? "")?.result ?? null;
}

/** Is the item a call that the program has to answer? */
export function isProgramCall(item: JsonObject): boolean {
  const type = textAt(item, "type");
  return type === "function_call" || type === "custom_tool_call" || clientCallOf(item) !== null;
}

/**
 * The name of a tool that the provider runs; `null`: the item is no call of such a tool. Types that are not in
 * `hostedTools` are named after the type: `x_search_call` is `x_search`.
 */
function hostedName(builder: ReplyBuilder, item: JsonObject): string | null {
  const type = textAt(item, "type") ?? "";
  if (type === "custom_tool_call" && builder.quirks.customCalls === "provider") return textAt(item, "name") ?? "custom";
  if (isProgramCall(item)) return null;
  return hostedTools.get(type)?.name ?? (isUnknownHosted(item) ? type.replace(/_call$/, "") : null);
}

/**
 * Is the item a call of a tool that the provider runs and that is not in `hostedTools`? Such an item has arguments in
 * one of three fields.
 */
function isUnknownHosted(item: JsonObject): boolean {
  const isCall = textAt(item, "type")?.endsWith("_call") === true;
  return isCall && ["arguments", "input", "action"].some((field) => (item[field] ?? null) !== null);
}

/** Is the item kept as an opaque part? */
export function isOpaque(item: JsonObject): boolean {
  const type = textAt(item, "type") ?? "";
  if (type === "message" || type === "reasoning") return false;
  return !isProgramCall(item) && !hostedTools.has(type) && !isUnknownHosted(item);
}

/** The event for the start of an item. Only calls have one. `id` is the id of the call. */
export function startItem(
  builder: ReplyBuilder,
  item: JsonObject,
  key: string,
  id: string = callIdOf(item, key),
): ModelEvent | null {
  const hosted = hostedName(builder, item);
  if (hosted === null && !isProgramCall(item)) return null;
  const name = clientCallOf(item)?.name(item) ?? textAt(item, "name") ?? hosted ?? "";
  return builder.startCall(id, name, { providerExecuted: hosted !== null, key });
}

/**
 * Reads a complete item and completes the blocks that its deltas opened under the same key. `id` is the id of the call,
 * if the item is one. `isPaired`: the item is stored and follows reasoning (invariant 5).
 */
export function readItem(
  builder: ReplyBuilder,
  item: JsonObject,
  key: string,
  isPaired: boolean,
  id: string = callIdOf(item, key),
): readonly ModelEvent[] {
  switch (textAt(item, "type")) {
    case "message":
      return readMessage(builder, item, key, isPaired);
    case "reasoning":
      return [readReasoning(builder, item, key)];
    case null:
      return [];
    default:
      if (hostedName(builder, item) !== null) return readHosted(builder, item, key, id);
      return isProgramCall(item) ? readCall(builder, item, key, id) : readOpaque(builder, item);
  }
}

/** Completes one text block for each content part, with the key `<item>.<index>`. */
function readMessage(builder: ReplyBuilder, item: JsonObject, key: string, isPaired: boolean): readonly ModelEvent[] {
  const phase = phaseOf(item);
  const itemId = isPaired ? nonEmptyTextAt(item, "id") : null;
  const replay = itemId === null ? null : builder.replayData(omitNullish({ id: itemId, status: item["status"] }));
  return objectsAt(item, "content").flatMap((part, at): readonly ModelEvent[] => {
    const id = `${key}.${at}`;
    const refusal = textAt(part, "refusal");
    const isRefusal = textAt(part, "type") === "refusal" && refusal !== null;
    const text = isRefusal ? refusal : textAt(part, "text");
    if (text === null) return [];
    // An empty text is no part of the message. With replay data it would be one.
    const provider = text === "" ? null : replay;
    if (isRefusal) return [builder.completeText(id, { text, phase, kind: "refusal", provider })];
    const annotations = objectsAt(part, "annotations");
    const metadata = annotations.length === 0 ? {} : { annotations };
    return [builder.completeText(id, { text, phase, metadata, provider })];
  });
}

function phaseOf(item: JsonObject): TextPhase | null {
  const phase = textAt(item, "phase");
  return phase === "commentary" || phase === "final_answer" ? phase : null;
}

/** The visible text of a reasoning item: its summary, or its content for models that return the reasoning itself. */
export function reasoningText(item: JsonObject): string {
  const summary = fieldTexts(item, "summary");
  return (summary.length === 0 ? fieldTexts(item, "content") : summary).join(paragraphSeparator);
}

function readReasoning(builder: ReplyBuilder, item: JsonObject, key: string): ModelEvent {
  const text = reasoningText(item);
  const redacted = text === "" && textAt(item, "encrypted_content") !== null;
  return builder.completeReasoning(key, { text, redacted, provider: builder.replayData(item) });
}

function fieldTexts(item: JsonObject, field: string): readonly string[] {
  return objectsAt(item, field).flatMap((part) => textAt(part, "text") ?? []);
}

/** Reads a call for the program. The replay data holds all fields of the item except those of the call itself. */
function readCall(builder: ReplyBuilder, item: JsonObject, key: string, id: string): readonly ModelEvent[] {
  const { call_id: _, name: __, arguments: argumentsText, input, ...itemFields } = item;
  const isCustom = textAt(item, "type") === "custom_tool_call";
  const client = clientCallOf(item);
  const name = client === null ? (textAt(item, "name") ?? "") : client.name(item);
  const clientArguments = client === null ? null : storableArguments(client.argumentsOf(item));
  const raw = client !== null ? "" : isCustom ? argumentsTextOf(input) : argumentsTextOf(argumentsText);
  const isNew = !builder.hasCall(key);
  const startEvent = isNew ? startItem(builder, item, key, id) : null;
  // The arguments of an incomplete call are emitted as one delta, as a stream would have emitted them.
  const status = textAt(item, "status");
  const isIncomplete = status === "incomplete" || (client !== null && status === "in_progress");
  const lastEvent = isIncomplete
    ? isNew
      ? builder.appendArguments(key, raw)
      : null
    : builder.completeCall(key, {
        ...(name === "" ? {} : { name }),
        ...(client !== null ? { arguments: clientArguments } : isCustom ? { arguments: { input: raw } } : { raw }),
        provider: builder.replayData(client === null ? itemFields : replayFieldsOf(client, item)),
      });
  return [startEvent, lastEvent].flatMap((event) => event ?? []);
}

/** The arguments of a call, or `null` if they cannot be stored. */
function storableArguments(args: JsonObject): JsonObject | null {
  return isStorableJson(args) ? args : null;
}

/** The arguments as JSON text. Some servers send the object instead of text. */
function argumentsTextOf(value: Json | undefined): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

/** Reads an item of a tool that the provider ran: the call, and the result if the item has one. */
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
  const image = generatedImage(builder, item);
  if (image !== null) {
    builder.part(toolResultPart(builder.callId(key) ?? id, textAt(item, "status") ?? "completed"));
    builder.part(image);
  } else if (result !== null) {
    const itemWithoutResult = Object.fromEntries(
      Object.entries(item).filter(([name]) => itemResult === null || name !== field),
    );
    const isError = error !== null || textAt(item, "status") === "failed";
    const provider = builder.replayData(itemWithoutResult);
    builder.part(toolResultPart(builder.callId(key) ?? id, result, { isError, provider }));
  }
  return [startEvent, endEvent].flatMap((event) => event ?? []);
}

/**
 * The image of an `image_generation_call`; `null`: the item is no such call, or has no result. The default format of
 * the API is PNG.
 */
function generatedImage(builder: ReplyBuilder, item: JsonObject): ImagePart | null {
  const { result, ...itemFields } = item;
  if (textAt(item, "type") !== "image_generation_call" || typeof result !== "string" || result === "") return null;
  const image = imageFromBase64(result, `image/${textAt(item, "output_format") ?? "png"}`);
  return imagePart(
    { ...image, revisedPrompt: textAt(item, "revised_prompt") },
    { provider: builder.replayData(itemFields) },
  );
}

/** The arguments of a hosted tool: each type of item has them in another field. */
function hostedArguments(item: JsonObject): JsonObject | null {
  switch (textAt(item, "type")) {
    case "web_search_call":
      return objectAt(item, "action") ?? parseArguments(argumentsTextOf(item["arguments"]));
    case "file_search_call":
      return omitNullish({ queries: item["queries"] });
    case "code_interpreter_call":
      if (item["code"] === undefined && item["arguments"] !== undefined) return namelessArguments(item);
      return omitNullish({ code: item["code"], container_id: item["container_id"] });
    case "image_generation_call":
      return omitNullish({ prompt: item["revised_prompt"] });
    default:
      return namelessArguments(item);
  }
}

/**
 * The arguments of an item without a known structure: `arguments`, `input` or `action`. Text that is no JSON object is
 * `{ input }`.
 */
function namelessArguments(item: JsonObject): JsonObject | null {
  const value = item["arguments"] ?? item["input"] ?? item["action"];
  const text = argumentsTextOf(value);
  return (
    parseArguments(text) ?? (typeof value === "string" && textAt(item, "type") !== "mcp_call" ? { input: text } : null)
  );
}

/** Keeps an unknown item as an opaque part. */
function readOpaque(builder: ReplyBuilder, item: JsonObject): readonly ModelEvent[] {
  builder.part(opaquePart(textAt(item, "type") ?? "unknown", builder.replayData(item)));
  return [];
}

/** The id of a call: `call_id`, the id of the item, or one derived from the key. */
function callIdOf(item: JsonObject, key: string): string {
  return nonEmptyTextAt(item, "call_id") ?? nonEmptyTextAt(item, "id") ?? `call_${key}`;
}

/** The string under a key; `null` if it is absent or empty. */
export function nonEmptyTextAt(object: JsonObject, key: string): string | null {
  const text = textAt(object, key);
  return text === "" ? null : text;
}

/** The status of a response. `fallback` applies if the response has no status, or one that is not final. */
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

/**
 * Where the first reasoning of a stored response is. The items after it are paired with stored ones (invariant 5).
 * `Infinity`: there is none, or the response is not stored.
 */
export function storedReasoningIndex(response: JsonObject, items: readonly JsonObject[]): number {
  const index = items.findIndex((item) => textAt(item, "type") === "reasoning");
  return index === -1 || flagAt(response, "store") === false ? Infinity : index;
}

/**
 * The last events of a response: usage, and the message built from its items, or the failure. `ids`: the ids under
 * which the calls were emitted.
 */
export function endingEvents(
  status: Status,
  response: JsonObject,
  items: readonly JsonObject[],
  context: WireContext,
  ids: readonly (string | null)[] = [],
): readonly ModelEvent[] {
  const reportedUsage = responseUsage(response);
  const { provider } = context.route;
  switch (status) {
    case "completed":
    case "incomplete": {
      const builder = new ReplyBuilder(context);
      const reasoningAt = storedReasoningIndex(response, items);
      for (const [at, item] of items.entries())
        readItem(builder, item, `${at}`, at > reasoningAt, ids[at] ?? undefined);
      markStoredReply(builder, response);
      const reason = textAt(objectAt(response, "incomplete_details"), "reason");
      return builder.end({
        finishReason: finishReasonOf(status, reason, items),
        rawFinishReason: status === "completed" ? status : (reason ?? status),
        responseId: textAt(response, "id"),
        model: textAt(response, "model"),
        usage: reportedUsage,
        metadata: omitNullish({ serviceTier: textAt(response, "service_tier"), logprobs: logprobsOf(items) }),
      });
    }
    case "failed":
    case "cancelled":
    case "open": {
      const error =
        status === "failed"
          ? responseFailure(response, context)
          : streamFailure(status === "open" ? "interrupted" : "cancelled", { provider });
      const usageEvents: readonly ModelEvent[] =
        reportedUsage === null ? [] : [{ type: "usage", usage: reportedUsage }];
      return [...usageEvents, { type: "error", error }];
    }
  }
}

/**
 * The log probabilities of all texts, in the form of Chat Completions (`{ content: [...] }`); `null` if the response
 * has none.
 */
function logprobsOf(items: readonly JsonObject[]): JsonObject | null {
  const parts = items.flatMap((item) => (textAt(item, "type") === "message" ? objectsAt(item, "content") : []));
  const content = parts.flatMap((part) => listAt(part, "logprobs"));
  return content.length === 0 ? null : { content };
}

/** Maps `status` and `incomplete_details.reason`. A refusal in a completed response is `content_filter`. */
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

/**
 * The usage of a response. The API's counts are inclusive already. OpenRouter reports `cost` in dollars; xAI
 * `cost_in_usd_ticks`, of which a dollar has 10^10.
 */
function responseUsage(response: JsonObject): Usage | null {
  const reported = objectAt(response, "usage");
  if (reported === null) return null;
  const input = objectAt(reported, "input_tokens_details");
  const output = objectAt(reported, "output_tokens_details");
  const toolUses = Object.entries(objectAt(response, "tool_usage") ?? {}).flatMap(([name, use]): [string, number][] => {
    const count = countAt(asObject(use), "num_requests") ?? 0;
    return count === 0 ? [] : [[name, count]];
  });
  const ticks = numberAt(reported, "cost_in_usd_ticks");
  return usage({
    inputTokens: countAt(reported, "input_tokens"),
    outputTokens: countAt(reported, "output_tokens"),
    cachedInputTokens: countAt(input, "cached_tokens"),
    cacheWriteInputTokens: countAt(input, "cache_write_tokens"),
    reasoningTokens: countAt(output, "reasoning_tokens"),
    totalTokens: countAt(reported, "total_tokens"),
    totalCost: numberAt(reported, "cost") ?? (ticks === null ? null : ticks / 1e10),
    toolUsage: Object.fromEntries(toolUses),
    extra: storableFields(extraUsage(reported, countedUsageKeys)),
  });
}

/** Values that can be stored. A number beyond the range of doubles (`1e999`) cannot. */
function storableFields(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => isStorableJson(value)));
}

/** Fields of `usage` with a counterpart in `Usage`. Others go into `extra`. */
const countedUsageKeys: ReadonlySet<string> = new Set([
  "input_tokens",
  "output_tokens",
  "total_tokens",
  "cost",
  "input_tokens_details.cached_tokens",
  "input_tokens_details.cache_write_tokens",
  "output_tokens_details.reasoning_tokens",
]);

/** The failure in a response, an event or a body. */
export function responseFailure(body: Json, context: WireContext): AdapterFailure {
  return classify({ status: null, body, requestId: null, retryAfterMs: null }, providerErrorOf(body), context);
}

/** Finds message and code of an error: under `error`, at the top of the body, or as `detail`, which gateways send. */
export function providerErrorOf(body: Json): ProviderError {
  if (typeof body === "string") return { message: body === "" ? null : body, code: null };
  const bodyObject = asObject(body);
  const nested = objectAt(bodyObject, "error");
  const error = nested ?? bodyObject;
  const message = textAt(error, "message") ?? textAt(bodyObject, "error") ?? textAt(error, "detail");
  // At the top of an event, `type` is the type of the event and not of the error.
  return { message, code: textAt(error, "code") ?? (nested === null ? null : textAt(error, "type")) };
}
