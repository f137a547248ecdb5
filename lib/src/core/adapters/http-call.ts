// One call of an HTTP adapter.
//
// Theory of operation of one call
//   1. contextOf     resolves the model name; the route is provider, `baseURL#api`, model
//   2. codec.encode  writes the request; throws for content that cannot be sent
//   3. credentialOf  resolves the key or the token: call, option, environment variables, `.env`. It is resolved at
//                    every call and stored nowhere. So are tokens of MCP servers (mcp-authorization.ts)
//   4. send          awaits `beforeRequest`, which rejects if this process has lost the lease of the turn (fencing),
//                    then calls the transport
//   5. by the type of the response:
//        stream      decoder.push for each batch of frames, one yield a batch
//        body        a whole reply: decodeReply
//        refused     an HTTP error: decodeError
//        failed      no response: the failure of the transport
//   A request that starts a background response takes `background.ts` instead of steps 4 and 5.
//
// Invariants
//   1. The first event of a call is `message_started`, also if the server fails before any event. The warnings of the
//      codec follow it.
//   2. Exactly one terminal event (E1). A connection that breaks after a complete reply (`decoder.end()` returns it)
//      gives that reply, not a failure.
//   3. No error holds the key: servers repeat keys in error messages, so every failure passes `failureWithoutKey`.
//   4. Where a schema that was sent made optional fields nullable, the events have no such `null`
//      (core/wire/added-nulls.ts).
//   5. After the terminal event the stream is read to its end for trailing usage, within the grace time of the
//      transport that `finish()` starts.

import type { AdapterCall, HttpAnswer, Secrets } from "../engine/internal.ts";
import type { Failure, JsonObject, ModelEvent, ModelRequest, ProviderRoute } from "../model/internal.ts";
import type { Codec, EncodedRequest, WireContext } from "../wire/internal.ts";
import type { Exchange } from "./background.ts";
import type { Credential } from "./credentials.ts";
import type { ProviderProfile, Server } from "./http-adapter.ts";
import type { McpTokens } from "./mcp-authorization.ts";

import { parseDate } from "../clock/clock.ts";
import {
  defaultLimits,
  failureWithoutKey,
  hasRedaction,
  redacted,
  requestIdOf,
  retryAfter,
  sendRequest,
  TransportFailure,
  withoutKey,
} from "../engine/internal.ts";
import {
  adapterFailure,
  AdapterError,
  assistant,
  EngineError,
  errorFromFailure,
  parseJson,
} from "../model/internal.ts";
import { bodyText, listAt, restoreEvents, warningsOf } from "../wire/internal.ts";
import { cancelResponse, createResponse, resumeResponse } from "./background.ts";
import { headersOfCall, joinHeaders, keyHeader, lowerCaseNames, secretsIn, withoutScheme } from "./call-headers.ts";
import { isHeaderValue } from "./call-options.ts";
import { credentialOf } from "./credentials.ts";
import { resolveTokens, withTokens } from "./mcp-authorization.ts";
import { requiredModelName } from "./model-name.ts";

/** A server with the tokens of one call. */
type CallServer = Server & { readonly tokens: McpTokens };

async function withTokensOf(server: Server): Promise<CallServer> {
  const { mcp, provider } = server.profile;
  return { ...server, tokens: await resolveTokens(mcp?.sources ?? {}, provider) };
}

