// API keys that are stored: created, rotated and revoked while processes run (`everturn keys`, the routes of admins),
// and the end of the open streams of a revoked key. The keys of a list in `auth` are configuration and need a restart.
//
// A token is `evk_`, the id of the key and a secret of 256 random bits. The storage has the SHA-256 of the secret:
// random secrets cannot be guessed from it, so no slow hash is needed. The id selects the row, and the digests are
// compared in constant time.
//
// Every request with such a token reads the row of its key, so a change is effective with the next request of every
// process. Open requests of a key that is revoked or expires end within a second (`KeyWatch`).
//
// Invariants
//   1. A secret is returned once, by `create` or `rotate`, and is in no row, list, log or error.
//   2. Expiry is judged by the clock of the storage.
//   3. Each change is one batch with a row of the audit log.

import type { Clock } from "../../core/clock/clock.ts";
import type { Changes, HostStorage, Row } from "../../durable/internal.ts";
import type { KeyView } from "../contract/internal.ts";
import type { Caller, Validity } from "./auth.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { startInterval } from "../../core/clock/timer.ts";
import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import {
  auditRow,
  merge,
  randomText,
  readOne,
  readValue,
  sha256,
  storageClock,
  tenYearsMs,
  withFormat,
  writeValue,
} from "../../durable/internal.ts";
import { scopes as allScopes } from "../contract/internal.ts";
import { callerRule, invalidKey, isCaller } from "./auth.ts";

/** What a new key may do. */
export type KeyGrant = Pick<Caller, "tenant" | "scopes" | "engines" | "operator" | "context"> & {
  /** The identity of its caller in the tenant (`name` of {@link Caller}). */
  readonly name: string;
  /** How long the key is valid, in milliseconds. Default: until it is revoked. */
  readonly ttlMs?: number;
};

/** A stored key, without its secret. */
export type StoredKey = KeyView;

/** A key and its token, which is not shown again. */
export type NewKey = { readonly key: StoredKey; readonly token: string };

/** Who changes a key, for the audit log. Default: none. */
type By = { readonly by?: string | null };

/**
 * The API keys of a storage. {@link storedKeys} makes one. Its functions reject with `RuntimeError` (`not_found`,
 * `storage_…`) or throw `MisuseError`.
 */
export type StoredKeys = {
  /** Creates a key. The result has its token, which cannot be read again. */
  readonly create: (grant: KeyGrant, options?: By) => Promise<NewKey>;
  /** Returns all keys, also expired and revoked ones, the newest first. `tenant`: only its keys. */
  readonly list: (options?: { readonly tenant?: string }) => Promise<readonly StoredKey[]>;
  /**
   * Creates a key with the same name and rights and the same expiry, and ends the old one after `graceMs` milliseconds
   * (default 0). The caller stays the same: its name is.
   */
  readonly rotate: (id: string, options?: By & { readonly graceMs?: number }) => Promise<NewKey>;
  /** Revokes a key: its next request is refused in every process, and its streams end within a second. */
  readonly revoke: (id: string, options?: By) => Promise<StoredKey>;
  /** Returns the key of a token; `null`: there is none, it is revoked, or it has expired. */
  readonly find: (token: string) => Promise<StoredKey | null>;
  /** Returns those of these keys that are not valid any more. */
  readonly ended: (ids: readonly string[]) => Promise<readonly string[]>;
};

const pattern = /^evk_([0-9a-f]{16})_([0-9a-f]{64})$/;

/** The id of the stored key that a token names; `null`: it is not the token of a stored key. */
export function keyIdOf(token: string): string | null {
  return pattern.exec(token)?.[1] ?? null;
}

/**
 * The API keys of a storage, for programs that manage them themselves. The option `keys` of `createHandler` accepts
 * them.
 *
 * @example
 * ```ts
 * import { storedKeys } from "everturn/http";
 * import { memoryStorage } from "everturn/runtime";
 *
 * const keys = storedKeys({ host: memoryStorage() });
 * const { key, token } = await keys.create({ name: "ada", tenant: "shop", scopes: ["read", "write"] });
 * (await keys.find(token))?.name; // => "ada"
 * await keys.revoke(key.id);
 * await keys.find(token); // => null
 * ```
 */
