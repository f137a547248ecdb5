// Reads recorded replies of OpenAI's Responses API, without the codec.

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

/** An item of a stream: as it began, as it ended, and the texts of its deltas by index. */
type StreamedItem = {
  readonly index: number | null;
  readonly first: JsonObject;
  done: JsonObject | null;
  readonly texts: Map<string, string>;
  argumentsText: string;
};

/** The whole response that a stream stands for. `end` is the last event of the protocol, or the error. */
export function assembleResponses(events: readonly JsonObject[]): {
  readonly body: JsonObject;
  readonly end: JsonObject | null;
  readonly deltas: Deltas;
} {
  const items: StreamedItem[] = [];
  const itemOf = (event: JsonObject, type: string | null): StreamedItem | null => {
    const index = numberOrNull(event["output_index"]);
    const id = stringOf(event["item_id"]);
    const found =
      items.find(({ first, done }) => id !== "" && (first["id"] === id || done?.["id"] === id)) ??
      (index === null ? undefined : items.findLast((item) => item.index === index)) ??
      (index === null && id === "" ? items.findLast((item) => item.first["type"] === type) : undefined);
    if (found !== undefined || type === null) return found ?? null;
    return open({ type, ...withoutBlanks({ id }) }, index);
  };
  const open = (first: JsonObject, index: number | null): StreamedItem => {
    const item: StreamedItem = { index, first, done: null, texts: new Map(), argumentsText: "" };
    items.push(item);
    return item;
  };
  const sums = { text: "", reasoning: "" };
  let head: JsonObject = {};
  let end: JsonObject | null = null;
  for (const event of events) {
    const type = stringOf(event["type"]);
    const delta = stringOf(event["delta"]);
    if (/^response\.(?:created|queued|in_progress)$/.test(type)) head = { ...head, ...objectOf(event["response"]) };
    if (
      /^(?:error|response\.(?:completed|incomplete|failed|cancelled|error))$/.test(type) ||
      (type === "" && isObject(event["error"]))
    ) {
      end = event;
      break;
    }
    switch (type) {
      case "response.output_item.added": {
        const item = objectOf(event["item"]);
        const index = numberOrNull(event["output_index"]);
        const isKnown = items.some(
          (other) => other.index === index && other.first["type"] === item["type"] && sameItem(other.first, item),
        );
        if (!isKnown) open(item, index);
        break;
      }
      case "response.output_item.done": {
        const item = objectOf(event["item"]);
        const index = numberOrNull(event["output_index"]);
        const state =
          items.find(
            (other) => sameItem(other.done ?? other.first, item) && (index === null || other.index === index),
          ) ??
          items.findLast(
            (other) => other.index === index && other.first["type"] === item["type"] && other.done === null,
          ) ??
          open(item, index);
        state.done ??= item;
        break;
      }
      case "response.output_text.delta":
      case "response.refusal.delta": {
        const item = itemOf(event, "message");
        if (item === null || item.done !== null) break;
        const key = `${type === "response.refusal.delta" ? "refusal" : "text"} ${numberOrNull(event["content_index"]) ?? 0}`;
        item.texts.set(key, (item.texts.get(key) ?? "") + delta);
        sums.text += delta;
        break;
      }
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta": {
        const item = itemOf(event, "reasoning");
        if (item === null || item.done !== null) break;
        const isSummary = type === "response.reasoning_summary_text.delta";
        const key = `${isSummary ? "summary" : "content"} ${numberOrNull(event[isSummary ? "summary_index" : "content_index"]) ?? 0}`;
        // Parts of a summary are paragraphs.
        if (!item.texts.has(key) && item.texts.size > 0) sums.reasoning += "\n\n";
        item.texts.set(key, (item.texts.get(key) ?? "") + delta);
        sums.reasoning += delta;
        break;
      }
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
      case "response.mcp_call_arguments.delta": {
        const item = itemOf(event, null);
        if (item !== null && item.done === null) item.argumentsText += delta;
        break;
      }
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
      case "response.mcp_call_arguments.done": {
        const item = itemOf(event, null);
        const text = stringOrNull(event["arguments"]) ?? stringOrNull(event["input"]);
        if (item !== null && item.done === null && text !== null) item.texts.set("arguments", text);
        break;
      }
    }
  }
  const response = objectOf(end?.["response"]);
  const listed = objectsOf(response["output"]);
  const ordered = items.toSorted((left, right) => (left.index ?? 0) - (right.index ?? 0));
  const output =
    listed.length > ordered.length
      ? listed.map(
          (item, at) =>
            ordered.find(({ index, done }) => index === at && done?.["type"] === item["type"])?.done ?? item,
        )
      : ordered.map(
          (item) => item.done ?? listed.find((other) => sameItem(other, item.first)) ?? assembled(item, response),
        );
  const isCall = ({ first }: StreamedItem) =>
    ["function_call", "custom_tool_call", "mcp_call"].includes(stringOf(first["type"]));
  return {
    body: { ...head, ...response, output },
    end,
    deltas: { ...sums, arguments: ordered.filter(isCall).map(({ argumentsText }) => argumentsText) },
  };
}

