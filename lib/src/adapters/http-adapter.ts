// An adapter over HTTP: a codec, a server, a key. Every provider of ours is this with other data.

import type {
  Adapter,
  AdapterCall,
  FetchLike,
  HttpAnswer,
  KeySource,
  Timeouts,
  TransportLimits,
} from "../engine/internal.ts";
import type { Failure, JsonObject, ModelEvent, ModelRequest, ProviderRoute } from "../model/internal.ts";
import type { BackgroundResponses, Codec, EncodedRequest, Quirks, WireContext } from "../wire/internal.ts";
import type { Exchange } from "./background.ts";

import {
  defaultLimits,
  defaultTimeouts,
  failureWithoutKey,
  findKey,
  sendRequest,
  requestIdOf,
  retryAfter,
  TransportFailure,
} from "../engine/internal.ts";
import { adapterFailure, assistant, EngineError, MisuseError, parseJson } from "../model/internal.ts";
import { listAt, noQuirks } from "../wire/internal.ts";
import { cancelResponse, createResponse, resumeResponse } from "./background.ts";
import { checkedBase } from "./base-url.ts";
import { readDotenv } from "./dotenv.ts";

/** Options of every provider adapter. */
export type ProviderOptions = {
  /**
   * The API key, or a function that returns it for each call. Default: an environment variable of the provider.
   * Never stored.
   */
  readonly apiKey?: KeySource;
  /** The base URL of the API. Default: that of the provider. */
  readonly baseURL?: string;
  /** Additional headers of every request. */
  readonly headers?: { readonly [name: string]: string };
  /** The fetch implementation. Default: the global `fetch`. */
  readonly fetch?: FetchLike;
  /**
   * In milliseconds. Defaults: `connect` 60,000, `firstByte` 120,000, `betweenChunks` 60,000, `total` without a
   * limit.
   */
  readonly timeouts?: Partial<Timeouts>;
  /** Limits on the size of responses and streams. */
  readonly limits?: Partial<TransportLimits>;
  /**
   * Reads the key from this `.env` file if it is in no environment variable; `true`: from the one in the working
   * directory. Off by default.
   */
  readonly dotenv?: boolean | string;
};

/** What a provider is, as data. */
export type ProviderProfile = {
  readonly provider: string;
  readonly codec: Codec;
  readonly baseURL: string;
  readonly auth: KeyHeader;
  /** Names of variables that may hold the key. */
  readonly variables: readonly string[];
  readonly quirks?: Quirks;
  /** Works without a key: a server of one's own. */
  readonly keyless?: boolean;
  /** Behind every path. */
  readonly query?: string;
  readonly needsFinalize?: (request: ModelRequest) => boolean;
  /** Start responses in the background unless a request decides. */
  readonly background?: boolean;
};

export type KeyHeader = "bearer" | "x-api-key" | "x-goog-api-key" | "api-key";

export function httpAdapter(profile: ProviderProfile, options: ProviderOptions = {}): Adapter {
  const { provider, codec, quirks = noQuirks, needsFinalize } = profile;
  const baseURL = checkedBase(provider, options.baseURL ?? profile.baseURL);
  const timeouts = checkedTimeouts(provider, options.timeouts ?? {});
  const server: Server = { profile, options, baseURL, timeouts, codec, quirks };
  const { background } = codec;
  return {
    provider,
    ...(needsFinalize === undefined ? {} : { needsFinalize }),
    stream: (request, call) => ({ [Symbol.asyncIterator]: () => ask(server, request, call) }),
    ...(background === undefined ? {} : backgroundOf(server, background)),
  };
}

/** How work in the background is found again. */
function backgroundOf(server: Server, background: BackgroundResponses): Pick<Adapter, "resume" | "cancel"> {
  return {
    resume: async function* (reference, request, call) {
      const context = contextOf(server, request, call);
      const encoded = server.codec.encode(request, context);
      const key = await keyOf(server, call);
      yield* resumeResponse(exchangeOf(server, background, context, call, encoded, key), reference);
    },
    cancel: async (reference, call) => {
      const context = { route: routeOf(server, ""), rawChunks: false, quirks: server.quirks };
      const encoded = { path: "", body: {}, headers: {}, omissions: [] };
      const key = await keyOf(server, call);
      await cancelResponse(exchangeOf(server, background, context, call, encoded, key), reference);
    },
  };
}

