// The door of the kernel: the pure turn machine and the parts around it.

export type { ChatProtocolOptions } from "./protocol/chat-protocol.ts";
export type { CodeProtocolOptions } from "./protocol/code-protocol.ts";
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
} from "./machine/effect.ts";
export type { TurnHistory } from "./history/history.ts";
export type { ConfigFields } from "./machine/configure.ts";
export type { MachineCheckpoint, Polled } from "./machine/machine.ts";
export type {
  ContextProjector,
  DriverAction,
  ProjectorContext,
  ProtocolDriver,
  TurnProtocol,
  UnitTurnProtocol,
} from "./protocol/protocol.ts";
export type { RetrySchedule, ToolRetryPolicy } from "./retry-delay.ts";
export type { SharedList } from "./history/shared-list.ts";
export type { LlmTerminalReason } from "./protocol/terminal-reason.ts";
export type { TurnCause } from "./history/turn-cause.ts";
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
} from "./machine/turn.ts";

export { canonicalJson } from "../model/internal.ts";
export { chatProtocol } from "./protocol/chat-protocol.ts";
export { codeProtocol } from "./protocol/code-protocol.ts";
export { Collector } from "./collector.ts";
export { protocolConfig, turnConfig, turnInput } from "./machine/configure.ts";
export { appendHistory, historyMessages, startHistory } from "./history/history.ts";
export { TurnMachine } from "./machine/machine.ts";
export { ChatContextProjector, projectRequest } from "./history/projector.ts";
export { renderPrompt } from "./history/prompt.ts";
export { DriverContextView } from "./protocol/protocol.ts";
export { readResponse } from "./machine/read-response.ts";
export { advance, cancelTurn, failTurn, startTurn } from "./machine/reducer.ts";
export { isContextOverflow, joinParagraph, withoutCommentary } from "./protocol/reply-text.ts";
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
} from "./machine/respond.ts";
export { isResumeSafe } from "./protocol/resume-safety.ts";
export { retryDelayMs } from "./retry-delay.ts";
export { llmTerminalReasons, terminalReasonOf } from "./protocol/terminal-reason.ts";
export { renderMessageOrigin, renderTurnCausesPrompt, toEventMessage } from "./history/turn-cause.ts";
export { cellCalls, kernelRevision, pendingEffect, pendingEffects, storableTurn } from "./machine/turn.ts";
