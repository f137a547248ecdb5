// `countTokens`: asks the provider how many input tokens a request has, before it is sent. Nothing is generated.

import type { AdapterCall, Engine, GenerateOptions } from "../engine/internal.ts";
import type { CallerContext, ModelRequest } from "../model/internal.ts";
import type { Plan, RunInput } from "./plan/plan.ts";

import { chatProtocol, projectRequest, renderPrompt, startTurn } from "../kernel/internal.ts";
import { AdapterError, request as modelRequest, system } from "../model/internal.ts";
import { planRun } from "./plan/plan.ts";

/**
 * Returns the number of input tokens that the request of `generate` with this input would have, as the provider counts
 * them: instructions, messages, tools and schemas included. Makes one request to the token-counting endpoint of the API
 * (Anthropic, Gemini, OpenAI Responses), without retries and middleware. Throws `AdapterError`: `unsupported_feature`
 * if the API has no such endpoint (Chat Completions), else the error of the provider.
 */
export async function countTokens<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options: GenerateOptions = {},
): Promise<number> {
  const plan = planRun(engine, input, options, { verb: "generate" });
  const { adapter, config, clock } = plan;
  if (adapter.countTokens === undefined) {
    const { provider } = adapter;
    throw new AdapterError("unsupported_feature", {
      provider,
      message: `${provider} has no endpoint that counts tokens`,
    });
  }
  const instructions = plan.pinned.environment.instructions ?? "";
  const fields = modelRequest([], {
    toolChoice: "auto",
    ...config.generation,
    model: config.model,
    tools: config.toolSpecs,
    providerTools: config.providerTools,
  });
  const messages = [
    ...(instructions.trim() === "" ? [] : [system(instructions)]),
    ...renderPrompt(plan.thread.messages),
  ];
  const request: ModelRequest = plan.pinned.projector === null ? { ...fields, messages } : projected(plan);
  const call: AdapterCall = {
    signal: plan.options.signal ?? new AbortController().signal,
    requestId: plan.requestId,
    options: plan.adapterOptions,
    apiKey: plan.apiKey,
    rawChunks: false,
    attempt: 1,
    clock,
  };
  return adapter.countTokens(request, call);
}

/**
 * The first request of a turn with a projector of one's own, if its protocol starts with a model call that may use
 * tools.
 */
function projected<Context extends CallerContext>({ config, input }: Plan<Context>): ModelRequest {
  const { turn } = startTurn({ ...config, protocolDriver: chatProtocol() }, input);
  return projectRequest(config, turn);
}
