// How a reader moves the visible part of the axis: the wheel, dragging with the mouse or a finger, and two fingers.

import type { Window } from "./draw.ts";
import type { TimeScale } from "./time-scale.ts";
import type { PointerEvent, RefObject } from "react";

import { useEffect, useRef, useState } from "react";

import { panned, pinched, pixelsPerUnit, zoomed } from "./draw.ts";

/** A pointer that moves less than this has not dragged: it is a click, in CSS pixels. */
const dragDistance = 3;

export type Gestures = {
  readonly onPointerDown: (event: PointerEvent<HTMLDivElement>) => void;
  readonly onPointerMove: (event: PointerEvent<HTMLDivElement>) => void;
  readonly onPointerUp: (event: PointerEvent<HTMLDivElement>) => void;
  readonly onPointerCancel: (event: PointerEvent<HTMLDivElement>) => void;
};

/**
 * Pans with one pointer while only a part of the axis is visible, and zooms and pans with two fingers. The plot
 * captures a pointer when it begins to drag, so that the end of a drag is no click on a bar. `show` gets the new
 * window, `onBegin` is called when a gesture begins.
 */
export function useGestures(
  window: Window,
  scale: TimeScale,
  { show, onBegin }: { readonly show: (window: Window) => void; readonly onBegin: () => void },
): Gestures {
  /** The places of the pointers that are down, by their ids, in pixels from the left edge of the plot. */
  const pointers = useRef(new Map<number, number>());
  /** Where the pointers were when their number changed, and the window at that time. */
  const start = useRef<{ readonly window: Window; readonly places: readonly number[] } | null>(null);
  const isDragging = useRef(false);
  const restart = (): void => {
    start.current = pointers.current.size === 0 ? null : { window, places: [...pointers.current.values()] };
    if (pointers.current.size === 0) isDragging.current = false;
  };
  const end = (event: PointerEvent<HTMLDivElement>): void => {
    if (pointers.current.delete(event.pointerId)) restart();
  };
  return {
    onPointerDown: (event) => {
      if (event.button !== 0) return;
      pointers.current.set(event.pointerId, pointerPlace(event));
      restart();
    },
    onPointerMove: (event) => {
      if (start.current === null || !pointers.current.has(event.pointerId)) return;
      pointers.current.set(event.pointerId, pointerPlace(event));
      const { window: before, places } = start.current;
      const [from = 0, secondFrom] = places;
      const [to = 0, secondTo] = pointers.current.values();
      const isPinch = secondFrom !== undefined && secondTo !== undefined;
      if (!isPinch && (isWhole(before, scale) || (!isDragging.current && Math.abs(to - from) < dragDistance))) return;
      if (!isDragging.current) {
        isDragging.current = true;
        onBegin();
      }
      // A pointer that has ended since cannot be captured.
      if (!event.currentTarget.hasPointerCapture(event.pointerId))
        event.currentTarget.setPointerCapture(event.pointerId);
      show(isPinch ? pinched(before, scale, [from, secondFrom], [to, secondTo]) : panned(before, scale, from - to));
    },
    onPointerUp: end,
    onPointerCancel: end,
  };
}

/** Where a pointer is, in pixels from the left edge of the plot. */
function pointerPlace({ clientX, currentTarget }: PointerEvent<HTMLDivElement>): number {
  return clientX - currentTarget.getBoundingClientRect().left;
}

/** Whether all of the axis is visible. */
export function isWhole({ from, to }: Pick<Window, "from" | "to">, { width }: TimeScale): boolean {
  return from <= 0.5 && to >= width - 0.5;
}

/** The width of an element, in CSS pixels; 0: not known yet. */
export function useWidth(ref: RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, [ref]);
  return width;
}

/**
 * Zooms with the wheel and Ctrl (which is also what a pinch sends), and pans with a horizontal wheel or Shift. A plain
 * vertical wheel scrolls the lanes.
 */
export function useWheel(
  ref: RefObject<HTMLDivElement | null>,
  window: Window,
  show: (window: Window) => void,
  scale: TimeScale,
): void {
  const newest = useRef({ window, show, scale });
  newest.current = { window, show, scale };
  useEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    // Several wheel events of one frame change the window once.
    let pending: Window | null = null;
    let frame = 0;
    const draw = (): void => {
      if (pending !== null) newest.current.show(pending);
      pending = null;
      frame = 0;
    };
    const wheel = (event: WheelEvent): void => {
      const { scale: axis } = newest.current;
      const current: Window = pending ?? newest.current.window;
      const distance = event.deltaX === 0 && event.shiftKey ? event.deltaY : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        const left = event.clientX - element.getBoundingClientRect().left;
        const position = current.from + left / pixelsPerUnit(current);
        pending = zoomed(current, axis, Math.exp(-event.deltaY * 0.004), position);
      } else if (distance !== 0) pending = panned(current, axis, distance);
      else return;
      event.preventDefault();
      if (frame === 0) frame = requestAnimationFrame(draw);
    };
    // React registers wheel listeners as passive, and a passive listener cannot keep the page from zooming.
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      element.removeEventListener("wheel", wheel);
      cancelAnimationFrame(frame);
    };
  }, [ref]);
}
