// The worker process of the demo: claims and drives open turns of this demo until it is killed or receives `stop`. It
// shares only the database file with the process that started it.

import type { WorkerSetup } from "./workers.ts";

import { openDatabase } from "@everturn/server";
import { runtime } from "everturn/runtime";

import { demoAgent, lease } from "./agent.ts";
import { SideEffectLog } from "./side-effect-log.ts";

const [, , setupJson = "{}"] = process.argv;
const { database: path, log: logPath, engine, model, config }: WorkerSetup = JSON.parse(setupJson);

// The terminal sends SIGINT to all processes of its group. The worker ignores it, and ends when its parent sends `stop`
// or disconnects.
process.on("SIGINT", () => undefined);
process.on("disconnect", () => process.exit(0));
const stop = new AbortController();
process.on("message", () => stop.abort());

const { storage, close } = await openDatabase(path);
const agent = await demoAgent({ model, config, environment: process.env, log: new SideEffectLog(logPath) });
const sessions = runtime({ host: storage, engines: { [engine]: agent }, durability: "durable", lease });
process.send?.("ready");
await sessions.work({ signal: stop.signal });
await sessions.close({ graceMs: 500 });
await close();
process.exit(0);
