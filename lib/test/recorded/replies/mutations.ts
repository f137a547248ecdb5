// Damages the events of a decoded reply in the ways a defective codec would. The comparison must report every reply
// that a mutation changes: a check that does not notice a mutation would not notice the defect either.

import type { Api } from "./recording.ts";
import type { AssistantMessage, JsonObject, ToolCall } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { assistant, StreamError } from "everturn";

import { without } from "./reading.ts";

/** Returns the damaged events. Replies that have nothing to damage are returned as they are. */
export type Mutation = (events: readonly ModelEvent[], api: Api) => readonly ModelEvent[];

type AssistantPart = Exclude<AssistantMessage["content"], string>[number];
type Completed = Extract<ModelEvent, { readonly type: "message_completed" }>;

const onEnd =
  (change: (event: Completed) => ModelEvent): Mutation =>
  (events) =>
    events.map((event) => (event.type === "message_completed" ? change(event) : event));

const onMessage = (change: (message: AssistantMessage) => AssistantMessage): Mutation =>
  onEnd((event) => ({ ...event, message: change(event.message) }));

/** Changes the parts of the message; text alone is one part. */
const onParts = (change: (parts: readonly AssistantPart[]) => readonly AssistantPart[]): Mutation =>
  onMessage((message) =>
    typeof message.content === "string" ? message : { ...message, content: change(message.content) },
  );

const onText = (change: (text: string) => string): Mutation =>
  onMessage((message) => ({
    ...message,
    content:
      typeof message.content === "string"
        ? change(message.content)
        : message.content.map((part) => (part.type === "text" ? { ...part, text: change(part.text) } : part)),
  }));

const onReasoning = (change: (text: string) => string): Mutation =>
  onParts((parts) => parts.map((part) => (part.type === "reasoning" ? { ...part, text: change(part.text) } : part)));

const onCalls = (change: (call: ToolCall) => ToolCall): Mutation =>
  onMessage((message) => ({ ...message, toolCalls: message.toolCalls.map(change) }));

const onProviderCalls = (change: (call: ToolCall) => ToolCall): Mutation =>
  onParts((parts) =>
    parts.map((part) =>
      part.type === "tool_call" && part.providerExecuted !== null
        ? { ...part, providerExecuted: change(part.providerExecuted) }
        : part,
    ),
  );

const onMetadata = (change: (metadata: JsonObject) => JsonObject): Mutation =>
  onEnd((event) => ({ ...event, metadata: change(event.metadata) }));

const onUsage =
  (change: (usage: Extract<ModelEvent, { readonly type: "usage" }>["usage"]) => ModelEvent): Mutation =>
  (events) =>
    events.map((event) => (event.type === "usage" ? change(event.usage) : event));

const drop =
  (type: ModelEvent["type"]): Mutation =>
  (events) =>
    events.filter((event) => event.type !== type);

/** Leaves replies alone that did not complete: their blocks are not compared. */
const ifCompleted =
  (change: (events: readonly ModelEvent[]) => readonly ModelEvent[]): Mutation =>
  (events) =>
    events.some(({ type }) => type === "message_completed") ? change(events) : events;

const other: JsonObject = { id: "other", thoughtSignature: "b3RoZXI=" };
const withoutSpace = (text: string): string => text.replaceAll(/\s+/g, "");
const emptyArguments = (call: ToolCall): ToolCall => ({
  ...call,
  arguments: {},
  rawArguments: call.rawArguments === null ? null : "{}",
});

