// The performer of `count_tokens`: asks the provider how many tokens the next request has, where an estimate does not
// decide whether the history is compacted (core/kernel/machine/context.ts).
//
// A count is worth little time: one request, without retries and middleware, within `countMs`. Whatever goes wrong
// becomes the response `count_failed`, and the estimate decides. Nothing is generated, so a process that takes over
// before the response is recorded asks again; a recorded count is never asked for again (H1).

import type { Adapter, AdapterCall } from "../../engine/internal.ts";
import type { CountFailed, CountTokens, TokensCounted, Turn } from "../../kernel/internal.ts";
import type { Failure, ModelRequest } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { ModelPorts } from "./model-attempt.ts";

import { startTimer } from "../../clock/timer.ts";
import { failureWithoutKey } from "../../engine/internal.ts";
import { projectRequest } from "../../kernel/internal.ts";
import { adapterFailure, isEverturnError, toCause } from "../../model/internal.ts";
import { routesOf } from "./routes.ts";

/** Time limit of a count, in milliseconds: the model call waits for it. */
const countMs = 10_000;

/** Counts the tokens of the request of the model call that follows. Rejects if this process may have lost its lease. */
export async function performCount(
  plan: RunPlan,
  { scope, signal, answered }: Pick<ModelPorts, "answered" | "scope" | "signal">,
  { id }: CountTokens,
  turn: Turn,
): Promise<TokensCounted | CountFailed> {
  const { clock, requestId, adapterOptions: options, apiKey } = plan;
  const startedAt = clock.now();
  const request = projectRequest(plan.config, turn);
  const [{ adapter }] = routesOf(plan, request.model, answered);
  await scope.ensure();
  const late = new AbortController();
  const call: AdapterCall = {
    signal: AbortSignal.any([signal, late.signal]),
    requestId,
    options,
    apiKey,
    rawChunks: false,
    attempt: 1,
    clock,
  };
  const cancelTimer = startTimer(clock, countMs, () => late.abort());
  const counted = await Promise.race([askProvider(adapter, request, call), timeout(adapter, late.signal)]);
  cancelTimer();
  const durationMs = clock.now() - startedAt;
  if (typeof counted === "number") return { type: "tokens_counted", id, tokens: counted, durationMs };
  return { type: "count_failed", id, failure: failureWithoutKey(counted, apiKey), durationMs };
}

/** The failure of a count that takes too long. An adapter that ignores its signal must not delay the model call. */
function timeout({ provider }: Adapter, late: AbortSignal): Promise<Failure> {
  const message = `${provider} did not count the tokens within ${countMs} ms`;
  return new Promise((resolve) => {
    late.addEventListener("abort", () => resolve(adapterFailure("timeout", { provider, message })), { once: true });
  });
}

/** The number of tokens, as the provider counts them, or why there is none. Never rejects. */
async function askProvider(adapter: Adapter, request: ModelRequest, call: AdapterCall): Promise<number | Failure> {
  const { provider } = adapter;
  try {
    const tokens = await adapter.countTokens?.(request, call);
    if (tokens === undefined) {
      const message = `${provider} has no endpoint that counts tokens`;
      return adapterFailure("unsupported_feature", { provider, message });
    }
    if (Number.isSafeInteger(tokens) && tokens > 0) return tokens;
    const message = `${provider} counted ${String(tokens)} tokens`;
    return adapterFailure("malformed_response", { provider, message });
  } catch (error) {
    if (isEverturnError(error)) return error.failure;
    const cause = toCause(error);
    return adapterFailure("unknown", { provider, message: cause?.message ?? "the adapter threw", cause });
  }
}