export function storedKeys({
  host,
  clock = systemClock,
}: {
  readonly host: HostStorage;
  readonly clock?: Clock;
}): StoredKeys {
  const timed = storageClock(host, clock);
  const storage = withFormat(timed.storage);
  const now = (): number => timed.clock.now();

  const rowOf = (id: string): Promise<Row | null> => readOne(storage, { table: "keys", prefix: [id] });

  const existing = async (id: string): Promise<Row> => {
    const row = typeof id === "string" ? await rowOf(id) : null;
    if (row !== null) return row;
    throw new RuntimeError("not_found", { message: `there is no key ${JSON.stringify(id)}` });
  };

  const newRow = async (value: Omit<ReturnType<typeof valueOf>, "digest">, ttlMs: number | null) => {
    const [id, secret] = [randomText(8), randomText(32)];
    const stored = { ...value, digest: await sha256(secret) };
    const at = { table: "keys", key: [id] } as const;
    return {
      token: `evk_${id}_${secret}`,
      key: viewOf(id, stored, ttlMs, now()),
      changes: {
        checks: [{ ...at, tag: null }],
        removals: [],
        puts: [{ ...at, tag: 0, value: writeValue("keys", stored), ttlMs }],
      },
    };
  };

  return {
    create: async (grant, { by = null } = {}) => {
      const { ttlMs, ...value } = checkedGrant(grant);
      // The clock of the storage is known after the first read.
      await rowOf("");
      const made = await newRow({ ...value, createdAt: now(), revokedAt: null }, ttlMs);
      const fact = await factOf("key_create", made.key, by);
      await storage.write(merge(made.changes, auditRow(fact, now())));
      return { key: made.key, token: made.token };
    },
    list: async ({ tenant } = {}) => {
      const [rows = []] = await storage.read([{ table: "keys", prefix: [] }]);
      const keys = rows.map((row) => viewOf(String(row.key[0]), valueOf(row), row.remainingMs, now()));
      const listed = tenant === undefined ? keys : keys.filter((key) => (key.tenant ?? "") === tenant);
      return listed.toSorted((left, right) => right.createdAt - left.createdAt || left.id.localeCompare(right.id));
    },
    rotate: async (id, { by = null, graceMs = 0 } = {}) => {
      if (!(graceMs >= 0)) {
        throw new MisuseError("invalid_argument", "graceMs must be a number of 0 or more", { path: ["graceMs"] });
      }
      for (;;) {
        const row = await existing(id);
        const value = valueOf(row);
        const { state } = viewOf(id, value, row.remainingMs, now());
        if (state !== "valid")
          throw new RuntimeError("conflict", { message: `the key ${id} is ${state}: create a new one` });
        const made = await newRow({ ...value, createdAt: now() }, row.remainingMs);
        const old = graceMs === 0 ? { ...value, revokedAt: now() } : value;
        const ttlMs = graceMs === 0 ? row.remainingMs : Math.min(graceMs, row.remainingMs ?? Infinity);
        const fact = await factOf("key_rotate", viewOf(id, value, row.remainingMs, now()), by);
        const written = await storage.write(merge(made.changes, changed(row, old, ttlMs), auditRow(fact, now())));
        if (written.ok) return { key: made.key, token: made.token };
      }
    },
    revoke: async (id, { by = null } = {}) => {
      for (;;) {
        const row = await existing(id);
        const value = valueOf(row);
        const revoked = { ...value, revokedAt: value.revokedAt ?? now() };
        const view = viewOf(id, revoked, row.remainingMs, now());
        if (value.revokedAt !== null) return view;
        const fact = await factOf("key_revoke", view, by);
        const written = await storage.write(merge(changed(row, revoked), auditRow(fact, now())));
        if (written.ok) return view;
      }
    },
    find: async (token) => {
      const [, id = "", secret = ""] = pattern.exec(token) ?? [];
      if (id === "") return null;
      // The digest is computed also if there is no such key.
      const [row, digest] = await Promise.all([rowOf(id), sha256(secret)]);
      const value = row === null ? null : valueOf(row);
      if (row === null || value === null || !isEqual(value.digest, digest)) return null;
      const key = viewOf(id, value, row.remainingMs, now());
      return key.state === "valid" ? key : null;
    },
    ended: async (ids) => {
      const rows = await storage.read(ids.map((id) => ({ table: "keys", prefix: [id] }) as const));
      return ids.filter((id, index) => {
        const row = rows[index]?.[0];
        return row === undefined || viewOf(id, valueOf(row), row.remainingMs, 0).state !== "valid";
      });
    },
  };
}

