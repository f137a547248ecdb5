// Reads recorded replies of Chat Completions servers, without the codec.

import type { Block, Deltas, Reading, UsageReading } from "./reading.ts";
import type { Json, JsonObject } from "everturn";

import {
  argumentsOf,
  failed,
  finishWithCalls,
  isBlank,
  isList,
  isObject,
  leavesOf,
  listOf,
  noReading,
  numberOrNull,
  objectOf,
  objectsOf,
  only,
  stringOf,
  stringOrNull,
  without,
  withUniqueIds,
  withoutBlanks,
} from "./reading.ts";

/** Builds the whole body from the chunks of a stream. */
export function assembleChat(chunks: readonly JsonObject[]): { readonly body: JsonObject; readonly deltas: Deltas } {
  let top: JsonObject = {};
  let finish: Json = null;
  let choiceIndex: Json | undefined;
  let message: JsonObject = {};
  const logprobs = new Map<string, Json[]>();
  const calls: JsonObject[] = [];
  const deltas = { text: "", reasoning: "" };
  for (const chunk of chunks) {
    const choices = objectsOf(chunk["choices"]);
    const usage = [chunk["usage"], objectOf(chunk["x_groq"])["usage"], choices[0]?.["usage"]].find(
      (value) => !isBlank(value),
    );
    const named = withoutBlanks(only(chunk, ["id", "model"]));
    const rest = withoutBlanks(without(chunk, ["id", "model", "choices", "usage", "x_groq"]));
    top = { ...named, ...rest, ...top, ...rest, ...(usage === undefined ? {} : { usage }) };
    for (const choice of choices) {
      choiceIndex ??= choice["index"] ?? 0;
      if ((choice["index"] ?? 0) !== choiceIndex) continue;
      finish = finish ?? (stringOf(choice["finish_reason"]) === "" ? null : (choice["finish_reason"] ?? null));
      for (const key of ["content", "refusal"]) {
        const added = listOf(objectOf(choice["logprobs"])[key]);
        if (added.length > 0) logprobs.set(key, [...(logprobs.get(key) ?? []), ...added]);
      }
      const delta = isObject(choice["delta"]) ? choice["delta"] : objectOf(choice["message"]);
      deltas.text +=
        contentText(delta["content"]) + stringOf(delta["refusal"]) + stringOf(objectOf(delta["audio"])["transcript"]);
      deltas.reasoning += reasoningOf(delta);
      for (const entry of objectsOf(delta["tool_calls"])) addCall(calls, entry);
      if (isUsed(delta["function_call"])) addCall(calls, { index: 0, function: objectOf(delta["function_call"]) });
      message = joined(message, without(delta, ["tool_calls", "function_call"]));
    }
  }
  const tool_calls = calls.map((call) => without(call, ["index"]));
  const choice = {
    index: choiceIndex ?? 0,
    message: { ...message, ...(calls.length === 0 ? {} : { tool_calls }) },
    finish_reason: finish,
    ...(logprobs.size === 0 ? {} : { logprobs: Object.fromEntries(logprobs) }),
  };
  const argumentTexts = calls.map((call) => argumentsTextOf(call));
  return {
    body: choiceIndex === undefined ? top : { ...top, choices: [choice] },
    deltas: { ...deltas, arguments: argumentTexts },
  };
}

/** Joins the fields of a delta: strings and lists continue, objects are merged, `null` changes nothing. */
function joined(message: JsonObject, delta: JsonObject): JsonObject {
  const changes = Object.entries(delta).flatMap(([key, value]): [string, Json][] => {
    const before = message[key];
    if (value === null) return before === undefined ? [[key, null]] : [];
    if (key === "role") return [[key, value]];
    if (key === "reasoning_details") return [[key, joinedDetails(objectsOf(before), objectsOf(value))]];
    if (key === "executed_tools") return [[key, joinedByIndex(objectsOf(before), objectsOf(value))]];
    if (typeof before === "string" && typeof value === "string") return [[key, before + value]];
    if (key === "content" && (isList(before) || isList(value)))
      return [[key, [...piecesOf(before), ...piecesOf(value)]]];
    if (isList(before) && isList(value)) return [[key, [...before, ...value]]];
    if (isObject(before) && isObject(value))
      return [[key, key === "audio" ? joined(before, value) : { ...before, ...value }]];
    return [[key, value]];
  });
  return { ...message, ...Object.fromEntries(changes) };
}

