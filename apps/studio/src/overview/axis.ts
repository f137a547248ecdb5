// The axis of a chart.

/** The next 1, 2 or 5 times a power of ten, which is the top of the axis. An empty chart has an axis too. */
export function niceMaximum(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => value <= factor * power) ?? 10) * power;
}
