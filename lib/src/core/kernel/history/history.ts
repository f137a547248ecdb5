// The history of a conversation: an append-only list of messages with a rolling digest.
//
// The digest identifies the content of the history, so that `call_model` can name a history by length and digest
// instead of containing it (Q6). Appending updates the digest with the new messages only: constant cost for each
// message, whatever the length (H5). The digest is part of stored effects; changing how it is computed makes every open
// turn diverge on replay.

import type { Message } from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { canonicalJson } from "../../model/internal.ts";
import { append, emptyList, itemsOf } from "./shared-list.ts";

/** The messages of a turn as an append-only list with a rolling digest. Appending costs constant time (Q6). */
export type TurnHistory = SharedList<Message> & { readonly digest: string };

const emptyDigest = "0000000000000000";

/** A history of these messages. Linear in their size. */
export function startHistory(messages: readonly Message[]): TurnHistory {
  return appendHistory({ ...emptyList, digest: emptyDigest }, messages);
}

/** Is this a history, and not a plain array of messages? */
export function isHistory(input: readonly Message[] | TurnHistory): input is TurnHistory {
  return "digest" in input;
}

/** The history with these messages appended. The given history does not change. */
export function appendHistory(history: TurnHistory, added: readonly Message[]): TurnHistory {
  if (added.length === 0) return history;
  const digest = added.reduce((previous, message) => rollDigest(previous, canonicalJson(message)), history.digest);
  return { ...append(history, added), digest };
}

/** Returns the messages of a history as an array. */
export function historyMessages(history: TurnHistory): readonly Message[] {
  return itemsOf(history);
}

/** The digest of one text. */
export function digestOf(text: string): string {
  return rollDigest(emptyDigest, text);
}

/**
 * The digest of a previous digest and one more text: 64 bits, in the manner of FNV-1a and MurmurHash, not
 * cryptographic. It detects that a replay diverges from the record; it does not protect against forgery.
 */
function rollDigest(previous: string, text: string): string {
  let low = Number.parseInt(previous.slice(0, 8), 16) ^ 0x9e3779b9;
  let high = Number.parseInt(previous.slice(8), 16) ^ 0x85ebca6b;
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
