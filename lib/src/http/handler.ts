// The handler: one function from a request to an answer, over a runtime. What comes in is looked at in this order: is anybody still here, who asks, for
// what, with how much; only then does anything happen.

import type { Clock } from "../clock/clock.ts";
import type { Engine } from "../engine/internal.ts";
import type { Runtime } from "../runtime/internal.ts";
import type { Auth, Caller } from "./auth.ts";
import type { HttpLimits } from "./limits.ts";
import type { Door, Route } from "./routes/route.ts";
import type { AllowedOption } from "./routes/turn-options.ts";

import { Hono } from "hono";
import { cors } from "hono/cors";

import { systemClock } from "../clock/clock.ts";
import { MisuseError } from "../model/internal.ts";
import { authenticator } from "./auth.ts";
import { failed, HttpError } from "./failure.ts";
import { readJson } from "./input.ts";
import { checkedLimits, Gate } from "./limits.ts";
import { openapi } from "./openapi/openapi.ts";
import { described, jsonAnswer } from "./openapi/schemas.ts";
import { failedInWordsOf, openaiRoutes, uiRoutes } from "./routes/chat-routes.ts";
import { json, route } from "./routes/route.ts";
import { sessionRoutes } from "./routes/session-routes.ts";
import { turnOptions } from "./routes/turn-options.ts";
import { recordRoute, turnRoutes } from "./routes/turn-routes.ts";
import { sseBody, sseHeaders } from "./sse.ts";

/** Options of {@link createHandler}. `sessions` and `auth` are required. */
export type HttpOptions = {
  /** The runtime to serve. */
  readonly sessions: Runtime;
  /** How requests are authenticated. */
  readonly auth: Auth;
  /** The mount path, for example `/api/everturn`. Default: the root. */
  readonly basePath?: string;
  /** Engines served at `/v1/chat/completions`, by model name. The route does not exist by default. */
  readonly openai?: { readonly [model: string]: Engine };
  /** Turn options that callers may set besides `engine`, `version` and `waits`. None by default. */
  readonly allow?: readonly AllowedOption[];
  /**
   * `true`: callers may export turn records, which contain details that are otherwise visible to the operator
   * only. Default: false.
   */
  readonly records?: boolean;
  /** Origins allowed by CORS. None by default. */
  readonly origins?: readonly string[];
  /** Allowed `Host` header values. Rejecting others prevents DNS rebinding. All by default. */
  readonly hosts?: readonly string[];
  /** Limits that differ from {@link defaultHttpLimits}. */
  readonly limits?: Partial<HttpLimits>;
  /** Heartbeats, slow readers and `Prefer: wait` are timed on it, in milliseconds. Default: the system clock. */
  readonly clock?: Clock;
  /** Aborted before the process stops: streams end, and new requests are rejected. */
  readonly shutdown?: AbortSignal;
  /** Receives internal errors, which responses do not disclose. */
  readonly onError?: (error: unknown, request: Request | null) => void;
};

/**
 * Serves the sessions of a runtime over HTTP: a function from `Request` to `Response` that can be mounted in any
 * server. Needs the `hono` package. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/host/memory";
 * import { createHandler } from "everturn/http";
 * import { runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const handler = createHandler({ sessions, auth: [{ token: "a-token-nobody-guesses" }] });
 *
 * const answer = await handler(
 *   new Request("http://localhost/sessions", {
 *     method: "POST",
 *     headers: { authorization: "Bearer a-token-nobody-guesses", "content-type": "application/json", prefer: "wait=10" },
 *     body: JSON.stringify({ input: "hi" }),
 *   }),
 * );
 * JSON.parse(await answer.text()).text; // => "Hello!"
 * ```
 */
export function createHandler(options: HttpOptions): (request: Request) => Promise<Response> {
  const { sessions, auth, hosts, shutdown, openai, origins = [], allow = [], records = false } = options;
  const { clock = systemClock } = options;
  const report = reporter(options.onError);
  const base = checkedBase(options.basePath ?? "");
  const limits = checkedLimits(options.limits ?? {});
  const authenticate = authenticator(auth);
  const requests = new Gate(limits.requests, "requests being worked on");
  const door = doorOf(base, limits, clock, shutdown ?? null);
  const completions = openai === undefined ? [] : openaiRoutes(openai, (error) => report(error, null));
  const routes: readonly Route[] = [
    ...sessionRoutes,
    ...turnRoutes(turnOptions(allow)),
    ...(records ? [recordRoute] : []),
    ...uiRoutes,
    ...completions,
  ];
  const description = openapi([...routes, health(sessions)], base);
  const served: readonly Route[] = [...routes, health(sessions), describing(description)];

  const answer = async (chosen: Route, request: Request, param: (name: string) => string): Promise<Response> => {
    if (shutdown?.aborted === true) throw new HttpError("shutting_down", "this process is about to stop");
    checkHost(request, hosts);
    const url = new URL(request.url);
    const caller = chosen.access === "open" ? {} : await authenticate(request);
    if (request.method !== "GET" && request.method !== "HEAD") checkOrigin(request, url, origins);
    // Those without a key are counted apart: they cannot take the places of those who have one.
    const leave = requests.enter(chosen.access === "open" ? chosen.operationId : "");
    try {
      const own = caller.tenant === undefined ? sessions : sessions.tenant(caller.tenant);
      const input = chosen.body === null ? null : await readJson(request, limits.bodyBytes);
      const key = idempotencyKey(request, limits.idLength);
      const shortParam = (name: string) => checkedParam(name, param(name), limits.idLength);
      return await chosen.handle({
        door,
        request,
        url,
        caller,
        sessions: own,
        input,
        param: shortParam,
        key,
        rest: leave,
      });
    } finally {
      leave();
    }
  };

  const app = new Hono();
  if (origins.length > 0) app.use(cors({ origin: [...origins], exposeHeaders, maxAge: 600 }));
  for (const chosen of served) {
    const path = base + chosen.path.replaceAll(/\{(\w+)\}/g, ":$1");
    app.on(chosen.method, path, (context) => answer(chosen, context.req.raw, (name) => context.req.param(name) ?? ""));
  }
  for (const [path, methods] of methodsOf(served)) {
    const allowed = [...methods, ...(methods.includes("GET") ? ["HEAD"] : [])].join(", ");
    app.all(base + path.replaceAll(/\{(\w+)\}/g, ":$1"), () => {
      throw new HttpError("method_not_allowed", `this is asked for with ${allowed}`, { headers: { allow: allowed } });
    });
  }
  app.notFound(() => failed(new HttpError("no_such_route", "there is nothing here; /openapi.json says what there is")));
  app.onError((error, context) => {
    const response = failedInWordsOf(context.req.path.slice(base.length), error);
    if (response.status >= 500) report(error, context.req.raw);
    return response;
  });
  return async (request) => {
    try {
      return await app.fetch(request);
    } catch (error) {
      // What even the router cannot read.
      report(error, request);
      return failed(error);
    }
  };
}

