// The long run of the simulator. Bundles a worker program, runs seeds in several processes, and prints every seed with
// a violation, shrunk, and how to run it again.
//
//   tsx --conditions=source lib/test/simulator/run.ts                       seeds on memory, SQLite and Postgres, then
//                                                                           every mutation
//   … run.ts seeds 100000 [first seed]                                      many seeds on memory
//   … run.ts seeds 300 1 sqlite | postgres                                  on a real database
//   … run.ts seed 77 [mutation]                                             one seed: its transcript, its script and
//                                                                           its violations. If it has some, the script
//                                                                           is shrunk first
//   … run.ts mutations [name,name]                                          every mutation, or some, until its first
//                                                                           violation, at most 1,000 seeds
//   … --faults=failover,far_clocks                                          after any of them: with faults that are off
//                                                                           by default (`extraFaults`)
//   … --whole                                                               after `seeds`: scripts are not shrunk,
//                                                                           which takes most of the time
//
// All files and processes are removed at the end.

import type { Mutation } from "./mutations.ts";
import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { build } from "vite";

import { startPostgres } from "../postgres-server.ts";
import { mutations } from "./mutations.ts";

/** How many verbs must reach a process in every seed. */
const fewestVerbs = 10;

/** The largest number of seeds in which a mutation must be found. */
const mutationSeeds = 1000;

