// A worker that drives open turns until it is killed. On a stop message it shuts down gracefully and releases its leases.

import { runtime } from "everturn/runtime";

import { lease, openStorage, slowAgent, WorldLog } from "./world.ts";

const [, , file = "", log = ""] = process.argv;
const { storage, close } = openStorage(file);
const sessions = runtime({ host: storage, engines: { default: slowAgent(new WorldLog(log)) }, lease });
const stop = new AbortController();
process.on("message", () => stop.abort());
// Ends with its parent process.
process.on("disconnect", () => process.exit(1));
process.send?.("ready");
await sessions.work({ concurrency: 8, signal: stop.signal });
await sessions.close({ graceMs: 2000 });
close();
process.disconnect();
