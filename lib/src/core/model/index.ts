// The names of this folder that `everturn` exports: plain, immutable data, its constructors, parsing, validation and
// serialization.

export type { TurnEvent } from "./turn/event.ts";
export type { Failure } from "./failure/failure.ts";
export type { Json, JsonObject } from "./parse/json.ts";
export type { AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage } from "./message/message.ts";
export type { TurnOutcome } from "./turn/outcome.ts";
export type { FilePart, ImagePart, Part, ReasoningPart, TextPart, ToolCallPart } from "./message/part.ts";
export type { Decision, PendingToolCall, ShownCall } from "./tool/pending.ts";
export type { ModelReply } from "./call/reply.ts";
export type { Warning } from "./call/warning.ts";
export type { ModelRequest } from "./call/request.ts";
export type { Result } from "./failure/result.ts";
export type { ChatResult, StepResult } from "./turn/run-results.ts";
export type { SessionStatus } from "./session/session-status.ts";
export type { CallerContext, Session } from "./session/session.ts";
export type { Thread } from "./message/thread.ts";
export type { ToolOutcome } from "./tool/tool-outcome.ts";
export type { ToolCall } from "./tool/tool.ts";
export type { Usage } from "./call/usage.ts";

export { approvalText, callPath } from "./tool/approval-text.ts";
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
export { imageFromBase64, imageFromBinary, imageFromFile, imageFromUrl, imageToBinary } from "./message/image.ts";
export { assistant, messageText, system, user } from "./message/message.ts";
export { MisuseError } from "./failure/misuse.ts";
export { modelRef } from "./call/model-ref.ts";
export { parse } from "./parse/parse.ts";
export { filePart, imagePart, searchResultPart } from "./message/media-part.ts";
export { textPart } from "./message/part.ts";
export { replyImages } from "./call/reply.ts";
export { fromJson, toJson } from "./parse/serialize.ts";
export { append, newSession } from "./session/session.ts";
export { fromMessages } from "./message/thread.ts";
export { toolResult } from "./tool/tool-result.ts";
export { visibleText } from "./message/visible-text.ts";
export { validateThread } from "./parse/validate.ts";
