// The server under test, as a separate process. It answers control messages (measure.ts); SIGTERM stops it gracefully,
// as in a deploy.

import type { HttpLimits } from "everturn/http";
import type { RuntimeOptions } from "everturn/runtime";

import { memoryStorage, runtime } from "everturn/runtime";

import { trialDialect } from "../../../../lib/test/trial-dialect.ts";
import { openDatabase } from "../../src/database.ts";
import { startServer } from "../../src/serve.ts";
import { serveControlMessages } from "./measure.ts";
import { pacedAgent, SideEffectLog } from "./paced-model.ts";

/** The argument of the process, as JSON. */
export type ServerPlan = {
  /** The SQLite file; `null`: a storage in memory. */
  readonly file: string | null;
  readonly port: number;
  /** The path of the side-effect log. */
  readonly log: string | null;
  readonly lease: NonNullable<RuntimeOptions["lease"]>;
  readonly limits: Partial<HttpLimits>;
  /** The keys of callers; none: no authentication. */
  readonly keys: readonly { readonly tenant: string; readonly token: string }[];
  /** The grace period after SIGTERM, in milliseconds. */
  readonly graceMs: number;
};

const plan: ServerPlan = JSON.parse(process.argv[2] ?? "");
const opened = plan.file === null ? null : await openDatabase(plan.file);
const host = opened === null ? memoryStorage() : opened.storage;
const agent = pacedAgent(plan.log === null ? null : new SideEffectLog(plan.log));
const sessions = runtime({ host, engines: { default: agent }, lease: plan.lease });
const server = await startServer({
  sessions,
  auth: plan.keys.length === 0 ? "none" : plan.keys,
  port: plan.port,
  limits: plan.limits,
  dialects: [trialDialect(async (routed) => (await routed.get("big", { messages: 200 })) ?? {})],
});

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await server.close({ graceMs: plan.graceMs });
  await opened?.close();
  process.disconnect();
}

serveControlMessages();
process.on("SIGTERM", () => void stop());
// The parent process has ended.
process.on("disconnect", () => stopping || process.exit(1));
process.send?.({ port: server.port });