function exchangeOf(
  server: Server,
  background: BackgroundResponses,
  context: WireContext,
  call: AdapterCall,
  encoded: EncodedRequest,
  key: string | null,
): Exchange {
  const { provider } = server.profile;
  const { total } = server.timeouts;
  const ends = total === null ? null : call.clock.now() + total;
  const include = listAt(encoded.body, "include").filter((field) => typeof field === "string");
  return {
    provider,
    endpoint: context.route.endpoint,
    background,
    context,
    call,
    include,
    totalMs: total,
    send: (method, path, body) => {
      const left = ends === null ? null : Math.max(1, ends - call.clock.now());
      const timeouts = { ...server.timeouts, total: left };
      return send({ ...server, timeouts }, call, key, { ...encoded, path }, method, body);
    },
    failureOf: (answer) => failureOf(server, answer, context, key, call.clock.now()),
    clean: (events) => withoutKeys(events, key),
  };
}

type Server = {
  readonly profile: ProviderProfile;
  readonly options: ProviderOptions;
  readonly baseURL: string;
  readonly timeouts: Timeouts;
  readonly codec: Codec;
  readonly quirks: Quirks;
};

async function* ask(server: Server, request: ModelRequest, call: AdapterCall): AsyncGenerator<readonly ModelEvent[]> {
  const { codec, profile } = server;
  const context = contextOf(server, request, call);
  const encoded = codec.encode(request, context);
  const key = await keyOf(server, call);
  const started: ModelEvent = { type: "message_started", message: assistant("") };
  if (key !== null && !isSendable(key)) {
    const message = `the key for ${profile.provider} holds characters that no header can; was it copied whole?`;
    const details = { provider: profile.provider, message, retryable: false };
    yield [started, { type: "error", error: adapterFailure("authentication_failed", details) }];
    return;
  }
  if (codec.background?.isRequested(encoded.body) === true) {
    yield* createResponse(
      exchangeOf(server, codec.background, context, call, encoded, key),
      encoded.path,
      encoded.body,
    );
    return;
  }
  const answer = await send(server, call, key, encoded, "POST", encoded.body);
  if (answer.type !== "stream") {
    yield* whole(server, answer, context, key, started, call.clock.now());
    return;
  }
  const decoder = codec.decoder(context);
  let ended = false;
  let begun = false;
  try {
    for await (const frames of answer.frames) {
      const events = withoutKeys(decoder.push(frames), key);
      if (events.length === 0) continue;
      yield begun || events[0]?.type === "message_started" ? events : [started, ...events];
      begun = true;
      if (ended || !events.some(isTerminal)) continue;
      ended = true;
      answer.finish();
    }
  } catch (error) {
    if (!(error instanceof TransportFailure)) throw error;
    if (ended) return;
    // A reply that was whole when the connection broke is a reply.
    const known = withoutKeys(decoder.end(), key);
    const failed: ModelEvent = { type: "error", error: failureWithoutKey(named(error.failure, answer.headers), key) };
    yield [...(begun ? [] : [started]), ...(known.some(({ type }) => type === "message_completed") ? known : [failed])];
    return;
  }
  const last = withoutKeys(decoder.end(), key);
  if (last.length > 0) yield begun ? last : [started, ...last];
}

async function send(
  server: Server,
  call: AdapterCall,
  key: string | null,
  { path, headers }: Pick<EncodedRequest, "path" | "headers">,
  method: "GET" | "POST",
  content: JsonObject | null,
): Promise<HttpAnswer> {
  const { profile, baseURL, options } = server;
  const body = content === null ? null : JSON.stringify(content);
  const allowed = call.beforeRequest?.();
  if (allowed instanceof Promise) await allowed;
  return sendRequest({
    method,
    url: `${baseURL}${path}${queryAfter(path, profile.query ?? "")}`,
    headers: headersOf(server, headers, key),
    body,
    provider: profile.provider,
    signal: call.signal,
    fetch: options.fetch ?? ((url, init) => fetch(url, init)),
    timeouts: server.timeouts,
    limits: { ...defaultLimits, ...options.limits },
    clock: call.clock,
  });
}

/** The query of the server, after a path that may have one of its own. */
function queryAfter(path: string, query: string): string {
  return path.includes("?") ? query.replace("?", "&") : query;
}

/** The failure behind a refusal or no answer at all. */
function failureOf(
  { codec }: Server,
  answer: Extract<HttpAnswer, { readonly type: "refused" | "failed" }>,
  context: WireContext,
  key: string | null,
  now: number,
): Failure {
  if (answer.type === "failed") return failureWithoutKey(answer.failure, key);
  const { status, headers, text } = answer;
  const body = parseJson(text)?.value ?? text;
  const refusal = { status, body, requestId: requestIdOf(headers), retryAfterMs: retryAfter(headers, now) };
  return failureWithoutKey(codec.decodeError(refusal, context), key);
}

