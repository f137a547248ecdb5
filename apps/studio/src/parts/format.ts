// Numbers, times and sizes as texts. Every number that costs money or time has a unit.

/** A duration: `412 ms`, `1.9 s`, `4 m 12 s`, `3 h 5 m`, `6 d`. */
export function duration(ms: number): string {
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return withRest(Math.floor(seconds / 60), "m", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return withRest(Math.floor(minutes / 60), "h", minutes % 60, "m");
  return `${Math.round(minutes / 1440)} d`;
}

function withRest(count: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${count} ${unit}` : `${count} ${unit} ${rest} ${restUnit}`;
}

/** A cost in US dollars: `$0.0042`, `$1.91`; `null`: unknown, an empty text. */
export function cost(dollars: number | null): string {
  if (dollars === null) return "";
  if (dollars === 0) return "$0";
  const digits = dollars >= 10 ? 2 : dollars >= 0.01 ? 3 : 4;
  return dollars < 0.0001 ? "< $0.0001" : `$${dollars.toFixed(digits)}`;
}

/** A whole number with separators: `1,842`. */
export function count(value: number): string {
  return countFormat.format(value);
}

/** A share of a whole: `91 %`. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** How long ago: `now`, `2 m`, `3 h`, `5 d`. */
export function ago(at: number, now: number): string {
  const ms = now - at;
  if (ms < 45_000) return "now";
  if (ms < 3_600_000) return `${Math.max(1, Math.round(ms / 60_000))} m`;
  if (ms < 48 * 3_600_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** Creating a format takes longer than using it many times. */
const dateTimeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const countFormat = new Intl.NumberFormat("en-US");

/** A date with time in the reader's time zone. */
export function dateTime(at: number): string {
  return dateTimeFormat.format(at);
}
