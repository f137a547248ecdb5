// Converts a recording into its other form, so that every recorded reply is decoded streamed and whole: a stream is
// joined into a whole body, and a whole body is cut into a stream, with texts in random pieces.

import type { Api, Recording } from "./recording.ts";
import type { Json, JsonObject } from "everturn";
import type { Frame } from "everturn/advanced";

import { randomNumbers } from "./decode.ts";
import { assembleAnthropic } from "./read-anthropic.ts";
import { assembleChat } from "./read-chat.ts";
import { assembleGemini } from "./read-gemini.ts";
import { assembleResponses } from "./read-responses.ts";
import { isBlank, isList, isObject, listOf, objectOf, objectsOf, only, stringOf, without } from "./reading.ts";
import { eventsOf } from "./recording.ts";

/**
 * The recording in its other form; `null` for replies that did not complete. The caller has checked the outcome of the
 * reply.
 */
export function otherForm(recording: Recording, seed: number): Recording | null {
  const { api, name } = recording;
  if (recording.form === "stream") {
    const body = wholeBody(api, recording.frames.flatMap(eventsOf));
    return body === null ? null : { form: "whole", name, api, body };
  }
  const { body } = recording;
  if (!isObject(body)) return null;
  // A stream ends with a finish reason, which a whole body may lack.
  const [choice] = objectsOf(body["choices"]);
  const [candidate] = objectsOf(body["candidates"]);
  const finishReason = stringOf(choice?.["finish_reason"]) + stringOf(candidate?.["finishReason"]);
  if (finishReason === "" && (choice ?? candidate) !== undefined) return null;
  const events = streamedEvents(api, body, randomNumbers(seed));
  const frames = events.map((event): Frame => {
    const type = stringOf(event["type"]);
    return { event: type === "" ? null : type, data: JSON.stringify(event) };
  });
  return { form: "stream", name, api, frames };
}

function wholeBody(api: Api, events: readonly JsonObject[]): JsonObject | null {
  switch (api) {
    case "anthropic-messages": {
      const { message } = assembleAnthropic(events);
      // Input that is no JSON exists only in streams.
      const hasRawInput = objectsOf(message?.["content"]).some(({ input }) => typeof input === "string");
      return hasRawInput ? null : message;
    }
    case "openai-responses": {
      const { body, end } = assembleResponses(events);
      return { ...body, status: end?.["type"] === "response.incomplete" ? "incomplete" : "completed" };
    }
    case "openai-chat":
      return assembleChat(events).body;
    case "gemini":
      return assembleGemini(events).body;
  }
}

function streamedEvents(api: Api, body: JsonObject, random: () => number): readonly JsonObject[] {
  switch (api) {
    case "anthropic-messages":
      return anthropicEvents(body, random);
    case "openai-responses":
      return responsesEvents(body, random);
    case "openai-chat":
      return chatChunks(body, random);
    case "gemini":
      return geminiChunks(body, random);
  }
}

/** The text in random pieces of 1 to 40 characters; long texts in fewer pieces. */
function pieces(text: string, random: () => number): readonly string[] {
  const longest = Math.max(40, Math.ceil(text.length / 200));
  const list: string[] = [];
  for (let at = 0; at < text.length;) {
    const next = at + 1 + Math.floor(random() * longest);
    list.push(text.slice(at, next));
    at = next;
  }
  return list;
}

function anthropicEvents(body: JsonObject, random: () => number): readonly JsonObject[] {
  const start = { ...without(body, ["content", "context_management", "container"]), content: [], stop_reason: null };
  const blocks = objectsOf(body["content"]).flatMap((block, index): readonly JsonObject[] => {
    const delta = (fields: JsonObject) => ({ type: "content_block_delta", index, delta: fields });
    const stop = { type: "content_block_stop", index };
    const begin = (fields: JsonObject) => ({ type: "content_block_start", index, content_block: fields });
    switch (block["type"]) {
      case "text":
        return [
          begin({ ...without(block, ["citations"]), text: "" }),
          ...listOf(block["citations"]).map((citation) => delta({ type: "citations_delta", citation })),
          ...pieces(stringOf(block["text"]), random).map((text) => delta({ type: "text_delta", text })),
          stop,
        ];
      case "thinking":
        return [
          begin({ ...block, thinking: "", signature: "" }),
          ...pieces(stringOf(block["thinking"]), random).map((thinking) => delta({ type: "thinking_delta", thinking })),
          ...pieces(stringOf(block["signature"]), random).map((signature) =>
            delta({ type: "signature_delta", signature }),
          ),
          stop,
        ];
      case "tool_use":
      case "server_tool_use":
      case "mcp_tool_use":
        return [
          begin({ ...block, input: {} }),
          ...(isBlank(block["input"]) ? [""] : pieces(JSON.stringify(block["input"]), random)).map((partial_json) =>
            delta({ type: "input_json_delta", partial_json }),
          ),
          stop,
        ];
      default:
        return [begin(block), stop];
    }
  });
  const end = {
    type: "message_delta",
    delta: only(body, ["stop_reason", "stop_sequence", "stop_details", "container"]),
    ...only(body, ["usage", "context_management"]),
  };
  return [{ type: "message_start", message: start }, { type: "ping" }, ...blocks, end, { type: "message_stop" }];
}

