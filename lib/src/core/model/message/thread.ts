// A thread: the messages of a conversation in order, and metadata of the caller. Append-only: every function returns a
// new thread that shares the messages of the old one, so adding n messages one by one is quadratic. `addMessages` adds
// many in one copy.

import type { JsonObject } from "../parse/json.ts";
import type { Infer, Shape } from "../parse/shape.ts";
import type { Message, MessageInput } from "./message.ts";

import { emptyObject } from "../parse/json.ts";
import { array, construct, fallback, object, settings } from "../parse/shape.ts";
import { assistant, message, messageShape, system, user } from "./message.ts";

const threadFields = {
  /** The messages, oldest first. */
  messages: fallback(array(messageShape), []),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/** A conversation: its messages in order. */
export type Thread = Infer<typeof threadFields>;

export const threadShape: Shape<Thread> = object(threadFields);

/** The loose form of a thread: fields with a default are optional. */
export type ThreadInput = { readonly messages?: readonly MessageInput[]; readonly metadata?: JsonObject };

/** Builds a thread and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type. */
export function thread(fields: ThreadInput = {}): Thread {
  return construct("thread", threadShape, fields);
}

/**
 * Builds a thread from messages, which may be written by hand. Throws `MisuseError` for an unknown field or a
 * wrong type.
 *
 * @example
 * ```ts
 * import { addUser } from "everturn/advanced"; import { fromMessages } from "everturn";
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
 * Returns the thread with more messages. Copies the list of messages once, whatever the number of added messages.
 * Throws `MisuseError` for an unknown field or a wrong type.
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
