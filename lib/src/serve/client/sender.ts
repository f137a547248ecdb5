// Sends requests, with retries, and turns responses into values and errors.
//
// When a request is retried (with exponential backoff and jitter, at most `retry.requests` times)
//   no response, timeout               only if idempotent: the server may have processed the request
//   408, 502, 503, 504 of a gateway    only if idempotent, for the same reason
//   429 of a gateway                   always: the request was not processed
//   transient failure of this API      always if its HTTP layer rejected the request; otherwise only if idempotent
//   any other response                 never: the same request would get the same response
//
// Invariants
//   1. A request with `repeat: "at_most_once"` is never sent again after the server may have processed it.
//   2. The token is sent to the configured host only (redirects are not followed) and appears in no error.
//   3. An attempt ends after `silenceMs` plus the wait that the server was asked for, also if `fetch` ignores its
//      signal.

import type { Clock } from "../../core/clock/clock.ts";
import type { ServerFailure } from "./errors.ts";
import type { ClientOptions, ClientRetry } from "./types.ts";

import { startTimer } from "../../core/clock/timer.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { Backoff, retryAfter } from "./backoff.ts";
import { ClientError, errorOfFailure, isTransient, serverFailure } from "./errors.ts";

/** The configuration that all requests of a client share. */
export type Sender = {
  /** The base URL without a trailing slash; it precedes every path. */
  readonly base: string;
  readonly token: ClientOptions["token"];
  readonly headers: { readonly [name: string]: string };
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly retry: ClientRetry;
  readonly silenceMs: number;
  readonly streamSilenceMs: number;
  readonly clock: Clock;
};

export type ApiRequest = {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: { readonly [name: string]: string };
  /**
   * `idempotent`: sending it twice has the effect of sending it once, because it only reads or carries an idempotency
   * key.
   */
  readonly repeat: "idempotent" | "at_most_once";
  readonly signal: AbortSignal | null;
  /** The wait that the server was asked for (`Prefer: wait`), in milliseconds. It extends the timeout. */
  readonly waitMs?: number;
  /** Statuses whose bodies are results, unless they contain a failure. */
  readonly answers?: readonly number[];
};

/** Reads the body of a successful response. */
export type ReadAnswer<T> = (response: Response, request: ApiRequest) => Promise<T>;

type AttemptResult<T> =
  | { readonly type: "answered"; readonly value: T }
  | {
      readonly type: "failed";
      readonly error: Error;
      readonly resend: Resend;
      readonly retryAfterMs: number | null;
      readonly isShuttingDown: boolean;
    };

/** Whether a failed request may be sent again. `always`: the server did not process it. */
type Resend = "never" | "if_idempotent" | "always";

/** Sends a request and reads its response; retries as the header comment says. Throws the error of the last attempt. */
export async function send<T>(
  sender: Sender,
  request: ApiRequest,
  read: ReadAnswer<T>,
  backoff: Backoff = new Backoff(sender.retry.requests, sender.retry, sender.clock),
): Promise<T> {
  for (;;) {
    const outcome = await attempt(sender, request, read);
    if (outcome.type === "answered") return outcome.value;
    const { error, resend, retryAfterMs, isShuttingDown } = outcome;
    if (resend === "never" || (resend === "if_idempotent" && request.repeat === "at_most_once")) throw error;
    if (!(await backoff.wait(retryAfterMs, request.signal, isShuttingDown))) throw error;
  }
}

/**
 * Reads a body as JSON; a response without one (204) is `null`. That it is JSON is checked; that it has the type of the
 * API is trusted.
 */
export async function readJson<T>(response: Response, request: ApiRequest): Promise<T> {
  const text = response.status === 204 ? "null" : await response.text();
  try {
    const value: T = JSON.parse(text);
    return value;
  } catch {
    throw unexpectedResponse(request, response, text, "a body that is not JSON");
  }
}

/** Discards the body. */
export async function readNothing(response: Response): Promise<void> {
  await response.body?.cancel();
}

/**
 * The error for a response that does not come from this API, such as an error page of a proxy. Quotes the first 200
 * characters of the body.
 */
export function unexpectedResponse(request: ApiRequest, { status }: Response, text: string, what: string): ClientError {
  const excerpt = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  const quoted = excerpt === "" ? "" : `: ${JSON.stringify(excerpt)}`;
  return new ClientError("unexpected_answer", `${requestName(request)} got status ${status} with ${what}${quoted}`, {
    status,
  });
}

