// Connects a conversation to the server: the feed, and pages of messages. The state itself is in session-store.ts.

import type { FeedState } from "../data/session-feed.ts";
import type { ConversationState } from "./session-store.ts";
import type { EverturnClient } from "everturn/client";

import { TurnView } from "everturn/model";
import { createContext, useCallback, useContext, useEffect, useMemo, useSyncExternalStore } from "react";

import { useConnection } from "../data/connection.tsx";
import { followSession } from "../data/session-feed.ts";
import { notifyError } from "../shell/toasts.tsx";
import { addMessages, emptyConversation, missingAtEnd, seenEvents, withEvents, withHead } from "./session-store.ts";

const pageSize = 50;

/** A conversation with its connection. */
export type ConversationStore = {
  readonly subscribe: (changed: () => void) => () => void;
  readonly state: () => ConversationState;
  readonly feedState: () => FeedState;
  /** Reads the messages of a range that are not loaded. */
  readonly load: (from: number, until: number) => void;
};

const StoreContext = createContext<ConversationStore | null>(null);
export const ConversationProvider = StoreContext.Provider;

/** The store of the session that is shown. Only inside of `ConversationProvider`. */
function useConversationStore(): ConversationStore {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("useConversationStore is used outside of ConversationProvider");
  return store;
}

/** The conversation of the session that is shown. */
export function useConversation(): ConversationState {
  const { subscribe, state } = useConversationStore();
  return useSyncExternalStore(subscribe, state);
}

/** A part of the conversation. The component renders again only if the part changes. */
export function useConversationPart<T>(select: (state: ConversationState) => T): T {
  const { subscribe, state } = useConversationStore();
  return useSyncExternalStore(subscribe, () => select(state()));
}

export function useFeedState(): FeedState {
  const { subscribe, feedState } = useConversationStore();
  return useSyncExternalStore(subscribe, feedState);
}

/** Creates the store of a session, which follows it while the component is shown. */
export function useNewConversationStore(sessionId: string): ConversationStore {
  const { client } = useConnection();
  const { store, follow } = useMemo(() => createStore(client, sessionId), [client, sessionId]);
  useEffect(() => follow(), [follow]);
  return store;
}

function createStore(
  client: EverturnClient,
  sessionId: string,
): { readonly store: ConversationStore; readonly follow: () => () => void } {
  let state = emptyConversation(sessionId);
  /** The turn whose events were read last. */
  let seen = { turnId: "", view: new TurnView() };
  let feedState: FeedState = "loading";
  const listeners = new Set<() => void>();
  const loading = new Set<number>();
  const publish = (): void => {
    for (const changed of listeners) changed();
  };
  const set = (next: ConversationState): void => {
    if (next === state) return;
    state = next;
    publish();
  };
  const read = async (from: number, until: number): Promise<void> => {
    try {
      for (let index = from; index < until;) {
        const limit = Math.min(pageSize, until - index);
        const page = await client.messages(sessionId, { ...(index === 0 ? {} : { after: index - 1 }), limit });
        if (page.items.length === 0) break;
        set(addMessages(state, index, page.items));
        index += page.items.length;
      }
    } catch (error) {
      notifyError(error);
    } finally {
      for (let index = from; index < until; index += 1) loading.delete(index);
    }
  };
  const load = (from: number, until: number): void => {
    const isNeeded = (index: number): boolean => !state.messages.has(index) && !loading.has(index);
    let first = Math.max(0, from);
    let end = Math.min(until, state.head?.length ?? 0);
    while (first < end && !isNeeded(first)) first += 1;
    while (end > first && !isNeeded(end - 1)) end -= 1;
    if (first >= end) return;
    for (let index = first; index < end; index += 1) loading.add(index);
    void read(first, end);
  };
  const store: ConversationStore = {
    subscribe: (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    state: () => state,
    feedState: () => feedState,
    load,
  };
  const follow = (): (() => void) => {
    // A new subscription gets the events of the open turn from the beginning.
    state = { ...state, turn: null };
    seen = { turnId: "", view: new TurnView() };
    return followSession(client, sessionId, {
      onHead: (head) => {
        set(withHead(state, head));
        const missing = missingAtEnd(state);
        if (missing !== null) load(missing.from, missing.until);
      },
      onEvents: (turnId, events) => {
        if (seen.turnId !== turnId) seen = { turnId, view: new TurnView() };
        set(withEvents(state, turnId, seenEvents(seen.view, events)));
      },
      onState: (next) => {
        feedState = next;
        publish();
      },
    });
  };
  return { store, follow };
}

/** Reads a range of messages when it comes into view. */
export function useLoadRange(from: number, until: number): void {
  const { load } = useConversationStore();
  const length = useConversationPart((state) => state.length);
  const run = useCallback(() => {
    const first = Math.floor(from / pageSize) * pageSize;
    load(first, Math.min(length, Math.ceil(until / pageSize) * pageSize));
  }, [load, from, until, length]);
  useEffect(() => run(), [run]);
}
