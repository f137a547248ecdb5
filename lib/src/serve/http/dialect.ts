// Dialects: protocols of other libraries, which a handler serves beside its own API. The handler knows none of them;
// `createHandler` gets them as values (serve/dialects).

import type { ContentPolicy } from "./content-policy.ts";
import type { Route } from "./routes/route.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { errorResponse } from "./failure.ts";

/**
 * A protocol of another library that {@link createHandler} serves: `aiSdkChat()`, `agUi()` or
 * `openaiCompletions(engines)`. Only the functions of this entry point return one; the types of routes are internal and
 * may change in any release.
 */
export type Dialect = {
  /** Names the dialect in errors. A handler takes one dialect of a name. */
  readonly name: string;
  /**
   * Returns the routes of the dialect. `createHandler` calls it once and serves the routes as it does its own: the same
   * authentication, limits and OpenAPI document.
   */
  readonly routes: (settings: DialectSettings) => readonly Route[];
  /**
   * The response for an error of one of the routes, in the error format of the dialect. Default: the format of the
   * handler's own API.
   */
  readonly errorResponse?: (error: unknown) => Response;
};

/** What the options of a handler say about the routes of dialects. */
export type DialectSettings = {
  /** Which files and URLs posted messages may contain. */
  readonly policy: ContentPolicy;
  /** Whether callers may post instructions: messages with the roles `system` and `developer`. */
  readonly allowsInstructions: boolean;
  /** Receives internal errors that reject no request, such as a usage that could not be booked. */
  readonly onError: (error: unknown) => void;
};

/** A route, and the format of its errors. */
export type ServedRoute = { readonly route: Route; readonly errorResponse: (error: unknown) => Response };

/**
 * The routes of dialects. Throws `MisuseError` for two dialects of one name, and for a path that another dialect or the
 * API itself (`ownRoutes`) serves, with any method: which of the two routes answered would depend on their order.
 */
export function dialectRoutes(
  dialects: readonly Dialect[],
  settings: DialectSettings,
  ownRoutes: readonly Route[],
): readonly ServedRoute[] {
  const owners = new Map<string, readonly Route[]>();
  return dialects.flatMap((dialect, index) => {
    const { name } = dialect;
    const routes = dialect.routes(settings);
    if (owners.has(name)) {
      throw misuse(index, `two dialects are named ${JSON.stringify(name)}; pass each dialect once`);
    }
    for (const [owner, others] of [["the API of the handler", ownRoutes] as const, ...owners]) {
      for (const { path } of routes) {
        const clash = others.find((other) => overlaps(other.path, path));
        if (clash === undefined) continue;
        const message = `the path ${path} of the dialect ${JSON.stringify(name)} clashes with ${clash.path} of ${owner}; pass one of the two`;
        throw misuse(index, message);
      }
    }
    owners.set(name, routes);
    return routes.map((route) => ({ route, errorResponse: dialect.errorResponse ?? errorResponse }));
  });
}

/** Whether some path matches both patterns. `{name}` matches one segment. */
function overlaps(one: string, other: string): boolean {
  const segments = one.split("/");
  const otherSegments = other.split("/");
  return (
    segments.length === otherSegments.length &&
    segments.every((segment, index) => {
      const otherSegment = otherSegments[index];
      return segment === otherSegment || isParameter(segment) || isParameter(otherSegment);
    })
  );
}

function isParameter(segment: string | undefined): boolean {
  return segment?.startsWith("{") === true;
}

function misuse(index: number, message: string): MisuseError {
  return new MisuseError("invalid_argument", `dialects: ${message}`, { path: ["dialects", index] });
}
