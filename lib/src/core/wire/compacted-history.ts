// Leaves out the messages that a provider has replaced by a compaction item, so that the requests of a conversation
// that lives for months stay small: Anthropic ignores everything before its newest item, OpenAI says that it may be
// left out.
//
// Invariants
//   1. Only an item of the same route replaces messages: another provider or model gets the whole history, without the
//      item.
//   2. System messages are sent as before: they are instructions, and the item is about the conversation.
//   3. Appended messages change nothing of what was sent before, up to the next item.

import type { Message, ProviderRoute } from "../model/internal.ts";
import type { Omission } from "./codec.ts";

import { compactionItem, replayFor } from "../model/internal.ts";

/** The messages that are sent. `indexes`: the index in the request of each of them; `null`: all are sent. */
export type CompactedHistory = {
  readonly messages: readonly Message[];
  readonly indexes: readonly number[] | null;
};

/**
 * The messages from the reply with the newest compaction item of this route on, after the system messages before it.
 */
export function sinceCompaction(messages: readonly Message[], route: ProviderRoute): CompactedHistory {
  const at = messages.findLastIndex((message) => {
    const item = compactionItem(message);
    return item !== null && replayFor(item.provider, route).type === "replay";
  });
  if (at === -1) return { messages, indexes: null };
  const indexes = [...messages.keys()].filter((index) => index >= at || messages[index]?.role === "system");
  return { messages: indexes.flatMap((index) => messages[index] ?? []), indexes };
}

/** Omissions of a compacted history, with the indexes of the request. */
export function inWholeHistory(omissions: readonly Omission[], { indexes }: CompactedHistory): readonly Omission[] {
  if (indexes === null) return omissions;
  const named = (text: string): string =>
    text.replace(/^messages\[(\d+)\]/, (_, index: string) => `messages[${indexes[Number(index)] ?? index}]`);
  return omissions.map((omission) => ({
    ...omission,
    path: named(omission.path),
    ...(omission.message === undefined ? {} : { message: named(omission.message) }),
  }));
}
