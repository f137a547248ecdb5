// A worker, as a process of its own: it drives whatever turn of the demo nobody drives, until it is killed or told to stop. It knows the database and
// nothing else of the process that started it.

import type { WorkerSetup } from "./workers.ts";

import { openDatabase } from "@everturn/server";
import { runtime } from "everturn/runtime";

import { demoAgent, lease } from "./agent.ts";
import { WorldLog } from "./world-log.ts";

const [, , given = "{}"] = process.argv;
const { database: path, world: log, engine, model, config }: WorkerSetup = JSON.parse(given);

// Ctrl-C reaches every process of the terminal; this one ends when the one that started it says so, or is gone.
process.on("SIGINT", () => undefined);
process.on("disconnect", () => process.exit(0));
const stop = new AbortController();
process.on("message", () => stop.abort());

const { storage, close } = await openDatabase(path);
const agent = await demoAgent({ model, config, environment: process.env, world: new WorldLog(log) });
const sessions = runtime({ host: storage, engines: { [engine]: agent }, durability: "durable", lease });
process.send?.("ready");
await sessions.work({ signal: stop.signal });
await sessions.close({ graceMs: 500 });
await close();
process.exit(0);
