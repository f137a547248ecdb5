// Reads a response that the provider computes without a connection (OpenAI's background mode), over as many connections
// as needed.
//
// Theory of operation
//   One reader holds one decoder for the complete response. It reads the connection that created the response. When
//   that connection is lost:
//     stream    GET the events after the last one that was read, as long as the provider streams them
//     status    GET the response every `pollMs` until it has ended, and complete the decoder with it
//   Streaming is tried first. The reader falls back to polling the status when the provider refuses the stream (OpenAI
//   streams a response only for some minutes), when a connection delivered nothing new, or when events have no numbers,
//   because a stream from the beginning would repeat text.
//
//   `resume` starts with the status: a response that has ended is read with one request, and a failed one is detected
//   before any of its text is emitted. Failed requests are repeated with exponential backoff (`firstRetryMs`, doubled
//   for every failure in a row, at most `maxWaitMs`), or after the wait that the provider requests.
//
// Invariants
//   1. The reference is reported before the first event of the response is yielded.
//   2. No text is lost or repeated by a reconnect: events are matched by their numbers, and the complete response adds
//      only what was not read.
//   3. Requests that fail in a row are bounded (`maxFailures`), and so is the whole call by `timeouts.total`.

import type { AdapterCall, HttpAnswer, ResponseHeaders } from "../engine/internal.ts";
import type { Failure, Json, JsonObject, ModelEvent } from "../model/internal.ts";
import type { BackgroundResponses, ResumableDecoder, WireContext } from "../wire/internal.ts";

import { TransportFailure } from "../engine/internal.ts";
import { adapterFailure, isTerminal, parseJson, streamFailure } from "../model/internal.ts";
import { damagedFrame, isDamagedFrame, textAt } from "../wire/internal.ts";

/** The requests of one model call, and what they need. */
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
  /** The failure of a response without a reply. The key is removed from it. */
  readonly failureOf: (answer: Extract<HttpAnswer, { readonly type: "refused" | "failed" }>) => Failure;
  /**
   * Events as the caller receives them: without the key, without `null`s that only the adapted schema has, and with the
   * request id and the rate limits of the response headers in the last event.
   */
  readonly received: (events: readonly ModelEvent[], headers: ResponseHeaders) => readonly ModelEvent[];
  /**
   * Adds what precedes the first events of a reply: `message_started`, if it is missing, and the warnings about the
   * request.
   */
  readonly begin: (events: readonly ModelEvent[]) => readonly ModelEvent[];
};

/** Milliseconds between two readings of the status of a response that is still running. */
const pollMs = 2000;
/** Milliseconds before a failed request is repeated; doubles with every failure in a row. */
const firstRetryMs = 500;
/** The longest wait before a request is repeated, in milliseconds, whatever the provider asks for. */
const maxWaitMs = 30_000;
/** The call fails after this number of failed requests in a row. */
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
    const message = `${provider}: the reference does not belong to a response of this server`;
    const error = adapterFailure("invalid_request", { provider, message });
    yield exchange.begin([{ type: "error", error }]);
    return;
  }
  const path = exchange.background.statusPath(responseId, exchange.include);
  yield* new ResponseReader(exchange, responseId).read("status", await exchange.send("GET", path, null));
}

/** Requests the provider to stop a response. The result of the request is ignored. */
export async function cancelResponse(exchange: Exchange, reference: JsonObject): Promise<void> {
  const responseId = responseIdOf(exchange, reference);
  if (responseId === null) return;
  const answer = await exchange.send("POST", exchange.background.cancelPath(responseId), null);
  if (answer.type === "stream") await closeStream(answer.frames);
}

type RequestKind = "stream" | "status";

/** What one connection resulted in. */
type ConnectionOutcome =
  | { readonly type: "ended" }
  | { readonly type: "running" }
  /**
   * The connection ended before the response did. `status`: of an HTTP error. `isNew`: the connection delivered events
   * that were not read before.
   */
  | { readonly type: "lost"; readonly failure: Failure; readonly status: number | null; readonly isNew: boolean };

