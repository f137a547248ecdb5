// The router of a handler: CORS (step 1 of handler.ts), and the route of a request, which Hono finds. Answers requests
// that have none (step 2).

import type { ServedRoute } from "./dialect.ts";
import type { Route } from "./routes/route.ts";

import { errorResponse, HttpError } from "./failure.ts";
import { loadHono } from "./hono.ts";

/** What a router needs to serve routes. */
export type RouterSettings = {
  /** The mount path. */
  readonly base: string;
  /** Allowlist of origins for CORS. */
  readonly origins: readonly string[];
  readonly routes: readonly ServedRoute[];
  /** Executes a request of a route. Rejects with the error of the response. */
  readonly execute: (route: Route, request: Request, param: (name: string) => string) => Promise<Response>;
  /** Called with every error of a request, and the status of its response. */
  readonly onFailure: (error: unknown, request: Request, status: number) => void;
};

/** Returns the function that answers requests. */
export function router(settings: RouterSettings): (request: Request) => Promise<Response> {
  // Built by the first request. Concurrent first requests may each build one: an edge platform may not let a request
  // await the promise of another.
  let built: ReturnType<typeof createRouter> | null = null;
  return async (request) => {
    built ??= createRouter(await loadHono(), settings);
    try {
      return withoutSniffing(await built.fetch(request));
    } catch (error) {
      // Errors of the router itself, such as a URL that it cannot decode.
      settings.onFailure(error, request, 500);
      return withoutSniffing(errorResponse(error));
    }
  };
}

function createRouter({ Hono, cors }: Awaited<ReturnType<typeof loadHono>>, settings: RouterSettings) {
  const { base, origins, routes, execute, onFailure } = settings;
  const failed = (request: Request, error: unknown, formatError: ServedRoute["errorResponse"]): Response => {
    const response = formatError(error);
    onFailure(error, request, response.status);
    return response;
  };
  const routerPath = (path: string): string => base + path.replaceAll(/\{(\w+)\}/g, ":$1");
  const app = new Hono();
  if (origins.length > 0) app.use(cors({ origin: [...origins], exposeHeaders, maxAge: 600 }));
  for (const { route, errorResponse: formatError } of routes) {
    app.on(route.method, routerPath(route.path), async (context) => {
      const { raw } = context.req;
      try {
        return await execute(route, raw, (name) => context.req.param(name) ?? "");
      } catch (error) {
        return failed(raw, error, formatError);
      }
    });
  }
  // Registered after all routes, so they match only the methods that a path does not have. Hono answers HEAD by the GET
  // route.
  for (const [path, { methods, errorResponse: formatError }] of methodsByPath(routes)) {
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
}

/**
 * Response headers that a page of another origin may read (`Access-Control-Expose-Headers`). The client needs all of
 * them.
 */
const exposeHeaders = ["location", "everturn-session", "everturn-turn", "retry-after", "preference-applied"];

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

/**
 * Keeps browsers from guessing another content type than the declared one. Responses contain text of users and models.
 */
function withoutSniffing(response: Response): Response {
  response.headers.set("x-content-type-options", "nosniff");
  return response;
}
