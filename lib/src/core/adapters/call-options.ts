// `adapterOptions` of HTTP adapters: transport options of one call or of all calls of an engine, `{ headers, betas }`.
//
// Invariants
//   1. An unknown name, a wrong type, and a name or value that HTTP does not allow throw `MisuseError`. A line break in
//      a value would add a header (header injection).
//   2. Errors name the header and never hold its value, which may be private.
//   3. Headers that carry credentials are refused. Durable turns store `adapterOptions`, so a key must not be in them:
//      keys come from `apiKey`, headers of a gateway from the option `headers` of the adapter. Neither is stored.

import type { JsonObject } from "../model/internal.ts";

import { isJsonArray, MisuseError } from "../model/internal.ts";
import { asObject } from "../wire/internal.ts";

/** Throws `MisuseError` for options that an HTTP adapter does not have (invariants 1 to 3). */
export function checkCallOptions(adapter: string, options: JsonObject): void {
  const refuse = (reason: "unknown_field" | "invalid_argument", path: readonly string[], problem: string) =>
    new MisuseError(reason, `${adapter}: adapterOptions.${path.join(".")} ${problem}`, {
      path: ["adapterOptions", ...path],
    });
  for (const [name, value] of Object.entries(options)) {
    if (name === "betas") {
      if (!isJsonArray(value) || !value.every((beta) => typeof beta === "string" && /^[\w.:=-]+$/.test(beta)))
        throw refuse("invalid_argument", [name], "must be a list of names of beta features");
    } else if (name !== "headers") {
      throw refuse("unknown_field", [name], "is not an option; the options are headers, betas");
    } else if (asObject(value) === null) {
      throw refuse("invalid_argument", [name], "must be an object of header names and values");
    }
  }
  for (const [name, value] of Object.entries(asObject(options["headers"]) ?? {})) {
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(name))
      throw refuse(
        "invalid_argument",
        ["headers", JSON.stringify(name)],
        "is not a header name (RFC 9110, section 5.1)",
      );
    if (credentialHeaders.has(name.toLowerCase()))
      throw refuse(
        "invalid_argument",
        ["headers", name],
        "carries a credential, and adapterOptions are stored with durable turns; use apiKey, or headers of the adapter",
      );
    if (typeof value !== "string" || !isHeaderValue(value))
      throw refuse("invalid_argument", ["headers", name], "must be text of characters that a header can hold");
  }
}

/** Headers that carry keys, of every provider. */
const credentialHeaders: ReadonlySet<string> = new Set([
  "authorization",
  "proxy-authorization",
  "cookie",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
]);

/**
 * Can the text be a header value (RFC 9110, section 5.5)? `fetch` refuses others with an error that may quote the key.
 */
export function isHeaderValue(text: string): boolean {
  return /^[\u0020-\u007e\u0080-\u00ff]*$/.test(text);
}
