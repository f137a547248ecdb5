// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing listed here is covered by
// the rules for public names, and any of it can change in any release.

export * from "./index.ts";

export { retryDelayMs } from "./retry-delay.ts";

// history
export { appendHistory, startHistory } from "./history/history.ts";
export { historyThread } from "./history/history-thread.ts";

// machine
export type { CodeCalls, ToolWaits, Verdict } from "./machine/effect.ts";
export { readResponse, turnCauseShape } from "./machine/read-response.ts";
export { advance, cancelTurn, failTurn, startTurn } from "./machine/reducer.ts";
export { callDecision, callResult, codeCalls, toolWaits } from "./machine/respond.ts";
export type {
  CallAnswer,
  Cancellation,
  EndedStep,
  Ending,
  RequestConfig,
  SlottedCall,
  Transition,
} from "./machine/turn.ts";
export { withoutForcedChoice } from "./machine/environment.ts";
export {
  cellCalls,
  cellRanMs,
  isSameBatch,
  kernelRevision,
  pendingEffect,
  pendingEffects,
  storableTurn,
} from "./machine/turn.ts";

// From the model layer.
export { canonicalJson } from "../model/internal.ts";

// protocol
export type { ChatProtocolOptions } from "./protocol/chat-protocol.ts";
export type { CodeProtocolOptions } from "./protocol/code-protocol.ts";
export { outcomeOfText } from "./protocol/ending.ts";
export { pendingOfWait } from "./protocol/halts.ts";
export { storableReply } from "./protocol/reply-message.ts";
