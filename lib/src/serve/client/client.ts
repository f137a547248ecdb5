// The client: each verb of the durable runtime as an HTTP request.
//
// Theory of operation
//   `createClient` holds no state besides its configuration: no connection, no cache, no session. A verb that starts a turn sends one
//   POST with an idempotency key and `Accept: text/event-stream`, reads the ids of session and turn from the response headers, and
//   returns a `ClientTurn` whose events come from that same response. Files:
//     requests.ts         paths, queries and the options of the client
//     sender.ts           one request with its retries; errors.ts maps error responses to error classes
//     backoff.ts          retry with exponential backoff and jitter, `Retry-After`
//     frames.ts           SSE frames of one response, with backpressure
//     event-reader.ts     events across connections: reconnect with the cursor
//     reader-position.ts  exactly-once display: cursor, sequence numbers, repeated live events
//     turn.ts             the events and the result of one turn
//
// Failure cases
//   response lost after the turn was accepted   the request is sent again with the same key; the server returns the accepted turn
//   stream cut                                  reconnect after the last cursor; no event is lost or shown twice
//   server restarted, or another process        retries and resumption work: cursors and keys are stored with the session
//   connection silent (no heartbeat)            counts as cut after `silenceMs`
//   server unreachable                          `unreachable` or `connection_lost` after the configured number of retries
//   response of a proxy                         `unexpected_answer` with the start of its body and without the token
//
// Invariants
//   1. A verb that starts a turn has one idempotency key for all its attempts: the turn starts once (at-least-once delivery of the
//      request, exactly-once effect).
//   2. A request that is not idempotent (`cancel` without a turn id, `fork`, `recover`, `complete`) is not repeated after the server
//      may have processed it.
//   3. Aborting a signal or leaving an iteration ends requests and connections, never a turn (H6).
//   4. Ids in a URL are percent-encoded segments; `.` and `..` are rejected (path traversal).

import type {
  Cancelled,
  LedgerSum,
  Message,
  Page,
  Recovered,
  SessionSummary,
  SessionView,
  Withdrawn,
} from "../../core/model/internal.ts";
import type { ApiRequest, Sender } from "./sender.ts";
import type {
  CallOptions,
  ClientChat,
  ClientOptions,
  ClientTurn,
  Completed,
  DriveOptions,
  EverturnClient,
  ExportedTurn,
  WatchOptions,
} from "./types.ts";

import { Backoff } from "./backoff.ts";
import { errorOfFailure, isNotFound, serverFailure } from "./errors.ts";
import { eventIterable, eventStreamAt, readFrames } from "./event-reader.ts";
import { ask, at, post, query, senderOf } from "./requests.ts";
import { readJson, readNothing, send, unexpectedResponse } from "./sender.ts";
import { clientTurn } from "./turn.ts";

/**
 * A client for a server that uses `everturn/http`, for browsers, workers and Node. Requests that start a turn
 * carry an idempotency key and are retried.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { createClient } from "everturn/client";
 * import { memoryStorage } from "everturn/host/memory";
 * import { createHandler } from "everturn/http";
 * import { runtime } from "everturn/runtime";
 *
 * // A server in the same process. For a remote server, `url` and `token` are enough.
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const handler = createHandler({ sessions, auth: [{ token: "a-secret-bearer-token" }] });
 *
 * const client = createClient({
 *   url: "http://localhost",
 *   token: "a-secret-bearer-token",
 *   fetch: (url, init) => handler(new Request(url, init)),
 * });
 * const turn = await client.start("hi", { id: "s1" });
 * let shown = "";
 * for await (const { event } of turn.events) if (event.type === "text_delta") shown += event.delta;
 * shown; // => "Hello!"
 * (await turn.result).session.status; // => "completed"
 * (await client.get("s1"))?.length; // => 2
 * ```
 */
