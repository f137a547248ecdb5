// The definition of a route: a method, a path, what it accepts and returns, and its handler. The handler serves a table
// of routes, of which the OpenAPI document is generated. Routes are made from declarations, which say what a request
// uses: those of the API from operations (operation-route.ts), those of dialects in dialect-route.ts. Both take and
// release the permits (permits.ts); the implementations get a `RouteCall`, which has none.

import type { Clock } from "../../../core/clock/clock.ts";
import type { JsonObject } from "../../../core/model/internal.ts";
import type { Runtime } from "../../../durable/internal.ts";
import type { OperationScope, ResponseDescription } from "../../contract/internal.ts";
import type { CallerInspection, CallerSessions } from "../access.ts";
import type { Caller, Validity } from "../auth.ts";
import type { HttpLimits } from "../limits.ts";
import type { SseSource } from "../sse.ts";

import { redactedText } from "../failure.ts";
import { LargeText, sliceLength } from "../large-text.ts";

/** What all requests of a handler share. */
export type ServerContext = {
  readonly clock: Clock;
  /** Aborts when the process shuts down. Waiting requests are answered at once then. */
  readonly shutdownSignal: AbortSignal | null;
  /**
   * Takes a permit of the stream limits, or throws 429. It is acquired before anything is started, so that a rejected
   * request has no effect.
   */
  readonly acquireStream: (call: Pick<RouteCall, "request" | "caller" | "validity">) => StreamPermit;
  /**
   * Counts a large body of a response in the budget of unread responses, and sends it as its client reads it. If the
   * budget is used up, a request that only read gets 429; others wait in the page permit.
   */
  readonly countBody: (
    call: Pick<PermittedCall, "request" | "caller" | "validity" | "pagePermit">,
    response: Response,
  ) => Promise<Response>;
  /**
   * Waits for one of the permits for pages in memory, and returns the function that releases it. Tenants get permits
   * round robin. Throws if the client has disconnected meanwhile.
   */
  readonly acquirePage: (call: Pick<RouteCall, "request" | "caller">) => Promise<() => void>;
  /** Takes a permit of the tenant's open turns, or throws 429. Returns the function that releases it. */
  readonly acquireTurn: (caller: Caller) => () => void;
};

/** Responds with events. */
export type Respond = <T>(source: SseSource<T>, headers?: ResponseHeaders) => Response;

export type ResponseHeaders = { readonly [name: string]: string };

/** A permit of the stream limits. It is released when the stream of `respond` ends, or by `release`. */
type StreamPermit = {
  readonly respond: Respond;
  /** Responds with JSON whose text is read in parts, as the client reads it. */
  readonly respondJson: (parts: AsyncGenerator<string | LargeText, void>) => Response;
  readonly release: () => void;
};

/** One authenticated request, as an implementation sees it. */
export type RouteCall = {
  /** The mount path; it precedes every route path. */
  readonly base: string;
  readonly limits: HttpLimits;
  readonly request: Request;
  readonly url: URL;
  readonly caller: Caller;
  /** Who the audit log names; `null`: the caller cannot be told from others. */
  readonly actor: string | null;
  readonly validity: Validity;
  /** The sessions of the caller's tenant, as the caller may use them (access.ts). */
  readonly sessions: CallerSessions;
  readonly inspection: CallerInspection;
  /** The runtime, restricted to the caller's tenant; `null`: the caller is no operator. */
  readonly runtime: Runtime | null;
  /** The decoded value of a path parameter, of 1 to `idLength` characters. */
  readonly param: (name: string) => string;
  /** The `Idempotency-Key` header: a repeated request with the same key returns the turn that the first one started. */
  readonly key: string | null;
};

/** A request with its permits. Only what makes routes of declarations gets one. */
export type PermittedCall = RouteCall & {
  readonly server: ServerContext;
  /** The parsed JSON body, not yet checked against the route's schema; `null` for routes without a body. */
  readonly input: unknown;
  /** Releases the permit of the `requests` limit before a long wait, which is counted by the stream limits instead. */
  readonly releaseRequestPermit: () => void;
  /**
   * Waits for a permit of the pages in memory, unless the request holds one. It is awaited before anything is read or
   * rendered that may be large, and after waits for other things. The handler releases the permit when the response
   * counts in the budget of unread responses, or when the route fails.
   */
  readonly pagePermit: () => Promise<void>;
};

/** A query parameter in the OpenAPI document. */
export type Parameter = { readonly name: string; readonly description: string; readonly schema: JsonObject };

/** A route of the API or of a dialect. */
export type Route = {
  readonly method: "GET" | "POST" | "DELETE";
  /** The path without the mount path. `{name}` is a path parameter. */
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  /** The scope that a caller needs; `open`: the route needs no authentication. */
  readonly scope: OperationScope;
  /** Only for operators: the route concerns other callers or the process. */
  readonly operator: boolean;
  readonly query: readonly Parameter[];
  /** The JSON Schema of the body; `null`: the route reads no body. */
  readonly body: JsonObject | null;
  /** Whether the route honours `Idempotency-Key`: requests repeated under one key take effect once. */
  readonly keyed: boolean;
  /** The pool of request permits (limits.ts). `cancel`: a turn must be cancellable when all other permits are taken. */
  readonly pool: "requests" | "cancel";
  /** The successful responses by status. */
  readonly answers: { readonly [status: string]: ResponseDescription };
  readonly answer: Answer;
};

/**
 * How a route answers a request. Its private field makes the compiler refuse an object literal in its place: whoever
 * has no `Answer`, such as a dialect, makes routes of declarations, and cannot acquire a permit.
 */
export class Answer {
  readonly #handle: (call: PermittedCall) => Promise<Response>;

  /** Called by operation-route.ts and dialect-route.ts. */
  constructor(handle: (call: PermittedCall) => Promise<Response>) {
    this.#handle = handle;
  }

  to(call: PermittedCall): Promise<Response> {
    return this.#handle(call);
  }
}

export const jsonHeaders = { "content-type": "application/json", "cache-control": "no-store" } as const;

/** A JSON response whose failures are redacted. */
export function json(value: unknown, status = 200, headers: ResponseHeaders = {}): Response {
  return jsonText(redactedText(value), status, headers);
}

/** The texts of large bodies. The handler counts them in the budget of unread responses. */
const largeBodies = new WeakMap<Response, LargeText>();

/** The text of a large body; `null`: the body is small. */
export function largeBodyOf(response: Response): LargeText | null {
  return largeBodies.get(response) ?? null;
}

/** A response with a text that is JSON. A text that is longer than a slice is rendered as its client reads it. */
export function jsonText(text: string | LargeText, status = 200, headers: ResponseHeaders = {}): Response {
  const init = { status, headers: { ...jsonHeaders, ...headers } };
  if (typeof text === "string" && text.length <= sliceLength) return new Response(text, init);
  // The handler sets the body.
  const response = new Response(null, init);
  largeBodies.set(response, typeof text === "string" ? LargeText.of(text) : text);
  return response;
}
