// `npm run walk`: prints the path of one message file by file, and the counts of `npm run check:counts`. `--json`
// prints the same as one JSON value. Needs no build.
//
// The stops of the message between an HTTP request and the accepting batch are counted apart (request-stops.ts).
//
// Files are listed by the phase in which they are first entered, and within a phase by layer, from the runtime down: V8
// counts calls and does not say in which order they happen. Everything is measured on the sources, file by file; the
// published files are bundled.

import type { Phase, StorageCall } from "./message-path.ts";

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { countRepository, formatCounts } from "../../tools/counts/counts.ts";
import { CallCounter } from "./call-counter.ts";
import { walkMessage } from "./message-path.ts";
import { stopsOfRequest } from "./request-stops.ts";

type FileOnPath = {
  readonly file: string;
  /** The number of the phase in which it is first entered. */
  readonly phase: number;
  readonly functions: number;
  readonly calls: number;
};

/** Folders below lib/src or below one of its floors, in the order in which a message passes them; others come last. */
const layers = ["runtime", "durable", "session", "run", "kernel", "engine", "adapters", "wire", "host", "model"];

const manifest = fileURLToPath(import.meta.resolve("everturn/package.json"));
const counter = new CallCounter(new URL("./src/", import.meta.resolve("everturn/package.json")).href);
const path = await walkMessage(counter);
counter.stop();
const stops = await stopsOfRequest();

const files = filesOf(path.phases);
if (files.length === 0) throw new Error("no call was counted: run this with --conditions=source");
const calledFunctions = path.phases.flatMap(({ called }) => called);
const totals = {
  files: files.length,
  functions: new Set(calledFunctions.map(({ file, offset }) => `${file}:${offset}`)).size,
  calls: sum(calledFunctions.map(({ calls }) => calls)),
  reads: path.reads.length,
  queries: path.reads.flat().length,
  writes: path.writes.length,
  stops: stops.length,
  planRun: sum(calledFunctions.filter(({ name }) => name === "planRun").map(({ calls }) => calls)),
};
const counts = countRepository(join(dirname(manifest), ".."));

if (process.argv.includes("--json")) {
  const phases = path.phases.map(({ after, called }) => ({ after, called }));
  console.log(
    JSON.stringify({ totals, files, phases, reads: path.reads, writes: path.writes, stops, counts }, null, 1),
  );
} else {
  printPath();
  console.log(`\n${formatCounts(counts)}`);
}

function filesOf(phases: readonly Phase[]): readonly FileOnPath[] {
  const found = new Map<string, { phase: number; functions: Set<number>; calls: number }>();
  for (const [phase, { called }] of phases.entries()) {
    for (const { file, offset, calls } of called) {
      const known = found.get(file) ?? { phase, functions: new Set(), calls: 0 };
      known.functions.add(offset);
      known.calls += calls;
      found.set(file, known);
    }
  }
  return [...found]
    .map(([file, { phase, functions, calls }]) => ({ file: `${file}.ts`, phase, functions: functions.size, calls }))
    .toSorted((left, right) => left.phase - right.phase || byLayer(left.file, right.file));
}

function byLayer(left: string, right: string): number {
  const [first, second] = [left, right].map((file) => {
    const [floor = "", folder = ""] = file.split("/");
    const layer = layers.includes(folder) ? layers.indexOf(folder) : layers.indexOf(floor);
    return layer === -1 ? layers.length : layer;
  });
  return (first ?? 0) - (second ?? 0) || (left < right ? -1 : 1);
}

function printPath(): void {
  console.log(`Node ${process.version}. One message, from reply() to the first text_delta of its iterator.`);
  for (const [number, { after, called }] of path.phases.entries()) {
    const calls = sum(called.map((one) => one.calls));
    console.log(`\nphase ${number + 1}, after: ${after} (${calls} calls); files entered first in it:`);
    const entered = files.filter(({ phase }) => phase === number);
    for (const { file, functions, calls: all } of entered) row(file, `${functions} functions`, `${all} calls`);
    if (entered.length === 0) console.log("  none");
  }
  console.log("\ntotals");
  for (const [name, value] of Object.entries(totals)) row(name, String(value));
  console.log("\nstops from the HTTP request to the batch that accepts the message");
  for (const [number, stop] of stops.entries()) console.log(`  ${number + 1}. ${stop.file} ${stop.function}`);
  storageCalls("reads", path.reads);
  storageCalls("writes", path.writes);
}

function storageCalls(title: string, calls: readonly StorageCall[]): void {
  console.log(`\n${title}`);
  for (const [number, named] of calls.entries()) console.log(`  ${number + 1}. ${named.join(", ")}`);
  const counts = new Map<string, number>();
  for (const name of calls.flat()) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const [name, count] of [...counts].toSorted()) row(name, String(count));
}

function row(name: string, ...cells: readonly string[]): void {
  console.log(`  ${name.padEnd(56)}${cells.map((cell) => cell.padStart(16)).join("")}`);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
