// What the adapters for images share: one request, its answer, and what a server said instead as an `ImageAdapterError`. A key is in none of it.

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
import type { Codec } from "../wire/internal.ts";
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
import { readDotenv } from "./dotenv.ts";
import { checkedTimeouts, keyHeader, lowerCase } from "./http-adapter.ts";

/** A server that makes images, as data. */
export type ImageServer = {
  readonly provider: string;
  /** Without a slash at its end: `checkedBase`. */
  readonly baseURL: string;
  readonly auth: KeyHeader;
  /** Names of variables that may hold the key. */
  readonly variables: readonly string[];
  readonly options: ProviderOptions;
  readonly decodeError: Codec["decodeError"];
};

export type ImageCall = {
  readonly model: string;
  /** Behind the base URL. */
  readonly path: string;
  readonly body: ImageBody;
};

export type ImageBody =
  | { readonly type: "json"; readonly value: JsonObject }
  | { readonly type: "form"; readonly form: FormData };

export type ImageAnswer = {
  readonly body: JsonObject;
  /** The body without the bytes of its images: they stand in `images`, once. */
  readonly raw: JsonObject;
  /** The server's own name for the call. */
  readonly requestId: string | null;
};

/** An image is sent when it is done: until then there are not even headers, for minutes with the larger models. */
const imageTimeouts: Timeouts = { ...defaultTimeouts, connect: 300_000 };

/** Asks once. What is not a JSON object from a server that said yes is thrown. */
export async function askForImages(
  server: ImageServer,
  { model, path, body }: ImageCall,
  call: AdapterCall,
): Promise<ImageAnswer> {
  const { provider, baseURL, options } = server;
  const key = await keyOf(server, call);
  const clean = (text: string) => withoutKey(text, key);
  const send: FetchLike = options.fetch ?? ((url, init) => fetch(url, init));
  const answer = await sendRequest({
    url: `${baseURL}${path}`,
    headers: headersOf(server, body, key),
    body: body.type === "json" ? JSON.stringify(body.value) : "",
    provider,
    signal: call.signal,
    // The transport knows text alone; a form is put in on the way.
    fetch: (url, init) => send(url, body.type === "form" ? { ...init, body: body.form } : init),
    timeouts: checkedTimeouts(provider, options.timeouts ?? {}, imageTimeouts),
    limits: { ...defaultLimits, ...options.limits },
    clock: call.clock,
  });
  switch (answer.type) {
    case "failed":
      throw new ImageAdapterError(imageFailureOf(answer.failure, provider, clean));
    case "refused": {
      const text = clean(answer.text);
      const said = {
        status: answer.status,
        body: parseJson(text)?.value ?? text,
        requestId: requestIdOf(answer.headers),
        retryAfterMs: retryAfter(answer.headers, call.clock.now()),
      };
      const route = { provider, endpoint: `${baseURL}#images`, model };
      const failure = server.decodeError(said, { route, rawChunks: false, quirks: noQuirks });
      throw new ImageAdapterError(imageFailureOf(failure, provider, clean));
    }
    case "stream": {
      // Nobody asked for one. Whoever stops reading closes it.
      for await (const _ of answer.frames) break;
      const message = `${provider} answered with a stream`;
      throw new ImageAdapterError("malformed_response", { provider, message, requestId: requestIdOf(answer.headers) });
    }
    case "body": {
      const requestId = requestIdOf(answer.headers);
      const found = asObject(parseJson(answer.text)?.value);
      if (found === null) {
        const message = `${provider} answered something that is not a JSON object`;
        const raw = clean(answer.text);
        throw new ImageAdapterError("malformed_response", { provider, requestId, message, raw });
      }
      // Not the whole text: a short key may stand by chance in the bytes of an image.
      return {
        body: rewritten(found, (text, isBytes) => (isBytes ? text : clean(text))),
        raw: rewritten(found, (text, isBytes) => (isBytes ? "[image]" : clean(text))),
        requestId: requestId === null ? null : clean(requestId),
      };
    }
  }
}

