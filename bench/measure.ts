// The measuring method of the benchmarks: contenders alternate, so that other load of the machine affects all of them
// equally, and the medians of their times are compared. Ratios are comparable between machines; milliseconds are not.

export type Contender = { readonly name: string; readonly run: () => unknown };

export type Timing = { readonly name: string; readonly milliseconds: number; readonly ratio: number };

/** Measures contenders and reports each as a ratio to the first. */
export function compare(contenders: readonly Contender[], rounds = 61): readonly Timing[] {
  const times = contenders.map((): number[] => []);
  for (const { run } of contenders) for (let warmup = 0; warmup < 20; warmup += 1) run();
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { run }] of contenders.entries()) {
      const start = performance.now();
      run();
      times[index]?.push(performance.now() - start);
    }
  }
  return timingsOf(contenders, times);
}

/** Measures asynchronous contenders, one at a time. */
export async function compareAsync(contenders: readonly Contender[], rounds = 61): Promise<readonly Timing[]> {
  const times = contenders.map((): number[] => []);
  for (const { run } of contenders) for (let warmup = 0; warmup < 10; warmup += 1) await run();
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { run }] of contenders.entries()) {
      const start = performance.now();
      await run();
      times[index]?.push(performance.now() - start);
    }
  }
  return timingsOf(contenders, times);
}

function timingsOf(contenders: readonly Contender[], times: readonly (readonly number[])[]): readonly Timing[] {
  const medians = times.map(median);
  return contenders.map(({ name }, index) => {
    const milliseconds = medians[index] ?? Number.NaN;
    return { name, milliseconds, ratio: milliseconds / (medians[0] ?? Number.NaN) };
  });
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The ratios that were printed, by name, for the guard (`recorded.ts`). A higher one is worse. */
export const printedRatios = new Map<string, number>();

export function print(title: string, timings: readonly Timing[]): void {
  console.log(`\n${title}`);
  for (const [index, { name, milliseconds, ratio }] of timings.entries()) {
    if (index > 0) printedRatios.set(`${title}: ${name}`, ratio);
    console.log(`  ${name.padEnd(40)} ${milliseconds.toFixed(3).padStart(10)} ms   × ${ratio.toFixed(2)}`);
  }
}
