// How benchmarks measure: contenders take turns, so that what the machine does besides hits all of them alike, and the
// median of their times is compared. Ratios travel between machines; milliseconds do not.

export type Contender = { readonly name: string; readonly run: () => unknown };

export type Timing = { readonly name: string; readonly milliseconds: number; readonly ratio: number };

/** Times contenders against the first of them. */
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

export function print(title: string, timings: readonly Timing[]): void {
  console.log(`\n${title}`);
  for (const { name, milliseconds, ratio } of timings) {
    console.log(`  ${name.padEnd(40)} ${milliseconds.toFixed(3).padStart(10)} ms   × ${ratio.toFixed(2)}`);
  }
}
