// Raises the format of a database after a rolling upgrade: from then on processes write the newest values of this
// release (`rows/format.ts`).

import type { StoredFormats } from "../rows/format.ts";
import type { HostStorage, Row } from "../rows/storage.ts";
import type { OpenCursor } from "./restore.ts";

import { formatQuery } from "../rows/format-row.ts";
import { formatBatch, formatOf, readsOf, storedFormats } from "../rows/format.ts";
import { holderHasEnded } from "../rows/lease.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { importAllFormer } from "./import-former.ts";
import { keyIn, openPage } from "./restore.ts";

/** The result of {@link finalizeStorage}. */
export type FinalizedStorage =
  /** The format was raised. */
  | { readonly status: "finalized"; readonly from: number; readonly to: number }
  /** The database had the newest format of this release already. */
  | { readonly status: "current"; readonly format: number }
  /** Nothing was changed: processes of an older release drive turns. */
  | {
      readonly status: "in_use";
      readonly format: number;
      readonly newest: number;
      /** The names of those processes (`owner` of `runtime`), in ascending order. */
      readonly owners: readonly string[];
    };

/**
 * Ends a rolling upgrade: raises the format of the database to the newest one of this release. Until then all processes
 * write values that the previous release can read. Afterwards a process of the previous release that opens the database
 * is refused with `newer_schema`. Changes nothing while a process of an older release holds the lease of an open turn;
 * an idle process cannot be recognised, so stop the older release first. Running processes write the newest format
 * after they are started again. Rejects with `newer_schema` if a newer release has finalized the database.
 *
 * @example
 * ```ts
 * import { memoryStorage } from "everturn/runtime";
 * import { finalizeStorage } from "everturn/runtime";
 *
 * (await finalizeStorage(memoryStorage())).status; // => "current"
 * ```
 */
export function finalizeStorage(storage: HostStorage): Promise<FinalizedStorage> {
  return finalizeAs(storage, storedFormats);
}

/** Finalizes a database as a release with these formats would. */
export async function finalizeAs(storage: HostStorage, formats: StoredFormats): Promise<FinalizedStorage> {
  const { newest } = formats;
  for (;;) {
    const [[row] = []] = await storage.read([formatQuery]);
    const format = formatOf(row, formats, storage.name);
    // A volatile storage belongs to one process, which writes the newest format.
    if (format === newest || storage.durability === "volatile") return { status: "current", format: newest };
    const owners = await olderOwners(storage, newest);
    if (owners.length > 0) return { status: "in_use", format, newest, owners };
    // Twice: a process of the older release may have written in between.
    await importAllFormer(storage);
    const written = await storage.write(formatBatch(row, newest));
    if (written.ok) await importAllFormer(storage);
    if (written.ok) return { status: "finalized", from: format, to: newest };
  }
}

/** The names of processes that hold the lease of an open turn and cannot read the newest format. */
async function olderOwners(storage: HostStorage, newest: number): Promise<readonly string[]> {
  const owners = new Set<string>();
  let cursor: OpenCursor = null;
  do {
    const { rows, next }: Awaited<ReturnType<typeof openPage>> = await openPage(storage, cursor);
    const queries = rows.map((row) => ({ table: "leases", prefix: keyOf(keyIn(row)), limit: 1 }) as const);
    for (const [lease] of await storage.read(queries)) {
      const owner = lease === undefined ? null : olderOwner(storage, lease, newest);
      if (owner !== null) owners.add(owner);
    }
    cursor = next;
  } while (cursor !== null);
  return [...owners].toSorted();
}

/** The holder of a lease, if it lives and cannot read the newest format. */
function olderOwner({ liveness }: HostStorage, row: Row, newest: number): string | null {
  const holder = readValue("leases", row);
  const isHeld = !holder.released && (row.remainingMs ?? 1) > 0 && !holderHasEnded(holder, liveness ?? null);
  return isHeld && (readsOf(row) ?? 0) < newest ? holder.owner : null;
}
