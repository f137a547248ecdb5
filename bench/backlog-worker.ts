// A worker of the backlog benchmark: opens the file, waits for the message that starts the measurement, and drives
// turns until it is killed.

import type { TurnEnded } from "./backlog-agent.ts";
import type { HostStorage } from "everturn/runtime";

import { once } from "node:events";

import { runtime } from "everturn/runtime";

import { openStorage, scriptedAgent } from "./backlog-agent.ts";

const [, , path = "", toolSteps = "1", concurrency = "16", form = "path", modelMs = "0"] = process.argv;
const counts = { reads: 0, queries: 0, writes: 0, conflicts: 0, steps: 0 };

/** Counts queries and writes, and reports each turn that a write ends. */
function counted(storage: HostStorage): HostStorage {
  return {
    ...storage,
    read: (queries) => {
      counts.reads += 1;
      counts.queries += queries.length;
      return storage.read(queries);
    },
    write: async (batch) => {
      counts.writes += 1;
      const written = await storage.write(batch);
      if (!written.ok) counts.conflicts += 1;
      const ended = batch.puts.find(({ table, value }) => table === "turns" && value.includes(`"status":"ended"`));
      if (!written.ok || ended === undefined) return written;
      if (!ended.value.includes(`"haltedReason":"completed"`)) throw new Error(`a turn failed: ${ended.value}`);
      process.send?.({ at: Date.now(), ...counts } satisfies TurnEnded);
      return written;
    },
  };
}

const storage = openStorage(path, form === "handle" ? "handle" : "path");
const agent = scriptedAgent(
  Number(toolSteps),
  () => {
    counts.steps += 1;
  },
  Number(modelMs),
);
const sessions = runtime({ host: counted(storage), engines: { default: agent } });
const started = once(process, "message");
process.on("disconnect", () => process.exit(1));
process.send?.("ready");
await started;
await sessions.work({ concurrency: Number(concurrency), signal: new AbortController().signal });
