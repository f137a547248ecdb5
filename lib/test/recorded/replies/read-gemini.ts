// Reads recorded replies of the Gemini API, without the codec.

import type { Block, Deltas, Reading, UsageReading } from "./reading.ts";
import type { Json, JsonObject } from "everturn";

import {
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
  withoutBlanks,
} from "./reading.ts";

/** Joins the chunks of a stream into one whole response. */
export function assembleGemini(chunks: readonly JsonObject[]): {
  readonly body: JsonObject;
  readonly deltas: Deltas;
} {
  const deltas = { text: "", reasoning: "" };
  const parts: JsonObject[] = [];
  const cutOff: JsonObject[] = [];
  let candidate: JsonObject = {};
  let top: JsonObject = {};
  for (const chunk of chunks) {
    const isOver = candidate["finishReason"] !== undefined;
    const usage = objectOf(chunk["usageMetadata"]);
    const hasCounts = Object.keys(usage).some((key) => key.endsWith("TokenCount"));
    top = {
      ...top,
      ...without(chunk, ["candidates", "usageMetadata"]),
      ...(hasCounts ? { usageMetadata: usage } : {}),
    };
    if (isOver) continue;
    const piece = objectsOf(chunk["candidates"]).find(({ index }) => (index ?? 0) === 0);
    if (piece === undefined) continue;
    for (const part of objectsOf(objectOf(piece["content"])["parts"])) {
      if (part["thought"] === true) deltas.reasoning += stringOf(part["text"]);
      else deltas.text += stringOf(part["text"]);
      addPart(parts, part);
    }
    candidate = joinFields(candidate, without(piece, ["content"]));
  }
  // A call that the limit of tokens or a filter cuts off is no call.
  const isNormalEnd = ["stop", "other", null].includes(finishReasonOf(stringOrNull(candidate["finishReason"])));
  if (objectOf(parts.at(-1)?.["functionCall"])["willContinue"] === true && !isNormalEnd)
    cutOff.push(...parts.splice(-1));
  const hasCandidate = !isBlank(candidate) || parts.length > 0;
  const whole = { ...candidate, content: { role: "model", parts: parts.map(finishedPart) } };
  return {
    body: hasCandidate ? { ...top, candidates: [whole] } : top,
    deltas: {
      ...deltas,
      arguments: [...parts, ...cutOff]
        .filter((part) => objectOf(part["functionCall"])["partialArgs"] !== undefined)
        .map((part) => objectOf(objectOf(finishedPart(part)["functionCall"])["args"])),
    },
  };
}

/** Fields of a candidate: log probabilities continue over the chunks, other fields are replaced. */
function joinFields(before: JsonObject, added: JsonObject): JsonObject {
  const joined = objectOf(before["logprobsResult"]);
  const more = objectOf(added["logprobsResult"]);
  const lists = ["topCandidates", "chosenCandidates"].map((key) => [
    key,
    [...listOf(joined[key]), ...listOf(more[key])],
  ]);
  const logprobsResult = withoutBlanks({ ...joined, ...more, ...Object.fromEntries(lists) });
  return { ...before, ...withoutBlanks(added), ...(isBlank(logprobsResult) ? {} : { logprobsResult }) };
}

/**
 * Adds a part of a chunk: text continues the text before it, pieces of a call continue the call, anything else is a new
 * part.
 */
function addPart(parts: JsonObject[], part: JsonObject): void {
  const last = parts.at(-1);
  if (isObject(part["functionCall"])) {
    const call = part["functionCall"];
    const open = objectOf(last?.["functionCall"]);
    if (stringOf(call["name"]) !== "" || open["willContinue"] !== true) {
      if (stringOf(call["name"]) !== "") parts.push(part);
      return;
    }
    const partialArgs = [...listOf(open["partialArgs"]), ...listOf(call["partialArgs"])];
    const args = { ...objectOf(open["args"]), ...objectOf(call["args"]) };
    const joined = { ...without(open, ["willContinue"]), ...without(call, ["partialArgs"]), args, partialArgs };
    parts[parts.length - 1] = { ...last, ...part, functionCall: joined };
    return;
  }
  if (typeof part["text"] !== "string") {
    if (Object.keys(part).some((key) => key !== "thought" && key !== "thoughtSignature")) parts.push(part);
    return;
  }
  const isSigned = !isBlank(part["thoughtSignature"]);
  if (part["text"] === "" && !isSigned) return;
  const continues =
    typeof last?.["text"] === "string" &&
    (last["thought"] === true) === (part["thought"] === true) &&
    !(isSigned && !isBlank(last["thoughtSignature"]));
  if (!continues) parts.push(part);
  else parts[parts.length - 1] = { ...last, ...part, text: stringOf(last["text"]) + part["text"] };
}

