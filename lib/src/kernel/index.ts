// The door of the kernel. The turn machine itself is not here yet: these are the pure parts around it.

export type { TurnHistory } from "./history.ts";
export type { RetrySchedule, ToolRetryPolicy } from "./retry-delay.ts";
export type { TurnCause } from "./turn-cause.ts";

export { canonicalJson } from "./canonical-json.ts";
export { Collector } from "./collector.ts";
export { appendHistory, historyMessages, startHistory, trimHistory } from "./history.ts";
export { renderPrompt } from "./prompt.ts";
export { isContextOverflow, joinParagraph, withoutCommentary } from "./reply-text.ts";
export { isResumeSafe } from "./resume-safety.ts";
export { retryDelayMs } from "./retry-delay.ts";
export { renderMessageOrigin, renderTurnCausesPrompt, toEventMessage } from "./turn-cause.ts";
