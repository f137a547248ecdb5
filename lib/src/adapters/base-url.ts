// Validates the `baseURL` option of adapters.

import { MisuseError } from "../model/internal.ts";

/**
 * The base URL without trailing slashes. Credentials and queries are refused: the URL is part of error messages and of the route that is stored
 * with replies, so a secret in it would be stored. Throws `MisuseError`.
 */
export function checkBaseURL(provider: string, baseURL: string): string {
  const url = URL.canParse(baseURL) ? new URL(baseURL) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw invalidBaseURL(provider, "baseURL must be a URL that begins with http:// or https://");
  }
  if (url.username !== "" || url.password !== "") {
    throw invalidBaseURL(provider, "baseURL must not contain a user or a password; use headers");
  }
  if (/[?#]/.test(baseURL))
    throw invalidBaseURL(provider, "baseURL must not contain a query or a fragment, because paths are appended to it");
  return baseURL.replace(/\/+$/, "");
}

function invalidBaseURL(provider: string, what: string): MisuseError {
  return new MisuseError("invalid_argument", `${provider}: ${what}`, { path: ["baseURL"] });
}
