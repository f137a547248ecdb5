// A server as the guide of Everturn wires it. Arguments: the port, the URL of the provider, the file of the database.

import { serve } from "@hono/node-server";
import { engine, openaiCompatible } from "everturn";
import { aiSdkChat, createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

const [port = "", baseURL = "", path = ""] = process.argv.slice(2);
const adapter = openaiCompatible({ name: "mock", baseURL, apiKey: "k" });
const host = sqliteStorage({ path });
const sessions = runtime({ host, engines: { default: engine({ adapter, model: "m" }) }, durability: "durable" });
const draining = new AbortController();
const shutdown = new AbortController();
const handler = createHandler({
  sessions,
  auth: "none",
  dialects: [aiSdkChat()],
  draining: draining.signal,
  shutdown: shutdown.signal,
});
const working = sessions.work({ signal: draining.signal });
const server = serve({ fetch: handler, port: Number(port), hostname: "127.0.0.1" }, () => process.send?.("ready"));
process.once("SIGTERM", async () => {
  draining.abort();
  await sessions.close();
  shutdown.abort();
  await working;
  await host.close();
  server.close();
  process.disconnect();
});
