// What two sessions have in common, and where they part: a fork shares its first messages with the original.

import type { EverturnClient } from "everturn/client";

/** A message of a session. */
export type Message = Awaited<ReturnType<EverturnClient["messages"]>>["items"][number];

/** Two sessions as one shared beginning and two rests. `shared` is the number of equal messages. */
export type Comparison = {
  readonly shared: number;
  readonly left: readonly Message[];
  readonly right: readonly Message[];
};

/** Compares the messages by their content. Ids and metadata may differ, because a fork has new ids. */
export function compareMessages(left: readonly Message[], right: readonly Message[]): Comparison {
  const length = Math.min(left.length, right.length);
  let shared = 0;
  while (shared < length && contentKey(left[shared]) === contentKey(right[shared])) shared += 1;
  return { shared, left: left.slice(shared), right: right.slice(shared) };
}

function contentKey(message: Message | undefined): string {
  if (message === undefined) return "";
  const { role, content } = message;
  const calls =
    message.role === "assistant" ? message.toolCalls.map(({ name, arguments: values }) => [name, values]) : [];
  return JSON.stringify([role, content, calls]);
}

/** The text of a message, and its calls as lines. */
export function messageText(message: Message): string {
  const { content } = message;
  const text =
    typeof content === "string"
      ? content
      : content
          .map((part) => {
            if (part.type === "text") return part.text;
            return part.type === "image" || part.type === "file" ? `[${part.type}]` : "";
          })
          .filter((line) => line !== "")
          .join("\n");
  const calls =
    message.role === "assistant"
      ? message.toolCalls.map(({ name, arguments: values }) => `→ ${name}(${JSON.stringify(values)})`)
      : [];
  return [text, ...calls].filter((line) => line !== "").join("\n");
}

/** How many messages of each session are read at most. */
export const maxCompared = 2000;

/** Reads the messages of a session, at most {@link maxCompared}. */
export async function readMessages(
  client: EverturnClient,
  id: string,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  const messages: Message[] = [];
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<EverturnClient["messages"]>> = await client.messages(id, {
      signal,
      limit: 200,
      ...(after === null ? {} : { after }),
    });
    messages.push(...page.items);
    after = page.next;
  } while (after !== null && messages.length < maxCompared);
  return messages;
}
