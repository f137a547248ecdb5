// The server under test, in a process of its own. What it costs is told to whoever asks; SIGTERM stops it as a deploy would.

import type { HttpLimits } from "everturn/http";
import type { RuntimeOptions } from "everturn/runtime";

import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";

import { openDatabase } from "../../src/database.ts";
import { startServer } from "../../src/serve.ts";
import { answerAsked } from "./measure.ts";
import { pacedAgent, WorldLog } from "./paced-model.ts";

/** What the server is started with, as JSON. */
export type ServerPlan = {
  /** The SQLite file; `null`: everything is in memory. */
  readonly file: string | null;
  readonly port: number;
  /** Where the model writes down what it does. */
  readonly log: string | null;
  readonly lease: NonNullable<RuntimeOptions["lease"]>;
  readonly limits: Partial<HttpLimits>;
  /** How long turns may go on after SIGTERM. */
  readonly graceMs: number;
};

const plan: ServerPlan = JSON.parse(process.argv[2] ?? "");
const opened = plan.file === null ? null : await openDatabase(plan.file);
const host = opened === null ? memoryStorage() : opened.storage;
const agent = pacedAgent(plan.log === null ? null : new WorldLog(plan.log));
const sessions = runtime({ host, engines: { default: agent }, lease: plan.lease });
const server = await startServer({ sessions, auth: "none", port: plan.port, limits: plan.limits });

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await server.close({ graceMs: plan.graceMs });
  await opened?.close();
  process.disconnect();
}

answerAsked();
process.on("SIGTERM", () => void stop());
// Without the one that started it there is nobody left to serve.
process.on("disconnect", () => stopping || process.exit(1));
process.send?.({ port: server.port });
