// The names under which Restate knows the services of this folder, and the key of a session there.

import { MisuseError } from "../model/internal.ts";

/** A session of a tenant. */
export type SessionName = { readonly tenant: string; readonly sessionId: string };

/** The names of the two virtual objects. */
export type ServiceNames = { readonly session: string; readonly sweeper: string };

/** The key of the one sweeper. */
export const sweeperKey = "main";

/** The names of the services with a prefix. Throws `MisuseError` if Restate does not accept the prefix. */
export function serviceNames(prefix = "Everturn"): ServiceNames {
  if (/^[A-Za-z][A-Za-z0-9_]{0,63}$/.test(prefix)) return { session: `${prefix}Session`, sweeper: `${prefix}Sweeper` };
  const message = `prefix must begin with a letter and have at most 64 letters, digits and underscores, not ${JSON.stringify(prefix)}`;
  throw new MisuseError("invalid_argument", message, { path: ["prefix"] });
}

/** The key of a session: tenant and id, each percent-encoded, with a slash between them. The default tenant is empty. */
export function objectKey({ tenant, sessionId }: SessionName): string {
  return `${encodeURIComponent(tenant)}/${encodeURIComponent(sessionId)}`;
}

/** The session of a key; `null`: it is not such a key. */
export function sessionOfKey(key: string): SessionName | null {
  const [tenant, sessionId, ...rest] = key.split("/");
  if (tenant === undefined || sessionId === undefined || sessionId === "" || rest.length > 0) return null;
  try {
    return { tenant: decodeURIComponent(tenant), sessionId: decodeURIComponent(sessionId) };
  } catch {
    return null;
  }
}
