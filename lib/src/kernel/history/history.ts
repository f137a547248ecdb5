// What has been said in a conversation: a shared list of messages and a digest that says what they are, at constant cost an entry, so
// that an effect can name a history without holding it (Q6).

import type { Message } from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { canonicalJson } from "../../model/internal.ts";
import { append, emptyList, itemsOf } from "./shared-list.ts";

/** The messages of a turn as an append-only list with a rolling digest. Appending costs constant time (Q6). */
export type TurnHistory = SharedList<Message> & { readonly digest: string };

const beginning = "0000000000000000";

/** A history of these messages. */
export function startHistory(messages: readonly Message[]): TurnHistory {
  return appendHistory({ ...emptyList, digest: beginning }, messages);
}

/** Is this a history already, and not just what was said? */
export function isHistory(said: readonly Message[] | TurnHistory): said is TurnHistory {
  return "digest" in said;
}

/** The history with more behind it. */
export function appendHistory(history: TurnHistory, added: readonly Message[]): TurnHistory {
  if (added.length === 0) return history;
  const digest = added.reduce((before, message) => roll(before, canonicalJson(message)), history.digest);
  return { ...append(history, added), digest };
}

/** Returns the messages of a history as an array. */
export function historyMessages(history: TurnHistory): readonly Message[] {
  return itemsOf(history);
}

/** The digest of one text. */
export function digestOf(text: string): string {
  return roll(beginning, text);
}

/**
 * The digest of what came before and one more text: 64 bits, not cryptographic. It is there to notice that a replay tells another
 * story than the record, not to keep anybody from forging one.
 */
function roll(before: string, text: string): string {
  let low = Number.parseInt(before.slice(0, 8), 16) ^ 0x9e3779b9;
  let high = Number.parseInt(before.slice(8), 16) ^ 0x85ebca6b;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + (low & 0xff)), 0x5bd1e995);
  }
  return hex(low ^ (high >>> 15)) + hex(high ^ (low >>> 13));
}

function hex(bits: number): string {
  return (bits >>> 0).toString(16).padStart(8, "0");
}
