// Loads Hono, which routes requests and handles CORS. Hono is an optional peer dependency: only programs that serve HTTP need it. A static import would
// fail with Node's ERR_MODULE_NOT_FOUND when `everturn/http` is imported; loaded here, the error names the package to install.

import { EngineError } from "../model/internal.ts";

/** Loads the two modules of Hono that the handler uses. Rejects with `EngineError` (`invalid_engine`) if the package cannot be loaded. */
export async function loadHono() {
  try {
    const [{ Hono }, { cors }] = await Promise.all([import("hono"), import("hono/cors")]);
    return { Hono, cors };
  } catch (cause) {
    const message = "createHandler(): the package hono, which routes requests, cannot be loaded; run: npm install hono";
    throw new EngineError("invalid_engine", { message, cause });
  }
}
