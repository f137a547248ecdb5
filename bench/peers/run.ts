// `npm run bench:peers`: what Everturn costs beside raw `fetch`, beside other libraries and beside bare commits. The
// package is packed and installed with the other libraries, and with the Node that all of them run on, in a folder of
// the system's temporary folder. Writes `bench/RESULTS.md` and prints the ratios that are worse than the recorded ones.
//
//   --rounds 3     interleaved rounds          --only memory|durable    one of the two tables
//   --no-install   the folder of the last run is used, with the package of the last run
//   --lines raw,everturn                       some of the contenders
//   --phases delta,request,loop100,loop1000,paced500,paced2000
//   --record       the ratios of this run become the recorded ones
//   --no-write     only prints

import type { Sample } from "./report.ts";
import type { Command, Cost } from "./worker.ts";

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { pack } from "../../tools/package/packed.ts";
import { compareWithRecorded, record } from "../recorded.ts";
import { measureDurable } from "./durable.ts";
import { processesIn, shuffled } from "./processes.ts";
import { guardedRatios, report } from "./report.ts";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    only: { type: "string" },
    lines: { type: "string", default: "raw,everturn,officialSdk,aiSdk,pi" },
    phases: { type: "string", default: "delta,request,loop100,loop1000,paced500,paced2000" },
    "no-install": { type: "boolean", default: false },
    "no-write": { type: "boolean", default: false },
    record: { type: "boolean", default: false },
  },
});

const versions = {
  "@ai-sdk/anthropic": "4.0.102",
  "@ai-sdk/openai": "4.0.114",
  "@ai-sdk/openai-compatible": "3.0.90",
  "@anthropic-ai/sdk": "1.8.0",
  "@dbos-inc/dbos-sdk": "5.3.0",
  "@earendil-works/pi-agent-core": "0.87.1",
  "@earendil-works/pi-ai": "0.87.1",
  "@langchain/core": "1.2.13",
  "@langchain/langgraph": "1.4.18",
  "@langchain/langgraph-checkpoint-postgres": "1.0.5",
  "@langchain/langgraph-checkpoint-sqlite": "1.0.4",
  ai: "7.0.169",
  "better-sqlite3": "13.0.3",
  langchain: "1.5.14",
  libsql: "0.5.29",
  node: "24.21.0",
  openai: "7.53.0",
  pg: "8.23.1",
  zod: "4.6.7",
};

/** Versions that other packages of the run ask for, where the registry does not have the ones that they name. */
const overrides = { "@langchain/protocol": "0.0.19", "better-sqlite3": "13.0.3" };

const protocols = ["chat", "responses", "anthropic"];
const paced = (streams: number) => ({ type: "paced", streams, count: 40, ms: 100 }) as const;

type Phase = { readonly command: Command; readonly warmUp: Command; readonly protocols: readonly string[] };

const deltas = (count: number, times: number) => ({ type: "deltas", count, times }) as const;
const loop = (turns: number, times: number) => ({ type: "loop", turns, times }) as const;
const phases: { readonly [name: string]: Phase } = {
  delta: { command: deltas(5000, 8), warmUp: deltas(5000, 15), protocols },
  request: { command: deltas(1, 500), warmUp: deltas(1, 4000), protocols },
  loop100: { command: loop(100, 2), warmUp: loop(100, 12), protocols },
  loop1000: { command: loop(1000, 1), warmUp: loop(100, 5), protocols },
  paced500: { command: paced(500), warmUp: paced(500), protocols: ["chat", "anthropic"] },
  paced2000: { command: paced(2000), warmUp: paced(2000), protocols: ["chat", "anthropic"] },
};

const folder = join(tmpdir(), "everturn-bench-peers");
if (!options["no-install"]) await install();
const node = join(folder, "node_modules/node/bin/node");
if (!existsSync(node)) throw new Error(`${node} is missing: run without --no-install`);
const processes = processesIn(folder, node);
const rounds = Number(options.rounds);
const started = { at: new Date(), load: loadavg() };

