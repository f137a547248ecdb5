// The door of the kernel: the pure turn machine and the parts around it.

export type { ChatProtocolOptions } from "./chat-protocol.ts";
export type { CodeProtocolOptions } from "./code-protocol.ts";
export type {
  Approval,
  AskCheckpoint,
  CallModel,
  CallTool,
  CellFinish,
  CheckpointDelivered,
  CheckpointDelivery,
  CodeCalls,
  CodeFailed,
  CodeFinished,
  Effect,
  EffectResponse,
  EnvironmentFailed,
  EnvironmentSynced,
  LlmCallError,
  ModelFailed,
  ModelReplied,
  ResponsesByEffect,
  ResponseTo,
  RunCode,
  SyncEnvironment,
  ToolReturned,
  ToolWaits,
  Verdict,
} from "./effect.ts";
export type { TurnHistory } from "./history.ts";
export type { ConfigFields } from "./configure.ts";
export type { MachineCheckpoint, Polled } from "./machine.ts";
export type {
  ContextProjector,
  DriverAction,
  ProjectorContext,
  ProtocolDriver,
  TurnProtocol,
  UnitTurnProtocol,
} from "./protocol.ts";
export type { RetrySchedule, ToolRetryPolicy } from "./retry-delay.ts";
export type { SharedList } from "./shared-list.ts";
export type { LlmTerminalReason } from "./terminal-reason.ts";
export type { TurnCause } from "./turn-cause.ts";
export type {
  ApprovedCall,
  AwaitingTools,
  BegunCell,
  CallAnswer,
  Cancellation,
  Cell,
  CheckpointResumeAction,
  CompletedToolCall,
  EndedStep,
  Ending,
  LlmDebug,
  LlmError,
  LogEvent,
  Notice,
  Phase,
  Progress,
  ResponseStatus,
  SlottedCall,
  StepEnd,
  Transition,
  Turn,
  TurnInput,
  TurnMachineConfig,
  TurnPolicy,
  TurnSettings,
} from "./turn.ts";

export { canonicalJson } from "./canonical-json.ts";
export { chatProtocol } from "./chat-protocol.ts";
export { codeProtocol } from "./code-protocol.ts";
export { Collector } from "./collector.ts";
export { protocolConfig, turnConfig, turnInput } from "./configure.ts";
export { appendHistory, historyMessages, startHistory } from "./history.ts";
export { TurnMachine } from "./machine.ts";
export { ChatContextProjector, projectRequest } from "./projector.ts";
export { renderPrompt } from "./prompt.ts";
export { DriverContextView } from "./protocol.ts";
export { readResponse } from "./read-response.ts";
export { advance, cancelTurn, failTurn, startTurn } from "./reducer.ts";
export { isContextOverflow, joinParagraph, withoutCommentary } from "./reply-text.ts";
export {
  callDecision,
  callResult,
  checkpointDelivered,
  codeCalls,
  codeFailed,
  codeFinished,
  modelFailed,
  modelReplied,
  toolReturned,
  toolWaits,
} from "./respond.ts";
export { isResumeSafe } from "./resume-safety.ts";
export { retryDelayMs } from "./retry-delay.ts";
export { llmTerminalReasons, terminalReasonOf } from "./terminal-reason.ts";
export { renderMessageOrigin, renderTurnCausesPrompt, toEventMessage } from "./turn-cause.ts";
export { cellCalls, kernelRevision, pendingEffect, pendingEffects, storableTurn } from "./turn.ts";
