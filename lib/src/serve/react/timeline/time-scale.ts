// The time axis of a timeline: a piecewise linear mapping from the time of the turn to a position. Long periods in
// which nothing happens get a small fixed width (a break), so that a wait of hours does not shrink the work of seconds
// to nothing. Times and positions are in milliseconds; outside of breaks they have the same unit length.

/** A part of the axis. */
type Segment = {
  /** The times at which it begins and ends, in milliseconds since the turn was accepted. */
  readonly from: number;
  readonly to: number;
  /** The position at which it begins, and its width, in units of the axis. */
  readonly at: number;
  readonly width: number;
  /** Nothing happens in it, and its width does not show its duration. */
  readonly isBreak: boolean;
};

export type TimeScale = {
  readonly segments: readonly Segment[];
  /** The position of the end. */
  readonly width: number;
};

/** A period. */
export type Span = { readonly start: number; readonly end: number };

/** Periods without activity that are longer than this are shown as breaks. */
const longestGapMs = 10_000;

/**
 * Breaks share this part of the width of what is active, but each has at least and at most these parts of it, and at
 * least {@link minBreakWidth}.
 */
const breakShare = 0.3;
const minBreakShare = 0.03;
const maxBreakShare = 0.17;
const minBreakWidth = 250;

/**
 * The axis from 0 (or the first activity before it) to `end`. `active` are the periods in which something happens, in
 * any order.
 */
export function timeScaleOf(active: readonly Span[], end: number): TimeScale {
  const gaps = gapsOf(active, end);
  const idle = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
  const share = Math.max(minBreakShare, Math.min(maxBreakShare, breakShare / Math.max(1, gaps.length)));
  const breakWidth = Math.max(minBreakWidth, (end - idle) * share);
  const segments: Segment[] = [];
  let time = 0;
  let at = 0;
  const add = (to: number, isBreak: boolean): void => {
    if (to <= time) return;
    const width = isBreak ? breakWidth : to - time;
    segments.push({ from: time, to, at, width, isBreak });
    time = to;
    at += width;
  };
  for (const gap of gaps) {
    add(gap.start, false);
    add(gap.end, true);
  }
  add(end, false);
  if (segments.length === 0) segments.push({ from: 0, to: 1, at: 0, width: 1, isBreak: false });
  return { segments, width: Math.max(at, 1) };
}

/** The periods between 0 and `end` without activity that are too long to be drawn in full. */
function gapsOf(active: readonly Span[], end: number): readonly Span[] {
  const gaps: Span[] = [];
  let covered = 0;
  for (const span of active.toSorted((a, b) => a.start - b.start)) {
    if (span.start - covered > longestGapMs) gaps.push({ start: covered, end: span.start });
    covered = Math.max(covered, span.end);
  }
  if (end - covered > longestGapMs) gaps.push({ start: covered, end });
  return gaps;
}

/** The position of a time. Times outside of the axis are clamped. */
export function positionOf({ segments, width }: TimeScale, time: number): number {
  const segment = segments[lastIndexAt(segments, (candidate) => candidate.from <= time)];
  if (segment === undefined) return 0;
  const share = (time - segment.from) / (segment.to - segment.from);
  return Math.min(width, segment.at + Math.min(1, share) * segment.width);
}

/** The time at a position: the inverse of {@link positionOf}. */
export function timeAt({ segments }: TimeScale, position: number): number {
  const segment = segments[lastIndexAt(segments, (candidate) => candidate.at <= position)] ?? segments[0];
  if (segment === undefined) return 0;
  const share = Math.max(0, Math.min(1, (position - segment.at) / segment.width));
  return segment.from + share * (segment.to - segment.from);
}

/**
 * Binary search: the index of the last item for which `holds` is true, if it is true for a prefix of the list; -1
 * without one.
 */
export function lastIndexAt<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const item = items[middle];
    if (item !== undefined && holds(item)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * A mark of the axis. `isAfterBreak`: the distance from the start does not show the time, so the label begins with `+`.
 */
export type Tick = { readonly time: number; readonly position: number; readonly isAfterBreak: boolean };

const tickSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000];
const longTickSteps = [300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];

/** The marks between two positions, at least `minDistance` units apart, at round times. Breaks have none. */
export function ticksOf(
  { segments }: TimeScale,
  from: number,
  to: number,
  minDistance: number,
): { readonly ticks: readonly Tick[]; readonly stepMs: number } {
  const stepMs = [...tickSteps, ...longTickSteps].find((step) => step >= minDistance) ?? 86_400_000;
  const ticks: Tick[] = [];
  let isAfterBreak = false;
  for (const segment of segments) {
    if (segment.isBreak) isAfterBreak = true;
    else if (segment.at <= to && segment.at + segment.width >= from) {
      const firstTime = Math.max(segment.from, segment.from + from - segment.at);
      const lastTime = Math.min(segment.to, segment.from + to - segment.at);
      for (let time = Math.ceil(firstTime / stepMs) * stepMs; time <= lastTime; time += stepMs) {
        ticks.push({ time, position: segment.at + time - segment.from, isAfterBreak });
      }
    }
  }
  return { ticks: spaced(ticks, minDistance), stepMs };
}

/** Removes marks that are too near to the one before: those on both sides of a break. */
function spaced(ticks: readonly Tick[], minDistance: number): readonly Tick[] {
  let last = Number.NEGATIVE_INFINITY;
  return ticks.filter(({ position }) => {
    if (position - last < minDistance * 0.9) return false;
    last = position;
    return true;
  });
}
