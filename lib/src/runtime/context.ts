// What all parts of one runtime share.

import type { Engine } from "../engine/internal.ts";
import type { Clock } from "../engine/internal.ts";
import type { TurnHistory } from "../kernel/internal.ts";
import type { Message } from "../model/internal.ts";
import type { CancelWatch } from "./drive/cancels.ts";
import type { Hub } from "./read/hub.ts";
import type { PieceWriter } from "./read/pieces.ts";
import type { LeaseTimings } from "./rows/lease.ts";
import type { HostStorage, Key, Query, Row } from "./rows/storage.ts";

import { MisuseError, RuntimeError } from "../model/internal.ts";
import { sessionName } from "./rows/storage.ts";
import { readValue } from "./rows/stored.ts";

/**
 * Returns the storage unchanged. Throws `volatile_storage` if the program asked for durability and the storage does not outlive the process: every
 * guarantee of the runtime rests on stored rows.
 */
export function checkedStorage(storage: HostStorage, wanted: HostStorage["durability"] | null): HostStorage {
  if (wanted !== "durable" || storage.durability === "durable") return storage;
  throw new RuntimeError("volatile_storage", {
    message: `a durable runtime cannot use the storage ${storage.name}, which does not outlive the process; pass a durable storage`,
    metadata: { storage: storage.name },
  });
}

export type RuntimeContext = {
  /** Holds the rows of everything: sessions, journals, events, inboxes and leases. */
  readonly storage: HostStorage;
  readonly engines: { readonly [name: string]: Engine };
  readonly clock: Clock;
  /** Who this is, among those that share the storage. */
  readonly owner: string;
  readonly lease: LeaseTimings;
  /** How long journals are kept after their turns have ended; `null`: for ever. */
  readonly retentionMs: number | null;
  readonly hub: Hub;
  readonly pieces: PieceWriter;
  readonly cancels: CancelWatch;
  readonly histories: Histories;
};

/** One session, by its tenant and id. */
export type SessionKey = { readonly tenant: string; readonly session: string };

export function keyOf({ tenant, session }: SessionKey): Key {
  return [tenant, session];
}

/** The name of a session in the tables of this process. */
export function nameOf({ tenant, session }: SessionKey): string {
  return sessionName(tenant, session);
}

export function engineOf({ engines }: Pick<RuntimeContext, "engines">, name: string): Engine {
  const engine = Object.hasOwn(engines, name) ? engines[name] : undefined;
  if (engine !== undefined) return engine;
  const known = Object.keys(engines).join(", ");
  throw new MisuseError("invalid_argument", `no engine is called "${name}"; this runtime has ${known}`, {
    path: ["engine"],
  });
}

/** Reads one row. */
export async function readOne(storage: HostStorage, query: Query): Promise<Row | null> {
  const [rows = []] = await storage.read([query]);
  return rows[0] ?? null;
}

/** The newest histories, so that a conversation that goes on need not be read again. Each is known by its length and digest. */
export class Histories {
  readonly #known = new Map<string, TurnHistory>();
  readonly #most: number;

  constructor(most = 64) {
    this.#most = most;
  }

  find(name: string, length: number, digest: string): TurnHistory | null {
    const history = this.#known.get(name);
    return history?.length === length && history.digest === digest ? history : null;
  }

  keep(name: string, history: TurnHistory): void {
    if (history.entries.length < history.length) return;
    // Handed out as they are: nobody may change what the next turn is going to read.
    for (let index = history.length - 1; index >= 0; index -= 1) {
      const message = history.entries[index];
      if (message === undefined || Object.isFrozen(message)) break;
      frozen(message);
    }
    this.#known.delete(name);
    this.#known.set(name, history);
    const [oldest] = this.#known.keys();
    if (this.#known.size > this.#most && oldest !== undefined) this.#known.delete(oldest);
  }

  forget(name: string): void {
    this.#known.delete(name);
  }
}

/** The first messages of a session: from memory, or from the store. */
export async function loadHistory(
  { storage, histories }: Pick<RuntimeContext, "storage" | "histories">,
  key: SessionKey,
  length: number,
  digest: string,
): Promise<TurnHistory> {
  const known = histories.find(nameOf(key), length, digest);
  if (known !== null) return known;
  const entries = await readMessages(storage, key, { before: length });
  if (entries.length !== length) {
    throw new RuntimeError("corrupt_row", {
      message: `session ${key.session} says it has ${length} messages, and ${entries.length} are there; restore it from a backup`,
    });
  }
  const history = { entries, length, digest };
  histories.keep(nameOf(key), history);
  return history;
}

/** Messages of a session by their places. */
export async function readMessages(
  storage: HostStorage,
  { tenant, session }: SessionKey,
  range: Pick<Query, "after" | "before" | "limit" | "reverse">,
): Promise<readonly Message[]> {
  const [rows = []] = await storage.read([{ table: "entries", prefix: [tenant, session], ...range }]);
  return rows.map((row) => readValue("entries", row));
}

/** The value itself, which nobody can change any more. */
export function frozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === "object" && part !== null) frozen(part);
  return Object.freeze(value);
}
