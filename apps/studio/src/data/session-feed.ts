// What happens in a session, as it happens. All views of one session share one feed, which has at most one stream:
// browsers allow few connections for each server.
//
// Theory of operation
//   While no turn is open, the feed reads the head of the session (without messages) when sessions may have changed
//   (pulse.ts). While a turn is open, the feed reads the events of that turn from its first one; the stream ends with the turn, and the head is
//   read again. One `TurnView` folds them; listeners get each event with what it has changed. A listener that
//   subscribes later gets the events of the open turn from the beginning. A cut stream is resumed by the client; if the
//   client gives up, because the server is gone for longer, the feed starts it again.

import type { SeenEvent } from "./session-events.ts";
import type { SessionView } from "./types.ts";
import type { EverturnClient } from "everturn/client";

import { TurnView } from "everturn/advanced";
import { ClientError } from "everturn/client";

import { onPulse } from "./pulse.ts";
import { publishEvents, seenEvent } from "./session-events.ts";

/** The wait before a turn that is queued is read again. */
const queuedMs = 1500;
const retryMs = 2000;

/** The state of a feed. `gone`: there is no such session. */
export type FeedState = "loading" | "live" | "reconnecting" | "gone";

/** What a view of a session gets. */
export type FeedListener = {
  /**
   * The head of the session has been read: status, length, pending calls, the open turn. Its thread has no messages.
   */
  readonly onHead?: (head: SessionView) => void;
  /** Events of the open turn in order, in groups: those that arrived in one frame of the screen come together. */
  readonly onEvents?: (turnId: string, events: readonly SeenEvent[]) => void;
  readonly onState?: (state: FeedState, error: Error | null) => void;
};

const feeds = new WeakMap<EverturnClient, Map<string, SessionFeed>>();

/** Follows a session until the returned function is called. */
export function followSession(client: EverturnClient, sessionId: string, listener: FeedListener): () => void {
  const ofClient = feeds.get(client) ?? new Map<string, SessionFeed>();
  feeds.set(client, ofClient);
  const feed = ofClient.get(sessionId) ?? new SessionFeed(client, sessionId);
  ofClient.set(sessionId, feed);
  const unsubscribe = feed.subscribe(listener);
  return () => {
    if (unsubscribe() > 0) return;
    feed.stop();
    if (ofClient.get(sessionId) === feed) ofClient.delete(sessionId);
  };
}

/** Reads the head of a session at once, for example after an action of the reader that has started a turn. */
export function refreshSession(client: EverturnClient, sessionId: string): void {
  feeds.get(client)?.get(sessionId)?.refresh();
}

class SessionFeed {
  readonly #client: EverturnClient;
  readonly #sessionId: string;
  readonly #listeners = new Set<FeedListener>();
  readonly #aborting = new AbortController();
  #head: SessionView | null = null;
  #state: FeedState = "loading";
  #error: Error | null = null;
  /** The events of the open turn, for listeners that come later. */
  #events: { readonly turnId: string; readonly view: TurnView; readonly list: SeenEvent[] } | null = null;
  /** Ends the present wait. */
  #wake: () => void = () => undefined;
  #isRefreshing = false;

  constructor(client: EverturnClient, sessionId: string) {
    this.#client = client;
    this.#sessionId = sessionId;
    void this.#run();
  }

