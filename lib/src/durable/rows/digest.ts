// SHA-256 digests and random ids, from the platform's own crypto: `node:crypto` where it exists, Web Crypto elsewhere.

/**
 * SHA-256 of a text as UTF-8, in lower-case hex. On Node the digest is returned synchronously: `node:crypto` takes
 * about 2 µs for the text of an effect, whereas `crypto.subtle` takes about 65 µs because it goes through the thread
 * pool. Other platforms use `crypto.subtle`.
 */
export const sha256: (text: string) => string | Promise<string> = nodeHash() ?? webHash;

async function webHash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return hex(new Uint8Array(digest));
}

/**
 * Node's hash; `null` on other platforms. `getBuiltinModule` is used because an import of `node:crypto` would fail to
 * load there.
 */
function nodeHash(): ((text: string) => string) | null {
  const platform: object = globalThis;
  const crypto = hasProcess(platform) ? platform.process?.getBuiltinModule?.("node:crypto") : undefined;
  if (crypto === undefined) return null;
  return (text) => crypto.createHash("sha256").update(text).digest("hex");
}

function hasProcess(platform: object): platform is { readonly process?: NodeProcess } {
  return "process" in platform && typeof platform.process === "object";
}

type NodeProcess = { readonly getBuiltinModule?: (name: "node:crypto") => NodeCrypto | undefined };
type NodeCrypto = { readonly createHash: (name: "sha256") => NodeHash };
type NodeHash = { readonly update: (text: string) => NodeHash; readonly digest: (form: "hex") => string };

/** Cryptographically random text in hex, two characters for each byte. Ids use 8 to 16 bytes. */
export function randomText(bytes = 16): string {
  return hex(crypto.getRandomValues(new Uint8Array(bytes)));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A hash of a text that need not be secure (FNV-1a, 32 bits). */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return hash;
}
