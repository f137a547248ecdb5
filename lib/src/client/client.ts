// The client: the verbs, as requests.

import type {
  Cancelled,
  LedgerSum,
  Message,
  Page,
  Recovered,
  SessionSummary,
  SessionView,
  Withdrawn,
} from "../model/internal.ts";
import type { ApiRequest, ReadAnswer, Sender } from "./sender.ts";
import type {
  CallOptions,
  ClientOptions,
  ClientTurn,
  Completed,
  DriveOptions,
  EverturnClient,
  ExportedTurn,
  WatchOptions,
} from "./types.ts";

import { systemClock } from "../clock/clock.ts";
import { MisuseError } from "../model/internal.ts";
import { Backoff, checkedRetry } from "./backoff.ts";
import { errorOf, isNotFound, sentFailure } from "./errors.ts";
import { checkedToken, readJson, readNothing, send, unexpected } from "./sender.ts";
import { turnAt } from "./turn.ts";
import { openAt, readFrames, watching } from "./watch.ts";

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
 * // A server in the same process; elsewhere `url` and `token` are all it takes.
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const handler = createHandler({ sessions, auth: [{ token: "a-token-nobody-guesses" }] });
 *
 * const client = createClient({
 *   url: "http://localhost",
 *   token: "a-token-nobody-guesses",
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
    start: async (input, { id, metadata, ...rest } = {}) => drive(sender, "/sessions", { input, id, metadata }, rest),
    reply: async (id, text, rest) => drive(sender, at`/sessions/${id}/reply`, { text }, rest),
    send: async (id, text, rest) => drive(sender, at`/sessions/${id}/send`, { text }, rest),
    continue: async (id, message, rest) =>
      drive(sender, at`/sessions/${id}/continue`, { message: message ?? undefined }, rest),
    step: async (id, rest) => drive(sender, at`/sessions/${id}/step`, {}, rest),
    submitToolResults: async (id, given, { continue: goOn = true, ...rest } = {}) => {
      const results = given.map(([toolCallId, content]) => ({ toolCallId, content }));
      return drive(sender, at`/sessions/${id}/tool-results`, { results, continue: goOn }, rest);
    },
    decide: async (id, toolCallId, decision, { continue: goOn = true, ...rest } = {}) =>
      drive(sender, at`/sessions/${id}/decisions`, { toolCallId, ...decision, continue: goOn }, rest),

    steer: async (id, input, { id: inputId = randomKey(), transient, ...rest } = {}) =>
      post(sender, at`/sessions/${id}/steer`, { input, transient, id: inputId }, rest, readJson<Steered>, "safe"),
    withdraw: async (id, inputId, rest) =>
      ask(sender, "DELETE", at`/sessions/${id}/inputs/${inputId}`, rest, readResult<Withdrawn>),
    cancel: async (id, { turnId, reason, ...rest } = {}) => {
      // Without a name the second one might end the turn after.
      const repeat = turnId === undefined ? "once" : "safe";
      return post(sender, at`/sessions/${id}/cancel`, { turnId, reason }, rest, readResult<Cancelled>, repeat);
    },

    get: async (id, { messages, ...rest } = {}) => {
      const path = at`/sessions/${id}` + query({ messages });
      return ask(sender, "GET", path, rest, readJson<SessionView>).catch(orNull);
    },
    messages: async (id, { after, limit, ...rest } = {}) =>
      ask(sender, "GET", at`/sessions/${id}/messages` + query({ after, limit }), rest, readJson<Page<Message>>),
    list: async ({ after, limit, ...rest } = {}) =>
      ask(sender, "GET", `/sessions${query({ after, limit })}`, rest, readJson<Page<SessionSummary>>),
    delete: async (id, rest) => deleteSession(sender, at`/sessions/${id}`, rest),
    fork: async (id, { id: name, at: length, ...rest } = {}) => {
      const body = { id: name, at: length };
      const made = await post(sender, at`/sessions/${id}/fork`, body, rest, readJson<{ readonly id: string }>);
      return made.id;
    },
    recover: async (id, { from, ...rest } = {}) =>
      post(sender, at`/sessions/${id}/recover`, { from }, rest, readJson<Recovered>),
    usage: async (id, rest) => ask(sender, "GET", at`/sessions/${id}/usage`, rest, readJson<LedgerSum>),

    events: (id, rest) => watch(sender, id, rest),
    attach: (id, turnId, { signal = null } = {}) =>
      turnAt(sender, {
        sessionId: id,
        turnId,
        path: at`/sessions/${id}/turns/${turnId}`,
        stream: null,
        again: async () => null,
        signal,
      }),
    export: async (id, turnId, rest) =>
      ask(sender, "GET", at`/sessions/${id}/turns/${turnId}/record`, rest, readJson<ExportedTurn>),

    token: async (id, toolCallId, rest) => {
      const path = at`/sessions/${id}/calls/${toolCallId}/token`;
      return (await ask(sender, "POST", path, rest, readJson<{ readonly token: string }>)).token;
    },
    complete: async (token, answer, { signal = null } = {}) => {
      const body = { token, ...answer };
      const answers = [404, 409];
      return send(
        sender,
        { method: "POST", path: "/complete", body, repeat: "once", signal, answers },
        readResult<Completed>,
      );
    },

    health: async (rest) => ask(sender, "GET", "/health", rest, readJson<{ readonly status: "ok" }>),
  };
}

