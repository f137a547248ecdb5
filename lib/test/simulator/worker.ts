// Runs a range of seeds in one process and prints one line of JSON for each hundred seeds and each seed with a
// violation. Started by `run.ts`.
//
// On a real database every seed runs on memory too: both runs must have the same numbers of events, writes and effects.

import type { SimulationOptions, SimulationReport } from "everturn/testing";

import { simulate } from "everturn/testing";

import { mutations } from "./mutations.ts";
import { simulateAsInMemory, simulatedStorage } from "./storages.ts";

type Settings = {
  readonly first?: number;
  readonly count?: number;
  readonly step?: number;
  readonly stopAtFirst?: boolean;
  /** Scripts are not shrunk. */
  readonly isWhole?: boolean;
  /** `memory`, `sqlite`, or the URL of a Postgres database. */
  readonly storage?: string;
  readonly mutation?: string;
  readonly extraFaults?: NonNullable<SimulationOptions["extraFaults"]>;
  /** Prints the transcript of this seed instead. */
  readonly transcript?: number;
};

const settings: Settings = JSON.parse(process.argv[2] ?? "{}");
const mutation = mutations.find(({ name }) => name === settings.mutation);
const options = {
  extraFaults: settings.extraFaults ?? [],
  ...(mutation !== undefined && "wrap" in mutation ? { wrap: mutation.wrap } : {}),
};
// Stacks of errors are not printed, and take a tenth of the time of a run.
Error.stackTraceLimit = 0;
const isMemory = (settings.storage ?? "memory") === "memory";
const { open, close } = simulatedStorage(settings.storage ?? "memory");

if (settings.transcript === undefined) {
  const { first = 1, count = 1, step = 1, stopAtFirst = false, isWhole = false } = settings;
  let counts: { [name: string]: number } = {};
  let seeds = 0;
  let fewestVerbs = Number.POSITIVE_INFINITY;
  const print = (failed: SimulationReport | null) => {
    console.log(JSON.stringify({ seeds, counts, fewestVerbs, failed }));
    counts = {};
    seeds = 0;
  };
  for (let index = 0; index < count; index += 1) {
    const seed = first + index * step;
    const report = isMemory
      ? await simulate({ seed, storage: open, ...options })
      : await simulateAsInMemory({ seed, storage: open, ...options });
    seeds += 1;
    fewestVerbs = Math.min(fewestVerbs, report.counts["verbs"] ?? 0);
    for (const [name, sum] of Object.entries(report.counts)) counts[name] = (counts[name] ?? 0) + sum;
    if (report.violations.length > 0) {
      const shrunk =
        stopAtFirst || isWhole || !isMemory
          ? report
          : await simulate({ seed, storage: open, ...options, shrink: true });
      print({ ...shrunk, transcript: null });
      if (stopAtFirst) break;
    }
    if (seeds === 100) print(null);
  }
  if (seeds > 0) print(null);
} else {
  const seed = settings.transcript;
  const { transcript, violations, script } = await simulate({
    seed,
    storage: open,
    ...options,
    transcript: true,
    shrink: true,
  });
  const isClean = violations.length === 0;
  const title = isClean ? "The script" : "The smallest script that violates the same rule";
  const lines = [
    ...(transcript ?? []),
    "",
    `${title} (the transcript above is that of its run):`,
    ...script.map((line) => `  ${line}`),
    "",
    isClean ? `seed ${seed} has no violation` : `seed ${seed} has violations:`,
    ...violations.map((line) => `  ${line}`),
  ];
  console.log(lines.join("\n"));
  process.exitCode = isClean ? 0 : 1;
}
await close();
