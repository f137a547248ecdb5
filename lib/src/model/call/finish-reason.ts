/**
 * Why a reply ended. `other` is a reason of the provider that has no counterpart here. Fields of this type are
 * `null` when the provider gave no reason.
 */
export type FinishReason = (typeof finishReasons)[number];

export const finishReasons = ["stop", "length", "tool_calls", "content_filter", "error", "other"] as const;
