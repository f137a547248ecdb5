// Rollups: sums over ended turns, for the overview. Pure functions: how sums are added, bounded and shown, and the keys
// of their rows.
//
// Theory of operation
//   The batch that ends or parks a turn puts one row in `rollup_lines`, the sums of that turn (`linePut`). It has no
//   check and a key of its own, so it adds no conflict to the commit. `work/fold-rollups.ts` later moves lines into
//   `rollups`: one row for each period and tenant, and one for all tenants. A line, a row of five minutes and a row of
//   an hour have the same type, so folding is addition (`addRollups`).
//
// Invariants
//   1. A turn is in exactly one row of each scope at any time: a fold removes the rows that it adds, in one batch that
//      checks all of them.
//   2. All numbers are integers, so that sums do not depend on the order of additions. Costs are in billionths of a US
//      dollar.
//   3. A row is bounded: it names at most `maxNames` engines, tools and tenants. Those with the fewest turns or calls
//      are summed under `otherName`.

import type { OverviewSum, Quantiles, ToolSum, TurnOutcome } from "../../core/model/internal.ts";
import type { Histogram } from "./histogram.ts";
import type { SessionKey } from "./session-key.ts";
import type { Key, Put } from "./storage.ts";
import type { OutcomeClass, Rollup, RollupOutcomes, RollupSum, RollupTool } from "./values.ts";

import { addHistograms, quantile } from "./histogram.ts";
import { writeValue } from "./stored.ts";

/** The class of each outcome. */
const classes: { readonly [Type in TurnOutcome["type"]]: OutcomeClass } = {
  assistant_message: "completed",
  final_value: "completed",
  tool_value: "completed",
  empty: "completed",
  incomplete: "completed",
  filtered: "completed",
  other: "completed",
  handoff: "completed",
  halted: "completed",
  halt_when: "completed",
  stop_after: "completed",
  ask_user: "waiting",
  manual_tool_calls: "waiting",
  approval: "waiting",
  outcome_unknown: "waiting",
  max_turns: "limited",
  budget: "limited",
  cancelled: "cancelled",
  tool_error: "failed",
  submitted_error: "failed",
  provider_error: "failed",
  runtime_error: "failed",
};

/** The class of an outcome. */
export function outcomeClassOf({ type }: TurnOutcome): OutcomeClass {
  return classes[type];
}

/** The most names of each kind in a row. */
const maxNames = { engines: 50, tools: 100, tenants: 50 } as const;
/** The longest name, in characters: a model may call tools that do not exist, under any name. */
const maxNameLength = 128;
/** The name of the sum of all names beyond `maxNames`. */
const otherName = "(other)";

const noOutcomes: RollupOutcomes = { completed: 0, waiting: 0, failed: 0, cancelled: 0, parked: 0, limited: 0 };

/** The sums of nothing. */
export const noRollup: Rollup = { engines: [], tools: [], tenants: [] };

/** The sum of no turns. */
export function noSum(name: string): RollupSum {
  return {
    name: name.slice(0, maxNameLength),
    turns: 0,
    outcomes: noOutcomes,
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    nanoCost: 0,
    takeovers: 0,
    duration: [],
    firstContent: [],
  };
}

/** The outcomes of one turn. */
export function oneOutcome(outcome: OutcomeClass): RollupOutcomes {
  return { ...noOutcomes, [outcome]: 1 };
}

/** The sum of no calls. */
export function noToolSum(name: string): RollupTool {
  return { name: name.slice(0, maxNameLength), calls: 0, failed: 0, duration: [] };
}

/** The sums of several periods, lines or tenants together, bounded. */
export function addRollups(rollups: readonly Rollup[]): Rollup {
  return {
    engines: addByName(
      rollups.flatMap(({ engines }) => engines),
      addSums,
      ({ turns }) => turns,
      maxNames.engines,
    ),
    tools: addTools(rollups.flatMap(({ tools }) => tools)),
    tenants: addByName(
      rollups.flatMap(({ tenants }) => tenants),
      addSums,
      ({ turns }) => turns,
      maxNames.tenants,
    ),
  };
}

/** Adds the sums of tools of the same name, bounded. */
export function addTools(tools: readonly RollupTool[]): readonly RollupTool[] {
  return addByName(tools, addToolSums, ({ calls }) => calls, maxNames.tools);
}

