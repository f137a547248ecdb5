// Message histories of sessions: a least-recently-used cache that is bounded in characters, and the functions that read
// messages from the storage.
//
// A conversation that continues in one process is not read again: the turn that ended leaves its history in the cache.
// The cache is keyed by session and verified by length and digest, so a history that another process has extended is
// never used. Reading a history costs O(length); finding it in the cache costs O(1).

import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { Message } from "../../core/model/internal.ts";
import type { SessionKey } from "./session-key.ts";
import type { HostStorage, Query } from "./storage.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { keyOf, nameOf } from "./session-key.ts";
import { readValue } from "./stored.ts";

/**
 * How many histories are cached, and how many characters they have together. Beyond that, the least recently stored
 * ones are dropped.
 */
const limits = { count: 64, length: 33_554_432 };

/** The length of a field besides its value, in characters: approximately what an object takes in memory. */
const fieldLength = 16;

/** A cached history, and its length in characters. */
type Cached = { readonly history: TurnHistory; readonly size: number };

/** The histories of the sessions that this process used last. */
export class HistoryCache {
  readonly #histories = new Map<string, Cached>();
  /**
   * The length in characters of the messages up to a position, by the message there. Only of the last message of a
   * history that was stored.
   */
  readonly #sizes = new WeakMap<Message, { readonly index: number; readonly size: number }>();
  readonly #loads = new Map<string, Promise<TurnHistory>>();
  readonly #reads = new Set<string>();
  #size = 0;

  /** The length of all cached histories, in characters. */
  get size(): number {
    return this.#size;
  }

  /** Returns the history if it has that length and digest; `null`: it is not cached, or has changed since. */
  find(name: string, length: number, digest: string): TurnHistory | null {
    const history = this.#histories.get(name)?.history;
    return history?.length === length && history.digest === digest ? history : null;
  }

  /**
   * Stores a history and freezes its messages: the next turn reads the same objects, so a program that changed one
   * would change the history. Messages are frozen from the newest back to the first frozen one, which costs what is new
   * (H5). A history that does not hold its messages (`entries` shorter than `length`) is not cached, and neither is one
   * that is longer than the whole cache may be.
   */
  keep(name: string, history: TurnHistory): void {
    if (history.entries.length < history.length) return;
    for (let index = history.length - 1; index >= 0; index -= 1) {
      const message = history.entries[index];
      if (message === undefined || Object.isFrozen(message)) break;
      frozen(message);
    }
    this.forget(name);
    const size = this.#sizeOf(history);
    if (size > limits.length) return;
    this.#histories.set(name, { history, size });
    this.#size += size;
    for (const oldest of this.#histories.keys()) {
      if (this.#histories.size <= limits.count && this.#size <= limits.length) break;
      this.forget(oldest);
    }
  }

  /** Removes the history of a session, for example of a deleted one. */
  forget(name: string): void {
    this.#size -= this.#histories.get(name)?.size ?? 0;
    this.#histories.delete(name);
  }

  /**
   * Begins a read of the session and all its messages. Returns the function that ends it; `null`: a history of the
   * session is cached, or another call is reading it, so the messages need not be read.
   */
  beginRead(name: string): (() => void) | null {
    if (this.#histories.has(name) || this.#reads.has(name)) return null;
    this.#reads.add(name);
    return () => this.#reads.delete(name);
  }

  /** Reads a history once for all callers that need it at the same time: each copy may have many megabytes. */
  async load(
    name: string,
    { length, digest }: Pick<TurnHistory, "length" | "digest">,
    read: () => Promise<TurnHistory>,
  ): Promise<TurnHistory> {
    const key = JSON.stringify([name, length, digest]);
    const load = this.#loads.get(key) ?? read().finally(() => this.#loads.delete(key));
    this.#loads.set(key, load);
    return load;
  }

  /** The length of a history in characters. Counts the messages after the last ones that were counted. */
  #sizeOf({ entries, length }: TurnHistory): number {
    let size = 0;
    for (let index = length - 1; index >= 0; index -= 1) {
      const message = entries[index];
      if (message === undefined) continue;
      const counted = this.#sizes.get(message);
      if (counted?.index === index) {
        size += counted.size;
        break;
      }
      size += approximateSize(message);
    }
    const last = entries[length - 1];
    if (last !== undefined) this.#sizes.set(last, { index: length - 1, size });
    return size;
  }
}

/** The length of all texts in a value. */
export function textLength(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((sum, part) => sum + textLength(part), 0);
}

function approximateSize(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((sum, part) => sum + fieldLength + approximateSize(part), fieldLength);
}

/**
 * Returns the first `length` messages of a session, from the cache or from the storage. Rejects with `corrupt_row` if
 * message rows are missing, and with `not_found` or `conflict` if they are missing because the session was deleted
 * after its row was read.
 */
export async function loadHistory(
  { storage, histories }: { readonly storage: HostStorage; readonly histories: HistoryCache },
  key: SessionKey,
  { length, digest }: Pick<TurnHistory, "length" | "digest">,
): Promise<TurnHistory> {
  const cached = histories.find(nameOf(key), length, digest);
  if (cached !== null) return cached;
  return histories.load(nameOf(key), { length, digest }, async () => {
    const entries = length === 0 ? [] : await readMessages(storage, key, { before: length });
    if (entries.length !== length) throw await missingMessages(storage, key, length);
    const history = { entries, length, digest };
    histories.keep(nameOf(key), history);
    return history;
  });
}

/**
 * The error for messages that are missing. The session row and the messages are read again, in one snapshot: a deletion
 * may have come in between.
 */
async function missingMessages(storage: HostStorage, key: SessionKey, length: number): Promise<RuntimeError> {
  const [heads = [], entries = []] = await storage.read([
    { table: "sessions", prefix: keyOf(key) },
    { table: "entries", prefix: keyOf(key), before: length },
  ]);
  const head = heads[0] === undefined ? null : readValue("sessions", heads[0]);
  if (head === null || head.deleted) {
    return new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(key.session)}` });
  }
  if (head.length < length || entries.length === length) {
    const message = `session ${key.session} was deleted and started again meanwhile; read it again and repeat the call`;
    return new RuntimeError("conflict", { message });
  }
  return new RuntimeError("corrupt_row", {
    message: `session ${key.session} has ${length} messages according to its session row, but ${entries.length} rows in the table entries; restore it from a backup`,
  });
}

/** Reads messages of a session by position. `after` and `before` are exclusive bounds. */
export async function readMessages(
  storage: HostStorage,
  key: SessionKey,
  range: Pick<Query, "after" | "before" | "limit" | "reverse">,
): Promise<readonly Message[]> {
  const [rows = []] = await storage.read([{ table: "entries", prefix: keyOf(key), ...range }]);
  return rows.map((row) => readValue("entries", row));
}

/** Freezes a value and all objects inside it, and returns it. */
export function frozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === "object" && part !== null) frozen(part);
  return Object.freeze(value);
}
