// What the image adapters share: one HTTP request, its response, and failures as `ImageAdapterError`. The key is removed from errors and from `raw`.

import type { AdapterCall, FetchLike, Timeouts } from "../engine/internal.ts";
import type {
  Failure,
  FailureCause,
  FailureDetails,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  ImageContent,
  ImageOperation,
  ImageRequest,
  Json,
  JsonObject,
} from "../model/internal.ts";
import type { CodecLoader } from "../wire/internal.ts";
import type { KeyHeader, ProviderOptions } from "./http-adapter.ts";

import {
  defaultLimits,
  defaultTimeouts,
  findKey,
  sendRequest,
  requestIdOf,
  retryAfter,
  withoutKey,
} from "../engine/internal.ts";
import { EngineError, ImageAdapterError, imageAdapterFailure, isJsonArray, parseJson } from "../model/internal.ts";
import { noQuirks, asObject } from "../wire/internal.ts";
import { headersOfCall, joinHeaders, lowerCaseNames } from "./call-options.ts";
import { readDotenv } from "./dotenv.ts";
import { resolveTimeouts, keyHeader } from "./http-adapter.ts";
import { modelNameFor } from "./model-name.ts";

/** An image server as data. */
export type ImageServer = {
  readonly provider: string;
  /** From `resolveBaseURL`; without a trailing slash. */
  readonly baseURL: string;
  readonly auth: KeyHeader;
  /** Environment variables that may hold the key, in order. */
  readonly variables: readonly string[];
  readonly options: ProviderOptions;
  /** The codec of the provider, which classifies error responses. */
  readonly codec: CodecLoader;
};

/** One request to an image server. */
export type ImageCall = {
  readonly model: string;
  /** Appended to the base URL. */
  readonly path: string;
  readonly body: ImageBody;
};

/** The body of an image request. A form carries the bytes of images. */
export type ImageBody =
  | { readonly type: "json"; readonly value: JsonObject }
  | { readonly type: "form"; readonly form: FormData };

/** The response of an image server. */
export type ImageAnswer = {
  readonly body: JsonObject;
  /** The body with `"[image]"` in place of the image bytes, which are stored once, in `images`. */
  readonly raw: JsonObject;
  /** The request id that the server assigned. */
  readonly requestId: string | null;
};

/** Default timeouts of image calls, in milliseconds. Servers send headers only when the image is finished, which takes minutes with the larger models. */
const imageTimeouts: Timeouts = { ...defaultTimeouts, connect: 300_000 };

/** Sends one request. Throws `ImageAdapterError` for a failure, an HTTP error, a stream, or a body that is not a JSON object. */
export async function requestImages(
  server: ImageServer,
  { model, path, body }: ImageCall,
  call: AdapterCall,
): Promise<ImageAnswer> {
  const { provider, baseURL, options } = server;
  const key = await keyOf(server, call);
  const redact = (text: string) => withoutKey(text, key);
  const send: FetchLike = options.fetch ?? ((url, init) => fetch(url, init));
  const answer = await sendRequest({
    url: `${baseURL}${path}`,
    headers: headersOf(server, body, key, call),
    body: body.type === "json" ? JSON.stringify(body.value) : "",
    provider,
    signal: call.signal,
    // The transport sends text only. A form replaces the body here; `fetch` then writes its `content-type` with the boundary.
    fetch: (url, init) => send(url, body.type === "form" ? { ...init, body: body.form } : init),
    timeouts: resolveTimeouts(provider, options.timeouts ?? {}, imageTimeouts),
    limits: { ...defaultLimits, ...options.limits },
    clock: call.clock,
  });
  switch (answer.type) {
    case "failed":
      throw new ImageAdapterError(imageFailureOf(answer.failure, provider, redact));
    case "refused": {
      const text = redact(answer.text);
      const errorResponse = {
        status: answer.status,
        body: parseJson(text)?.value ?? text,
        requestId: requestIdOf(answer.headers),
        retryAfterMs: retryAfter(answer.headers, call.clock.now()),
      };
      const route = { provider, endpoint: `${baseURL}#images`, model };
      const { decodeError } = await server.codec.load();
      const failure = decodeError(errorResponse, { route, rawChunks: false, quirks: noQuirks });
      throw new ImageAdapterError(imageFailureOf(failure, provider, redact));
    }
    case "stream": {
      // The request asked for no stream. Leaving the iterator closes the connection.
      for await (const _ of answer.frames) break;
      const message = `${provider} answered with a stream`;
      throw new ImageAdapterError("malformed_response", { provider, message, requestId: requestIdOf(answer.headers) });
    }
    case "body": {
      const requestId = requestIdOf(answer.headers);
      const bodyObject = asObject(parseJson(answer.text)?.value);
      if (bodyObject === null) {
        const message = `${provider} answered with a body that is not a JSON object`;
        const raw = redact(answer.text);
        throw new ImageAdapterError("malformed_response", { provider, requestId, message, raw });
      }
      // The key is removed from each string and not from the complete text: a short key can occur by chance in the base64 of an image.
      return {
        body: mapStrings(bodyObject, (text, isBytes) => (isBytes ? text : redact(text))),
        raw: mapStrings(bodyObject, (text, isBytes) => (isBytes ? "[image]" : redact(text))),
        requestId: requestId === null ? null : redact(requestId),
      };
    }
  }
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

/** The name of the requested model. Throws `EngineError` (`missing_model`) if there is none, or if it is of another provider. */
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
  const match = imageTypesByPrefix.find(([prefix]) => source.data.startsWith(prefix));
  return match === undefined ? null : match[1];
}

