// The address of a session: as the first parts of row keys, and as a string in maps of this process.

import type { Key } from "./storage.ts";

import { sessionName } from "./storage.ts";

/** A session by tenant and id. */
export type SessionKey = { readonly tenant: string; readonly session: string };

/** The first two parts of the key of every row that belongs to the session. */
export function keyOf({ tenant, session }: SessionKey): Key {
  return [tenant, session];
}

/** The first three parts of the key of every row that belongs to a turn. */
export function turnKey(key: SessionKey, turn: string): Key {
  return [...keyOf(key), turn];
}

/** The name of a session in maps of this process, and in `HostStorage.watch`. */
export function nameOf({ tenant, session }: SessionKey): string {
  return sessionName(tenant, session);
}
