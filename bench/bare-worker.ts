// A process of `npm run bench:postgres` that writes rows with plain `pg`, without the library: as many rows of the same
// values in as many transactions as a turn.

import { once } from "node:events";

import { Pool } from "pg";

/** The values of the rows of a turn, by transaction. */
export type Batches = readonly (readonly string[])[];

/** What the parent process sends. */
export type BareWork = { readonly url: string; readonly batches: Batches; readonly concurrency: number };

const [work]: readonly BareWork[] = await once(process, "message");
if (work === undefined) throw new Error("the parent process sent nothing");
const { url, batches, concurrency } = work;
const pool = new Pool({ connectionString: url, max: 20 });
process.on("disconnect", () => process.exit(1));
const started = once(process, "message");
process.send?.("ready");
await started;
const text = "INSERT INTO bare (value) SELECT unnest($1::text[])";
await Promise.all(
  Array.from({ length: concurrency }, async () => {
    for (;;) {
      for (const values of batches) await pool.query({ name: "bare", text, values: [values] });
      process.send?.("turn");
    }
  }),
);
