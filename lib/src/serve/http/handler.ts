// The HTTP handler: one function from `Request` to `Response` over a durable runtime.
//
// Theory of operation
//   `createHandler` builds a route table once (sessions, turns, the routes of the dialects, health, OpenAPI) and mounts
//   it in a Hono router, which the first request builds (hono.ts). It knows no dialect: the protocols of other
//   libraries are values that it gets (dialect.ts). It owns no socket and no session state: the server around it owns
//   connections, the runtime owns turns. Several processes can serve one storage, and a client may resume a stream at
//   any of them.
//
// Order of operations for a request. Each check runs before anything that costs more or discloses more.
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
//   7. The scope of the route, and whether it is for operators only: both are fields of its declaration. An operator may
//      name another tenant (`Everturn-Tenant`). Then a permit of the `requests` limits, which have shares for each
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
import type { Auth, Authenticated, Caller } from "./auth.ts";
import type { Dialect, ServedRoute } from "./dialect.ts";
import type { HttpLimits } from "./limits.ts";
import type { RefusedRequest } from "./refusals.ts";
import type { InspectOptions } from "./routes/inspection-routes.ts";
import type { Route, ServerContext } from "./routes/route.ts";
import type { AllowedOption } from "./routes/turn-options.ts";

import { nextTask, systemClock } from "../../core/clock/clock.ts";
import { startTimer } from "../../core/clock/timer.ts";
import { busyPolicies } from "../../core/engine/internal.ts";
import { FairShare } from "../../core/fair/fair-share.ts";
import { FairTicks } from "../../core/fair/fair-ticks.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { readsAtOnce } from "../../durable/internal.ts";
import {
  adminOperations,
  enumSchema,
  inspectionOperations,
  processOperations,
  recordOperations,
  sessionOperations,
  turnOperations,
} from "../contract/internal.ts";
import { inspection } from "../inspect/internal.ts";
import { checkedRules } from "./access-rules.ts";
import { callerAccess } from "./access.ts";
import { alwaysValid, authenticator, checkScope, hasScope, reachesTenants } from "./auth.ts";
import { ByteBudget } from "./byte-budget.ts";
import { contentPolicy } from "./content-policy.ts";
import { dialectRoutes } from "./dialect.ts";
import { errorResponse, HttpError } from "./failure.ts";
import { loadHono } from "./hono.ts";
import { readJson } from "./input.ts";
import { keyIdOf, KeyWatch, storedKeys } from "./keys.ts";
import { checkedLimits, ConcurrencyLimit, RequestPermits } from "./limits.ts";
import { openapi } from "./openapi/openapi.ts";
import { refusalReporter, refusalWarner, warnOfError } from "./refusals.ts";
import { actorOf, adminImplementations } from "./routes/admin-routes.ts";
import { route } from "./routes/dialect-route.ts";
import { inspectionImplementations } from "./routes/inspection-routes.ts";
import { routesOf } from "./routes/operation-route.ts";
import { recordImplementations } from "./routes/record-route.ts";
import { json, jsonHeaders, largeBodyOf } from "./routes/route.ts";
import { sessionImplementations } from "./routes/session-routes.ts";
import { turnOptions } from "./routes/turn-options.ts";
import { turnImplementations } from "./routes/turn-routes.ts";
import { completeBody, partsBody, sseBody, sseHeaders } from "./sse.ts";
import { userMessage } from "./user-message.ts";

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
  const { sessions, auth, hosts, shutdown, dialects = [], origins = [], allow = [], records = false } = options;
  const { clock = systemClock, draining = shutdown } = options;
  const inspected = inspection(sessions.source);
  const reportError = errorReporter(options.onError ?? warnOfError);
  const reportRefusal = refusalReporter(options.onRefused ?? refusalWarner(clock));
  const reportCaller = callerReporter(options.onAuthenticated);
  const base = checkedBase(options.basePath ?? "");
  const limits = checkedLimits(options.limits ?? {});
  const policy = contentPolicy(options.contentHosts, options.providerFiles ?? false);
  const keys = options.admin === true ? storedKeys({ host: sessions.source.host, clock }) : null;
  const keyWatch = keys === null ? null : new KeyWatch(keys, clock);
  const authenticate = authenticator(auth, {
    stored: keys === null ? null : { idOf: keyIdOf, find: keys.find },
    address: (request) => options.address?.(request) ?? null,
    clock,
  });
  const rules = checkedRules(options);
  const requestPermits = new RequestPermits(limits);
  const starts = new FairTicks(startsPerTick);
  const largeBodies = new FairTicks(1);
  const server = createServerContext(limits, clock, shutdown ?? null);
  const dialectSettings = {
    policy,
    allowsInstructions: allow.includes("instructions"),
    onError: (error: unknown): void => reportError(error, null),
  };
  const parts = {
    message: userMessage(policy),
    options: turnOptions(allow),
    whenBusy: enumSchema(busyPolicies),
  };
  const inspect = options.inspect === true ? {} : (options.inspect ?? false);
  const apiRoutes: readonly Route[] = [
    ...routesOf(sessionOperations, parts, sessionImplementations),
    ...routesOf(turnOperations, parts, turnImplementations(policy)),
    ...(records ? routesOf(recordOperations, parts, recordImplementations) : []),
    ...(inspect === false
      ? []
      : routesOf(
          inspectionOperations,
          parts,
          inspectionImplementations(inspected, inspect, { allow, records, admin: keys !== null }),
        )),
    ...(keys === null ? [] : routesOf(adminOperations, parts, adminImplementations(keys, sessions))),
  ];
  const processRoutes = routesOf(processOperations, parts, {
    // Reads one row, so it fails when the storage does not answer.
    health: async () => {
      await sessions.list({ limit: 1 });
      return { status: "ok" };
    },
  });
  const ownRoutes = [...apiRoutes, ...processRoutes, openapiRoute({})];
  const described: readonly ServedRoute[] = [
    ...apiRoutes.map(served),
    ...dialectRoutes(dialects, dialectSettings, ownRoutes),
    ...processRoutes.map(served),
  ];
  const description = openapi(
    described.map(({ route }) => route),
    base,
  );
  const servedRoutes: readonly ServedRoute[] = [...described, served(openapiRoute(description))];

  // Steps 3 to 9 of the header comment.
  const handleRequest = async (
    matched: Route,
    request: Request,
    param: (name: string) => string,
  ): Promise<Response> => {
    if (draining?.aborted === true || shutdown?.aborted === true) throw shuttingDown();
    checkHost(request, hosts);
    const url = new URL(request.url);
    // Without authentication there is no caller, to which nothing belongs.
    const isOpen = matched.scope === "open";
    const own = isOpen ? { caller: {}, id: null, keyId: null } : await authenticate(request);
    if (!isOpen) reportCaller(request, own.caller);
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) checkOrigin(request, url, origins);
    if (!isRead || !isOpen) checkFetchMetadata(request, origins);
    checkAccess(matched, own.caller);
    const authenticated = isOpen ? own : inNamedTenant(own, request, limits.idLength);
    const { caller } = authenticated;
    const validity = own.keyId === null || keyWatch === null ? alwaysValid : keyWatch.validity(own.keyId);
    // Each open route has its own permits: requests without a key cannot take the permits of authenticated ones.
    const releasePermit = requestPermits.acquire({
      pool: isOpen ? matched.operationId : matched.pool,
      tenant: isOpen ? null : tenantKey(caller),
      address: options.address?.(request) ?? null,
    });
    let releasePage: () => void = noPage;
    const pagePermit = async (): Promise<void> => {
      if (releasePage === noPage) releasePage = await server.acquirePage({ request, caller });
    };
    const unwatch = validity.watch();
    try {
      const tickKey = isOpen
        ? JSON.stringify([matched.operationId, options.address?.(request) ?? null])
        : `t${tenantKey(caller)}`;
      await starts.next(tickKey);
      // Verbs of other callers name their caller (access.ts).
      const actor = caller.operator === true ? actorOf(caller) : null;
      const acting = actor === null ? sessions : sessions.actedBy(actor);
      const ofTenant = caller.tenant === undefined ? acting : acting.tenant(caller.tenant);
      const tenantInspection = caller.tenant === undefined ? inspected : inspected.tenant(caller.tenant);
      const tenantSessions = caller.limitKey === undefined ? ofTenant : ofTenant.limitedBy(caller.limitKey);
      const input =
        matched.body === null ? null : await readJson(request, limits, clock, () => largeBodies.next(tickKey));
      // A body may take long.
      validity.ended?.throwIfAborted();
      const key = idempotencyKey(request, limits.idLength);
      const boundedParam = (name: string) => checkedParam(name, param(name), limits.idLength);
      const response = await matched.answer.to({
        server,
        base,
        limits,
        request,
        url,
        caller,
        validity,
        ...callerAccess(tenantSessions, tenantInspection, authenticated, rules),
        runtime: caller.operator === true ? tenantSessions : null,
        input,
        param: boundedParam,
        key,
        releaseRequestPermit: releasePermit,
        pagePermit,
      });
      return await server.countBody({ request, caller, validity, pagePermit }, response);
    } finally {
      unwatch();
      releasePage();
      releasePermit();
    }
  };

  /** The response for an error, which is reported if it is internal. */
  const failed = (request: Request, error: unknown, formatError: ServedRoute["errorResponse"]): Response => {
    const response = formatError(error);
    if (response.status >= 500) reportError(error, request);
    else reportRefusal(error, request, response.status);
    return response;
  };
  const routerPath = (path: string): string => base + path.replaceAll(/\{(\w+)\}/g, ":$1");
  const createRouter = ({ Hono, cors }: Awaited<ReturnType<typeof loadHono>>) => {
    const app = new Hono();
    if (origins.length > 0) app.use(cors({ origin: [...origins], exposeHeaders, maxAge: 600 }));
    for (const { route: served, errorResponse: formatError } of servedRoutes) {
      app.on(served.method, routerPath(served.path), async (context) => {
        const { raw } = context.req;
        try {
          return await handleRequest(served, raw, (name) => context.req.param(name) ?? "");
        } catch (error) {
          return failed(raw, error, formatError);
        }
      });
    }
    // Registered after all routes, so they match only the methods that a path does not have. Hono answers HEAD by the
    // GET route.
    for (const [path, { methods, errorResponse: formatError }] of methodsByPath(servedRoutes)) {
      const allowedMethods = [...methods, ...(methods.includes("GET") ? ["HEAD"] : [])].join(", ");
      app.all(routerPath(path), () =>
        formatError(
          new HttpError("method_not_allowed", `this path accepts ${allowedMethods}`, {
            headers: { allow: allowedMethods },
          }),
        ),
      );
    }
    app.notFound(() =>
      errorResponse(new HttpError("no_such_route", "no such path; GET /openapi.json describes all routes")),
    );
    app.onError((error, context) => failed(context.req.raw, error, errorResponse));
    return app;
  };
  // Built by the first request. Concurrent first requests may each build one: an edge platform may not let a request
  // await the promise of another.
  let router: ReturnType<typeof createRouter> | null = null;
  return async (request) => {
    router ??= createRouter(await loadHono());
    try {
      return withoutSniffing(await router.fetch(request));
    } catch (error) {
      // Errors of the router itself, such as a URL that it cannot decode.
      reportError(error, request);
      return withoutSniffing(errorResponse(error));
    }
  };
}

