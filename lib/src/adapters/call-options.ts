// `adapterOptions` of HTTP adapters: transport options of one call or of all calls of an engine, `{ headers, betas }`.
//
// Invariants
//   1. An unknown name, a wrong type, and a name or value that HTTP does not allow throw `MisuseError`. A line break in a value would add a header
//      (header injection).
//   2. Errors name the header and never hold its value, which may be private.
//   3. Headers that carry credentials are refused. Durable turns store `adapterOptions`, so a key must not be in them: keys come from `apiKey`, headers of a
//      gateway from the option `headers` of the adapter. Neither is stored.

import type { AdapterOptions } from "../engine/internal.ts";
import type { JsonObject } from "../model/internal.ts";

import { isJsonArray, MisuseError } from "../model/internal.ts";
import { asObject } from "../wire/internal.ts";

/** Headers by lower-case name. */
type Headers = { readonly [name: string]: string };

/** Checks the options of a call and returns its headers. `betaHeader`: the header for `betas`; `null`: the provider has none, and `betas` are not sent. */
export function headersOfCall(adapter: string, options: AdapterOptions, betaHeader: string | null): Headers {
  checkCallOptions(adapter, options);
  const headers = lowerCaseNames(options.headers ?? {});
  const { betas = [] } = options;
  return betaHeader === null || betas.length === 0 ? headers : joinHeaders(headers, { [betaHeader]: betas.join(",") });
}

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

/** Merges headers: later ones win. Lists of beta features are joined, without repetition. */
export function joinHeaders(...sources: readonly Headers[]): Headers {
  const merged: { [name: string]: string } = {};
  for (const headers of sources) {
    for (const [name, value] of Object.entries(headers)) {
      const earlier = merged[name];
      const joins = listHeaders.has(name) && earlier !== undefined;
      merged[name] = joins ? [...new Set([...listOf(earlier), ...listOf(value)])].join(",") : value;
    }
  }
  return merged;
}

/** Headers that hold a list of beta features. */
const listHeaders: ReadonlySet<string> = new Set(["anthropic-beta", "openai-beta"]);

function listOf(value: string): readonly string[] {
  return value.split(",").map((item) => item.trim());
}

/** Headers with lower-case names. Names are case-insensitive (RFC 9110, section 5.1); two spellings of one name would both be sent. */
export function lowerCaseNames(headers: Headers): Headers {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Can the text be a header value (RFC 9110, section 5.5)? `fetch` refuses others with an error that may quote the key. */
export function isHeaderValue(text: string): boolean {
  return /^[\u0020-\u007e\u0080-\u00ff]*$/.test(text);
}
