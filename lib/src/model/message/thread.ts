// A conversation: messages and what the caller wants to remember about it. Only ever grows.

import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { Message, MessageInput } from "./message.ts";

import { emptyObject } from "../parse/json.ts";
import { array, construct, fallback, object, settings } from "../parse/shape.ts";
import { assistant, message, messageShape, system, user } from "./message.ts";

/** A conversation: its messages in order. */
export type Thread = {
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
};

export const threadShape: Shape<Thread> = object<Thread>({
  messages: fallback(array(messageShape), []),
  metadata: fallback(settings, emptyObject),
});

/** A thread as people write one by hand. */
export type ThreadInput = { readonly messages?: readonly MessageInput[]; readonly metadata?: JsonObject };

export function thread(fields: ThreadInput = {}): Thread {
  return construct("thread", threadShape, fields);
}

/**
 * Builds a thread from messages, which may be written by hand. Throws `MisuseError` for an unknown field or a
 * wrong type.
 *
 * @example
 * ```ts
 * import { addUser, fromMessages } from "everturn/model";
 *
 * const thread = fromMessages([{ role: "system", content: "Be brief." }]);
 * const longer = addUser(thread, "Why is the sky blue?");
 * longer.messages.length; // => 2
 * thread.messages.length; // => 1
 * ```
 */
export function fromMessages(messages: readonly MessageInput[]): Thread {
  return thread({ messages });
}

/**
 * Returns the thread with one more message. The given thread is unchanged. Throws `MisuseError` for an unknown
 * field or a wrong type.
 */
export function addMessage(thread: Thread, added: MessageInput): Thread {
  return addMessages(thread, [added]);
}

/**
 * Returns the thread with more messages. Adding many at once copies the list once; adding them one by one copies
 * it each time.
 */
export function addMessages(thread: Thread, added: readonly MessageInput[]): Thread {
  return { ...thread, messages: [...thread.messages, ...added.map(message)] };
}

/** Returns the thread with a system message added. The given thread is unchanged. */
export function addSystem(thread: Thread, text: string): Thread {
  return addMessage(thread, system(text));
}

/** Returns the thread with a user message added. The given thread is unchanged. */
export function addUser(thread: Thread, text: string): Thread {
  return addMessage(thread, user(text));
}

/** Returns the thread with an assistant message added. The given thread is unchanged. */
export function addAssistant(thread: Thread, text: string): Thread {
  return addMessage(thread, assistant(text));
}

/** Returns the last message of a thread, or `null` if it has none. */
export function lastMessage(thread: Thread): Message | null {
  return thread.messages.at(-1) ?? null;
}
