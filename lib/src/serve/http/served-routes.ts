// The routes that a handler serves: those of the API that its options switch on, those of dialects, and the document
// that describes them.

import type { Inspection } from "../inspect/internal.ts";
import type { ServedRoute } from "./dialect.ts";
import type { HttpOptions } from "./handler.ts";
import type { StoredKeys } from "./keys.ts";
import type { Route } from "./routes/route.ts";

import { busyPolicies } from "../../core/engine/internal.ts";
import {
  adminOperations,
  enumSchema,
  inspectionOperations,
  processOperations,
  recordOperations,
  sessionOperations,
  turnOperations,
} from "../contract/internal.ts";
import { contentPolicy } from "./content-policy.ts";
import { dialectRoutes } from "./dialect.ts";
import { errorResponse } from "./failure.ts";
import { openapi } from "./openapi/openapi.ts";
import { adminImplementations } from "./routes/admin-routes.ts";
import { route } from "./routes/dialect-route.ts";
import { inspectionImplementations } from "./routes/inspection-routes.ts";
import { routesOf } from "./routes/operation-route.ts";
import { recordImplementations } from "./routes/record-route.ts";
import { json } from "./routes/route.ts";
import { sessionImplementations } from "./routes/session-routes.ts";
import { turnOptions } from "./routes/turn-options.ts";
import { turnImplementations } from "./routes/turn-routes.ts";
import { userMessage } from "./user-message.ts";

/** What routes use besides the options of the handler. */
export type RouteSources = {
  /** The mount path. */
  readonly base: string;
  readonly inspected: Inspection;
  /** The stored keys; `null`: the routes of administrators are not served. */
  readonly keys: StoredKeys | null;
  /** Receives internal errors that reject no request. */
  readonly onError: (error: unknown) => void;
};

/** The routes that the options switch on, and `GET /openapi.json`, which describes the others. */
export function servedRoutes(options: HttpOptions, { base, inspected, keys, onError }: RouteSources): ServedRoute[] {
  const { sessions, dialects = [], allow = [], records = false } = options;
  const policy = contentPolicy(options.contentHosts, options.providerFiles ?? false);
  const dialectSettings = { policy, allowsInstructions: allow.includes("instructions"), onError };
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
  return [...described, served(openapiRoute(description))];
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
