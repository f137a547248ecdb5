// Connects a conversation to the server: the feed, and pages of messages. The state itself is in session-store.ts.

import type { FeedState } from "../data/session-feed.ts";
import type { ConversationState } from "./session-store.ts";
import type { Message } from "everturn";
import type { EverturnClient } from "everturn/client";

import { createContext, useCallback, useContext, useEffect, useMemo, useSyncExternalStore } from "react";

import { useConnection } from "../data/connection.tsx";
import { followSession } from "../data/session-feed.ts";
import { Store, useStore } from "../data/store.ts";
import { notifyError } from "../shell/toasts.tsx";
import {
  addMessages,
  emptyConversation,
  missingAtEnd,
  settleSteered,
  withEvents,
  withHead,
  withSteered,
} from "./session-store.ts";

const pageSize = 50;

/** A conversation with its connection. */
export type ConversationStore = {
  readonly state: Store<ConversationState>;
  readonly feedState: Store<FeedState>;
  /**
   * Shows a message that is sent, until the open turn accepts it or the turn that it starts is shown. The returned
   * function says whether it was stored.
   */
  readonly steer: (message: Message) => (isSent: boolean) => void;
  /** Reads the messages of a range that are not loaded. */
  readonly load: (from: number, until: number) => void;
};

const StoreContext = createContext<ConversationStore | null>(null);
export const ConversationProvider = StoreContext.Provider;

/** The store of the session that is shown. Only inside of `ConversationProvider`. */
export function useConversationStore(): ConversationStore {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("useConversationStore is used outside of ConversationProvider");
  return store;
}

/** The conversation of the session that is shown. */
export function useConversation(): ConversationState {
  return useStore(useConversationStore().state);
}

/** A part of the conversation. The component renders again only if the part changes. */
export function useConversationPart<T>(select: (state: ConversationState) => T): T {
  const { state } = useConversationStore();
  return useSyncExternalStore(state.subscribe, () => select(state.get()));
}

export function useFeedState(): FeedState {
  return useStore(useConversationStore().feedState);
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
  const state = new Store(emptyConversation(sessionId));
  const feedState = new Store<FeedState>("loading");
  const loading = new Set<number>();
  const read = async (from: number, until: number): Promise<void> => {
    try {
      for (let index = from; index < until;) {
        const limit = Math.min(pageSize, until - index);
        const page = await client.messages(sessionId, { ...(index === 0 ? {} : { after: index - 1 }), limit });
        if (page.items.length === 0) break;
        state.set(addMessages(state.get(), index, page.items));
        index += page.items.length;
      }
    } catch (error) {
      notifyError(error);
    } finally {
      for (let index = from; index < until; index += 1) loading.delete(index);
    }
  };
  const load = (from: number, until: number): void => {
    const isNeeded = (index: number): boolean => !state.get().messages.has(index) && !loading.has(index);
    let first = Math.max(0, from);
    let end = Math.min(until, state.get().head?.length ?? 0);
    while (first < end && !isNeeded(first)) first += 1;
    while (end > first && !isNeeded(end - 1)) end -= 1;
    if (first >= end) return;
    for (let index = first; index < end; index += 1) loading.add(index);
    void read(first, end);
  };
  const follow = (): (() => void) => {
    // A new subscription gets the events of the open turn from the beginning.
    if (state.get().turn !== null) state.set({ ...state.get(), turn: null });
    return followSession(client, sessionId, {
      onHead: (head) => {
        state.set(withHead(state.get(), head));
        const missing = missingAtEnd(state.get());
        if (missing !== null) load(missing.from, missing.until);
      },
      onEvents: (turnId, events) => state.set(withEvents(state.get(), turnId, events)),
      onState: feedState.set,
    });
  };
  const steer = (message: Message): ((isSent: boolean) => void) => {
    state.set(withSteered(state.get(), message));
    return (isSent) => state.set(settleSteered(state.get(), message, isSent));
  };
  return { store: { state, feedState, load, steer }, follow };
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
