// The reply of a model call, complete. The collector of the kernel builds one from the events of a stream; it is stored in the journal and
// in step results.

import type { Failure } from "../failure/failure.ts";
import type { ImageContent } from "../message/image-content.ts";
import type { AssistantMessage } from "../message/message.ts";
import type { ProviderRoute } from "../message/provider-replay.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { FinishReason } from "./finish-reason.ts";
import type { Usage } from "./usage.ts";
import type { Warning } from "./warning.ts";

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
import { warningShape } from "./warning.ts";

/**
 * The result of one model call. When the call failed after it started, `error` holds the failure and the other
 * fields hold what was received before.
 */
export type ModelReply = {
  /** The provider's id of this reply. */
  readonly id: string | null;
  /** The id of the HTTP request, as the provider reports it; support asks for this one. */
  readonly requestId: string | null;
  /** The model that answered, as the provider names it. */
  readonly model: string | null;
  /** Provider, endpoint and requested model of the call: the route that replay data belongs to. */
  readonly route: ProviderRoute | null;
  /** The reply as a message of the thread; `null` if nothing was received. */
  readonly message: AssistantMessage | null;
  /** The text of the reply; `null` without text. */
  readonly outputText: string | null;
  /** Why the model stopped; `null` if the provider gave no reason, or if the reply is incomplete. */
  readonly finishReason: FinishReason | null;
  /** The provider's finish reason, verbatim. */
  readonly rawFinishReason: string | null;
  /** The tool calls of the reply, in order. */
  readonly toolCalls: readonly ToolCall[];
  /** The structured output, parsed and checked; `null` if none was requested or the text does not match the schema. */
  readonly output: StructuredOutput | null;
  /** Tokens and cost of this call. */
  readonly usage: Usage;
  /** The failure, if `finishReason` is `error`. The other fields hold what was received before it. */
  readonly error: Failure | null;
  /** What of the request the provider did not get as the caller wrote it, for example a `seed` that its API does not have. Empty if everything was sent. */
  readonly warnings: readonly Warning[];
  /** The provider's response body, if the caller asks to keep it; otherwise `null`. */
  readonly raw: Json;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

/** A structured output. Wrapped in an object, because `null` is a valid value of some schemas and also means "no output". */
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
  warnings: fallback(array(warningShape), []),
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

/** A reply with defaults, for code of the library: the compiler has checked the fields, so they are not read with the shape. */
export function replyOf(fields: Partial<ModelReply>): ModelReply {
  return {
    id: null,
    requestId: null,
    model: null,
    route: null,
    message: null,
    outputText: null,
    finishReason: null,
    rawFinishReason: null,
    toolCalls: [],
    output: null,
    usage: noUsage,
    error: null,
    warnings: [],
    raw: null,
    metadata: emptyObject,
    ...fields,
  };
}

/**
 * Returns the images that the model generated in a reply, in order. Drafts, which Gemini generates while it thinks, are left out; they are in
 * `reply.message` with `thought` in their metadata.
 *
 * @example
 * ```ts
 * import { assistant, imageFromBase64, imagePart, modelReply, replyImages } from "everturn/model";
 *
 * const drawn = imagePart(imageFromBase64("aGk=", "image/png"));
 * replyImages(modelReply({ message: assistant([drawn]) })).map(({ mimeType }) => mimeType); // => ["image/png"]
 * ```
 */
export function replyImages({ message }: ModelReply): readonly ImageContent[] {
  if (message === null || typeof message.content === "string") return [];
  return message.content.flatMap((part) => (part.type === "image" && !isDraft(part.metadata) ? [part.image] : []));
}

/** Is a part with this metadata a draft that the model generated while it was thinking? */
export function isDraft(metadata: JsonObject): boolean {
  return metadata["thought"] === true;
}

/** Returns the text of a reply: `outputText` if it is set, else the text of the message, else `null`. */
export function replyText(reply: ModelReply): string | null {
  if (reply.outputText !== null) return reply.outputText;
  return reply.message === null ? null : messageText(reply.message);
}
