// A thread over a shared history. Every step of a turn has a thread that begins with the messages of all steps before it; a list of its own for
// each would make the memory of a turn quadratic in its steps. So `messages` is an own, enumerable getter that copies the messages into a list
// when it is read: to JSON, to a spread and to a comparison the thread is the same plain data, and it costs constant memory.
//
// Rules:
//   1. Of all threads over the same entries only the list that was read last is kept. Reading one thread repeatedly copies once; reading the
//      threads of all steps one after the other keeps one list.
//   2. The library itself reads the end of such a thread with `messagesFromEnd`, which copies nothing.

import type { Message, Thread } from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { itemsOf } from "./shared-list.ts";

/** The histories of the threads made here, for `messagesFromEnd`. */
const histories = new WeakMap<Thread, SharedList<Message>>();

/** The list that was read last, by the shared entries it was copied from. */
const lastRead = new WeakMap<readonly Message[], { readonly length: number; readonly messages: readonly Message[] }>();

/** The thread of the messages of a history. */
export function historyThread({ entries, length }: SharedList<Message>, metadata: Thread["metadata"]): Thread {
  const history = { entries, length };
  const thread: Thread = {
    get messages() {
      const last = lastRead.get(entries);
      // Lists over the same entries differ only in their length.
      if (last?.length === length) return last.messages;
      const messages = itemsOf(history);
      lastRead.set(entries, { length, messages });
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
