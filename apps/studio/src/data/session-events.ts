// The events of a session as they happen. All views of one session share one stream.

import type { EverturnClient } from "everturn/client";

type RuntimeEvent = EverturnClient["events"] extends (...parameters: never) => AsyncIterable<infer Event>
  ? Event
  : never;

/** Receives events in order, in groups: those that arrived in one frame of the screen come together. */
export type EventListener = (events: readonly RuntimeEvent[]) => void;

type Stream = { readonly listeners: Set<EventListener>; readonly aborting: AbortController; failed: Error | null };

/** Listeners that open no stream, by session. */
const joined = new Map<string, Set<EventListener>>();

const streams = new WeakMap<EverturnClient, Map<string, Stream>>();

/**
 * Follows the events of a session after a cursor until the returned function is called. The first listener opens the stream; later ones get the events from then on.
 * A cut connection is resumed by the client.
 */
export function followSession(
  client: EverturnClient,
  sessionId: string,
  {
    after,
    onEvents,
    onFailure,
  }: {
    readonly after: string | null;
    readonly onEvents: EventListener;
    readonly onFailure: (error: unknown) => void;
  },
): () => void {
  const ofClient = streams.get(client) ?? new Map<string, Stream>();
  streams.set(client, ofClient);
  let stream = ofClient.get(sessionId);
  if (stream === undefined) {
    const opened: Stream = { listeners: new Set(), aborting: new AbortController(), failed: null };
    stream = opened;
    ofClient.set(sessionId, opened);
    const read = async (): Promise<void> => {
      let group: RuntimeEvent[] = [];
      const flush = (): void => {
        const events = group;
        group = [];
        for (const listener of opened.listeners) listener(events);
        for (const listener of joined.get(sessionId) ?? []) listener(events);
      };
      const signal = opened.aborting.signal;
      for await (const event of client.events(sessionId, { signal, ...(after === null ? {} : { after }) })) {
        if (group.length === 0) requestFrame(flush);
        group.push(event);
      }
    };
    read().catch((error: unknown) => {
      ofClient.delete(sessionId);
      if (!opened.aborting.signal.aborted) onFailure(error);
    });
  }
  const current = stream;
  current.listeners.add(onEvents);
  return () => {
    current.listeners.delete(onEvents);
    if (current.listeners.size > 0) return;
    current.aborting.abort();
    if (ofClient.get(sessionId) === current) ofClient.delete(sessionId);
  };
}

/** Receives the events of a session from now on, as long as another view follows the session. Opens no stream. */
export function listenToSession(sessionId: string, onEvents: EventListener): () => void {
  const listeners = joined.get(sessionId) ?? new Set();
  joined.set(sessionId, listeners);
  listeners.add(onEvents);
  return () => {
    listeners.delete(onEvents);
    if (listeners.size === 0 && joined.get(sessionId) === listeners) joined.delete(sessionId);
  };
}

/** A hidden page draws no frames: its events are handed over by a timer. */
function requestFrame(run: () => void): void {
  if (document.visibilityState === "visible") requestAnimationFrame(run);
  else setTimeout(run, 250);
}
