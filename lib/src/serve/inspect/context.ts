// What every function of inspection works with, and the read of a session that they share.

import type { Clock } from "../../core/clock/clock.ts";
import type { Engine } from "../../core/engine/internal.ts";
import type { HostStorage, SessionHead, SessionKey } from "../../durable/internal.ts";

import { headOf, keyOf, readOne, sessionKey } from "../../durable/internal.ts";

/** The storage as a reader of one tenant sees it. */
export type InspectionContext = {
  /** Resolves large texts and checks the format of the database. */
  readonly storage: HostStorage;
  /** The storage's clock. */
  readonly clock: Pick<Clock, "now">;
  /** The first part of the key of every session. */
  readonly tenant: string;
  readonly engines: { readonly [name: string]: Engine };
  /** The name of this process in lease rows; `null`: this process drives no turns. */
  readonly owner: (() => string) | null;
  /** How many turns the workers of this process drive at once; `null`: it runs none. */
  readonly places: () => number | null;
};

/** Reads the row of a session. Rejects with `not_found`. */
export async function readHead(
  context: InspectionContext,
  id: string,
): Promise<{ readonly key: SessionKey; readonly head: SessionHead }> {
  const key = sessionKey(context, id);
  const { head } = headOf(id, await readOne(context.storage, { table: "sessions", prefix: keyOf(key) }));
  return { key, head };
}