  subscribe(listener: FeedListener): () => number {
    this.#listeners.add(listener);
    if (this.#head !== null) listener.onHead?.(this.#head);
    if (this.#events !== null && this.#events.list.length > 0) {
      listener.onEvents?.(this.#events.turnId, [...this.#events.list]);
    }
    listener.onState?.(this.#state, this.#error);
    return () => {
      this.#listeners.delete(listener);
      return this.#listeners.size;
    };
  }

  refresh(): void {
    this.#isRefreshing = true;
    this.#wake();
    void this.#readQueue();
  }

  stop(): void {
    this.#aborting.abort();
    this.#wake();
  }

  async #run(): Promise<void> {
    const { signal } = this.#aborting;
    while (!signal.aborted) {
      try {
        const head = await this.#client.get(this.#sessionId, { messages: 0, signal });
        if (head === null) {
          this.#setState("gone", null);
          return;
        }
        this.#publishHead(head);
        this.#setState("live", null);
        const turn = head.openTurn;
        if (turn !== null && turn.status !== "parked") await this.#readTurn(turn.turnId, true);
        else {
          // A parked turn emits no events; those before it was parked are read once.
          if (turn !== null && this.#events?.turnId !== turn.turnId) await this.#readTurn(turn.turnId, false);
          await this.#waitForChange();
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ClientError && error.status === 404) {
          this.#setState("gone", null);
          return;
        }
        this.#setState("reconnecting", error instanceof Error ? error : new Error(String(error)));
        await this.#wait(retryMs);
      }
    }
  }

  /**
   * Reads the events of a turn until it ends. They are kept until the next turn begins, because views still show the
   * turn.
   */
  async #readTurn(turnId: string, follow: boolean): Promise<void> {
    if (this.#events?.turnId !== turnId) this.#events = { turnId, view: new TurnView(), list: [] };
    const { view, list: kept } = this.#events;
    const after = kept.at(-1)?.cursor;
    let group: SeenEvent[] = [];
    const flush = (): void => {
      const events = group;
      group = [];
      kept.push(...events);
      for (const { onEvents } of this.#listeners) onEvents?.(turnId, events);
      publishEvents(this.#sessionId, events);
    };
    const options = { turnId, follow, signal: this.#aborting.signal, ...(after === undefined ? {} : { after }) };
    try {
      for await (const event of this.#client.events(this.#sessionId, options)) {
        if (group.length === 0) requestFrame(flush);
        group.push(seenEvent(view, event));
      }
    } finally {
      if (group.length > 0) flush();
    }
    // A turn that is queued behind a limit may end the stream without having begun.
    if (follow && kept.at(-1)?.event.type !== "chat_completed") await this.#wait(queuedMs);
  }

  /**
   * Reads which messages wait for the next turn. The head is not read while a turn is followed, so a message that was
   * just queued would not be shown before the turn ends. Only the queue is taken: the messages of the open turn come
   * from its events.
   */
  async #readQueue(): Promise<void> {
    const known = this.#head;
    if (known === null || known.openTurn === null) return;
    const { signal } = this.#aborting;
    const head = await this.#client.get(this.#sessionId, { messages: 0, signal }).catch(() => null);
    // The turn may have ended meanwhile: then the head has been read again.
    if (signal.aborted || head === null || this.#head !== known) return;
    if (head.openTurn?.turnId === known.openTurn.turnId) this.#publishHead({ ...known, queuedTurns: head.queuedTurns });
  }

  #publishHead(head: SessionView): void {
    this.#head = head;
    for (const { onHead } of this.#listeners) onHead?.(head);
  }

  #setState(state: FeedState, error: Error | null): void {
    if (state === this.#state && error === this.#error) return;
    this.#state = state;
    this.#error = error;
    for (const { onState } of this.#listeners) onState?.(state, error);
  }

  /** Waits until sessions may have changed. */
  async #waitForChange(): Promise<void> {
    if (this.#isRefreshing) {
      this.#isRefreshing = false;
      return;
    }
    await new Promise<void>((resolve) => {
      const end = (): void => {
        stop();
        this.#wake = () => undefined;
        this.#isRefreshing = false;
        resolve();
      };
      const stop = onPulse(end);
      this.#wake = end;
    });
  }

  async #wait(ms: number): Promise<void> {
    if (this.#isRefreshing) {
      this.#isRefreshing = false;
      return;
    }
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        document.removeEventListener("visibilitychange", shown);
        this.#wake = () => undefined;
        this.#isRefreshing = false;
        resolve();
      };
      const shown = (): void => {
        if (document.visibilityState === "visible") end();
      };
      // A hidden page reads nothing until it is shown again.
      const timer = setTimeout(() => {
        if (document.visibilityState === "visible") end();
        else document.addEventListener("visibilitychange", shown);
      }, ms);
      this.#wake = end;
    });
  }
}

/** A hidden page draws no frames: its events are handed over by a timer. */
function requestFrame(run: () => void): void {
  if (document.visibilityState === "visible") requestAnimationFrame(run);
  else setTimeout(run, 250);
}
