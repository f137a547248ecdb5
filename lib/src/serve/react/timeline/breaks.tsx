// What interrupts a turn: periods in which nothing happened, and processes that died.

import type { Window } from "./draw.ts";
import type { Crash, TurnLayout } from "./layout.ts";
import type { ReactNode } from "react";

import { durationText, visibleName } from "../texts.ts";
import { pixelsPerUnit } from "./draw.ts";

/** Periods in which nothing happened, drawn shorter than they were. */
export function Breaks({ layout, window }: { readonly layout: TurnLayout; readonly window: Window }): ReactNode {
  const perUnit = pixelsPerUnit(window);
  return layout.scale.segments.map(({ isBreak, at, width, from, to }) => {
    const left = (at - window.from) * perUnit;
    if (!isBreak || left > window.width || left + width * perUnit < 0) return null;
    // A text that is wider than a break at the end of the plot grows to the left.
    const side = left + width * perUnit >= window.width - 1 ? "left" : "middle";
    return (
      <div
        key={from}
        className="everturn-tl-break"
        data-side={side}
        style={{ left, width: width * perUnit }}
        title={durationText(to - from)}
      >
        <b aria-hidden="true">//</b>
        <span>{durationText(to - from)}</span>
      </div>
    );
  });
}

/** A dashed line where a process died, with its name and who went on. */
export function CrashLine({
  crash,
  left,
  width,
}: {
  readonly crash: Crash;
  readonly left: number;
  readonly width: number;
}): ReactNode {
  if (left < 0 || left > width) return null;
  const { died, continued, time, resumedAt, replayed } = crash;
  const after = resumedAt > time ? ` after ${durationText(resumedAt - time)}` : "";
  const title = `${died ?? "The process"} died. ${continued} went on${after}; ${replayed} recorded effects were replayed, none was performed again.`;
  return (
    <div
      className="everturn-tl-crash"
      style={{ transform: `translateX(${left}px)` }}
      data-side={left > width / 2 ? "left" : "right"}
    >
      <span title={title}>✕ {died === null ? "process" : shortOwner(died)} died</span>
    </div>
  );
}

/** The end of the name of a process, which tells it from others. */
function shortOwner(owner: string): string {
  const name = visibleName(owner);
  return name.length <= 18 ? name : `…${name.slice(-14)}`;
}
