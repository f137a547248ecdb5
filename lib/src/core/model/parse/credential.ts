// Recognises credentials in open JSON, which the library never stores.

/**
 * Returns whether an entry looks like a credential: by its key in any spelling (`apiKey`, `OPENAI_API_KEY`,
 * `x-goog-api-key`), or by a bearer token as its value. A heuristic against accidents, not a security boundary.
 */
export function isCredential(key: string, value: unknown): boolean {
  // A header may be a list of values.
  const text: unknown = Array.isArray(value) ? value[0] : value;
  if (typeof text !== "string") return false;
  const name = key.toLowerCase().replaceAll(/[^a-z]/g, "");
  return /^bearer [\w.~+/=-]{8,}$/i.test(text) || credentialNames.some((ending) => name.endsWith(ending));
}

/** What to do in place of storing the entry, as the end of a message. */
export function insteadOfStoring(key: string): string {
  return /^authorization_?(?:token)?$/i.test(key)
    ? "; tokens of MCP servers that a provider calls go into mcpAuthorization of the adapter: openai({ mcpAuthorization }), anthropic({ mcpAuthorization })"
    : "";
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
  "authorizationtoken",
  "cookie",
] as const;
