// Entry point `everturn/kernel`: the pure turn machine, its protocols and the collector.

export type {
  AskCheckpoint,
  CallModel,
  CallTool,
  CheckpointDelivered,
  CheckpointDelivery,
  CodeFailed,
  CodeFinished,
  Effect,
  EffectResponse,
  EnvironmentFailed,
  EnvironmentSynced,
  LlmCallError,
  MiddlewareNote,
  ModelFailed,
  ModelReplied,
  RunCode,
  SyncEnvironment,
  ToolReturned,
} from "./machine/effect.ts";
export type { TurnHistory } from "./history/history.ts";
export type {
  ContextProjector,
  DriverAction,
  ProjectorContext,
  ProtocolDriver,
  TurnProtocol,
  UnitTurnProtocol,
} from "./protocol/protocol.ts";
export type { LlmTerminalReason } from "./protocol/terminal-reason.ts";
export type { TurnCause } from "./history/turn-cause.ts";
export type {
  CheckpointResumeAction,
  CompletedToolCall,
  LlmDebug,
  LlmError,
  LogEvent,
  Notice,
  Phase,
  Progress,
  Turn,
  TurnInput,
  TurnMachineConfig,
  TurnPolicy,
} from "./machine/turn.ts";

export { chatProtocol } from "./protocol/chat-protocol.ts";
export { codeProtocol } from "./protocol/code-protocol.ts";
export { Collector } from "./collector.ts";
export { protocolConfig, turnConfig, turnInput } from "./machine/configure.ts";
export { historyMessages } from "./history/history.ts";
export { TurnMachine } from "./machine/machine.ts";
export { projectRequest } from "./history/projector.ts";
export { renderPrompt } from "./history/prompt.ts";
export { DriverContextView } from "./protocol/protocol.ts";
export {
  checkpointDelivered,
  codeFailed,
  codeFinished,
  modelFailed,
  modelReplied,
  toolReturned,
} from "./machine/respond.ts";
export { renderMessageOrigin, renderTurnCausesPrompt, toEventMessage } from "./history/turn-cause.ts";
