// The retry policy of model calls: which failures are retried, how often, and after which delay.
//
// Retry with exponential backoff and jitter. The delay before attempt n + 1 is
//   min(maxDelayMs, baseDelayMs * 2^(n - 1)) + jitter, where jitter is uniform in 0..jitterMs.
// Jitter spreads the retries of processes that failed at the same moment (for example at a rate limit), so that they do
// not return together. A delay that the provider requests (`Retry-After`, read by transport.ts) replaces the computed
// one, up to `maxDelayMs`: a header must not be able to stop a turn for years. Jitter is added to it too. The caller
// also caps the delay by what is left of the time budget of the turn.
//
// This file is pure. The loops that wait and repeat are core/run/perform/model.ts (model calls; the delay is recorded,
// so that recovery of a durable turn does not start the count again) and core/run/images.ts (image calls). Tool calls
// have a separate policy, `ToolRetryPolicy` in tool/tool.ts.

import type { Failure } from "../../model/internal.ts";
import type { Rule, Rules } from "../option-rules.ts";
import type { AdapterCall } from "./adapter.ts";

import { isEverturnError } from "../../model/internal.ts";
import { anything, checkOptions, checkRule, finiteAmount } from "../option-rules.ts";
import { emitTelemetry } from "../telemetry.ts";

/**
 * How failed model calls are retried: `default` is the default policy, `false` disables retries, an object changes
 * parts of the default policy.
 */
export type RetrySetting = "default" | false | Partial<RetryPolicy>;

/**
 * Retry with exponential backoff. Defaults: 3 attempts, delays from 500 ms to 30 s with up to 250 ms of jitter,
 * `Retry-After` is respected, no retry after output was emitted.
 */
export type RetryPolicy = {
  /** Attempts in total; 0 and 1 both mean one attempt. */
  readonly maxAttempts: number;
  /** The delay before the second attempt, in milliseconds. It doubles with each attempt. */
  readonly baseDelayMs: number;
  /** The longest delay, in milliseconds, also if the provider requests a longer one. */
  readonly maxDelayMs: number;
  /** The upper bound of a random addition to each delay, in milliseconds. */
  readonly jitterMs: number;
  /**
   * HTTP statuses and failure reasons to retry, in place of the default set; `null`: failures whose `retryable` is
   * true.
   */
  readonly retryOn: readonly (number | string)[] | null;
  /** Wait as long as the provider requests (`Retry-After`), at most `maxDelayMs`. */
  readonly respectRetryAfter: boolean;
  /** Retry also after part of the reply was emitted. A `step_reset` event then invalidates that part. */
  readonly afterOutput: boolean;
};

export const defaultRetryPolicy: RetryPolicy = {
  maxAttempts: 3,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  jitterMs: 250,
  retryOn: null,
  respectRetryAfter: true,
  afterOutput: false,
};

const settingRule: Rule = {
  must: '"default", false, or an object with fields of a policy',
  fits: (value) => typeof value === "object" && value !== null,
};

const policyRules: Rules<RetryPolicy> = {
  maxAttempts: finiteAmount,
  baseDelayMs: finiteAmount,
  maxDelayMs: finiteAmount,
  jitterMs: finiteAmount,
  retryOn: anything,
  respectRetryAfter: anything,
  afterOutput: anything,
};

/**
 * Converts a setting to a complete policy. Throws `MisuseError` for a field that a policy does not have and for an
 * invalid number.
 */
export function retryPolicy(setting: RetrySetting): RetryPolicy {
  if (setting === false) return { ...defaultRetryPolicy, maxAttempts: 1 };
  if (setting === "default") return defaultRetryPolicy;
  checkRule("", ["retry"], setting, settingRule);
  checkOptions("retry", setting, policyRules);
  const policy = { ...defaultRetryPolicy, ...setting };
  return policy.maxAttempts < 1 ? { ...policy, maxAttempts: 1 } : policy;
}

/** Returns whether the policy retries this failure. It does not count attempts. */
export function isRetryable({ retryOn }: RetryPolicy, failure: Failure): boolean {
  if (!("retryable" in failure)) return false;
  if (retryOn === null) return failure.retryable;
  return retryOn.includes(failure.reason) || (failure.status !== null && retryOn.includes(failure.status));
}

/**
 * Returns the delay before the next attempt, in milliseconds. `attempt` is the number of the attempt that failed, from
 * 1; `random` is a number in [0, 1), drawn from the engine's clock by the caller.
 */
export function delayBefore(policy: RetryPolicy, attempt: number, failure: Failure, random: number): number {
  const jitter = Math.floor(random * (policy.jitterMs + 1));
  const requestedMs = "retryAfterMs" in failure ? (failure.retryAfterMs ?? 0) : 0;
  if (policy.respectRetryAfter && requestedMs > 0) return Math.min(policy.maxDelayMs, requestedMs) + jitter;
  return Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1)) + jitter;
}

/**
 * Makes a call until it succeeds or its failure is not retried. `attempt` rejects with an `EverturnError` for a
 * failure; another error, and one after an abort, is final.
 */
export async function withRetries<T>(
  policy: RetryPolicy,
  provider: string,
  { signal, requestId, clock }: Pick<AdapterCall, "signal" | "requestId" | "clock">,
  attempt: (number: number) => Promise<T>,
): Promise<T> {
  for (let number = 1; ; number += 1) {
    try {
      return await attempt(number);
    } catch (error) {
      const mayRetry = isEverturnError(error) && number < policy.maxAttempts && isRetryable(policy, error.failure);
      if (!mayRetry || signal.aborted) throw error;
      const delayMs = delayBefore(policy, number, error.failure, clock.random());
      emitTelemetry({ type: "retry", requestId, provider, attempt: number, delayMs, reason: error.failure.reason });
      await clock.sleep(delayMs, signal);
    }
  }
}
