// The sessions, and the handler that serves them at /api.

import { mkdirSync } from "node:fs";

import { aiSdkChat, createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

import { agent } from "./agent.ts";
import { withModel } from "./model.ts";

function open() {
  mkdirSync("data", { recursive: true });
  const host = sqliteStorage({ path: "data/sessions.db" });
  const sessions = runtime({ host, engines: { default: withModel(agent) }, durability: "durable" });
  const draining = new AbortController();
  const shutdown = new AbortController();
  const handler = createHandler({
    sessions,
    // One user on a machine of their own. Before you deploy: a function that returns who sends a request, and your
    // hosts.
    auth: "none",
    hosts: ["localhost", "127.0.0.1"],
    basePath: "/api",
    dialects: [aiSdkChat()],
    draining: draining.signal,
    shutdown: shutdown.signal,
  });
  // Continues the turns of processes that have ended.
  const working = sessions.work({ signal: draining.signal });
  /** Hands open turns over to the next process. A reply that is being received is finished first. */
  const close = async (): Promise<void> => {
    draining.abort();
    await sessions.close();
    shutdown.abort();
    await working;
    await host.close();
  };
  return { handler, close };
}

/** One for the process: bundlers may load this module several times. */
const shared: typeof globalThis & { everturn?: ReturnType<typeof open> } = globalThis;

export const { handler, close } = (shared.everturn ??= open());
