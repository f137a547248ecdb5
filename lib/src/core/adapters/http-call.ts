// One call of an HTTP adapter.
//
// Theory of operation of one call
//   1. callFor       resolves the model name; the route is provider, `baseURL#api`, model
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

import type { AdapterCall, HttpAnswer, ResponseHeaders, Secrets } from "../engine/internal.ts";
import type { Failure, JsonObject, ModelEvent, ModelRequest, ProviderRoute } from "../model/internal.ts";
import type { Codec, EncodedRequest, WireContext } from "../wire/internal.ts";
import type { Exchange } from "./background.ts";
import type { Credential } from "./credentials.ts";
import type { Server } from "./http-adapter.ts";
import type { McpTokens } from "./mcp-authorization.ts";

import { parseDate } from "../clock/clock.ts";
import {
  defaultLimits,
  failureWithoutKey,
  hasRedaction,
  httpClient,
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
  isTerminal,
  parseJson,
} from "../model/internal.ts";
import { bodyText, listAt, restoreEvents, warningsOf } from "../wire/internal.ts";
import { cancelResponse, createResponse, resumeResponse } from "./background.ts";
import { headersOfCall, joinHeaders, keyHeader, lowerCaseNames, secretsIn, withoutScheme } from "./call-headers.ts";
import { isHeaderValue } from "./call-options.ts";
import { credentialOf } from "./credentials.ts";
import { resolveTokens, withTokens } from "./mcp-authorization.ts";
import { requiredModelName } from "./model-name.ts";

/** A call and what its requests need. */
type HttpCall = {
  readonly server: Server;
  readonly codec: Codec;
  readonly call: AdapterCall;
  readonly context: WireContext;
  /** The request of the codec, in the form of the server. */
  readonly encoded: EncodedRequest;
  readonly tokens: McpTokens;
  readonly credential: Credential;
};

/** Encodes a request and resolves its credentials. Throws like `requiredModelName` and the codec. */
async function callFor(server: Server, codec: Codec, request: ModelRequest, call: AdapterCall): Promise<HttpCall> {
  const { profile, options } = server;
  const tokens = await resolveTokens(profile.mcp?.sources ?? {}, profile.provider);
  const isPast = (date: string): boolean => (parseDate(date) ?? Infinity) <= call.clock.now();
  const encoded = encodeFor(server, codec, request, { rawChunks: call.rawChunks, isPast });
  return { server, codec, call, ...encoded, tokens, credential: await credentialOf(profile, options, call) };
}

/** Encodes a request in the form of the server, without credentials. */
function encodeFor(
  server: Server,
  codec: Codec,
  request: ModelRequest,
  settings: Pick<WireContext, "rawChunks" | "isPast">,
): Pick<HttpCall, "context" | "encoded"> {
  const { profile, quirks } = server;
  const { background = false, sentModel, rewrite } = profile;
  const name = requiredModelName(profile, request.model, request.options);
  const route = routeOf(server, sentModel ?? name);
  const context: WireContext = { route, quirks, background, ...settings };
  const encoded = codec.encode(request, context);
  return { context, encoded: rewrite === undefined ? encoded : rewrite(encoded, route.model) };
}

/**
 * The path and the body of a request, without sending it. Resources of the provider that have expired since the request
 * was sent are in it, as they were then.
 */
export function encodedRequest(
  server: Server,
  codec: Codec,
  request: ModelRequest,
): Pick<EncodedRequest, "path" | "body"> {
  const { path, body } = encodeFor(server, codec, request, { rawChunks: false }).encoded;
  return { path, body };
}

