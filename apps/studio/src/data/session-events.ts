// The events of a session, for views that do not read them themselves. The feed of the session (session-feed.ts) has
// the stream and publishes them here.

import type { RuntimeEvent } from "./types.ts";
import type { TurnChange, TurnView } from "everturn/advanced";

/** An event, and what it has changed in the view of its turn. */
export type SeenEvent = RuntimeEvent & { readonly changes: readonly TurnChange[] };

/** Adds an event to the view of its turn. */
export function seenEvent(view: TurnView, event: RuntimeEvent): SeenEvent {
  return { ...event, changes: view.add(event) };
}

/** Receives events in order, in groups: those that arrived in one frame of the screen come together. */
export type EventListener = (events: readonly SeenEvent[]) => void;

const listenersBySession = new Map<string, Set<EventListener>>();

/** Receives the events of a session from now on, as long as another view follows the session. Opens no stream. */
export function listenToSession(sessionId: string, onEvents: EventListener): () => void {
  const listeners = listenersBySession.get(sessionId) ?? new Set();
  listenersBySession.set(sessionId, listeners);
  listeners.add(onEvents);
  return () => {
    listeners.delete(onEvents);
    if (listeners.size === 0 && listenersBySession.get(sessionId) === listeners) listenersBySession.delete(sessionId);
  };
}

/** Hands a group of events to the listeners of a session. */
export function publishEvents(sessionId: string, events: readonly SeenEvent[]): void {
  for (const listener of listenersBySession.get(sessionId) ?? []) listener(events);
}
