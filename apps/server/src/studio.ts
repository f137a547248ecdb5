// The studio of the server, at `/studio/` beside the API. Browsers that open `/` are sent to it.
//
// Invariant: the `Host` allowlist of the server applies (DNS rebinding); the API answers requests to other hosts with
// 403.

import { MisuseError } from "everturn";
import { serveStudio } from "everturn/studio";

type Handler = (request: Request) => Promise<Response>;

/** The studio; `null`: a checkout of the repository has no page before its first build. */
export function openStudio(): Handler | null {
  try {
    return serveStudio();
  } catch (error) {
    if (error instanceof MisuseError) return null;
    throw error;
  }
}

/**
 * A handler that serves the studio, and passes every other request on. `hosts`: the allowlist of host names, without
 * port; `null`: all.
 */
export function withStudio(handler: Handler, studio: Handler, hosts: readonly string[] | null): Handler {
  return async (request) => {
    const { pathname, hostname } = new URL(request.url);
    if (hosts !== null && !hosts.includes(hostname.toLowerCase())) return handler(request);
    if (pathname === "/studio" || pathname.startsWith("/studio/")) return studio(request);
    const isRead = request.method === "GET" || request.method === "HEAD";
    // Browsers name this type when they open a page, and not when they call the API.
    const isPage = isRead && request.headers.get("accept")?.includes("text/html") === true;
    if (pathname !== "/" || !isPage) return handler(request);
    // Relative, for proxies that add a prefix.
    return new Response(null, { status: 302, headers: { location: "studio/" } });
  };
}