function sameItem(left: JsonObject, right: JsonObject): boolean {
  if (left["type"] !== right["type"]) return false;
  if (stringOf(left["id"]) !== "" && left["id"] === right["id"]) return true;
  return stringOf(left["call_id"]) !== "" && left["call_id"] === right["call_id"];
}

/** An item that the stream never completed, from its deltas. */
function assembled({ first, texts, argumentsText }: StreamedItem, response: JsonObject): JsonObject {
  const isComplete = response["status"] === "completed" || response["status"] === undefined || texts.has("arguments");
  const status = isComplete ? "completed" : "incomplete";
  const list = (prefix: string, type: string, field: string) =>
    [...texts].filter(([key]) => key.startsWith(prefix)).map(([, text]) => ({ type, [field]: text }));
  switch (first["type"]) {
    case "message":
      return {
        ...first,
        status,
        content: [...list("text", "output_text", "text"), ...list("refusal", "refusal", "refusal")],
      };
    case "reasoning":
      return {
        ...first,
        summary: list("summary", "summary_text", "text"),
        content: list("content", "reasoning_text", "text"),
      };
    case "function_call":
      return { ...first, status, arguments: texts.get("arguments") ?? argumentsText };
    case "custom_tool_call":
      return { ...first, status, input: texts.get("arguments") ?? argumentsText };
    default:
      return first;
  }
}

export function readResponsesStream(events: readonly JsonObject[]): Reading {
  const { body, end, deltas } = assembleResponses(events);
  if (end === null) return { ...noReading, outcome: "interrupted", deltas };
  const type = stringOf(end["type"]);
  if (type === "response.completed" || type === "response.incomplete") {
    const status = type === "response.completed" ? "completed" : "incomplete";
    return {
      ...readResponsesBody({ ...body, status: body["status"] === "in_progress" ? status : (body["status"] ?? status) }),
      deltas,
    };
  }
  if (type === "response.cancelled") return { ...noReading, outcome: "failed", usage: responsesUsage(body), deltas };
  return {
    ...errorReading(isObject(end["response"]) ? end["response"] : end),
    usage: responsesUsage(objectOf(end["response"])),
    deltas,
  };
}

