// The `Reading` of what the codec decoded: the collected reply and the deltas of its events.

import type { Block, Completions, Reading } from "./reading.ts";
import type { Api } from "./recording.ts";
import type { AssistantMessage, Json, JsonObject, ModelReply, Part, ToolCall } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { Collector } from "everturn/advanced";

import { provider } from "./decode.ts";
import { isObject, leavesOf, noReading, objectOf, only, without, withoutBlanks } from "./reading.ts";

/**
 * Collects the events. `sendable` is the message for the next request; `problem` says why the events are no valid
 * reply.
 */
export function readDecoded(
  api: Api,
  events: readonly ModelEvent[],
): { readonly reading: Reading; readonly sendable: AssistantMessage | null; readonly problem: string | null } {
  const ends = events.filter(({ type }) => type === "message_completed" || type === "error");
  const collector = new Collector();
  for (const event of events) collector.add(event);
  const reply = collector.reply();
  const end = ends.find((event) => event.type === "message_completed");
  const message = end?.message ?? null;
  const reading = readingOf(api, reply, message, events);
  const sendable = reply.message === null ? null : withoutOpenCalls(reply.message, events);
  if (ends.length !== 1) return { reading, sendable, problem: `${ends.length} terminal events instead of 1` };
  // The collector builds the message of the thread from the events and from the message of the codec.
  const collected = sendable === null ? [] : blocksOf(api, sendable);
  const isSame = reply.error !== null || JSON.stringify(collected) === JSON.stringify(reading.blocks);
  return {
    reading,
    sendable: reply.error === null ? sendable : null,
    problem: isSame ? null : "the collected message differs from the message of the codec",
  };
}

/** The collected message without calls that never completed: the collector keeps them, the codec does not. */
function withoutOpenCalls(message: AssistantMessage, events: readonly ModelEvent[]): AssistantMessage {
  const completed = new Set(events.flatMap((event) => (event.type === "tool_call_completed" ? [event.id] : [])));
  const started = new Set(events.flatMap((event) => (event.type === "tool_call_started" ? [event.id] : [])));
  return { ...message, toolCalls: message.toolCalls.filter(({ id }) => completed.has(id) || !started.has(id)) };
}

function readingOf(
  api: Api,
  reply: ModelReply,
  message: AssistantMessage | null,
  events: readonly ModelEvent[],
): Reading {
  const hasUsage = events.some(({ type }) => type === "usage");
  const { usage } = reply;
  const logprobKeys = api === "gemini" ? ["logprobsResult", "avgLogprobs"] : ["logprobs"];
  const common = {
    ...noReading,
    usage: hasUsage
      ? { ...only(usage, []), ...tokens(usage), toolUsage: leavesOf(usage.toolUsage), extra: leavesOf(usage.extra) }
      : null,
    deltas: deltasOf(events),
    completions: { ...completionsOf(events), callIds: message?.toolCalls.map(({ id }) => id) ?? [] },
  };
  if (reply.error !== null) {
    const { error } = reply;
    const text = error.message.startsWith(`${provider}: `) ? error.message.slice(provider.length + 2) : error.message;
    const code = "code" in error && typeof error.code === "string" ? error.code : null;
    const isInterrupted = error.type === "stream_error" && error.reason === "interrupted";
    return {
      ...common,
      outcome: isInterrupted ? "interrupted" : "failed",
      error: isInterrupted ? null : { message: text, code },
    };
  }
  const logprobs = only(reply.metadata, logprobKeys);
  return {
    ...common,
    responseId: reply.id,
    model: reply.model,
    finishReason: reply.finishReason,
    rawFinishReason: reply.rawFinishReason,
    blocks: message === null ? [] : blocksOf(api, message),
    logprobs: api === "gemini" ? logprobs : withoutBlanks(objectOf(logprobs["logprobs"])),
    metadata: withoutBlanks(without(reply.metadata, logprobKeys)),
  };
}

function tokens(usage: ModelReply["usage"]) {
  const { inputTokens, outputTokens, cachedInputTokens, cacheWriteInputTokens, reasoningTokens } = usage;
  const { totalTokens, totalCost } = usage;
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteInputTokens,
    reasoningTokens,
    totalTokens,
    totalCost,
  };
}

/** The joined deltas. Calls without deltas are left out of `arguments`. */
function deltasOf(events: readonly ModelEvent[]): Reading["deltas"] {
  let text = "";
  let reasoning = "";
  const argumentTexts = new Map<string, string>();
  for (const event of events) {
    if (event.type === "text_delta") text += event.delta;
    if (event.type === "reasoning_delta") reasoning += event.delta;
    if (event.type === "tool_call_started") argumentTexts.set(event.id, "");
    if (event.type === "tool_call_delta")
      argumentTexts.set(event.id, (argumentTexts.get(event.id) ?? "") + event.argumentsDelta);
  }
  return { text, reasoning, arguments: [...argumentTexts.values()] };
}

