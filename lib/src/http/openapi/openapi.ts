// The description of what is served, made from the routes themselves.

import type { JsonObject } from "../../model/internal.ts";
import type { Route } from "../routes/route.ts";

import { schemas } from "./schemas.ts";

/** An OpenAPI 3.1 description of these routes. */
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
      version: "0.1.0",
      description: "Sessions whose turns survive: begin them, watch them, leave, and come back with a cursor.",
    },
    servers: [{ url: base === "" ? "/" : base }],
    security: [{ bearer: [] }],
    paths,
    components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } }, schemas },
  };
}

function operation({ path, operationId, summary, access, query, body, keyed, answers }: Route): JsonObject {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const inQuery = query.map((parameter) => ({ ...parameter, in: "query", required: false }));
  const headers = keyed ? [idempotencyKey] : [];
  const failure = { description: "What went wrong.", content: { "application/json": { schema: schemaRef("Error") } } };
  return {
    operationId,
    summary,
    ...(access === "open" ? { security: [] } : {}),
    parameters: [...inPath, ...inQuery, ...headers],
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

function withSchemas(content: { readonly [mediaType: string]: JsonObject }): JsonObject {
  return Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }]));
}

function schemaRef(name: keyof typeof schemas): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

const idempotencyKey: JsonObject = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "Asking again with the same key gives back what was accepted; the same key with something else is a conflict.",
  schema: { type: "string" },
};
