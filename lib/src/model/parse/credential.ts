// Recognises credentials in open JSON, which the library never stores.

/**
 * Returns whether an entry looks like a credential: by its key in any spelling (`apiKey`, `OPENAI_API_KEY`, `x-goog-api-key`), or by a
 * bearer token as its value. A heuristic against accidents, not a security boundary.
 */
export function isCredential(key: string, value: unknown): boolean {
  // A header may be a list of values.
  const text: unknown = Array.isArray(value) ? value[0] : value;
  if (typeof text !== "string") return false;
  const name = key.toLowerCase().replaceAll(/[^a-z]/g, "");
  return /^bearer [\w.~+/=-]{8,}$/i.test(text) || credentialNames.some((ending) => name.endsWith(ending));
}

const credentialNames = [
  "apikey",
  "secretkey",
  "accesskey",
  "privatekey",
  "accesstoken",
  "authtoken",
  "secret",
  "password",
  "authorization",
  "cookie",
] as const;
