// The client: each verb of the durable runtime as an HTTP request. Most verbs follow from their rows in serve/contract;
// this file has those that start a turn, read events, or need several requests.
//
// Theory of operation
//   `createClient` holds no state besides its configuration: no connection, no cache, no session. A verb that starts a
//   turn sends one POST with an idempotency key and `Accept: text/event-stream`, reads the ids of session and turn from
//   the response headers, and returns a `ClientTurn` whose events come from that same response. Files:
//     requests.ts         the options of the client, and the request of an operation (serve/contract)
//     sender.ts           one request with its retries; errors.ts maps error responses to error classes
//     backoff.ts          retry with exponential backoff and jitter, `Retry-After`
//     frames.ts           SSE frames of one response, with backpressure
//     event-reader.ts     events across connections: reconnect with the cursor
//     reader-position.ts  exactly-once display: cursor, sequence numbers, repeated live events
//     turn.ts             the events and the result of one turn
//
// Failure cases
//   response lost after the turn was accepted   the request is sent again with the same key; the server returns the
//                                               accepted turn
//   stream cut                                  reconnect after the last cursor; no event is lost or shown twice
//   server restarted, or another process        retries and resumption work: cursors and keys are stored with the
//                                               session
//   connection silent (no heartbeat)            counts as cut after `silenceMs`
//   server unreachable                          `unreachable` or `connection_lost` after the configured number of
//                                               retries
//   response of a proxy                         `unexpected_answer` with the start of its body and without the token
//
// Invariants
//   1. A verb that starts a turn has one idempotency key for all its attempts: the turn starts once (at-least-once
//      delivery of the request, exactly-once effect).
//   2. A request that is not idempotent, as its operation says (`cancel` without a turn id, `fork`, `recover`,
//      `complete`), is not repeated after the server may have processed it.
//   3. Aborting a signal or leaving an iteration ends requests and connections, never a turn (H6).
//   4. Ids in a URL are percent-encoded segments; `.` and `..` are rejected (path traversal).

import type { Message, SessionView } from "../../core/model/internal.ts";
import type { CallOptions, Operation, OperationTypes, PathValues } from "../contract/internal.ts";
import type { SentBody } from "./requests.ts";
import type { ApiRequest, Sender } from "./sender.ts";
import type { ClientChat, ClientOptions, ClientTurn, DriveOptions, EverturnClient, WatchOptions } from "./types.ts";

import {
  processOperations,
  recordOperations,
  sessionOperations as sessions,
  turnOperations as turns,
} from "../contract/internal.ts";
import { eventIterable, eventStreamAt, readFrames } from "./event-reader.ts";
import { call, pathOf, query, senderOf, verbsOf } from "./requests.ts";
import { readJson, send, unexpectedResponse } from "./sender.ts";
import { clientTurn } from "./turn.ts";

/**
 * A client for a server that uses `everturn/http`, for browsers, workers and Node. Requests that start a turn
 * carry an idempotency key and are retried.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { createClient } from "everturn/client";
 * import { memoryStorage } from "everturn/runtime";
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
    ...verbsOf(sender, sessions),
    ...verbsOf(sender, turns),
    ...verbsOf(sender, recordOperations),
    ...verbsOf(sender, processOperations),

    start: async (input, { id, metadata, ...options } = {}) =>
      startTurn(sender, turns.start, [], { input: textOrMessages(input), id, metadata }, options),
    reply: async (id, message, { whenBusy, ...options } = {}) =>
      startTurn(sender, turns.reply, [id], { ...textOrMessage(message), whenBusy }, options),
    send: async (id, message, { whenBusy, ...options } = {}) =>
      startTurn(sender, turns.send, [id], { ...textOrMessage(message), whenBusy }, options),
    continue: async (id, message, options) =>
      startTurn(sender, turns.continue, [id], { message: message ?? undefined }, options),
    step: async (id, options) => startTurn(sender, turns.step, [id], {}, options),
    submitToolResults: async (id, resultPairs, { continue: continues = true, ...options } = {}) => {
      const results = resultPairs.map(([toolCallId, content]) => ({ toolCallId, content }));
      return startTurn(sender, turns.submitToolResults, [id], { results, continue: continues }, options);
    },
    decide: async (id, toolCallId, decision, { continue: continues = true, ...options } = {}) =>
      startTurn(sender, turns.decide, [id], { toolCallId, ...decision, continue: continues }, options),
    steer: async (id, input, { id: inputId = randomKey(), ...options } = {}) =>
      call(sender, turns.steer, [id], { input, id: inputId, ...options }),

    get: async (id, options = {}) => {
      const view = await call(sender, sessions.get, [id], { ...options, optional: true });
      return view === null ? null : withOlderMessages(sender, id, view, options);
    },
    chat: async (id, options) => {
      let { previous, ...chat } = await chatPage(sender, id, {}, options);
      while (previous !== null) {
        const page = await chatPage(sender, id, { before: previous }, options);
        chat = { ...chat, messages: [...page.messages, ...chat.messages] };
        previous = page.previous;
      }
      return chat;
    },
    usage: async (id, options) =>
      id === null
        ? call(sender, sessions.getUsageWithoutSession, [], options)
        : call(sender, sessions.usage, [id], options),

    events: (id, options) => readSessionEvents(sender, id, options),
    attach: (id, turnId, { signal = null } = {}) =>
      clientTurn(sender, { sessionId: id, turnId, stream: null, reopen: async () => null, signal }),
    complete: async (token, answer, options) =>
      (await call(sender, turns.complete, [], { token, ...answer, ...options })).result,
  };
}

/** The fields of the body of `reply` and `send` for a message. */
function textOrMessage(message: Parameters<EverturnClient["send"]>[1]) {
  return typeof message === "string" ? { text: message } : { message };
}