/** A refusal of ours, before anything is sent. */
export function refusal(
  reason: ImageAdapterErrorReason,
  provider: string,
  message: string,
  details: FailureDetails<ImageAdapterFailure> = {},
): ImageAdapterError {
  return new ImageAdapterError(reason, { provider, message: `${provider}: ${message}`, ...details });
}

/** The name of the model that was asked for. */
export function modelOf({ model }: ImageRequest, provider: string): string {
  const name = typeof model === "string" ? model : (model?.id ?? "");
  if (name !== "") return name;
  const message = `no image model was named for ${provider}; say one: generateImage(engine, prompt, { model: … })`;
  throw new EngineError("missing_model", { provider, message });
}

/** Refuses what the model cannot do, and what no operation means. */
export function checkOperation(
  provider: string,
  model: string,
  { operation, mask }: ImageRequest,
  possible: readonly ImageOperation[],
): void {
  if (!possible.includes(operation)) {
    const message = `${model} cannot do ${operation}; it can do ${possible.join(", ")}`;
    throw refusal("unsupported_operation", provider, message, { metadata: { operation, model } });
  }
  if (mask !== null && operation !== "edit") {
    throw refusal("invalid_request", provider, `a mask says what of an image to edit; ${operation} takes none`);
  }
}

/** The MIME type of an image: what is said of it, or what its first bytes say. */
export function mimeTypeOf({ source, mimeType }: Pick<ImageContent, "source" | "mimeType">): string | null {
  if (mimeType !== null || source.type !== "base64") return mimeType;
  const found = firstBytes.find(([start]) => source.data.startsWith(start));
  return found === undefined ? null : found[1];
}

/** How files of a type begin, in base64. */
const firstBytes: readonly (readonly [string, string])[] = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["UklGR", "image/webp"],
  ["R0lGOD", "image/gif"],
];

/** A failure of the transport or of a codec, as one of an image call. */
function imageFailureOf(failure: Failure, provider: string, clean: (text: string) => string): ImageAdapterFailure {
  const message = clean(failure.message);
  const cause = cleanCause(failure.cause, clean);
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
    requestId: requestId === null ? null : clean(requestId),
    retryable,
    kind,
    code: code === null ? null : clean(code),
    raw: raw === null ? null : clean(raw),
    metadata,
  });
}

function reasonOf(failure: Extract<Failure, { type: "adapter_error" | "stream_error" }>): ImageAdapterErrorReason {
  // A word of the images API alone.
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

function cleanCause(cause: FailureCause | null, clean: (text: string) => string): FailureCause | null {
  if (cause === null) return null;
  return { name: cause.name, message: clean(cause.message), cause: cleanCause(cause.cause, clean) };
}

async function keyOf({ provider, variables, options }: ImageServer, call: AdapterCall): Promise<string> {
  const dotenv = options.dotenv === undefined || options.dotenv === false ? null : readDotenv(options.dotenv);
  return findKey({ provider, call: call.apiKey, source: options.apiKey ?? null, variables, dotenv });
}

function headersOf({ auth, options }: ImageServer, body: ImageBody, key: string): { readonly [name: string]: string } {
  // A form has a boundary in its type, which `fetch` writes.
  const given = Object.entries(lowerCase(options.headers ?? {})).filter(
    ([name]) => body.type === "json" || name !== "content-type",
  );
  return {
    ...(body.type === "json" ? { "content-type": "application/json" } : {}),
    accept: "application/json",
    ...keyHeader(auth, key),
    ...Object.fromEntries(given),
  };
}

const deepest = 64;

/** The same JSON with other texts. What is nested deeper than any API nests is left out. */
function rewritten(object: JsonObject, text: (text: string, isBytes: boolean) => string): JsonObject {
  const inside = (value: Json, name: string, depth: number): Json => {
    if (typeof value === "string") return text(value, name === "b64_json" || name === "data");
    if (typeof value !== "object" || value === null) return value;
    if (depth > deepest) return null;
    return isJsonArray(value) ? value.map((one) => inside(one, "", depth + 1)) : whole(value, depth + 1);
  };
  const whole = (value: JsonObject, depth: number): JsonObject =>
    Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inside(one, name, depth)]));
  return whole(object, 0);
}
