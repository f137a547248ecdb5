// What all parts of one runtime share.

import type { Clock, Engine } from "../engine/internal.ts";
import type { ActiveTurns } from "./drive/active-turns.ts";
import type { CancelWatch } from "./drive/cancel-watch.ts";
import type { Histories } from "./histories.ts";
import type { Hub } from "./read/hub.ts";
import type { PieceWriter } from "./read/pieces.ts";
import type { LeaseTimings } from "./rows/lease.ts";
import type { HostStorage, Query, Row } from "./rows/storage.ts";

import { MisuseError, RuntimeError } from "../model/internal.ts";

export type RuntimeContext = {
  /** Holds every row: sessions, journals, events, inboxes and leases. */
  readonly storage: HostStorage;
  readonly engines: { readonly [name: string]: Engine };
  readonly clock: Clock;
  /** The name of this process among those that share the storage; written to lease rows. */
  readonly owner: () => string;
  readonly lease: LeaseTimings;
  /** Takeovers without a journal row at which a turn is parked (Q17). */
  readonly maxTakeovers: number;
  /** How many turns this process drives at once. */
  readonly maxActiveTurns: number;
  /** How long journals of ended turns are kept, in milliseconds; `null`: without limit. */
  readonly retentionMs: number | null;
  readonly hub: Hub;
  readonly pieces: PieceWriter;
  readonly cancels: CancelWatch;
  readonly histories: Histories;
};

/** What a verb works with: one tenant of one runtime, and the turns this process drives. */
export type VerbContext = RuntimeContext & {
  readonly tenant: string;
  /** `false`: verbs only accept turns; a worker drives them. */
  readonly drives: boolean;
  readonly turns: ActiveTurns;
};

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

/** The engine of that name. Throws `MisuseError` when this runtime has none. */
export function engineOf({ engines }: Pick<RuntimeContext, "engines">, name: string): Engine {
  const engine = Object.hasOwn(engines, name) ? engines[name] : undefined;
  if (engine !== undefined) return engine;
  const names = Object.keys(engines).join(", ");
  throw new MisuseError("invalid_argument", `no engine is called "${name}"; this runtime has ${names}`, {
    path: ["engine"],
  });
}

/** Reads one row; `null`: there is none. */
export async function readOne(storage: HostStorage, query: Query): Promise<Row | null> {
  const [rows = []] = await storage.read([query]);
  return rows[0] ?? null;
}