/** What a server said that is no stream: a reply of its own, a refusal, or nothing. */
function* whole(
  server: Server,
  answer: Exclude<HttpAnswer, { readonly type: "stream" }>,
  context: WireContext,
  key: string | null,
  started: ModelEvent,
  now: number,
): Generator<readonly ModelEvent[]> {
  if (answer.type !== "body") {
    yield [started, { type: "error", error: failureOf(server, answer, context, key, now) }];
    return;
  }
  const { codec, profile } = server;
  const { text } = answer;
  const body = parseJson(text);
  const requestId = requestIdOf(answer.headers);
  if (body === null) {
    const message = `${profile.provider} answered something that is not JSON`;
    const error = adapterFailure("malformed_response", { provider: profile.provider, requestId, message, raw: text });
    yield [started, { type: "error", error: failureWithoutKey(error, key) }];
    return;
  }
  const events = withoutKeys(codec.decodeReply(body.value, context), key);
  yield events[0]?.type === "message_started" ? events : [started, ...events];
}

function contextOf(server: Server, request: ModelRequest, call: AdapterCall): WireContext {
  const { profile, quirks } = server;
  const { model } = request;
  const name = typeof model === "string" ? model : (model?.id ?? "");
  if (name === "") {
    const message = `no model was named for ${profile.provider}; give the engine one: engine({ model: … })`;
    throw new MisuseError("invalid_argument", message, { path: ["model"] });
  }
  const { background = false } = profile;
  return { route: routeOf(server, name), rawChunks: call.rawChunks, quirks, background };
}

function routeOf({ profile, baseURL, codec }: Server, model: string): ProviderRoute {
  return { provider: profile.provider, endpoint: `${baseURL}#${codec.api}`, model };
}

async function keyOf({ profile, options }: Server, call: AdapterCall): Promise<string | null> {
  const { provider, variables, keyless = false } = profile;
  const dotenv = options.dotenv === undefined || options.dotenv === false ? null : readDotenv(options.dotenv);
  const wanted = { provider, call: call.apiKey, source: options.apiKey ?? null, variables, dotenv };
  if (!keyless) return findKey(wanted);
  return findKey(wanted).catch((error: unknown) => {
    if (error instanceof EngineError && error.reason === "missing_key") return null;
    throw error;
  });
}

function headersOf(
  { profile, options }: Server,
  headers: EncodedRequest["headers"],
  key: string | null,
): { readonly [name: string]: string } {
  const ours = {
    "content-type": "application/json",
    accept: "text/event-stream",
    ...(key === null ? {} : keyHeader(profile.auth, key)),
  };
  return { ...ours, ...lowerCase(headers), ...lowerCase(options.headers ?? {}) };
}

/** The same name in other letters is the same header: said twice, a server would get both. */
export function lowerCase(headers: { readonly [name: string]: string }): { readonly [name: string]: string } {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** What a header can hold. */
function isSendable(key: string): boolean {
  return /^[\u0020-\u007e\u0080-\u00ff]*$/.test(key);
}

/** The clocks of a provider; what is not said is as it is by default. */
export function checkedTimeouts(provider: string, given: Partial<Timeouts>, usual = defaultTimeouts): Timeouts {
  const said = Object.fromEntries(Object.entries(given).filter(([, limit]) => limit !== undefined));
  for (const [name, limit] of Object.entries(said)) {
    if ((typeof limit === "number" && limit > 0) || (name === "total" && limit === null)) continue;
    const message = `${provider}: timeouts.${name} has to be a number of milliseconds above 0, and is ${String(limit)}`;
    throw new MisuseError("invalid_argument", message, { path: ["timeouts", name] });
  }
  return { ...usual, ...said };
}

export function keyHeader(auth: KeyHeader, key: string): { readonly [name: string]: string } {
  return auth === "bearer" ? { authorization: `Bearer ${key}` } : { [auth]: key };
}

/** A failure with the server's own name for the call. */
function named(failure: Failure, headers: Headers): Failure {
  const requestId = requestIdOf(headers);
  return "requestId" in failure && failure.requestId === null && requestId !== null
    ? { ...failure, requestId }
    : failure;
}

/** Servers repeat keys in their complaints, also in the middle of a stream. */
function withoutKeys(events: readonly ModelEvent[], key: string | null): readonly ModelEvent[] {
  if (!events.some(({ type }) => type === "error")) return events;
  return events.map((event) =>
    event.type === "error" ? { ...event, error: failureWithoutKey(event.error, key) } : event,
  );
}

function isTerminal({ type }: ModelEvent): boolean {
  return type === "message_completed" || type === "error";
}
