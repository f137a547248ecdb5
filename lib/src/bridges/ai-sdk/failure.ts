// Classifies what an AI SDK model throws, and the errors in its streams.
//
// The AI SDK has error classes, which several copies of its packages can define at the same time. Errors are therefore
// recognised by their name (`AI_APICallError`) and their fields, never with `instanceof`.
//
//   before the request is sent   a missing key, a model or a setting that the package does not have: an Everturn error,
//                                which the adapter throws
//   a response of the provider   an `AI_APICallError` with a status, or an error inside of the stream: classified like
//                                the errors of every codec
//   no response                  `network_error`, `timeout`

import type { Failure, Json, ProviderRoute } from "../../core/model/internal.ts";

import { requestIdOf, retryAfter } from "../../core/engine/internal.ts";
import { AdapterError, adapterFailure, EngineError, parseJson, toCause } from "../../core/model/internal.ts";
import { asObject, classify, noQuirks, objectAt, objectsAt, textAt } from "../../core/wire/internal.ts";
import { fieldOf, jsonOf, objectOf, textField } from "./fields.ts";

/** The error for a problem that was found before a request was sent; `null`: the error is something else. */
export function preflightError(error: unknown, { provider }: ProviderRoute): EngineError | AdapterError | null {
  const message = `${provider}: ${textField(error, "message") ?? ""}`;
  switch (textField(error, "name")) {
    case "AI_LoadAPIKeyError":
    case "AI_LoadSettingError":
      return new EngineError("missing_key", { provider, message, cause: error });
    case "AI_NoSuchModelError":
      return new EngineError("missing_model", { provider, message, cause: error });
    case "AI_UnsupportedFunctionalityError":
      return new AdapterError("unsupported_feature", { provider, message, cause: error });
    case "AI_InvalidPromptError":
    case "AI_InvalidArgumentError":
      return new AdapterError("invalid_request", { provider, message, cause: error });
    default:
      // Bedrock's package reports missing credentials with plain errors.
      return /AWS (?:SigV4 authentication requires|credential provider failed)/.test(message)
        ? new EngineError("missing_key", { provider, message, cause: error })
        : null;
  }
}

/**
 * The failure for an error of the provider, of the connection, or of the package. `now` is the time in milliseconds.
 */
export function failureOfError(error: unknown, route: ProviderRoute, now: number): Failure {
  const { provider } = route;
  const name = textField(error, "name") ?? "";
  const message = errorMessage(error);
  const status = fieldOf(error, "statusCode");
  const body = textField(error, "responseBody");
  if (typeof status === "number" && status >= 300) {
    const headers = headersOf(fieldOf(error, "responseHeaders"));
    const requestId = headers === null ? null : requestIdOf(headers);
    const parsedBody = body === null ? null : (parseJson(body)?.value ?? body);
    const retryAfterMs = (headers === null ? null : retryAfter(headers, now)) ?? retryDelayIn(parsedBody);
    const code = errorCode(parsedBody) ?? errorCode(fieldOf(error, "data"));
    return classify({ status, body: parsedBody, requestId, retryAfterMs }, { message, code }, failureContext(route));
  }
  const details = { provider, message: `${provider}: ${message}`, cause: error, raw: body };
  if (typeof status === "number" || malformedNames.has(name)) return adapterFailure("malformed_response", details);
  const cause = fieldOf(error, "cause");
  const words = [
    name,
    message,
    textField(cause, "name"),
    textField(cause, "message"),
    errorCode(error),
    errorCode(cause),
  ].join(" ");
  if (/time(?:d )?out|ETIMEDOUT|AbortError/i.test(words)) return adapterFailure("timeout", details);
  if (name === "AI_APICallError" || /ECONN|ENOTFOUND|EPIPE|UND_ERR|fetch failed|network/i.test(words))
    return adapterFailure("network_error", details);
  if (error instanceof Error) return adapterFailure("unknown", { ...details, cause: toCause(error) });
  // An error inside of a stream is what the provider sent, as text or as an object.
  const sent = { status: null, body: jsonOf(error), requestId: null, retryAfterMs: null };
  return classify(sent, { message, code: errorCode(error) }, failureContext(route));
}

/** Errors of the packages about a response that they cannot read. */
const malformedNames: ReadonlySet<string> = new Set([
  "AI_EmptyResponseBodyError",
  "AI_InvalidResponseDataError",
  "AI_JSONParseError",
  "AI_NoContentGeneratedError",
  "AI_TypeValidationError",
]);

function failureContext(route: ProviderRoute) {
  return { route, rawChunks: false, quirks: noQuirks };
}

/** The text of an error: that of an `Error`, a text, or the field `message` of what the provider sent. */
function errorMessage(error: unknown): string {
  if (typeof error === "string") return error;
  const message = textField(error, "message") ?? textField(fieldOf(error, "error"), "message");
  return message ?? "the model failed without a message";
}

/** The identifier of an error in the forms of the APIs: `{ error: { code | type } }`, `{ code | type }`. */
function errorCode(error: unknown): string | null {
  const json = objectOf(error);
  const inner = objectAt(json, "error") ?? asObject(json ?? undefined);
  return textAt(inner, "code") ?? textAt(inner, "type");
}

/** The delay that Google's APIs put into the body of an error, in milliseconds: `details: [{ retryDelay: "2s" }]`. */
function retryDelayIn(body: Json): number | null {
  const delays = objectsAt(objectAt(asObject(body), "error"), "details").flatMap((detail) => {
    const [, seconds] = /^([\d.]+)s$/.exec(textAt(detail, "retryDelay") ?? "") ?? [];
    return seconds === undefined ? [] : [Math.round(Number(seconds) * 1000)];
  });
  return delays.find((delay) => Number.isSafeInteger(delay)) ?? null;
}

function headersOf(headers: unknown): Headers | null {
  if (typeof headers !== "object" || headers === null) return null;
  const entries = Object.entries(headers).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  try {
    return new Headers(entries);
  } catch {
    return null;
  }
}
