// `npm run bench:postgres`: a durable step on a Postgres server of its own, compared with the same rows in bare transactions. `npm run
// bench:backlog -- --postgres` measures workers and backlogs, `npm run bench:streams` the delay of text deltas in another process.

import { postgresStorage } from "everturn/host/postgres";
import { Client } from "pg";

import { startPostgres } from "../lib/test/postgres-server.ts";
import { benchSteps } from "./durable.ts";

console.log(`Node ${process.version}, ${process.arch}`);
const server = await startPostgres({ fsync: "on", shared_buffers: "256MB" });
try {
  const storage = postgresStorage({ url: server.url() });
  const client = new Client({ connectionString: server.url() });
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
} finally {
  await server.close();
}
