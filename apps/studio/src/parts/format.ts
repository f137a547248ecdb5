// Numbers, times and sizes as texts. Every number that costs money or time has a unit.

// As the components of the library write them.
export { costText as cost, countText as count, durationText as duration } from "everturn/react";

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

/** A date with time in the reader's time zone. */
export function dateTime(at: number): string {
  return dateTimeFormat.format(at);
}
