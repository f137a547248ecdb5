// Encodes a run in OpenAI's format: as chunks while it runs, or as one completion at its end. Both result in the same
// message.
//
// Rules
//   1. One completion is one run. The texts of its steps are joined by a blank line.
//   2. Calls of the engine's tools are not shown. Calls of the client's tools are, with indexes from 0, and end the run
//      with `finish_reason: "tool_calls"`.
//   3. If the answer must be JSON only, or is a value computed by code, text is held back until it is known to be the
//      final answer.
//   4. Reasoning is not shown: this API has no field for it.
//   5. A run ended by a limit (`max_turns`, `budget`) has `finish_reason: "length"`. `everturn.halted_reason` has the
//      exact reason. `everturn.warnings` has the warnings of the last model call, if there are any; the API has no
//      field for them.
//   6. The API cannot express an unknown token count: if one of the two counts is known, the other is 0; if none is,
//      `usage` is absent.

import type {
  ChatResult,
  Json,
  JsonObject,
  ToolCall,
  TurnChange,
  TurnEvent,
  Usage,
} from "../../../core/model/internal.ts";
import type { OpenaiError, OpenaiErrorResponse } from "./error.ts";

import { argumentsText, textOfReply, totalTokens, TurnView } from "../../../core/model/internal.ts";
import { redactedJson } from "../../http/internal.ts";
import { noRetry, openaiError, errorOfFailure, errorOfPendingCalls } from "./error.ts";

/** How a run is encoded. */
export type EncodingSettings = {
  readonly id: string;
  /** The time of the request, in seconds since 1970. */
  readonly created: number;
  /** The model name of the request. */
  readonly model: string;
  /** The names of the client's tools. */
  readonly clientTools: ReadonlySet<string>;
  /** Text is held back: only the final answer is shown. */
  readonly holdsBackText: boolean;
  readonly includeUsage: boolean;
};

type OpenaiFinish = "stop" | "length" | "tool_calls" | "content_filter";

/** How a run ended: with a completion, or with an error. */
type OpenaiEnding =
  | { readonly type: "finished"; readonly finishReason: OpenaiFinish }
  | { readonly type: "failed"; readonly errorResponse: OpenaiErrorResponse };

/** Maps the outcome of a run to a finish reason or an error. */
export function endingOf(result: ChatResult, { clientTools }: Pick<EncodingSettings, "clientTools">): OpenaiEnding {
  const { outcome, haltedReason, pendingToolCalls } = result;
  const unanswerable = pendingToolCalls.filter(({ reason, name }) => reason !== "manual" || !clientTools.has(name));
  const finished = (finishReason: OpenaiFinish): OpenaiEnding =>
    unanswerable.length > 0
      ? failed(errorOfPendingCalls(haltedReason, unanswerable))
      : { type: "finished", finishReason: pendingToolCalls.length > 0 ? "tool_calls" : finishReason };
  const toolsRan = result.steps.some(({ toolResults }) => toolResults.length > 0);
  switch (outcome.type) {
    case "assistant_message":
    case "final_value":
    case "tool_value":
    case "empty":
    case "other":
    case "halted":
    case "halt_when":
    case "stop_after":
      return finished("stop");
    case "manual_tool_calls":
      return finished("tool_calls");
    case "incomplete":
    case "max_turns":
    case "budget":
      return finished("length");
    case "filtered":
      return finished("content_filter");
    case "ask_user":
    case "approval":
    case "outcome_unknown":
      return failed(errorOfPendingCalls(haltedReason, unanswerable));
    case "handoff": {
      const message = "a tool of this model handed the conversation off, which chat completions cannot follow";
      return failed(openaiError(422, message, { code: haltedReason, headers: noRetry }));
    }
    case "cancelled":
      return failed(openaiError(499, "the run was cancelled", { code: haltedReason, headers: noRetry }));
    case "submitted_error":
      return failed(
        openaiError(500, "the model reported that it could not complete the task", {
          code: haltedReason,
          headers: noRetry,
        }),
      );
    case "tool_error":
    case "provider_error":
    case "runtime_error":
      return failed(errorOfFailure(outcome.failure, toolsRan));
  }
}

function failed(errorResponse: OpenaiErrorResponse): OpenaiEnding {
  return { type: "failed", errorResponse };
}

/** The text of a run: the texts of all steps, or the final answer only. */
function textOf(
  { outcome, steps, finalResponse }: ChatResult,
  { holdsBackText }: Pick<EncodingSettings, "holdsBackText">,
): string {
  const value = outcome.type === "tool_value" || outcome.type === "final_value" ? [valueText(outcome.value)] : [];
  const finalText = textOfReply(finalResponse);
  if (holdsBackText) return value[0] ?? finalText;
  const stepTexts = steps.map(({ response }) => textOfReply(response));
  return [...stepTexts, ...value].filter((text) => text !== "").join("\n\n");
}

function valueText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The calls of the client's tools in the last reply. */
function clientCalls(
  { finalResponse }: ChatResult,
  { clientTools }: Pick<EncodingSettings, "clientTools">,
): readonly ToolCall[] {
  return finalResponse?.toolCalls.filter(({ name }) => clientTools.has(name)) ?? [];
}

/** A successful run as one completion. */
export function completionOf(result: ChatResult, finishReason: OpenaiFinish, settings: EncodingSettings): JsonObject {
  const { id, created, model } = settings;
  const text = textOf(result, settings);
  const calls = clientCalls(result, settings).map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: argumentsText(call) },
  }));
  const message = {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    refusal: null,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  const usage = toOpenaiUsage(result.usage);
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    ...(usage === null ? {} : { usage }),
    everturn: extensionOf(result),
  };
}