/** The input of a session: text, or a list of messages. */
function textOrMessages(input: Parameters<EverturnClient["start"]>[0]) {
  return typeof input === "object" && "role" in input ? [input] : input;
}

/** Starts a turn. All attempts carry the same idempotency key, so the turn starts once. */
async function startTurn<Types extends OperationTypes>(
  sender: Sender,
  operation: Operation<Types>,
  ids: PathValues<Types["path"]>,
  fields: Omit<SentBody<Types["body"]>, "options">,
  { key = randomKey(), signal: callerSignal, ...options }: DriveOptions = {},
): Promise<ClientTurn> {
  const signal = callerSignal ?? null;
  const body = Object.keys(options).length === 0 ? fields : { ...fields, options };
  const headers = { accept: "text/event-stream", "idempotency-key": key };
  const path = pathOf(operation.path, ids);
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
  { after, turnId, follow = true, signal, onConnection }: WatchOptions = {},
): ReturnType<EverturnClient["events"]> {
  const path = turnId === undefined ? pathOf(turns.events.path, [id]) : pathOf(turns.watchTurn.path, [id, turnId]);
  const source = {
    after: after ?? null,
    open: eventStreamAt(sender, path + query(follow ? {} : { follow })),
    ending: follow ? "cut" : "over",
    onTurnEnd: () => undefined,
    onConnection,
  } as const;
  return eventIterable(sender, source, signal ?? null);
}

/** A random key of 128 bits. Not `crypto.randomUUID`, which browsers offer on secure origins only. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

type ChatPage = ClientChat & { readonly previous: string | null };

/** Reads a page of a chat from a route of the dialect `aiSdkChat()`. */
function chatPage(
  sender: Sender,
  id: string,
  page: { readonly before?: string },
  { signal }: CallOptions = {},
): Promise<ChatPage> {
  const path = pathOf("/ui/chat/{id}", [id]) + query(page);
  return send(sender, { method: "GET", path, repeat: "idempotent", signal: signal ?? null }, readJson<ChatPage>);
}

/**
 * Adds the messages that the server left out of a view because they are larger than a page, up to as many as were asked
 * for. Messages are only appended, so their positions stay valid between the requests.
 */
async function withOlderMessages(
  sender: Sender,
  id: string,
  view: SessionView,
  { messages: count = 100, ...options }: CallOptions & { readonly messages?: number },
): Promise<SessionView> {
  const { session, length } = view;
  const end = length - session.thread.messages.length;
  const older: Message[] = [];
  const first = Math.max(0, length - count);
  while (first + older.length < end) {
    const next = first + older.length;
    const page = { after: `${next - 1}`, limit: end - next };
    const { items } = await call(sender, sessions.messages, [id], { ...options, ...page });
    if (items.length === 0) break;
    older.push(...items);
  }
  const messages = [...older, ...session.thread.messages];
  return { ...view, session: { ...session, thread: { ...session.thread, messages } } };
}
