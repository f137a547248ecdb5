// The tables of `bench/RESULTS.md`, and the ratios that the guard compares.

import type { Cost } from "./worker.ts";

import { loadavg } from "node:os";

export type Sample = Cost & {
  readonly phase: string;
  readonly line: string;
  readonly protocol: string;
  /** Bytes of the requests. */
  readonly sent: number;
  readonly load: number;
};

/** One measurement of durable steps. */
export type StepSample = {
  readonly storage: string;
  readonly line: string;
  readonly steps: number;
  /** Milliseconds for each step. */
  readonly wall: number;
  readonly cpu: number;
  /** Bytes that the process wrote for each step; 0: the storage writes them. */
  readonly written: number;
};

type Run = {
  readonly started: { readonly at: Date; readonly load: readonly number[] };
  readonly rounds: number;
  readonly versions: { readonly [name: string]: string };
  readonly memory: readonly Sample[];
  readonly durable: readonly StepSample[];
};

const names: { readonly [phase: string]: string } = {
  delta: "an answer of 5,000 deltas",
  request: "a request (one delta)",
  loop100: "a turn of a tool loop, T = 100",
  loop1000: "a turn of a tool loop, T = 1,000",
  paced500: "a delta of 500 paced streams",
  paced2000: "a delta of 2,000 paced streams",
};

export function report({ started, rounds, versions, memory, durable }: Run): string {
  const loads = memory.map((sample) => sample.load);
  return [
    "# Results of `npm run bench:peers`",
    "",
    `${started.at.toISOString().slice(0, 10)}. ${rounds} interleaved rounds. Load of the machine: ${loadText(started.load)} at the start, ${loadText(loadavg())} at the end${loads.length > 0 ? `, ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)} between` : ""}.`,
    "",
    `Versions: ${Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", ")}.`,
    "",
    ...memoryTables(memory),
    ...durableTable(durable),
  ].join("\n");
}

function memoryTables(samples: readonly Sample[]): readonly string[] {
  if (samples.length === 0) return [];
  const lines = [...new Set(samples.map(({ line }) => line))];
  const rows = (cell: (of: readonly Sample[], raw: readonly Sample[]) => string | null) =>
    groups(samples).flatMap(({ phase, protocol }) => {
      const of = (line: string) =>
        samples.filter((sample) => sample.phase === phase && sample.protocol === protocol && sample.line === line);
      const cells = lines.map((line) => cell(of(line), of("raw")));
      return cells.includes(null) ? [] : [`| ${names[phase] ?? phase}, ${protocol} | ${cells.join(" | ")} |`];
    });
  const head = [`| | ${lines.join(" | ")} |`, `| --- |${" --- |".repeat(lines.length)}`];
  return [
    "## In memory",
    "",
    "CPU of the client process as a ratio to raw `fetch`, with its smallest and largest sample beside the median of raw `fetch`; in the column of raw `fetch` the CPU itself (ms; µs for a paced delta).",
    "",
    ...head,
    ...rows((of, raw) => {
      if (of.length === 0) return "–";
      const cpu = of.map((sample) => sample.cpu);
      const floor = median(raw.map((sample) => sample.cpu));
      if (of === raw || of[0]?.line === "raw") return `${median(cpu).toFixed(3)} (${spread(cpu, 1, 3)})`;
      return `**${(median(cpu) / floor).toFixed(2)}** (${spread(cpu, floor, 2)})`;
    }),
    "",
    "99th percentile of the delay of a paced delta (ms); heap of an open stream (KiB):",
    "",
    ...head,
    ...rows((of) => {
      const lags = of.flatMap(({ lag }) => lag ?? []);
      const heaps = of.flatMap(({ heap }) => heap ?? []);
      if (of.length > 0 && lags.length === 0) return null;
      return of.length === 0 ? "–" : `${median(lags).toFixed(1)} (${spread(lags, 1, 1)}); ${median(heaps).toFixed(0)}`;
    }),
    "",
    "Bytes sent by a loop as a ratio to raw `fetch`:",
    "",
    ...head,
    ...rows((of, raw) => {
      if (!of.every(({ phase }) => phase.startsWith("loop"))) return null;
      return of.length === 0
        ? "–"
        : (median(of.map(({ sent }) => sent)) / median(raw.map(({ sent }) => sent))).toFixed(2);
    }),
    "",
  ];
}

