// When a failed model call is tried again, and after how long.

import type { Failure } from "../../model/internal.ts";

import { MisuseError } from "../../model/internal.ts";

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
  /** The longest delay, in milliseconds. */
  readonly maxDelayMs: number;
  /** The upper bound of a random addition to each delay, in milliseconds. */
  readonly jitterMs: number;
  /** HTTP statuses and failure reasons to retry; `null`: failures that are marked retryable. */
  readonly retryOn: readonly (number | string)[] | null;
  /** Wait as long as the provider asks for. */
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

/** The policy a setting stands for. A word the policy does not have is the caller's bug. */
export function retryPolicy(setting: RetrySetting): RetryPolicy {
  if (setting === false) return { ...defaultRetryPolicy, maxAttempts: 1 };
  if (setting === "default") return defaultRetryPolicy;
  if (typeof setting !== "object" || setting === null) {
    throw new MisuseError("invalid_argument", 'retry has to be "default", false, or parts of a policy', {
      path: ["retry"],
    });
  }
  const stranger = Object.keys(setting).find((key) => !Object.hasOwn(defaultRetryPolicy, key));
  if (stranger !== undefined) {
    throw new MisuseError("unknown_field", `retry: "${stranger}" is no part of a retry policy`, {
      path: ["retry", stranger],
    });
  }
  const policy = { ...defaultRetryPolicy, ...setting };
  for (const key of ["maxAttempts", "baseDelayMs", "maxDelayMs", "jitterMs"] as const) {
    if (!Number.isFinite(policy[key]) || policy[key] < 0) {
      throw new MisuseError("invalid_argument", `retry: ${key} has to be a number of 0 or more`, {
        path: ["retry", key],
      });
    }
  }
  return policy.maxAttempts < 1 ? { ...policy, maxAttempts: 1 } : policy;
}

/** Is this failure worth another try? */
export function isRetryable({ retryOn }: RetryPolicy, failure: Failure): boolean {
  if (!("retryable" in failure)) return false;
  if (retryOn === null) return failure.retryable;
  return retryOn.includes(failure.reason) || (failure.status !== null && retryOn.includes(failure.status));
}

/** How long to wait before the attempt after this one. `random` is a number from 0 up to 1. */
export function delayBefore(policy: RetryPolicy, attempt: number, failure: Failure, random: number): number {
  const jitter = Math.floor(random * (policy.jitterMs + 1));
  const asked = "retryAfterMs" in failure ? (failure.retryAfterMs ?? 0) : 0;
  if (policy.respectRetryAfter && asked > 0) return asked + jitter;
  return Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1)) + jitter;
}
