// What an engine makes of a request: its instructions, tools, budgets and policies hold, and a client moves within them.
//
// Rules:
//   1. Sampling settings are the client's. Limits are the lower of both: tokens of output, and how hard to think. Stop sequences add up.
//   2. A client's tool does not take the place of one of the engine's, nor is one of those told or forced.
//   3. An engine that answers in a format of its own answers in no other.
//   4. What has been streamed cannot be taken back here, so nothing is tried again after output.
//   5. Never a base URL, a key, a header, or a field of a provider's own body.

import type { ChatOptions, Engine } from "../../engine/internal.ts";
import type { Result } from "../../model/internal.ts";
import type { OpenaiRefusal } from "./error.ts";
import type { OpenaiParams, OpenaiRequest } from "./request.ts";

import { retryPolicy } from "../../engine/internal.ts";
import { failed, isPlainObject, ok } from "../../model/parse/reading.ts";
import { refusal } from "./error.ts";

/** The options of the run. */
export function optionsOf(engine: Engine, request: OpenaiRequest): Result<ChatOptions, OpenaiRefusal> {
  const refused = toolsRefusal(engine, request) ?? formatRefusal(engine, request);
  if (refused !== null) return failed(refused);
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

function toolsRefusal({ tools: own, protocol }: Engine, { tools, model }: OpenaiRequest): OpenaiRefusal | null {
  if (protocol.type === "code" && tools.length > 0) {
    const message = `tools: ${model} writes code, and can only call the tools it was set up with`;
    return refusal(400, message, { param: "tools", code: "unsupported_parameter" });
  }
  const taken = tools.findIndex(({ name }) => own.some((tool) => tool.name === name));
  if (taken === -1) return null;
  const param = `tools[${taken}].function.name`;
  const message = `${param}: ${model} has a tool called ${tools[taken]?.name ?? ""} of its own; use another name`;
  return refusal(400, message, { param, code: "duplicate_name" });
}

function formatRefusal({ options }: Engine, { responseFormat, model }: OpenaiRequest): OpenaiRefusal | null {
  const hasOwn = options.output !== undefined || options.responseFormat !== undefined;
  if (responseFormat === null || !hasOwn) return null;
  const param = "response_format";
  return refusal(400, `${param}: ${model} answers in a format of its own`, { param, code: "unsupported_value" });
}

function settingsOf({ params: own }: Engine, params: OpenaiParams): ChatOptions {
  const { temperature, topP, maxTokens, stopSequences, seed, parallelToolCalls, reasoningEffort } = params;
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { topP }),
    ...(maxTokens === null ? {} : { maxTokens: lower(maxTokens, own["maxTokens"]) }),
    ...(stopSequences.length === 0 ? {} : { stopSequences: together(own["stopSequences"], stopSequences) }),
    ...(seed === null ? {} : { seed }),
    ...(parallelToolCalls === null
      ? {}
      : { parallelToolCalls: parallelToolCalls && own["parallelToolCalls"] !== false }),
    ...(reasoningEffort === null ? {} : reasoningOf(own["reasoning"], reasoningEffort)),
  };
}

function lower(asked: number, limit: unknown): number {
  return typeof limit === "number" ? Math.min(asked, limit) : asked;
}

function together(own: unknown, asked: readonly string[]): readonly string[] {
  const known = Array.isArray(own) ? own.filter((one) => typeof one === "string") : [];
  return [...new Set([...known, ...asked])];
}

const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/** No harder than the engine thinks. One that counts in tokens, or has a word nobody here can compare, stays as it is. */
function reasoningOf(own: unknown, effort: string): Pick<ChatOptions, "reasoning"> {
  if (!isPlainObject(own)) return { reasoning: { effort, budgetTokens: null, summary: null } };
  const { effort: most, budgetTokens, summary } = own;
  const known = typeof most === "string" && efforts.includes(most);
  if (!known || typeof budgetTokens === "number" || efforts.indexOf(effort) >= efforts.indexOf(most)) return {};
  return { reasoning: { effort, budgetTokens: null, summary: typeof summary === "string" ? summary : null } };
}
