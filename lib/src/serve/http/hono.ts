// Loads Hono, which routes requests and handles CORS, with the first request: programs that import `everturn/http` for
// its types or its client helpers do not pay for it. Hono is part of the published bundle (docs/decisions/0031).

/** Loads the two modules of Hono that the handler uses. */
export async function loadHono() {
  const [{ Hono }, { cors }] = await Promise.all([import("hono"), import("hono/cors")]);
  return { Hono, cors };
}
