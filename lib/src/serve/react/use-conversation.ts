// A conversation as a hook of React.

import type { Conversation, ConversationOptions, ConversationSnapshot, EverturnClient } from "../client/internal.ts";

import { useMemo, useSyncExternalStore } from "react";

import { conversation } from "../client/internal.ts";

/** What a conversation shows, and what a person can do in it. */
export type UsedConversation = ConversationSnapshot & Omit<Conversation, "subscribe" | "snapshot">;

/**
 * Follows a session while the component is mounted: its messages, the reply that is being received, the calls that wait
 * for a person, and the verbs. It is `conversation` of `everturn/client` as a hook. `client` must be the same object in
 * every rendering; `options` are those of the first rendering with this client and id.
 */
export function useConversation(client: EverturnClient, id: string, options?: ConversationOptions): UsedConversation {
  const store = useMemo(() => conversation(client, id, options), [client, id]);
  const snapshot = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  const { subscribe: _, snapshot: __, ...verbs } = store;
  return { ...verbs, ...snapshot };
}