/** One call: encodes, sends and decodes. See the theory of operation above. */
export async function* streamReply(
  adapterServer: Server,
  codec: Codec,
  request: ModelRequest,
  call: AdapterCall,
): AsyncGenerator<readonly ModelEvent[]> {
  const server = await withTokensOf(adapterServer);
  const { profile } = server;
  const context = contextOf(server, request, call);
  const encoded = encodeFor(server, codec, request, context);
  const credential = await credentialOf(profile, server.options, call);
  const { key } = credential;
  const begin = opening(encoded);
  if (key !== null && !isHeaderValue(key)) {
    const message = `the key for ${profile.provider} contains characters that an HTTP header cannot hold; check that it was copied correctly`;
    const details = { provider: profile.provider, message, retryable: false };
    yield begin([{ type: "error", error: adapterFailure("authentication_failed", details) }]);
    return;
  }
  if (codec.background?.isRequested(encoded.body) === true) {
    yield* createResponse(
      createExchange(server, codec, context, call, encoded, credential),
      encoded.path,
      encoded.body,
    );
    return;
  }
  const response = await send(server, call, credential, encoded, "POST", encoded.body);
  if (response.type !== "stream") {
    const secrets = secretsOf(server, call, key);
    const events = replyWithoutStream(profile, codec, response, context, secrets, call.clock.now());
    yield begin(restored(events, encoded));
    return;
  }
  const decoder = codec.decoder(context);
  const { headers } = response;
  /** Events as the caller receives them. */
  const received = (events: readonly ModelEvent[]) =>
    restored(
      withHeaders(events, headers, () => secretsOf(server, call, key)),
      encoded,
    );
  let hasTerminated = false;
  let hasStarted = false;
  try {
    for await (const frames of response.frames) {
      const events = received(decoder.push(frames));
      if (events.length === 0) continue;
      yield hasStarted ? events : begin(events);
      hasStarted = true;
      if (hasTerminated || !events.some(isTerminal)) continue;
      hasTerminated = true;
      response.finish();
    }
  } catch (error) {
    if (!(error instanceof TransportFailure)) throw error;
    if (hasTerminated) return;
    // Invariant 2: a reply that was complete when the connection broke is kept.
    const decodedEnd = received(decoder.end());
    const failedEvent: ModelEvent = {
      type: "error",
      error: withRequestId(
        failureWithoutKey(error.failure, secretsOf(server, call, key)),
        response.headers,
        secretsOf(server, call, key),
      ),
    };
    const lastEvents = decodedEnd.some(({ type }) => type === "message_completed") ? decodedEnd : [failedEvent];
    yield hasStarted ? lastEvents : begin(lastEvents);
    return;
  }
  const lastEvents = received(decoder.end());
  if (lastEvents.length > 0) yield hasStarted ? lastEvents : begin(lastEvents);
}

/** Counts the input tokens of a request by the endpoint of the API. Throws `AdapterError`. */
export async function countTokens(
  adapterServer: Server,
  codec: Codec,
  request: ModelRequest,
  call: AdapterCall,
): Promise<number> {
  const server = await withTokensOf(adapterServer);
  const { provider } = server.profile;
  const { tokenCounting } = codec;
  const context = contextOf(server, request, call);
  if (tokenCounting === undefined || server.profile.rewrite !== undefined) {
    const message = `${provider} has no endpoint that counts tokens`;
    throw new AdapterError("unsupported_feature", { provider, message });
  }
  const encoded = codec.encode(request, context);
  const { path, body } = tokenCounting.requestFor(encoded, context);
  const credential = await credentialOf(server.profile, server.options, call);
  const secrets = secretsOf(server, call, credential.key);
  const answer = await send(server, call, credential, { path, headers: encoded.headers }, "POST", body);
  if (answer.type === "refused" || answer.type === "failed")
    throw errorFromFailure(failureOf(codec, answer, context, secrets, call.clock.now()));
  if (answer.type === "stream") for await (const _ of answer.frames) break;
  const text = answer.type === "body" ? answer.text : "";
  const tokens = tokenCounting.read(parseJson(text)?.value ?? null);
  if (tokens !== null) return tokens;
  const message = `${provider}: the answer to a request for a token count has no count`;
  throw errorFromFailure(
    failureWithoutKey(adapterFailure("malformed_response", { provider, message, raw: text }), secrets),
  );
}

/** Continues a background response by its reference. */
export async function* resumeReply(
  adapterServer: Server,
  codec: Codec,
  reference: JsonObject,
  request: ModelRequest,
  call: AdapterCall,
): AsyncGenerator<readonly ModelEvent[]> {
  const server = await withTokensOf(adapterServer);
  const context = contextOf(server, request, call);
  const encoded = encodeFor(server, codec, request, context);
  const credential = await credentialOf(server.profile, server.options, call);
  yield* resumeResponse(createExchange(server, codec, context, call, encoded, credential), reference);
}

/** Cancels a background response by its reference. */
export async function cancelReply(
  adapterServer: Server,
  codec: Codec,
  reference: JsonObject,
  call: AdapterCall,
): Promise<void> {
  const server = { ...adapterServer, tokens: {} };
  const context = { route: routeOf(server, ""), rawChunks: false, quirks: server.quirks };
  const encoded = { path: "", body: {}, headers: {}, omissions: [] };
  const credential = await credentialOf(server.profile, server.options, call);
  await cancelResponse(createExchange(server, codec, context, call, encoded, credential), reference);
}

/**
 * Bundles what `background.ts` needs for the requests of one call. All of them share one deadline, `timeouts.total`.
 */
