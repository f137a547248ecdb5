// The worker process of the scenario "Crash and recovery": starts the turn in the database of the server, drives it,
// and reports when the second reply has begun. The server then kills it. It loads no configuration file and no tools of
// the user.
//
// Messages: the parent sends a `CrashSetup`; this process sends "started" when the turn is stored, and "replying" in
// the middle of the second reply.

import type { CrashSetup } from "./crash.ts";

import { once } from "node:events";

import { runtime } from "everturn/runtime";

import { openDatabase } from "../database.ts";
import { scenarioEngine, scenarioEngineName } from "./engine.ts";

/** How many characters of the second reply are written before the parent is notified. */
const charactersBeforeKill = 220;

/** A short lease: the server takes the turn over when it ends. Long enough for a busy machine to renew it in time. */
const lease = { ttlMs: 1200, renewMs: 200 } as const;

// The terminal sends SIGINT to all processes of its group. This one ends with its parent.
process.on("SIGINT", () => undefined);
process.on("disconnect", () => process.exit(0));

const [setup]: readonly unknown[] = await once(process, "message");
if (!isSetup(setup)) throw new Error("the parent process sent no setup");
const { database, sessionId, prompt, paceMs } = setup;
const { storage } = await openDatabase(database);
const sessions = runtime({
  host: storage,
  engines: { [scenarioEngineName]: scenarioEngine(paceMs) },
  durability: "durable",
  lease,
  owner: `scenario-${process.pid}`,
});
await sessions.start(prompt, { id: sessionId, engine: scenarioEngineName });
process.send?.("started");

let replies = 0;
let received = 0;
for await (const { event } of sessions.events(sessionId)) {
  if (event.type === "message_completed") replies += 1;
  if (event.type !== "text_delta" || replies !== 1) continue;
  const before = received;
  received += event.delta.length;
  if (before < charactersBeforeKill && received >= charactersBeforeKill) process.send?.("replying");
}

function isSetup(value: unknown): value is CrashSetup {
  return typeof value === "object" && value !== null && "database" in value && "sessionId" in value;
}