/** A call without the fields of its streaming. */
function finishedPart(part: JsonObject): JsonObject {
  if (!isObject(part["functionCall"])) return part;
  const call = part["functionCall"];
  let args: Json = call["args"] ?? {};
  const texts = new Map<string, string>();
  for (const piece of objectsOf(call["partialArgs"])) {
    const path = stringOf(piece["jsonPath"]);
    const text = (texts.get(path) ?? "") + stringOf(piece["stringValue"]);
    texts.set(path, text);
    const value =
      typeof piece["stringValue"] === "string" ? text : (piece["numberValue"] ?? piece["boolValue"] ?? null);
    args = placed(args, keysOf(path), value);
  }
  return { ...part, functionCall: { ...without(call, ["partialArgs", "willContinue"]), args } };
}

/** The keys of a JSONPath: `$.a[0]['b']`. */
function keysOf(path: string): readonly (string | number)[] {
  return [...path.matchAll(/\.([^.[\]]+)|\[(\d+)\]|\[['"](.+?)['"]\]/g)].map(([, name, index, quoted]) =>
    index === undefined ? (name ?? quoted ?? "") : Number(index),
  );
}

/** The value with another value at a path. */
function placed(value: Json, [key, ...rest]: readonly (string | number)[], leaf: Json): Json {
  if (key === undefined) return leaf;
  if (typeof key === "number") {
    const list = [...(isList(value) ? value : [])];
    list[key] = placed(list[key] ?? null, rest, leaf);
    return list;
  }
  return { ...objectOf(value), [key]: placed(objectOf(value)[key] ?? null, rest, leaf) };
}

export function readGeminiStream(chunks: readonly JsonObject[]): Reading {
  const error = chunks.find((chunk) => isObject(chunk["error"]));
  const { body, deltas } = assembleGemini(chunks);
  if (error !== undefined) return { ...errorReading(error), usage: geminiUsage(body), deltas };
  const [candidate] = objectsOf(body["candidates"]);
  const isOver = candidate?.["finishReason"] !== undefined || blockReasonOf(body) !== null;
  if (isOver) return { ...readGeminiBody(body), deltas };
  return { ...noReading, outcome: "interrupted", usage: geminiUsage(body), deltas };
}

/** Reads a whole response. A list holds the chunks of a stream that was requested without `alt=sse`. */
export function readGeminiBody(body: Json): Reading {
  if (isList(body)) {
    const { body: joined } = assembleGemini(body.filter(isObject));
    return readGeminiBody(joined);
  }
  const response = objectOf(body);
  if (isObject(response["error"])) return errorReading(response);
  const candidate = objectsOf(response["candidates"]).find(({ index }) => (index ?? 0) === 0) ?? null;
  const blockReason = blockReasonOf(response);
  if (candidate === null && blockReason === null)
    return { ...noReading, outcome: "failed", usage: geminiUsage(response) };
  const parts: JsonObject[] = [];
  for (const part of objectsOf(objectOf(candidate?.["content"])["parts"])) addPart(parts, part);
  let callCount = 0;
  const sources = withoutBlanks(
    only(candidate ?? {}, ["groundingMetadata", "citationMetadata", "groundingAttributions"]),
  );
  const lastText = parts.findLastIndex((part) => typeof part["text"] === "string" && part["thought"] !== true);
  const raw = stringOrNull(candidate?.["finishReason"]) ?? blockReason;
  const reason =
    candidate?.["finishReason"] === undefined && blockReason !== null ? "content_filter" : finishReasonOf(raw);
  if (reason === "error") {
    const finishMessage = stringOrNull(candidate?.["finishMessage"]);
    const ending = `the reply ended with the finishReason ${raw}`;
    const message = finishMessage === null ? ending : `${ending}: ${finishMessage}`;
    return { ...failed({ message, code: raw }), usage: geminiUsage(response) };
  }
  const blocks = parts.map((part, index): Block => {
    const replay = only(part, ["thoughtSignature"]);
    if (isObject(part["functionCall"])) {
      const call = finishedPart(part)["functionCall"];
      const { id, name, args } = objectOf(call);
      const number = callCount;
      callCount += 1;
      return {
        type: "call",
        id: stringOf(id) === "" ? `call_${number}` : stringOf(id),
        name: stringOf(name),
        arguments: objectOf(args),
        argumentsText: null,
        replay: { ...withoutBlanks({ id }), ...replay },
      };
    }
    if (typeof part["text"] === "string") {
      const { text } = part;
      if (part["thought"] === true) return { type: "reasoning", text, isHidden: false, replay };
      return {
        type: "text",
        text,
        isRefusal: false,
        phase: null,
        citations: index === lastText ? sources : {},
        replay,
      };
    }
    const inline = objectOf(part["inlineData"]);
    if (stringOf(inline["mimeType"]).startsWith("image/"))
      return {
        type: "image",
        mimeType: stringOf(inline["mimeType"]),
        data: stringOf(inline["data"]),
        revisedPrompt: null,
        replay,
      };
    return { type: "item", kind: kindOf(part), item: part };
  });
  const { logprobsResult, avgLogprobs } = candidate ?? {};
  return {
    ...noReading,
    responseId: stringOrNull(response["responseId"]),
    model: stringOrNull(response["modelVersion"]),
    rawFinishReason: raw,
    finishReason: finishWithCalls(reason, blocks),
    blocks,
    usage: geminiUsage(response),
    logprobs: withoutBlanks({ logprobsResult, avgLogprobs }),
    metadata: withoutBlanks({
      ...without(candidate ?? {}, [
        "content",
        "finishReason",
        "index",
        "logprobsResult",
        "avgLogprobs",
        ...Object.keys(sources),
      ]),
      ...(lastText === -1 ? sources : {}),
      promptFeedback: response["promptFeedback"],
    }),
    sentBack: parts.filter(isSentBack).map(finishedPart),
  };
}

/** The key that names the kind of a part. */
function kindOf(part: JsonObject): string {
  const attributes = ["thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"];
  return Object.keys(part).find((key) => !attributes.includes(key)) ?? "";
}

/** Is the part in the next request? Thoughts are sent only with their signature. */
function isSentBack(part: JsonObject): boolean {
  return part["thought"] !== true || !isBlank(part["thoughtSignature"]);
}

function errorReading(body: JsonObject): Reading {
  const error = objectOf(body["error"]);
  // The status of an invalid key is that of any invalid request; the details name it.
  const keyError = objectsOf(error["details"]).find(({ reason }) =>
    /^API_KEY_(?:INVALID|EXPIRED)$/.test(stringOf(reason)),
  );
  const code = stringOrNull(keyError?.["reason"]) ?? stringOrNull(error["status"]);
  return failed({ message: stringOrNull(error["message"]), code });
}

function blockReasonOf(body: JsonObject): string | null {
  const reason = stringOrNull(objectOf(body["promptFeedback"])["blockReason"]);
  return reason === "BLOCK_REASON_UNSPECIFIED" ? null : reason;
}

function finishReasonOf(raw: string | null): string | null {
  if (raw === null) return null;
  if (raw === "STOP") return "stop";
  if (raw === "MAX_TOKENS") return "length";
  if (/SAFETY|RECITATION|LANGUAGE|BLOCKLIST|PROHIBITED|SPII/.test(raw)) return "content_filter";
  return /MALFORMED|UNEXPECTED_TOOL|TOO_MANY_TOOL|MISSING_THOUGHT/.test(raw) ? "error" : "other";
}

/** The API counts thoughts apart from the answer, and input from its own tools apart from the prompt. */
function geminiUsage(body: JsonObject): UsageReading | null {
  if (!isObject(body["usageMetadata"])) return null;
  const usage = body["usageMetadata"];
  const count = (key: string) => numberOrNull(usage[key]);
  const answer = count("candidatesTokenCount") ?? count("responseTokenCount");
  const thoughts = count("thoughtsTokenCount");
  const prompt = count("promptTokenCount");
  const toolPrompt = count("toolUsePromptTokenCount");
  if (prompt === null && answer === null && thoughts === null && count("totalTokenCount") === null) return null;
  return {
    inputTokens: prompt === null && toolPrompt === null ? null : (prompt ?? 0) + (toolPrompt ?? 0),
    outputTokens: answer === null && thoughts === null ? null : (answer ?? 0) + (thoughts ?? 0),
    cachedInputTokens: count("cachedContentTokenCount"),
    cacheWriteInputTokens: null,
    reasoningTokens: thoughts,
    totalTokens: count("totalTokenCount"),
    totalCost: null,
    toolUsage: {},
    extra: leavesOf(
      without(usage, [
        "promptTokenCount",
        "candidatesTokenCount",
        "responseTokenCount",
        "thoughtsTokenCount",
        "cachedContentTokenCount",
        "totalTokenCount",
      ]),
    ),
  };
}
