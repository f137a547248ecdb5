// The budgets of the package, and how each is measured. `npm run check:package` fails above a limit. Sizes of bundled
// programs are printed and have no limit (docs/decisions/0053).
//
// Time on a busy machine: the cost of an import is the CPU time of a process that imports the package, less that of a
// process that does nothing, each the least of several runs that alternate. Load inflates both: processes share caches
// and the units of a core. On a machine where Node itself starts slower than in 42 ms, the limit grows in the same
// proportion (`importShare`). The measurement ends as soon as it is within the limit.

import type { Tarball } from "./packed.ts";
import type { OutputChunk, Plugin } from "rolldown";

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { rolldown } from "rolldown";

export type Measurement = {
  readonly name: string;
  readonly value: number;
  /** `null`: the value is printed and not limited. */
  readonly limit: number | null;
  readonly unit: string;
};

/** Programs whose size users care about, by name. */
export const programs = {
  /** What most applications begin with: an engine with a provider and a tool, and a stream. */
  hello: `
    import { engine, openai, stream, tool } from "everturn";
    const clock = tool({ name: "clock", description: "The time.", schema: { type: "object" }, handler: () => new Date().toISOString() });
    const agent = engine({ adapter: openai({ apiKey: "key" }), model: "gpt-6.1-sol", tools: [clock] });
    for await (const event of stream(agent, "What time is it?")) console.log(event);
  `,
  /** The turn machine, for an application with a protocol and a projector of its own. */
  machine: `
    import { TurnMachine } from "everturn/advanced";
    console.log(TurnMachine);
  `,
  /** A turn with tools that an application drives itself. */
  turn: `
    import { checkpointDelivered, modelReplied, toolReturned, turnConfig, turnInput, TurnMachine } from "everturn/advanced";
    export function run(tools, messages, callModel, callTool) {
      const machine = TurnMachine.start(turnConfig({ toolSpecs: tools }), turnInput("turn", { messages }));
      while (!machine.isDone) {
        const next = machine.pollEffect();
        if (next?.type === "call_model") machine.handleResponse(modelReplied(next.id, callModel(next.request)));
        if (next?.type === "call_tool") machine.handleResponse(toolReturned(next.id, { type: "success", value: callTool(next.call), control: null }));
        if (next?.type === "checkpoint") machine.handleResponse(checkpointDelivered(next.id));
      }
      return machine.checkpoint();
    }
  `,
  /** Everything that the entry point for other builders exports. */
  kernel: `export * from "everturn/advanced";`,
};

const limits = {
  /** With source maps, the studio and the guides: 12 MiB. */
  unpackedBytes: 12 * 1024 * 1024,
  importMs: 30,
  /** The cost of an import as a part of the CPU time of a bare start. */
  importShare: 0.85,
};

/** Measures a packed package that is unpacked in `project`. */
export async function measure(tarball: Tarball, project: string): Promise<readonly Measurement[]> {
  const size = async (name: string, program: keyof typeof programs, inOneFile = false): Promise<Measurement> => {
    const { first } = await bundle(programs[program], project, inOneFile);
    return { name, value: chunksSize(first) / 1000, limit: null, unit: "KB gzip" };
  };
  const unpackedSize = tarball.files.reduce((total, path) => total + (tarball.sizes.get(path) ?? 0), 0);
  return [
    { name: "unpacked size", value: unpackedSize, limit: limits.unpackedBytes, unit: "bytes" },
    { name: "files", value: tarball.files.length, limit: null, unit: "" },
    { name: "studio, without fonts and maps", value: studioSize(tarball, project), limit: null, unit: "KB gzip" },
    importCost(project),
    await size("hello world, first chunks", "hello"),
    await size("hello world, one file", "hello", true),
    await size("kernel, the machine", "machine"),
    await size("kernel, a turn with tools", "turn"),
    await size("advanced, all exports", "kernel"),
  ];
}

/** The page of the studio with everything that a browser may load of it, besides fonts, in 1,000 bytes. */
function studioSize(tarball: Tarball, project: string): number {
  const assets = tarball.files.filter((path) => /^studio\/.*\.(?:js|css|html|svg)$/.test(path));
  const contents = assets.map((path) => readFileSync(join(project, "node_modules/everturn", path)));
  return contents.reduce((total, content) => total + gzipSync(content).length, 0) / 1000;
}

type Chunk = { readonly fileName: string; readonly code: string; readonly modules: OutputChunk["modules"] };

/**
 * Bundles a program for a browser. `first`: the chunks that are loaded at once, without those of dynamic imports. With
 * `inOneFile` there is one chunk, which contains the dynamic imports as well. Plugins and conditions are for a bundle
 * from the sources.
 */
export async function bundle(
  program: string,
  project: string,
  inOneFile: boolean,
  { plugins = [], conditions = [], minify = true }: Partial<Parts> = {},
): Promise<{ readonly first: readonly Chunk[] }> {
  const entry = "program.js";
  const bundler = await rolldown({
    cwd: project,
    input: entry,
    platform: "browser",
    // The validator of JSON Schemas is another package, and is loaded with the first schema that is checked.
    external: [/^node:/, "@cfworker/json-schema"],
    resolve: { conditionNames: [...conditions, "import", "browser", "default"] },
    plugins: [
      ...plugins,
      {
        name: "program",
        resolveId: (id) => (id === entry ? join(project, entry) : null),
        load: (id) => (id === join(project, entry) ? program : null),
      },
    ],
  });
  const { output } = await bundler.generate({ format: "esm", minify, codeSplitting: !inOneFile });
  await bundler.close();
  const chunks = new Map(output.flatMap((file) => (file.type === "chunk" ? [[file.fileName, file] as const] : [])));
  const first = new Set([...chunks.values()].filter(({ isEntry }) => isEntry));
  for (const { imports } of first)
    for (const name of imports) {
      const imported = chunks.get(name);
      if (imported !== undefined) first.add(imported);
    }
  return { first: [...first] };
}

type Parts = {
  readonly plugins: readonly Plugin[];
  readonly conditions: readonly string[];
  readonly minify: boolean;
};

/** The size of chunks that are compressed one by one, in bytes. */
function chunksSize(chunks: readonly Chunk[]): number {
  return chunks.reduce((total, { code }) => total + gzipSync(code).length, 0);
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
  return limit === null || value <= limit;
}

/** The measurement in words. */
export function describe({ name, value, limit, unit }: Measurement): string {
  const measured = `${name}: ${inWords(value)} ${unit}`.trimEnd();
  return limit === null ? measured : `${measured} (limit ${inWords(limit)})`;
}

function inWords(amount: number): string {
  return amount.toLocaleString("en-US", { maximumFractionDigits: 1 });
}
