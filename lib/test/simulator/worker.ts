// Runs a range of seeds in one process and prints one line of JSON for each hundred seeds and each seed with a violation. Started by `run.ts`.

import type { SimulationReport } from "everturn/testing";

import { memoryStorage } from "everturn/host/memory";
import { simulate } from "everturn/testing";

import { mutations } from "./mutations.ts";

type Settings = {
  readonly first?: number;
  readonly count?: number;
  readonly step?: number;
  readonly stopAtFirst?: boolean;
  readonly storage?: string;
  readonly mutation?: string;
  /** Prints the transcript of this seed instead. */
  readonly transcript?: number;
};

const settings: Settings = JSON.parse(process.argv[2] ?? "{}");
const mutation = mutations.find(({ name }) => name === settings.mutation);
const wrap = mutation !== undefined && "wrap" in mutation ? { wrap: mutation.wrap } : {};

async function run(
  seed: number,
  options: { readonly transcript?: boolean; readonly shrink?: boolean },
): Promise<SimulationReport> {
  return simulate({ seed, storage: (clock) => memoryStorage({ clock }), ...wrap, ...options });
}

if (settings.transcript !== undefined) {
  const { transcript, violations, script } = await run(settings.transcript, { transcript: true });
  console.log([...(transcript ?? []), "", ...script, "", ...violations].join("\n"));
} else {
  const { first = 1, count = 1, step = 1, stopAtFirst = false } = settings;
  let counts: { [name: string]: number } = {};
  let seeds = 0;
  const print = (failed: SimulationReport | null) => {
    console.log(JSON.stringify({ seeds, counts, failed }));
    counts = {};
    seeds = 0;
  };
  for (let index = 0; index < count; index += 1) {
    const seed = first + index * step;
    const report = await run(seed, { shrink: !stopAtFirst });
    seeds += 1;
    for (const [name, sum] of Object.entries(report.counts)) counts[name] = (counts[name] ?? 0) + sum;
    if (report.violations.length > 0) print({ ...report, transcript: null });
    if (report.violations.length > 0 && stopAtFirst) break;
    if (seeds === 100) print(null);
  }
  if (seeds > 0) print(null);
}