function createExchange(
  server: CallServer,
  codec: Codec,
  context: WireContext,
  call: AdapterCall,
  encoded: EncodedRequest,
  credential: Credential,
): Exchange {
  const { key } = credential;
  const { provider } = server.profile;
  const { background } = codec;
  if (background === undefined)
    throw new EngineError("invalid_engine", { provider, message: `the API ${codec.api} has no background responses` });
  const { total } = server.timeouts;
  const deadline = total === null ? null : call.clock.now() + total;
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
      const remainingMs = deadline === null ? null : Math.max(1, deadline - call.clock.now());
      const timeouts = { ...server.timeouts, total: remainingMs };
      return send({ ...server, timeouts }, call, credential, { ...encoded, path }, method, body);
    },
    failureOf: (response) => failureOf(codec, response, context, secretsOf(server, call, key), call.clock.now()),
    received: (events, headers) =>
      restored(
        withHeaders(events, headers, () => secretsOf(server, call, key)),
        encoded,
      ),
    begin: opening(encoded),
  };
}

/**
 * Returns a function that begins a reply: the first events of the codec, with `message_started` first and then the
 * warnings about the request.
 */
function opening(encoded: EncodedRequest): (events: readonly ModelEvent[]) => readonly ModelEvent[] {
  const { omissions } = encoded;
  const warnings = warningsOf(omissions).map((warning): ModelEvent => ({ type: "warning", warning }));
  return (events) => {
    const [first, ...following] = events;
    return first?.type === "message_started"
      ? [first, ...warnings, ...following]
      : [...restored([{ type: "message_started", message: assistant("") }], encoded), ...warnings, ...events];
  };
}

/** The events without the `null`s that the schemas of the request made possible. */
function restored(events: readonly ModelEvent[], { addedNulls }: EncodedRequest): readonly ModelEvent[] {
  return addedNulls === undefined ? events : restoreEvents(events, addedNulls);
}

/** Sends one request after the check of `beforeRequest` (fencing). */
async function send(
  server: CallServer,
  call: AdapterCall,
  credential: Credential,
  { path, headers }: Pick<EncodedRequest, "path" | "headers">,
  method: "GET" | "POST",
  bodyFields: JsonObject | null,
): Promise<HttpAnswer> {
  const { profile, baseURL, options, tokens } = server;
  const authorized =
    bodyFields === null || profile.mcp === undefined ? bodyFields : withTokens(bodyFields, profile.mcp, tokens);
  const body = authorized === null ? null : bodyText(authorized);
  const permission = call.beforeRequest?.();
  if (permission instanceof Promise) await permission;
  return sendRequest({
    method,
    url: `${baseURL}${path}${appendQuery(path, profile.query ?? "")}`,
    headers: headersOf(server, headers, credential, call),
    body,
    provider: profile.provider,
    signal: call.signal,
    fetch: options.fetch ?? ((url, init) => fetch(url, init)),
    timeouts: server.timeouts,
    limits: { ...defaultLimits, ...options.limits },
    clock: call.clock,
  });
}

/** The query of the profile, joined with `&` if the path has a query already. */
function appendQuery(path: string, query: string): string {
  return path.includes("?") ? query.replace("?", "&") : query;
}

/** The failure of an HTTP error, or of a request without a response. */
function failureOf(
  codec: Codec,
  response: Extract<HttpAnswer, { readonly type: "refused" | "failed" }>,
  context: WireContext,
  secrets: Secrets,
  now: number,
): Failure {
  if (response.type === "failed") return failureWithoutKey(response.failure, secrets);
  const { status, headers, text } = response;
  const body = parseJson(text)?.value ?? text;
  const errorResponse = { status, body, requestId: requestIdOf(headers), retryAfterMs: retryAfter(headers, now) };
  return failureWithoutKey(codec.decodeError(errorResponse, context), secrets);
}

/** The events of a response that is not a stream: a whole reply, an HTTP error, or no response. */
function replyWithoutStream(
  { provider }: ProviderProfile,
  codec: Codec,
  response: Exclude<HttpAnswer, { readonly type: "stream" }>,
  context: WireContext,
  secrets: Secrets,
  now: number,
): readonly ModelEvent[] {
  if (response.type !== "body") return [{ type: "error", error: failureOf(codec, response, context, secrets, now) }];
  const { text } = response;
  const body = parseJson(text);
  const requestId = requestIdOf(response.headers);
  if (body === null) {
    const message = `${provider} answered with a body that is not JSON`;
    const error = adapterFailure("malformed_response", { provider, requestId, message, raw: text });
    return [{ type: "error", error: failureWithoutKey(error, secrets) }];
  }
  return withHeaders(codec.decodeReply(body.value, context), response.headers, () => secrets);
}

/** The request of the codec, in the form of the server. */
function encodeFor({ profile }: Server, codec: Codec, request: ModelRequest, context: WireContext): EncodedRequest {
  const encoded = codec.encode(request, context);
  return profile.rewrite === undefined ? encoded : profile.rewrite(encoded, context.route.model);
}

