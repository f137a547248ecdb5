// The lanes as a list box: the bars are its options. Arrow keys move between bars, plus and minus zoom, a click
// selects.

import type { Drawn, Window } from "./draw.ts";
import type { Bar, TurnLayout } from "./layout.ts";
import type { PlotProps } from "./plot-types.ts";
import type { KeyboardEvent, ReactNode } from "react";

import { useId, useMemo, useState } from "react";

import { drawnBars, revealing, zoomed } from "./draw.ts";
import { drawnId, isSelectedBar, LaneRow } from "./lane-row.tsx";
import { barsInOrder } from "./layout.ts";
import { positionOf, timeAt } from "./time-scale.ts";

const zoomFactor = 1.6;

export function Lanes({
  layout,
  label,
  selected,
  selectedTurn,
  critical,
  window,
  show,
  onSelect,
  onHover,
  onView,
}: PlotProps & { readonly window: Window; readonly show: (window: Window) => void }): ReactNode {
  const id = useId();
  const [activeId, setActiveId] = useState<string | null>(null);
  const inOrder = useMemo(() => barsInOrder(layout), [layout]);
  const active =
    inOrder.find(({ id }) => id === activeId) ??
    inOrder.find(
      ({ ordinal, turnId, kind }) => isSelectedBar({ ordinal, turnId }, selected, selectedTurn) && kind !== "discarded",
    ) ??
    null;
  const drawn = useMemo(() => layout.bars.map((bars) => drawnBars(bars, layout.scale, window)), [layout, window]);
  const activeDrawn = active === null ? undefined : drawn[active.lane]?.find(({ bars }) => bars.includes(active));

  const moveTo = (bar: Bar | undefined): void => {
    if (bar === undefined) return;
    setActiveId(bar.id);
    const next = revealing(window, layout.scale, bar.start, bar.end);
    if (next !== window) show(next);
    if (bar.ordinal !== null) onSelect(bar.ordinal, bar.turnId);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const index = active === null ? -1 : inOrder.indexOf(active);
    const around = positionOf(
      layout.scale,
      active === null ? timeAt(layout.scale, (window.from + window.to) / 2) : active.start,
    );
    switch (event.key) {
      case "ArrowRight":
        moveTo(inOrder[index + 1]);
        break;
      case "ArrowLeft":
        moveTo(inOrder[Math.max(0, index - 1)]);
        break;
      case "ArrowDown":
      case "ArrowUp":
        moveTo(active === null ? inOrder[0] : nearest(layout, active, event.key === "ArrowDown" ? 1 : -1));
        break;
      case "Home":
        moveTo(inOrder[0]);
        break;
      case "End":
        moveTo(inOrder.at(-1));
        break;
      case "+":
      case "=":
        show(zoomed(window, layout.scale, zoomFactor, around));
        break;
      case "-":
        show(zoomed(window, layout.scale, 1 / zoomFactor, around));
        break;
      case "0":
        onView(null);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const at = (target: EventTarget): { readonly drawn: Drawn; readonly element: Element } | null => {
    const element = target instanceof Element ? target.closest("[data-drawn]") : null;
    const [lane = "", index = ""] = element?.getAttribute("data-drawn")?.split(".") ?? [];
    const found = drawn[Number(lane)]?.[Number(index)];
    return element === null || found === undefined ? null : { drawn: found, element };
  };
  return (
    <div
      className="everturn-tl-lanes"
      role="listbox"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={activeDrawn === undefined ? undefined : `${id}${drawnId(activeDrawn)}`}
      onKeyDown={onKeyDown}
      onClick={(event) => {
        const hit = at(event.target)?.drawn;
        if (hit === undefined) return;
        const [bar] = hit.bars;
        if (hit.bars.length > 1) {
          const last = hit.bars.at(-1);
          if (bar !== undefined && last !== undefined) show(around(window, layout, bar.start, last.end));
        }
        if (bar !== undefined) {
          setActiveId(bar.id);
          if (bar.ordinal !== null) onSelect(bar.ordinal, bar.turnId);
        }
      }}
      onPointerOver={(event) => {
        // A finger covers what it touches, and a tap selects: the inspector shows the same.
        if (event.pointerType === "touch") return;
        const hit = at(event.target);
        onHover(hit === null ? null : { bars: hit.drawn.bars, box: hit.element.getBoundingClientRect() });
      }}
      onPointerLeave={() => onHover(null)}
      data-critical={critical !== null}
    >
      {layout.lanes.map((lane, index) => (
        <LaneRow
          key={index}
          id={id}
          index={index}
          lane={lane}
          drawn={drawn[index] ?? []}
          selected={selected}
          selectedTurn={selectedTurn}
          activeId={active?.id ?? null}
          critical={critical}
        />
      ))}
    </div>
  );
}

/** The window around a group of narrow bars. */
function around(window: Window, { scale }: TurnLayout, start: number, end: number): Window {
  const [from, to] = [positionOf(scale, start), positionOf(scale, end)];
  const margin = (to - from) * 0.1 + 1;
  const factor = (window.to - window.from) / (to - from + 2 * margin);
  const closer = zoomed(window, scale, Math.max(1, factor), (from + to) / 2);
  return revealing(closer, scale, start, end);
}

/** The bar of the next lane in a direction whose time is nearest. */
function nearest({ bars }: TurnLayout, { lane, start, end }: Bar, direction: -1 | 1): Bar | undefined {
  const middle = (start + end) / 2;
  for (let index = lane + direction; index >= 0 && index < bars.length; index += direction) {
    const distance = (bar: Bar): number => Math.abs((bar.start + bar.end) / 2 - middle);
    const found = bars[index]?.reduce((best, bar) => (distance(bar) < distance(best) ? bar : best));
    if (found !== undefined) return found;
  }
  return undefined;
}
