// Messages of sessions: read from the storage, or kept from the last turn of this process.

import type { TurnHistory } from "../kernel/internal.ts";
import type { Message } from "../model/internal.ts";
import type { SessionKey } from "./rows/session-key.ts";
import type { HostStorage, Query } from "./rows/storage.ts";

import { RuntimeError } from "../model/internal.ts";
import { keyOf, nameOf } from "./rows/session-key.ts";
import { readValue } from "./rows/stored.ts";

/** How many histories are kept. */
const limit = 64;

/** A cache of the histories of the sessions used last, so that a conversation that continues is not read again. */
export class Histories {
  readonly #kept = new Map<string, TurnHistory>();

  /** The history of that length and digest; `null`: it has to be read. */
  find(name: string, length: number, digest: string): TurnHistory | null {
    const history = this.#kept.get(name);
    return history?.length === length && history.digest === digest ? history : null;
  }

  /** Keeps a history, and freezes its messages: the next turn reads the same objects. One without its messages is not kept. */
  keep(name: string, history: TurnHistory): void {
    if (history.entries.length < history.length) return;
    for (let index = history.length - 1; index >= 0; index -= 1) {
      const message = history.entries[index];
      if (message === undefined || Object.isFrozen(message)) break;
      frozen(message);
    }
    this.#kept.delete(name);
    this.#kept.set(name, history);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > limit && oldest !== undefined) this.#kept.delete(oldest);
  }

  forget(name: string): void {
    this.#kept.delete(name);
  }
}

/** The first `length` messages of a session: from the cache, or from the storage. */
export async function loadHistory(
  { storage, histories }: { readonly storage: HostStorage; readonly histories: Histories },
  key: SessionKey,
  { length, digest }: Pick<TurnHistory, "length" | "digest">,
): Promise<TurnHistory> {
  const kept = histories.find(nameOf(key), length, digest);
  if (kept !== null) return kept;
  const entries = length === 0 ? [] : await readMessages(storage, key, { before: length });
  if (entries.length !== length) {
    throw new RuntimeError("corrupt_row", {
      message: `session ${key.session} has ${length} messages by its session row, and ${entries.length} rows in entries; restore it from a backup`,
    });
  }
  const history = { entries, length, digest };
  histories.keep(nameOf(key), history);
  return history;
}

/** Messages of a session by position. */
export async function readMessages(
  storage: HostStorage,
  key: SessionKey,
  range: Pick<Query, "after" | "before" | "limit" | "reverse">,
): Promise<readonly Message[]> {
  const [rows = []] = await storage.read([{ table: "entries", prefix: keyOf(key), ...range }]);
  return rows.map((row) => readValue("entries", row));
}

/** Freezes a value and everything in it. */
export function frozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === "object" && part !== null) frozen(part);
  return Object.freeze(value);
}