/** The context of the codec. Throws like `requiredModelName`. */
function contextOf(server: Server, request: ModelRequest, call: AdapterCall): WireContext {
  const { profile, quirks } = server;
  const name = requiredModelName(profile, request.model, request.options);
  const { background = false } = profile;
  const isPast = (date: string): boolean => (parseDate(date) ?? Infinity) <= call.clock.now();
  return { route: routeOf(server, profile.sentModel ?? name), rawChunks: call.rawChunks, quirks, background, isPast };
}

/** The route that replay data is stamped with. The API is part of the endpoint: the same server may offer several. */
function routeOf({ profile, baseURL }: Server, model: string): ProviderRoute {
  return { provider: profile.provider, endpoint: `${baseURL}#${profile.codec.api}`, model };
}

/**
 * The headers of a request: standard headers, those of the codec, of the adapter and of the call. Later ones win; lists
 * of betas are joined.
 */
function headersOf(
  { profile, options }: Server,
  headers: EncodedRequest["headers"],
  { key, auth }: Credential,
  call: AdapterCall,
): { readonly [name: string]: string } {
  const standardHeaders = {
    "content-type": "application/json",
    accept: "text/event-stream",
    ...(key === null ? {} : keyHeader(auth, key)),
  };
  const ofCall = headersOfCall(profile.provider, call.options, profile.betaHeader ?? null);
  return joinHeaders(standardHeaders, lowerCaseNames(headers), lowerCaseNames(options.headers ?? {}), ofCall);
}

/** The failure with the request id of the response headers, if it has none. */
function withRequestId(failure: Failure, headers: Headers, secrets: Secrets): Failure {
  const requestId = requestIdOf(headers);
  return "requestId" in failure && failure.requestId === null && requestId !== null
    ? { ...failure, requestId: withoutKey(requestId, secrets) }
    : failure;
}

/**
 * Adds to the last event of a reply what the response headers say: the id of the request, which support asks for, and
 * the state of the rate limits, as the server wrote it (`metadata.rateLimit`). Removes the key from error events.
 */
function withHeaders(events: readonly ModelEvent[], headers: Headers, secrets: () => Secrets): readonly ModelEvent[] {
  const redactedEvents = redactKeys(events, secrets);
  if (!events.some(isTerminal)) return redactedEvents;
  return redactedEvents.map((event): ModelEvent => {
    if (event.type === "error") return { ...event, error: withRequestId(event.error, headers, secrets()) };
    if (event.type !== "message_completed") return event;
    const requestId = requestIdOf(headers);
    const rateLimit = rateLimitsOf(headers, secrets());
    return {
      ...event,
      requestId: requestId === null ? event.requestId : withoutKey(requestId, secrets()),
      metadata: Object.keys(rateLimit).length === 0 ? event.metadata : { ...event.metadata, rateLimit },
    };
  });
}

/**
 * The headers with which servers report rate limits: `x-ratelimit-*` (OpenAI and servers with its API),
 * `anthropic-ratelimit-*`, `ratelimit-*` (the draft of the IETF, draft-ietf-httpapi-ratelimit-headers).
 */
function rateLimitsOf(headers: Headers, secrets: Secrets): JsonObject {
  const found = [...headers].filter(([name]) => /^(?:x-|anthropic-)?ratelimit\b/.test(name));
  return Object.fromEntries(found.map(([name, value]) => [name, withoutKey(value, secrets)]));
}

/** Removes the key from error events: servers repeat it in error messages, also inside a stream. */
function redactKeys(events: readonly ModelEvent[], secrets: () => Secrets): readonly ModelEvent[] {
  if (!events.some(({ type }) => type === "error" || type === "raw_chunk")) return events;
  return events.map((event) => {
    if (event.type === "error") return { ...event, error: failureWithoutKey(event.error, secrets()) };
    return event.type === "raw_chunk" && hasRedaction() ? redactedChunk(event) : event;
  });
}

/** The chunk after the redaction hook of the program. */
function redactedChunk(event: Extract<ModelEvent, { readonly type: "raw_chunk" }>): ModelEvent {
  const text = JSON.stringify(event.chunk, (_, value: unknown) =>
    typeof value === "string" ? redacted(value, "provider") : value,
  );
  return { ...event, chunk: JSON.parse(text) };
}

/** The secrets of a call: the key, and the values of headers that the program added to the adapter or to the call. */
function secretsOf({ profile, options, tokens }: CallServer, call: AdapterCall, key: string | null): Secrets {
  const ofCall = headersOfCall(profile.provider, call.options, profile.betaHeader ?? null);
  return [
    ...secretsIn(key, { ...lowerCaseNames(options.headers ?? {}), ...ofCall }),
    ...Object.values(tokens).map(withoutScheme),
  ];
}

function isTerminal({ type }: ModelEvent): boolean {
  return type === "message_completed" || type === "error";
}
