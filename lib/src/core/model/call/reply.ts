// The reply of a model call, complete. The collector of the kernel builds one from the events of a stream; it is stored
// in the journal and in step results.

import type { ImageContent } from "../message/image-content.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Infer, Shape } from "../parse/shape.ts";
import type { FinishReason } from "./finish-reason.ts";

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

const structuredOutputFields = { value: required(json) };

/**
 * A structured output. Wrapped in an object, because `null` is a valid value of some schemas and also means "no
 * output".
 */
export type StructuredOutput = Infer<typeof structuredOutputFields>;

export const structuredOutputShape: Shape<StructuredOutput> = object(structuredOutputFields);

const replyFields = {
  /** The provider's id of this reply. */
  id: fallback(nullable(string), null),
  /** The id of the HTTP request, as the provider reports it; support asks for this one. */
  requestId: fallback(nullable(string), null),
  /** The model that answered, as the provider names it. */
  model: fallback(nullable(string), null),
  /** Provider, endpoint and requested model of the call: the route that replay data belongs to. */
  route: fallback(nullable(providerRouteShape), null),
  /** The reply as a message of the thread; `null` if nothing was received. */
  message: fallback(nullable(assistantMessageShape), null),
  /** The text of the reply; `null` without text. */
  outputText: fallback(nullable(string), null),
  /** Why the model stopped; `null` if the provider gave no reason, or if the reply is incomplete. */
  finishReason: fallback(nullable(oneOf<FinishReason>(finishReasons)), null),
  /** The provider's finish reason, verbatim. */
  rawFinishReason: fallback(nullable(string), null),
  /** The tool calls of the reply, in order. */
  toolCalls: fallback(array(toolCallShape), []),
  /** The structured output, parsed and checked; `null` if none was requested or the text does not match the schema. */
  output: fallback(nullable(structuredOutputShape), null),
  /** Tokens and cost of this call. */
  usage: fallback(usageShape, noUsage),
  /** The failure, if `finishReason` is `error`. The other fields hold what was received before it. */
  error: fallback(nullable(failureShape), null),
  /**
   * What of the request the provider did not get as the caller wrote it, for example a `seed` that its API does not
   * have. Empty if everything was sent.
   */
  warnings: fallback(array(warningShape), []),
  /** The provider's response body, if the caller asks to keep it; otherwise `null`. */
  raw: fallback(json, null),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/**
 * The result of one model call. When the call failed after it started, `error` holds the failure and the other
 * fields hold what was received before.
 */
export type ModelReply = Infer<typeof replyFields>;

export const replyShape: Shape<ModelReply> = object(replyFields);

/**
 * Builds a model reply and fills in defaults. For adapters and tests. Throws `MisuseError` for an unknown field or
 * a wrong type.
 */
export function modelReply(fields: Partial<ModelReply> = {}): ModelReply {
  return construct("modelReply", replyShape, fields);
}

const emptyReply = modelReply();

/**
 * A reply with defaults, for code of the library: the compiler has checked the fields, so they are not read with the
 * shape.
 */
export function replyOf(fields: Partial<ModelReply>): ModelReply {
  return { ...emptyReply, ...fields };
}

/**
 * Returns the images that the model generated in a reply, in order. Drafts, which Gemini generates while it thinks, are
 * left out; they are in `reply.message` with `thought` in their metadata.
 *
 * @example
 * ```ts
 * import { assistant, imageFromBase64, imagePart, replyImages } from "everturn"; import { modelReply } from "everturn/advanced";
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

/** A result with the text of its reply. Every verb returns one; stored results do not have the field. */
export type WithText<Result> = Result & {
  /** The text of the last reply of the model; `""` if there is none, or if it has no text. */
  readonly text: string;
};

/** Adds the text of the reply to a result. `reply`: `null` if the model has not replied. */
export function withText<Result extends object>(result: Result, reply: ModelReply | null): WithText<Result> {
  return { ...result, text: textOfReply(reply) };
}

/** The text of a reply; `""` without a reply, or without text. */
export function textOfReply(reply: ModelReply | null): string {
  return reply === null ? "" : (replyText(reply) ?? "");
}

/** Returns the text of a reply: `outputText` if it is set, else the text of the message, else `null`. */
export function replyText(reply: ModelReply): string | null {
  if (reply.outputText !== null) return reply.outputText;
  return reply.message === null ? null : messageText(reply.message);
}
