// An answer as OpenAI's API words it: chunks while it is being given, or one completion at its end. Both come to the same message.
//
// Rules:
//   1. One completion is one run. What the model says in its steps is one text, a blank line between two of them.
//   2. Calls of the engine's own tools are not shown. Calls of the client's are, with indexes from 0, and end the run: `finish_reason` is `tool_calls`.
//   3. Where an answer has to be nothing but JSON, or is a value that code came to, only the last word counts: what might not be it is held back.
//   4. Reasoning is not shown: this API has no place for it.
//   5. A run that a limit ended (`max_turns`, `budget`) ends as `length`. The word of ours stands in `everturn.halted_reason`.
//   6. The API has no word for a count that is unknown: half of one is told with 0 for the rest, none as no usage at all.

import type { ChatResult, Json, JsonObject, ModelReply, ToolCall, TurnEvent, Usage } from "../../model/internal.ts";
import type { OpenaiError, OpenaiRefusal } from "./error.ts";

import { replyText, totalTokens } from "../../model/internal.ts";
import { noRetry, refusal, refusalOfFailure, refusalOfWait } from "./error.ts";

/** What an answer is told with. */
export type Telling = {
  readonly id: string;
  /** In seconds. */
  readonly created: number;
  /** As it was asked for. */
  readonly model: string;
  /** The names of the tools that are the client's. */
  readonly clientTools: ReadonlySet<string>;
  /** Only the last word counts. */
  readonly holds: boolean;
  readonly includeUsage: boolean;
};

type OpenaiFinish = "stop" | "length" | "tool_calls" | "content_filter";

/** How a run ended, for a client. */
type OpenaiEnding =
  | { readonly type: "finished"; readonly finishReason: OpenaiFinish }
  | { readonly type: "refused"; readonly refusal: OpenaiRefusal };

export function endingOf(result: ChatResult, { clientTools }: Pick<Telling, "clientTools">): OpenaiEnding {
  const { outcome, haltedReason, pendingToolCalls } = result;
  const strange = pendingToolCalls.filter(({ reason, name }) => reason !== "manual" || !clientTools.has(name));
  const ends = (finishReason: OpenaiFinish): OpenaiEnding =>
    strange.length > 0
      ? refused(refusalOfWait(haltedReason, strange))
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
      return ends("stop");
    case "manual_tool_calls":
      return ends("tool_calls");
    case "incomplete":
    case "max_turns":
    case "budget":
      return ends("length");
    case "filtered":
      return ends("content_filter");
    case "ask_user":
    case "approval":
    case "outcome_unknown":
      return refused(refusalOfWait(haltedReason, strange));
    case "handoff": {
      const message = "a tool of this model passed the conversation on, which chat completions have no way to follow";
      return refused(refusal(422, message, { code: haltedReason, headers: noRetry }));
    }
    case "cancelled":
      return refused(refusal(499, "the run was cancelled", { code: haltedReason, headers: noRetry }));
    case "submitted_error":
      return refused(refusal(500, "the model gave up on this", { code: haltedReason, headers: noRetry }));
    case "tool_error":
    case "provider_error":
    case "runtime_error":
      return refused(refusalOfFailure(outcome.failure, toolsRan));
  }
}

function refused(refusal: OpenaiRefusal): OpenaiEnding {
  return { type: "refused", refusal };
}

/** The text of a run. */
function textOf({ outcome, steps, finalResponse }: ChatResult, { holds }: Pick<Telling, "holds">): string {
  const value = outcome.type === "tool_value" || outcome.type === "final_value" ? [written(outcome.value)] : [];
  const last = finalResponse === null ? "" : (replyText(finalResponse) ?? "");
  if (holds) return value[0] ?? last;
  const said = steps.map(({ response }) => replyText(response) ?? "");
  return [...said, ...value].filter((text) => text !== "").join("\n\n");
}

function written(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The calls that are the client's to answer, all of the last reply. */
function callsOf({ finalResponse }: ChatResult, { clientTools }: Pick<Telling, "clientTools">): readonly ToolCall[] {
  return finalResponse?.toolCalls.filter(({ name }) => clientTools.has(name)) ?? [];
}

function argumentsOf({ rawArguments, arguments: given }: Pick<ToolCall, "rawArguments" | "arguments">): string {
  return rawArguments ?? JSON.stringify(given ?? {});
}

/** A run that has ended well, as one completion. */
export function completionOf(result: ChatResult, finishReason: OpenaiFinish, telling: Telling): JsonObject {
  const { id, created, model } = telling;
  const text = textOf(result, telling);
  const calls = callsOf(result, telling).map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: argumentsOf(call) },
  }));
  const message = {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    refusal: null,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  const usage = usageOf(result.usage);
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    ...(usage === null ? {} : { usage }),
    everturn: { halted_reason: result.haltedReason },
  };
}

