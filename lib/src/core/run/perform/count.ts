// The performer of `count_tokens`: counts the tokens of the next request, where an estimate does not decide whether the
// history is compacted (core/kernel/machine/context.ts). The provider is asked first, if the policy of the engine says
// so, then the tokenizer of the policy.
//
// A count is worth little time: one request, without retries and middleware, and at most `countMs` for each of the two.
// Whatever goes wrong becomes the response `count_failed`, and the estimate decides. Nothing is generated, so a process
// that takes over before the response is recorded counts again; a recorded count is never repeated (H1).

import type { Adapter, Tokenizer } from "../../engine/internal.ts";
import type { CountFailed, CountTokens, TokensCounted, Turn } from "../../kernel/internal.ts";
import type { Failure, ModelRequest } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { ModelPorts } from "./model-attempt.ts";

import { startTimer } from "../../clock/timer.ts";
import { failureWithoutKey } from "../../engine/internal.ts";
import { projectRequest } from "../../kernel/internal.ts";
import { adapterFailure, isEverturnError, runtimeFailure, toCause } from "../../model/internal.ts";
import { routesOf } from "./routes.ts";
import { tokenized } from "./tokenize.ts";

/** Time limit of a count, in milliseconds: the model call waits for it. */
const countMs = 10_000;

type CountPorts = Pick<ModelPorts, "answered" | "scope" | "signal">;

/** Counts the tokens of the request of the model call that follows. Rejects if this process may have lost its lease. */
export async function performCount(
  plan: RunPlan,
  ports: CountPorts,
  { id }: CountTokens,
  turn: Turn,
): Promise<TokensCounted | CountFailed> {
  const { clock, contextPolicy } = plan;
  const startedAt = clock.now();
  const request = projectRequest(plan.config, turn);
  const [{ adapter }] = routesOf(plan, request.model, ports.answered);
  await ports.scope.ensure();
  const byProvider = (contextPolicy?.count ?? true) ? await askProvider(plan, ports, adapter, request) : null;
  if (typeof byProvider === "number") return result(byProvider, "provider", null);
  const { tokenizer } = contextPolicy ?? {};
  if (tokenizer === undefined) return failed(byProvider ?? unsupported(adapter));
  const byTokenizer = await askTokenizer(plan, ports, tokenizer, request, turn);
  return typeof byTokenizer === "number" ? result(byTokenizer, "tokenizer", byProvider) : failed(byTokenizer);

  function result(tokens: number, by: TokensCounted["by"], failure: Failure | null): TokensCounted {
    return {
      type: "tokens_counted",
      id,
      tokens,
      by,
      failure: withoutKey(failure),
      durationMs: clock.now() - startedAt,
    };
  }

  function failed(failure: Failure): CountFailed {
    return { type: "count_failed", id, failure: withoutKey(failure), durationMs: clock.now() - startedAt };
  }

  function withoutKey<F extends Failure | null>(failure: F): F | Failure {
    return failure === null ? failure : failureWithoutKey(failure, plan.apiKey);
  }
}

function unsupported({ provider }: Adapter): Failure {
  return adapterFailure("unsupported_feature", { provider, message: `${provider} has no endpoint that counts tokens` });
}

/** The number of tokens, as the provider counts them, or why there is none. */
async function askProvider(
  plan: RunPlan,
  { signal }: CountPorts,
  adapter: Adapter,
  request: ModelRequest,
): Promise<number | Failure> {
  const { provider } = adapter;
  if (adapter.countTokens === undefined) return unsupported(adapter);
  const { clock, requestId, adapterOptions: options, apiKey } = plan;
  return withinLimit(plan, provider, async (late) => {
    const ends = AbortSignal.any([signal, late]);
    const call = { signal: ends, requestId, options, apiKey, rawChunks: false, attempt: 1, clock };
    const tokens = await adapter.countTokens?.(request, call);
    if (tokens !== undefined && Number.isSafeInteger(tokens) && tokens > 0) return tokens;
    return adapterFailure("malformed_response", { provider, message: `${provider} counted ${String(tokens)} tokens` });
  });
}

/** The number of tokens, as the tokenizer of the policy counts them, or why there is none. */
async function askTokenizer(
  plan: RunPlan,
  { scope: { tenant } }: CountPorts,
  tokenizer: Tokenizer,
  request: ModelRequest,
  turn: Turn,
): Promise<number | Failure> {
  return withinLimit(plan, "the tokenizer", () => tokenized(tokenizer, request, turn, tenant));
}

/**
 * The result of `work`, or a failure if it throws or takes too long. Its signal is aborted then; what ignores the signal
 * must not delay the model call. Never rejects.
 */
async function withinLimit(
  { clock }: RunPlan,
  who: string,
  work: (late: AbortSignal) => Promise<number | Failure>,
): Promise<number | Failure> {
  const late = new AbortController();
  const timeout = new Promise<Failure>((resolve) => {
    const message = `${who} did not count the tokens within ${countMs} ms`;
    late.signal.addEventListener("abort", () => resolve(adapterFailure("timeout", { message })), { once: true });
  });
  const cancelTimer = startTimer(clock, countMs, () => late.abort());
  try {
    return await Promise.race([work(late.signal), timeout]);
  } catch (error) {
    if (isEverturnError(error)) return error.failure;
    const cause = toCause(error);
    return runtimeFailure("callback_failed", { message: `${who} failed: ${cause?.message ?? "no error"}`, cause });
  } finally {
    cancelTimer();
  }
}
