// The reasons for which a reply ends.

import type { WordOf } from "../parse/shape.ts";

/**
 * Why a reply ended: it is complete (`stop`), the output token limit was reached (`length`), the model made calls
 * (`tool_calls`), a filter withheld text (`content_filter`), the provider paused and continues when the reply is sent
 * back (`paused`), or the call failed (`error`). `other` is a reason of the provider without a counterpart here. Fields
 * of this type are `null` if the provider gave no reason.
 */
export type FinishReason = WordOf<typeof finishReasons>;

export const finishReasons = ["stop", "length", "tool_calls", "content_filter", "paused", "error", "other"] as const;
