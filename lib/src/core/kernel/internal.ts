// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./advanced.ts";

export { retryDelayMs } from "./retry-delay.ts";

// history
export { appendHistory, startHistory } from "./history/history.ts";
export { projectSummaryRequest, summaryPrompt } from "./history/projector.ts";
export { messageTokens, promptOf, visitTexts } from "./history/tokens.ts";
export { historyThread } from "./history/history-thread.ts";
export { windowUse } from "./history/window-use.ts";

// machine
export { uncounted } from "./machine/context.ts";
export { contextLimitsShape, limitsOf } from "./machine/context-limits.ts";
export type { JournalItem } from "./machine/input.ts";
export { callAnswerShape, journalItems } from "./machine/input.ts";
export { withoutForcedChoice } from "./machine/environment.ts";
export { advance, cancelTurn, failTurn, startTurn } from "./machine/reducer.ts";
export { isSameBatch, pendingEffect, pendingEffects, toolEffectId } from "./machine/pending-effects.ts";
export { cellCalls, cellRanMs, contextRevision, kernelRevision, storableTurn } from "./machine/turn.ts";

// From the model layer.
export { canonicalJson } from "../model/internal.ts";

// protocol
export { outcomeOfText } from "./protocol/ending.ts";
export { pendingCall } from "./protocol/halts.ts";
export { storableReply } from "./protocol/reply-message.ts";
