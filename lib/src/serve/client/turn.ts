// A turn on the server as a client value: its events and its result, each requested only when it is used.
//
// The response that started the turn carries a stream. Exactly one consumer uses it: the first iteration of `events`,
// or `result` if no code iterates. A second iteration opens a connection of its own. If neither happens within
// `unreadStreamMs`, the stream is closed, because an open connection occupies one of the few that a browser allows per
// host and keeps a Node process alive.
//
// Where the result comes from, in this order:
//   1. the frame `end` that a reader has already received;
//   2. the unused stream of the response, read to its end;
//   3. long polling `GET /sessions/{id}/turns/{turnId}`, raced against a reader that receives `end`.
//
// Invariants
//   1. `result` is requested at most once and is never an unhandled rejection.
//   2. No timer or connection remains after the result or the events were read.

import type { TurnEnd } from "../../core/model/internal.ts";
import type { EventSourceOptions } from "./event-reader.ts";
import type { FrameStream } from "./frames.ts";
import type { Sender } from "./sender.ts";
import type { ClientTurn } from "./types.ts";

import { nextTask } from "../../core/clock/clock.ts";
import { startTimer } from "../../core/clock/timer.ts";
import { turnOperations } from "../contract/internal.ts";
import { Backoff } from "./backoff.ts";
import { ClientError } from "./errors.ts";
import { eventIterable, eventStreamAt } from "./event-reader.ts";
import { pathOf } from "./requests.ts";
import { readJson, send } from "./sender.ts";

/** A turn on the server, and the connection to it that is already open. */
export type TurnLocation = {
  readonly sessionId: string;
  /** `null` if no turn was started. */
  readonly turnId: string | null;
  /** The stream of the response that started the turn. */
  readonly stream: FrameStream | null;
  /** Reopens the stream if no turn was started: sends the request again under the same idempotency key. */
  readonly reopen: EventSourceOptions["open"];
  readonly signal: AbortSignal | null;
};

/** The `Prefer: wait` of a poll, in seconds. Many proxies end a request after 30 or 60 seconds. */
const waitSeconds = 25;

/** The time in milliseconds after which the unread stream of the response is closed. */
const unreadStreamMs = 5000;

export function clientTurn(sender: Sender, { sessionId, turnId, stream, reopen, signal }: TurnLocation): ClientTurn {
  const path = turnId === null ? null : pathOf(turnOperations.attach.path, [sessionId, turnId]);
  let unreadStream = stream;
  let receivedEnd: TurnEnd | null = null;
  let resolveEnd: ((end: TurnEnd) => void) | null = null;
  const endReceived = new Promise<TurnEnd>((resolve) => {
    resolveEnd = resolve;
  });
  const source: EventSourceOptions = {
    after: null,
    open: path === null ? reopen : eventStreamAt(sender, `${path}/events`),
    ending: "cut",
    onTurnEnd: (end) => {
      receivedEnd = end;
      resolveEnd?.(end);
    },
  };
  const takeStream = () => {
    const taken = unreadStream;
    unreadStream = null;
    cancelTimer();
    return taken;
  };
  const cancelTimer =
    stream === null ? () => undefined : startTimer(sender.clock, unreadStreamMs, () => takeStream()?.close());
  const events = eventIterable(sender, source, signal, takeStream);

  const readResult = async (): Promise<TurnEnd> => {
    // A program may use `result` first and iterate `events` in the same task; then the stream belongs to the iteration.
    if (receivedEnd === null) {
      await nextTask();
      signal?.throwIfAborted();
    }
    // No iteration took the stream: read it to its end, which delivers the result without another request.
    if (receivedEnd === null && (unreadStream !== null || path === null)) {
      for await (const _ of events);
      signal?.throwIfAborted();
    }
    if (receivedEnd !== null) return receivedEnd;
    if (path === null) throw new ClientError("unexpected_answer", "the stream ended without the state of the session");
    return firstOf(endReceived, (stop) => poll(sender, path, stop), signal);
  };

  let result: Promise<TurnEnd> | null = null;
  return {
    sessionId,
    turnId,
    events,
    // Requested on first access and cached. The empty handler keeps a rejection that the program ignores from ending a
    // Node process.
    get result() {
      result ??= readResult();
      result.catch(() => undefined);
      return result;
    },
  };
}

/** The result that a reader receives or that polling returns, whichever is first: a reader may be slow or have left. */
async function firstOf(
  endReceived: Promise<TurnEnd>,
  pollResult: (signal: AbortSignal) => Promise<TurnEnd>,
  signal: AbortSignal | null,
): Promise<TurnEnd> {
  const stop = new AbortController();
  try {
    return await Promise.race([
      endReceived,
      pollResult(signal === null ? stop.signal : AbortSignal.any([signal, stop.signal])),
    ]);
  } finally {
    stop.abort();
  }
}

/**
 * Long polling: asks the server to wait for the result, and repeats while the turn is open (202). Every response resets
 * the backoff.
 */
async function poll(sender: Sender, path: string, signal: AbortSignal): Promise<TurnEnd> {
  const backoff = new Backoff(sender.retry.streams, sender.retry, sender.clock);
  for (;;) {
    const sentAt = sender.clock.now();
    const end = await send(
      sender,
      {
        method: "GET",
        path,
        headers: { prefer: `wait=${waitSeconds}` },
        repeat: "idempotent",
        signal,
        waitMs: waitSeconds * 1000,
      },
      async (response, request) => (response.status === 202 ? null : readJson<TurnEnd>(response, request)),
      backoff,
    );
    if (end !== null) return end;
    backoff.reset();
    // A proxy may drop the `Prefer` header; without this pause the loop would poll without any delay.
    if (sender.clock.now() - sentAt < 1000) await sender.clock.sleep(1000, signal);
  }
}
