// What a provider's refusal means: which reason, and whether it is worth trying again. By status first, then by the words providers use.

import type { AdapterErrorReason, AdapterFailure, Json } from "../model/internal.ts";
import type { ErrorResponse, WireContext } from "./codec.ts";

import { adapterFailure } from "../model/internal.ts";

/** What an API says went wrong, taken out of its own form. */
export type ProviderError = {
  readonly message: string | null;
  /** The API's own word: a code, or a type. */
  readonly code: string | null;
};

const quotaPhrases = [
  "insufficient_quota",
  "usage_limit_reached",
  "usage_not_included",
  "credit balance is too low",
  "exceeded your current quota",
  "billing_hard_limit_reached",
];
const rateLimitPhrases = ["rate limit", "rate_limit", "too many requests", "tokens per min", "requests per min"];
const contextOverflowPhrases = [
  "context_length_exceeded",
  "maximum context length",
  "context window",
  "context length",
  "prompt is too long",
  "input is too long",
  "input length and `max_tokens` exceed",
  "too many tokens",
  "exceeds the maximum number of tokens",
  "reduce the length of the messages",
  "request too large for model",
  "exceeds the limit of",
  "input token count",
  "token limit exceeded",
  "contextwindowexceeded",
];
const contentFilterPhrases = [
  "content_filter",
  "content_policy",
  "content management policy",
  "safety system",
  "responsibleaipolicyviolation",
  "content filtering policy",
  "responsible ai practices",
];
/** What a model or an account cannot do, said with a 400. */
const unsupportedFeaturePhrases = [
  "unsupported_parameter",
  "unsupported_value",
  "does not support",
  "not supported with this model",
  "not supported by this model",
  "is not enabled for",
];

/** The failure behind an answer of a provider. */
export function classify(
  response: ErrorResponse,
  providerError: ProviderError,
  { route }: WireContext,
): AdapterFailure {
  const { status, body, requestId, retryAfterMs } = response;
  const errorText = `${providerError.code ?? ""} ${providerError.message ?? ""}`.toLowerCase();
  const reason = reasonOf(status, errorText);
  const isQuotaExhausted = quotaPhrases.some((phrase) => errorText.includes(phrase));
  return adapterFailure(reason, {
    provider: route.provider,
    status,
    requestId,
    retryAfterMs,
    code: providerError.code,
    raw: typeof body === "string" ? body : stringified(body),
    ...messageOf(status, providerError, route.provider),
    ...(isQuotaExhausted ? { retryable: false, kind: "quota" as const } : {}),
    ...(status === 409 || status === 408 || status === 425 ? { retryable: true } : {}),
  });
}

function messageOf(status: number | null, { message }: ProviderError, provider: string): { readonly message?: string } {
  if (message !== null) return { message: `${provider}: ${message}` };
  if (status === null || status < 300 || status >= 400) return {};
  // Whoever is named there is not given the key.
  return {
    message: `${provider}: the server answered ${status} and points elsewhere, which is not followed: is the base URL right?`,
  };
}

/** The body as text; nothing when it is nested too deep to be written. */
function stringified(body: Json): string | null {
  try {
    return JSON.stringify(body);
  } catch {
    return null;
  }
}

function reasonOf(status: number | null, errorText: string): AdapterErrorReason {
  const isRateLimit = rateLimitPhrases.some((phrase) => errorText.includes(phrase));
  if (!isRateLimit && contextOverflowPhrases.some((phrase) => errorText.includes(phrase)))
    return "context_length_exceeded";
  if (contentFilterPhrases.some((phrase) => errorText.includes(phrase))) return "content_filter";
  switch (status) {
    case 401:
    case 403:
      return "authentication_failed";
    case 408:
    case 504:
      return "timeout";
    case 429:
      return "rate_limited";
    case 400:
      return unsupportedFeaturePhrases.some((phrase) => errorText.includes(phrase))
        ? "unsupported_feature"
        : "invalid_request";
    case 404:
    case 413:
    case 422:
      return "invalid_request";
    default:
      return reasonFromText(status, errorText, isRateLimit);
  }
}

function reasonFromText(status: number | null, errorText: string, isRateLimit: boolean): AdapterErrorReason {
  if (status !== null && status >= 500) return "provider_unavailable";
  if (status !== null && status >= 400 && !isRateLimit) return "unknown";
  if (isRateLimit || quotaPhrases.some((phrase) => errorText.includes(phrase))) return "rate_limited";
  if (/overloaded|unavailable|server_error|internal|api_error/.test(errorText)) return "provider_unavailable";
  if (/auth|permission|api key|api_key/.test(errorText)) return "authentication_failed";
  if (/invalid|not_found|bad_request/.test(errorText)) return "invalid_request";
  return /timeout|deadline/.test(errorText) ? "timeout" : "unknown";
}