function durableTable(samples: readonly StepSample[]): readonly string[] {
  if (samples.length === 0) return [];
  const sizes = [...new Set(samples.map(({ steps }) => steps))];
  const lines = unique(samples.map(({ storage, line }) => ({ storage, line })));
  return [
    "## A durable step",
    "",
    "One model reply and one tool call, of a turn of N steps: milliseconds (smallest to largest sample), and × the two bare commits on the same storage; CPU (ms) and KB written by the process at the largest N.",
    "",
    `| | ${sizes.map((steps) => `N = ${steps}`).join(" | ")} | CPU | KB written |`,
    `| --- |${" --- |".repeat(sizes.length + 2)}`,
    ...lines.map(({ storage, line }) => {
      const of = (steps: number, wanted: string) =>
        samples.filter((sample) => sample.storage === storage && sample.line === wanted && sample.steps === steps);
      const cells = sizes.map((steps) => {
        const wall = of(steps, line).map((sample) => sample.wall);
        const floor = median(of(steps, "two bare commits").map((sample) => sample.wall));
        return `${median(wall).toFixed(2)} (${spread(wall, 1, 2)}), × ${(median(wall) / floor).toFixed(1)}`;
      });
      const largest = of(sizes.at(-1) ?? 0, line);
      const cpu = median(largest.map((sample) => sample.cpu)).toFixed(2);
      const written = median(largest.map((sample) => sample.written));
      return `| ${storage}, ${line} | ${cells.join(" | ")} | ${cpu} | ${written === 0 ? "–" : (written / 1000).toFixed(0)} |`;
    }),
    "",
  ];
}

/** The ratios of Everturn, by name. */
export function guardedRatios(
  memory: readonly Sample[],
  durable: readonly StepSample[],
): { readonly [name: string]: number } {
  const ratios: { [name: string]: number } = {};
  for (const { phase, protocol } of groups(memory)) {
    const cpu = (wanted: string) =>
      memory
        .filter((sample) => sample.phase === phase && sample.protocol === protocol && sample.line === wanted)
        .map((sample) => sample.cpu);
    const ratio = median(cpu("everturn")) / median(cpu("raw"));
    if (Number.isFinite(ratio)) ratios[`peers: ${names[phase] ?? phase}, ${protocol}`] = ratio;
  }
  for (const { storage, line, steps } of unique(
    durable.map(({ storage, line, steps }) => ({ storage, line, steps })),
  )) {
    if (!line.startsWith("Everturn")) continue;
    const wall = (wanted: string) =>
      durable
        .filter((sample) => sample.storage === storage && sample.line === wanted && sample.steps === steps)
        .map((sample) => sample.wall);
    ratios[`peers: a durable step, ${storage}, ${line}, N = ${steps}`] =
      median(wall(line)) / median(wall("two bare commits"));
  }
  return ratios;
}

function groups(samples: readonly Sample[]): readonly { readonly phase: string; readonly protocol: string }[] {
  return unique(samples.map(({ phase, protocol }) => ({ phase, protocol })));
}

function unique<Value>(values: readonly Value[]): readonly Value[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

function loadText(values: readonly number[]): string {
  return values.map((value) => value.toFixed(1)).join(" ");
}

function spread(values: readonly number[], unit: number, digits: number): string {
  return `${(Math.min(...values) / unit).toFixed(digits)} to ${(Math.max(...values) / unit).toFixed(digits)}`;
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? Number.NaN;
}
