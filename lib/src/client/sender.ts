// Sends requests, and says what came of them.
//
// Rules:
//   1. What may have been done is not sent again, unless doing it again is the same: reading, and what goes under a key.
//   2. What is definite is said at once; what passes is tried again, so often and no more.
//   3. Redirects are not followed: a token goes to the host it was meant for. It is in no error.

import type { Clock } from "../clock/clock.ts";
import type { SentFailure } from "./errors.ts";
import type { ClientOptions, ClientRetry } from "./types.ts";

import { startTimer } from "../clock/timer.ts";
import { MisuseError } from "../model/internal.ts";
import { Backoff, retryAfter } from "./backoff.ts";
import { ClientError, errorOf, isPassing, sentFailure } from "./errors.ts";

/** What is the same for every request. */
export type Sender = {
  /** What stands before every path. */
  readonly base: string;
  readonly token: ClientOptions["token"];
  readonly headers: { readonly [name: string]: string };
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly retry: ClientRetry;
  readonly silenceMs: number;
  readonly clock: Clock;
};

export type ApiRequest = {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: { readonly [name: string]: string };
  /** `safe`: sending it twice is sending it once. */
  readonly repeat: "safe" | "once";
  readonly signal: AbortSignal | null;
  /** How long the server was asked to take for it. */
  readonly waitMs?: number;
  /** Statuses that are answers too, besides those of success. */
  readonly answers?: readonly number[];
};

/** Reads the answer to a request that went well. */
export type ReadAnswer<T> = (response: Response, request: ApiRequest) => Promise<T>;

type Tried<T> =
  | { readonly type: "answered"; readonly value: T }
  | { readonly type: "failed"; readonly error: Error; readonly again: Again; readonly afterMs: number | null };

/** May it be tried again? `always`: nothing was done. */
type Again = "never" | "if_safe" | "always";

export async function send<T>(
  sender: Sender,
  request: ApiRequest,
  read: ReadAnswer<T>,
  backoff: Backoff = new Backoff(sender.retry.requests, sender.retry, sender.clock),
): Promise<T> {
  for (;;) {
    const tried = await attempt(sender, request, read);
    if (tried.type === "answered") return tried.value;
    const { error, again, afterMs } = tried;
    if (again === "never" || (again === "if_safe" && request.repeat === "once")) throw error;
    if (!(await backoff.wait(afterMs, request.signal))) throw error;
  }
}

/** The JSON of an answer. It is trusted to be what the API says it is; that it is JSON is not. */
export async function readJson<T>(response: Response, request: ApiRequest): Promise<T> {
  const text = await response.text();
  try {
    const value: T = JSON.parse(text);
    return value;
  } catch {
    throw unexpected(request, response, text, "something that is not JSON");
  }
}

export async function readNothing(response: Response): Promise<void> {
  await response.body?.cancel();
}

/** Something answered that is not this API, a proxy perhaps: what it was, as far as it can be told. */
export function unexpected(request: ApiRequest, { status }: Response, text: string, what: string): ClientError {
  const start = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  const words = start === "" ? "" : `: ${JSON.stringify(start)}`;
  return new ClientError("unexpected_answer", `${nameOf(request)} was answered ${status} with ${what}${words}`, {
    status,
  });
}

async function attempt<T>(sender: Sender, request: ApiRequest, read: ReadAnswer<T>): Promise<Tried<T>> {
  const { method, path, body, signal, waitMs = 0 } = request;
  signal?.throwIfAborted();
  const token = await tokenOf(sender);
  const headers = headersOf(sender, request, token);
  const patience = new AbortController();
  const late = new Error(`nothing came for ${sender.silenceMs} ms`);
  const cancelTimer = startTimer(sender.clock, sender.silenceMs + waitMs, () => patience.abort(late));
  const either = signal === null ? patience.signal : AbortSignal.any([signal, patience.signal]);
  try {
    const sent = sender.fetch(sender.base + path, {
      method,
      headers,
      signal: either,
      redirect: "manual",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // An answer that comes when nobody waits any more is let go of.
    sent.then((response) => (either.aborted ? response.body?.cancel() : undefined)).catch(() => undefined);
    const response = await unlessAborted(sent, either);
    if (response.ok || request.answers?.includes(response.status) === true) {
      return { type: "answered", value: await unlessAborted(read(response, request), either) };
    }
    const text = await unlessAborted(response.text(), either);
    return refused(request, response, text, token, sender.clock.now());
  } catch (error) {
    signal?.throwIfAborted();
    // What was read and made no sense will make no more sense the next time.
    if (error instanceof ClientError) return { type: "failed", error, again: "never", afterMs: null };
    const lost = new ClientError("unreachable", `${nameOf(request)}: no answer came from ${hostOf(sender.base)}`, {
      cause: error,
    });
    return { type: "failed", error: lost, again: "if_safe", afterMs: null };
  } finally {
    cancelTimer();
  }
}

function refused(
  request: ApiRequest,
  response: Response,
  text: string,
  token: string | null,
  now: number,
): Tried<never> {
  const { status, headers } = response;
  const afterMs = retryAfter(headers, now);
  const shown = token === null ? text : text.replaceAll(token, "…");
  const failure = failureIn(shown);
  if (failure !== null) {
    return { type: "failed", error: errorOf(failure, status, afterMs), again: againAfter(failure), afterMs };
  }
  const leads = status === 0 || (status >= 300 && status < 400);
  const what = leads ? "the way to another address: give the client that one" : "something that is not this API's";
  const again = status === 429 ? "always" : gateways.has(status) ? "if_safe" : "never";
  return { type: "failed", error: unexpected(request, response, shown, what), again, afterMs };
}

/** What stands between us and the server says these when the server is away. */
const gateways: ReadonlySet<number> = new Set([408, 502, 503, 504]);

function againAfter(failure: SentFailure): Again {
  if (failure.type === "http_error" && isPassing(failure)) return "always";
  return isPassing(failure) ? "if_safe" : "never";
}

function failureIn(text: string): SentFailure | null {
  try {
    return sentFailure(JSON.parse(text));
  } catch {
    return null;
  }
}

/** What a promise comes to, unless somebody stops waiting for it. Not everything that answers requests knows signals. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const left = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true, signal: left.signal });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    left.abort();
  }
}

async function tokenOf({ token }: Sender): Promise<string | null> {
  if (token === undefined) return null;
  return checkedToken(typeof token === "function" ? await token() : token);
}

/** A token that is no header would be shown by whoever refuses it. */
export function checkedToken(token: string): string {
  if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new MisuseError("invalid_argument", "token: it has to be a text of letters, digits and signs, without spaces", {
    path: ["token"],
  });
}

function headersOf(sender: Sender, { body, headers: own = {} }: ApiRequest, token: string | null): Headers {
  const headers = new Headers();
  const all = {
    accept: "application/json",
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...sender.headers,
    ...own,
  };
  for (const [name, value] of Object.entries(all)) {
    try {
      headers.set(name, value);
    } catch {
      // What was thrown holds the value, which may be a secret.
      throw new MisuseError("invalid_argument", `the header ${JSON.stringify(name)} cannot be sent`);
    }
  }
  return headers;
}

function nameOf({ method, path }: ApiRequest): string {
  return `${method} ${path.replace(/\?.*$/, "")}`;
}

function hostOf(base: string): string {
  return URL.canParse(base) ? new URL(base).host : base;
}
