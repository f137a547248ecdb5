// The checks of a request that need nothing but its headers and its caller (steps 4 to 8 of handler.ts): the host, the
// origin, what the caller may use, the tenant that an operator names, the idempotency key and the path parameters.

import type { Authenticated, Caller } from "./auth.ts";
import type { Route } from "./routes/route.ts";

import { checkScope, hasScope, reachesTenants } from "./auth.ts";
import { HttpError } from "./failure.ts";

/** Host allowlist against DNS rebinding. Compares names without port and without regard to case. */
export function checkHost({ headers, url }: Request, hosts: readonly string[] | undefined): void {
  if (hosts === undefined) return;
  const name = hostName(headers.get("host") ?? new URL(url).host);
  if (hosts.some((host) => host.toLowerCase() === name)) return;
  throw new HttpError("forbidden", "the Host header is not an allowed host name of this server");
}

/** A host in lower case without its port. */
function hostName(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, "");
}

/**
 * Origin check against CSRF. Requests without `Origin` do not come from a page of another origin. An origin passes if
 * it is in the allowlist or has the host and port of this server; the opaque origin `null` (a sandboxed frame, a file)
 * does not.
 */
export function checkOrigin({ headers }: Request, url: URL, origins: readonly string[]): void {
  const origin = headers.get("origin");
  if (origin === null || origins.includes(origin)) return;
  if (URL.canParse(origin) && new URL(origin).host === (headers.get("host") ?? url.host)) return;
  const own = headers.get("host") ?? url.host;
  throw new HttpError(
    "forbidden",
    `requests from pages of the origin ${JSON.stringify(origin.slice(0, 200))} are not allowed; expected is one of the host ${own}, or of the option origins (--cors)`,
  );
}

/**
 * Fetch metadata (https://www.w3.org/TR/fetch-metadata/): a browser states whether a page of another site sent the
 * request, also for requests without `Origin`, such as those of `<script>` and `<img>`. Clients other than browsers do
 * not send the header.
 */
export function checkFetchMetadata({ headers }: Request, origins: readonly string[]): void {
  const site = headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return;
  if (origins.includes(headers.get("origin") ?? "")) return;
  throw new HttpError("forbidden", "requests from pages of other sites are not allowed");
}

export function idempotencyKey({ headers }: Request, maxLength: number): string | null {
  const key = headers.get("idempotency-key");
  if (key === null) return null;
  if (key.length > 0 && key.length <= maxLength) return key;
  throw new HttpError("invalid_body", `the Idempotency-Key must have 1 to ${maxLength} characters`);
}

export function checkedParam(name: string, value: string, maxLength: number): string {
  if (value.length > 0 && value.length <= maxLength) return value;
  throw new HttpError("no_such_route", `${name} must have 1 to ${maxLength} characters`);
}

/** Throws 403 if the caller may not use the route: its declaration says what a caller needs. */
export function checkAccess({ scope, operator }: Route, caller: Caller): void {
  if (operator && caller.operator !== true) {
    throw new HttpError("forbidden", "only operators may use this route: callers with `operator: true`");
  }
  if (operator && caller.engines !== undefined) {
    throw new HttpError("forbidden", "this route concerns all engines, and the key lists some");
  }
  if (scope === "admin" && caller.tenant !== undefined) {
    throw new HttpError("forbidden", "this route concerns all tenants, and the key names one");
  }
  if (scope === "open" || (scope === "answer" && (hasScope(caller, "write") || hasScope(caller, "decide")))) return;
  checkScope(caller, scope === "answer" ? "write" : scope);
}

/** The header with which an operator acts in a tenant, percent-encoded. */
const tenantHeader = "everturn-tenant";

/**
 * The caller in the tenant that the request names. Only operators that name no tenant themselves and have the scope
 * `admin` reach tenants. There they have no identity: a user of the tenant may have their name.
 */
export function inNamedTenant(authenticated: Authenticated, { headers }: Request, maxLength: number): Authenticated {
  const named = headers.get(tenantHeader);
  if (named === null) return authenticated;
  const { caller } = authenticated;
  if (!reachesTenants(caller)) {
    throw new HttpError(
      "forbidden",
      "only operators that name no tenant and have the scope admin act in other tenants (Everturn-Tenant)",
    );
  }
  const tenant = decodedText(named);
  if (tenant === null || tenant.length > maxLength) {
    throw new HttpError(
      "invalid_body",
      `Everturn-Tenant must be a percent-encoded name of up to ${maxLength} characters`,
    );
  }
  return { ...authenticated, caller: { ...caller, tenant }, id: null };
}

function decodedText(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
