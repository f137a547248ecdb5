// Reads the prompt of a call to an engine that serves as an AI SDK model: AI SDK messages become messages of a thread.
//
// Theory of operation
//   One assistant message of the AI SDK can hold several replies of the engine: text, calls of the engine's own tools
//   with their results, more text. Every part that model-reply.ts emits carries the number of its step in its metadata,
//   and the last part of a step carries the whole reply as JSON. The AI SDK returns the metadata as `providerOptions`.
//   The parts of one step become one reply, followed by the results of its calls.
//
//   The stored reply is used if its text and its calls are those of the parts, so that signatures, order and content
//   without a counterpart in the AI SDK survive. If the program has changed the parts, they are converted themselves.
//
// Invariant: the metadata comes back from the caller, possibly from a browser. It is parsed like any input; a reply
// that does not match its parts is ignored.

import type { AssistantPart, Json, Message, ToolCallInput, ToolMessage, UserPart } from "../../core/model/internal.ts";

import {
  assistant,
  invalidArgument,
  messageText,
  parse,
  parseJson,
  reasoningPart,
  system,
  textPart,
  toolCallPart,
  toolResult,
  user,
} from "../../core/model/internal.ts";
import { contentPart, fieldOf, jsonOf, listOf, objectOf, textField } from "./fields.ts";

/** The key of the metadata that this library adds to parts. */
export const metadataKey = "everturn";

/** The messages of a prompt. Throws `MisuseError` for content that has no counterpart. */
export function readPrompt(prompt: readonly unknown[]): readonly Message[] {
  return prompt.flatMap((message, index): readonly Message[] => {
    const content = fieldOf(message, "content");
    const path = `prompt[${index}]`;
    switch (textField(message, "role")) {
      case "system":
        return [system(typeof content === "string" ? content : "")];
      case "user":
        return [user(listOf(message, "content").map((part) => requiredPart(part, path)))];
      case "assistant":
        return partsByStep(listOf(message, "content")).flatMap((parts) => readStep(parts, path));
      case "tool":
        return listOf(message, "content").flatMap((part) => toolMessage(part, path) ?? []);
      default:
        throw invalidArgument(`${path} has a role that an engine does not have`);
    }
  });
}

/** A part of the prompt. Throws `MisuseError` if an engine cannot take it. */
function requiredPart(part: unknown, path: string): UserPart {
  const taken = contentPart(part);
  if (taken !== null) return taken;
  const type = textField(part, "type") ?? "unknown";
  throw invalidArgument(
    `${path} has a part of the type ${type}, which an engine cannot take; pass text, bytes or a URL`,
  );
}

/** Groups the parts of an assistant message by step. Parts without a number begin a step when they follow a result. */
function partsByStep(parts: readonly unknown[]): readonly (readonly unknown[])[] {
  const steps: unknown[][] = [];
  let current: string | null = null;
  let hasResult = false;
  for (const part of parts) {
    const isResult = textField(part, "type") === "tool-result";
    const step = textField(metadataOf(part), "step");
    const begins = step === null ? hasResult && !isResult : step !== current;
    if (steps.length === 0 || begins) steps.push([]);
    steps.at(-1)?.push(part);
    current = step ?? current;
    hasResult = isResult;
  }
  return steps;
}

function metadataOf(part: unknown): unknown {
  return fieldOf(fieldOf(part, "providerOptions"), metadataKey);
}

/** The reply of one step and the results of the calls that the engine ran. */
function readStep(parts: readonly unknown[], path: string): readonly Message[] {
  const results = parts.flatMap((part) =>
    textField(part, "type") === "tool-result" ? (toolMessage(part, path) ?? []) : [],
  );
  const content = parts.flatMap((part) => replyPartOf(part, path) ?? []);
  const toolCalls = parts.flatMap((part) => toToolCall(part) ?? []);
  if (content.length === 0) return results;
  const converted = assistant(content, { toolCalls });
  const stored = parts.map(storedReply).findLast((reply) => reply !== null) ?? null;
  const isUnchanged =
    stored !== null &&
    messageText(stored) === messageText(converted) &&
    stored.toolCalls.map(({ id }) => id).join() === toolCalls.map(({ id }) => id).join();
  return [isUnchanged ? stored : converted, ...results];
}

function storedReply(part: unknown) {
  const json = parseJson(textField(metadataOf(part), "message") ?? "");
  const parsed = json === null ? null : parse("message", json.value);
  return parsed?.ok === true && parsed.value.role === "assistant" ? parsed.value : null;
}

function replyPartOf(part: unknown, path: string): AssistantPart | null {
  switch (textField(part, "type")) {
    case "text":
      return textPart(textField(part, "text") ?? "");
    case "reasoning":
      return reasoningPart(textField(part, "text") ?? "");
    case "tool-call":
      return toolCallPart(textField(part, "toolCallId") ?? "");
    case "file":
      return requiredPart(part, path);
    default:
      return null;
  }
}

function toToolCall(part: unknown): ToolCallInput | null {
  if (textField(part, "type") !== "tool-call") return null;
  const [id, name] = [textField(part, "toolCallId") ?? "", textField(part, "toolName") ?? ""];
  return { id, name, arguments: objectOf(fieldOf(part, "input")) ?? {} };
}

/** The message that answers a call; `null` for other parts, such as an approval. */
function toolMessage(part: unknown, path: string): ToolMessage | null {
  if (textField(part, "type") !== "tool-result") return null;
  const output = fieldOf(part, "output");
  const type = textField(output, "type") ?? "";
  const name = textField(part, "toolName");
  const isDenied = type === "execution-denied";
  const status = isDenied || type.startsWith("error") ? "failure" : "success";
  const code = isDenied ? "denied" : null;
  const value = fieldOf(output, "value");
  const content =
    type === "content"
      ? listOf(output, "value").map((item) => requiredPart(item, path))
      : isDenied
        ? (textField(output, "reason") ?? "The call was not approved.")
        : typeof value === "string"
          ? value
          : JSON.stringify(jsonOf(value));
  return toolResult(textField(part, "toolCallId") ?? "", content, { name, status, code });
}

/** A value as the JSON types of the AI SDK have it: with mutable lists. */
export type PlainJson = null | string | number | boolean | PlainJson[] | { [key: string]: PlainJson | undefined };

/** A copy of a JSON value with mutable lists. */
export function plainJson(value: Json): PlainJson {
  const copy: PlainJson = JSON.parse(JSON.stringify(value));
  return copy;
}
