// A thread over a shared history. Every step of a turn has a thread that begins with the messages of all steps before
// it; an array for each would make the memory of a turn quadratic in its steps. So `messages` is an own, enumerable
// getter that copies the messages into an array when it is read: for `JSON.stringify`, spread and comparison the thread
// is plain data, and an unread thread costs constant memory.
//
// Invariants
//   1. Of all threads over the same array only the copy that was read last is cached. Reading one thread repeatedly
//      copies once; reading the threads of all steps one after the other keeps one copy.
//   2. The library reads the end of such a thread with `messagesFromEnd`, which copies nothing.

import type { Message, Thread } from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { itemsOf } from "./shared-list.ts";

/** The history of each thread that `historyThread` returned, for `messagesFromEnd`. */
const histories = new WeakMap<Thread, SharedList<Message>>();

/** The copy that was made last, by the shared array it was copied from. */
const lastCopy = new WeakMap<readonly Message[], { readonly length: number; readonly messages: readonly Message[] }>();

/** A thread with the messages of a history. */
export function historyThread({ entries, length }: SharedList<Message>, metadata: Thread["metadata"]): Thread {
  const history = { entries, length };
  const thread: Thread = {
    get messages() {
      const cached = lastCopy.get(entries);
      // Lists over the same array differ only in their length.
      if (cached?.length === length) return cached.messages;
      const messages = itemsOf(history);
      lastCopy.set(entries, { length, messages });
      return messages;
    },
    metadata,
  };
  histories.set(thread, history);
  return thread;
}

/** The messages of any thread, newest first. */
export function* messagesFromEnd(thread: Thread): Generator<Message> {
  const { entries, length } = histories.get(thread) ?? { entries: thread.messages, length: thread.messages.length };
  for (let index = length - 1; index >= 0; index -= 1) {
    const message = entries[index];
    if (message !== undefined) yield message;
  }
}
