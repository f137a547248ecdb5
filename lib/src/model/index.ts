// The door of layer A: plain, readonly data, and the ways in and out of it. What is not named here can change today.

export type {
  Base64Source,
  ContentSource,
  FileSource,
  ProviderFileSource,
  UrlSource,
} from "./message/content-source.ts";
export type {
  AcceptedInput,
  ApprovalRequested,
  AskUserRequested,
  Attempt,
  ChatCompleted,
  CheckpointKind,
  ErrorReported,
  InputAccepted,
  MessageCompleted,
  MessageStarted,
  ModelEvent,
  RawChunk,
  ReasoningCompleted,
  ReasoningDelta,
  RetryScheduled,
  RunEvent,
  StepCompleted,
  StepReset,
  StepResetReason,
  TextCompleted,
  TextDelta,
  ToolCallCompleted,
  ToolCallDelta,
  ToolCallStarted,
  ToolEvent,
  ToolExecutionCompleted,
  ToolExecutionStarted,
  ToolHalt,
  ToolMode,
  ToolProgress,
  ToolResultEncoded,
  TurnEvent,
  TurnStarted,
  UsageReported,
} from "./turn/event.ts";
export type {
  AdapterErrorReason,
  AdapterFailure,
  EngineErrorReason,
  EngineFailure,
  Failure,
  FailureCause,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  ProviderFailureKind,
  ProviderFields,
  RetryDisposition,
  RuntimeErrorReason,
  RuntimeFailure,
  SessionErrorReason,
  SessionFailure,
  StreamErrorReason,
  StreamFailure,
  ToolErrorReason,
  ToolFailure,
  ToolFailureClass,
  ToolFailureSource,
  ValidationErrorReason,
  ValidationFailure,
} from "./failure/failure.ts";
export type { CellCall, Environment, SuspendedCell } from "./turn/environment.ts";
export type { FailureDetails } from "./failure/failures.ts";
export type { FinishReason } from "./call/finish-reason.ts";
export type { ImageOperation } from "./call/image-operation.ts";
export type {
  ImageBackground,
  ImageFormat,
  ImageRequest,
  ImageResponse,
  ImageSize,
  ImageStyle,
  ImageUsage,
} from "./call/image-request.ts";
export type { ImageContent, ImageInput, ImageProblem, ReadFile } from "./message/image.ts";
export type { Issue, IssueCode, Path } from "./failure/issue.ts";
export type { Json, JsonObject } from "./parse/json.ts";
export type {
  AssistantMessage,
  AssistantPart,
  EventMessage,
  Message,
  MessageInput,
  PartInput,
  Role,
  SystemMessage,
  ToolMessage,
  ToolMessageStatus,
  UserMessage,
  UserPart,
} from "./message/message.ts";
export type { MisuseReason } from "./failure/misuse.ts";
export type { ModelCapabilities, ModelLimits, ModelName, ModelPricing, ModelRef } from "./call/model-ref.ts";
export type { CausalRef, MessageOrigin, PluginOrigin, ProcessOrigin, TurnInputOrigin } from "./message/origin.ts";
export type {
  Budget,
  CancelEvidence,
  HaltedReason,
  KnownHaltedReason,
  StatusFacts,
  TurnOutcome,
} from "./turn/outcome.ts";
export type { StoredType, StoredTypes } from "./parse/parse.ts";
export type {
  FilePart,
  ImageDetail,
  ImagePart,
  OpaquePart,
  Part,
  PruneState,
  ReasoningPart,
  TextKind,
  TextPart,
  TextPhase,
  ToolCallPart,
  ToolResultPart,
} from "./message/part.ts";
export type {
  AnswerForm,
  AnswerKind,
  Decision,
  ForwardedAnswer,
  PendingReason,
  PendingToolCall,
  PendingToolCallInput,
} from "./tool/pending.ts";
export type { ProviderReplay, ProviderRoute, ReplayVerdict } from "./message/provider-replay.ts";
export type { ModelReply, StructuredOutput } from "./call/reply.ts";
export type {
  CacheRetention,
  JsonObjectFormat,
  JsonSchemaFormat,
  ModelRequest,
  PromptCacheSettings,
  ReasoningSettings,
  RequestScope,
  ResponseFormat,
  TextFormat,
} from "./call/request.ts";
export type { Result } from "./failure/result.ts";
export type {
  ChatMetadata,
  ChatResult,
  StepMetadata,
  StepResult,
  StructuredFinalizeDetails,
} from "./turn/run-results.ts";
export type { Restored, RestoredAs, StorableTypes, Tagged, Unrecognised } from "./parse/serialize.ts";
export type { SessionStatus } from "./session/session-status.ts";
export type {
  Cancelled,
  LedgerSum,
  OpenTurnView,
  Page,
  Recovered,
  RuntimeEvent,
  SessionSummary,
  SessionView,
  TurnEnd,
  TurnStatus,
  Withdrawn,
} from "./session/session-view.ts";
export type { CallerContext, LastRun, Session, SessionFields } from "./session/session.ts";
export type { Thread, ThreadInput } from "./message/thread.ts";
export type {
  FailControl,
  FinishControl,
  HandoffControl,
  ToolAsked,
  ToolCancelled,
  ToolControl,
  ToolFailed,
  ToolHalted,
  ToolOutcome,
  ToolSucceeded,
} from "./tool/tool-outcome.ts";
export type { Attachment, ProgramValue, ToolValue } from "./tool/tool-value.ts";
export type {
  ProviderTool,
  ReplayPolicy,
  ToolCall,
  ToolCallInput,
  ToolChoice,
  ToolSpec,
  ToolSpecInput,
} from "./tool/tool.ts";
export type { Usage } from "./call/usage.ts";

