// A worker that drives open turns until it is killed. On a stop message it shuts down gracefully and releases its
// leases.
//
//   … worker.ts <database> <log> [window] [session]
//
// `window`: the engine has a context policy with this window, in tokens. `session`: the worker starts it first.

import { runtime } from "everturn/runtime";

import { leaseOn, openStorage, slowAgent, WorldLog } from "./world.ts";

const [, , file = "", log = "", window = "", first = ""] = process.argv;
const { storage, close } = await openStorage(file);
const engines = { default: slowAgent(new WorldLog(log), window === "" ? undefined : { window: Number(window) }) };
// The kills are not caused by the turns, so no turn is parked for them (Q17).
const sessions = runtime({ host: storage, engines, maxTakeovers: 1000, ...leaseOn(file) });
const stop = new AbortController();
process.on("message", () => stop.abort());
// Ends with its parent process.
process.on("disconnect", () => process.exit(1));
if (first !== "") await sessions.start(`hello ${first}`, { id: first });
process.send?.("ready");
await sessions.work({ concurrency: 8, signal: stop.signal });
await sessions.close({ graceMs: 2000 });
await close();
process.disconnect();
