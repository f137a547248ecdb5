// The server: the API of the sessions, and the built page.

import { serve } from "@hono/node-server";
import { serveStatic } from "@hono/node-server/serve-static";
import { Hono } from "hono";

import { close, handler } from "./src/sessions.ts";

const app = new Hono();
app.all("/api/*", ({ req }) => handler(req.raw));
app.use("*", serveStatic({ root: "./dist" }));

const port = Number(process.env.PORT ?? 3000);
const server = serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, () => {
  console.log(`The page is at http://127.0.0.1:${port}`);
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, async () => {
    await close();
    server.close();
  });
}
