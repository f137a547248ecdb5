// The names of this folder that `everturn/advanced` exports: the pure turn machine, its protocols and the collector.

export type {
  Approval,
  AskCheckpoint,
  CallModel,
  CallTool,
  Compact,
  CountTokens,
  Effect,
  RunCode,
  SyncEnvironment,
} from "./machine/effect.ts";
export type {
  CellFinish,
  CheckpointDelivered,
  CheckpointDelivery,
  CodeCalls,
  CodeFailed,
  CodeFinished,
  Compacted,
  CompactionFailed,
  CountFailed,
  EffectResponse,
  EnvironmentFailed,
  EnvironmentSynced,
  LlmCallError,
  MiddlewareNote,
  ModelFailed,
  ModelReplied,
  TokensCounted,
  ToolReturned,
  ToolWaits,
  Verdict,
} from "./machine/response.ts";
export type { ContextLimits } from "./machine/context-limits.ts";
export type { TurnHistory } from "./history/history.ts";
export type { MachineCheckpoint, Polled } from "./machine/machine.ts";
export type { ChatProtocolOptions } from "./protocol/chat-protocol.ts";
export type { CodeProtocolOptions } from "./protocol/code-protocol.ts";
export type {
  ContextProjector,
  DriverAction,
  NamedProjector,
  NamedProtocol,
  ProjectorContext,
  ProtocolDriver,
  TurnProtocol,
  UnitTurnProtocol,
} from "./protocol/protocol.ts";
export type { LlmTerminalReason } from "./protocol/terminal-reason.ts";
export type { TurnCause } from "./history/turn-cause.ts";
export type { CallAnswer, Cancellation } from "./machine/input.ts";
export type {
  ApprovedCall,
  AwaitingModel,
  AwaitingTools,
  BegunCell,
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
  RequestConfig,
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

export { chatProtocol } from "./protocol/chat-protocol.ts";
export { codeProtocol } from "./protocol/code-protocol.ts";
export { Collector } from "./collector.ts";
export { protocolConfig, turnConfig, turnInput } from "./machine/configure.ts";
export { ending } from "./protocol/ending.ts";
export { historyMessages } from "./history/history.ts";
export { TurnMachine } from "./machine/machine.ts";
export { ChatContextProjector, projectRequest } from "./history/projector.ts";
export { renderPrompt } from "./history/prompt.ts";
export { DriverContextView } from "./protocol/protocol.ts";
export { pendingOfWait } from "./protocol/halts.ts";
export { readCheckpoint } from "./machine/read-checkpoint.ts";
export { readResponse } from "./machine/read-response.ts";
export { replyMessage, replyStepEnd } from "./protocol/reply-message.ts";
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
export { renderMessageOrigin, renderTurnCausesPrompt, toEventMessage } from "./history/turn-cause.ts";