function responsesEvents(body: JsonObject, random: () => number): readonly JsonObject[] {
  const response = { ...without(body, ["usage"]), status: "in_progress", output: [] };
  const items = objectsOf(body["output"]).flatMap((item, output_index): readonly JsonObject[] => {
    const place = { output_index, item_id: item["id"] ?? null };
    const done = { type: "response.output_item.done", output_index, item };
    const added = (changes: JsonObject) => ({
      type: "response.output_item.added",
      output_index,
      item: { ...item, ...changes },
    });
    switch (item["type"]) {
      case "message":
        return [
          added({ content: [], status: "in_progress" }),
          ...objectsOf(item["content"]).flatMap((part, content_index) => {
            const kind = part["type"] === "refusal" ? "refusal" : "output_text";
            const text = stringOf(part[kind === "refusal" ? "refusal" : "text"]);
            return pieces(text, random).map((delta) => ({
              type: `response.${kind}.delta`,
              ...place,
              content_index,
              delta,
            }));
          }),
          done,
        ];
      case "reasoning":
        return [
          added({ summary: [] }),
          ...objectsOf(item["summary"]).flatMap((part, summary_index) =>
            pieces(stringOf(part["text"]), random).map((delta) => ({
              type: "response.reasoning_summary_text.delta",
              ...place,
              summary_index,
              delta,
            })),
          ),
          done,
        ];
      case "function_call":
        return [
          added({ arguments: "", status: "in_progress" }),
          ...pieces(stringOf(item["arguments"]), random).map((delta) => ({
            type: "response.function_call_arguments.delta",
            ...place,
            delta,
          })),
          { type: "response.function_call_arguments.done", ...place, arguments: item["arguments"] ?? "" },
          done,
        ];
      case "custom_tool_call":
        return [
          added({ input: "" }),
          ...pieces(stringOf(item["input"]), random).map((delta) => ({
            type: "response.custom_tool_call_input.delta",
            ...place,
            delta,
          })),
          done,
        ];
      default:
        return [added({}), done];
    }
  });
  const type = body["status"] === "incomplete" ? "response.incomplete" : "response.completed";
  return [{ type: "response.created", response }, ...items, { type, response: body }];
}

function chatChunks(body: JsonObject, random: () => number): readonly JsonObject[] {
  const [choice] = objectsOf(body["choices"]);
  const message = objectOf(choice?.["message"]);
  const head = { ...without(body, ["choices", "usage"]), object: "chat.completion.chunk" };
  const chunk = (fields: JsonObject): JsonObject => ({
    ...head,
    choices: [{ index: 0, delta: {}, finish_reason: null, ...fields }],
  });
  // `reasoning_details` repeat the reasoning, so both are in one chunk.
  const reasoningKeys = isBlank(message["reasoning_details"]) ? ["reasoning_content", "reasoning"] : [];
  const texts = [...reasoningKeys, "content", "refusal"].flatMap((key) =>
    pieces(stringOf(message[key]), random).map((piece) => chunk({ delta: { [key]: piece } })),
  );
  const calls = objectsOf(message["tool_calls"]).flatMap((call, index) => {
    const field = isObject(call["custom"]) ? "custom" : "function";
    const inner = objectOf(call[field]);
    const key = field === "custom" ? "input" : "arguments";
    const begin = { ...call, index, [field]: { ...inner, [key]: "" } };
    const parts = typeof inner[key] === "string" ? pieces(inner[key], random) : [];
    return [begin, ...parts.map((piece) => ({ index, [field]: { [key]: piece } }))].map((call_) =>
      chunk({ delta: { tool_calls: [call_] } }),
    );
  });
  const rest = without(message, [
    ...reasoningKeys,
    ...(isList(message["content"]) ? [] : ["content"]),
    "refusal",
    "tool_calls",
  ]);
  const logprobs = choice?.["logprobs"] ?? null;
  return [
    chunk({ delta: rest, logprobs }),
    ...texts,
    ...calls,
    chunk({ finish_reason: choice?.["finish_reason"] ?? null }),
    ...(isObject(body["usage"]) ? [{ ...head, choices: [], usage: body["usage"] }] : []),
  ];
}

function geminiChunks(body: JsonObject, random: () => number): readonly JsonObject[] {
  const [candidate] = objectsOf(body["candidates"]);
  const head = without(body, ["candidates", "usageMetadata"]);
  const chunk = (fields: JsonObject): JsonObject => ({ ...head, candidates: [{ index: 0, ...fields }] });
  const parts = objectsOf(objectOf(candidate?.["content"])["parts"]).flatMap((part): readonly JsonObject[] => {
    if (typeof part["text"] !== "string" || part["text"] === "") return [part];
    const list = pieces(part["text"], random).map((text): Json => ({ ...without(part, ["thoughtSignature"]), text }));
    // The signature comes with the last piece of its text.
    return list.map((piece, at) => ({
      ...objectOf(piece),
      ...(at === list.length - 1 ? only(part, ["thoughtSignature"]) : {}),
    }));
  });
  return [
    ...parts.map((part) => chunk({ content: { role: "model", parts: [part] } })),
    {
      ...chunk({ ...without(candidate ?? {}, ["content"]), content: { role: "model", parts: [] } }),
      ...only(body, ["usageMetadata"]),
    },
  ];
}
