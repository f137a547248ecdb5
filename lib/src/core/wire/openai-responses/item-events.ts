// Reads the events of a streamed response that belong to one item: its text, refusal, reasoning and arguments.

import type { JsonObject, ModelEvent } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";
import type { StreamedItems } from "./streamed-items.ts";

import { countAt, listAt, numberAt, objectAt, textAt } from "../fields.ts";
import { isOpaque, paragraphSeparator } from "./items.ts";
import { emitOrHold, textPartAt } from "./streamed-item.ts";

/** How an event was treated. `opaque`: it belongs to an item that the library keeps as it is. */
export type Treatment = "understood" | "opaque" | "unknown";

/** Reads an event of an item and returns how it was treated. */
export function readItemEvent(
  items: StreamedItems,
  builder: ReplyBuilder,
  type: string,
  event: JsonObject,
  out: ModelEvent[],
): Treatment {
  const delta = textAt(event, "delta") ?? "";
  switch (type) {
    case "response.output_item.added": {
      const item = objectAt(event, "item");
      if (item === null) return "unknown";
      items.add(item, numberAt(event, "output_index"), out);
      return isOpaque(item) ? "opaque" : "understood";
    }
    case "response.output_item.done": {
      items.readDone(event, out);
      const item = objectAt(event, "item");
      return item === null ? "unknown" : isOpaque(item) ? "opaque" : "understood";
    }
    case "response.output_text.delta":
    case "response.refusal.delta": {
      const state = items.ofEvent(event, "message", out);
      if (state === null || state.completed !== null) return "understood";
      const at = countAt(event, "content_index") ?? 0;
      const refusal = type === "response.refusal.delta";
      const textPart = textPartAt(state, at, refusal);
      textPart.text += delta;
      for (const logprob of listAt(event, "logprobs")) textPart.logprobs.push(logprob);
      emitOrHold(state, builder.text(`${state.key}.${at}`, delta, refusal ? "refusal" : "text"), out);
      return "understood";
    }
    case "response.output_text.done":
    case "response.refusal.done": {
      const refusal = type === "response.refusal.done";
      const state = items.ofEvent(event, "message", out);
      const text = textAt(event, refusal ? "refusal" : "text");
      if (state !== null && text !== null) textPartAt(state, countAt(event, "content_index") ?? 0, refusal).text = text;
      return "understood";
    }
    case "response.output_text.annotation.added": {
      const state = items.ofEvent(event, "message", out);
      const annotation = objectAt(event, "annotation");
      if (state === null || annotation === null) return "unknown";
      textPartAt(state, countAt(event, "content_index") ?? 0, false).annotations.push(annotation);
      return "understood";
    }
    case "response.reasoning_summary_text.delta":
    case "response.reasoning_text.delta": {
      const state = items.ofEvent(event, "reasoning", out);
      if (state === null || state.completed !== null) return "understood";
      const isSummary = type === "response.reasoning_summary_text.delta";
      const texts = isSummary ? state.summary : state.reasoningTexts;
      const at = countAt(event, isSummary ? "summary_index" : "content_index") ?? 0;
      const previous = texts.get(at);
      const separator =
        previous === undefined && state.summary.size + state.reasoningTexts.size > 0 ? paragraphSeparator : "";
      texts.set(at, (previous ?? "") + delta);
      emitOrHold(state, builder.reasoning(state.key, separator + delta), out);
      return "understood";
    }
    case "response.function_call_arguments.delta":
    case "response.custom_tool_call_input.delta":
    case "response.mcp_call_arguments.delta": {
      const state = items.ofEvent(event, null, out);
      if (state === null) return "unknown";
      if (state.completed !== null) return "understood";
      state.argumentsText += delta;
      emitOrHold(state, builder.appendArguments(state.key, delta), out);
      return "understood";
    }
    case "response.function_call_arguments.done":
    case "response.custom_tool_call_input.done":
    case "response.mcp_call_arguments.done": {
      const state = items.ofEvent(event, null, out);
      if (state === null) return "unknown";
      state.argumentsText = textAt(event, "arguments") ?? textAt(event, "input") ?? state.argumentsText;
      state.isArgumentsComplete = true;
      return "understood";
    }
    default: {
      if (progressEvents.test(type)) return "understood";
      const state = items.ofEvent(event, null, out);
      return state !== null && isOpaque(state.item) ? "opaque" : "unknown";
    }
  }
}

/** Events that report only progress. The complete item holds their content. */
const progressEvents =
  /^(keepalive|response\.(content_part|reasoning_summary_part)\.(added|done)|response\.reasoning(_summary)?_text\.done|response\.(web_search|file_search|code_interpreter|image_generation|mcp|x_search|code_execution)_call(_code)?\.[a-z_]+|response\.(shell_call_command|shell_call_output_content|apply_patch_call_operation_diff)\.(added|delta|done))$/;
