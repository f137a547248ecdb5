// Request ids of runs.

/** The bytes of an id. */
const idBytes = 16;

/** Random bytes for the next ids. A call of `getRandomValues` costs the same for the bytes of one id and of 64. */
const pool = new Uint8Array(64 * idBytes);
let used = pool.length;

/** A new unique id: 16 random bytes (128 bits) in base64url, 22 characters. */
export function newRequestId(): string {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  const bytes = pool.subarray(used, used + idBytes);
  used += idBytes;
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}
