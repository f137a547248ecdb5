// A conversation: messages and what the caller wants to remember about it. Only ever grows.

import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { Message, MessageInput } from "./message.ts";

import { emptyObject } from "../parse/json.ts";
import { array, construct, fallback, object, settings } from "../parse/shape.ts";
import { assistant, message, messageShape, system, user } from "./message.ts";

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
 * A thread from messages, which may be written by hand.
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

/** The thread with one more message. The given thread is unchanged. */
export function addMessage(thread: Thread, added: MessageInput): Thread {
  return addMessages(thread, [added]);
}

/** The thread with more messages. Adding many at once costs one copy of the list, adding them one by one a copy each. */
export function addMessages(thread: Thread, added: readonly MessageInput[]): Thread {
  return { ...thread, messages: [...thread.messages, ...added.map(message)] };
}

export function addSystem(thread: Thread, text: string): Thread {
  return addMessage(thread, system(text));
}

export function addUser(thread: Thread, text: string): Thread {
  return addMessage(thread, user(text));
}

export function addAssistant(thread: Thread, text: string): Thread {
  return addMessage(thread, assistant(text));
}

/** The newest message; `null` when there is none. */
export function lastMessage(thread: Thread): Message | null {
  return thread.messages.at(-1) ?? null;
}
