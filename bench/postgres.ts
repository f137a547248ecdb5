// `npm run bench:postgres`: a durable step on a Postgres server of its own, and turns and steps a second with several
// worker processes, each compared with the same rows in plain transactions. `npm run bench:backlog -- --postgres`
// measures backlogs, `npm run bench:streams` the delay of text deltas in another process.
//
//   --workers 1,2,4,8   the numbers of workers; empty: none
//   --turns 200         turns of each measurement
//   --seconds 30        the longest time of each
//   --no-steps          only the workers

import type { PostgresServer } from "../lib/test/postgres-server.ts";

import { parseArgs } from "node:util";

import { postgresStorage } from "everturn/postgres";
import { Client } from "pg";

import { startPostgres } from "../lib/test/postgres-server.ts";
import { benchSteps } from "./durable.ts";
import { benchWorkers } from "./postgres-workers.ts";

const { values: options } = parseArgs({
  options: {
    workers: { type: "string", default: "1,2,4,8" },
    turns: { type: "string", default: "200" },
    seconds: { type: "string", default: "30" },
    "no-steps": { type: "boolean", default: false },
  },
});

console.log(`Node ${process.version}, ${process.arch}`);
const server = await startPostgres({ fsync: "on", shared_buffers: "256MB", max_connections: "250" });
try {
  if (!options["no-steps"]) await measureSteps(server);
  const counts = options.workers.split(",").filter(Boolean).map(Number);
  if (counts.length > 0) await benchWorkers(server, counts, Number(options.turns), Number(options.seconds));
} finally {
  await server.close();
}

async function measureSteps({ url }: PostgresServer): Promise<void> {
  const storage = postgresStorage({ url: url() });
  const client = new Client({ connectionString: url() });
  await client.connect();
  await client.query("CREATE TABLE bare (id bigserial PRIMARY KEY, value text)");
  await benchSteps("Postgres", storage, (batches) => ({
    step: async () => {
      const text = "INSERT INTO bare (value) SELECT unnest($1::text[])";
      for (const values of batches) await client.query({ name: "bare", text, values: [values] });
    },
  }));
  const { reads, writes, roundTrips, notificationsSent } = storage.statistics();
  console.log(
    `\n  ${reads} reads and ${writes} writes took ${roundTrips} round trips and ${notificationsSent} notifications`,
  );
  await client.end();
  await storage.close();
}
