// Parses data from outside the process: an HTTP body, a file, a database row. This is the only place that checks the shape of a stored type;
// everything that receives a parsed value trusts its type.
//
// The two tables below list the stored types. Both are typed by each other, so a type without a shape does not compile.

import type { ImageRequest, ImageResponse, ImageUsage } from "../call/image-request.ts";
import type { ModelRef } from "../call/model-ref.ts";
import type { ModelReply } from "../call/reply.ts";
import type { ModelRequest } from "../call/request.ts";
import type { Usage } from "../call/usage.ts";
import type { Failure, ValidationFailure } from "../failure/failure.ts";
import type { Result } from "../failure/result.ts";
import type { ImageContent } from "../message/image-content.ts";
import type { Message } from "../message/message.ts";
import type { Part } from "../message/part.ts";
import type { Thread } from "../message/thread.ts";
import type { Session } from "../session/session.ts";
import type { PendingToolCall } from "../tool/pending.ts";
import type { ToolOutcome } from "../tool/tool-outcome.ts";
import type { ToolSpec, ToolCall } from "../tool/tool.ts";
import type { Environment, SuspendedCell } from "../turn/environment.ts";
import type { TurnEvent } from "../turn/event.ts";
import type { TurnOutcome } from "../turn/outcome.ts";
import type { ChatResult, StepResult } from "../turn/run-results.ts";
import type { JsonObject } from "./json.ts";
import type { Shape } from "./shape.ts";

import { imageRequestShape, imageResponseShape, imageUsageShape } from "../call/image-request.ts";
import { modelRefShape } from "../call/model-ref.ts";
import { replyShape } from "../call/reply.ts";
import { requestShape } from "../call/request.ts";
import { usageShape } from "../call/usage.ts";
import { failureShape } from "../failure/failure.ts";
import { validationFailure } from "../failure/failures.ts";
import { failed, ok } from "../failure/result.ts";
import { imageShape } from "../message/image-content.ts";
import { messageShape } from "../message/message.ts";
import { partShape } from "../message/part.ts";
import { threadShape } from "../message/thread.ts";
import { sessionShape } from "../session/session.ts";
import { pendingToolCallShape } from "../tool/pending.ts";
import { toolOutcomeShape } from "../tool/tool-outcome.ts";
import { toolCallShape, toolShape } from "../tool/tool.ts";
import { environmentShape, suspendedCellShape } from "../turn/environment.ts";
import { eventShape } from "../turn/event-shape.ts";
import { outcomeShape } from "../turn/outcome.ts";
import { chatResultShape, stepResultShape } from "../turn/run-results.ts";
import { read } from "./shape.ts";

/** The types that can be stored, by the tag they are stored with. */
export type StoredTypes = {
  readonly message: Message;
  readonly part: Part;
  readonly tool: ToolSpec;
  readonly tool_call: ToolCall;
  readonly tool_outcome: ToolOutcome;
  readonly request: ModelRequest;
  readonly reply: ModelReply;
  readonly usage: Usage;
  readonly model_ref: ModelRef;
  readonly thread: Thread;
  readonly step_result: StepResult;
  readonly chat_result: ChatResult;
  readonly outcome: TurnOutcome;
  readonly session: Session<JsonObject>;
  readonly pending_tool_call: PendingToolCall;
  readonly environment: Environment;
  readonly suspended_cell: SuspendedCell;
  readonly event: TurnEvent;
  readonly failure: Failure;
  readonly image: ImageContent;
  readonly image_request: ImageRequest;
  readonly image_response: ImageResponse;
  readonly image_usage: ImageUsage;
};

/** The name of a type that {@link parse} and the serializer understand, for example `session`. */
export type StoredType = keyof StoredTypes;

const shapes: { readonly [K in StoredType]: Shape<StoredTypes[K]> } = {
  message: messageShape,
  part: partShape,
  tool: toolShape,
  tool_call: toolCallShape,
  tool_outcome: toolOutcomeShape,
  request: requestShape,
  reply: replyShape,
  usage: usageShape,
  model_ref: modelRefShape,
  thread: threadShape,
  step_result: stepResultShape,
  chat_result: chatResultShape,
  outcome: outcomeShape,
  session: sessionShape,
  pending_tool_call: pendingToolCallShape,
  environment: environmentShape,
  suspended_cell: suspendedCellShape,
  event: eventShape,
  failure: failureShape,
  image: imageShape,
  image_request: imageRequestShape,
  image_response: imageResponseShape,
  image_usage: imageUsageShape,
};

/** Returns whether a value is the tag of a stored type. */
export function isStoredType(name: unknown): name is StoredType {
  return typeof name === "string" && Object.hasOwn(shapes, name);
}

/** The tags of all stored types. */
export const storedTypes: readonly StoredType[] = Object.keys(shapes).filter(isStoredType);

/**
 * Reads an unknown value as one of the library's types and fills in defaults. Invalid data is a failure that lists
 * every issue with its path; nothing is thrown.
 *
 * @example
 * ```ts
 * import { parse } from "everturn/model";
 *
 * const good = parse("message", { role: "user", content: "hi" });
 * good.ok && good.value.role; // => "user"
 *
 * const bad = parse("message", { role: "user", content: [{ type: "text" }] });
 * bad.ok ? [] : bad.failure.issues.map((issue) => [issue.path, issue.code]); // => [[["content", 0, "text"], "required"]]
 * ```
 */
export function parse<K extends StoredType>(type: K, input: unknown): Result<StoredTypes[K], ValidationFailure> {
  if (!isStoredType(type)) {
    const message = `no stored type has this name; use one of ${storedTypes.join(", ")}`;
    return failed(validationFailure("invalid_data", { issues: [{ path: [], code: "unknown_type_tag", message }] }));
  }
  const result = read(shapes[type], input);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { type } }));
}
