// The sandbox under attack: hostile cells on all workers, with the delay of the event loop, the peak memory of the
// process, and an innocent cell beside them.
//
//   tsx --conditions=source lib/test/long/hostile-cells.ts [seconds]
//
// Fails if the p99 of the event loop is 50 ms or more, if the process grows by more than 1.5 GB, if a hostile cell does
// not end at a limit, or if an innocent cell fails. The p99 is that of a machine with a free core; on a busy machine it
// is compared with the p99 of an idle process at the same time.

import type { CellLimits, CellResult } from "../../src/core/engine/internal.ts";

import { monitorEventLoopDelay } from "node:perf_hooks";

import { toolSpec } from "everturn/advanced";
import { quickjs } from "everturn/quickjs";

import { defaultCellLimits } from "../../src/core/engine/internal.ts";

const hostile: readonly string[] = [
  "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)",
  "Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)",
  "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })",
  "for (;;);",
  "for (;;) await null",
  "const kept = []; for (;;) kept.push(new Uint8Array(1e6))",
  "const text = 'x'.repeat(1e7); for (;;) search({ text }).catch(() => {})",
  "const text = 'x'.repeat(4e4); for (;;) print(text)",
  "for (;;) print('')",
  "/(a+)+$/.test('a'.repeat(100) + 'b')",
  "let big = 3n ** 300000n; for (;;) big = big * big % (3n ** 299999n)",
  "const f = () => f(); for (;;) { try { f() } catch {} }",
  "finish('x'.repeat(6e7))",
  "JSON.parse('['.repeat(1e7))",
  "throw 'x'.repeat(3e7)",
  "const a = []; a.length = 2 ** 32 - 1; a.sort(); a.join()",
  "'a'.padEnd(2 ** 29).normalize('NFKD')",
];

const seconds = Number(process.argv[2] ?? 20);
const executor = quickjs();
const innocent = quickjs({ workers: 1 });
const { signal } = new AbortController();
const tools = [toolSpec({ name: "search", description: "Searches.", schema: { type: "object" } })];
const mb = (bytes: number) => Math.round(bytes / 1_000_000);

function run(of: typeof executor, code: string, limits: Partial<CellLimits>): Promise<CellResult> {
  return of.run({ cellId: "cell", code, calls: [], tools, limits: { ...defaultCellLimits, ...limits }, signal });
}

/** The p99 of the event loop during some work, in milliseconds. */
async function delayDuring(work: () => Promise<void>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  await work();
  delay.disable();
  // The histogram counts from timer to timer, which are 5 ms apart.
  return Math.max(0, delay.percentile(99) / 1e6 - 5);
}

const problems: string[] = [];
const idle = await delayDuring(() => new Promise((resolve) => setTimeout(resolve, 3000)));
await run(innocent, "", {});
const rssBefore = process.memoryUsage().rss;
let peak = rssBefore;
const sampling = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 50);
const ends = new Map<string, number>();
let [cells, innocents] = [0, 0];
const waits: number[] = [];

const busy = await delayDuring(async () => {
  const until = Date.now() + seconds * 1000;
  const attack = async (offset: number) => {
    for (let n = offset; Date.now() < until; n += 8) {
      const code = hostile[n % hostile.length] ?? "";
      const result = await run(executor, code, { timeMs: 1000 });
      cells += 1;
      const end = result.type === "failed" ? result.reason : result.type;
      ends.set(end, (ends.get(end) ?? 0) + 1);
      if (result.type === "calls") problems.push(`made calls: ${code}`);
    }
  };
  const work = async () => {
    while (Date.now() < until) {
      const began = performance.now();
      const result = await run(innocent, "print([1, 2, 3].map((n) => n * 2))", {});
      waits.push(performance.now() - began);
      innocents += 1;
      if (result.type !== "finished" || result.observations[0] !== "[2,4,6]") problems.push(JSON.stringify(result));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await Promise.all([...Array.from({ length: 8 }, (_, index) => attack(index)), work()]);
});
clearInterval(sampling);

const p99 = waits.toSorted((left, right) => left - right)[Math.floor(waits.length * 0.99)] ?? 0;
const limit = Math.max(50, 4 * idle + 20);
if (busy >= limit)
  problems.push(`the p99 of the event loop is ${busy.toFixed(1)} ms, the limit ${limit.toFixed(1)} ms`);
if (peak - rssBefore > 1.5e9) problems.push(`the process grew by ${mb(peak - rssBefore)} MB`);
if (innocents === 0) problems.push("no innocent cell ended");
console.log(
  [
    `${cells} hostile cells in ${seconds} s: ${[...ends].map(([end, count]) => `${end} ${count}`).join(", ")}`,
    `event loop p99 ${busy.toFixed(1)} ms (idle ${idle.toFixed(1)} ms)`,
    `peak memory ${mb(peak)} MB (before ${mb(rssBefore)} MB)`,
    `${innocents} innocent cells, p99 ${p99.toFixed(0)} ms`,
    ...problems.slice(0, 20),
  ].join("\n"),
);
process.exit(problems.length === 0 ? 0 : 1);
