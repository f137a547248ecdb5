// The HTTP handler: one function from `Request` to `Response` over a durable runtime.
//
// Theory of operation
//   `createHandler` builds a route table once (served-routes.ts: sessions, turns, the routes of the dialects, health,
//   OpenAPI) and mounts it in a Hono router, which the first request builds (router.ts, hono.ts). It knows no dialect:
//   the protocols of other libraries are values that it gets (dialect.ts). It owns no socket and no session state: the
//   server around it owns connections, the runtime owns turns. Several processes can serve one storage, and a client
//   may resume a stream at any of them.
//
// Order of operations for a request. Each check runs before anything that costs more or discloses more. Steps 1 and 2
// are in router.ts, 3 to 8 in request-steps.ts with the checks of request-checks.ts.
//   1. CORS (only with `origins`): response headers and preflight requests, by Hono's middleware.
//   2. Routing. An unknown path is 404 and a wrong method 405 with `Allow`, both without authentication.
//   3. Shutdown: a process that stops rejects with 503 and `Retry-After`.
//   4. Host allowlist (`hosts`): prevents DNS rebinding. A page whose host name resolves to this machine passes the
//      same-origin policy of the browser; only the `Host` header shows the foreign name.
//   5. Authentication (auth.ts): bearer tokens with constant-time comparison. Routes with the scope `open` skip it.
//   6. Origin check for methods other than GET and HEAD: prevents CSRF. A browser sends `Origin` with such requests;
//      one that is neither this host nor in `origins` is rejected. This matters for `auth: "none"` and for cookies in
//      an auth function. Fetch metadata (`Sec-Fetch-Site`) is checked for every method: a page of another site cannot
//      include a response as a script or image.
//   7. The scope of the route, and whether it is for operators only: both are fields of its declaration. An operator
//      may name another tenant (`Everturn-Tenant`). Then a permit of the `requests` limits, which have shares for each
//      tenant and address. Open routes and cancels have permits of their own (limits.ts). At most `startsPerTick`
//      requests of a tenant begin in one tick of the event loop (core/fair/fair-ticks.ts).
//   8. The body, with its limits of size and time (input.ts), then `Idempotency-Key` and path parameters with their
//      length limit. The length limit and the rejection of `.` and `..` as new ids (path traversal) keep every id
//      addressable.
//   9. The route: checks body and query against its schema, uses sessions as the rules `owns` and `decide` allow the
//      caller (access.ts), takes the permits that its operation declares (routes/operation-route.ts, limits.ts), calls
//      the runtime. What reads or returns what may be large (pages, results of turns, the row of a session before a
//      turn starts, the newest message of a chat) waits for a page permit first, which it holds until its response
//      counts in the budget of unread responses (byte-budget.ts): at most 2 pages of a tenant, and 8 of the process,
//      are read and rendered at the same time.
//  10. Streams (sse.ts): backpressure, heartbeats, disconnection of slow clients. The SSE `id` is a cursor;
//      `Last-Event-ID` resumes after it, in this process or in another one.
//
// Failure cases
//   rejected by a check      4xx with a failure as JSON, and nothing was started
//   storage busy or failed   503 with `Retry-After`; a request with `Idempotency-Key` can be repeated safely
//   client disconnects       its stream ends and its permits are released; the turn continues (H6)
//   process shuts down       streams end with a comment, waiting requests get 202 with `Location`, new requests get 503
//   error in a route         500 `internal` with a fixed message; the error itself goes to `onError` only
//   `onError` throws         ignored, because an error handler must not change the response
//
// Invariants
//   1. No session is read or written before steps 3 to 6 have passed.
//   2. The tenant, the identity of the caller, its context and the limit key come from `auth`, never from the request.
//      So does the name recorded with a decision, if `auth` names the caller.
//   3. Every acquired permit is released, also when a route throws or a client disconnects.
//   4. Responses contain no cause, provider message or storage message (failure.ts), except turn records with
//      `records: true`.
//   5. The served routes and the OpenAPI document come from the same declarations (serve/contract), and so do the
//      requests of the client.

