// A turn as it is seen from here: what happens in it, and what it comes to, each asked for when somebody wants it.

import type { TurnEnd } from "../model/internal.ts";
import type { FrameStream } from "./frames.ts";
import type { Sender } from "./sender.ts";
import type { ClientTurn } from "./types.ts";
import type { WatchAim } from "./watch.ts";

import { nextTask } from "../clock/clock.ts";
import { startTimer } from "../clock/timer.ts";
import { Backoff } from "./backoff.ts";
import { ClientError } from "./errors.ts";
import { readJson, send } from "./sender.ts";
import { openAt, watching } from "./watch.ts";

/** Where the turn is, and what of it is open already. */
export type TurnPlace = {
  readonly sessionId: string;
  readonly turnId: string | null;
  /** `/sessions/{id}/turns/{turnId}`; `null` where no turn was begun. */
  readonly path: string | null;
  /** The stream that came with the answer. */
  readonly stream: FrameStream | null;
  /** Opens the stream of a turn that was not begun: by asking again, under the same key. */
  readonly again: WatchAim["open"];
  readonly signal: AbortSignal | null;
};

/** How long a server is asked to wait for a result: less than what proxies allow. */
const waitSeconds = 25;

/** How long a stream waits for somebody to read it. An open connection that nobody reads keeps others from being made, and a process from ending. */
const unreadMs = 5000;

export function turnAt(sender: Sender, { sessionId, turnId, path, stream, again, signal }: TurnPlace): ClientTurn {
  let unread = stream;
  let seen: TurnEnd | null = null;
  let tell: ((end: TurnEnd) => void) | null = null;
  const told = new Promise<TurnEnd>((resolve) => {
    tell = resolve;
  });
  const aim: WatchAim = {
    after: null,
    open: path === null ? again : openAt(sender, `${path}/events`),
    ending: "cut",
    ended: (end) => {
      seen = end;
      tell?.(end);
    },
  };
  const take = () => {
    const taken = unread;
    unread = null;
    cancelTimer();
    return taken;
  };
  // Whoever reads later opens one of their own.
  const cancelTimer = stream === null ? () => undefined : startTimer(sender.clock, unreadMs, () => take()?.close());
  const events = watching(sender, aim, signal, take);

  const ending = async (): Promise<TurnEnd> => {
    // Whoever asks for the result first and for the events right afterwards gets the stream for the events.
    if (seen === null) {
      await nextTask();
      signal?.throwIfAborted();
    }
    // Nobody reads: the stream that is there ends with the result.
    if (seen === null && (unread !== null || path === null)) {
      for await (const _ of events);
      signal?.throwIfAborted();
    }
    if (seen !== null) return seen;
    if (path === null) throw new ClientError("unexpected_answer", "a stream that does not say how the session stands");
    return firstOf(told, (stop) => poll(sender, path, stop), signal);
  };

  let result: Promise<TurnEnd> | null = null;
  return {
    sessionId,
    turnId,
    events,
    // Asked for when somebody wants it, and once. Whoever takes it and does not look is not told by the process ending.
    get result() {
      result ??= ending();
      result.catch(() => undefined);
      return result;
    },
  };
}

/** What a reader sees, or what the server says when it is asked, whichever is first: a reader may be slow, or have left. */
async function firstOf(
  told: Promise<TurnEnd>,
  ask: (signal: AbortSignal) => Promise<TurnEnd>,
  signal: AbortSignal | null,
): Promise<TurnEnd> {
  const stop = new AbortController();
  try {
    return await Promise.race([told, ask(signal === null ? stop.signal : AbortSignal.any([signal, stop.signal]))]);
  } finally {
    stop.abort();
  }
}

async function poll(sender: Sender, path: string, signal: AbortSignal): Promise<TurnEnd> {
  const backoff = new Backoff(sender.retry.streams, sender.retry, sender.clock);
  for (;;) {
    const since = sender.clock.now();
    const end = await send(
      sender,
      {
        method: "GET",
        path,
        headers: { prefer: `wait=${waitSeconds}` },
        repeat: "safe",
        signal,
        waitMs: waitSeconds * 1000,
      },
      async (response, request) => (response.status === 202 ? null : readJson<TurnEnd>(response, request)),
      backoff,
    );
    if (end !== null) return end;
    backoff.reset();
    // Something in between may drop the wish to wait.
    if (sender.clock.now() - since < 1000) await sender.clock.sleep(1000, signal);
  }
}
