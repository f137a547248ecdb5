// What the image adapters share: requests whose failures are `ImageAdapterError`s. The key is removed from errors and
// from `raw`.

import type { AdapterCall, ImageAdapter, Timeouts } from "../engine/internal.ts";
import type {
  Failure,
  FailureDetails,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  ImageContent,
  ImageOperation,
  ImageRequest,
  ImageResponse,
  Json,
  JsonObject,
} from "../model/internal.ts";
import type { JsonCall, JsonServer } from "./json-request.ts";

import { defaultTimeouts, redacted } from "../engine/internal.ts";
import { EngineError, ImageAdapterError, imageAdapterFailure, isJsonArray } from "../model/internal.ts";
import { detectImageType } from "../wire/internal.ts";
import { checkCallOptions } from "./call-options.ts";
import { requestJson } from "./json-request.ts";
import { modelNameFor } from "./model-name.ts";

/** One request to an image server. */
export type ImageCall = Pick<JsonCall, "model" | "path" | "body">;

/** The response of an image server. */
export type ImageAnswer = {
  readonly body: JsonObject;
  /** The body with `"[image]"` in place of the image bytes, which are stored once, in `images`. */
  readonly raw: JsonObject;
  /** The request id that the server assigned. */
  readonly requestId: string | null;
};

/**
 * An adapter whose operations are one request each. `encode` throws `ImageAdapterError` for what the model does not
 * support.
 */
export function imageAdapter(
  server: JsonServer,
  operations: readonly ImageOperation[],
  encode: (request: ImageRequest) => ImageCall,
  decode: (answer: ImageAnswer, request: ImageRequest, model: string) => ImageResponse,
): ImageAdapter {
  const { provider } = server;
  return {
    provider,
    operations,
    checkOptions: (options) => checkCallOptions(provider, options),
    generate: async (request, call) => {
      const encoded = encode(request);
      return decode(await requestImages(server, encoded, call), request, encoded.model);
    },
  };
}

/**
 * Default timeouts of image calls, in milliseconds. Servers send headers only when the image is finished, which takes
 * minutes with the larger models.
 */
const imageTimeouts: Timeouts = { ...defaultTimeouts, connect: 300_000 };

/**
 * Sends one request. Throws `ImageAdapterError` for a failure, an HTTP error, a stream, or a body that is not a JSON
 * object.
 */
async function requestImages(server: JsonServer, request: ImageCall, call: AdapterCall): Promise<ImageAnswer> {
  const answer = await requestJson(server, { ...request, api: "images", timeouts: imageTimeouts }, call);
  if (!answer.ok) throw new ImageAdapterError(imageFailureOf(answer.failure, server.provider));
  const { body, requestId, redact } = answer;
  // The key is removed from each string and not from the complete text: a short key can occur by chance in the base64
  // of an image.
  return {
    body: mapStrings(body, (text, isBytes) => (isBytes ? text : redact(text))),
    // Like a raw chunk of a chat call, the raw body passes the redaction hook of the program.
    raw: mapStrings(body, (text, isBytes) => (isBytes ? "[image]" : redacted(redact(text), "provider"))),
    requestId,
  };
}

/** The error for a request that is refused before it is sent. */
export function requestError(
  reason: ImageAdapterErrorReason,
  provider: string,
  message: string,
  details: FailureDetails<ImageAdapterFailure> = {},
): ImageAdapterError {
  return new ImageAdapterError(reason, { provider, message: `${provider}: ${message}`, ...details });
}

/** Throws for a request of URLs to a model that returns data. */
export function refuseUrls({ responseFormat }: ImageRequest, provider: string, model: string): void {
  if (responseFormat !== "url") return;
  const message = `${model} returns image data and no URLs; leave out responseFormat: "url"`;
  throw requestError("unsupported_feature", provider, message);
}

/** The error for an input image that the provider cannot read: a file on disk, or a file of another provider. */
export function unreadableImage(source: ImageContent["source"], provider: string): ImageAdapterError {
  const message =
    source.type === "provider_file"
      ? `the image was uploaded to ${source.provider}; send its data`
      : "the image is a file on disk; read it and send its data";
  return requestError("unsupported_feature", provider, message);
}