import type { Clock } from "../../core/clock/clock.ts";
import type { Runtime } from "../../durable/internal.ts";
import type { AccessRules } from "./access-rules.ts";
import type { Auth, Caller } from "./auth.ts";
import type { Dialect } from "./dialect.ts";
import type { HttpLimits } from "./limits.ts";
import type { RefusedRequest } from "./refusals.ts";
import type { InspectOptions } from "./routes/inspection-routes.ts";
import type { AllowedOption } from "./routes/turn-options.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { inspection } from "../inspect/internal.ts";
import { HttpError } from "./failure.ts";
import { storedKeys } from "./keys.ts";
import { checkedLimits } from "./limits.ts";
import { refusalReporter, refusalWarner, warnOfError } from "./refusals.ts";
import { requestSteps } from "./request-steps.ts";
import { router } from "./router.ts";
import { servedRoutes } from "./served-routes.ts";

/** Options of {@link createHandler}. `sessions` and `auth` are required. */
export type HttpOptions = {
  /** The runtime to serve. */
  readonly sessions: Runtime;
  /** How requests are authenticated. */
  readonly auth: Auth;
  /**
   * Widens to whom a session belongs: returns `true` if the caller may read, continue, fork and delete it like the
   * caller that started it. Called for every session that a caller did not start itself; operators are not limited.
   * Default: a session belongs to the caller that started it, and one that a program started to operators.
   */
  readonly owns?: NonNullable<AccessRules["owns"]>;
  /**
   * Who decides about calls that need an approval, or whose outcome is unknown. `"own"`: every caller to whom the
   * session belongs, also the one that started the turn. A function: returns `true` if the caller may decide; such a
   * caller may also read the session while the call is pending. Decide by `call.shown`, which is what runs: `call.name`
   * and `call.arguments` are what the model called. For an approval with changed arguments it is called once more, with
   * these arguments in both places, and has to return `true` again. Default: a caller to whom the session belongs,
   * except the callers that started the turn. Operators always decide.
   */
  readonly decide?: NonNullable<AccessRules["decide"]>;
  /** The mount path, for example `/api/everturn`. Default: the root. */
  readonly basePath?: string;
  /**
   * Protocols of other libraries that are served beside the API: `aiSdkChat()`, `agUi()`, `openaiCompletions(engines)`.
   * Two dialects of one name, and a path that two of them or the API serve, are a `MisuseError`. None by default: their
   * routes do not exist.
   */
  readonly dialects?: readonly Dialect[];
  /**
   * Allowlist of turn options that callers may set besides `engine`, `version` and `waits`. `instructions` also allows
   * system and developer messages of `openaiCompletions`. None by default.
   */
  readonly allow?: readonly AllowedOption[];
  /**
   * `true`: callers may export turn records, which contain details that are otherwise visible to the operator
   * only. A record is read and sent in pages, and takes a permit of the stream limits. Default: false.
   */
  readonly records?: boolean;
  /**
   * `true`, or an object with details: serves the inspection routes, which pages such as the studio read:
   * `GET /server`, `GET /engines`, and what the turns of a session did and when. A caller sees its own tenant and its
   * own engines. Instructions of engines are shown to operators only (`operator` of the caller); causes and messages of
   * providers only with `records`. Default: the routes do not exist.
   */
  readonly inspect?: boolean | InspectOptions;
  /**
   * `true`: accepts the API keys that are stored beside the sessions (`everturn keys`, {@link storedKeys}), in addition
   * to `auth`, and serves the routes of administrators: keys, the audit log, tenants, and the deletion of all sessions
   * of a tenant or a user. Only operators that name no tenant and have the scope `admin` may use them. Default: false.
   */
  readonly admin?: boolean;
  /**
   * Allowlist of the hosts of `https:` URLs in messages and tool results: `cdn.example.com`, or `*.example.com` for
   * subdomains. The provider fetches these URLs. Private addresses and local names are rejected in any case, and so are
   * other schemes than `https:` and `data:`. Default: every public host.
   */
  readonly contentHosts?: readonly string[];
  /**
   * `true`: callers may name files of the operator's provider account, by their id or by a URL of the Gemini API. The
   * ids of all tenants are valid there. Default: false.
   */
  readonly providerFiles?: boolean;
  /** Allowlist of origins whose pages may read responses (CORS) and send requests other than GET. None by default. */
  readonly origins?: readonly string[];
  /** Allowlist of `Host` header values, without port. Rejecting others prevents DNS rebinding. All by default. */
  readonly hosts?: readonly string[];
  /**
   * Returns the network address of the client, for `limits.requestsPerAddress`; `null`: it is not known. Requests of
   * open routes (`/health`, `/complete`) share their permits by address. Behind a proxy, return the address that the
   * proxy reports. Default: not known.
   */
  readonly address?: (request: Request) => string | null;
  /** Limits that differ from {@link defaultHttpLimits}. */
  readonly limits?: Partial<HttpLimits>;
  /** Heartbeats, slow readers and `Prefer: wait` are timed on it, in milliseconds. Default: the system clock. */
  readonly clock?: Clock;
  /** Aborted before the process stops: streams end, and new requests are rejected. */
  readonly shutdown?: AbortSignal;
  /**
   * Aborted before `shutdown`, while the process hands its turns over: new requests are rejected, and streams go on, so
   * that readers get what is still produced here. Default: `shutdown`.
   */
  readonly draining?: AbortSignal;
  /**
   * Called when a request was authenticated, before it is executed: for access logs. `caller` is the result of `auth`
   * without its token and its context. Not called for open routes (`/health`, `/openapi.json`) and rejected requests.
   * An error that it throws is ignored.
   */
  readonly onAuthenticated?: (request: Request, caller: Pick<Caller, "tenant" | "name">) => void;
  /** Receives internal errors, which responses do not disclose. Default: one line to `console.warn`. */
  readonly onError?: (error: unknown, request: Request | null) => void;
  /**
   * Called when a request was refused because of its caller or a limit (401, 403, 413, 429): for logs. An error that it
   * throws is ignored. Default: one line to `console.warn`, at most ten in a minute.
   */
  readonly onRefused?: (refused: RefusedRequest) => void;
};