const sources = join(import.meta.dirname, "../../src");
// A folder from which the packages of the worker can be resolved.
const programs = join(import.meta.dirname, "../../.snippets", `simulator-${process.pid}`);
const children = new Set<ChildProcess>();
const given = process.argv.slice(2);
const isWhole = given.includes("--whole");
const extraFaults = given.flatMap((text) => (text.startsWith("--faults=") ? text.slice(9).split(",") : []));

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(programs, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

/** Bundles the worker, with a mutation of the sources if it has one. Returns the path of the program. */
async function bundle(mutation: Mutation | null): Promise<string> {
  const name = mutation?.name ?? "unchanged";
  const outDir = join(programs, name);
  mkdirSync(outDir, { recursive: true });
  const conditions = ["source", "module", "node"];
  let replaced = 0;
  await build({
    logLevel: "error",
    configFile: false,
    resolve: { conditions },
    ssr: { resolve: { conditions }, noExternal: ["everturn"] },
    plugins: [
      {
        name: "mutation",
        // Before the types are removed.
        enforce: "pre",
        transform: (code, id) => {
          if (mutation === null || !("source" in mutation)) return null;
          const { file, replacements } = mutation.source;
          if (!id.endsWith(join(sources, file))) return null;
          replaced += 1;
          return replacements.reduce((text, [from, to]) => {
            if (text.split(from).length !== 2) throw new Error(`the mutation ${name} does not match ${file}`);
            return text.replace(from, () => to);
          }, code);
        },
      },
    ],
    build: {
      ssr: join(import.meta.dirname, "worker.ts"),
      outDir,
      emptyOutDir: false,
      minify: false,
      target: "node20",
      rolldownOptions: { output: { entryFileNames: "worker.mjs" } },
    },
  });
  if (mutation !== null && "source" in mutation && replaced === 0)
    throw new Error(`the mutation ${name} changed nothing`);
  return join(outDir, "worker.mjs");
}

/** A line that the worker prints. */
type Line = {
  readonly seeds: number;
  readonly counts: { readonly [name: string]: number };
  /** The smallest number of verbs that reached a process in one of the seeds so far. */
  readonly fewestVerbs: number;
  readonly failed: {
    readonly seed: number;
    readonly violations: readonly string[];
    readonly script: readonly string[];
  } | null;
};

type Totals = {
  seeds: number;
  fewestVerbs: number;
  readonly counts: Map<string, number>;
  readonly failed: NonNullable<Line["failed"]>[];
};

function noTotals(): Totals {
  return { seeds: 0, fewestVerbs: Number.POSITIVE_INFINITY, counts: new Map(), failed: [] };
}

/** Runs a range of seeds in a process. `stopAtFirst`: until the first violation. */
async function runRange(
  program: string,
  range: { readonly first: number; readonly count: number; readonly step: number; readonly stopAtFirst: boolean },
  settings: { readonly storage: string; readonly mutation: string; readonly extraFaults?: readonly string[] },
  totals: Totals,
): Promise<void> {
  // A larger young generation: most objects of a run live as long as the run.
  const args = ["--max-semi-space-size=32", program, JSON.stringify({ ...range, extraFaults, isWhole, ...settings })];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  const exit = once(child, "exit");
  for await (const text of createInterface({ input: child.stdout })) {
    const { seeds, counts, fewestVerbs, failed }: Line = JSON.parse(text);
    totals.seeds += seeds;
    totals.fewestVerbs = Math.min(totals.fewestVerbs, fewestVerbs);
    for (const [name, count] of Object.entries(counts)) totals.counts.set(name, (totals.counts.get(name) ?? 0) + count);
    if (failed === null) continue;
    totals.failed.push(failed);
    if (range.stopAtFirst) continue;
    console.log(
      [
        `seed ${failed.seed} has violations:`,
        ...failed.violations.slice(0, 4).map((line) => `  ${line}`),
        settings.storage === "memory" && !isWhole
          ? "  the smallest script that violates the same rule:"
          : "  the script:",
        ...failed.script.map((line) => `    ${line}`),
        "  run it again, with a transcript:",
        `    npx tsx --conditions=source lib/test/simulator/run.ts seed ${failed.seed}`,
      ].join("\n"),
    );
  }
  const [code]: readonly unknown[] = await exit;
  children.delete(child);
  if (code !== 0) throw new Error(`a worker ended with ${String(code)}`);
}

/** `storage`: `memory`, `sqlite` or the URL of a Postgres database, which `label` names in the output. */
async function runSeeds(count: number, first: number, storage: string, label = storage): Promise<boolean> {
  const program = await bundle(null);
  const began = performance.now();
  const totals = noTotals();
  const workers = storage === "memory" ? availableParallelism() : 1;
  const print = () => {
    const seconds = (performance.now() - began) / 1000;
    const rate = (totals.seeds / seconds).toFixed(1);
    const failed = totals.failed.length;
    console.log(
      `${label}: ${totals.seeds} seeds in ${seconds.toFixed(0)} s (${rate} a second), ${failed} with violations`,
    );
  };
  const progress = setInterval(print, 60_000);
  await Promise.all(
    Array.from({ length: workers }, (_, index) =>
      runRange(
        program,
        { first: first + index, count: Math.ceil((count - index) / workers), step: workers, stopAtFirst: false },
        { storage, mutation: "" },
        totals,
      ),
    ),
  );
  clearInterval(progress);
  print();
  console.log(`  ${[...totals.counts].map(([name, sum]) => `${name} ${sum}`).join(", ")}`);
  console.log(`  at least ${totals.fewestVerbs} verbs in every seed`);
  return totals.failed.length === 0 && totals.fewestVerbs >= fewestVerbs;
}

/** Runs every mutation until its first violation. Returns whether all were found. */
async function runMutations(only: string | null): Promise<boolean> {
  let allFound = true;
  for (const mutation of mutations) {
    if (only !== null && !only.split(",").includes(mutation.name)) continue;
    const program = await bundle(mutation);
    const totals = noTotals();
    const range = { first: 1, count: mutationSeeds, step: 1, stopAtFirst: true };
    const extra = mutation.extraFaults === undefined ? {} : { extraFaults: mutation.extraFaults };
    await runRange(program, range, { storage: "memory", mutation: mutation.name, ...extra }, totals);
    const [found] = totals.failed;
    const [violation = ""] = found?.violations ?? [];
    const isFound = found !== undefined && violation.startsWith(mutation.rule ?? "");
    if (!isFound) allFound = false;
    const rules = [...new Set(found?.violations.map((text) => text.split(":")[0]))];
    const where =
      found === undefined
        ? `NOT FOUND in ${mutationSeeds} seeds`
        : `seed ${found.seed}, by ${rules.join(", ")}: ${violation.slice(0, 160)}`;
    console.log(`mutation ${mutation.name}: ${where}${isFound ? "" : ` (expected: ${mutation.rule ?? "any rule"})`}`);
  }
  return allFound;
}

async function runOnPostgres(count: number, first: number): Promise<boolean> {
  const server = await startPostgres();
  try {
    return await runSeeds(count, first, await server.createDatabase(), "postgres");
  } finally {
    await server.close();
  }
}

async function main(): Promise<boolean> {
  const [what = "all", first = "", second = "1", storage = "memory"] = given.filter((text) => !text.startsWith("--"));
  switch (what) {
    case "seed": {
      const mutation = mutations.find(({ name }) => name === second) ?? null;
      const program = await bundle(mutation);
      const args = [
        program,
        JSON.stringify({ transcript: Number(first), extraFaults, mutation: mutation?.name ?? "" }),
      ];
      const child = spawn(process.execPath, args, { stdio: "inherit" });
      children.add(child);
      const [code]: readonly unknown[] = await once(child, "exit");
      return code === 0;
    }
    case "seeds": {
      if (storage === "postgres") return runOnPostgres(Number(first), Number(second));
      return runSeeds(Number(first), Number(second), storage);
    }
    case "mutations":
      return runMutations(first === "" ? null : first);
    default: {
      const results = [
        await runSeeds(10_000, 1, "memory"),
        await runSeeds(300, 1, "sqlite"),
        await runOnPostgres(200, 1),
        await runMutations(null),
      ];
      return results.every((isClean) => isClean);
    }
  }
}

process.exit((await main()) ? 0 : 1);
