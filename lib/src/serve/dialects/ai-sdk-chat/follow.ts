// The stream of a client that waits for the next turn of a chat: one that another client or a decision starts.
//
// Invariants
//   1. The first chunk carries the cursor after which the stream waits. A client that loses its connection asks again
//      with it, so it gets each turn that was started meanwhile, also one that has ended.
//   2. The cursor is one of a session. After a fork of the chat (branches.ts) it says nothing.

import type { RuntimeEvent } from "../../../core/model/internal.ts";
import type { TurnHandle } from "../../../durable/internal.ts";
import type { CallerSessions } from "../../http/internal.ts";
import type { Branch } from "./branches.ts";
import type { UiStream } from "./chat.ts";
import type { UiChunk } from "./chunks.ts";
import type { UiSdk } from "./translator.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { currentBranch } from "./branches.ts";
import { resumeUiChat, startCursor } from "./chat.ts";
import { runningTurn } from "./newest.ts";

/** What the client has received, and the version of its SDK. */
export type FollowOptions = {
  readonly sdk: UiSdk;
  /** The newest event that it has; `null`: it has loaded the chat. */
  readonly known: { readonly sessionId: string; readonly after: string } | null;
};

/**
 * Streams the next turn that the client does not know, from the start of its message: an open one, or one that is
 * started later. `null`: there is no chat.
 */
export async function followUiChat(
  sessions: CallerSessions,
  chatId: string,
  { sdk, known }: FollowOptions,
): Promise<UiStream | null> {
  const branch = await currentBranch(sessions, chatId);
  if (branch === null) return null;
  const { sessionId, view } = branch;
  const knownCursor = known?.sessionId === sessionId ? known.after : null;
  if (knownCursor === null && runningTurn(view) !== null) return resumeUiChat(sessions, chatId, { sdk });
  const after = knownCursor ?? (await newestCursor(sessions, branch));
  // A parked turn goes on after `recover`, without a `turn_started`.
  const parked = view.openTurn?.status === "parked" ? view.openTurn.turnId : null;
  const closing = new AbortController();
  const events = sessions.events(sessionId, { after, signal: closing.signal });
  const open = async (): Promise<UiStream | null> => {
    const turnId = await nextTurn(events, parked);
    if (turnId === null) return null;
    return resumeUiChat(sessions, chatId, {
      sdk,
      position: { turnId, after: null },
      showsInput: turnId !== parked,
    });
  };
  const next = new NextTurn(open, () => closing.abort());
  const turn: TurnHandle = { sessionId, turnId: null, isOpen: null, events, result: next.failure };
  return { chatId, turn, chunks: { [Symbol.asyncIterator]: () => next }, cursor: () => next.cursor ?? after };
}

/** The turn that begins next, or the parked one when it goes on; `null`: the session was deleted. */
async function nextTurn(events: AsyncIterable<RuntimeEvent>, parked: string | null): Promise<string | null> {
  for await (const { turnId, event } of events) if (event.type === "turn_started" || turnId === parked) return turnId;
  return null;
}

/** For `chatTransport` only, which does not pass it on: the stream waits for a turn. */
const waitingChunk: UiChunk = { type: "data-waiting", data: {}, transient: true };

/** The chunks of the next turn. An iterator object and not a generator: `return` of a generator would wait for it. */
class NextTurn implements AsyncIterator<readonly UiChunk[]> {
  /** Rejects if the driver of the turn fails: its events would not end. */
  readonly failure: Promise<never>;
  readonly #open: () => Promise<UiStream | null>;
  readonly #stopWaiting: () => void;
  #state: "new" | "waiting" | "left" = "new";
  #fail: (error: unknown) => void = fails;
  #turn: { readonly stream: UiStream; readonly chunks: AsyncIterator<readonly UiChunk[]> } | null = null;

  constructor(open: () => Promise<UiStream | null>, stopWaiting: () => void) {
    this.#open = open;
    this.#stopWaiting = stopWaiting;
    this.failure = new Promise((_, reject) => {
      this.#fail = reject;
    });
  }

  /** The cursor of the turn; `null`: it has none yet. */
  get cursor(): string | null {
    return this.#turn?.stream.cursor() ?? null;
  }

  async next(): Promise<IteratorResult<readonly UiChunk[], undefined>> {
    if (this.#state === "new") {
      this.#state = "waiting";
      return { done: false, value: [waitingChunk] };
    }
    if (this.#turn === null) {
      const stream = await this.#open();
      if (stream === null || this.#state === "left") return { done: true, value: undefined };
      stream.turn.result.catch(this.#fail);
      this.#turn = { stream, chunks: stream.chunks[Symbol.asyncIterator]() };
    }
    const { done, value } = await this.#turn.chunks.next();
    return done === true ? { done, value: undefined } : { done: false, value };
  }

  async return(): Promise<IteratorResult<readonly UiChunk[], undefined>> {
    this.#state = "left";
    this.#stopWaiting();
    await this.#turn?.chunks.return?.();
    return { done: true, value: undefined };
  }
}

function fails(error: unknown): void {
  throw error;
}

/** The cursor of the last event of the parked turn, or of the last one that has ended. */
async function newestCursor(sessions: CallerSessions, { sessionId, view }: Branch): Promise<string> {
  const turnId = view.openTurn?.turnId ?? view.session.lastRun?.turnId ?? null;
  let newest = startCursor;
  if (turnId === null) return newest;
  try {
    for await (const { cursor } of sessions.events(sessionId, { turnId, follow: false })) newest = cursor;
  } catch (error) {
    // A fork has the result of the last turn of its original, which has no events here.
    if (!(error instanceof RuntimeError && error.reason === "not_found")) throw error;
  }
  return newest;
}
