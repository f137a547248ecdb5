import { expect, test } from "vitest";

import { panned, pinched, pixelsPerUnit, zoomed } from "./draw.ts";

/** An axis of 1,000 ms without breaks. */
const scale = { width: 1000, segments: [] };
const whole = { from: 0, to: 1000, width: 500 };
const positionAt = (window: typeof whole, place: number): number => window.from + place / pixelsPerUnit(window);

test("positions under two fingers stay under them", () => {
  const next = pinched(whole, scale, [200, 300], [150, 350]);
  expect(next.to - next.from).toBeCloseTo(500);
  expect(positionAt(next, 150)).toBeCloseTo(positionAt(whole, 200));
  expect(positionAt(next, 350)).toBeCloseTo(positionAt(whole, 300));
});

test("two fingers that move in parallel pan", () => {
  const closer = { from: 400, to: 600, width: 500 };
  expect(pinched(closer, scale, [100, 200], [150, 250])).toEqual(panned(closer, scale, -50));
});

test("two fingers never leave the axis, and never show less than 5 ms of it", () => {
  expect(pinched(whole, scale, [100, 400], [240, 260])).toEqual(whole);
  const closest = pinched({ from: 500, to: 506, width: 500 }, scale, [240, 260], [0, 500]);
  expect(closest.to - closest.from).toBe(5);
  const atEnd = pinched({ from: 900, to: 1000, width: 500 }, scale, [100, 200], [0, 100]);
  expect([atEnd.from, atEnd.to]).toEqual([900, 1000]);
});

test("fingers at one place do not zoom without end", () => {
  const next = pinched(whole, scale, [250, 250], [249, 251]);
  expect(next.to - next.from).toBe(1000);
});

test("zooming keeps the position under the pointer", () => {
  const next = zoomed(whole, scale, 2, 300);
  expect(next.to - next.from).toBe(500);
  expect((300 - next.from) / 500).toBeCloseTo(300 / 1000);
});