/** Throws 403 if the caller may not use the route: its declaration says what a caller needs. */
function checkAccess({ scope, operator }: Route, caller: Caller): void {
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
function inNamedTenant(authenticated: Authenticated, { headers }: Request, maxLength: number): Authenticated {
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

/** How many requests of one tenant begin in one tick of the event loop. */
const startsPerTick = 8;

/** How often a body that waits for memory tries again, in milliseconds. */
const bodyWaitMs = 20;

/** Releases the page permit of a request that has taken none. */
function noPage(): void {}

/**
 * Keeps browsers from guessing another content type than the declared one. Responses contain text of users and models.
 */
function withoutSniffing(response: Response): Response {
  response.headers.set("x-content-type-options", "nosniff");
  return response;
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

/**
 * Response headers that a page of another origin may read (`Access-Control-Expose-Headers`). The client needs all of
 * them.
 */
const exposeHeaders = ["location", "everturn-session", "everturn-turn", "retry-after", "preference-applied"];

function createServerContext(limits: HttpLimits, clock: Clock, shutdown: AbortSignal | null): ServerContext {
  const streams = new ConcurrencyLimit({ total: limits.streams, each: limits.streamsPerTenant }, "open streams");
  const turns = new ConcurrencyLimit({ each: limits.turnsPerTenant }, "open turns");
  const { bufferBytesPerTenant, bufferBytesTotal } = limits;
  const budget = new ByteBudget({ tenant: bufferBytesPerTenant, process: bufferBytesTotal }, clock);
  const pages = new FairShare(readsAtOnce);
  const openAccount = (caller: Caller) => (cut: () => void) => budget.open(tenantKey(caller), cut);
  return {
    clock,
    shutdownSignal: shutdown,
    countBody: async ({ request, caller, validity, pagePermit }, response) => {
      const text = largeBodyOf(response);
      const { status, headers } = response;
      if (text === null || request.method === "HEAD") return response;
      // At most the bodies in page permits wait for memory; the other requests of the tenant wait for a permit, and
      // hold no body.
      await pagePermit();
      const account = budget.open(tenantKey(caller), () => undefined);
      while (account.take(text.length) !== "taken") {
        // A request that has started something must be answered, also if it has to wait.
        const isOver = request.method === "GET" || request.signal.aborted || shutdown?.aborted === true;
        if (isOver || validity.ended?.aborted === true) {
          account.close();
          validity.ended?.throwIfAborted();
          throw new HttpError(
            "too_many_requests",
            "limit reached: bytes of responses that are not read yet; try again later",
            { headers: { "retry-after": "1" } },
          );
        }
        await new Promise<void>((resolve) => startTimer(clock, bodyWaitMs, resolve));
      }
      const openIt = (cut: () => void) => Object.assign(account, { cut });
      const settings = { limits, clock, openAccount: openIt, ended: validity.ended, onClose: validity.watch() };
      return new Response(completeBody(text, settings), { status, headers });
    },
    acquirePage: async ({ request, caller }) => {
      const permit = pages.request(tenantKey(caller));
      const { granted, release } = permit;
      if (permit.state === "waiting") {
        await granted;
        // Rendering a page occupies the event loop, so requests that have arrived meanwhile run before the next page.
        await nextTask();
      }
      if (request.signal.aborted) {
        release();
        throw new HttpError("request_timeout", "the client has disconnected");
      }
      return release;
    },
    acquireTurn: (caller) => turns.acquire(tenantKey(caller)),
    acquireStream: ({ request, caller, validity: { ended, watch } }) => {
      const releasePermit = streams.acquire(tenantKey(caller));
      const unwatch = watch();
      const release = () => {
        unwatch();
        releasePermit();
      };
      return {
        release,
        respond: (source, headers = {}) => {
          const responseHeaders = { ...sseHeaders, ...headers };
          if (request.method !== "HEAD") {
            const settings = { limits, clock, shutdown, ended, onClose: release, openAccount: openAccount(caller) };
            return new Response(sseBody(source, settings), { headers: responseHeaders });
          }
          // A response to HEAD has no body, so the source is closed without being read.
          release();
          source.onClose?.();
          return new Response(null, { headers: responseHeaders });
        },
        respondJson: (parts) => {
          if (request.method !== "HEAD") {
            const settings = { limits, clock, ended, onClose: release, openAccount: openAccount(caller) };
            return new Response(partsBody(parts, settings), { headers: jsonHeaders });
          }
          release();
          parts.return().catch(() => undefined);
          return new Response(null, { headers: jsonHeaders });
        },
      };
    },
  };
}

/**
 * The client closes its connection, so that its next attempt can reach another process. HTTP/2 has no such header, and
 * servers drop it there.
 */
function shuttingDown(): HttpError {
  const message = "this process is shutting down; try again";
  return new HttpError("shutting_down", message, { headers: { connection: "close" } });
}

/** The key of the limits per tenant. Callers without a tenant share one. */
function tenantKey({ tenant }: Caller): string {
  return tenant ?? "";
}

/** `GET /openapi.json`. It is not part of the document that it serves. */
function openapiRoute(description: object): Route {
  return route({
    method: "GET",
    path: "/openapi.json",
    operationId: "openapi",
    summary: "The OpenAPI document of this API.",
    scope: "open",
    uses: "nothing",
    answers: { 200: { description: "An OpenAPI 3.1 document." } },
    handle: async () => json(description),
  });
}

/** A route whose errors have the format of the API. */
function served(route: Route): ServedRoute {
  return { route, errorResponse };
}

type PathMethods = { readonly methods: readonly string[]; readonly errorResponse: ServedRoute["errorResponse"] };

/**
 * The methods of each path, and the format of its errors. All routes of a path belong to one dialect, or to the API.
 */
function methodsByPath(servedRoutes: readonly ServedRoute[]): ReadonlyMap<string, PathMethods> {
  const byPath = new Map<string, PathMethods>();
  for (const { route, errorResponse } of servedRoutes) {
    const { methods } = byPath.get(route.path) ?? { methods: [] };
    byPath.set(route.path, { methods: [...methods, route.method], errorResponse });
  }
  return byPath;
}

function checkedBase(base: string): string {
  if (base === "" || /^(?:\/[\w.~-]+)+$/.test(base)) return base;
  const message = `basePath: ${JSON.stringify(base)} must be empty or a path like "/api/everturn"`;
  throw new MisuseError("invalid_argument", message, { path: ["basePath"] });
}

/** Host allowlist against DNS rebinding. Compares names without port and without regard to case. */
function checkHost({ headers, url }: Request, hosts: readonly string[] | undefined): void {
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
function checkOrigin({ headers }: Request, url: URL, origins: readonly string[]): void {
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
function checkFetchMetadata({ headers }: Request, origins: readonly string[]): void {
  const site = headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return;
  if (origins.includes(headers.get("origin") ?? "")) return;
  throw new HttpError("forbidden", "requests from pages of other sites are not allowed");
}

function idempotencyKey({ headers }: Request, maxLength: number): string | null {
  const key = headers.get("idempotency-key");
  if (key === null) return null;
  if (key.length > 0 && key.length <= maxLength) return key;
  throw new HttpError("invalid_body", `the Idempotency-Key must have 1 to ${maxLength} characters`);
}

function checkedParam(name: string, value: string, maxLength: number): string {
  if (value.length > 0 && value.length <= maxLength) return value;
  throw new HttpError("no_such_route", `${name} must have 1 to ${maxLength} characters`);
}
