// What has been said in a conversation, only ever added to. A turn of ten thousand steps appends as fast as one of ten: a history
// is a length and a digest over a list that later histories share and go on writing to, behind the end of this one.
//
// Rules:
//   1. A history never changes: what stands before `length` stays, what stands behind it belongs to somebody else.
//   2. Appending costs what is appended. Only the first append to a list that somebody else made (a restored one, a frozen one, one
//      that another history has already gone on from) copies it.
//   3. It is plain JSON, and a restored one goes on exactly like the one that was stored (K3).
//   4. The digest says what the entries are, at constant cost an entry, so that an effect can name a history without holding it (Q6).

import type { Message } from "../model/index.ts";

import { canonicalJson } from "./canonical-json.ts";

export type TurnHistory = {
  /** Shared: only the first `length` of them are this history's. */
  readonly entries: readonly Message[];
  readonly length: number;
  readonly digest: string;
};

// Lists this file made and may therefore write to, behind the end of every history that shares them.
const growing = new WeakMap<readonly Message[], Message[]>();

const beginning = "0000000000000000";

/** A history of these messages. */
export function startHistory(messages: readonly Message[]): TurnHistory {
  return appendHistory({ entries: [], length: 0, digest: beginning }, messages);
}

/** The history with more behind it. */
export function appendHistory(history: TurnHistory, added: readonly Message[]): TurnHistory {
  if (added.length === 0) return history;
  const list = writable(history);
  let { digest } = history;
  for (const message of added) {
    list.push(message);
    digest = roll(digest, canonicalJson(message));
  }
  return { entries: list, length: list.length, digest };
}

/** The messages of a history, as a list of their own. */
export function historyMessages(history: TurnHistory): readonly Message[] {
  return history.entries.slice(0, history.length);
}

/** A history as it should be stored: without what others have written behind its end. */
export function trimHistory(history: TurnHistory): TurnHistory {
  return history.entries.length === history.length ? history : { ...history, entries: historyMessages(history) };
}

/** The digest of one text. */
export function digestOf(text: string): string {
  return roll(beginning, text);
}

/** The list to append to: the shared one while this history is the newest that ends there, else a copy. */
function writable(history: TurnHistory): Message[] {
  const list = growing.get(history.entries);
  if (list !== undefined && list.length === history.length && Object.isExtensible(list)) return list;
  const copy = history.entries.slice(0, history.length);
  growing.set(copy, copy);
  return copy;
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
