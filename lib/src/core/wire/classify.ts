// Classifies errors of providers: the reason of the failure, and whether a retry can succeed.
//
// Order of rules (`failureReason`)
//   1. phrases of a context overflow or of a content filter, whatever the status
//   2. the HTTP status
//   3. phrases, for errors inside a stream, which have no status
// A phrase of a rate limit rules out a context overflow: errors about tokens per minute speak of token limits too.
// Phrases are searched in the code and the message of the error, in lower case. All codecs share the lists: add a
// phrase here, not in a codec.
//
// A quota that is used up (`quotaPhrases`) has the reason `rate_limited` like any 429, but `retryable: false`: waiting
// does not help.

import type { AdapterErrorReason, AdapterFailure, Json } from "../model/internal.ts";
import type { ErrorResponse, WireContext } from "./codec.ts";

import { adapterFailure } from "../model/internal.ts";

/** The message and the code of an error, extracted from the form of one API. */
export type ProviderError = {
  readonly message: string | null;
  /** The API's identifier of the error: its `code`, or its `type`. */
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
/** With status 400: a parameter or feature that the model or the account does not have. */
const unsupportedFeaturePhrases = [
  "unsupported_parameter",
  "unsupported_value",
  "does not support",
  "not supported with this model",
  "not supported by this model",
  "is not enabled for",
];

/**
 * Builds the failure for a response of a provider. 408, 409 and 425 are retryable whatever their reason. `raw` keeps
 * the body as text.
 */
export function classify(
  response: ErrorResponse,
  providerError: ProviderError,
  { route }: WireContext,
): AdapterFailure {
  const { status, body, requestId, retryAfterMs } = response;
  const errorText = `${providerError.code ?? ""} ${providerError.message ?? ""}`.toLowerCase();
  const reason = failureReason(status, errorText);
  const isQuotaExhausted = quotaPhrases.some((phrase) => errorText.includes(phrase));
  return adapterFailure(reason, {
    provider: route.provider,
    status,
    requestId,
    retryAfterMs,
    code: providerError.code,
    raw: typeof body === "string" ? body : stringified(body),
    ...failureMessage(status, providerError, route.provider),
    ...(isQuotaExhausted ? { retryable: false, kind: "quota" as const } : {}),
    ...(status === 409 || status === 408 || status === 425 ? { retryable: true } : {}),
  });
}

function failureMessage(
  status: number | null,
  { message }: ProviderError,
  provider: string,
): { readonly message?: string } {
  if (message !== null) return { message: `${provider}: ${message}` };
  if (status === null || status < 300 || status >= 400) return {};
  // The transport does not follow redirects: the request holds the key, and the target may be another host.
  return {
    message: `${provider}: the server answered with a redirect (${status}); redirects are not followed. Check the base URL`,
  };
}

/** The body as text; `null` when it is nested too deep for `JSON.stringify`, which then throws a `RangeError`. */
function stringified(body: Json): string | null {
  try {
    return JSON.stringify(body);
  } catch {
    return null;
  }
}

function failureReason(status: number | null, errorText: string): AdapterErrorReason {
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