export {
  AdapterError,
  EngineError,
  errorFromFailure,
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
export { truncateMiddle } from "./message/cut-text.ts";
export { eventTypes, isEvent } from "./turn/event-shape.ts";
export { checkpointKinds, stepResetReasons, toolModes } from "./turn/event.ts";
export {
  adapterErrorReasons,
  engineErrorReasons,
  imageAdapterErrorReasons,
  providerFailureKinds,
  runtimeErrorReasons,
  sessionErrorReasons,
  streamErrorReasons,
  toolErrorReasons,
  toolFailureClasses,
  toolFailureSources,
  validationErrorReasons,
} from "./failure/failure.ts";
export {
  adapterFailure,
  engineFailure,
  imageAdapterFailure,
  runtimeFailure,
  sessionFailure,
  streamFailure,
  toCause,
  toolFailure,
  validationFailure,
} from "./failure/failures.ts";
export { finishReasons } from "./call/finish-reason.ts";
export { imageOperations } from "./call/image-operation.ts";
export {
  imageBackgrounds,
  imageFormats,
  imageRequest,
  imageResponse,
  imageStyles,
  imageUsage,
} from "./call/image-request.ts";
export {
  image,
  imageFromBase64,
  imageFromBinary,
  imageFromFile,
  imageFromUrl,
  imageToBinary,
  imageToDataUri,
} from "./message/image.ts";
export { issueCodes, renderIssue, renderPath } from "./failure/issue.ts";
export {
  assistant,
  awaitingUserContent,
  eventMessage,
  message,
  messageText,
  normalizeContent,
  roles,
  system,
  toolMessageStatuses,
  user,
} from "./message/message.ts";
export { MisuseError, misuseReasons } from "./failure/misuse.ts";
export { modelRef } from "./call/model-ref.ts";
export { isTransient } from "./message/origin.ts";
export { budgets, haltedReasonOf, knownHaltedReasons, sessionStatusOf } from "./turn/outcome.ts";
export { isStoredType, parse, storedTypes } from "./parse/parse.ts";
export {
  filePart,
  imageDetails,
  imagePart,
  opaquePart,
  reasoningPart,
  textKinds,
  textPart,
  textPhases,
  toolCallPart,
  toolResultPart,
  visibleText,
} from "./message/part.ts";
export { answerForms, answersByReason, pendingReasons } from "./tool/pending.ts";
export { replayFor } from "./message/provider-replay.ts";
export { modelReply, replyText } from "./call/reply.ts";
export { cacheRetentions, jsonSchema, request } from "./call/request.ts";
export { chatResult, isHalted, stepResult } from "./turn/run-results.ts";
export { fromJson, fromTagged, maxTextLength, storedVersion, toJson, toTagged } from "./parse/serialize.ts";
export { sessionStatuses } from "./session/session-status.ts";
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
  thread,
} from "./message/thread.ts";
export { toolResult } from "./tool/tool-result.ts";
export { toolOutcomeParts, toolOutcomeStatus } from "./tool/tool-outcome.ts";
export {
  attachment,
  decodeToolValue,
  encodeToolValue,
  isAttachment,
  maxToolValueDepth,
  toolValueParts,
} from "./tool/tool-value.ts";
export { replayPolicies, reservedToolNames, toolCall, toolSpec } from "./tool/tool.ts";
export { addUsage, noUsage, totalTokens, uncachedInputTokens, usage } from "./call/usage.ts";
export { validateImageRequest } from "./parse/validate-image-request.ts";
export { validateMessage, validateRequest, validateSession, validateThread, validateTool } from "./parse/validate.ts";
