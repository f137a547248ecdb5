// Generates the OpenAPI 3.1 document from the route table that the handler serves.

import type { JsonObject } from "../../../core/model/internal.ts";
import type { OperationScope, ResponseDescription, Scope } from "../../contract/internal.ts";
import type { Route } from "../routes/route.ts";

import { resultRef, resultSchemas } from "../../contract/internal.ts";

/** The version of the library, as package.json has it. */
export const libraryVersion = "0.1.0";

/** The OpenAPI document of these routes, mounted at `base`. */
export function openapi(routes: readonly Route[], base: string): JsonObject {
  const paths: { [path: string]: { [method: string]: JsonObject } } = {};
  for (const route of routes) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = operation(route);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Everturn",
      version: libraryVersion,
      description: "Durable LLM sessions: start turns, stream their events, disconnect, and resume with a cursor.",
    },
    servers: [{ url: base === "" ? "/" : base }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
      schemas: Object.fromEntries(Object.entries(resultSchemas).map(([name, { schema }]) => [name, schema])),
    },
  };
}

/**
 * One operation: parameters from path, query and idempotency key; successful responses from the route; `default` for
 * failures.
 */
function operation({ path, operationId, summary, scope, query, body, keyed, answers }: Route): JsonObject {
  const pathParameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const queryParameters = query.map((parameter) => ({ ...parameter, in: "query", required: false }));
  const headerParameters = keyed ? [idempotencyKey] : [];
  const failure = {
    description: "The failure.",
    content: { "application/json": { schema: resultRef("Error").schema } },
  };
  return {
    operationId,
    summary,
    // OpenAPI 3.1: the names beside a scheme of the type `http` are the roles that it needs. Each entry is an
    // alternative.
    security: scopesOf(scope).map((name) => ({ bearer: [name] })),
    parameters: [...pathParameters, ...queryParameters, ...headerParameters],
    ...(body === null ? {} : { requestBody: { content: { "application/json": { schema: body } } } }),
    responses: {
      default: failure,
      ...Object.fromEntries(
        Object.entries(answers).map(([status, { description, content }]) => [
          status,
          content === undefined ? { description } : { description, content: withSchemas(content) },
        ]),
      ),
    },
  };
}

/** The scopes of which a caller needs one. */
function scopesOf(scope: OperationScope): readonly Scope[] {
  if (scope === "open") return [];
  return scope === "answer" ? ["write", "decide"] : [scope];
}

function withSchemas(content: { readonly [mediaType: string]: JsonObject }): JsonObject {
  return Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }]));
}

/** The description of a JSON response of a dialect. */
export function jsonAnswer(description: string, schema: JsonObject): ResponseDescription {
  return { description, content: { "application/json": schema } };
}

const idempotencyKey: JsonObject = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "Repeating a request with the same key returns the turn that the first one started. The same key with another request is a conflict (409).",
  schema: { type: "string" },
};
