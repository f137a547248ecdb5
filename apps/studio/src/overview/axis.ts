// The axis of a chart.

/** A value of the axis: without zeros after the decimal point, and without a unit at zero. */
export function axisText(value: number, format: (value: number) => string): string {
  if (value === 0) return "0";
  return format(value)
    .replace(/(\.\d*?)0+(?!\d)/, "$1")
    .replace(/\.(?!\d)/, "");
}

/** The tops of an axis of time above ten seconds, in seconds. */
const roundTimes = [20, 40, 60, 120, 240, 600, 1200, 3600, 7200, 14_400, 28_800, 86_400];

/** The next 1, 2 or 5 times a power of ten, which is the top of the axis. An empty chart has an axis too. */
export function niceMaximum(value: number, isDuration = false): number {
  if (value <= 0) return 1;
  // Halves of these are round times too.
  const time = isDuration && value > 10_000 ? roundTimes.find((seconds) => value <= seconds * 1000) : undefined;
  if (time !== undefined) return time * 1000;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => value <= factor * power) ?? 10) * power;
}