/** One call: encodes, sends and decodes. See the theory of operation above. */
export async function* streamReply(
  server: Server,
  codec: Codec,
  request: ModelRequest,
  call: AdapterCall,
): AsyncGenerator<readonly ModelEvent[]> {
  const httpCall = await callFor(server, codec, request, call);
  const { context, encoded, credential } = httpCall;
  const { provider } = server.profile;
  const begin = opening(encoded);
  if (credential.key !== null && !isHeaderValue(credential.key)) {
    const message = `the key for ${provider} contains characters that an HTTP header cannot hold; check that it was copied correctly`;
    yield begin([
      { type: "error", error: adapterFailure("authentication_failed", { provider, message, retryable: false }) },
    ]);
    return;
  }
  if (codec.background?.isRequested(encoded.body) === true) {
    yield* createResponse(exchangeOf(httpCall), encoded.path, encoded.body);
    return;
  }
  const response = await send(httpCall, "POST", encoded.path, encoded.body);
  if (response.type !== "stream") {
    yield begin(replyWithoutStream(httpCall, response));
    return;
  }
  const decoder = codec.decoder(context);
  const { headers } = response;
  let hasTerminated = false;
  let hasStarted = false;
  try {
    for await (const frames of response.frames) {
      const events = received(httpCall, decoder.push(frames), headers);
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
    const decodedEnd = received(httpCall, decoder.end(), headers);
    const secrets = secretsOf(httpCall);
    const failure = withRequestId(failureWithoutKey(error.failure, secrets), headers, secrets);
    const failedEvent: ModelEvent = { type: "error", error: failure };
    const lastEvents = decodedEnd.some(({ type }) => type === "message_completed") ? decodedEnd : [failedEvent];
    yield hasStarted ? lastEvents : begin(lastEvents);
    return;
  }
  const lastEvents = received(httpCall, decoder.end(), headers);
  if (lastEvents.length > 0) yield hasStarted ? lastEvents : begin(lastEvents);
}

/** Counts the input tokens of a request by the endpoint of the API. Throws `AdapterError`. */
export async function countTokens(
  server: Server,
  codec: Codec,
  request: ModelRequest,
  call: AdapterCall,
): Promise<number> {
  const { provider } = server.profile;
  const { tokenCounting } = codec;
  if (tokenCounting === undefined) {
    const message = `${provider} has no endpoint that counts tokens`;
    throw new AdapterError("unsupported_feature", { provider, message });
  }
  const httpCall = await callFor(server, codec, request, call);
  const { path, body } = tokenCounting.requestFor(httpCall.encoded, httpCall.context);
  const answer = await send(httpCall, "POST", path, body);
  if (answer.type === "refused" || answer.type === "failed") throw errorFromFailure(failureOf(httpCall, answer));
  if (answer.type === "stream") for await (const _ of answer.frames) break;
  const text = answer.type === "body" ? answer.text : "";
  const tokens = tokenCounting.read(parseJson(text)?.value ?? null);
  if (tokens !== null) return tokens;
  const message = `${provider}: the answer to a request for a token count has no count`;
  const failure = adapterFailure("malformed_response", { provider, message, raw: text });
  throw errorFromFailure(failureWithoutKey(failure, secretsOf(httpCall)));
}

/** Continues a background response by its reference. */
export async function* resumeReply(
  server: Server,
  codec: Codec,
  reference: JsonObject,
  request: ModelRequest,
  call: AdapterCall,
): AsyncGenerator<readonly ModelEvent[]> {
  yield* resumeResponse(exchangeOf(await callFor(server, codec, request, call)), reference);
}

/** Cancels a background response by its reference. */
export async function cancelReply(
  server: Server,
  codec: Codec,
  reference: JsonObject,
  call: AdapterCall,
): Promise<void> {
  const context = { route: routeOf(server, ""), rawChunks: false, quirks: server.quirks };
  const encoded = { path: "", body: {}, headers: {}, omissions: [] };
  const credential = await credentialOf(server.profile, server.options, call);
  await cancelResponse(exchangeOf({ server, codec, call, context, encoded, tokens: {}, credential }), reference);
}

/**
 * Bundles what `background.ts` needs for the requests of one call. All of them share one deadline, `timeouts.total`.
 */
function exchangeOf(httpCall: HttpCall): Exchange {
  const { server, codec, call, context, encoded } = httpCall;
  const { provider } = server.profile;
  const { background } = codec;
  if (background === undefined)
    throw new EngineError("invalid_engine", { provider, message: `the API ${codec.api} has no background responses` });
  const { total } = server.timeouts;
  const deadline = total === null ? null : call.clock.now() + total;
  return {
    provider,
    endpoint: context.route.endpoint,
    background,
    context,
    call,
    include: listAt(encoded.body, "include").filter((field) => typeof field === "string"),
    totalMs: total,
    send: (method, path, body) => {
      const remainingMs = deadline === null ? null : Math.max(1, deadline - call.clock.now());
      const timeouts = { ...server.timeouts, total: remainingMs };
      return send({ ...httpCall, server: { ...server, timeouts } }, method, path, body);
    },
    failureOf: (response) => failureOf(httpCall, response),
    received: (events, headers) => received(httpCall, events, headers),
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
  { server, call, encoded, tokens, credential }: HttpCall,
  method: "GET" | "POST",
  path: string,
  bodyFields: JsonObject | null,
): Promise<HttpAnswer> {
  const { profile, baseURL, options } = server;
  const authorized =
    bodyFields === null || profile.mcp === undefined ? bodyFields : withTokens(bodyFields, profile.mcp, tokens);
  const body = authorized === null ? null : bodyText(authorized);
  const permission = call.beforeRequest?.();
  if (permission instanceof Promise) await permission;
  return sendRequest({
    method,
    url: `${baseURL}${path}${appendQuery(path, profile.query ?? "")}`,
    headers: headersOf(server, encoded.headers, credential, call),
    body,
    provider: profile.provider,
    signal: call.signal,
    client: httpClient(options.fetch),
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
  httpCall: HttpCall,
  response: Extract<HttpAnswer, { readonly type: "refused" | "failed" }>,
): Failure {
  const { codec, context, call } = httpCall;
  const failure = response.type === "failed" ? response.failure : refusalOf(codec, context, response, call.clock.now());
  return failureWithoutKey(failure, secretsOf(httpCall));
}

/** The failure of an HTTP error. It may contain the key. */
export function refusalOf(
  codec: Codec,
  context: WireContext,
  { status, headers, text }: Extract<HttpAnswer, { readonly type: "refused" }>,
  now: number,
): Failure {
  const body = parseJson(text)?.value ?? text;
  const errorResponse = { status, body, requestId: requestIdOf(headers), retryAfterMs: retryAfter(headers, now) };
  return codec.decodeError(errorResponse, context);
}

/** The events of a response that is not a stream: a whole reply, an HTTP error, or no response. */
function replyWithoutStream(
  httpCall: HttpCall,
  response: Exclude<HttpAnswer, { readonly type: "stream" }>,
): readonly ModelEvent[] {
  if (response.type !== "body") return [{ type: "error", error: failureOf(httpCall, response) }];
  const { codec, context, server } = httpCall;
  const { text, headers } = response;
  const body = parseJson(text);
  if (body !== null) return received(httpCall, codec.decodeReply(body.value, context), headers);
  const { provider } = server.profile;
  const message = `${provider} answered with a body that is not JSON`;
  const details = { provider, requestId: requestIdOf(headers), message, raw: text };
  const failure = adapterFailure("malformed_response", details);
  return [{ type: "error", error: failureWithoutKey(failure, secretsOf(httpCall)) }];
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
function withRequestId(failure: Failure, headers: ResponseHeaders, secrets: Secrets): Failure {
  const requestId = requestIdOf(headers);
  return "requestId" in failure && failure.requestId === null && requestId !== null
    ? { ...failure, requestId: withoutKey(requestId, secrets) }
    : failure;
}

/**
 * Events as the caller receives them: without the key and without the `null`s that the schemas of the request made
 * possible. The last event of a reply has what the response headers say: the id of the request, which support asks for,
 * and the state of the rate limits, as the server wrote it (`metadata.rateLimit`).
 */
function received(httpCall: HttpCall, events: readonly ModelEvent[], headers: ResponseHeaders): readonly ModelEvent[] {
  const secrets = () => secretsOf(httpCall);
  const redactedEvents = redactKeys(events, secrets);
  if (!events.some(isTerminal)) return restored(redactedEvents, httpCall.encoded);
  const complete = redactedEvents.map((event): ModelEvent => {
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
  return restored(complete, httpCall.encoded);
}

/**
 * The headers with which servers report rate limits: `x-ratelimit-*` (OpenAI and servers with its API),
 * `anthropic-ratelimit-*`, `ratelimit-*` (the draft of the IETF, draft-ietf-httpapi-ratelimit-headers).
 */
function rateLimitsOf(headers: ResponseHeaders, secrets: Secrets): JsonObject {
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
function secretsOf({ server: { profile, options }, call, tokens, credential }: HttpCall): Secrets {
  const ofCall = headersOfCall(profile.provider, call.options, profile.betaHeader ?? null);
  return [
    ...secretsIn(credential.key, { ...lowerCaseNames(options.headers ?? {}), ...ofCall }),
    ...Object.values(tokens).map(withoutScheme),
  ];
}