function completionsOf(events: readonly ModelEvent[]): Omit<Completions, "callIds"> {
  return {
    texts: events.flatMap((event) => (event.type === "text_completed" ? [event.text] : [])),
    reasoning: events.flatMap((event) => (event.type === "reasoning_completed" ? [event.text] : [])),
    calls: events.flatMap((event) =>
      // A generated image is an image and no call.
      event.type === "tool_call_completed" && event.name !== "image_generation"
        ? [{ id: event.id, name: event.name, arguments: event.arguments }]
        : [],
    ),
  };
}

/**
 * The blocks of the message, with the calls in their places. Chat Completions has no order between kinds of blocks, so
 * they are sorted by kind.
 */
function blocksOf(api: Api, message: AssistantMessage): readonly Block[] {
  const { content, toolCalls } = message;
  const unplaced = new Map(toolCalls.map((call) => [call.id, call]));
  const parts = typeof content === "string" ? [] : content;
  const plain = { isRefusal: false, phase: null, citations: {}, replay: {} };
  const text: readonly Block[] =
    typeof content !== "string" || content === "" ? [] : [{ ...plain, type: "text", text: content }];
  const blocks = parts.flatMap((part): readonly Block[] => {
    if (part.type !== "tool_call" || part.providerExecuted !== null) return partBlocks(api, part, parts);
    const call = unplaced.get(part.toolCallId);
    unplaced.delete(part.toolCallId);
    return call === undefined ? [] : [callBlock(call, "call")];
  });
  const all = [...text, ...blocks, ...[...unplaced.values()].map((call) => callBlock(call, "call"))];
  return api === "openai-chat" ? all.toSorted((left, right) => rank(left) - rank(right)) : all;
}

function rank(block: Block): number {
  if (block.type === "text") return block.isRefusal ? 3 : 2;
  return { reasoning: 0, provider_call: 1, provider_result: 1, image: 4, call: 5, item: 6 }[block.type];
}

function partBlocks(api: Api, part: Part, all: readonly Part[]): readonly Block[] {
  switch (part.type) {
    case "text":
      return [
        {
          type: "text",
          text: part.text,
          isRefusal: part.kind === "refusal",
          phase: part.phase,
          citations: withoutBlanks(part.metadata),
          replay: replayOf(part.provider?.data),
        },
      ];
    case "reasoning":
      return [{ type: "reasoning", text: part.text, isHidden: part.redacted, replay: replayOf(part.provider?.data) }];
    case "image": {
      const { source, mimeType } = part.image;
      const data = source.type === "base64" ? source.data : source.type === "url" ? source.url : "";
      const { revisedPrompt } = part.image;
      const replay = replayOf(part.provider?.data);
      // The image of a call of the provider is complete only with the call and its result.
      const ofCall = all.filter((one) => "toolCallId" in one && one.toolCallId === replay["id"]);
      const hasResult = ofCall.some((one) => one.type === "tool_result" && typeof one.content === "string");
      const hasCall = ofCall.some(
        (one) => one.type === "tool_call" && (one.providerExecuted?.arguments?.["prompt"] ?? null) === revisedPrompt,
      );
      if (replay["type"] === "image_generation_call" && !(hasCall && hasResult))
        return [{ type: "item", kind: "image", item: replay }];
      return [{ type: "image", mimeType, data, revisedPrompt, replay }];
    }
    case "tool_call":
      // A generated image is one block: its image.
      if (part.providerExecuted === null || hasImage(all, part.toolCallId)) return [];
      return [callBlock(part.providerExecuted, "provider_call")];
    case "tool_result": {
      if (hasImage(all, part.toolCallId)) return [];
      const replay = replayOf(part.provider?.data);
      return [{ type: "provider_result", id: part.toolCallId, content: part.content, isError: part.isError, replay }];
    }
    case "opaque":
      return [opaqueBlock(api, part.kind, part.provider.data)];
    case "file": {
      const data = part.source.type === "base64" ? part.source.data : "";
      const item = { ...replayOf(part.provider?.data), inlineData: { mimeType: part.mimeType, data } };
      return [{ type: "item", kind: "inlineData", item }];
    }
  }
}

function hasImage(parts: readonly Part[], callId: string): boolean {
  return parts.some(
    (part) =>
      part.type === "image" &&
      replayOf(part.provider?.data)["id"] === callId &&
      replayOf(part.provider?.data)["type"] === "image_generation_call",
  );
}

function opaqueBlock(api: Api, kind: string, data: Json): Block {
  const fields = objectOf(data);
  if (api === "openai-chat") {
    const item = "content" in fields ? fields["content"] : objectOf(fields["fields"])[kind];
    return { type: "item", kind, item: item ?? null };
  }
  return { type: "item", kind, item: data };
}

function callBlock(call: ToolCall, type: "call" | "provider_call"): Block {
  const { id, name, rawArguments } = call;
  return {
    type,
    id,
    name,
    arguments: call.arguments,
    argumentsText: rawArguments,
    replay: replayOf(call.provider?.data),
  };
}

function replayOf(data: Json | undefined): JsonObject {
  return isObject(data) ? data : {};
}