/** The row again with other content, if it is unchanged. Without `ttlMs` it expires as before. */
function changed(row: Row, value: ReturnType<typeof valueOf>, ttlMs = row.remainingMs): Changes {
  const at = { table: "keys", key: row.key } as const;
  const put = { ...at, tag: row.tag + 1, value: writeValue("keys", value), ttlMs: atLeastZero(ttlMs) };
  return { checks: [{ ...at, tag: row.tag }], removals: [], puts: [put] };
}

function valueOf(row: Row) {
  return readValue("keys", row);
}

function viewOf(id: string, stored: ReturnType<typeof valueOf>, remainingMs: number | null, now: number): StoredKey {
  const { digest: _, scopes, revokedAt, ...value } = stored;
  const isExpired = remainingMs !== null && remainingMs <= 0;
  return {
    id,
    ...value,
    // A scope of a newer release is none here.
    scopes: scopes === null ? null : allScopes.filter((scope) => scopes.includes(scope)),
    expiresAt: remainingMs === null ? null : now + remainingMs,
    state: revokedAt !== null ? "revoked" : isExpired ? "expired" : "valid",
  };
}

/** The row of the audit log. The digest is that of what the key may do. */
async function factOf(action: "key_create" | "key_rotate" | "key_revoke", key: StoredKey, actor: string | null) {
  const { id, name, tenant, scopes, engines, operator } = key;
  const digest = await sha256(JSON.stringify([name, tenant, scopes, engines, operator]));
  return { action, actor, tenant: tenant ?? "", target: id, digest };
}

function atLeastZero(ttlMs: number | null): number | null {
  return ttlMs === null ? null : Math.max(0, ttlMs);
}

/** Checks what comes from outside. */
function checkedGrant({ ttlMs = null, ...grant }: Omit<KeyGrant, "ttlMs"> & { readonly ttlMs?: number | null }) {
  const { name, tenant = null, scopes = null, engines = null, operator = false, context = {} } = grant;
  if (typeof name !== "string" || name.trim() === "" || !isCaller(grant)) {
    throw new MisuseError("invalid_argument", `a key must have a name, ${callerRule}`, { path: ["name"] });
  }
  if (ttlMs !== null && !(ttlMs > 0 && ttlMs <= tenYearsMs)) {
    throw new MisuseError(
      "invalid_argument",
      "ttlMs must be a number of milliseconds greater than 0, and up to ten years",
      {
        path: ["ttlMs"],
      },
    );
  }
  return { name, tenant, scopes, engines, operator, context, ttlMs };
}

/** Constant-time comparison of two digests in hex. */
function isEqual(left: string, right: string): boolean {
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index += 1) difference |= left.charCodeAt(index) ^ right.charCodeAt(index);
  return difference === 0;
}

/** How often the keys of open requests are read, in milliseconds. */
const watchMs = 500;

type WatchedKey = { readonly end: AbortController; watchers: number };

/**
 * Reads the keys of open requests, and ends the requests of keys that are not valid any more: streams, waits and bodies
 * that are still sent. Reads nothing if no request with a stored key is open.
 */
export class KeyWatch {
  readonly #keys: Pick<StoredKeys, "ended">;
  readonly #clock: Clock;
  readonly #watched = new Map<string, WatchedKey>();
  #stop: (() => void) | null = null;
  #isReading = false;

  constructor(keys: Pick<StoredKeys, "ended">, clock: Clock) {
    this.#keys = keys;
    this.#clock = clock;
  }

  /** The validity of a key that was valid a moment ago. */
  validity(id: string): Validity {
    const key = this.#watched.get(id) ?? { end: new AbortController(), watchers: 0 };
    const watch = () => {
      this.#watched.set(id, key);
      key.watchers += 1;
      this.#stop ??= startInterval(this.#clock, watchMs, () => void this.#check());
      let isWatching = true;
      return () => {
        if (isWatching) key.watchers -= 1;
        isWatching = false;
      };
    };
    return { ended: key.end.signal, watch };
  }

  async #check(): Promise<void> {
    if (this.#isReading) return;
    for (const [id, { watchers }] of this.#watched) if (watchers === 0) this.#watched.delete(id);
    if (this.#watched.size === 0) {
      this.#stop?.();
      this.#stop = null;
      return;
    }
    this.#isReading = true;
    // If the storage does not answer, the next check finds out.
    const ended = await this.#keys.ended([...this.#watched.keys()]).catch(() => []);
    this.#isReading = false;
    for (const id of ended) {
      this.#watched.get(id)?.end.abort(invalidKey());
      this.#watched.delete(id);
    }
  }
}