function senderOf(options: ClientOptions): Sender {
  const { url, token, headers = {}, retry = {}, silenceMs = 60_000, clock = systemClock } = options;
  if (typeof token === "string") checkedToken(token);
  if (!(silenceMs > 0)) {
    throw new MisuseError("invalid_argument", "silenceMs has to be a time of more than 0", { path: ["silenceMs"] });
  }
  return {
    base: checkedUrl(url),
    token,
    headers,
    // Looked up when it is called, and called as what it is.
    fetch: options.fetch ?? ((address, init) => fetch(address, init)),
    retry: checkedRetry(retry),
    silenceMs,
    clock,
  };
}

function checkedUrl(url: string): string {
  if (typeof url !== "string" || !(url.startsWith("/") || URL.canParse(url))) {
    throw badUrl('it has to be an address, like "https://example.com/api/everturn"');
  }
  if (/[?#]/.test(url)) throw badUrl("it has to end with its path");
  if (!url.startsWith("/")) {
    const { protocol, username, password } = new URL(url);
    if (protocol !== "https:" && protocol !== "http:") throw badUrl(`it has to be http or https, not ${protocol}`);
    if (username !== "" || password !== "") throw badUrl("a name and a password do not belong there: use `headers`");
  }
  return url.replace(/\/+$/, "");
}

function badUrl(why: string): MisuseError {
  return new MisuseError("invalid_argument", `url: ${why}`, { path: ["url"] });
}

/** A path with its parts made fit to stand in one. */
function at(words: TemplateStringsArray, ...parts: readonly string[]): string {
  return words.map((word, index) => (index < parts.length ? word + partOf(parts[index]) : word)).join("");
}

function partOf(part: string | undefined): string {
  // Dots are a way up, however they are written.
  const isName = typeof part === "string" && !["", ".", ".."].includes(part) && !/\p{Surrogate}/u.test(part);
  if (isName) return encodeURIComponent(part);
  throw new MisuseError("invalid_argument", `${JSON.stringify(part)} cannot be asked for by an address`);
}

function query(fields: { readonly [name: string]: string | number | undefined }): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) given.set(name, `${value}`);
  return given.size === 0 ? "" : `?${given}`;
}

function ask<T>(
  sender: Sender,
  method: ApiRequest["method"],
  path: string,
  { signal }: CallOptions = {},
  read: ReadAnswer<T>,
): Promise<T> {
  return send(sender, { method, path, repeat: "safe", signal: signal ?? null }, read);
}

function post<T>(
  sender: Sender,
  path: string,
  body: unknown,
  { signal }: CallOptions,
  read: ReadAnswer<T>,
  repeat: ApiRequest["repeat"] = "once",
): Promise<T> {
  return send(sender, { method: "POST", path, body, repeat, signal: signal ?? null }, read);
}

type Steered = { readonly inputId: string; readonly turnId: string };

/** An answer that is one word. */
async function readResult<Word extends string>(response: Response, request: ApiRequest): Promise<Word> {
  const body = await readJson<{ readonly result?: Word }>(response, request);
  if (body.result !== undefined) return body.result;
  const failure = sentFailure(body);
  throw failure === null
    ? unexpected(request, response, "", "something that does not say what became of it")
    : errorOf(failure, response.status, null);
}

function orNull(error: unknown): null {
  if (isNotFound(error)) return null;
  throw error;
}

async function deleteSession(sender: Sender, path: string, { signal }: CallOptions = {}): Promise<void> {
  const backoff = new Backoff(sender.retry.requests, sender.retry, sender.clock);
  try {
    await send(sender, { method: "DELETE", path, repeat: "safe", signal: signal ?? null }, readNothing, backoff);
  } catch (error) {
    // What was sent again may have worked the first time.
    if (!(isNotFound(error) && backoff.used > 0)) throw error;
  }
}

/** Begins a turn. The same key goes with every try, so it is begun once. */
async function drive(
  sender: Sender,
  path: string,
  said: { readonly [name: string]: unknown },
  { key = randomKey(), signal: stop, ...options }: DriveOptions = {},
): Promise<ClientTurn> {
  const signal = stop ?? null;
  const body = Object.keys(options).length === 0 ? said : { ...said, options };
  const headers = { accept: "text/event-stream", "idempotency-key": key };
  const request: ApiRequest = { method: "POST", path, body, headers, repeat: "safe", signal };
  const { stream, sessionId, turnId } = await send(sender, request, async (response) => {
    const session = response.headers.get("everturn-session");
    const turn = response.headers.get("everturn-turn");
    const opened = await readFrames(sender, signal)(response, request);
    if (session !== null) {
      return { stream: opened, sessionId: decodeURIComponent(session), turnId: turn && decodeURIComponent(turn) };
    }
    opened.close();
    const what = "a stream that does not name its session: does something in between drop `Everturn-Session`?";
    throw unexpected(request, response, "", what);
  });
  return turnAt(sender, {
    sessionId,
    turnId,
    path: turnId === null ? null : at`/sessions/${sessionId}/turns/${turnId}`,
    stream,
    again: (_, left, backoff) => send(sender, { ...request, signal: left }, readFrames(sender, left), backoff),
    signal,
  });
}

function watch(
  sender: Sender,
  id: string,
  { after, turnId, follow = true, signal }: WatchOptions = {},
): ReturnType<EverturnClient["events"]> {
  const place = turnId === undefined ? at`/sessions/${id}/events` : at`/sessions/${id}/turns/${turnId}/events`;
  const aim = {
    after: after ?? null,
    open: openAt(sender, follow ? place : `${place}?follow=false`),
    ending: follow ? "cut" : "over",
    ended: () => undefined,
  } as const;
  return watching(sender, aim, signal ?? null);
}

/** A name nobody else makes up. Not every page has `randomUUID`: it is for secure ones only. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
