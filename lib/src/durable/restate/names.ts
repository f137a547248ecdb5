// The names under which Restate knows the services of this folder, and the key of a session there.

import { MisuseError } from "../../core/model/internal.ts";

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

/**
 * The key of a session: tenant and id, each percent-encoded, with a slash between them. The default tenant is empty.
 */
export function objectKey({ tenant, sessionId }: SessionName): string {
  return `${encodeText(tenant)}/${encodeText(sessionId)}`;
}

/** The session of a key; `null`: {@link objectKey} makes no such key, so that a session has one virtual object. */
export function sessionOfKey(key: string): SessionName | null {
  const [tenant, sessionId, ...rest] = key.split("/").map(decodeText);
  if (typeof tenant !== "string" || typeof sessionId !== "string" || sessionId === "" || rest.length > 0) return null;
  const name = { tenant, sessionId };
  return objectKey(name) === key ? name : null;
}

/**
 * Percent-encodes any text. UTF-8 cannot express lone surrogates, and `encodeURIComponent` throws for them: they become
 * `%u` and four digits, which no other text becomes, because a percent sign itself is encoded.
 */
export function encodeText(text: string): string {
  return text
    .split(/(\p{Cs})/u)
    .map((part, index) => (index % 2 === 0 ? encodeURIComponent(part) : `%u${part.charCodeAt(0).toString(16)}`))
    .join("");
}

/** The text that {@link encodeText} encoded; `null`: none. */
function decodeText(encoded: string): string | null {
  try {
    return encoded
      .split(/%u([0-9a-f]{4})/)
      .map((part, index) =>
        index % 2 === 0 ? decodeURIComponent(part) : String.fromCharCode(Number.parseInt(part, 16)),
      )
      .join("");
  } catch {
    return null;
  }
}

/** The longest delay of a request, in milliseconds: ten years. */
const longestDelayMs = 10 * 365 * 86_400_000;

/** Validates a delay, and rounds it up. Throws `MisuseError`. */
export function checkedDelay(afterMs: number): number {
  if (typeof afterMs === "number" && afterMs >= 0 && afterMs <= longestDelayMs) return Math.ceil(afterMs);
  const message = `afterMs must be a number of milliseconds from 0 to ten years, not ${String(afterMs)}`;
  throw new MisuseError("invalid_argument", message, { path: ["afterMs"] });
}
