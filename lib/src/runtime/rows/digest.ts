// Digests and ids. Both use what the platform has.

/**
 * SHA-256 of a text, in hex. Node hashes on the spot, 2 µs for the text of an effect where the Web's way takes 65 µs through a pool of threads; the
 * Web's way is there everywhere else.
 */
export const sha256: (text: string) => string | Promise<string> = nodeHash() ?? webHash;

async function webHash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return hex(new Uint8Array(digest));
}

/** Node's own, found without an import that would keep the file from being loaded elsewhere. */
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

/** Text nobody can guess, of 10 or more random bytes. */
export function randomText(bytes = 16): string {
  return hex(crypto.getRandomValues(new Uint8Array(bytes)));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