/** What the reader does after a connection: another request after `waitMs`, or the end of the call. */
type NextRequest =
  | { readonly type: "ask"; readonly nextKind: RequestKind; readonly waitMs: number }
  | { readonly type: "fail"; readonly failure: Failure };

/** Reads one response to its end. */
class ResponseReader {
  readonly #exchange: Exchange;
  readonly #decoder: ResumableDecoder;
  readonly #startedAt: number;
  #responseId: string | null;
  #isReported: boolean;
  /** Events have been yielded. */
  #hasYielded = false;
  /** The provider may still stream the response. */
  #mayStream = true;
  #failures = 0;
  /** The failure of the last connection that delivered new events. */
  #lastCutFailure: Failure | null = null;

  /** `responseId`: the id of a response whose reference is stored already; `null` for a new response. */
  constructor(exchange: Exchange, responseId: string | null) {
    this.#exchange = exchange;
    this.#decoder = exchange.background.decoder(exchange.context);
    this.#startedAt = exchange.call.clock.now();
    this.#responseId = responseId;
    this.#isReported = responseId !== null;
  }

  async *read(requestKind: RequestKind, first: HttpAnswer): AsyncGenerator<readonly ModelEvent[]> {
    const { background, call, include, send } = this.#exchange;
    let answer = first;
    for (let nextKind = requestKind; ;) {
      const outcome = yield* this.#readAnswer(answer, nextKind);
      if (outcome.type === "ended") return;
      const next = this.#planNext(outcome, nextKind);
      if (next.type === "fail") {
        yield this.#toYield([{ type: "error", error: next.failure }], new Headers());
        return;
      }
      if (next.waitMs > 0) await call.clock.sleep(next.waitMs, call.signal);
      nextKind = next.nextKind;
      const id = this.#responseId ?? "";
      const path =
        nextKind === "stream" ? background.streamPath(id, this.#sequence, include) : background.statusPath(id, include);
      answer = await send("GET", path, null);
    }
  }

  /** Reads one HTTP response and yields its events. */
  async *#readAnswer(
    answer: HttpAnswer,
    requestKind: RequestKind,
  ): AsyncGenerator<readonly ModelEvent[], ConnectionOutcome> {
    const { provider, failureOf } = this.#exchange;
    switch (answer.type) {
      case "failed":
        return connectionLost(failureOf(answer));
      case "refused":
        return { ...connectionLost(failureOf(answer)), status: answer.status };
      case "body": {
        const body = parseJson(answer.text);
        if (body !== null) return yield* this.#readBody(body.value, answer.headers);
        const message = `${provider} answered with a body that is not JSON`;
        return connectionLost(adapterFailure("malformed_response", { provider, message }));
      }
      case "stream": {
        if (requestKind === "stream" || this.#canStream) return yield* this.#readStream(answer);
        await closeStream(answer.frames);
        const message = `${provider} answered a status request with a stream`;
        return connectionLost(adapterFailure("malformed_response", { provider, message }));
      }
    }
  }

  async *#readBody(body: Json, headers: ResponseHeaders): AsyncGenerator<readonly ModelEvent[], ConnectionOutcome> {
    const { responseId, isRunning } = this.#exchange.background.readStatus(body);
    if (responseId !== null) await this.#report(responseId);
    if (isRunning) return { type: "running" };
    yield this.#toYield(this.#decoder.complete(body), headers);
    return { type: "ended" };
  }

