// The public names of this folder: plain, immutable data, its constructors, parsing, validation and serialization. `everturn` exports what most
// programs need, `everturn/advanced` the rest.

export type { ChatCompleted, CheckpointKind, ModelEvent, StepCompleted, ToolMode, TurnEvent } from "./turn/event.ts";
export type {
  AdapterFailure,
  EngineFailure,
  Failure,
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
export type { Json, JsonObject } from "./parse/json.ts";
export type {
  AssistantMessage,
  EventMessage,
  Message,
  MessageInput,
  Role,
  SystemMessage,
  ToolMessage,
  UserMessage,
} from "./message/message.ts";
export type { MisuseReason } from "./failure/misuse.ts";
export type { ModelName, ModelRef } from "./call/model-ref.ts";
export type { MessageOrigin, PluginOrigin, ProcessOrigin } from "./message/origin.ts";
export type { HaltedReason, KnownHaltedReason, TurnOutcome } from "./turn/outcome.ts";
export type { StoredType } from "./parse/parse.ts";
export type {
  FilePart,
  ImagePart,
  Part,
  PruneState,
  ReasoningPart,
  TextKind,
  TextPart,
  ToolCallPart,
} from "./message/part.ts";
export { approvalText, callPath } from "./tool/approval-text.ts";
export type { Decision, PendingToolCall, ShownCall } from "./tool/pending.ts";
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
export type { ModelReply, WithText } from "./call/reply.ts";
export type { Warning } from "./call/warning.ts";
export type { ModelRequest, ReasoningSettings, RequestScope, JsonSchemaFormat } from "./call/request.ts";
export type { Result } from "./failure/result.ts";
export type {
  ChatMetadata,
  ChatResult,
  StepMetadata,
  StepResult,
  StructuredFinalizeDetails,
} from "./turn/run-results.ts";
export type { ProtocolEvent } from "./turn/protocol-event.ts";
export type { ContextWindow, HistoryFrame, TokenCount } from "./session/context-window.ts";
export type { SessionStatus } from "./session/session-status.ts";
export type { CallerContext, Session, SessionFields } from "./session/session.ts";
export type { Thread } from "./message/thread.ts";
export type { ToolOutcome } from "./tool/tool-outcome.ts";
export type { Attachment } from "./tool/tool-value.ts";
export type { ToolCall, ToolChoice, ToolSpec } from "./tool/tool.ts";
export type { Usage } from "./call/usage.ts";

export {
  AdapterError,
  EngineError,
  EverturnError,
  ImageAdapterError,
  isEverturnError,
  orThrow,
  RuntimeError,
  SessionError,
  StreamError,
  ToolError,
  ValidationError,
} from "./failure/errors.ts";
export { isEvent } from "./turn/event.ts";
export { adapterFailure, toolFailure } from "./failure/failures.ts";
export { imageRequest, imageResponse } from "./call/image-request.ts";
export { imageFromBase64, imageFromBinary, imageFromFile, imageFromUrl, imageToBinary } from "./message/image.ts";
export { renderIssue } from "./failure/issue.ts";
export { assistant, eventMessage, messageText, system, user } from "./message/message.ts";
export { MisuseError } from "./failure/misuse.ts";
export { modelRef } from "./call/model-ref.ts";
export { parse } from "./parse/parse.ts";
export { filePart, imagePart, searchResultPart } from "./message/media-part.ts";
export { textPart } from "./message/part.ts";
export { modelReply, replyImages, replyText } from "./call/reply.ts";
export { jsonSchema, request } from "./call/request.ts";
export { chatResult, isHalted, stepResult } from "./turn/run-results.ts";
export type { TurnBlock, TurnCall, TurnChange, TurnSnapshot } from "./turn/turn-view.ts";
export { TurnView } from "./turn/turn-view.ts";
export { fromJson, storedVersion, toJson } from "./parse/serialize.ts";
export {
  append,
  appendToolResult,
  appendUser,
  messages,
  pendingToolCalls,
  newSession,
  sessionError,
} from "./session/session.ts";
export {
  addAssistant,
  addMessage,
  addMessages,
  addSystem,
  addUser,
  fromMessages,
  lastMessage,
} from "./message/thread.ts";
export { toolResult } from "./tool/tool-result.ts";
export { attachment } from "./tool/tool-value.ts";
export { toolCall, toolSpec } from "./tool/tool.ts";
export { visibleText } from "./message/visible-text.ts";
export { addUsage, totalTokens, usage } from "./call/usage.ts";
export { validateMessage, validateRequest, validateSession, validateThread, validateTool } from "./parse/validate.ts";