export const mutations: { readonly [name: string]: Mutation } = {
  "arguments of calls are {}": onCalls(emptyArguments),
  "arguments of provider calls are {}": onProviderCalls((call) => ({ ...call, arguments: {} })),
  "reasoning is dropped": onParts((parts) => parts.filter(({ type }) => type !== "reasoning")),
  "reasoning deltas are dropped": drop("reasoning_delta"),
  "usage is dropped": drop("usage"),
  "output tokens are null": onUsage((usage) => ({ type: "usage", usage: { ...usage, outputTokens: null } })),
  "input tokens are one too many": onUsage((usage) => ({
    type: "usage",
    usage: { ...usage, inputTokens: usage.inputTokens === null ? null : usage.inputTokens + 1 },
  })),
  "cached tokens are null": onUsage((usage) => ({ type: "usage", usage: { ...usage, cachedInputTokens: null } })),
  "reasoning tokens are null": onUsage((usage) => ({ type: "usage", usage: { ...usage, reasoningTokens: null } })),
  "white space is removed from text": onText(withoutSpace),
  "white space is removed from reasoning": onReasoning(withoutSpace),
  "white space is removed from arguments": onCalls((call) => ({
    ...call,
    rawArguments: call.rawArguments === null ? null : withoutSpace(call.rawArguments),
  })),
  "the last character of the text is dropped": onText((text) => text.slice(0, -1)),
  "text deltas are dropped": drop("text_delta"),
  "argument deltas are dropped": drop("tool_call_delta"),
  "every reply is interrupted": (events) =>
    events.map((event) => (event.type === "message_completed" ? interrupted : event)),
  "signatures of text are dropped": onParts((parts) =>
    parts.map((part) => (part.type === "text" ? { ...part, provider: null } : part)),
  ),
  "replay data of text belongs to another text": onParts((parts) =>
    parts.map((part) =>
      part.type === "text" && part.provider !== null ? { ...part, provider: { ...part.provider, data: other } } : part,
    ),
  ),
  "signatures of reasoning are dropped": onParts((parts) =>
    parts.map((part) => (part.type === "reasoning" ? { ...part, provider: null } : part)),
  ),
  "signatures of calls are dropped": onCalls((call) => ({ ...call, provider: null })),
  "ids of calls are dropped": onMessage((message) => renumbered(message)),
  "names of calls are dropped": onCalls((call) => ({ ...call, name: "" })),
  "calls are dropped": onMessage((message) => ({ ...message, toolCalls: [] })),
  "provider calls are dropped": onParts((parts) =>
    parts.filter((part) => part.type !== "tool_call" || part.providerExecuted === null),
  ),
  "provider results are dropped": onParts((parts) => parts.filter(({ type }) => type !== "tool_result")),
  "contents of provider results are dropped": onParts((parts) =>
    parts.map((part) => (part.type === "tool_result" ? { ...part, content: null } : part)),
  ),
  "images are dropped": onParts((parts) => parts.filter(({ type }) => type !== "image")),
  "containers are dropped": onParts((parts) =>
    parts.filter((part) => part.type !== "opaque" || part.kind !== "container"),
  ),
  "opaque items are dropped": onParts((parts) => parts.filter(({ type }) => type !== "opaque")),
  "citations are dropped": onParts((parts) =>
    parts.map((part) => (part.type === "text" ? { ...part, metadata: {} } : part)),
  ),
  "log probabilities are dropped": onMetadata((metadata) =>
    without(metadata, ["logprobs", "logprobsResult", "avgLogprobs"]),
  ),
  "the finish reason is other": onEnd((event) => ({ ...event, finishReason: "other" })),
  "the provider's finish reason is dropped": onEnd((event) => ({ ...event, rawFinishReason: null })),
  // Chat Completions has no order between the kinds of parts.
  "the order of the parts is reversed": (events, api) =>
    api === "openai-chat" ? events : onParts((parts) => parts.toReversed())(events, api),
  "the order of the texts is reversed": onParts((parts) => {
    const texts = parts.filter(({ type }) => type === "text").toReversed();
    return parts.map((part) => (part.type === "text" ? (texts.shift() ?? part) : part));
  }),
  "the order of the calls is reversed": onMessage((message) => ({
    ...message,
    toolCalls: message.toolCalls.toReversed(),
  })),
  "refusals are text": onParts((parts) =>
    parts.map((part) => (part.type === "text" ? { ...part, kind: "text" } : part)),
  ),
  "phases are dropped": onParts((parts) =>
    parts.map((part) => (part.type === "text" ? { ...part, phase: null } : part)),
  ),
  "the response id is dropped": onEnd((event) => ({ ...event, responseId: null })),
  "the model is dropped": onEnd((event) => ({ ...event, model: null })),
  "errors are completed replies": (events) => events.map((event) => (event.type === "error" ? emptyReply : event)),
  "events of completed calls have no arguments": ifCompleted((events) =>
    events.map((event) =>
      event.type === "tool_call_completed" && event.name !== "image_generation" ? { ...event, arguments: {} } : event,
    ),
  ),
  "events of completed texts are dropped": ifCompleted((events) =>
    events.filter((event) => event.type !== "text_completed" || event.text === ""),
  ),
  "events of completed reasoning are dropped": ifCompleted((events) =>
    events.filter((event) => event.type !== "reasoning_completed" || event.text === ""),
  ),
};

const interrupted: ModelEvent = { type: "error", error: new StreamError("interrupted").failure };

const emptyReply: ModelEvent = {
  type: "message_completed",
  message: assistant(""),
  finishReason: "stop",
  rawFinishReason: null,
  requestId: null,
  responseId: null,
  model: null,
  route: null,
  output: null,
  metadata: {},
};

/** The message with the ids `call_1`, `call_2` for its calls. */
function renumbered(message: AssistantMessage): AssistantMessage {
  const ids = new Map(message.toolCalls.map(({ id }, at) => [id, `renumbered_${at + 1}`]));
  const { content } = message;
  return {
    ...message,
    content:
      typeof content === "string"
        ? content
        : content.map((part) =>
            part.type === "tool_call" && part.providerExecuted === null
              ? { ...part, toolCallId: ids.get(part.toolCallId) ?? part.toolCallId }
              : part,
          ),
    toolCalls: message.toolCalls.map((call) => ({ ...call, id: ids.get(call.id) ?? call.id })),
  };
}