export function readResponsesBody(body: JsonObject): Reading {
  const status = stringOrNull(body["status"]);
  if (body["output"] === undefined && status === null) return errorReading(body);
  if (status === "failed" || (status === null && isObject(body["error"])))
    return { ...errorReading(body), usage: responsesUsage(body) };
  if (status === "in_progress" || status === "queued")
    return { ...noReading, outcome: "interrupted", usage: responsesUsage(body) };
  if (status === "cancelled") return { ...noReading, outcome: "failed", usage: responsesUsage(body) };
  const items = objectsOf(body["output"]);
  // Messages after the reasoning of a stored response are sent back with their ids.
  const isStored = body["store"] !== false;
  const firstReasoning = items.findIndex(({ type }) => type === "reasoning");
  const reasoningAt = isStored && firstReasoning !== -1 ? firstReasoning : Infinity;
  // The next request names what the provider has stored.
  const mark = withoutBlanks({
    response_id: body["id"],
    previous_response_id: body["previous_response_id"],
    conversation: objectOf(body["conversation"])["id"],
    store: body["store"],
  });
  const isMarked =
    mark["store"] === true || stringOf(mark["previous_response_id"]) + stringOf(mark["conversation"]) !== "";
  const blocks: readonly Block[] = [
    ...withUniqueIds(items.flatMap((item, at) => blocksOf(item, at > reasoningAt))),
    ...(isMarked ? [{ type: "item" as const, kind: "stored_response", item: mark }] : []),
  ];
  const reason = stringOrNull(objectOf(body["incomplete_details"])["reason"]);
  const isRefused = blocks.some((block) => block.type === "text" && block.isRefusal && block.text !== "");
  const finish =
    status === "incomplete"
      ? reason === "max_output_tokens"
        ? "length"
        : reason === "content_filter"
          ? "content_filter"
          : "other"
      : isRefused
        ? "content_filter"
        : "stop";
  const content = items.flatMap((item) => (item["type"] === "message" ? objectsOf(item["content"]) : []));
  return {
    ...noReading,
    responseId: stringOrNull(body["id"]),
    model: stringOrNull(body["model"]),
    rawFinishReason: status === "incomplete" ? (reason ?? status) : "completed",
    finishReason: finishWithCalls(finish, blocks),
    blocks,
    usage: responsesUsage(body),
    logprobs: withoutBlanks({ content: content.flatMap((part) => listOf(part["logprobs"])) }),
    metadata: withoutBlanks({ serviceTier: body["service_tier"] }),
    deltas: {
      text: "",
      reasoning: "",
      arguments: items
        .filter((item) => item["status"] === "incomplete" && item["arguments"] !== undefined)
        .map((item) => stringOf(item["arguments"])),
    },
    isStored,
    sentBack: withoutTrailingReasoning(
      (isStored ? items : withoutUnreadable(items)).flatMap((item, at) => sentBackOf(item, at > reasoningAt)),
    ),
  };
}

/** xAI sends the message as text, with the code beside it. */
function errorReading(body: JsonObject): Reading {
  const error = isObject(body["error"]) ? body["error"] : body;
  const nested = isObject(body["error"]) ? stringOrNull(error["type"]) : null;
  const message = stringOrNull(error["message"]) ?? stringOrNull(body["error"]);
  return failed({ message, code: stringOrNull(error["code"]) ?? nested });
}

/** Items of tools that the provider runs: the name of the tool, and the field of its result. */
const hostedTools: { readonly [type: string]: readonly [string, string | null] } = {
  web_search_call: ["web_search", null],
  file_search_call: ["file_search", "results"],
  code_interpreter_call: ["code_interpreter", "outputs"],
  mcp_call: ["mcp", "output"],
};

function blocksOf(item: JsonObject, isPaired: boolean): readonly Block[] {
  const type = stringOf(item["type"]);
  switch (type) {
    case "message":
      return objectsOf(item["content"]).flatMap((part): readonly Block[] => {
        const isRefusal = part["type"] === "refusal";
        const text = stringOf(part[isRefusal ? "refusal" : "text"]);
        const citations = withoutBlanks({ annotations: objectsOf(part["annotations"]) });
        const phase = stringOrNull(item["phase"]);
        const replay = isPaired ? withoutBlanks(only(item, ["id", "status"])) : {};
        return text === "" ? [] : [{ type: "text", text, isRefusal, phase, citations, replay }];
      });
    case "reasoning": {
      const summary = objectsOf(item["summary"]).map((part) => stringOf(part["text"]));
      const content = objectsOf(item["content"]).map((part) => stringOf(part["text"]));
      const text = (summary.length === 0 ? content : summary).join("\n\n");
      return [
        {
          type: "reasoning",
          text,
          isHidden: text === "" && typeof item["encrypted_content"] === "string",
          replay: item,
        },
      ];
    }
    case "function_call":
    case "custom_tool_call": {
      if (item["status"] === "incomplete") return [];
      const isCustom = type === "custom_tool_call";
      const text = stringOf(item[isCustom ? "input" : "arguments"]);
      return [
        {
          type: "call",
          id: stringOf(item["call_id"]) || stringOf(item["id"]),
          name: stringOf(item["name"]),
          arguments: isCustom ? { input: text } : argumentsOf(text),
          argumentsText: isCustom ? null : text,
          replay: without(item, ["call_id", "name", "arguments", "input"]),
        },
      ];
    }
    case "image_generation_call": {
      const data = stringOf(item["result"]);
      const format = stringOf(item["output_format"]);
      if (data === "") return [{ type: "item", kind: type, item }];
      return [
        {
          type: "image",
          mimeType: `image/${format === "" ? "png" : format}`,
          data,
          revisedPrompt: stringOrNull(item["revised_prompt"]),
          replay: only(item, ["id"]),
        },
      ];
    }
    default: {
      const call = programCall(item);
      if (call !== null) return item["status"] === "incomplete" ? [] : [call];
      const isHosted =
        hostedTools[type] !== undefined ||
        (type.endsWith("_call") && ["arguments", "input", "action"].some((key) => !isBlank(item[key])));
      return isHosted ? hostedBlocks(item, type) : [{ type: "item", kind: type, item }];
    }
  }
}