/** The MIME type of an input image. Throws if there is none. */
export function requiredMimeType(image: ImageContent, provider: string): string {
  const type = mimeTypeOf(image);
  if (type !== null) return type;
  const message = "an image has no MIME type, and none can be detected from its data; set mimeType";
  throw requestError("invalid_request", provider, message);
}

/**
 * The name of the requested model. Throws `EngineError` (`missing_model`) if there is none, or if it is of another
 * provider.
 */
export function modelOf({ model }: ImageRequest, provider: string): string {
  const name = modelNameFor({ provider }, model);
  if (name !== "") return name;
  const message = `no image model is set for ${provider}; set one: generateImage(engine, prompt, { model: "…" })`;
  throw new EngineError("missing_model", { provider, message });
}

/** Throws for an operation that the model does not support, and for a mask without an edit. */
export function checkOperation(
  provider: string,
  model: string,
  { operation, mask }: ImageRequest,
  possible: readonly ImageOperation[],
): void {
  if (!possible.includes(operation)) {
    const message = `${model} cannot do ${operation}; it can do ${possible.join(", ")}`;
    throw requestError("unsupported_operation", provider, message, { metadata: { operation, model } });
  }
  if (mask !== null && operation !== "edit") {
    throw requestError(
      "invalid_request",
      provider,
      `a mask is only valid for the operation edit; ${operation} takes none`,
    );
  }
}

/** The MIME type of an image: the given one, or the one detected from the first bytes. `null`: unknown. */
export function mimeTypeOf({ source, mimeType }: Pick<ImageContent, "source" | "mimeType">): string | null {
  if (mimeType !== null || source.type !== "base64") return mimeType;
  return detectImageType(source.data);
}

/** Converts a failure of the transport or of a codec to a failure of an image call. */
function imageFailureOf(failure: Failure, provider: string): ImageAdapterFailure {
  const { message, cause } = failure;
  if (failure.type !== "adapter_error" && failure.type !== "stream_error") {
    return imageAdapterFailure("unknown", { provider, message, cause });
  }
  const { status, retryAfterMs, requestId, retryable, kind, code, raw, metadata } = failure;
  const details = { provider, message, cause, status, retryAfterMs, requestId, retryable, kind, code, raw, metadata };
  return imageAdapterFailure(imageReason(failure), details);
}

/** Maps the reasons of model calls to those of image calls. */
function imageReason(failure: Extract<Failure, { type: "adapter_error" | "stream_error" }>): ImageAdapterErrorReason {
  // A code that only the images API of OpenAI uses.
  if (failure.code === "moderation_blocked") return "content_filter";
  switch (failure.reason) {
    case "no_scripted_response":
    case "adapter_error":
    case "cancelled":
      return "unknown";
    case "interrupted":
      return "network_error";
    case "malformed_event":
      return "malformed_response";
    default:
      return failure.reason;
  }
}

/** Deepest nesting of a response body that is read. */
const maxBodyDepth = 64;

/**
 * Maps every string of a JSON object. `isBytes`: the field holds image bytes (`b64_json`, `data`). Values below
 * `maxBodyDepth` become `null`.
 */
function mapStrings(object: JsonObject, text: (text: string, isBytes: boolean) => string): JsonObject {
  const mapValue = (value: Json, name: string, depth: number): Json => {
    if (typeof value === "string") return text(value, name === "b64_json" || name === "data");
    if (typeof value !== "object" || value === null) return value;
    if (depth > maxBodyDepth) return null;
    return isJsonArray(value) ? value.map((item) => mapValue(item, "", depth + 1)) : mapObject(value, depth + 1);
  };
  const mapObject = (value: JsonObject, depth: number): JsonObject =>
    Object.fromEntries(Object.entries(value).map(([name, item]) => [name, mapValue(item, name, depth)]));
  return mapObject(object, 0);
}