/** Tells the operator. One who throws at that is not asked what is to be answered. */
function reporter(onError: HttpOptions["onError"]): NonNullable<HttpOptions["onError"]> {
  return (error, request) => {
    try {
      onError?.(error, request);
    } catch {
      // There is nobody else to tell.
    }
  };
}

/** What a page may read of an answer. */
const exposeHeaders = ["location", "everturn-session", "everturn-turn", "retry-after", "preference-applied"];

function doorOf(base: string, limits: HttpLimits, clock: Clock, shutdown: AbortSignal | null): Door {
  const all = new Gate(limits.streams, "streams open");
  const ofTenant = new Gate(limits.streamsPerTenant, "streams open");
  const turns = new Gate(limits.turnsPerTenant, "turns open");
  return {
    base,
    limits,
    clock,
    stopping: shutdown,
    enterTurn: (caller) => turns.enter(nameOf(caller)),
    enterStream: ({ request, caller }) => {
      const leaveAll = all.enter("");
      const leaveTenant = ofTenant.enter(nameOf(caller), leaveAll);
      const leave = () => {
        leaveTenant();
        leaveAll();
      };
      return {
        leave,
        answer: (source, headers = {}) => {
          const answerHeaders = { ...sseHeaders, ...headers };
          if (request.method !== "HEAD") {
            return new Response(sseBody(source, { limits, clock, shutdown, closed: leave }), {
              headers: answerHeaders,
            });
          }
          // Nothing is begun that nobody will take.
          leave();
          source.closed?.();
          return new Response(null, { headers: answerHeaders });
        },
      };
    },
  };
}

function nameOf({ tenant }: Caller): string {
  return tenant ?? "";
}

function health(sessions: Runtime): Route {
  return route({
    method: "GET",
    path: "/health",
    operationId: "health",
    summary: "Is this process here, and does its storage answer?",
    access: "open",
    answers: { 200: jsonAnswer("Both.", described("Health")) },
    handle: async () => {
      await sessions.list({ limit: 1 });
      return json({ status: "ok" });
    },
  });
}

function describing(description: object): Route {
  return route({
    method: "GET",
    path: "/openapi.json",
    operationId: "openapi",
    summary: "This description.",
    access: "open",
    answers: { 200: { description: "An OpenAPI description." } },
    handle: async () => json(description),
  });
}

function methodsOf(routes: readonly Route[]): ReadonlyMap<string, readonly string[]> {
  const methods = new Map<string, string[]>();
  for (const { path, method } of routes) methods.set(path, [...(methods.get(path) ?? []), method]);
  return methods;
}

function checkedBase(base: string): string {
  if (base === "" || /^(?:\/[\w.~-]+)+$/.test(base)) return base;
  const message = `basePath: ${JSON.stringify(base)} has to be empty or like "/api/everturn"`;
  throw new MisuseError("invalid_argument", message, { path: ["basePath"] });
}

function checkHost({ headers, url }: Request, hosts: readonly string[] | undefined): void {
  if (hosts === undefined) return;
  const name = hostName(headers.get("host") ?? new URL(url).host);
  if (hosts.some((host) => host.toLowerCase() === name)) return;
  throw new HttpError("forbidden", "this is not served under that name");
}

/** A host without its port. */
function hostName(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, "");
}

/** A page elsewhere may not act in the name of whoever has it open. */
function checkOrigin({ headers }: Request, url: URL, origins: readonly string[]): void {
  const origin = headers.get("origin");
  if (origin === null || origins.includes(origin)) return;
  if (URL.canParse(origin) && new URL(origin).host === (headers.get("host") ?? url.host)) return;
  throw new HttpError("forbidden", "pages of that origin may not ask here");
}

function idempotencyKey({ headers }: Request, most: number): string | null {
  const key = headers.get("idempotency-key");
  if (key === null) return null;
  if (key.length > 0 && key.length <= most) return key;
  throw new HttpError("invalid_body", `an Idempotency-Key has 1 to ${most} characters`);
}

function checkedParam(name: string, value: string, most: number): string {
  if (value.length > 0 && value.length <= most) return value;
  throw new HttpError("no_such_route", `${name} has 1 to ${most} characters`);
}
