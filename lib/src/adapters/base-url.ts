import { MisuseError } from "../model/internal.ts";

/**
 * The base of an address, without a slash at its end. Users, passwords and tokens in it are refused: the address stands in errors, and in what
 * replies are stored with.
 */
export function checkedBase(provider: string, given: string): string {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw refused(provider, "baseURL has to be an address that begins with http:// or https://");
  }
  if (url.username !== "" || url.password !== "") {
    throw refused(provider, "baseURL holds a user or a password; say them in headers");
  }
  if (/[?#]/.test(given)) throw refused(provider, "baseURL holds a query or a fragment; paths are added to its end");
  return given.replace(/\/+$/, "");
}

function refused(provider: string, what: string): MisuseError {
  return new MisuseError("invalid_argument", `${provider}: ${what}`, { path: ["baseURL"] });
}