  async *#readStream({
    headers,
    frames: batches,
    finish,
  }: Extract<HttpAnswer, { readonly type: "stream" }>): AsyncGenerator<readonly ModelEvent[], ConnectionOutcome> {
    const { provider, context } = this.#exchange;
    let hasEnded = false;
    let isNew = false;
    this.#decoder.reattach();
    try {
      for await (const batch of batches) {
        const sequenceBefore = this.#sequence;
        const damagedAt = hasEnded ? -1 : batch.findIndex(isDamagedFrame);
        const frames = damagedAt === -1 ? batch : batch.slice(0, damagedAt);
        const events = this.#decoder.push(frames);
        const position = this.#decoder.position();
        if (position !== null) await this.#report(position.responseId);
        isNew ||= events.length > 0 || this.#sequence !== sequenceBefore;
        if (events.length > 0) yield this.#toYield(events, headers);
        if (!hasEnded && events.some(isTerminal)) {
          hasEnded = true;
          finish();
        }
        // The events from the damaged one on are read again, by their numbers, over another connection.
        const damaged = hasEnded ? undefined : batch[damagedAt];
        if (damaged !== undefined) return { ...connectionLost(damagedFrame(damaged, context)), isNew };
      }
    } catch (error) {
      if (!(error instanceof TransportFailure)) throw error;
      return hasEnded ? { type: "ended" } : { ...connectionLost(error.failure), isNew };
    }
    return hasEnded
      ? { type: "ended" }
      : { ...connectionLost(streamFailure("interrupted", { provider, retryable: true })), isNew };
  }

  /** Decides on the next request and the wait before it. */
  #planNext(outcome: Exclude<ConnectionOutcome, { readonly type: "ended" }>, requestKind: RequestKind): NextRequest {
    const { provider, totalMs, call } = this.#exchange;
    if (totalMs !== null && call.clock.now() - this.#startedAt >= totalMs) {
      const message = `${provider}: the response did not end within ${totalMs} ms`;
      return { type: "fail", failure: adapterFailure("timeout", { provider, message }) };
    }
    if (outcome.type === "running") {
      this.#failures = 0;
      return this.#canStream ? nextRequest("stream") : nextRequest("status", pollMs);
    }
    const { failure, status, isNew } = outcome;
    if (this.#responseId === null) return { type: "fail", failure };
    this.#failures = isNew ? 0 : this.#failures + 1;
    if (isNew) this.#lastCutFailure = failure;
    else if (requestKind === "stream") this.#mayStream = false;
    if (status !== null && !isTransientStatus(status)) {
      const isStreamRefused = requestKind === "stream" && status !== 401 && status !== 403;
      // If the provider no longer has the response, the failure that cut the last useful connection is the cause.
      return isStreamRefused ? nextRequest("status") : { type: "fail", failure: this.#lastCutFailure ?? failure };
    }
    if (this.#failures >= maxFailures) return { type: "fail", failure };
    const requestedWaitMs = "retryAfterMs" in failure ? failure.retryAfterMs : null;
    const waitMs = isNew ? 0 : Math.min(requestedWaitMs ?? firstRetryMs * 2 ** (this.#failures - 1), maxWaitMs);
    return nextRequest(this.#canStream ? "stream" : "status", waitMs);
  }

  /** Can the rest be streamed without repeating what was read? */
  get #canStream(): boolean {
    return this.#mayStream && (!this.#hasYielded || this.#sequence !== null);
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

  #toYield(events: readonly ModelEvent[], headers: ResponseHeaders): readonly ModelEvent[] {
    const received = this.#exchange.received(events, headers);
    const isFirst = !this.#hasYielded;
    this.#hasYielded = true;
    return isFirst ? this.#exchange.begin(received) : received;
  }
}

function connectionLost(failure: Failure): Extract<ConnectionOutcome, { readonly type: "lost" }> {
  return { type: "lost", failure, status: null, isNew: false };
}

function nextRequest(nextKind: RequestKind, waitMs = 0): NextRequest {
  return { type: "ask", nextKind, waitMs };
}

/** May the same request succeed later? */
function isTransientStatus(status: number): boolean {
  return status >= 500 || status === 408 || status === 409 || status === 425 || status === 429;
}

function responseIdOf({ endpoint }: Exchange, reference: JsonObject): string | null {
  return reference["endpoint"] === endpoint ? textAt(reference, "responseId") : null;
}

/** Closes the connection of a stream that is not read, by leaving its iterator. */
async function closeStream(frames: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of frames) return;
}