/**
 * The call of a tool of OpenAI that the program runs; `null`: the item is none. Containers and server-side searches are
 * run by the provider.
 */
function programCall(item: JsonObject): Block | null {
  const environment = stringOf(objectOf(item["environment"])["type"]);
  const named = (name: string, args: JsonObject): Block => ({
    type: "call",
    id: stringOf(item["call_id"]) || stringOf(item["id"]),
    name,
    arguments: args,
    argumentsText: null,
    replay: only(item, ["id", "type"]),
  });
  switch (item["type"]) {
    case "computer_call": {
      const checks = listOf(item["pending_safety_checks"]);
      return named("computer", { ...only(item, ["action", "actions"]), pending_safety_checks: checks });
    }
    case "local_shell_call":
      return named("local_shell", objectOf(item["action"]));
    case "shell_call":
      return environment.startsWith("container") ? null : named("shell", objectOf(item["action"]));
    case "apply_patch_call":
      return named("apply_patch", objectOf(item["operation"]));
    case "mcp_approval_request": {
      const args = argumentsOf(stringOf(item["arguments"])) ?? stringOf(item["arguments"]);
      const label = stringOf(item["server_label"]).replaceAll(/[^\w-]/g, "_");
      return named(`mcp_${label}`.slice(0, 64), {
        ...only(item, ["server_label", "name"]),
        arguments: args,
      });
    }
    case "tool_search_call":
      return item["execution"] === "client" ? named("tool_search", givenArguments(item["arguments"]) ?? {}) : null;
    default:
      return null;
  }
}

/** Arguments that are an object or its JSON text. */
function givenArguments(value: Json | undefined): JsonObject | null {
  return isObject(value) ? value : argumentsOf(stringOf(value));
}

function hostedBlocks(item: JsonObject, type: string): readonly Block[] {
  const [name, field] = hostedTools[type] ?? [type.replace(/_call$/, ""), null];
  const id = stringOf(item["call_id"]) || stringOf(item["id"]);
  const result = field === null ? null : (item[field] ?? null);
  const error = item["error"] ?? null;
  const call: Block = {
    type: "provider_call",
    id,
    name: stringOf(item["name"]) || name,
    arguments: hostedArguments(item, type),
    argumentsText: null,
    replay: {},
  };
  if (result === null && error === null) return [call];
  const isError = error !== null || item["status"] === "failed";
  return [call, { type: "provider_result", id, content: result ?? error, isError, replay: only(item, ["id", "type"]) }];
}

function hostedArguments(item: JsonObject, type: string): JsonObject | null {
  const value = item["arguments"] ?? item["input"] ?? item["action"];
  const parsed = givenArguments(value) ?? (type === "mcp_call" ? null : { input: stringOf(value) });
  switch (type) {
    case "web_search_call":
      return isObject(item["action"]) ? item["action"] : parsed;
    case "file_search_call":
      return only(item, ["queries"]);
    case "code_interpreter_call":
      return item["code"] === undefined && item["arguments"] !== undefined
        ? parsed
        : only(item, ["code", "container_id"]);
    default:
      return parsed;
  }
}

