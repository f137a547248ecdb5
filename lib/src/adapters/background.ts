// Reads a response that the provider computes without a connection (OpenAI's background mode), over as many connections as it takes.
//
// Theory of operation
//   One reader holds one decoder for the whole response. It reads the connection that created the response, and when that is lost:
//     stream    GET the events after the last one that was read, as long as the provider streams them
//     status    GET the response every `pollMs` until it has ended, and complete the decoder with it
//   Streaming is tried first. It is given up for the status when the provider refuses it (OpenAI streams a response only for some minutes), when a connection
//   brought nothing new, or when events have no numbers, because a stream from the beginning would repeat text.
//
//   `resume` begins with the status: a response that has ended is read with one request, and one that failed is known before any of its text is emitted.
//
// Invariants
//   1. The reference is reported before the first event of the response is yielded.
//   2. No text is lost or repeated by a reconnect: events are matched by their numbers, and a whole response adds only what was not read.
//   3. Requests that fail in a row are bounded (`maxFailures`), and so is the whole call by `timeouts.total`.

import type { AdapterCall, HttpAnswer } from "../engine/internal.ts";
import type { Failure, Json, JsonObject, ModelEvent } from "../model/internal.ts";
import type { BackgroundResponses, ResumableDecoder, WireContext } from "../wire/internal.ts";

import { TransportFailure } from "../engine/internal.ts";
import { adapterFailure, assistant, parseJson, streamFailure } from "../model/internal.ts";
import { textAt } from "../wire/internal.ts";

/** The requests of one model call, and what they are made with. */
export type Exchange = {
  readonly provider: string;
  /** The server and its API. A reference to a response of another one is not followed. */
  readonly endpoint: string;
  readonly background: BackgroundResponses;
  readonly context: WireContext;
  readonly call: AdapterCall;
  /** Fields that the request asked to be included. */
  readonly include: readonly string[];
  /** For all requests together, in milliseconds; `null`: no limit. */
  readonly totalMs: number | null;
  readonly send: (method: "GET" | "POST", path: string, body: JsonObject | null) => Promise<HttpAnswer>;
  /** The failure behind an answer without a reply. No key is in it. */
  readonly failureOf: (answer: Extract<HttpAnswer, { readonly type: "refused" | "failed" }>) => Failure;
  /** Takes the key out of failures. */
  readonly clean: (events: readonly ModelEvent[]) => readonly ModelEvent[];
};

/** Milliseconds between two readings of the status of a response that is still running. */
const pollMs = 2000;
/** Milliseconds before a request is repeated that failed; doubles with every failure in a row. */
const repeatMs = 500;
/** The longest wait before a request is repeated, in milliseconds, whatever the provider asks for. */
const maxWaitMs = 30_000;
/** The call fails when so many requests have failed in a row. */
const maxFailures = 6;

/** Starts a response in the background and reads it to its end. */
export async function* createResponse(
  exchange: Exchange,
  path: string,
  body: JsonObject,
): AsyncGenerator<readonly ModelEvent[]> {
  const reader = new ResponseReader(exchange, null);
  yield* reader.read("stream", await exchange.send("POST", path, body));
}

/** Reads a response that was started before, from its beginning to its end. */
export async function* resumeResponse(
  exchange: Exchange,
  reference: JsonObject,
): AsyncGenerator<readonly ModelEvent[]> {
  const responseId = responseIdOf(exchange, reference);
  if (responseId === null) {
    const { provider } = exchange;
    const message = `${provider}: the reference names no response of this server`;
    const error = adapterFailure("invalid_request", { provider, message });
    yield [started, { type: "error", error }];
    return;
  }
  const path = exchange.background.statusPath(responseId, exchange.include);
  yield* new ResponseReader(exchange, responseId).read("status", await exchange.send("GET", path, null));
}

