/** How a reply ended, in our words. `null` where it stands means: nobody said. */
export type FinishReason = (typeof finishReasons)[number];

export const finishReasons = ["stop", "length", "tool_calls", "content_filter", "error", "other"] as const;
