// The rows of the journal below the lanes.

import type { Window } from "./draw.ts";
import type { PlotProps } from "./plot-types.ts";
import type { ReactNode } from "react";

import { memo } from "react";

import { drawnMarks } from "./draw.ts";

/**
 * Rows of the journal as ticks: tall ones for effects, short ones for bookkeeping. All ticks are one path, because a
 * long turn has as many of them as the plot has pixels. A click selects the nearest.
 */
export const Commits = memo(function Commits({
  layout,
  window,
  selected: selectedRow,
  selectedTurn,
  onSelect,
}: Pick<PlotProps, "layout" | "selected" | "selectedTurn" | "onSelect"> & { readonly window: Window }): ReactNode {
  // Rows of child turns are commits of their own journals.
  const selected = selectedTurn === null ? selectedRow : null;
  const marks = drawnMarks(layout.commits, layout.scale, window, 3);
  const isVisible = selected !== null && !marks.some(({ mark }) => mark.ordinal === selected);
  const hidden = isVisible ? layout.commits.find(({ ordinal }) => ordinal === selected) : undefined;
  const selectedMark = [
    ...marks.filter(({ mark }) => mark.ordinal === selected),
    ...(hidden === undefined ? [] : drawnMarks([hidden], layout.scale, window, 0)),
  ];
  return (
    <svg
      className="everturn-tl-lane everturn-tl-commits"
      aria-hidden="true"
      onClick={(event) => {
        const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
        const [first, ...others] = marks;
        if (first === undefined) return;
        const nearestMark = others.reduce(
          (best, mark) => (Math.abs(mark.left - left) < Math.abs(best.left - left) ? mark : best),
          first,
        );
        if (Math.abs(nearestMark.left - left) < 12) onSelect(nearestMark.mark.ordinal, null);
      }}
    >
      <path d={marks.map(({ left, mark }) => tickPath(left, mark.isBookkeeping)).join("")} />
      <path data-selected d={selectedMark.map(({ left }) => tickPath(left, false)).join("")} />
    </svg>
  );
});

function tickPath(left: number, isShort: boolean): string {
  return `M${left.toFixed(1)} ${isShort ? "17v4" : "9v12"}`;
}
