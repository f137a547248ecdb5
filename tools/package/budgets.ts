// The budgets of the package, and how each is measured. `npm run check:package` fails above a limit.
//
// Time on a busy machine: the cost of an import is the CPU time of a process that imports the package, less that of a process that does nothing, each the
// least of several runs that alternate. Load inflates both: processes share caches and the units of a core. On a machine where Node itself starts slower
// than in 42 ms, the limit grows in the same proportion (`importShare`). The measurement ends as soon as it is within the limit.

import type { Tarball } from "./packed.ts";

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { rolldown } from "rolldown";

export type Measurement = {
  readonly name: string;
  readonly value: number;
  readonly limit: number;
  readonly unit: string;
};

/** What most applications begin with: an engine with a provider and a tool, and a stream. */
const helloWorld = `
  import { engine, openai, stream, tool } from "everturn";
  const clock = tool({ name: "clock", description: "The time.", schema: { type: "object" }, handler: () => new Date().toISOString() });
  const agent = engine({ adapter: openai({ apiKey: "key" }), model: "gpt-6.1-sol", tools: [clock] });
  for await (const event of stream(agent, "What time is it?")) console.log(event);
`;

/** A turn machine that an application drives itself. */
const kernelOnly = `
  import { TurnMachine } from "everturn/kernel";
  console.log(TurnMachine);
`;

const limits = {
  unpackedBytes: 2_500_000,
  files: 150,
  importMs: 25,
  /** The cost of an import as a part of the CPU time of a bare start. */
  importShare: 0.6,
  /** In 1,000 bytes, minified and compressed with gzip. The goal is 55, then 25. */
  helloWorldKb: 70,
  /** The goal is 12. */
  kernelKb: 25,
};

/** Measures a packed package that is unpacked in `project`. */
export async function measure(tarball: Tarball, project: string): Promise<readonly Measurement[]> {
  const [hello, kernel] = [await bundleSize(helloWorld, project), await bundleSize(kernelOnly, project)];
  return [
    { name: "unpacked size", value: tarball.unpackedSize, limit: limits.unpackedBytes, unit: "bytes" },
    { name: "files", value: tarball.files.length, limit: limits.files, unit: "" },
    importCost(project),
    { name: "hello world, first chunks", value: hello.first, limit: limits.helloWorldKb, unit: "KB gzip" },
    { name: "kernel alone", value: kernel.first, limit: limits.kernelKb, unit: "KB gzip" },
  ];
}

/** The size of a program for a browser: of what is loaded at once, without the chunks of dynamic imports. */
async function bundleSize(program: string, project: string): Promise<{ readonly first: number }> {
  const entry = "program.js";
  const bundle = await rolldown({
    cwd: project,
    input: entry,
    platform: "browser",
    external: [/^node:/],
    plugins: [
      {
        name: "program",
        resolveId: (id) => (id === entry ? join(project, entry) : null),
        load: (id) => (id === join(project, entry) ? program : null),
      },
    ],
  });
  const { output } = await bundle.generate({ format: "esm", minify: true });
  await bundle.close();
  const chunks = new Map(output.flatMap((file) => (file.type === "chunk" ? [[file.fileName, file] as const] : [])));
  const first = new Set([...chunks.values()].filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName));
  for (const name of first)
    for (const imported of chunks.get(name)?.imports ?? []) if (chunks.has(imported)) first.add(imported);
  const bytes = [...first].map((name) => gzipSync(chunks.get(name)?.code ?? "").length);
  return { first: bytes.reduce((total, size) => total + size, 0) / 1000 };
}

/** The CPU time that the import of `everturn` adds to a new process. */
function importCost(project: string): Measurement {
  const maxRuns = 40;
  const print = "const { user, system } = process.cpuUsage(); console.log((user + system) / 1000);";
  const cpuTime = (code: string) =>
    Number(
      execFileSync(process.execPath, ["--input-type=module", "-e", code + print], { cwd: project, encoding: "utf8" }),
    );
  let [bare, importing] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const measurement = () => ({
    name: `cold import of everturn, beside ${inWords(bare)} ms of a bare start`,
    value: importing - bare,
    limit: Math.max(limits.importMs, limits.importShare * bare),
    unit: "ms CPU",
  });
  for (let runs = 1; runs <= maxRuns; runs += 1) {
    bare = Math.min(bare, cpuTime(""));
    importing = Math.min(importing, cpuTime(`await import("everturn");`));
    if (runs >= 5 && isWithin(measurement())) break;
  }
  return measurement();
}

export function isWithin({ value, limit }: Measurement): boolean {
  return value <= limit;
}

/** The measurement in words. */
export function describe({ name, value, limit, unit }: Measurement): string {
  return `${name}: ${inWords(value)} ${unit}`.trimEnd() + ` (limit ${inWords(limit)})`;
}

function inWords(amount: number): string {
  return amount.toLocaleString("en-US", { maximumFractionDigits: 1 });
}
