// The request log (access log) of the server: one entry for each HTTP request, when its response is complete or its
// connection is closed.
//
// An entry has no body, no header, no token and no query: a query or the user information of an absolute URL may
// contain a secret. The caller is what `auth` derived from the token, never the token.
//
// The handler of everturn/http sees a `Request`, Node's server an `IncomingMessage`. The log joins the two with weak
// maps, so that a request that never completes leaves nothing in memory.

import type { Caller } from "everturn/http";
import type { IncomingMessage, ServerResponse } from "node:http";

/** One line of the request log. */
export type RequestEntry = {
  readonly method: string;
  /** The path of the URL, percent-encoded, without the query. */
  readonly path: string;
  /** The status of the response; `null`: the connection was closed before the response began. */
  readonly status: number | null;
  /** Whether the whole response was sent. `false`: the client disconnected, or the connection was cut off. */
  readonly isComplete: boolean;
  /**
   * From the arrival of the request head to the end of the response, in milliseconds. For an event stream, the time
   * that it was open.
   */
  readonly durationMs: number;
  /**
   * The authenticated caller; `null`: the request was rejected before authentication succeeded, or its route is open.
   */
  readonly caller: Pick<Caller, "tenant" | "name"> | null;
  /** The IP address of the client, or of the proxy in front of the server; empty if the socket is already closed. */
  readonly address: string;
};

/** Collects the entries of one server. */
export class RequestLog {
  readonly #report: ((entry: RequestEntry) => void) | null;
  readonly #incoming = new WeakMap<Request, object>();
  readonly #callers = new WeakMap<object, NonNullable<RequestEntry["caller"]>>();

  /** `report`: receives the entries; `null`: no log. */
  constructor(report: ((entry: RequestEntry) => void) | null) {
    this.#report = report;
  }

  /** A request arrived. The entry is reported when the response closes. */
  received(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const report = this.#report;
    if (report === null) return;
    const since = performance.now();
    const method = incoming.method ?? "";
    const path = requestPath(incoming.url ?? "");
    // Read now: a closed socket has no address.
    const address = incoming.socket.remoteAddress ?? "";
    outgoing.once("close", () => {
      report({
        method,
        path,
        status: outgoing.headersSent ? outgoing.statusCode : null,
        isComplete: outgoing.writableFinished,
        durationMs: performance.now() - since,
        caller: this.#callers.get(incoming) ?? null,
        address,
      });
    });
  }

  /** Joins the request of the handler with that of Node's server. */
  parsed(request: Request, incoming: object): void {
    if (this.#report !== null) this.#incoming.set(request, incoming);
  }

  /** The handler has authenticated the request. */
  authenticated(request: Request, caller: NonNullable<RequestEntry["caller"]>): void {
    const incoming = this.#incoming.get(request);
    if (incoming !== undefined) this.#callers.set(incoming, caller);
  }
}

/**
 * The path of a request target, which may be absolute (`http://user:password@host/path?query`, RFC 9112 section 3.2.2).
 */
function requestPath(target: string): string {
  try {
    // A target that begins with two slashes would be read as a host name.
    return new URL(target.replace(/^\/+/, "/"), "http://localhost").pathname;
  } catch {
    return "(invalid)";
  }
}
