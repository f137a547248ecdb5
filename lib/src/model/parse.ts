// The door for data from elsewhere: an HTTP body, a file, a row. Past it nothing checks a shape again.

import type { Environment, SuspendedCell } from "./environment.ts";
import type { TurnEvent } from "./event.ts";
import type { Failure, ValidationFailure } from "./failure.ts";
import type { ImageRequest, ImageResponse, ImageUsage } from "./image-request.ts";
import type { ImageContent } from "./image.ts";
import type { JsonObject } from "./json.ts";
import type { Message } from "./message.ts";
import type { ModelRef } from "./model-ref.ts";
import type { TurnOutcome } from "./outcome.ts";
import type { Part } from "./part.ts";
import type { PendingToolCall } from "./pending.ts";
import type { ModelReply } from "./reply.ts";
import type { ModelRequest } from "./request.ts";
import type { Result } from "./result.ts";
import type { ChatResult, StepResult } from "./run-results.ts";
import type { Session } from "./session.ts";
import type { Shape } from "./shape.ts";
import type { Thread } from "./thread.ts";
import type { ToolOutcome } from "./tool-outcome.ts";
import type { ToolSpec, ToolCall } from "./tool.ts";
import type { Usage } from "./usage.ts";

import { environmentShape, suspendedCellShape } from "./environment.ts";
import { eventShape } from "./event-shape.ts";
import { failureShape } from "./failure.ts";
import { validationFailure } from "./failures.ts";
import { imageRequestShape, imageResponseShape, imageUsageShape } from "./image-request.ts";
import { imageShape } from "./image.ts";
import { messageShape } from "./message.ts";
import { modelRefShape } from "./model-ref.ts";
import { outcomeShape } from "./outcome.ts";
import { partShape } from "./part.ts";
import { pendingToolCallShape } from "./pending.ts";
import { replyShape } from "./reply.ts";
import { requestShape } from "./request.ts";
import { failed, ok } from "./result.ts";
import { chatResultShape, stepResultShape } from "./run-results.ts";
import { sessionShape } from "./session.ts";
import { read } from "./shape.ts";
import { threadShape } from "./thread.ts";
import { toolOutcomeShape } from "./tool-outcome.ts";
import { toolCallShape, toolShape } from "./tool.ts";
import { usageShape } from "./usage.ts";

/** Everything that can be stored, by the name it is stored under. */
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

/** Is this the name of something that can be stored? */
export function isStoredType(name: unknown): name is StoredType {
  return typeof name === "string" && Object.hasOwn(shapes, name);
}

/** The names of everything that can be stored. */
export const storedTypes: readonly StoredType[] = Object.keys(shapes).filter(isStoredType);

/**
 * Reads unknown JSON as a value of one of our types, filling in what it leaves out. Never throws on JSON: what does not fit
 * is a failure that lists every place and what is wrong there.
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
    const message = `no type has this name; known are ${storedTypes.join(", ")}`;
    return failed(validationFailure("invalid_data", { issues: [{ path: [], code: "unknown_type_tag", message }] }));
  }
  const outcome = read(shapes[type], input);
  if ("value" in outcome) return ok(outcome.value);
  return failed(validationFailure("invalid_data", { issues: outcome.issues, metadata: { type } }));
}
