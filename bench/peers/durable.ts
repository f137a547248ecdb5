// The table of durable steps: Everturn beside two bare commits and other libraries, on SQLite and on a Postgres server
// of its own.

import type { StepCost, StepLine } from "./durable-worker.ts";
import type { Processes } from "./processes.ts";
import type { StepSample } from "./report.ts";

import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";

import { startPostgres } from "../../lib/test/postgres-server.ts";
import { shuffled } from "./processes.ts";

const lines: readonly { readonly storage: string; readonly line: StepLine; readonly name: string }[] = [
  { storage: "SQLite", line: "bare", name: "two bare commits" },
  { storage: "SQLite", line: "path", name: "Everturn (path)" },
  { storage: "SQLite", line: "handle", name: "Everturn (handle)" },
  { storage: "SQLite", line: "langGraph", name: "LangGraph" },
  { storage: "Postgres", line: "bare", name: "two bare commits" },
  { storage: "Postgres", line: "path", name: "Everturn" },
  { storage: "Postgres", line: "dbos", name: "DBOS" },
  { storage: "Postgres", line: "langGraph", name: "LangGraph" },
];

/** The turns of one sample: about as many steps for each N. */
const sizes = [
  { steps: 10, times: 20 },
  { steps: 100, times: 3 },
  { steps: 1000, times: 1 },
];

/** A step of LangGraph writes all messages before it: 1,000 steps are measured in one round only. */
const isMeasured = (line: StepLine, steps: number, round: number): boolean =>
  line !== "langGraph" || steps < 1000 || round === 0;

export async function measureDurable(processes: Processes, rounds: number): Promise<readonly StepSample[]> {
  const folder = mkdtempSync(join(tmpdir(), "everturn-bench-durable-"));
  const server = await startPostgres({ fsync: "on" });
  try {
    const workers = await Promise.all(
      lines.map(async ({ storage, line, name }) => {
        const place = storage === "Postgres" ? await server.createDatabase() : join(folder, `${line}.db`);
        return { storage, line, name, worker: await processes.start("durable-worker.ts", [storage, line, place]) };
      }),
    );
    for (const { worker } of workers) await worker.ask<StepCost>({ steps: 100, times: 3 });
    const samples: StepSample[] = [];
    for (let round = 0; round < rounds; round += 1) {
      for (const size of sizes) {
        for (const { storage, line, name, worker } of shuffled(workers)) {
          if (!isMeasured(line, size.steps, round)) continue;
          const cost = await worker.ask<StepCost>(size);
          samples.push({ storage, line: name, steps: size.steps, ...cost });
        }
      }
      console.error(`durable steps: round ${round + 1} of ${rounds}, load ${(loadavg()[0] ?? 0).toFixed(1)}`);
    }
    for (const { worker } of workers) worker.stop();
    const order = ({ storage, line }: StepSample) =>
      lines.findIndex((wanted) => wanted.storage === storage && wanted.name === line);
    return samples.toSorted((left, right) => order(left) - order(right));
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