const memory = options.only === "durable" ? [] : await measureMemory();
const durable = options.only === "memory" ? [] : await measureDurable(processes, rounds);
const text = report({ started, rounds, versions: installedVersions(), memory, durable });
console.log(text);
if (!options["no-write"]) writeFileSync(new URL("../RESULTS.md", import.meta.url), text);
const ratios = guardedRatios(memory, durable);
if (options.record) record(ratios);
else compareWithRecorded(ratios);

async function install(): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const { path } = await pack(folder);
  const dependencies = { ...versions, everturn: `file:${path}` };
  const manifest = JSON.stringify({ private: true, type: "module", dependencies, overrides });
  writeFileSync(join(folder, "package.json"), manifest);
  // npm would keep the package of an earlier run: packages of one version have one file name.
  const quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", "--legacy-peer-deps"];
  execFileSync("npm", ["uninstall", ...quiet, "everturn"], { cwd: folder, stdio: "inherit" });
  writeFileSync(join(folder, "package.json"), manifest);
  execFileSync("npm", ["install", ...quiet], { cwd: folder, stdio: "inherit" });
  for (const file of readdirSync(import.meta.dirname)) cpSync(join(import.meta.dirname, file), join(folder, file));
}

function installedVersions(): { readonly [name: string]: string } {
  const names = ["everturn", ...Object.keys(versions)];
  return Object.fromEntries(
    names.map((name) => {
      const manifest: { readonly version: string } = JSON.parse(
        readFileSync(join(folder, "node_modules", name, "package.json"), "utf8"),
      );
      return [name, manifest.version];
    }),
  );
}

async function measureMemory(): Promise<readonly Sample[]> {
  const provider = await processes.start("provider.ts", []);
  const baseURL = `http://127.0.0.1:${provider.ready.port}/v1`;
  const bytesSent = async () => {
    const { bytes }: { readonly bytes: number } = JSON.parse(await (await fetch(new URL("/stats", baseURL))).text());
    return bytes;
  };
  const samples: Sample[] = [];
  const lines = options.lines.split(",");
  for (const name of options.phases.split(",")) {
    const phase = phases[name];
    if (phase === undefined) throw new Error(`there is no phase ${name}`);
    const pairs = phase.protocols.flatMap((protocol) => lines.map((line) => ({ line, protocol })));
    // A paced run is measured in a fresh process; other runs share one, so that their code is compiled.
    const isFresh = phase.command.type === "paced";
    const start = async ({ line, protocol }: (typeof pairs)[number]) =>
      processes.start("worker.ts", [line, protocol, baseURL]);
    const workers = isFresh ? [] : await Promise.all(pairs.map(start));
    for (const worker of workers) await worker.ask<Cost>(phase.warmUp);
    for (let round = 0; round < rounds; round += 1) {
      for (const pair of shuffled(pairs)) {
        const worker = workers[pairs.indexOf(pair)] ?? (await start(pair));
        const before = await bytesSent();
        const cost = await worker.ask<Cost>(phase.command);
        samples.push({ phase: name, ...pair, ...cost, sent: (await bytesSent()) - before, load: loadavg()[0] ?? 0 });
        if (isFresh) worker.stop();
      }
      console.error(`${name}: round ${round + 1} of ${rounds}, load ${(loadavg()[0] ?? 0).toFixed(1)}`);
    }
    for (const { stop } of workers) stop();
    // What was measured is kept if a later phase fails or is interrupted.
    writeFileSync(join(folder, "samples.json"), JSON.stringify(samples));
  }
  provider.stop();
  const order = (sample: Sample) =>
    (Object.keys(phases).indexOf(sample.phase) * 10 + protocols.indexOf(sample.protocol)) * 10 +
    lines.indexOf(sample.line);
  return samples.toSorted((left, right) => order(left) - order(right));
}
