// The headers of a call, from `adapterOptions` and the options of the adapter.

import type { AdapterOptions } from "../engine/internal.ts";
import type { KeyHeader } from "./http-adapter.ts";

import { checkCallOptions } from "./call-options.ts";

/** Headers by lower-case name. */
type Headers = { readonly [name: string]: string };

/**
 * Checks the options of a call and returns its headers. `betaHeader`: the header for `betas`; `null`: the provider has
 * none, and `betas` are not sent.
 */
export function headersOfCall(adapter: string, options: AdapterOptions, betaHeader: string | null): Headers {
  checkCallOptions(adapter, options);
  const headers = lowerCaseNames(options.headers ?? {});
  const { betas = [] } = options;
  return betaHeader === null || betas.length === 0 ? headers : joinHeaders(headers, { [betaHeader]: betas.join(",") });
}

/** Merges headers: later ones win. Lists of beta features are joined, without repetition. */
export function joinHeaders(...sources: readonly Headers[]): Headers {
  const merged: { [name: string]: string } = {};
  for (const headers of sources) {
    for (const [name, value] of Object.entries(headers)) {
      const earlier = merged[name];
      const joins = listHeaders.has(name) && earlier !== undefined;
      merged[name] = joins ? [...new Set([...splitList(earlier), ...splitList(value)])].join(",") : value;
    }
  }
  return merged;
}

/** Headers that hold a list of beta features. */
const listHeaders: ReadonlySet<string> = new Set(["anthropic-beta", "openai-beta"]);

function splitList(value: string): readonly string[] {
  return value.split(",").map((item) => item.trim());
}

/**
 * Headers with lower-case names. Names are case-insensitive (RFC 9110, section 5.1); two spellings of one name would
 * both be sent.
 */
export function lowerCaseNames(headers: Headers): Headers {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Headers whose values are public. All other headers that a program adds are treated as secrets. */
const publicHeaders = /^(?:accept.*|content-.*|user-agent|referer|http-referer|x-title|.*-(?:version|beta))$/;

/** The secrets of a request: the key, and the values of the headers that the program added, by lower-case name. */
export function secretsIn(key: string | null, added: Headers): readonly string[] {
  const values = Object.entries(added).flatMap(([name, value]) => (publicHeaders.test(name) ? [] : [value]));
  return [...(key === null ? [] : [key]), ...values.map(withoutScheme)];
}

/** A credential without its scheme: `Bearer` is no part of the secret. */
export function withoutScheme(credential: string): string {
  return credential.replace(/^(?:Bearer|Basic|Token) /i, "");
}

/** The header with the key. */
export function keyHeader(auth: KeyHeader, key: string): { readonly [name: string]: string } {
  return auth === "bearer" ? { authorization: `Bearer ${key}` } : { [auth]: key };
}
