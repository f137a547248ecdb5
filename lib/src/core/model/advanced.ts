// The names of this folder that `everturn/advanced` exports: plain, immutable data, its constructors, parsing,
// validation and serialization.

export type { ChatCompleted, CheckpointKind, ModelEvent, StepCompleted, ToolMode } from "./turn/event.ts";
export type {
  AdapterFailure,
  EngineFailure,
  SessionFailure,
  ToolFailure,
  ValidationFailure,
} from "./failure/failure.ts";
export type { ProviderFailureKind } from "./failure/failure-reasons.ts";
export type { Environment } from "./turn/environment.ts";
export type { FinishReason } from "./call/finish-reason.ts";
export type { ImageRequest, ImageResponse } from "./call/image-request.ts";
export type { Issue, IssueCode } from "./failure/issue.ts";
export type { ImageContent } from "./message/image-content.ts";
export type { ImageProblem } from "./message/image.ts";
export type { EventMessage, MessageInput, Role } from "./message/message.ts";
export type { MisuseReason } from "./failure/misuse.ts";
export type { ModelName, ModelRef } from "./call/model-ref.ts";
export type { MessageOrigin, PluginOrigin, ProcessOrigin } from "./message/origin.ts";
export type { HaltedReason, KnownHaltedReason } from "./turn/outcome.ts";
export type { StoredType } from "./parse/parse.ts";
export type { PruneState, TextKind } from "./message/part.ts";
export type {
  AnthropicMessageOptions,
  AnthropicPartOptions,
  AnthropicRequestOptions,
  AnthropicToolOptions,
  CacheControl,
  ChatMessageOptions,
  GeminiPartOptions,
  GeminiRequestOptions,
  GeminiToolOptions,
  MessageProviderOptions,
  OpenAIPartOptions,
  OpenAIRequestOptions,
  OpenAIToolOptions,
  OpenRouterPartOptions,
  PartProviderOptions,
  PrefixMessageOptions,
  PromptCacheBreakpoint,
  RequestProviderOptions,
  ToolCallProviderOptions,
  ToolProviderOptions,
} from "./message/provider-options.ts";
export type { ProviderReplay } from "./message/provider-replay.ts";
export type { WithText } from "./call/reply.ts";
export type { ReasoningSettings, RequestScope, JsonSchemaFormat } from "./call/request.ts";
export type { ChatMetadata, StepMetadata, StructuredFinalizeDetails } from "./turn/run-results.ts";
export type { ProtocolEvent } from "./turn/protocol-event.ts";
export type { ContextWindow, HistoryFrame, TokenCount } from "./session/context-window.ts";
export type { SessionFields } from "./session/session.ts";
export type { Attachment } from "./tool/tool-value.ts";
export type { ToolChoice, ToolSpec } from "./tool/tool.ts";
export type { TurnBlock, TurnCall, TurnChange, TurnSnapshot } from "./turn/turn-view.ts";
export type { AuditAction } from "./session/audit.ts";
export type {
  DiscardedAttempt,
  EffectDetail,
  RequestView,
  EngineView,
  LeaseView,
  OverviewSum,
  Quantiles,
  SearchHit,
  TimelineEffect,
  ToolSum,
  ToolView,
  TurnClaim,
  TurnSummaryView,
  WindowUse,
  WorkerView,
} from "./session/inspection.ts";
export type {
  Cancelled,
  LedgerSum,
  ForkOrigin,
  LimitWait,
  Page,
  Recovered,
  Withdrawn,
} from "./session/session-view.ts";

export { isEvent } from "./turn/event.ts";
export { adapterFailure, toolFailure } from "./failure/failures.ts";
export { imageRequest, imageResponse } from "./call/image-request.ts";
export { renderIssue } from "./failure/issue.ts";
export { eventMessage } from "./message/message.ts";
export { modelReply, replyText } from "./call/reply.ts";
export { jsonSchema, request } from "./call/request.ts";
export { chatResult, isHalted, stepResult } from "./turn/run-results.ts";
export { TurnView } from "./turn/turn-view.ts";
export { storedVersion } from "./parse/serialize.ts";
export { effectRequest, effectResponse } from "./session/effect-detail.ts";
export { appendToolResult, appendUser, messages, pendingToolCalls, sessionError } from "./session/session.ts";
export { addAssistant, addMessage, addMessages, addSystem, addUser, lastMessage } from "./message/thread.ts";
export { attachment } from "./tool/tool-value.ts";
export { toolCall, toolSpec } from "./tool/tool.ts";
export { addUsage, totalTokens, usage } from "./call/usage.ts";
export { validateMessage, validateRequest, validateSession, validateTool } from "./parse/validate.ts";
