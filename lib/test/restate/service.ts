// A service process of the test with Restate. On a stop message it hands its turns over and ends.

import { runtime } from "everturn/runtime";

import { openStorage, slowAgent, WorldLog } from "../long/world.ts";
import { serveUntilStopped } from "./service-process.ts";

const [, , database = "", log = "", port = "", ingress = "", leaseMs = ""] = process.argv;
const { storage, close } = await openStorage(database);
const sessions = runtime({
  host: storage,
  engines: { default: slowAgent(new WorldLog(log)) },
  drive: false,
  // The processes are killed whatever the turns do, on a busy machine several times before a turn gets on.
  maxTakeovers: 50,
  ...(leaseMs === "" ? {} : { lease: { ttlMs: Number(leaseMs), renewMs: Number(leaseMs) / 4 } }),
});
await serveUntilStopped({ sessions, port, ingress, graceMs: 2000, close });
