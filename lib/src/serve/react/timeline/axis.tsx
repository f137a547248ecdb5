// The axis of the plot: marks of time, lines through the lanes at the marks, and the slider that moves the playhead.

import type { Window } from "./draw.ts";
import type { TurnLayout } from "./layout.ts";
import type { PlotProps } from "./plot-types.ts";
import type { KeyboardEvent, PointerEvent, ReactNode } from "react";

import { durationText } from "../texts.ts";
import { pixelsPerUnit } from "./draw.ts";
import { neighbourCommit } from "./layout.ts";
import { positionOf, ticksOf, timeAt } from "./time-scale.ts";

/** The axis with its marks. Dragging on it moves the playhead; a double click returns to the present. */
export function Axis({
  layout,
  window,
  at,
  onScrub,
}: {
  readonly layout: TurnLayout;
  readonly window: Window;
} & Pick<PlotProps, "at" | "onScrub">): ReactNode {
  const { scale, end, isOrderOnly } = layout;
  const perUnit = pixelsPerUnit(window);
  const scrub = (event: PointerEvent<HTMLDivElement>): void => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
    onScrub(Math.round(timeAt(scale, window.from + left / perUnit)));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const direction = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : null;
    if (direction !== null) onScrub(neighbourCommit(layout, at, direction));
    else if (event.key === "Home") onScrub(0);
    else if (event.key === "End") onScrub(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className="everturn-tl-axis"
      role="slider"
      tabIndex={0}
      aria-label="Playhead"
      aria-valuemin={0}
      aria-valuemax={Math.round(end)}
      aria-valuenow={Math.round(at ?? end)}
      aria-valuetext={at === null ? "the present" : `${durationText(at)} after the start`}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.stopPropagation();
        event.currentTarget.setPointerCapture(event.pointerId);
        scrub(event);
      }}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) scrub(event);
      }}
      onDoubleClick={() => onScrub(null)}
      onKeyDown={onKeyDown}
    >
      {!isOrderOnly &&
        visibleTicks(layout, window).map(({ time, left, isAfterBreak, isCovered, stepMs }) =>
          isCovered ? null : (
            <span
              key={time}
              data-side={left < 14 ? "start" : left > window.width - 24 ? "end" : "middle"}
              style={{ transform: `translateX(${left}px)` }}
            >
              {time === 0 ? "0" : `${isAfterBreak ? "+" : ""}${tickText(time, stepMs)}`}
            </span>
          ),
        )}
    </div>
  );
}

/** The distance of marks, in pixels. */
const tickDistance = 74;
/** The width of the label of a crash, which covers marks. */
const crashLabelWidth = 150;

/** The marks in the window, in pixels. */
function visibleTicks(
  { scale, crashes }: TurnLayout,
  window: Window,
): readonly {
  readonly time: number;
  readonly left: number;
  readonly isAfterBreak: boolean;
  readonly isCovered: boolean;
  readonly stepMs: number;
}[] {
  const perUnit = pixelsPerUnit(window);
  const lines = crashes.map(({ time }) => (positionOf(scale, time) - window.from) * perUnit);
  const { ticks, stepMs } = ticksOf(scale, window.from, window.to, tickDistance / perUnit);
  return ticks.map(({ time, position, isAfterBreak }) => {
    const left = (position - window.from) * perUnit;
    const isCovered = lines.some((line) => {
      const start = line > window.width / 2 ? line - crashLabelWidth : line;
      return left > start - 20 && left < start + crashLabelWidth + 20;
    });
    return { time, left, isAfterBreak, isCovered, stepMs };
  });
}

/** Lines through all lanes at the marks of the axis. */
export function Grid({ layout, window }: { readonly layout: TurnLayout; readonly window: Window }): ReactNode {
  if (layout.isOrderOnly) return null;
  return (
    <div className="everturn-tl-grid" aria-hidden="true">
      {visibleTicks(layout, window).map(({ time, left }) => (
        <i key={time} style={{ transform: `translateX(${left}px)` }} />
      ))}
    </div>
  );
}

/** Marks are at round times: `0.5 s`, `2 s`, `4 m`. */
function tickText(time: number, stepMs: number): string {
  if (time < 1000 || stepMs >= 60_000) return durationText(time);
  const minutes = Math.floor(time / 60_000);
  const seconds = `${Number(((time % 60_000) / 1000).toFixed(3))} s`;
  return minutes === 0 ? seconds : `${minutes} m ${seconds}`;
}
