// What a provider's refusal means: which reason, and whether it is worth trying again. By status first, then by the words providers use.

import type { AdapterErrorReason, AdapterFailure, Json } from "../model/internal.ts";
import type { ErrorAnswer, WireContext } from "./codec.ts";

import { adapterFailure } from "../model/internal.ts";

/** What an API says went wrong, taken out of its own form. */
export type Complaint = {
  readonly message: string | null;
  /** The API's own word: a code, or a type. */
  readonly code: string | null;
};

const hardQuota = [
  "insufficient_quota",
  "usage_limit_reached",
  "usage_not_included",
  "credit balance is too low",
  "exceeded your current quota",
  "billing_hard_limit_reached",
];
const rateWords = ["rate limit", "rate_limit", "too many requests", "tokens per min", "requests per min"];
const overflowWords = [
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
const filterWords = [
  "content_filter",
  "content_policy",
  "content management policy",
  "safety system",
  "responsibleaipolicyviolation",
  "content filtering policy",
  "responsible ai practices",
];
/** What a model or an account cannot do, said with a 400. */
const featureWords = [
  "unsupported_parameter",
  "unsupported_value",
  "does not support",
  "not supported with this model",
  "not supported by this model",
  "is not enabled for",
];

/** The failure behind an answer of a provider. */
export function classify(answer: ErrorAnswer, complaint: Complaint, { route }: WireContext): AdapterFailure {
  const { status, body, requestId, retryAfterMs } = answer;
  const words = `${complaint.code ?? ""} ${complaint.message ?? ""}`.toLowerCase();
  const reason = reasonOf(status, words);
  const exhausted = hardQuota.some((word) => words.includes(word));
  return adapterFailure(reason, {
    provider: route.provider,
    status,
    requestId,
    retryAfterMs,
    code: complaint.code,
    raw: typeof body === "string" ? body : written(body),
    ...wordsOf(status, complaint, route.provider),
    ...(exhausted ? { retryable: false, kind: "quota" as const } : {}),
    ...(status === 409 || status === 408 || status === 425 ? { retryable: true } : {}),
  });
}

function wordsOf(status: number | null, { message }: Complaint, provider: string): { readonly message?: string } {
  if (message !== null) return { message: `${provider}: ${message}` };
  if (status === null || status < 300 || status >= 400) return {};
  // Whoever is named there is not given the key.
  return {
    message: `${provider}: the server answered ${status} and points elsewhere, which is not followed: is the base URL right?`,
  };
}

/** The body as text; nothing when it is nested too deep to be written. */
function written(body: Json): string | null {
  try {
    return JSON.stringify(body);
  } catch {
    return null;
  }
}

function reasonOf(status: number | null, words: string): AdapterErrorReason {
  const isRate = rateWords.some((word) => words.includes(word));
  if (!isRate && overflowWords.some((word) => words.includes(word))) return "context_length_exceeded";
  if (filterWords.some((word) => words.includes(word))) return "content_filter";
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
      return featureWords.some((word) => words.includes(word)) ? "unsupported_feature" : "invalid_request";
    case 404:
    case 413:
    case 422:
      return "invalid_request";
    default:
      return byWords(status, words, isRate);
  }
}

function byWords(status: number | null, words: string, isRate: boolean): AdapterErrorReason {
  if (status !== null && status >= 500) return "provider_unavailable";
  if (status !== null && status >= 400 && !isRate) return "unknown";
  if (isRate || hardQuota.some((word) => words.includes(word))) return "rate_limited";
  if (/overloaded|unavailable|server_error|internal|api_error/.test(words)) return "provider_unavailable";
  if (/auth|permission|api key|api_key/.test(words)) return "authentication_failed";
  if (/invalid|not_found|bad_request/.test(words)) return "invalid_request";
  return /timeout|deadline/.test(words) ? "timeout" : "unknown";
}
