// A worker that drives open turns until it is killed. On a stop message it shuts down gracefully and releases its
// leases.

import { runtime } from "everturn/runtime";

import { leaseOn, openStorage, slowAgent, WorldLog } from "./world.ts";

const [, , file = "", log = ""] = process.argv;
const { storage, close } = await openStorage(file);
const engines = { default: slowAgent(new WorldLog(log)) };
// The kills are not caused by the turns, so no turn is parked for them (Q17).
const sessions = runtime({ host: storage, engines, maxTakeovers: 1000, ...leaseOn(file) });
const stop = new AbortController();
process.on("message", () => stop.abort());
// Ends with its parent process.
process.on("disconnect", () => process.exit(1));
process.send?.("ready");
await sessions.work({ concurrency: 8, signal: stop.signal });
await sessions.close({ graceMs: 2000 });
await close();
process.disconnect();
