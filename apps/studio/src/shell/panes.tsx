// Panes that can be resized and hidden. Their sizes are stored in the browser.

import type { KeyboardEvent, PointerEvent, ReactNode } from "react";

import { Store, useStore } from "../data/store.ts";
import { readStored, writeStored } from "./stored.ts";

/** The panes with their size in CSS pixels: by default, at least and at most. */
const limits = {
  sessions: { size: 276, min: 200, max: 480 },
  inspector: { size: 348, min: 260, max: 720 },
  timeline: { size: 250, min: 96, max: 640 },
} as const;

export type PaneName = keyof typeof limits;
type Pane = { readonly size: number; readonly isHidden: boolean };

const panes = new Store<{ readonly [Name in PaneName]: Pane }>({
  sessions: storedPane("sessions"),
  inspector: storedPane("inspector"),
  timeline: storedPane("timeline"),
});

export function usePane(name: PaneName): Pane {
  return useStore(panes)[name];
}

/** Hides a pane, or shows it again. */
export function togglePane(name: PaneName): void {
  const { size, isHidden } = panes.get()[name];
  setPane(name, { size, isHidden: !isHidden });
}

/**
 * The border of a pane that the reader drags, or moves with the arrow keys. `side`: where the pane is, seen from the
 * border.
 */
export function Resizer({
  pane,
  side,
  label,
}: {
  readonly pane: PaneName;
  readonly side: "left" | "right" | "below";
  readonly label: string;
}): ReactNode {
  const { size } = usePane(pane);
  const { min, max } = limits[pane];
  const isHorizontal = side !== "below";
  const sign = side === "left" ? 1 : -1;
  const resize = (next: number): void =>
    setPane(pane, { size: Math.round(Math.min(max, Math.max(min, next))), isHidden: false });
  const drag = (event: PointerEvent<HTMLDivElement>): void => {
    const handle = event.currentTarget;
    const from = isHorizontal ? event.clientX : event.clientY;
    handle.setPointerCapture(event.pointerId);
    const moved = (move: globalThis.PointerEvent): void =>
      resize(size + sign * ((isHorizontal ? move.clientX : move.clientY) - from));
    const ended = (): void => {
      handle.removeEventListener("pointermove", moved);
      handle.removeEventListener("pointerup", ended);
      handle.removeEventListener("pointercancel", ended);
    };
    handle.addEventListener("pointermove", moved);
    handle.addEventListener("pointerup", ended);
    handle.addEventListener("pointercancel", ended);
  };
  const press = (event: KeyboardEvent): void => {
    const steps: { readonly [key: string]: number } = isHorizontal
      ? { ArrowLeft: -16, ArrowRight: 16 }
      : { ArrowUp: -16, ArrowDown: 16 };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    resize(size + sign * step);
  };
  return (
    <div
      className={`resizer ${isHorizontal ? "vertical" : "horizontal"} of-${pane}`}
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={isHorizontal ? "vertical" : "horizontal"}
      aria-valuenow={size}
      aria-valuemin={min}
      aria-valuemax={max}
      onPointerDown={drag}
      onKeyDown={press}
      onDoubleClick={() => resize(limits[pane].size)}
    />
  );
}

function storedPane(name: PaneName): Pane {
  const [, digits, hidden] = /^(\d{2,4})(-?)$/.exec(readStored(`everturn-pane-${name}`) ?? "") ?? [];
  const { size, min, max } = limits[name];
  return {
    size: digits === undefined ? size : Math.min(max, Math.max(min, Number(digits))),
    isHidden: hidden === "-",
  };
}

function setPane(name: PaneName, pane: Pane): void {
  writeStored(`everturn-pane-${name}`, `${pane.size}${pane.isHidden ? "-" : ""}`);
  panes.set({ ...panes.get(), [name]: pane });
}
