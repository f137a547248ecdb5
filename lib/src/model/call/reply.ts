// What a model call came to, once all of it had arrived.

import type { Failure } from "../failure/failure.ts";
import type { AssistantMessage } from "../message/message.ts";
import type { ProviderRoute } from "../message/provider-replay.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { FinishReason } from "./finish-reason.ts";
import type { Usage } from "./usage.ts";

import { failureShape } from "../failure/failure.ts";
import { assistantMessageShape, messageText } from "../message/message.ts";
import { providerRouteShape } from "../message/provider-replay.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  construct,
  fallback,
  json,
  nullable,
  object,
  oneOf,
  required,
  settings,
  string,
} from "../parse/shape.ts";
import { toolCallShape } from "../tool/tool.ts";
import { finishReasons } from "./finish-reason.ts";
import { noUsage, usageShape } from "./usage.ts";

/**
 * The result of one model call. When the call failed after it started, `error` holds the failure and the other
 * fields hold what was received before.
 */
export type ModelReply = {
  /** The provider's id of this reply. */
  readonly id: string | null;
  readonly requestId: string | null;
  /** The model that answered, as the provider names it. */
  readonly model: string | null;
  /** The way the call took, with the model as it was asked for. */
  readonly route: ProviderRoute | null;
  readonly message: AssistantMessage | null;
  readonly outputText: string | null;
  readonly finishReason: FinishReason | null;
  /** The provider's own word for it. */
  readonly rawFinishReason: string | null;
  readonly toolCalls: readonly ToolCall[];
  /** What was asked for in a schema, read and checked; `null` when nothing was, or it did not fit. */
  readonly output: StructuredOutput | null;
  readonly usage: Usage;
  /** What went wrong, when `finishReason` is `error`. What had arrived by then is in the other fields. */
  readonly error: Failure | null;
  /** The provider's answer as it came, when it was asked to be kept. */
  readonly raw: Json;
  readonly metadata: JsonObject;
};

/** In a box, because `null` is a value a schema may allow. */
export type StructuredOutput = { readonly value: Json };

export const structuredOutputShape: Shape<StructuredOutput> = object<StructuredOutput>({ value: required(json) });

export const replyShape: Shape<ModelReply> = object<ModelReply>({
  id: fallback(nullable(string), null),
  requestId: fallback(nullable(string), null),
  model: fallback(nullable(string), null),
  route: fallback(nullable(providerRouteShape), null),
  message: fallback(nullable(assistantMessageShape), null),
  outputText: fallback(nullable(string), null),
  finishReason: fallback(nullable(oneOf(finishReasons)), null),
  rawFinishReason: fallback(nullable(string), null),
  toolCalls: fallback(array(toolCallShape), []),
  output: fallback(nullable(structuredOutputShape), null),
  usage: fallback(usageShape, noUsage),
  error: fallback(nullable(failureShape), null),
  raw: fallback(json, null),
  metadata: fallback(settings, emptyObject),
});

/**
 * Builds a model reply and fills in defaults. For adapters and tests. Throws `MisuseError` for an unknown field or
 * a wrong type.
 */
export function modelReply(fields: Partial<ModelReply> = {}): ModelReply {
  return construct("modelReply", replyShape, fields);
}

/** Returns the text of a reply: `outputText` if it is set, else the text of the message, else `null`. */
export function replyText(reply: ModelReply): string | null {
  if (reply.outputText !== null) return reply.outputText;
  return reply.message === null ? null : messageText(reply.message);
}
