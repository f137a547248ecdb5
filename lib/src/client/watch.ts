// Reads events over as many connections as it takes.
//
// Rules:
//   1. A stream is over when the server has said so: by an `end`, by having nothing left, or, for who does not follow, by ending it. Anything else was a cut, and
//      the reader comes back behind its last cursor.
//   2. Coming back is given up after so many times in a row at which nothing was heard, or when the answer is definite.
//   3. Leaving closes what is open at once, also in the middle of waiting. It changes nothing about the turn (H6).

import type { RuntimeEvent, TurnEnd } from "../model/internal.ts";
import type { ReadAnswer, Sender } from "./sender.ts";

import { Backoff } from "./backoff.ts";
import { ClientError, errorOf, isPassing, sentFailure } from "./errors.ts";
import { FrameStream } from "./frames.ts";
import { parsed, Place } from "./place.ts";
import { send, unexpected } from "./sender.ts";

/** What is to be read. */
export type WatchAim = {
  /** From behind this cursor. */
  readonly after: string | null;
  /** Opens it behind a cursor; `null`: there is nothing behind it any more. */
  readonly open: (after: string | null, signal: AbortSignal, backoff: Backoff) => Promise<FrameStream | null>;
  /** What it means when a stream ends without an `end`. */
  readonly ending: "cut" | "over";
  /** Told what the turn came to. */
  readonly ended: (end: TurnEnd) => void;
};

/** Events as something to iterate over, any number of times. `take` gives a stream that is open already to whoever comes first. */
export function watching(
  sender: Sender,
  aim: WatchAim,
  signal: AbortSignal | null,
  take: () => FrameStream | null = () => null,
): AsyncIterable<RuntimeEvent> {
  return {
    [Symbol.asyncIterator]: () => {
      const first = take();
      const left = new AbortController();
      const either = signal === null ? left.signal : AbortSignal.any([signal, left.signal]);
      const reading = readEvents(sender, aim, first, either);
      return {
        next: () => reading.next(),
        return: async () => {
          left.abort();
          first?.close();
          await reading.return(undefined);
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/** A stream of events at a path. */
export function openAt(sender: Sender, path: string): WatchAim["open"] {
  return (after, signal, backoff) =>
    send(
      sender,
      {
        method: "GET",
        path,
        headers: { accept: "text/event-stream", ...(after === null ? {} : { "last-event-id": after }) },
        repeat: "safe",
        signal,
      },
      async (response, request) => (response.status === 204 ? null : readFrames(sender, signal)(response, request)),
      backoff,
    );
}

/** Takes an answer for the stream it has to be. */
export function readFrames(sender: Sender, signal: AbortSignal | null): ReadAnswer<FrameStream> {
  return async (response, request) => {
    const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
    if (isStream && response.body !== null) return new FrameStream(response.body, sender, signal);
    throw unexpected(request, response, await response.text(), "something that is no stream of events");
  };
}

/** Ends when there is nothing more, and when the signal says so. */
async function* readEvents(
  sender: Sender,
  aim: WatchAim,
  first: FrameStream | null,
  signal: AbortSignal,
): AsyncGenerator<RuntimeEvent, undefined> {
  const place = new Place(aim.after);
  const backoff = new Backoff(sender.retry.streams, sender.retry, sender.clock);
  try {
    for (let stream = first; ; stream = null) {
      const open = stream ?? (await aim.open(place.cursor, signal, backoff));
      if (open === null) return undefined;
      const ending = yield* readStream(open, place, aim);
      if (ending.type === "over" || signal.aborted) return undefined;
      if (open.heard) backoff.reset();
      if (!(await backoff.wait(null, signal))) {
        const message = "the stream was cut, and did not come back; go on later behind the last cursor";
        throw new ClientError("connection_lost", message, { cause: ending.error });
      }
      place.comeBack();
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

type Ending = { readonly type: "over" } | { readonly type: "cut"; readonly error: unknown };

/** Reads one connection to its end. */
async function* readStream(stream: FrameStream, place: Place, aim: WatchAim): AsyncGenerator<RuntimeEvent, Ending> {
  try {
    for (;;) {
      const next = await stream.next();
      if (next.type === "cut") return next;
      if (next.type === "over") {
        const isOver = aim.ending === "over" && !stream.mayGoOn;
        return isOver ? next : { type: "cut", error: new Error("the stream ended before what it tells of") };
      }
      const { event: name, data } = next.frame;
      if (name === "end") {
        aim.ended(parsed<TurnEnd>(data));
        return { type: "over" };
      }
      if (name === "failure") {
        const failure = sentFailure(parsed<unknown>(data));
        if (failure === null) throw new ClientError("unexpected_answer", "a failure that does not say what it is");
        const error = errorOf(failure, null, null);
        if (isPassing(failure)) return { type: "cut", error };
        throw error;
      }
      // Other frames are a newer server's.
      const event = name === null || name === "message" ? place.take(next.frame) : null;
      if (event !== null) yield event;
    }
  } finally {
    stream.close();
  }
}
