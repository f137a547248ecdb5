// Parses data from outside the process: an HTTP body, a file, a database row. This is the only place that checks the
// shape of a stored type; everything that receives a parsed value trusts its type.
//
// The table `shapes` lists the stored types.

import type { ValidationFailure } from "../failure/failure.ts";
import type { Result } from "../failure/result.ts";
import type { InferShapes, Shape } from "./shape.ts";

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
import { eventShape } from "../turn/event.ts";
import { outcomeShape } from "../turn/outcome.ts";
import { chatResultShape, stepResultShape } from "../turn/run-results.ts";
import { keysOf } from "./json.ts";
import { read } from "./shape.ts";

const shapes = {
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

/** The types that can be stored, by the tag they are stored with. */
export type StoredTypes = InferShapes<typeof shapes>;

/** The name of a type that {@link parse} and the serializer understand, for example `session`. */
export type StoredType = keyof StoredTypes;

const shapeOf: { readonly [K in StoredType]: Shape<StoredTypes[K]> } = shapes;

/** Returns whether a value is the tag of a stored type. */
export function isStoredType(name: unknown): name is StoredType {
  return typeof name === "string" && Object.hasOwn(shapes, name);
}

/** The tags of all stored types. */
export const storedTypes: readonly StoredType[] = keysOf(shapes);

/**
 * Reads an unknown value as one of the library's types and fills in defaults. Invalid data is a failure that lists
 * every issue with its path; nothing is thrown.
 *
 * @example
 * ```ts
 * import { parse } from "everturn";
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
  const result = read(shapeOf[type], input);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { type } }));
}
