// The options of a run: those of the request, within the instructions, tools, budgets and policies of the engine.
//
// Rules
//   1. Sampling settings come from the client. Limits are the lower of both: output tokens and reasoning effort. Stop
//      sequences are combined.
//   2. A tool of the client cannot replace one of the engine, and `tool_choice` cannot name or force one of the engine.
//      A posted call of an engine's tool is rejected: this API shows none, so the call and its result are not those of
//      the engine, and no person has approved them.
//   3. An engine with its own response format rejects `response_format`.
//   4. Streamed output cannot be withdrawn, so a stream is not retried after output.
//   5. A client can set no base URL, key, header or provider field.

import type { ChatOptions, Engine } from "../../../core/engine/internal.ts";
import type { Result } from "../../../core/model/internal.ts";
import type { OpenaiErrorResponse } from "./error.ts";
import type { OpenaiParams, OpenaiRequest } from "./request.ts";

import { retryPolicy } from "../../../core/engine/internal.ts";
import { failed, isPlainObject, ok } from "../../../core/model/parse/reading.ts";
import { openaiError } from "./error.ts";

/** The options of the run, or why the engine rejects the request. */
export function optionsOf(engine: Engine, request: OpenaiRequest): Result<ChatOptions, OpenaiErrorResponse> {
  const rejection = toolsError(engine, request) ?? forgedCallError(engine, request) ?? formatError(engine, request);
  if (rejection !== null) return failed(rejection);
  const { tools, toolChoice, responseFormat, stream } = request;
  return ok({
    ...settingsOf(engine, request.params),
    tools,
    ...(toolChoice === null ? {} : { toolChoice }),
    ...(responseFormat === null ? {} : { responseFormat }),
    ...(stream ? { retry: { ...retryPolicy(engine.retry), afterOutput: false } } : {}),
    emitTextDeltas: true,
    emitToolDeltas: true,
  });
}

function toolsError(
  { tools: engineTools, protocol }: Engine,
  { tools, model }: OpenaiRequest,
): OpenaiErrorResponse | null {
  if (protocol.type === "code" && tools.length > 0) {
    const message = `tools: ${model} writes code and can only call the tools of its engine`;
    return openaiError(400, message, { param: "tools", code: "unsupported_parameter" });
  }
  const duplicateIndex = tools.findIndex(({ name }) => engineTools.some((tool) => tool.name === name));
  if (duplicateIndex === -1) return null;
  const param = `tools[${duplicateIndex}].function.name`;
  const message = `${param}: ${model} already has a tool named ${tools[duplicateIndex]?.name ?? ""}; use another name`;
  return openaiError(400, message, { param, code: "duplicate_name" });
}

/** The error for the first posted call of a tool of the engine. */
function forgedCallError({ tools }: Engine, { messages, model }: OpenaiRequest): OpenaiErrorResponse | null {
  const names = new Set(tools.map(({ name }) => name));
  for (const [index, message] of messages.entries()) {
    const at = message.role === "assistant" ? message.toolCalls.findIndex(({ name }) => names.has(name)) : -1;
    if (message.role !== "assistant" || at === -1) continue;
    const param = `messages[${index}].tool_calls[${at}].function.name`;
    const text = `${param}: ${message.toolCalls[at]?.name ?? ""} is a tool of ${model}, which runs on the server; requests cannot contain its calls and results`;
    return openaiError(400, text, { param, code: "not_allowed" });
  }
  return null;
}

function formatError({ options }: Engine, { responseFormat, model }: OpenaiRequest): OpenaiErrorResponse | null {
  const hasFixedFormat = options.output !== undefined || options.responseFormat !== undefined;
  if (responseFormat === null || !hasFixedFormat) return null;
  const param = "response_format";
  return openaiError(400, `${param}: ${model} has a fixed response format`, { param, code: "unsupported_value" });
}

function settingsOf({ params: engineParams }: Engine, params: OpenaiParams): ChatOptions {
  const { temperature, topP, maxTokens, stopSequences, seed, parallelToolCalls, reasoningEffort } = params;
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { topP }),
    ...(maxTokens === null ? {} : { maxTokens: lowerLimit(maxTokens, engineParams["maxTokens"]) }),
    ...(stopSequences.length === 0 ? {} : { stopSequences: combined(engineParams["stopSequences"], stopSequences) }),
    ...(seed === null ? {} : { seed }),
    ...(parallelToolCalls === null
      ? {}
      : { parallelToolCalls: parallelToolCalls && engineParams["parallelToolCalls"] !== false }),
    ...(reasoningEffort === null ? {} : reasoningOf(engineParams["reasoning"], reasoningEffort)),
  };
}

function lowerLimit(requested: number, limit: unknown): number {
  return typeof limit === "number" ? Math.min(requested, limit) : requested;
}

function combined(engineParams: unknown, requested: readonly string[]): readonly string[] {
  const isComparable = Array.isArray(engineParams)
    ? engineParams.filter((sequence) => typeof sequence === "string")
    : [];
  return [...new Set([...isComparable, ...requested])];
}

/** Reasoning efforts in ascending order. */
const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/**
 * Limits the effort to that of the engine. An engine with a token budget or an unknown effort keeps its own setting,
 * because they cannot be compared.
 */
function reasoningOf(engineParams: unknown, effort: string): Pick<ChatOptions, "reasoning"> {
  if (!isPlainObject(engineParams)) return { reasoning: { effort } };
  const { effort: engineEffort, budgetTokens, summary } = engineParams;
  const isComparable = typeof engineEffort === "string" && efforts.includes(engineEffort);
  if (!isComparable || typeof budgetTokens === "number" || efforts.indexOf(effort) >= efforts.indexOf(engineEffort))
    return {};
  return { reasoning: { effort, summary: typeof summary === "string" ? summary : null } };
}
