// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./index.ts";
export * from "./advanced.ts";
export * from "./words.ts";
export type { Closeable } from "./closeable.ts";
export { closeable } from "./closeable.ts";

// call
export type { ImageOperation } from "./call/image-operation.ts";
export type { ImageSize, ImageUsage } from "./call/image-request.ts";
export { imageUsage } from "./call/image-request.ts";
export type { ModelCapabilities, ModelLimits, ModelPricing } from "./call/model-ref.ts";
export type { StructuredOutput } from "./call/reply.ts";
export { isDraft, replyOf, textOfReply, withText } from "./call/reply.ts";
export type { PromptCacheSettings, ResponseFormat, StructuredFormat } from "./call/request.ts";
export { boundedSum, exactSum, hasValidCounts, knownCost, noUsage, uncachedInputTokens } from "./call/usage.ts";

// failure
export { errorFromFailure } from "./failure/errors.ts";
export type {
  AdapterErrorReason,
  EngineErrorReason,
  FailureCause,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  RetryDisposition,
  RuntimeErrorReason,
  StreamErrorReason,
  ToolErrorReason,
  ValidationErrorReason,
} from "./failure/failure.ts";
export { failureTypes } from "./failure/failure.ts";
export { invalidArgument } from "./failure/misuse.ts";
export { httpStatusOf, raisedToolReasons } from "./failure/failure-reasons.ts";
export type { FailureDetails } from "./failure/failures.ts";
export {
  engineFailure,
  imageAdapterFailure,
  runtimeFailure,
  streamFailure,
  toCause,
  validationFailure,
} from "./failure/failures.ts";
export type { HttpReason } from "./failure/http-reason.ts";
export { httpReasons, httpStatuses } from "./failure/http-reason.ts";
export type { Path } from "./failure/issue.ts";
export { isAboutStorage, renderPath } from "./failure/issue.ts";

// message
export { toBase64 } from "./message/base64.ts";
export { compactionItem } from "./message/compaction-item.ts";
export type { ContentSource } from "./message/content-source.ts";
export { finalizeNudgeMetadata, isFinalizeNudge } from "./message/finalize-nudge.ts";
export { textHead, truncateMiddle } from "./message/truncate-text.ts";
export { image } from "./message/image.ts";
export type { AssistantPart, UserPart } from "./message/message.ts";
export { awaitingUserContent, message, normalizeContent, toolMessage } from "./message/message.ts";
export type { CausalRef } from "./message/origin.ts";
export { isTransient } from "./message/origin.ts";
export type { OpaquePart, TextPhase, ToolResultPart } from "./message/part.ts";
export { opaquePart, toolCallPart, toolResultPart } from "./message/media-part.ts";
export { reasoningPart, textOrPlaceholder } from "./message/part.ts";
export type { ProviderRoute } from "./message/provider-replay.ts";
export { replayFor } from "./message/provider-replay.ts";

// parse
export { canonicalJson } from "./parse/canonical-json.ts";
export { isJsonArray, isJsonObject, parseJson } from "./parse/json.ts";
export type { StoredTypes } from "./parse/parse.ts";
export { fromTagged, toTagged } from "./parse/serialize.ts";
export { withFiniteNumbers } from "./parse/finite-numbers.ts";
export { isStorableJson } from "./parse/storable-json.ts";
export { blankUserIssues } from "./parse/validate.ts";
export { validateImageRequest } from "./parse/validate-image-request.ts";

// session
export type { Compaction, CompactionRequest } from "./session/context-window.ts";
export { storedWindow, wholeHistory, windowUpTo } from "./session/context-window.ts";
export type { AuditEntry } from "./session/audit.ts";
export type { Overview, TurnTimeline } from "./session/inspection.ts";
export type {
  OpenTurnView,
  RuntimeEvent,
  SessionFilter,
  SessionFilterStatus,
  SessionSummary,
  SessionView,
  TurnEnd,
  TurnStatus,
} from "./session/session-view.ts";
export { sessionFilterStatuses } from "./session/session-view.ts";
export type { LastRun } from "./session/session.ts";

// tool
export type { AnswerForm, ForwardedAnswer, PendingReason } from "./tool/pending.ts";
export {
  answersByReason,
  changedParts,
  deadlineAnswer,
  decidedArguments,
  handlerWait,
  isEdited,
  withDigest,
} from "./tool/pending.ts";
export { UniqueCallIds } from "./tool/unique-call-ids.ts";
export type { ToolControl } from "./tool/tool-outcome.ts";
export { toolFailureText, toolOutcomeParts, toolOutcomeStatus, unknownToolText } from "./tool/tool-outcome.ts";
export type { ProgramValue, ToolValue } from "./tool/tool-value.ts";
export {
  decodeToolValue,
  encodeToolValue,
  isAttachment,
  maxToolValueDepth,
  toolValueParts,
} from "./tool/tool-value.ts";
export type { ProviderTool, ReplayPolicy, ToolCallInput } from "./tool/tool.ts";
export { argumentsText } from "./tool/tool.ts";

// turn
export type { CellCall, SuspendedCell } from "./turn/environment.ts";
export type { AcceptedInput, Attempt, EventOf, MessageCompleted, NoticeEvent } from "./turn/event.ts";
export { isTerminal, messageCompleted, modelEventTypes } from "./turn/event.ts";
export type { Budget, CancelEvidence } from "./turn/outcome.ts";
export { haltedReasonOf, sessionStatusOf } from "./turn/outcome.ts";
export { deltaText, missingTexts, ReplyParts } from "./turn/reply-parts.ts";
export type { TurnCause } from "./turn/turn-cause.ts";
export type { Budgets, WaitPolicy, Waits } from "./turn/turn-limits.ts";