/** What a run has cost, all its model calls together; `null` when nobody said. */
function usageOf(usage: Usage): JsonObject | null {
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

/** One frame of the stream, and its end. */
export function renderChunk(chunk: JsonObject): string {
  return `data: ${JSON.stringify(chunk)}\n\n`;
}
export function renderError(error: OpenaiError): string {
  return renderChunk({ error: { ...error } });
}
export const renderedEnd = "data: [DONE]\n\n";

type Shown = { readonly index: number; sent: string };

/** An answer while it is being given: from what a run says to chunks. */
export class ChunkTeller {
  readonly #telling: Telling;
  /** What has been shown of the text: of steps that have ended, and of this one. */
  #before = "";
  #step = "";
  /** The calls of this step that have been shown, by their ids. */
  #calls = new Map<string, Shown>();
  #begun = false;

  constructor(telling: Telling) {
    this.#telling = telling;
  }

  /** The chunks an event comes to; `null`: what has been shown is void, which this API has no way to tell. */
  hear(event: TurnEvent): readonly JsonObject[] | null {
    switch (event.type) {
      case "text_delta":
        return this.#telling.holds ? this.#begin(null) : this.#say(event.delta);
      case "reasoning_delta":
        return this.#begin(null);
      case "tool_call_started":
        return event.providerExecuted ? this.#begin(null) : this.#call(event.id, event.name);
      case "tool_call_delta":
        return this.#argue(event.id, event.argumentsDelta);
      case "tool_call_completed":
        return event.providerExecuted ? [] : this.#whole(event);
      case "step_completed":
        return this.#endStep(event.response);
      case "step_reset":
        return this.#step !== "" || this.#calls.size > 0 ? null : [];
      case "message_started":
      case "text_completed":
      case "reasoning_completed":
      case "usage":
      case "message_completed":
      case "raw_chunk":
      case "error":
      case "tool_execution_started":
      case "tool_progress":
      case "tool_execution_completed":
      case "tool_result_encoded":
      case "ask_user_requested":
      case "approval_requested":
      case "tool_halt":
      case "turn_started":
      case "input_accepted":
      case "retry_scheduled":
      case "chat_completed":
        return [];
    }
  }

  /** The last chunks of a run that has ended well. */
  end(result: ChatResult, finishReason: OpenaiFinish): readonly JsonObject[] {
    const text = textOf(result, this.#telling);
    const rest = text.startsWith(this.#before) ? text.slice(this.#before.length) : "";
    const last = { ...this.#chunk({}, finishReason), everturn: { halted_reason: result.haltedReason } };
    const usage = { ...this.#chunk({}, null), choices: [], usage: usageOf(result.usage) };
    return [
      ...this.#begin(""),
      ...(rest === "" ? [] : [this.#chunk({ content: rest }, null)]),
      last,
      ...(this.#telling.includeUsage ? [usage] : []),
    ];
  }

  /** The first chunk says who speaks, and whether it begins with text. */
  #begin(content: "" | null): readonly JsonObject[] {
    if (this.#begun) return [];
    this.#begun = true;
    return [this.#chunk({ role: "assistant", content }, null)];
  }

  #say(delta: string): readonly JsonObject[] {
    if (delta === "") return [];
    const content = this.#step === "" && this.#before !== "" ? `\n\n${delta}` : delta;
    this.#step += delta;
    return [...this.#begin(""), this.#chunk({ content }, null)];
  }

  /** What came in no pieces is shown now: some models are not heard before they have ended. */
  #endStep(reply: ModelReply): readonly JsonObject[] {
    const text = this.#telling.holds ? "" : (replyText(reply) ?? "");
    const rest = text.startsWith(this.#step) ? this.#say(text.slice(this.#step.length)) : [];
    const calls = reply.toolCalls.flatMap((call) => this.#whole(call));
    this.#before = [this.#before, this.#step].filter((shown) => shown !== "").join("\n\n");
    this.#step = "";
    this.#calls = new Map();
    return [...rest, ...calls];
  }

  #call(id: string, name: string): readonly JsonObject[] {
    if (!this.#telling.clientTools.has(name)) return this.#begin(null);
    if (this.#calls.has(id)) return [];
    const index = this.#calls.size;
    this.#calls.set(id, { index, sent: "" });
    const call = { index, id, type: "function", function: { name, arguments: "" } };
    return [...this.#begin(null), this.#chunk({ tool_calls: [call] }, null)];
  }

  #argue(id: string, delta: string): readonly JsonObject[] {
    const shown = this.#calls.get(id);
    if (shown === undefined || delta === "") return [];
    shown.sent += delta;
    return [this.#chunk({ tool_calls: [{ index: shown.index, function: { arguments: delta } }] }, null)];
  }

  /** A whole call: what has not been shown of it. */
  #whole(call: Pick<ToolCall, "id" | "name" | "rawArguments" | "arguments">): readonly JsonObject[] {
    const begun = this.#call(call.id, call.name);
    const sent = this.#calls.get(call.id)?.sent ?? "";
    const text = argumentsOf(call);
    return [...begun, ...(text.startsWith(sent) ? this.#argue(call.id, text.slice(sent.length)) : [])];
  }

  #chunk(delta: JsonObject, finishReason: OpenaiFinish | null): JsonObject {
    const { id, created, model, includeUsage } = this.#telling;
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