function piecesOf(content: Json | undefined): readonly Json[] {
  if (isList(content)) return content;
  return stringOf(content) === "" ? [] : [{ type: "text", text: stringOf(content) }];
}

/** Texts and summaries with one index continue; other details stand for themselves. */
function joinedDetails(before: readonly JsonObject[], added: readonly JsonObject[]): readonly JsonObject[] {
  const list = [...before];
  for (const piece of added) {
    const isText = piece["type"] === "reasoning.text" || piece["type"] === "reasoning.summary";
    const at = isText
      ? list.findLastIndex(({ type, index }) => type === piece["type"] && (index ?? null) === (piece["index"] ?? null))
      : -1;
    const open = list[at];
    if (open === undefined) list.push(piece);
    else {
      const fields = Object.fromEntries(Object.entries(piece).filter(([, value]) => value !== null));
      const texts = ["text", "summary"].flatMap((key): [string, Json][] =>
        typeof open[key] === "string" || typeof piece[key] === "string"
          ? [[key, stringOf(open[key]) + stringOf(piece[key])]]
          : [],
      );
      list[at] = { ...open, ...fields, ...Object.fromEntries(texts) };
    }
  }
  return list;
}

function joinedByIndex(before: readonly JsonObject[], added: readonly JsonObject[]): readonly JsonObject[] {
  const list = [...before];
  for (const entry of added) {
    const at = list.findIndex(({ index }) => (index ?? 0) === (entry["index"] ?? 0));
    const fields = Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
    if (at === -1) list.push(fields);
    else list[at] = { ...list[at], ...fields };
  }
  return list;
}

/**
 * Adds a fragment of a call. It continues the call with its index, or without an index the call with its id, or the
 * newest call. A name with another id, or with a second JSON object, is another call. A fragment that repeats a
 * complete call adds nothing.
 */
function addCall(calls: JsonObject[], entry: JsonObject): void {
  const id = stringOf(entry["id"]);
  const name = calledName(entry);
  const text = argumentsTextOf(entry);
  const hasIndex = typeof entry["index"] === "number";
  const at = hasIndex
    ? calls.findLastIndex(({ index }) => index === entry["index"])
    : id === ""
      ? calls.length - 1
      : calls.findLastIndex((call) => call["id"] === id);
  const open = calls[at];
  if (open === undefined) {
    if (hasIndex || id !== "" || name !== "") calls.push(entry);
    return;
  }
  const openText = argumentsTextOf(open);
  const isFull = openText.trim() !== "" && argumentsOf(openText) !== null;
  const repeats =
    isFull &&
    id !== "" &&
    id === open["id"] &&
    JSON.stringify(argumentsOf(openText)) === JSON.stringify(argumentsOf(text));
  if (repeats && text.trim() !== "") return;
  const isOther =
    name !== "" &&
    ((id !== "" && stringOf(open["id"]) !== "" && id !== open["id"]) ||
      (!hasIndex && calledName(open) !== "" && calledName(open) !== name) ||
      (isFull && text.trim() !== "" && (argumentsOf(text) !== null || id === "" || id !== open["id"])));
  if (isOther) {
    calls.push(entry);
    return;
  }
  const field = isCustomCall(entry) || isCustomCall(open) ? "custom" : "function";
  const inner = field === "custom" ? "input" : "arguments";
  const call = {
    ...objectOf(open[field]),
    name: calledName(open) === "" ? name : calledName(open),
    [inner]: openText + text,
  };
  const fields = Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
  calls[at] = { ...open, ...fields, ...(stringOf(open["id"]) === "" ? {} : { id: open["id"] ?? "" }), [field]: call };
}

