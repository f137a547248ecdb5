// The context of one runtime: options after validation, and the objects that all verbs and all turns of this process
// share. It is built once, by `runtime`, and never changes; its objects hold the state of the process.

import type { Engine } from "../../core/engine/internal.ts";
import type { FairShare } from "../../core/fair/fair-share.ts";
import type { TurnEnd } from "../../core/model/internal.ts";
import type { Hub } from "../read/hub.ts";
import type { JoinedReads } from "../read/joined-reads.ts";
import type { PieceWriter } from "../read/pieces.ts";
import type { HistoryCache } from "../rows/history-cache.ts";
import type { LeaseTimings } from "../rows/lease.ts";
import type { RuntimeLimits } from "../rows/limits.ts";
import type { RuntimeClock } from "../rows/storage-clock.ts";
import type { HostStorage, Query, Row } from "../rows/storage.ts";
import type { StoredPinned } from "../rows/stored-pinned.ts";
import type { ActiveTurns } from "./active-turns.ts";
import type { CancelWatch } from "./cancel-watch.ts";
import type { OutputChecks } from "./output-checks.ts";
import type { TurnFailure } from "./types.ts";

import { MisuseError, RuntimeError } from "../../core/model/internal.ts";

/** What every part of a runtime works with, for all tenants. */
export type RuntimeContext = {
  /** Holds every row: sessions, journals, events, inboxes and leases. */
  readonly storage: HostStorage;
  /** The format that this process writes (`rows/format.ts`). */
  readonly format: () => Promise<number>;
  /** Engines by the name that turns store. */
  readonly engines: { readonly [name: string]: Engine };
  /** The storage's clock: every time in a row comes from it. */
  readonly clock: RuntimeClock;
  /**
   * The name of this process in lease rows. For diagnosis: the epoch of the lease, not the name, decides who may write.
   */
  readonly owner: () => string;
  readonly lease: LeaseTimings;
  /** The number of takeovers without a new journal row at which a turn is parked (Q17). */
  readonly maxTakeovers: number;
  /**
   * How many turns this process drives at once: as configured, and fewer while writes are slow
   * (`drive/growing-lease.ts`).
   */
  readonly maxActiveTurns: () => number;
  /** The limits of turns by engine, tenant and limit key; `null`: none. */
  readonly limits: RuntimeLimits | null;
  /** How long journals of ended turns are kept, in milliseconds; `null`: without limit. */
  readonly retentionMs: number | null;
  /** How long sessions are kept after their last change, in milliseconds; `null`: without limit. */
  readonly sessionRetentionMs: number | null;
  /** Reports a turn that was driven here without success. Never throws. */
  readonly reportFailure: (report: TurnFailure) => void;
  /** Events of the turns driven here, for readers in this process. */
  readonly hub: Hub;
  /** Writes live text for readers in other processes. */
  readonly pieces: PieceWriter;
  /** Reads for readers of events. */
  readonly reads: JoinedReads;
  /** Finds cancels that other processes have stored. */
  readonly cancels: CancelWatch;
  readonly histories: HistoryCache;
  /** The memory of event readers, in characters, and the reads of their pages (`read/page-budget.ts`). */
  readonly pages: FairShare;
  readonly readPermits: FairShare;
  /** The validations of large structured outputs. */
  readonly outputChecks: OutputChecks;
  /** Forks of a tenant run one after the other: each holds a copy of its history. */
  readonly forkPermits: FairShare;
  /** The waits for the ends of turns and the reads after them, by session and turn (`sessions/turn-end.ts`). */
  readonly endReads: Map<string, Promise<TurnEnd | null>>;
  /** The pinned configurations that this process has stored. */
  readonly pinned: StoredPinned;
};

/** What a verb works with: one tenant of one runtime, and the turns this process drives. */
export type VerbContext = RuntimeContext & {
  /** The first part of the key of every session. The default tenant is the empty string. */
  readonly tenant: string;
  /** `false`: verbs only accept turns, and a worker drives them (`RuntimeOptions.drive`). */
  readonly drives: boolean;
  /** The limit key of turns whose verb has none (`Runtime.limitedBy`); `null`: none. */
  readonly limitKey: string | null;
  /** The caller of the verbs (`Runtime.calledBy`); `null`: a program calls them for itself. */
  readonly caller: string | null;
  /** Who the audit log names (`Runtime.actedBy`); `null`: the caller, if there is one. */
  readonly actor: string | null;
  readonly turns: ActiveTurns;
};

/** Who the audit log names for a verb; `null`: a program that gave no name. */
export function actorOf({ actor, caller }: Pick<VerbContext, "actor" | "caller">): string | null {
  // Callers that cannot be told apart have the empty identity.
  return actor ?? (caller === "" ? null : caller);
}

/**
 * Returns the storage unchanged. Throws `volatile_storage` if `required` is `"durable"` and the rows of the storage do
 * not outlive the process: every guarantee of the runtime depends on stored rows.
 */
export function checkedStorage(storage: HostStorage, required: HostStorage["durability"] | null): HostStorage {
  if (required !== "durable" || storage.durability === "durable") return storage;
  throw new RuntimeError("volatile_storage", {
    message: `a durable runtime cannot use the storage ${storage.name}, which does not outlive the process; pass a durable storage`,
    metadata: { storage: storage.name },
  });
}

/**
 * Returns the engine of that name. Throws `MisuseError` if this runtime has none. Only own properties count, so names
 * such as `constructor` from stored rows do not resolve to the prototype.
 */
export function engineOf({ engines }: Pick<RuntimeContext, "engines">, name: string): Engine {
  const engine = Object.hasOwn(engines, name) ? engines[name] : undefined;
  if (engine !== undefined) return engine;
  // The other names are not listed: callers of `everturn/http` read this message.
  const message = `there is no engine ${JSON.stringify(name)}; its name has to be a key of engines in runtime({ engines })`;
  throw new MisuseError("invalid_argument", message, { path: ["engine"] });
}

/** Reads the first row of a query; `null`: there is none. */
export async function readOne(storage: HostStorage, query: Query): Promise<Row | null> {
  const [rows = []] = await storage.read([query]);
  return rows[0] ?? null;
}