export function createClient(options: ClientOptions): EverturnClient {
  const sender = senderOf(options);
  return {
    start: async (input, { id, metadata, ...options } = {}) =>
      startTurn(sender, "/sessions", { input, id, metadata }, options),
    reply: async (id, message, { whenBusy, ...options } = {}) =>
      startTurn(sender, at`/sessions/${id}/reply`, { ...textOrMessage(message), whenBusy }, options),
    send: async (id, message, { whenBusy, ...options } = {}) =>
      startTurn(sender, at`/sessions/${id}/send`, { ...textOrMessage(message), whenBusy }, options),
    continue: async (id, message, options) =>
      startTurn(sender, at`/sessions/${id}/continue`, { message: message ?? undefined }, options),
    step: async (id, options) => startTurn(sender, at`/sessions/${id}/step`, {}, options),
    submitToolResults: async (id, resultPairs, { continue: continues = true, ...options } = {}) => {
      const results = resultPairs.map(([toolCallId, content]) => ({ toolCallId, content }));
      return startTurn(sender, at`/sessions/${id}/tool-results`, { results, continue: continues }, options);
    },
    decide: async (id, toolCallId, decision, { continue: continues = true, ...options } = {}) =>
      startTurn(sender, at`/sessions/${id}/decisions`, { toolCallId, ...decision, continue: continues }, options),

    steer: async (id, input, { id: inputId = randomKey(), transient, ...options } = {}) =>
      post(
        sender,
        at`/sessions/${id}/steer`,
        { input, transient, id: inputId },
        options,
        readJson<Steered>,
        "idempotent",
      ),
    withdraw: async (id, inputId, options) =>
      ask(sender, "DELETE", at`/sessions/${id}/inputs/${inputId}`, options, readResult<Withdrawn>),
    cancel: async (id, { turnId, reason, ...options } = {}) => {
      // Without a turn id a second request might cancel the next turn.
      const repeat = turnId === undefined ? "at_most_once" : "idempotent";
      return post(sender, at`/sessions/${id}/cancel`, { turnId, reason }, options, readResult<Cancelled>, repeat);
    },

    get: async (id, { messages, ...options } = {}) => {
      const path = at`/sessions/${id}` + query({ messages });
      const view = await ask(sender, "GET", path, options, readJson<SessionView>).catch(orNull);
      return view === null ? null : withOlderMessages(sender, id, view, messages ?? 100, options);
    },
    chat: async (id, options) => {
      const load = (before?: string) =>
        ask(sender, "GET", at`/ui/chat/${id}` + query({ before }), options, readJson<ChatPage>);
      let { previous, ...chat } = await load();
      while (previous !== null) {
        const page = await load(previous);
        chat = { ...chat, messages: [...page.messages, ...chat.messages] };
        previous = page.previous;
      }
      return chat;
    },
    messages: async (id, { after, limit, ...options } = {}) =>
      ask(sender, "GET", at`/sessions/${id}/messages` + query({ after, limit }), options, readJson<Page<Message>>),
    list: async ({ after, limit, status, engine, ...options } = {}) =>
      ask(
        sender,
        "GET",
        `/sessions${query({ after, limit, status, engine })}`,
        options,
        readJson<Page<SessionSummary>>,
      ),
    delete: async (id, options) => deleteSession(sender, at`/sessions/${id}`, options),
    fork: async (id, { id: name, at: length, ...options } = {}) => {
      const body = { id: name, at: length };
      const fork = await post(sender, at`/sessions/${id}/fork`, body, options, readJson<{ readonly id: string }>);
      return fork.id;
    },
    recover: async (id, { from, ...options } = {}) =>
      post(sender, at`/sessions/${id}/recover`, { from }, options, readJson<Recovered>),
    usage: async (id, options) =>
      ask(sender, "GET", id === null ? "/usage" : at`/sessions/${id}/usage`, options, readJson<LedgerSum>),

    events: (id, options) => readSessionEvents(sender, id, options),
    attach: (id, turnId, { signal = null } = {}) =>
      clientTurn(sender, {
        sessionId: id,
        turnId,
        path: at`/sessions/${id}/turns/${turnId}`,
        stream: null,
        reopen: async () => null,
        signal,
      }),
    export: async (id, turnId, options) =>
      ask(sender, "GET", at`/sessions/${id}/turns/${turnId}/record`, options, readJson<ExportedTurn>),

    token: async (id, toolCallId, options) => {
      const path = at`/sessions/${id}/calls/${toolCallId}/token`;
      return (await ask(sender, "POST", path, options, readJson<{ readonly token: string }>)).token;
    },
    complete: async (token, answer, { signal = null } = {}) => {
      const body = { token, ...answer };
      const answers = [404, 409];
      return send(
        sender,
        { method: "POST", path: "/complete", body, repeat: "at_most_once", signal, answers },
        readResult<Completed>,
      );
    },

    health: async (options) => ask(sender, "GET", "/health", options, readJson<{ readonly status: "ok" }>),
  };
}

/** The fields of the body of `reply` and `send` for a message. */
function textOrMessage(message: Parameters<EverturnClient["send"]>[1]) {
  return typeof message === "string" ? { text: message } : { message };
}

