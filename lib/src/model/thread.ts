// A conversation: messages and what the caller wants to remember about it. Only ever grows.

import type { JsonObject } from "./json.ts";
import type { Message, MessageInput } from "./message.ts";
import type { Shape } from "./shape.ts";

import { emptyObject } from "./json.ts";
import { assistant, messageShape, system, user } from "./message.ts";
import { array, construct, fallback, object, settings } from "./shape.ts";

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
 * import { addUser, fromMessages, lastMessage, messageText } from "everturn/model";
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

export function addMessage(to: Thread, added: Message): Thread {
  return { ...to, messages: [...to.messages, added] };
}

export function addMessages(to: Thread, added: readonly Message[]): Thread {
  return { ...to, messages: [...to.messages, ...added] };
}

export function addSystem(to: Thread, text: string): Thread {
  return addMessage(to, system(text));
}

export function addUser(to: Thread, text: string): Thread {
  return addMessage(to, user(text));
}

export function addAssistant(to: Thread, text: string): Thread {
  return addMessage(to, assistant(text));
}

/** The newest message; `null` when there is none. */
export function lastMessage(of: Thread): Message | null {
  return of.messages.at(-1) ?? null;
}
