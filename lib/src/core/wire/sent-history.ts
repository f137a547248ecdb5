// Continues the encoding of a history where the request before left it.
//
// A tool loop sends its whole history with every request, and each history begins with the one before. Encoders write a
// history from the start to the end into one list (`messages`, `input`). The list and its JSON text are kept with the
// newest reply of the history, and the next request of the conversation adds to them, so a step costs what is new in it
// (H5).
//
// What is kept can be continued if later messages change nothing in it:
//   - every call of it has its result in it, so no placeholder is replaced and no result is moved into it;
//   - it ends with a user message or a tool result, and a reply follows, so no message is joined with one of it. An
//     encoder that joins messages checks that the reply becomes an element of its own.
// An encoder may have other reasons not to keep a history. Without a kept one the whole history is encoded.
//
// Invariants
//   1. A request with a kept history has the same body as one without it.
//   2. A kept history is taken out by the request that continues it: two branches of a conversation never add to the
//      same list.
//   3. It is found by the identity of its messages, so a changed copy of a message is a miss. It is held weakly: it
//      ends with the reply that it is kept with.

import type { Json, JsonObject, Message } from "../model/internal.ts";
import type { Omission } from "./codec.ts";
import type { CallIdAllocator } from "./history.ts";

/** A history that was encoded for a request. */
export type SentHistory<Element extends JsonObject, Extra> = {
  /** The route and the other settings that the encoding depends on. */
  readonly key: string;
  /** The messages of the request. */
  readonly messages: readonly Message[];
  /** Gives ids to the calls after it. */
  readonly allocateId: CallIdAllocator;
  /** The encoded list. */
  readonly list: readonly Element[];
  /** The elements of the list as JSON texts, joined by commas. */
  readonly text: string;
  readonly omissions: readonly Omission[];
  /** What the encoder needs besides the list. */
  readonly extra: Extra;
};

/** The histories that one encoder has kept. */
export class SentHistories<Element extends JsonObject, Extra> {
  readonly #byReply = new WeakMap<Message, SentHistory<Element, Extra>>();

  /** Takes out the kept history that the messages continue; `null`: there is none. */
  take(messages: readonly Message[], key: string): SentHistory<Element, Extra> | null {
    let replies = 0;
    for (let index = messages.length - 1; index >= 0 && replies < maxReplies; index -= 1) {
      const message = messages[index];
      if (message?.role !== "assistant") continue;
      replies += 1;
      const kept = this.#byReply.get(message);
      if (kept === undefined) continue;
      if (kept.key !== key || !isContinued(kept.messages, messages)) return null;
      this.#byReply.delete(message);
      return kept;
    }
    return null;
  }

  /**
   * The list and the omissions of a request: those of the history that it continues, and what is added. `isClosed`: the
   * messages can be kept for the next request.
   */
  extend(
    before: SentHistory<Element, Extra> | null,
    {
      list,
      omissions,
      isClosed,
      ...request
    }: Omit<SentHistory<Element, Extra>, "text"> & { readonly isClosed: boolean },
  ): Pick<SentHistory<Element, Extra>, "list" | "omissions"> {
    const reply = isClosed && endsOpen(request.messages) ? newestReply(request.messages) : null;
    if (before === null && reply === null) return { list, omissions };
    const addedText = list.map((element) => JSON.stringify(element)).join(",");
    const all = {
      list: before === null ? list : before.list.concat(list),
      omissions: before === null ? omissions : before.omissions.concat(omissions),
      text: before === null ? addedText : joined(before.text, addedText),
    };
    listTexts.set(all.list, all.text);
    if (reply !== null) this.#byReply.set(reply, { ...request, ...all });
    return all;
  }
}

/** How many of the newest replies are looked at for a kept history: a step adds one. */
const maxReplies = 4;

/** Do the messages begin with those that were sent, and does a reply, or nothing, follow? */
function isContinued(sent: readonly Message[], messages: readonly Message[]): boolean {
  if (sent.length > messages.length) return false;
  for (let index = sent.length - 1; index >= 0; index -= 1) if (sent[index] !== messages[index]) return false;
  return sent.length === messages.length || messages[sent.length]?.role === "assistant";
}

/** Can a reply follow without being joined with the last message? */
function endsOpen(messages: readonly Message[]): boolean {
  const role = messages.at(-1)?.role;
  return role === "user" || role === "tool";
}

function newestReply(messages: readonly Message[]): Message | null {
  return messages.findLast(({ role }) => role === "assistant") ?? null;
}

function joined(first: string, second: string): string {
  if (first === "" || second === "") return first + second;
  return `${first},${second}`;
}

// The JSON texts of encoded lists, without the brackets.
const listTexts = new WeakMap<readonly Json[], string>();

/**
 * The body as JSON text, as `JSON.stringify` writes it. The text of a list that an encoder has kept is not built again.
 */
export function bodyText(body: JsonObject): string {
  const fields = Object.entries(body);
  if (!fields.some(([, value]) => Array.isArray(value) && listTexts.has(value))) return JSON.stringify(body);
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${fieldText(value)}`).join(",")}}`;
}

function fieldText(value: Json): string {
  const text = Array.isArray(value) ? listTexts.get(value) : undefined;
  return text === undefined ? JSON.stringify(value) : `[${text}]`;
}