/** Has the object any value? Snowflake sends every field of the API, unused ones empty or 0. */
function isUsed(value: Json | undefined): boolean {
  return Object.values(objectOf(value)).some((item) => item !== 0 && !isBlank(item));
}

/** Is the entry a call of a custom tool? */
function isCustomCall(entry: JsonObject): boolean {
  return isObject(entry["custom"]) && (isUsed(entry["custom"]) || !isObject(entry["function"]));
}

/** The object with name and arguments of a call. */
function innerCall(entry: JsonObject): JsonObject {
  return objectOf(entry[isCustomCall(entry) ? "custom" : "function"]);
}

function calledName(entry: JsonObject): string {
  return stringOf(innerCall(entry)["name"]);
}

function argumentsTextOf(entry: JsonObject): string {
  const inner = innerCall(entry);
  const value = isCustomCall(entry) ? inner["input"] : inner["arguments"];
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

/** The text of `content`: a string, or pieces. */
function contentText(content: Json | undefined): string {
  if (!isList(content)) return stringOf(content);
  return content.map((piece) => stringOf(objectOf(piece)["text"]) + stringOf(objectOf(piece)["refusal"])).join("");
}

/**
 * The reasoning of a delta or a message: its text field, the details if that is empty, and Mistral's `thinking` pieces.
 */
function reasoningOf(message: JsonObject): string {
  const text = stringOf(message["reasoning_content"]) || stringOf(message["reasoning"]);
  const details = objectsOf(message["reasoning_details"]).map(
    (detail) => stringOf(detail["text"]) || stringOf(detail["summary"]),
  );
  return (text === "" ? details.join("") : text) + thoughtsOf(message["content"]);
}

/** The text of `thinking` pieces. */
function thoughtsOf(content: Json | undefined): string {
  const pieces = objectsOf(content).filter(({ type }) => type === "thinking");
  return pieces.flatMap((piece) => objectsOf(piece["thinking"]).map((thought) => stringOf(thought["text"]))).join("");
}

/** `isDone`: the stream has the mark `[DONE]`, which ends a reply without a finish reason. */
export function readChatStream(chunks: readonly JsonObject[], isDone: boolean): Reading {
  const { body, deltas } = assembleChat(chunks);
  const at = chunks.findIndex((chunk) => errorOf(chunk) !== null);
  const isEnded = (upTo: readonly JsonObject[]) => {
    const choice = objectsOf(assembleChat(upTo).body["choices"])[0];
    return stringOf(choice?.["finish_reason"]) !== "";
  };
  const error = at === -1 ? null : errorOf(chunks[at] ?? {});
  if (error !== null && !(isEnded(chunks.slice(0, at)) && chatUsage(assembleChat(chunks.slice(0, at)).body) !== null)) {
    const before = assembleChat(chunks.slice(0, at));
    return { ...failed(error), usage: chatUsage(body), deltas: before.deltas };
  }
  const hasChoice = objectsOf(body["choices"]).length > 0;
  if (!isEnded(chunks) && !(isDone && hasChoice))
    return { ...noReading, outcome: "interrupted", usage: chatUsage(body), deltas };
  return { ...readChatBody(body), deltas };
}

/** The error of a chunk or a body. Servers put it at the top, in `x_groq` or in a choice, as an object or as text. */
function errorOf(body: JsonObject): { readonly message: string | null; readonly code: string | null } | null {
  for (const holder of [body, objectOf(body["x_groq"]), ...objectsOf(body["choices"])]) {
    const error = holder["error"];
    if (typeof error === "string" && error !== "") return { message: error, code: stringOrNull(holder["code"]) };
    if (isObject(error) && !isBlank(error)) {
      const code = error["code"] ?? error["status"];
      return {
        message: stringOrNull(error["message"]) ?? stringOrNull(error["detail"]),
        code: isBlank(code) ? stringOrNull(error["type"]) : String(code),
      };
    }
  }
  return null;
}

export function readChatBody(given: Json): Reading {
  const body = objectOf(isList(given) ? given[0] : given);
  const error = errorOf(body);
  if (error !== null) return failed(error);
  const [choice] = objectsOf(body["choices"]);
  if (choice === undefined) return { ...noReading, outcome: "failed" };
  const message = objectOf(choice["message"]);
  const raw = stringOf(choice["finish_reason"]) === "" ? null : stringOf(choice["finish_reason"]);
  const reason = finishReasonOf(raw);
  const usage = chatUsage(body);
  if (reason === "error") return { ...failed({ message: null, code: raw }), usage };
  const blocks = withUniqueIds(blocksOf(message, body));
  const isRefused =
    blocks.some((block) => block.type === "text" && block.isRefusal) && (reason === null || reason === "stop");
  return {
    ...noReading,
    responseId: stringOf(body["id"]) === "" ? null : stringOf(body["id"]),
    model: stringOf(body["model"]) === "" ? null : stringOf(body["model"]),
    rawFinishReason: raw,
    finishReason: isRefused ? "content_filter" : finishWithCalls(reason, blocks),
    blocks,
    usage,
    logprobs: withoutBlanks(only(objectOf(choice["logprobs"]), ["content", "refusal"])),
    metadata: withoutBlanks(only(body, ["service_tier", "system_fingerprint", "provider"])),
    sentBack: [sentBackOf(message, blocks)],
  };
}

/** Fields of a message that are read below. Others are kept as they are. */
const messageFields = [
  "role",
  "content",
  "refusal",
  "reasoning",
  "reasoning_content",
  "reasoning_details",
  "tool_calls",
  "function_call",
  "executed_tools",
  "annotations",
  "audio",
];

/**
 * The blocks by kind: reasoning, tools that the server ran, text, refusal, images, calls, other fields. The API has no
 * order between them.
 */
function blocksOf(message: JsonObject, body: JsonObject): readonly Block[] {
  const pieces = objectsOf(message["content"]);
  const known = pieces.filter(({ type }) => type === "text" || type === "refusal" || type === "thinking");
  const text =
    (isList(message["content"])
      ? known.map((piece) => stringOf(piece["type"] === "text" ? piece["text"] : "")).join("")
      : stringOf(message["content"])) + stringOf(objectOf(message["audio"])["transcript"]);
  const refusal = stringOf(message["refusal"]) + known.map((piece) => stringOf(piece["refusal"])).join("");
  const audio = isUsed(message["audio"]) ? objectOf(message["audio"]) : {};
  const citations = withoutBlanks({
    ...only(body, ["citations", "search_results"]),
    annotations: message["annotations"],
    audio: withoutBlanks(without(audio, ["transcript"])),
  });
  const plain = { isRefusal: false, phase: null, citations: {}, replay: {} };
  const calls = [
    ...objectsOf(message["tool_calls"]),
    ...(isUsed(message["function_call"]) ? [{ function: objectOf(message["function_call"]) }] : []),
  ];
  const images = objectsOf(message["images"]);
  const others = Object.entries(message).filter(
    ([key, value]) => !messageFields.includes(key) && !isBlank(value) && (key !== "images" || images.length === 0),
  );
  return [
    ...reasoningBlocks(message, calls.length > 0),
    ...objectsOf(message["executed_tools"]).flatMap(executedBlocks),
    ...(text === ""
      ? []
      : [
          {
            ...plain,
            type: "text" as const,
            text,
            citations,
            replay: stringOf(audio["id"]) === "" ? {} : { audio: { id: stringOf(audio["id"]) } },
          },
        ]),
    ...(refusal === "" ? [] : [{ ...plain, type: "text" as const, text: refusal, isRefusal: true }]),
    ...images.flatMap(imageBlocks),
    ...calls.map(callBlock),
    ...otherPieces(pieces.filter((piece) => !known.includes(piece))),
    ...others.map(([kind, value]): Block => ({ type: "item", kind, item: value })),
  ];
}

/** Pieces of the content of other types, together for each type. */
function otherPieces(pieces: readonly JsonObject[]): readonly Block[] {
  const byType = new Map<string, JsonObject[]>();
  for (const piece of pieces) {
    const type = stringOf(piece["type"]);
    byType.set(type, [...(byType.get(type) ?? []), piece]);
  }
  return [...byType].map(([type, list]): Block => ({ type: "item", kind: `content.${type}`, item: list }));
}

/** OpenRouter's generated images. */
function imageBlocks(image: JsonObject): readonly Block[] {
  const url = stringOf(objectOf(image["image_url"])["url"]);
  const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return [{ type: "image", mimeType: mimeType ?? null, data: data ?? url, revisedPrompt: null, replay: {} }];
}

function reasoningBlocks(message: JsonObject, hasCalls: boolean): readonly Block[] {
  const text = reasoningOf(message);
  const details = objectsOf(message["reasoning_details"]);
  const hasField = ["reasoning_content", "reasoning"].some((key) => typeof message[key] === "string");
  if (text === "" && details.length === 0 && !(hasField && hasCalls)) return [];
  const replay = withoutBlanks({ details });
  return [{ type: "reasoning", text, isHidden: text === "" && details.length > 0, replay }];
}

function executedBlocks(entry: JsonObject): readonly Block[] {
  const id = `executed_tool_${numberOrNull(entry["index"]) ?? 0}`;
  const name = stringOf(entry["name"]) || stringOf(entry["type"]);
  const text = stringOf(entry["arguments"]);
  const rest = withoutBlanks(without(entry, ["index", "type", "name", "arguments", "output"]));
  const { output } = entry;
  const call: Block = {
    type: "provider_call",
    id,
    name,
    arguments: argumentsOf(text),
    argumentsText: text,
    replay: {},
  };
  if (output === undefined && isBlank(rest)) return [call];
  const content = isBlank(rest) ? (output ?? null) : { ...withoutBlanks({ output }), ...rest };
  return [call, { type: "provider_result", id, content, isError: false, replay: {} }];
}

function callBlock(entry: JsonObject, at: number): Block {
  const text = argumentsTextOf(entry);
  const isCustom = isCustomCall(entry);
  const fields = withoutBlanks(without(entry, ["id", "index", "type", "function", "custom"]));
  return {
    type: "call",
    id: stringOf(entry["id"]) === "" ? `call_${at}` : stringOf(entry["id"]),
    name: calledName(entry),
    arguments: isCustom ? { input: text } : argumentsOf(text),
    argumentsText: isCustom ? null : text,
    replay: isBlank(fields) ? {} : { fields },
  };
}

/**
 * The assistant message of the next request. Text is one string; reasoning returns in the field it came in, or as
 * details.
 */
function sentBackOf(message: JsonObject, blocks: readonly Block[]): JsonObject {
  const texts = blocks.flatMap((block) => (block.type === "text" && !block.isRefusal ? [block.text] : []));
  const calls = blocks.flatMap((block) => (block.type === "call" ? [sentCall(block)] : []));
  const details = objectsOf(message["reasoning_details"]);
  const field = ["reasoning_content", "reasoning"].find((key) => stringOf(message[key]) !== "");
  const refusals = blocks.flatMap((block) => (block.type === "text" && block.isRefusal ? [block.text] : []));
  return withoutBlanks({
    text: isBlank(objectOf(message["audio"])["id"]) ? texts.join("") : "",
    refusal: refusals.join(""),
    thinking: thoughtsOf(message["content"]),
    calls,
    reasoning_details: details,
    ...(field === undefined || details.length > 0 ? {} : { [field]: stringOf(message[field]) }),
  });
}

/**
 * A call of the next request. Arguments return as the model wrote them; blank ones and those that are no object as
 * `{}`.
 */
function sentCall({
  id,
  name,
  arguments: parsed,
  argumentsText,
}: Extract<Block, { readonly name: string }>): JsonObject {
  if (argumentsText === null) return { id, name, input: parsed?.["input"] ?? "" };
  return { id, name, arguments: parsed === null || argumentsText.trim() === "" ? "{}" : argumentsText };
}

/** An assistant message of a request in the form of {@link sentBackOf}. */
export function readSentChat(message: JsonObject): JsonObject {
  const pieces = objectsOf(message["content"]);
  return withoutBlanks({
    text: isList(message["content"])
      ? pieces.map((piece) => stringOf(piece["text"])).join("")
      : stringOf(message["content"]),
    refusal: pieces.map((piece) => stringOf(piece["refusal"])).join(""),
    thinking: thoughtsOf(message["content"]),
    calls: objectsOf(message["tool_calls"]).map((call) => ({
      id: call["id"] ?? null,
      name: calledName(call),
      [isObject(call["custom"]) ? "input" : "arguments"]: argumentsTextOf(call),
    })),
    ...only(message, ["reasoning_details", "reasoning_content", "reasoning"]),
  });
}

function finishReasonOf(raw: string | null): string | null {
  if (raw === null) return null;
  const word = raw.toLowerCase();
  if (["stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete"].includes(word)) return "stop";
  if (/length|max_tokens|max_output_tokens|context_window/.test(word)) return "length";
  if (["tool_calls", "tool_call", "tool_use", "function_call"].includes(word)) return "tool_calls";
  if (/filter|refusal|safety|recitation|sensitive/.test(word)) return "content_filter";
  return /error|insufficient_system_resource/.test(word) ? "error" : "other";
}

/** Counts that are fields of the library's usage; all others are `extra`. */
const countedFields = [
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
];

const countedDetails = ["cached_tokens", "cache_write_tokens", "reasoning_tokens"];

function count(...values: readonly (Json | undefined)[]): number | null {
  return numberOrNull(values.find((value) => typeof value === "number"));
}

function chatUsage(body: JsonObject): UsageReading | null {
  const usage = [body["usage"], objectOf(body["x_groq"])["usage"], objectsOf(body["choices"])[0]?.["usage"]].find(
    (value) => isObject(value) && !isBlank(value),
  );
  if (!isObject(usage)) return null;
  const prompt = objectOf(usage["prompt_tokens_details"] ?? usage["input_tokens_details"]);
  const completion = objectOf(usage["completion_tokens_details"] ?? usage["output_tokens_details"]);
  const cached = count(
    prompt["cached_tokens"],
    usage["prompt_cache_hit_tokens"],
    usage["cache_read_input_tokens"],
    usage["cached_tokens"],
  );
  const written = count(prompt["cache_write_tokens"], usage["cache_creation_input_tokens"]);
  const input = count(usage["prompt_tokens"], usage["input_tokens"]);
  const output = count(usage["completion_tokens"], usage["output_tokens"]);
  const reasoning = count(completion["reasoning_tokens"], usage["reasoning_tokens"]);
  const total = count(usage["total_tokens"]);
  // Servers that count cached or reasoning tokens apart are recognised by sums that do not fit.
  const cacheTokens = (cached ?? 0) + (written ?? 0);
  // A prefix that one request writes and reads is in both counters, and the total still fits.
  const fits = input !== null && total === input + (output ?? 0) && (cached ?? 0) <= input && (written ?? 0) <= input;
  const inputTokens = input !== null && cacheTokens > input && !fits ? input + cacheTokens : input;
  const implied =
    output === null ? null : inputTokens === null || total === null ? output : Math.max(output, total - inputTokens);
  const ticks = count(usage["cost_in_usd_ticks"]);
  return {
    inputTokens,
    outputTokens: implied !== null && reasoning !== null && reasoning > implied ? implied + reasoning : implied,
    cachedInputTokens: cached,
    cacheWriteInputTokens: written,
    reasoningTokens: reasoning,
    totalTokens: total,
    totalCost: count(usage["cost"], objectOf(usage["cost"])["total_cost"]) ?? (ticks === null ? null : ticks / 1e10),
    toolUsage: leavesOf(usage["server_tool_use"]),
    extra: leavesOf({
      ...without(usage, countedFields),
      ...Object.fromEntries(
        Object.keys(usage)
          .filter((key) => /^(?:prompt|input|completion|output)_tokens_details$/.test(key))
          .map((key) => [key, without(objectOf(usage[key]), countedDetails)]),
      ),
    }),
  };
}