/** Adds sums of the same name, most turns or calls first. The smallest ones beyond `most` names become one sum. */
function addByName<Sum extends { readonly name: string }>(
  sums: readonly Sum[],
  add: (left: Sum, right: Sum) => Sum,
  weight: (sum: Sum) => number,
  most: number,
): readonly Sum[] {
  const byName = new Map<string, Sum>();
  for (const sum of sums) {
    const before = byName.get(sum.name);
    byName.set(sum.name, before === undefined ? sum : add(before, sum));
  }
  const other = byName.get(otherName);
  byName.delete(otherName);
  const sorted = Array.from(byName.values()).toSorted(
    (left, right) => weight(right) - weight(left) || (left.name < right.name ? -1 : 1),
  );
  const rest = [
    ...sorted.slice(most).map((sum) => ({ ...sum, name: otherName })),
    ...(other === undefined ? [] : [other]),
  ];
  const [first, ...others] = rest;
  return first === undefined ? sorted : [...sorted.slice(0, most), others.reduce(add, first)];
}

/** Adds two sums; the result has the name of the first. */
function addSums(left: RollupSum, right: RollupSum): RollupSum {
  return {
    name: left.name,
    turns: left.turns + right.turns,
    outcomes: addOutcomes(left.outcomes, right.outcomes),
    inputTokens: left.inputTokens + right.inputTokens,
    cachedInputTokens: left.cachedInputTokens + right.cachedInputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    nanoCost: left.nanoCost + right.nanoCost,
    takeovers: left.takeovers + right.takeovers,
    duration: addHistograms(left.duration, right.duration),
    firstContent: addHistograms(left.firstContent, right.firstContent),
  };
}

function addOutcomes(left: RollupOutcomes, right: RollupOutcomes): RollupOutcomes {
  return {
    completed: left.completed + right.completed,
    waiting: left.waiting + right.waiting,
    failed: left.failed + right.failed,
    cancelled: left.cancelled + right.cancelled,
    parked: left.parked + right.parked,
    limited: left.limited + right.limited,
  };
}

function addToolSums(left: RollupTool, right: RollupTool): RollupTool {
  return {
    name: left.name,
    calls: left.calls + right.calls,
    failed: left.failed + right.failed,
    duration: addHistograms(left.duration, right.duration),
  };
}

/** The part of a line that counts for its tenant in the rows of all tenants. */
export function forAllTenants(line: Rollup, tenant: string): Rollup {
  const name = tenant.slice(0, maxNameLength);
  return { ...line, tenants: line.engines.map((sum) => ({ ...sum, name })) };
}

/** The sum over all engines. */
export function totalOf({ engines }: Rollup): RollupSum {
  return engines.reduce(addSums, noSum(""));
}

/** A sum as the overview shows it. Outcomes without turns are left out. */
export function sumView(sum: RollupSum): OverviewSum {
  const { turns, outcomes, inputTokens, cachedInputTokens, outputTokens, nanoCost, takeovers } = sum;
  return {
    turns,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    takeovers,
    outcomes: Object.fromEntries(Object.entries(outcomes).filter(([, turns]) => turns > 0)),
    cost: nanoCost / 1e9,
    duration: quantilesOf(sum.duration),
    firstContent: quantilesOf(sum.firstContent),
  };
}

/** The sum of a tool as the overview shows it. */
export function toolView({ name, calls, failed, duration }: RollupTool): ToolSum {
  return { name, calls, failed, duration: quantilesOf(duration) };
}

function quantilesOf(histogram: Histogram): Quantiles {
  return { p50: quantile(histogram, 0.5), p95: quantile(histogram, 0.95), p99: quantile(histogram, 0.99) };
}

// Keys.

/** The length of the periods that lines belong to, in milliseconds. */
export const fiveMinutes = 300_000;
/** The length of the periods of older rows, in milliseconds. */
export const oneHour = 3_600_000;

/** The start of the period of this length that contains a time. */
export function periodOf(time: number, length: number): number {
  return Math.floor(time / length) * length;
}

/** The scope of the rows that sum up all tenants. */
export const allTenants = "all";

/** The scope of the rows of one tenant. */
export function tenantScope(tenant: string): string {
  return `tenant:${tenant}`;
}

/** The key of the sums of a period. */
export function rollupKey(length: number, period: number, scope: string): Key {
  return [length, period, scope];
}

/**
 * The line of a turn that ends or is parked at `now`. `version` is the version of the session row that the same batch
 * writes: it never repeats, also if the session is deleted and started again.
 */
export function linePut({ tenant, session }: SessionKey, version: number, line: Rollup, now: number): Put {
  const key = [periodOf(now, fiveMinutes), tenant, JSON.stringify([session, version])];
  return { table: "rollup_lines", key, tag: 0, value: writeValue("rollup_lines", line) };
}
