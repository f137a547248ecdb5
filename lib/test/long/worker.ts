// A worker that drives whatever nobody drives, until it is killed. Asked to stop, it hands over what it has.

import { runtime } from "everturn/runtime";

import { lease, openStorage, slowAgent, WorldLog } from "./world.ts";

const [, , file = "", log = ""] = process.argv;
const { storage, close } = openStorage(file);
const sessions = runtime({ host: storage, engines: { default: slowAgent(new WorldLog(log)) }, lease });
const stop = new AbortController();
process.on("message", () => stop.abort());
// Without the one that started it there is nobody left to work for.
process.on("disconnect", () => process.exit(1));
process.send?.("ready");
await sessions.work({ concurrency: 8, signal: stop.signal });
await sessions.close({ graceMs: 2000 });
close();
process.disconnect();
