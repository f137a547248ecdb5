// Selects what the plot draws: the bars in the visible window, with bars that are too narrow to be seen joined to one.
// The number of drawn items depends on the width of the window, not on the length of the turn.

import type { Bar } from "./layout.ts";
import type { TimeScale } from "./time-scale.ts";

import { lastIndexAt, positionOf } from "./time-scale.ts";

/** The visible part of the axis, in positions, and its width in pixels. */
export type Window = { readonly from: number; readonly to: number; readonly width: number };

/** A rectangle of the plot, in pixels. `bars` are the bars that it stands for: one, or several that are too narrow. */
export type Drawn = { readonly left: number; readonly width: number; readonly bars: readonly Bar[] };

/** Bars narrower than this are joined with their neighbours, in pixels. */
const narrow = 4;
/** A gap smaller than this between narrow bars is not drawn. */
const smallestGap = 3;
/** The smallest width of a bar that stands alone. */
const minWidth = 3;

/** The rectangles of one lane. `bars` are ordered by start, and do not overlap. */
export function drawnBars(bars: readonly Bar[], scale: TimeScale, window: Window): readonly Drawn[] {
  const perUnit = pixelsPerUnit(window);
  const drawn: { left: number; right: number; bars: Bar[]; isNarrow: boolean }[] = [];
  // Bars that begin before the window may reach into it; bars of a lane do not overlap, so only the last of them can,
  // or a group of a full lane.
  const last = lastIndexAt(bars, (bar) => positionOf(scale, bar.start) <= window.to);
  for (let index = firstVisible(bars, scale, window.from); index <= last; index += 1) {
    const bar = bars[index];
    if (bar === undefined) continue;
    const left = (positionOf(scale, bar.start) - window.from) * perUnit;
    const right = (positionOf(scale, bar.end) - window.from) * perUnit;
    if (right < 0) continue;
    const isNarrow = right - left < narrow;
    const before = drawn.at(-1);
    if (before !== undefined && isNarrow && before.isNarrow && left - before.right < smallestGap) {
      before.right = Math.max(before.right, right);
      before.bars.push(bar);
    } else {
      drawn.push({ left, right, bars: [bar], isNarrow });
    }
  }
  return drawn.map(({ left, right, bars: joined }) => ({
    // A short bar at the right edge is moved into the window, where it can be seen and clicked.
    left: Math.min(left, window.width - minWidth),
    width: Math.max(minWidth, right - left),
    bars: joined,
  }));
}

/**
 * The index of the first bar that ends in the window or after it. Ends are ordered like starts as long as bars do not
 * overlap.
 */
function firstVisible(bars: readonly Bar[], scale: TimeScale, from: number): number {
  return Math.max(
    0,
    lastIndexAt(bars, (bar) => positionOf(scale, bar.end) < from),
  );
}

/**
 * The positions, in pixels, of marks in the window. Marks nearer than `distance` pixels to the one before are left out.
 */
export function drawnMarks<T extends { readonly time: number }>(
  marks: readonly T[],
  scale: TimeScale,
  window: Window,
  distance: number,
): readonly { readonly left: number; readonly mark: T }[] {
  const perUnit = pixelsPerUnit(window);
  const first = Math.max(
    0,
    lastIndexAt(marks, ({ time }) => positionOf(scale, time) < window.from),
  );
  const last = lastIndexAt(marks, ({ time }) => positionOf(scale, time) <= window.to);
  const drawn: { left: number; mark: T }[] = [];
  let before = Number.NEGATIVE_INFINITY;
  for (const mark of marks.slice(first, last + 1)) {
    const left = (positionOf(scale, mark.time) - window.from) * perUnit;
    if (left < -distance || left - before < distance) continue;
    before = left;
    drawn.push({ left, mark });
  }
  return drawn;
}

export function pixelsPerUnit({ from, to, width }: Window): number {
  return width / Math.max(1e-6, to - from);
}

/**
 * The window after zooming by a factor (> 1: closer) around a position that stays where it is. The window stays inside
 * of the axis.
 */
export function zoomed(window: Window, scale: TimeScale, factor: number, around: number): Window {
  const length = Math.min(scale.width, Math.max(minLength, (window.to - window.from) / factor));
  const share = (around - window.from) / Math.max(1e-6, window.to - window.from);
  return clamped({ ...window, from: around - share * length, to: around - share * length + length }, scale);
}

/** The window after moving it by a distance in pixels. */
export function panned(window: Window, scale: TimeScale, pixels: number): Window {
  const distance = pixels / pixelsPerUnit(window);
  return clamped({ ...window, from: window.from + distance, to: window.to + distance }, scale);
}

/** The places of two fingers, in pixels from the left edge of the plot. */
type Fingers = readonly [number, number];

/**
 * Fingers nearer than this to each other are taken to have this distance, in pixels: otherwise a small movement would
 * zoom far.
 */
const minFingerDistance = 24;

/** The window after two fingers have moved on it: the positions that were under them stay under them. */
export function pinched(window: Window, scale: TimeScale, from: Fingers, to: Fingers): Window {
  const length = Math.min(
    scale.width,
    Math.max(minLength, ((window.to - window.from) * distanceOf(from)) / distanceOf(to)),
  );
  const position = window.from + middleOf(from) / pixelsPerUnit(window);
  const start = position - (middleOf(to) / Math.max(1, window.width)) * length;
  return clamped({ ...window, from: start, to: start + length }, scale);
}

function distanceOf([one, other]: Fingers): number {
  return Math.max(minFingerDistance, Math.abs(other - one));
}

function middleOf([one, other]: Fingers): number {
  return (one + other) / 2;
}

/** The smallest visible part: 5 ms. */
const minLength = 5;

function clamped(window: Window, scale: TimeScale): Window {
  const length = window.to - window.from;
  const from = Math.max(0, Math.min(window.from, scale.width - length));
  return { ...window, from, to: from + length };
}

/** The window moved so that a period is visible; the same window if it is. */
export function revealing(window: Window, scale: TimeScale, start: number, end: number): Window {
  const [from, to] = [positionOf(scale, start), positionOf(scale, end)];
  if (from >= window.from && to <= window.to) return window;
  const length = window.to - window.from;
  const at = to - from >= length ? from : (from + to - length) / 2;
  return clamped({ ...window, from: at, to: at + length }, scale);
}