/** Sends a request once. Throws only if the caller's signal aborts or the token is unusable. */
async function attempt<T>(sender: Sender, request: ApiRequest, read: ReadAnswer<T>): Promise<AttemptResult<T>> {
  const { method, path, body, signal, waitMs = 0 } = request;
  signal?.throwIfAborted();
  const token = await tokenOf(sender);
  const headers = headersOf(sender, request, token);
  const timeout = new AbortController();
  const timeoutError = new Error(`no response was received for ${sender.silenceMs} ms`);
  const cancelTimer = startTimer(sender.clock, sender.silenceMs + waitMs, () => timeout.abort(timeoutError));
  const anySignal = signal === null ? timeout.signal : AbortSignal.any([signal, timeout.signal]);
  try {
    const responsePromise = sender.fetch(sender.base + path, {
      method,
      headers,
      signal: anySignal,
      redirect: "manual",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // A response that arrives after the abort is discarded, so that its connection is closed.
    responsePromise
      .then((response) => (anySignal.aborted ? response.body?.cancel() : undefined))
      .catch(() => undefined);
    const response = await unlessAborted(responsePromise, anySignal);
    if (response.ok) return { type: "answered", value: await unlessAborted(read(response, request), anySignal) };
    const text = await unlessAborted(response.text(), anySignal);
    if (request.answers?.includes(response.status) === true && failureIn(text) === null) {
      return { type: "answered", value: await read(new Response(text, { status: response.status }), request) };
    }
    return failedAttempt(request, response, text, token, sender.clock.now());
  } catch (error) {
    signal?.throwIfAborted();
    // The response was received and is not of this API: another attempt would get the same.
    if (error instanceof ClientError) return { type: "failed", error, resend: "never", ...noDelay };
    const unreachable = new ClientError(
      "unreachable",
      `${requestName(request)}: no response from ${hostOf(sender.base)}`,
      {
        cause: error,
      },
    );
    return { type: "failed", error: unreachable, resend: "if_idempotent", ...noDelay };
  } finally {
    cancelTimer();
  }
}

/** The result of an attempt that got an error status. */
function failedAttempt(
  request: ApiRequest,
  response: Response,
  text: string,
  token: string | null,
  now: number,
): AttemptResult<never> {
  const { status, headers } = response;
  const retryAfterMs = retryAfter(headers, now);
  // A proxy may echo the request in its error page; the token must not reach an error message.
  const redactedText = token === null ? text : text.replaceAll(token, "…");
  const failure = failureIn(redactedText);
  if (failure !== null) {
    return {
      type: "failed",
      error: errorOfFailure(failure, status, retryAfterMs),
      resend: resendAfter(failure),
      retryAfterMs,
      isShuttingDown: failure.reason === "shutting_down",
    };
  }
  // With `redirect: "manual"` a browser reports a redirect as status 0.
  const isRedirect = status === 0 || (status >= 300 && status < 400);
  const what = isRedirect
    ? "a redirect, which is not followed: configure the final URL"
    : "a body that is not of this API";
  const resend = status === 429 ? "always" : gatewayStatuses.has(status) ? "if_idempotent" : "never";
  return {
    type: "failed",
    error: unexpectedResponse(request, response, redactedText, what),
    resend,
    retryAfterMs,
    isShuttingDown: false,
  };
}

const noDelay = { retryAfterMs: null, isShuttingDown: false } as const;

/** Statuses by which gateways report that the server does not respond. The server may have received the request. */
const gatewayStatuses: ReadonlySet<number> = new Set([408, 502, 503, 504]);

/** A failure of type `http_error` was raised before the runtime was called, so the request had no effect. */
function resendAfter(failure: ServerFailure): Resend {
  if (failure.type === "http_error" && isTransient(failure)) return "always";
  return isTransient(failure) ? "if_idempotent" : "never";
}

/** The failure in the body of an error response; `null` if the body is not one of this API. */
function failureIn(text: string): ServerFailure | null {
  try {
    return serverFailure(JSON.parse(text));
  } catch {
    return null;
  }
}

/**
 * The value of a promise, or a rejection as soon as the signal aborts. A `fetch` of the program may ignore its signal.
 */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const settled = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true, signal: settled.signal });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    // Removes the listener: the caller's signal may live as long as the program.
    settled.abort();
  }
}

async function tokenOf({ token }: Sender): Promise<string | null> {
  if (token === undefined) return null;
  return checkedToken(typeof token === "function" ? await token() : token);
}

/** Rejects a token that is not a valid header value: `fetch` would throw an error that quotes it. */
export function checkedToken(token: string): string {
  if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new MisuseError("invalid_argument", "token: must be printable ASCII without spaces", {
    path: ["token"],
  });
}

function headersOf(sender: Sender, { body, headers: requestHeaders = {} }: ApiRequest, token: string | null): Headers {
  const headers = new Headers();
  const values = {
    accept: "application/json",
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...sender.headers,
    ...requestHeaders,
  };
  for (const [name, value] of Object.entries(values)) {
    try {
      headers.set(name, value);
    } catch {
      // The thrown error quotes the value, which may be a secret.
      throw new MisuseError(
        "invalid_argument",
        `headers: the value of ${JSON.stringify(name)} is not a valid header value`,
      );
    }
  }
  return headers;
}

/** Method and path for error messages, without the query. */
function requestName({ method, path }: ApiRequest): string {
  return `${method} ${path.replace(/\?.*$/, "")}`;
}

/** The host for error messages. A relative URL, as a page may give it, has none. */
function hostOf(base: string): string {
  return URL.canParse(base) ? new URL(base).host : "the server";
}
