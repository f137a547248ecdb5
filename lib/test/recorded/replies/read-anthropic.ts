// Reads recorded replies of Anthropic's Messages API, without the codec.

import type { Block, Deltas, Reading, UsageReading } from "./reading.ts";
import type { Json, JsonObject } from "everturn";

import {
  argumentsOf,
  failed,
  finishWithCalls,
  isBlank,
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

/** A block of a stream while it grows. `input` is the JSON text of its input. */
type GrowingBlock = { fields: JsonObject; input: string };

/**
 * The whole message that a stream stands for. `isComplete`: its end has arrived. `isSpliced`: another message has begun
 * before the end.
 */
type Assembled = {
  readonly message: JsonObject | null;
  readonly error: JsonObject | null;
  readonly isComplete: boolean;
  readonly deltas: Deltas;
};

/** Builds the whole message from the events of a stream. */
export function assembleAnthropic(events: readonly JsonObject[]): Assembled {
  let head: JsonObject | null = null;
  let usage: JsonObject = {};
  let ending: JsonObject = {};
  let error: JsonObject | null = null;
  let isComplete = false;
  let isSpliced = false;
  const blocks: GrowingBlock[] = [];
  const open = new Map<number, GrowingBlock>();
  const argumentTexts: string[] = [];
  const deltas = { text: "", reasoning: "" };
  for (const event of events) {
    if (isComplete || isSpliced || error !== null) break;
    const index = numberOrNull(event["index"]) ?? 0;
    switch (event["type"]) {
      case "message_start": {
        const message = objectOf(event["message"]);
        if (head !== null && head["id"] !== message["id"]) isSpliced = true;
        if (head !== null) break;
        head = message;
        usage = objectOf(message["usage"]);
        for (const fields of objectsOf(message["content"])) blocks.push({ fields, input: "" });
        break;
      }
      case "content_block_start": {
        const block = { fields: objectOf(event["content_block"]), input: "" };
        deltas.text += stringOf(block.fields["text"]);
        deltas.reasoning += stringOf(block.fields["thinking"]);
        blocks.push(block);
        open.set(index, block);
        break;
      }
      case "content_block_delta": {
        const block = open.get(index);
        const delta = objectOf(event["delta"]);
        if (block === undefined) break;
        if (delta["type"] === "text_delta") deltas.text += stringOf(delta["text"]);
        if (delta["type"] === "thinking_delta") deltas.reasoning += stringOf(delta["thinking"]);
        if (delta["type"] === "input_json_delta") block.input += stringOf(delta["partial_json"]);
        else if (delta["type"] === "citations_delta")
          block.fields = {
            ...block.fields,
            citations: [...listOf(block.fields["citations"]), delta["citation"] ?? null],
          };
        else block.fields = grown(block.fields, without(delta, ["type"]));
        break;
      }
      case "message_delta":
        usage = { ...usage, ...notNull(objectOf(event["usage"])) };
        ending = { ...ending, ...notNull(objectOf(event["delta"])), ...notNull(only(event, ["context_management"])) };
        break;
      case "message_stop":
        isComplete = true;
        break;
      case "error":
        error = objectOf(event["error"]);
        break;
    }
  }
  const content = blocks.map(({ fields, input }) => {
    const isMember = stringOf(fields["toolset_name"]) !== "";
    if (/_?tool_use$/.test(stringOf(fields["type"])) && !isMember) argumentTexts.push(input);
    return input.trim() === "" ? fields : { ...fields, input: argumentsOf(input) ?? input };
  });
  const message = head === null ? null : { ...head, ...ending, content, usage };
  return { message, error, isComplete, deltas: { ...deltas, arguments: argumentTexts } };
}

/** Strings of a delta are appended, other values replace the field. */
function grown(fields: JsonObject, delta: JsonObject): JsonObject {
  const changes = Object.entries(notNull(delta)).map(([key, value]): [string, Json] => {
    const before = fields[key];
    return [key, typeof before === "string" && typeof value === "string" ? before + value : value];
  });
  return { ...fields, ...Object.fromEntries(changes) };
}

function notNull(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

export function readAnthropicStream(events: readonly JsonObject[]): Reading {
  const { message, error, isComplete, deltas } = assembleAnthropic(events);
  if (error !== null)
    return { ...errorReading({ error }), usage: message === null ? null : anthropicUsage(message), deltas };
  const reading = message === null ? noReading : readAnthropicBody(message);
  if (isComplete) return { ...reading, deltas };
  return { ...noReading, outcome: "interrupted", usage: reading.usage, deltas };
}

export function readAnthropicBody(body: JsonObject): Reading {
  if (body["content"] === undefined) return errorReading(body);
  const content = objectsOf(body["content"]);
  // The next request names the container in which the provider ran code.
  const container = objectOf(body["container"]);
  const hasContainer = stringOf(container["id"]) !== "";
  const containerBlocks: readonly Block[] = hasContainer
    ? [{ type: "item", kind: "container", item: { container } }]
    : [];
  const blocks = [...withUniqueIds(content.flatMap(blockOf)), ...containerBlocks];
  const raw = stringOrNull(body["stop_reason"]);
  // A `fallback` block names the model that answers from there on.
  const fallback = content.findLast(({ type }) => type === "fallback");
  return {
    ...noReading,
    responseId: stringOrNull(body["id"]),
    model: stringOrNull(objectOf(fallback?.["to"])["model"]) ?? stringOrNull(body["model"]),
    rawFinishReason: raw,
    finishReason: finishWithCalls(finishReasonOf(raw), blocks),
    blocks,
    usage: anthropicUsage(body),
    metadata: only(body, ["stop_sequence", "stop_details", "container", "context_management"]),
    sentBack: [
      ...content.filter(isSentBack).map(sentBlock),
      ...(hasContainer ? [{ container: stringOf(container["id"]) }] : []),
    ],
  };
}

function errorReading(body: JsonObject): Reading {
  const error = objectOf(body["error"]);
  return failed({ message: stringOrNull(error["message"]), code: stringOrNull(error["type"]) });
}

function blockOf(block: JsonObject): readonly Block[] {
  const type = stringOf(block["type"]);
  switch (type) {
    case "text": {
      const text = stringOf(block["text"]);
      const citations = withoutBlanks({ citations: block["citations"] });
      if (text === "" && isBlank(citations)) return [];
      return [{ type: "text", text, isRefusal: false, phase: null, citations, replay: citations }];
    }
    case "thinking": {
      const text = stringOf(block["thinking"]);
      const replay = withoutBlanks({ signature: block["signature"] });
      if (text === "" && isBlank(replay)) return [];
      return [{ type: "reasoning", text, isHidden: text === "" && !isBlank(replay), replay }];
    }
    case "redacted_thinking":
      return [{ type: "reasoning", text: "", isHidden: true, replay: only(block, ["data"]) }];
    case "tool_use":
    case "server_tool_use":
    case "mcp_tool_use": {
      const input = block["input"];
      const raw = typeof input === "string" ? input : null;
      const toolset = stringOf(block["toolset_name"]);
      const action = toolset === "" ? {} : { action: stringOf(block["name"]) };
      return [
        {
          type: type === "tool_use" ? "call" : "provider_call",
          id: stringOf(block["id"]),
          name: toolset === "" ? stringOf(block["name"]) : toolset,
          arguments: raw === null ? { ...action, ...objectOf(input) } : null,
          argumentsText: raw,
          replay: without(block, ["type", "id", "input", ...(toolset === "" ? ["name"] : [])]),
        },
      ];
    }
    default:
      if (!type.endsWith("_tool_result")) return [{ type: "item", kind: type, item: block }];
      return [
        {
          type: "provider_result",
          id: stringOf(block["tool_use_id"]),
          content: block["content"] ?? null,
          isError: block["is_error"] === true || stringOf(objectOf(block["content"])["type"]).endsWith("_error"),
          replay: without(block, ["content"]),
        },
      ];
  }
}

/** Is the block part of the next request? The API refuses blank text and thinking without a signature. */
function isSentBack(block: JsonObject): boolean {
  if (block["type"] === "text") return stringOf(block["text"]).trim() !== "";
  return block["type"] !== "thinking" || !isBlank(block["signature"]);
}

/** The block in the next request: without `citations` that are `null`, and with `{}` for input that is no JSON. */
function sentBlock(block: JsonObject): JsonObject {
  if (typeof block["input"] === "string") return { ...block, input: {} };
  return block["type"] === "text" && isBlank(block["citations"]) ? without(block, ["citations"]) : block;
}

function finishReasonOf(raw: string | null): string | null {
  const reasons: { readonly [word: string]: string } = {
    end_turn: "stop",
    stop_sequence: "stop",
    max_tokens: "length",
    model_context_window_exceeded: "length",
    tool_use: "tool_calls",
    refusal: "content_filter",
    pause_turn: "paused",
    compaction: "paused",
  };
  return raw === null ? null : (reasons[raw] ?? "other");
}

/**
 * The API counts tokens read from and written to a cache apart from `input_tokens`, and those of a compaction in the
 * same request apart from all of them.
 */
function anthropicUsage(body: JsonObject): UsageReading | null {
  if (!isObject(body["usage"])) return null;
  const usage = body["usage"];
  const compactions = objectsOf(usage["iterations"]).filter(({ type }) => type === "compaction");
  const inclusive = (name: string): number | null => {
    const counts = [usage, ...compactions].map((one) => numberOrNull(one[name])).filter((count) => count !== null);
    return counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0);
  };
  const input = inclusive("input_tokens");
  const cached = inclusive("cache_read_input_tokens");
  const written = inclusive("cache_creation_input_tokens");
  const toolUses = Object.entries(objectOf(usage["server_tool_use"]));
  return {
    inputTokens: input === null ? null : input + (cached ?? 0) + (written ?? 0),
    outputTokens: inclusive("output_tokens"),
    cachedInputTokens: cached,
    cacheWriteInputTokens: written,
    reasoningTokens: numberOrNull(objectOf(usage["output_tokens_details"])["thinking_tokens"]),
    totalTokens: null,
    totalCost: null,
    toolUsage: leavesOf(Object.fromEntries(toolUses.map(([name, count]) => [name.replace(/_requests$/, ""), count]))),
    extra: leavesOf({
      ...without(usage, [
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens",
        "server_tool_use",
      ]),
      output_tokens_details: without(objectOf(usage["output_tokens_details"]), ["thinking_tokens"]),
    }),
  };
}