/** Asks the provider to stop a response. What it answers does not matter. */
export async function cancelResponse(exchange: Exchange, reference: JsonObject): Promise<void> {
  const responseId = responseIdOf(exchange, reference);
  if (responseId === null) return;
  const answer = await exchange.send("POST", exchange.background.cancelPath(responseId), null);
  if (answer.type === "stream") await close(answer.frames);
}

type Asked = "stream" | "status";

/** What one connection resulted in. */
type Outcome =
  | { readonly type: "ended" }
  | { readonly type: "running" }
  /** It brought no end. `status` is that of a refusal; `isNew`: it brought events that were not read before. */
  | { readonly type: "lost"; readonly failure: Failure; readonly status: number | null; readonly isNew: boolean };

type Next =
  | { readonly type: "ask"; readonly asks: Asked; readonly waitMs: number }
  | { readonly type: "fail"; readonly failure: Failure };

class ResponseReader {
  readonly #exchange: Exchange;
  readonly #decoder: ResumableDecoder;
  readonly #began: number;
  #responseId: string | null;
  #isReported: boolean;
  /** Events have been yielded. */
  #hasBegun = false;
  /** The provider may still stream the response. */
  #mayStream = true;
  #failures = 0;
  /** Why the last connection that had brought events was lost. */
  #cut: Failure | null = null;

  /** `responseId`: of a response that was reported before. */
  constructor(exchange: Exchange, responseId: string | null) {
    this.#exchange = exchange;
    this.#decoder = exchange.background.decoder(exchange.context);
    this.#began = exchange.call.clock.now();
    this.#responseId = responseId;
    this.#isReported = responseId !== null;
  }

  async *read(asked: Asked, first: HttpAnswer): AsyncGenerator<readonly ModelEvent[]> {
    const { background, call, include, send } = this.#exchange;
    let answer = first;
    for (let asks = asked; ;) {
      const outcome = yield* this.#take(answer, asks);
      if (outcome.type === "ended") return;
      const next = this.#next(outcome, asks);
      if (next.type === "fail") {
        yield this.#out([{ type: "error", error: next.failure }]);
        return;
      }
      if (next.waitMs > 0) await call.clock.sleep(next.waitMs, call.signal);
      asks = next.asks;
      const id = this.#responseId ?? "";
      const path =
        asks === "stream" ? background.streamPath(id, this.#sequence, include) : background.statusPath(id, include);
      answer = await send("GET", path, null);
    }
  }

  /** Reads one answer and yields its events. */
  async *#take(answer: HttpAnswer, asked: Asked): AsyncGenerator<readonly ModelEvent[], Outcome> {
    const { provider, failureOf } = this.#exchange;
    switch (answer.type) {
      case "failed":
        return lost(failureOf(answer));
      case "refused":
        return { ...lost(failureOf(answer)), status: answer.status };
      case "body": {
        const body = parseJson(answer.text);
        if (body !== null) return yield* this.#takeWhole(body.value);
        const message = `${provider} answered something that is not JSON`;
        return lost(adapterFailure("malformed_response", { provider, message }));
      }
      case "stream": {
        if (asked === "stream" || this.#canStream) return yield* this.#takeStream(answer);
        await close(answer.frames);
        const message = `${provider} answered with a stream`;
        return lost(adapterFailure("malformed_response", { provider, message }));
      }
    }
  }

  async *#takeWhole(body: Json): AsyncGenerator<readonly ModelEvent[], Outcome> {
    const { responseId, isRunning } = this.#exchange.background.readStatus(body);
    if (responseId !== null) await this.#report(responseId);
    if (isRunning) return { type: "running" };
    yield this.#out(this.#decoder.complete(body));
    return { type: "ended" };
  }

