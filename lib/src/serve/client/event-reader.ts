// Reads events over as many connections as necessary: reconnects with the cursor until the stream is complete.
//
// How one connection ends, and what follows
//   frame `end`                          complete: the turn has ended and its result is reported
//   204 on reconnect                     complete: there are no events after the cursor
//   end of the response, follow: false   complete, unless the last item was a comment (the server shut down)
//   end of the response, otherwise       cut: reconnect
//   connection error or silence          cut: reconnect
//   frame `failure`, transient           cut: reconnect (lost lease, busy storage, shutdown)
//   frame `failure`, permanent           throw
//
// Invariants
//   1. Retry with exponential backoff and jitter. The reader throws `connection_lost` after `retry.streams` connections
//      in a row that delivered no data; any received data resets the count.
//   2. Every event is yielded exactly once (reader-position.ts).
//   3. Leaving the iteration closes the connection at once, also during a wait. It does not affect the turn (H6).

import type { RuntimeEvent, TurnEnd } from "../../core/model/internal.ts";
import type { ReadAnswer, Sender } from "./sender.ts";

import { Backoff } from "./backoff.ts";
import { ClientError, errorOfFailure, isTransient, serverFailure } from "./errors.ts";
import { FrameStream } from "./frames.ts";
import { parseFrameData, ReaderPosition } from "./reader-position.ts";
import { send, unexpectedResponse } from "./sender.ts";

/** Which events to read, and how to open a connection. */
export type EventSourceOptions = {
  /** The cursor to start after; `null`: from the first event. */
  readonly after: string | null;
  /** Opens a connection after a cursor; `null`: there are no more events. */
  readonly open: (after: string | null, signal: AbortSignal, backoff: Backoff) => Promise<FrameStream | null>;
  /** What the end of a response without a frame `end` means. */
  readonly ending: "cut" | "over";
  /** Called with the result of the turn when the frame `end` arrives. */
  readonly onTurnEnd: (end: TurnEnd) => void;
  /** Called with `null` when a connection is open, and with the cause when it was cut. */
  readonly onConnection?: ((cut: Error | null) => void) | undefined;
};

/**
 * An iterable of events that can be iterated several times. The first iteration uses the connection of
 * `takeOpenStream`, if there is one.
 */
export function eventIterable(
  sender: Sender,
  source: EventSourceOptions,
  signal: AbortSignal | null,
  takeOpenStream: () => FrameStream | null = () => null,
): AsyncIterable<RuntimeEvent> {
  return {
    [Symbol.asyncIterator]: () => {
      const openStream = takeOpenStream();
      const detached = new AbortController();
      const anySignal = signal === null ? detached.signal : AbortSignal.any([signal, detached.signal]);
      const events = readEvents(sender, source, openStream, anySignal);
      return {
        next: () => events.next(),
        return: async () => {
          // `return` of a generator waits for a pending `next`; the abort ends that first.
          detached.abort();
          openStream?.close();
          await events.return(undefined);
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/** Opens the event stream of a path, and resumes it with `Last-Event-ID`. */
export function eventStreamAt(sender: Sender, path: string): EventSourceOptions["open"] {
  return (after, signal, backoff) =>
    send(
      sender,
      {
        method: "GET",
        path,
        headers: { accept: "text/event-stream", ...(after === null ? {} : { "last-event-id": after }) },
        repeat: "idempotent",
        signal,
      },
      async (response, request) => (response.status === 204 ? null : readFrames(sender, signal)(response, request)),
      backoff,
    );
}

/** Reads a response as SSE frames. Throws `unexpected_answer` if it is not an event stream. */
export function readFrames(sender: Sender, signal: AbortSignal | null): ReadAnswer<FrameStream> {
  return async (response, request) => {
    const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
    const silence = { silenceMs: sender.streamSilenceMs, clock: sender.clock };
    if (isStream && response.body !== null) return new FrameStream(response.body, silence, signal);
    throw unexpectedResponse(request, response, await response.text(), "a body that is not an event stream");
  };
}

/** Yields events across connections. Ends without an error when the signal aborts. */
async function* readEvents(
  sender: Sender,
  source: EventSourceOptions,
  openStream: FrameStream | null,
  signal: AbortSignal,
): AsyncGenerator<RuntimeEvent, undefined> {
  const position = new ReaderPosition(source.after);
  const backoff = new Backoff(sender.retry.streams, sender.retry, sender.clock);
  try {
    for (let stream = openStream; ; stream = null) {
      const connection = stream ?? (await source.open(position.cursor, signal, backoff));
      if (connection === null) return undefined;
      source.onConnection?.(null);
      const ending = yield* readConnection(connection, position, source);
      if (ending.type === "over" || signal.aborted) return undefined;
      if (connection.hasReceivedData) backoff.reset();
      source.onConnection?.(ending.error instanceof Error ? ending.error : new Error(String(ending.error)));
      if (!(await backoff.wait(null, signal))) {
        const message = "the stream was cut and could not be resumed; resume later after the last cursor";
        throw new ClientError("connection_lost", message, { cause: ending.error });
      }
      position.reconnected();
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

type Ending = { readonly type: "over" } | { readonly type: "cut"; readonly error: unknown };

/** Yields the new events of one connection and returns how it ended. */
async function* readConnection(
  stream: FrameStream,
  position: ReaderPosition,
  source: EventSourceOptions,
): AsyncGenerator<RuntimeEvent, Ending> {
  try {
    for (;;) {
      const next = await stream.next();
      if (next.type === "cut") return next;
      if (next.type === "over") {
        const isOver = source.ending === "over" && !stream.endedWithComment;
        return isOver ? next : { type: "cut", error: new Error("the stream ended before its last event") };
      }
      const { event: name, data } = next.frame;
      if (name === "end") {
        source.onTurnEnd(parseFrameData<TurnEnd>(data));
        return { type: "over" };
      }
      if (name === "failure") {
        const failure = serverFailure(parseFrameData<unknown>(data));
        if (failure === null) throw new ClientError("unexpected_answer", "a failure frame contains no failure");
        const error = errorOfFailure(failure, null, null);
        if (isTransient(failure)) return { type: "cut", error };
        throw error;
      }
      // Frames of other names come from a newer server and are ignored.
      const event = name === null || name === "message" ? position.accept(next.frame) : null;
      if (event !== null) yield event;
    }
  } finally {
    stream.close();
  }
}