/** The fields that the API does not have. */
function extensionOf({ haltedReason, finalResponse }: ChatResult): JsonObject {
  const warnings = finalResponse?.warnings ?? [];
  return {
    halted_reason: haltedReason,
    ...(warnings.length === 0 ? {} : { warnings: warnings.map((warning) => ({ ...warning })) }),
  };
}

/** The token usage of all model calls of a run; `null` if no provider reported it. */
function toOpenaiUsage(usage: Usage): JsonObject | null {
  const { inputTokens, outputTokens, cachedInputTokens, reasoningTokens } = usage;
  if (inputTokens === null && outputTokens === null) return null;
  return {
    prompt_tokens: inputTokens ?? 0,
    completion_tokens: outputTokens ?? 0,
    total_tokens: totalTokens(usage) ?? (inputTokens ?? 0) + (outputTokens ?? 0),
    ...(cachedInputTokens === null ? {} : { prompt_tokens_details: { cached_tokens: cachedInputTokens } }),
    ...(reasoningTokens === null ? {} : { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
  };
}

/** A chunk as an SSE frame. */
export function renderChunk(chunk: JsonObject): string {
  return `data: ${redactedJson(chunk, "event")}\n\n`;
}
export function renderError(error: OpenaiError): string {
  return renderChunk({ error: { ...error } });
}
/** The frame that ends a successful stream. */
export const renderedEnd = "data: [DONE]\n\n";

/** Encodes the events of a run as chunks. The view reports text and arguments exactly once, streamed or not. */
export class ChunkEncoder {
  readonly #settings: EncodingSettings;
  readonly #view = new TurnView();
  /** The text that was sent for steps that have ended. */
  #earlierText = "";
  /** The text that was sent for the open step. */
  #stepText = "";
  /** The indexes of the calls of the open step that were sent, by id. */
  readonly #calls = new Map<string, number>();
  #hasStarted = false;

  constructor(settings: EncodingSettings) {
    this.#settings = settings;
  }

  /** The chunks of an event; `null` if the step was reset after some of it was sent, which this API cannot express. */
  encode(event: TurnEvent): readonly JsonObject[] | null {
    const chunks: JsonObject[] = [];
    for (const change of this.#view.add(event)) {
      const added = this.#change(change);
      if (added === null) return null;
      chunks.push(...added);
    }
    if (event.type === "step_completed") this.#endStep();
    return chunks;
  }

  #change(change: TurnChange): readonly JsonObject[] | null {
    switch (change.type) {
      case "text":
        return this.#settings.holdsBackText ? this.#startChunks(null) : this.#textChunks(change.delta);
      case "reasoning":
        return this.#startChunks(null);
      case "call_started":
        return change.providerExecuted ? this.#startChunks(null) : this.#startCall(change.id, change.name);
      case "arguments":
        return this.#argumentChunks(change.id, change.delta);
      case "discarded":
        return this.#stepText !== "" || this.#calls.size > 0 ? null : [];
      case "call":
      case "part":
      case "reply":
      case "call_changed":
        return [];
    }
  }

  /** The last chunks of a successful run: the rest of the text, the finish reason, and the usage if requested. */
  end(result: ChatResult, finishReason: OpenaiFinish): readonly JsonObject[] {
    const text = textOf(result, this.#settings);
    const remainingText = text.startsWith(this.#earlierText) ? text.slice(this.#earlierText.length) : "";
    const lastChunk = { ...this.#chunk({}, finishReason), everturn: extensionOf(result) };
    const usage = { ...this.#chunk({}, null), choices: [], usage: toOpenaiUsage(result.usage) };
    return [
      ...this.#startChunks(""),
      ...(remainingText === "" ? [] : [this.#chunk({ content: remainingText }, null)]),
      lastChunk,
      ...(this.#settings.includeUsage ? [usage] : []),
    ];
  }

  /** The first chunk has the role; `content` is `null` if the reply starts with a call or with reasoning. */
  #startChunks(content: "" | null): readonly JsonObject[] {
    if (this.#hasStarted) return [];
    this.#hasStarted = true;
    return [this.#chunk({ role: "assistant", content }, null)];
  }

  /** A fragment of text. The first one of a later step is preceded by a blank line (rule 1). */
  #textChunks(delta: string): readonly JsonObject[] {
    const content = this.#stepText === "" && this.#earlierText !== "" ? `\n\n${delta}` : delta;
    this.#stepText += delta;
    return [...this.#startChunks(""), this.#chunk({ content }, null)];
  }

  #endStep(): void {
    this.#earlierText = [this.#earlierText, this.#stepText].filter((shown) => shown !== "").join("\n\n");
    this.#stepText = "";
    this.#calls.clear();
  }

  /** The first chunk of a call of a client's tool. A call of another tool is not shown. */
  #startCall(id: string, name: string): readonly JsonObject[] {
    if (!this.#settings.clientTools.has(name)) return this.#startChunks(null);
    const index = this.#calls.size;
    this.#calls.set(id, index);
    const call = { index, id, type: "function", function: { name, arguments: "" } };
    return [...this.#startChunks(null), this.#chunk({ tool_calls: [call] }, null)];
  }

  /** A fragment of the arguments of a shown call. */
  #argumentChunks(id: string, delta: string): readonly JsonObject[] {
    const index = this.#calls.get(id);
    if (index === undefined) return [];
    return [this.#chunk({ tool_calls: [{ index, function: { arguments: delta } }] }, null)];
  }

  /** A chunk. With `include_usage` all chunks but the last have `usage: null`, as in OpenAI's API. */
  #chunk(delta: JsonObject, finishReason: OpenaiFinish | null): JsonObject {
    const { id, created, model, includeUsage } = this.#settings;
    return {
      id,
      object: "chat.completion.chunk",
      created,
      model,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
      ...(includeUsage ? { usage: null } : {}),
    };
  }
}
