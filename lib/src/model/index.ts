// The door of layer A: plain, readonly data, and the ways in and out of it. What is not named here can change today.

export type { Base64Source, ContentSource, FileSource, ProviderFileSource, UrlSource } from "./content-source.ts";
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
} from "./event.ts";
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
} from "./failure.ts";
export type { CellCall, Environment, SuspendedCell } from "./environment.ts";
export type { FailureDetails } from "./failures.ts";
export type { FinishReason } from "./finish-reason.ts";
export type { ImageOperation } from "./image-operation.ts";
export type {
  ImageBackground,
  ImageFormat,
  ImageRequest,
  ImageResponse,
  ImageSize,
  ImageStyle,
  ImageUsage,
} from "./image-request.ts";
export type { ImageContent, ImageInput, ImageProblem, ReadFile } from "./image.ts";
export type { Issue, IssueCode, Path } from "./issue.ts";
export type { Json, JsonObject } from "./json.ts";
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
} from "./message.ts";
export type { MisuseReason } from "./misuse.ts";
export type { ModelCapabilities, ModelLimits, ModelName, ModelPricing, ModelRef } from "./model-ref.ts";
export type { CausalRef, MessageOrigin, PluginOrigin, ProcessOrigin, TurnInputOrigin } from "./origin.ts";
export type { Budget, CancelEvidence, HaltedReason, KnownHaltedReason, StatusFacts, TurnOutcome } from "./outcome.ts";
export type { StoredType, StoredTypes } from "./parse.ts";
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
} from "./part.ts";
export type {
  AnswerForm,
  AnswerKind,
  Decision,
  ForwardedAnswer,
  PendingReason,
  PendingToolCall,
  PendingToolCallInput,
} from "./pending.ts";
export type { ProviderReplay, ProviderRoute, ReplayVerdict } from "./provider-replay.ts";
export type { ModelReply, StructuredOutput } from "./reply.ts";
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
} from "./request.ts";
export type { Result } from "./result.ts";
export type { ChatMetadata, ChatResult, StepMetadata, StepResult, StructuredFinalizeDetails } from "./run-results.ts";
export type { Restored, RestoredAs, StorableTypes, Tagged, Unrecognised } from "./serialize.ts";
export type { SessionStatus } from "./session-status.ts";
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
} from "./session-view.ts";
export type { CallerContext, LastRun, Session, SessionFields } from "./session.ts";
export type { Thread, ThreadInput } from "./thread.ts";
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
} from "./tool-outcome.ts";
export type { Attachment, ProgramValue, ToolValue } from "./tool-value.ts";
export type {
  ProviderTool,
  ReplayPolicy,
  ToolCall,
  ToolCallInput,
  ToolChoice,
  ToolSpec,
  ToolSpecInput,
} from "./tool.ts";
export type { Usage } from "./usage.ts";

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
} from "./errors.ts";
export { truncateMiddle } from "./cut-text.ts";
export { eventTypes, isEvent } from "./event-shape.ts";
export { checkpointKinds, stepResetReasons, toolModes } from "./event.ts";
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
} from "./failure.ts";
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
} from "./failures.ts";
export { finishReasons } from "./finish-reason.ts";
export { imageOperations } from "./image-operation.ts";
export {
  imageBackgrounds,
  imageFormats,
  imageRequest,
  imageResponse,
  imageStyles,
  imageUsage,
} from "./image-request.ts";
export {
  image,
  imageFromBase64,
  imageFromBinary,
  imageFromFile,
  imageFromUrl,
  imageToBinary,
  imageToDataUri,
} from "./image.ts";
export { issueCodes, renderIssue, renderPath } from "./issue.ts";
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
} from "./message.ts";
export { MisuseError, misuseReasons } from "./misuse.ts";
export { modelRef } from "./model-ref.ts";
export { isTransient } from "./origin.ts";
export { budgets, haltedReasonOf, knownHaltedReasons, sessionStatusOf } from "./outcome.ts";
export { isStoredType, parse, storedTypes } from "./parse.ts";
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
} from "./part.ts";
export { answerForms, answersByReason, pendingReasons } from "./pending.ts";
export { replayFor } from "./provider-replay.ts";
export { modelReply, replyText } from "./reply.ts";
export { cacheRetentions, jsonSchema, request } from "./request.ts";
export { chatResult, isHalted, stepResult } from "./run-results.ts";
export { fromJson, fromTagged, maxTextLength, storedVersion, toJson, toTagged } from "./serialize.ts";
export { sessionStatuses } from "./session-status.ts";
export { append, appendToolResult, appendUser, messages, pendingToolCalls, session, sessionError } from "./session.ts";
export {
  addAssistant,
  addMessage,
  addMessages,
  addSystem,
  addUser,
  fromMessages,
  lastMessage,
  thread,
} from "./thread.ts";
export { toolResult } from "./tool-result.ts";
export { toolOutcomeParts, toolOutcomeStatus } from "./tool-outcome.ts";
export {
  attachment,
  decodeToolValue,
  encodeToolValue,
  isAttachment,
  maxToolValueDepth,
  toolValueParts,
} from "./tool-value.ts";
export { replayPolicies, reservedToolNames, toolCall, toolSpec } from "./tool.ts";
export { addUsage, noUsage, totalTokens, uncachedInputTokens, usage } from "./usage.ts";
export { validateImageRequest } from "./validate-image-request.ts";
export { validateMessage, validateRequest, validateSession, validateThread, validateTool } from "./validate.ts";
