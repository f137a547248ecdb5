/**
 * Why a reply ended: it is complete (`stop`), the output token limit was reached (`length`), the model made calls
 * (`tool_calls`), a filter withheld text (`content_filter`), or the call failed (`error`). `other` is a reason of the provider
 * without a counterpart here. Fields of this type are `null` if the provider gave no reason.
 */
export type FinishReason = (typeof finishReasons)[number];

export const finishReasons = ["stop", "length", "tool_calls", "content_filter", "error", "other"] as const;