/** MIME types by the first base64 characters of the data. */
const imageTypesByPrefix: readonly (readonly [string, string])[] = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["UklGR", "image/webp"],
  ["R0lGOD", "image/gif"],
];

/** Converts a failure of the transport or of a codec to a failure of an image call. */
function imageFailureOf(failure: Failure, provider: string, redact: (text: string) => string): ImageAdapterFailure {
  const message = redact(failure.message);
  const cause = redactCause(failure.cause, redact);
  if (failure.type !== "adapter_error" && failure.type !== "stream_error") {
    return imageAdapterFailure("unknown", { provider, message, cause });
  }
  const { status, retryAfterMs, requestId, retryable, kind, code, raw, metadata } = failure;
  return imageAdapterFailure(reasonOf(failure), {
    provider,
    message,
    cause,
    status,
    retryAfterMs,
    requestId: requestId === null ? null : redact(requestId),
    retryable,
    kind,
    code: code === null ? null : redact(code),
    raw: raw === null ? null : redact(raw),
    metadata,
  });
}

/** Maps the reasons of model calls to those of image calls. */
function reasonOf(failure: Extract<Failure, { type: "adapter_error" | "stream_error" }>): ImageAdapterErrorReason {
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

function redactCause(cause: FailureCause | null, redact: (text: string) => string): FailureCause | null {
  if (cause === null) return null;
  return { name: cause.name, message: redact(cause.message), cause: redactCause(cause.cause, redact) };
}

/** Resolves the key. Throws if none is found. */
async function keyOf({ provider, variables, options }: ImageServer, call: AdapterCall): Promise<string> {
  const dotenv = options.dotenv === undefined || options.dotenv === false ? null : readDotenv(options.dotenv);
  return findKey({ provider, call: call.apiKey, source: options.apiKey ?? null, variables, dotenv });
}

/** The headers of a request: standard headers, those of the adapter, then those of the call. Later ones win. */
function headersOf(
  { provider, auth, options }: ImageServer,
  body: ImageBody,
  key: string,
  call: AdapterCall,
): { readonly [name: string]: string } {
  const ofCall = headersOfCall(provider, call.options, null);
  // `fetch` sets the `content-type` of a form, because it contains the boundary.
  const userHeaders = Object.entries(joinHeaders(lowerCaseNames(options.headers ?? {}), ofCall)).filter(
    ([name]) => body.type === "json" || name !== "content-type",
  );
  return {
    ...(body.type === "json" ? { "content-type": "application/json" } : {}),
    accept: "application/json",
    ...keyHeader(auth, key),
    ...Object.fromEntries(userHeaders),
  };
}

/** Deepest nesting of a response body that is read. */
const maxBodyDepth = 64;

/** Maps every string of a JSON object. `isBytes`: the field holds image bytes (`b64_json`, `data`). Values below `maxBodyDepth` become `null`. */
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