  async *#takeStream({
    frames: batches,
    finish,
  }: Extract<HttpAnswer, { readonly type: "stream" }>): AsyncGenerator<readonly ModelEvent[], Outcome> {
    const { provider } = this.#exchange;
    let hasEnded = false;
    let isNew = false;
    this.#decoder.reattach();
    try {
      for await (const frames of batches) {
        const before = this.#sequence;
        const events = this.#decoder.push(frames);
        const position = this.#decoder.position();
        if (position !== null) await this.#report(position.responseId);
        isNew ||= events.length > 0 || this.#sequence !== before;
        if (events.length === 0) continue;
        yield this.#out(events);
        if (hasEnded || !events.some(isTerminal)) continue;
        hasEnded = true;
        finish();
      }
    } catch (error) {
      if (!(error instanceof TransportFailure)) throw error;
      return hasEnded ? { type: "ended" } : { ...lost(error.failure), isNew };
    }
    return hasEnded
      ? { type: "ended" }
      : { ...lost(streamFailure("interrupted", { provider, retryable: true })), isNew };
  }

  /** What to ask for next, and when. */
  #next(outcome: Exclude<Outcome, { readonly type: "ended" }>, asked: Asked): Next {
    const { provider, totalMs, call } = this.#exchange;
    if (totalMs !== null && call.clock.now() - this.#began >= totalMs) {
      const message = `${provider}: the response did not end within ${totalMs} ms`;
      return { type: "fail", failure: adapterFailure("timeout", { provider, message }) };
    }
    if (outcome.type === "running") {
      this.#failures = 0;
      return this.#canStream ? ask("stream") : ask("status", pollMs);
    }
    const { failure, status, isNew } = outcome;
    if (this.#responseId === null) return { type: "fail", failure };
    this.#failures = isNew ? 0 : this.#failures + 1;
    if (isNew) this.#cut = failure;
    else if (asked === "stream") this.#mayStream = false;
    if (status !== null && !mayPass(status)) {
      const isAnswered = asked === "stream" && status !== 401 && status !== 403;
      // A response that is gone was cut off by what broke its last connection.
      return isAnswered ? ask("status") : { type: "fail", failure: this.#cut ?? failure };
    }
    if (this.#failures >= maxFailures) return { type: "fail", failure };
    const wanted = "retryAfterMs" in failure ? failure.retryAfterMs : null;
    const waitMs = isNew ? 0 : Math.min(wanted ?? repeatMs * 2 ** (this.#failures - 1), maxWaitMs);
    return ask(this.#canStream ? "stream" : "status", waitMs);
  }

  /** Can the rest be streamed without repeating what was read? */
  get #canStream(): boolean {
    return this.#mayStream && (!this.#hasBegun || this.#sequence !== null);
  }

  get #sequence(): number | null {
    return this.#decoder.position()?.sequence ?? null;
  }

  async #report(responseId: string): Promise<void> {
    this.#responseId = responseId;
    if (this.#isReported) return;
    this.#isReported = true;
    await this.#exchange.call.onReference?.({ endpoint: this.#exchange.endpoint, responseId });
  }

  #out(events: readonly ModelEvent[]): readonly ModelEvent[] {
    const cleaned = this.#exchange.clean(events);
    const isFirst = !this.#hasBegun;
    this.#hasBegun = true;
    return isFirst && cleaned[0]?.type !== "message_started" ? [started, ...cleaned] : cleaned;
  }
}

const started: ModelEvent = { type: "message_started", message: assistant("") };

function lost(failure: Failure): Extract<Outcome, { readonly type: "lost" }> {
  return { type: "lost", failure, status: null, isNew: false };
}

function ask(asks: Asked, waitMs = 0): Next {
  return { type: "ask", asks, waitMs };
}

/** May the same request work later? */
function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 409 || status === 425 || status === 429;
}

function responseIdOf({ endpoint }: Exchange, reference: JsonObject): string | null {
  return reference["endpoint"] === endpoint ? textAt(reference, "responseId") : null;
}

function isTerminal({ type }: ModelEvent): boolean {
  return type === "message_completed" || type === "error";
}

/** Leaves a stream that is not read: this closes its connection. */
async function close(frames: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of frames) return;
}
