// What a call of `embed`, `embedMany` and `rerank` does around the requests of an adapter: options, retries, costs,
// telemetry.

import type { Clock } from "../../core/clock/clock.ts";
import type {
  AdapterCall,
  AdapterOptions,
  RetryPolicy,
  RetrySetting,
  Rule,
  Rules,
} from "../../core/engine/internal.ts";
import type { JsonObject, Usage } from "../../core/model/internal.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { anything, checkOptions, retryPolicy, startSpan, withRetries } from "../../core/engine/internal.ts";
import { invalidArgument } from "../../core/model/internal.ts";
import { newRequestId } from "../../core/run/internal.ts";

/** Options of every call. */
export type EmbeddingCallOptions = {
  /** How failed requests are retried. Default: the default policy, 3 attempts. */
  readonly retry?: RetrySetting;
  /** The key for this call only. It is never stored or logged. */
  readonly apiKey?: string;
  /** Headers for this call. */
  readonly adapterOptions?: AdapterOptions;
  /** Fields of the provider's API, merged into the body of each request last. */
  readonly options?: JsonObject;
  /** Aborts the requests of the call. */
  readonly signal?: AbortSignal;
  /** Waits between attempts and timeouts use it. Default: the system clock. */
  readonly clock?: Clock;
};

const callRules: Rules<EmbeddingCallOptions> = {
  retry: anything,
  apiKey: anything,
  adapterOptions: anything,
  options: anything,
  signal: anything,
  clock: anything,
};

/** A call with its defaults. */
export type Call = { readonly policy: RetryPolicy; readonly of: Omit<AdapterCall, "attempt"> };

/**
 * Checks the options and fills in defaults. `more`: the rules of the options that only this verb has. Throws
 * `MisuseError`.
 */
export function callOf<Settings extends EmbeddingCallOptions>(
  verb: string,
  settings: Settings,
  more: Rules<Omit<Settings, keyof EmbeddingCallOptions>>,
): Call {
  const rules: { readonly [name: string]: Rule } = { ...callRules, ...more };
  checkOptions(verb, settings, rules);
  const { retry = "default", apiKey = null, adapterOptions = {}, signal, clock = systemClock } = settings;
  return {
    policy: retryPolicy(retry),
    of: {
      signal: signal ?? new AbortController().signal,
      requestId: newRequestId(),
      options: adapterOptions,
      apiKey,
      rawChunks: false,
      clock,
    },
  };
}

/** What the spans of a call measure. */
export type Measured = {
  readonly name: "embeddings" | "rerank";
  readonly model: { readonly provider: string; readonly model: string; readonly price: number | null };
  /** Sizes of the request. Never its texts. */
  readonly metadata: JsonObject;
};

/** An answer, and the facts about it that its span reports. */
type Attempted = { readonly usage: Usage; readonly facts?: JsonObject };

/**
 * Makes attempts until one succeeds or the policy gives up, each with a span. Returns the answer with the cost of its
 * tokens. Throws the error of the last attempt.
 */
export function callMeasured<T extends Attempted>(
  { policy, of }: Call,
  { name, model: { provider, model, price }, metadata }: Measured,
  attempt: (call: AdapterCall) => Promise<T>,
): Promise<T> {
  const { clock, requestId } = of;
  return withRetries(policy, provider, of, async (number) => {
    const span = startSpan(name, requestId, { provider, model, attempt: number, ...metadata }, null, clock.now);
    try {
      const answer = await span.within(() => attempt({ ...of, attempt: number }));
      const usage = priced(answer.usage, price);
      span.stop({ usage, ...answer.facts });
      return { ...answer, usage };
    } catch (error) {
      span.fail(error);
      throw error;
    }
  });
}

/** Adds the cost of the tokens, unless the provider reported one. `price` is in US dollars for a million tokens. */
function priced(usage: Usage, price: number | null): Usage {
  const tokens = usage.inputTokens ?? usage.totalTokens;
  if (usage.totalCost !== null || price === null || tokens === null) return usage;
  const inputCost = (tokens * price) / 1_000_000;
  return { ...usage, inputCost, outputCost: 0, totalCost: inputCost };
}

/**
 * Throws `MisuseError` for a text that is not a string or is empty: servers reject it, some of them with an unclear
 * error.
 */
export function checkText(verb: string, text: string, path: readonly (string | number)[]): void {
  if (typeof text === "string" && text !== "") return;
  const what = typeof text === "string" ? "is empty" : "is not a string";
  throw invalidArgument(`${verb}: ${path.join(".")} ${what}`, [...path]);
}