/**
 * Serves the sessions of a runtime over HTTP: a function from `Request` to `Response` that can be mounted in any
 * server. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { createHandler } from "everturn/http";
 * import { runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const handler = createHandler({ sessions, auth: [{ token: "a-secret-bearer-token" }] });
 *
 * const response = await handler(
 *   new Request("http://localhost/sessions", {
 *     method: "POST",
 *     headers: { authorization: "Bearer a-secret-bearer-token", "content-type": "application/json", prefer: "wait=10"
 *     }, body: JSON.stringify({ input: "hi" }),
 *   }),
 * );
 * JSON.parse(await response.text()).text; // => "Hello!"
 * ```
 */
export function createHandler(options: HttpOptions): (request: Request) => Promise<Response> {
  const { sessions, clock = systemClock, origins = [] } = options;
  const reportError = errorReporter(options.onError ?? warnOfError);
  const reportRefusal = refusalReporter(options.onRefused ?? refusalWarner(clock));
  const base = checkedBase(options.basePath ?? "");
  const limits = checkedLimits(options.limits ?? {});
  const inspected = inspection(sessions.source);
  const keys = options.admin === true ? storedKeys({ host: sessions.source.host, clock }) : null;
  const onAuthenticated = callerReporter(options.onAuthenticated);
  return router({
    base,
    origins,
    execute: requestSteps(options, { base, limits, clock, inspected, keys, onAuthenticated }),
    routes: servedRoutes(options, { base, inspected, keys, onError: (error) => reportError(error, null) }),
    onFailure: (error, request, status) => {
      // A stop is no error, and every client that retries meanwhile would be a line of the log.
      if (error instanceof HttpError && error.reason === "shutting_down") return;
      if (status >= 500) reportError(error, request);
      else reportRefusal(error, request, status);
    },
  });
}

/** Wraps `onError` so that an error thrown by it does not change the response. */
function errorReporter(onError: HttpOptions["onError"]): NonNullable<HttpOptions["onError"]> {
  return (error, request) => {
    try {
      onError?.(error, request);
    } catch {
      // `onError` is the only place where errors are reported.
    }
  };
}

/** Wraps `onAuthenticated`: the caller of a bearer token is its `ApiKey`, whose token must not reach a log. */
function callerReporter(onAuthenticated: HttpOptions["onAuthenticated"]): (request: Request, caller: Caller) => void {
  return (request, { tenant, name }) => {
    try {
      onAuthenticated?.(request, {
        ...(tenant === undefined ? {} : { tenant }),
        ...(name === undefined ? {} : { name }),
      });
    } catch {
      // A log must not change the response.
    }
  };
}

function checkedBase(base: string): string {
  if (base === "" || /^(?:\/[\w.~-]+)+$/.test(base)) return base;
  const message = `basePath: ${JSON.stringify(base)} must be empty or a path like "/api/everturn"`;
  throw new MisuseError("invalid_argument", message, { path: ["basePath"] });
}
