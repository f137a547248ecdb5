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

/** What an axis measures. */
type AxisUnit = "amount" | "count" | "duration";

/** The next 1, 2 or 5 times a power of ten, which is the top of the axis. An empty chart has an axis too. */
export function niceMaximum(value: number, unit: AxisUnit = "amount"): number {
  if (value <= 0) return unit === "count" ? 2 : 1;
  // Halves of these are round times too.
  const time =
    unit === "duration" && value > 10_000 ? roundTimes.find((seconds) => value <= seconds * 1000) : undefined;
  if (time !== undefined) return time * 1000;
  const power = 10 ** Math.floor(Math.log10(value));
  const maximum = ([1, 2, 5, 10].find((factor) => value <= factor * power) ?? 10) * power;
  // The axis shows the half too, and there is no half turn.
  return unit === "count" && maximum % 2 === 1 ? maximum + 1 : maximum;
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
/** The distances between two times of the axis. */
const timeSteps = [
  5 * minute,
  10 * minute,
  15 * minute,
  30 * minute,
  hour,
  2 * hour,
  3 * hour,
  6 * hour,
  12 * hour,
  day,
  2 * day,
  7 * day,
];
const maxTimes = 5;

/**
 * Round times of a period, at most five, in the time zone with this offset from UTC in minutes, as `getTimezoneOffset`
 * returns it. Days begin at midnight.
 */
export function axisTimes(from: number, until: number, offsetMinutes: number): readonly number[] {
  const step = timeSteps.find((ms) => (until - from) / ms <= maxTimes) ?? 7 * day;
  const offset = offsetMinutes * minute;
  const times: number[] = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at < until; at += step) times.push(at);
  return times;
}

/** The length of a bucket in words: `5 minutes`, `1 hour`, `1 day`. */
export function periodText(ms: number): string {
  const [length, unit] =
    ms % day === 0 ? [ms / day, "day"] : ms % hour === 0 ? [ms / hour, "hour"] : [ms / minute, "minute"];
  return `${length} ${unit}${length === 1 ? "" : "s"}`;
}