/**
 * The items of the next request: text without annotations, reasoning without its status, everything else unchanged. A
 * message that is paired with reasoning is one item with its id; the texts of another one are an item each.
 */
function sentBackOf(item: JsonObject, isPaired: boolean): readonly JsonObject[] {
  switch (item["type"]) {
    case "message": {
      const contents = objectsOf(item["content"]).flatMap((part): readonly JsonObject[] => {
        const isRefusal = part["type"] === "refusal";
        const text = stringOf(part[isRefusal ? "refusal" : "text"]);
        if (text === "") return [];
        return [isRefusal ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] }];
      });
      const hasId = isPaired && stringOf(item["id"]) !== "";
      const fields = withoutBlanks(only(item, hasId ? ["id", "status", "phase"] : ["phase"]));
      const grouped = hasId && contents.length > 0 ? [contents] : contents.map((content) => [content]);
      return grouped.map((content) => ({ type: "message", role: "assistant", content, ...fields }));
    }
    case "reasoning":
      return [without(item, ["status"])];
    case "function_call":
      if (item["status"] === "incomplete") return [];
      return [{ ...item, arguments: stringOf(item["arguments"]).trim() === "" ? "{}" : (item["arguments"] ?? "{}") }];
    case "custom_tool_call":
      return item["status"] === "incomplete" ? [] : [item];
    default:
      return [item];
  }
}

/**
 * A provider that stores nothing reads encrypted reasoning only. After other reasoning, calls have no item ids and
 * items of the provider's tools are not sent. Without reasoning, the id and the status of a call say nothing.
 */
function withoutUnreadable(items: readonly JsonObject[]): readonly JsonObject[] {
  let isOrphaned = false;
  let hasReasoning = false;
  return items.flatMap((item): readonly JsonObject[] => {
    const type = stringOf(item["type"]);
    if (type === "reasoning") {
      isOrphaned = typeof item["encrypted_content"] !== "string";
      hasReasoning = true;
    }
    if (!hasReasoning && type === "function_call") {
      const own = withoutBlanks(without(item, ["type", "id", "status", "call_id", "name", "arguments"]));
      return [Object.keys(own).length === 0 ? without(item, ["id", "status"]) : item];
    }
    if (!isOrphaned || type === "message") return [item];
    if (type === "function_call" || type === "custom_tool_call") return [without(item, ["id"])];
    return type === "reasoning" || /_(?:call|output)$/.test(type) ? [] : [item];
  });
}

/** The API refuses a reasoning item without a following item. */
function withoutTrailingReasoning(items: readonly JsonObject[]): readonly JsonObject[] {
  const last = items.findLastIndex(({ type }) => type !== "reasoning");
  return items.slice(0, last + 1);
}

function responsesUsage(body: JsonObject): UsageReading | null {
  if (!isObject(body["usage"])) return null;
  const usage = body["usage"];
  const input = objectOf(usage["input_tokens_details"]);
  const output = objectOf(usage["output_tokens_details"]);
  const ticks = numberOrNull(usage["cost_in_usd_ticks"]);
  const uses = Object.entries(objectOf(body["tool_usage"])).map(([name, use]): [string, Json] => [
    name,
    objectOf(use)["num_requests"] ?? 0,
  ]);
  return {
    inputTokens: numberOrNull(usage["input_tokens"]),
    outputTokens: numberOrNull(usage["output_tokens"]),
    cachedInputTokens: numberOrNull(input["cached_tokens"]),
    cacheWriteInputTokens: numberOrNull(input["cache_write_tokens"]),
    reasoningTokens: numberOrNull(output["reasoning_tokens"]),
    totalTokens: numberOrNull(usage["total_tokens"]),
    // OpenRouter reports dollars, xAI 10^-10 dollars.
    totalCost: numberOrNull(usage["cost"]) ?? (ticks === null ? null : ticks / 1e10),
    toolUsage: leavesOf(Object.fromEntries(uses)),
    extra: leavesOf({
      ...without(usage, ["input_tokens", "output_tokens", "total_tokens", "cost"]),
      input_tokens_details: without(input, ["cached_tokens", "cache_write_tokens"]),
      output_tokens_details: without(output, ["reasoning_tokens"]),
    }),
  };
}