/** The response of `steer`. */
type Steered = { readonly inputId: string; readonly turnId: string };

/** Reads a body `{ result }`. Error statuses that are results (404, 409) may carry a failure instead, which is thrown. */
async function readResult<Result extends string>(response: Response, request: ApiRequest): Promise<Result> {
  const body = await readJson<{ readonly result?: Result }>(response, request);
  if (body.result !== undefined) return body.result;
  const failure = serverFailure(body);
  throw failure === null
    ? unexpectedResponse(request, response, "", "a body without a result")
    : errorOfFailure(failure, response.status, null);
}

/** `null` for a session that does not exist; rethrows other errors. */
function orNull(error: unknown): null {
  if (isNotFound(error)) return null;
  throw error;
}

async function deleteSession(sender: Sender, path: string, { signal }: CallOptions = {}): Promise<void> {
  const backoff = new Backoff(sender.retry.requests, sender.retry, sender.clock);
  try {
    await send(sender, { method: "DELETE", path, repeat: "idempotent", signal: signal ?? null }, readNothing, backoff);
  } catch (error) {
    // After a retry, `not_found` means that the first attempt deleted the session and its response was lost.
    if (!(isNotFound(error) && backoff.used > 0)) throw error;
  }
}

/** Starts a turn. All attempts carry the same idempotency key, so the turn starts once. */
async function startTurn(
  sender: Sender,
  path: string,
  fields: { readonly [name: string]: unknown },
  { key = randomKey(), signal: callerSignal, ...options }: DriveOptions = {},
): Promise<ClientTurn> {
  const signal = callerSignal ?? null;
  const body = Object.keys(options).length === 0 ? fields : { ...fields, options };
  const headers = { accept: "text/event-stream", "idempotency-key": key };
  const request: ApiRequest = { method: "POST", path, body, headers, repeat: "idempotent", signal };
  const { stream, sessionId, turnId } = await send(sender, request, async (response) => {
    const session = response.headers.get("everturn-session");
    const turn = response.headers.get("everturn-turn");
    const frames = await readFrames(sender, signal)(response, request);
    if (session !== null) {
      return { stream: frames, sessionId: decodeURIComponent(session), turnId: turn && decodeURIComponent(turn) };
    }
    frames.close();
    const what = "a stream without the header `Everturn-Session`, which a proxy may have removed";
    throw unexpectedResponse(request, response, "", what);
  });
  return clientTurn(sender, {
    sessionId,
    turnId,
    path: turnId === null ? null : at`/sessions/${sessionId}/turns/${turnId}`,
    stream,
    reopen: (_, readerSignal, backoff) =>
      send(sender, { ...request, signal: readerSignal }, readFrames(sender, readerSignal), backoff),
    signal,
  });
}

/** Reads the events of a session, or of one turn. */
function readSessionEvents(
  sender: Sender,
  id: string,
  { after, turnId, follow = true, signal }: WatchOptions = {},
): ReturnType<EverturnClient["events"]> {
  const path = turnId === undefined ? at`/sessions/${id}/events` : at`/sessions/${id}/turns/${turnId}/events`;
  const source = {
    after: after ?? null,
    open: eventStreamAt(sender, follow ? path : `${path}?follow=false`),
    ending: follow ? "cut" : "over",
    onTurnEnd: () => undefined,
  } as const;
  return eventIterable(sender, source, signal ?? null);
}

/** A random key of 128 bits. Not `crypto.randomUUID`, which browsers offer on secure origins only. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A page of a chat. */
type ChatPage = ClientChat & { readonly previous: string | null };

/**
 * Adds the messages that the server left out of a view because they are larger than a page, up to `count`. Messages are only appended, so their positions stay
 * valid between the requests.
 */
async function withOlderMessages(
  sender: Sender,
  id: string,
  view: SessionView,
  count: number,
  options: CallOptions,
): Promise<SessionView> {
  const { session, length } = view;
  const end = length - session.thread.messages.length;
  const older: Message[] = [];
  const first = Math.max(0, length - count);
  while (first + older.length < end) {
    const next = first + older.length;
    const path = at`/sessions/${id}/messages` + query({ after: next - 1, limit: end - next });
    const { items } = await ask(sender, "GET", path, options, readJson<Page<Message>>);
    if (items.length === 0) break;
    older.push(...items);
  }
  const messages = [...older, ...session.thread.messages];
  return { ...view, session: { ...session, thread: { ...session.thread, messages } } };
}
