// Draws a layout: lanes with bars, the axis with the playhead, commits, crashes, breaks and the tokens of each step. Only what is visible is drawn.
//
// Accessibility: the bars are the options of a list box whose groups are the lanes; arrow keys move between bars. The axis is a slider that moves the playhead by commits.

import type { Drawn, Window } from "./draw.ts";
import type { Bar, Crash, Lane, StepUsage, TurnLayout } from "./layout.ts";
import type { KeyboardEvent, PointerEvent, ReactNode, RefObject } from "react";

import { memo, useEffect, useMemo, useRef, useState } from "react";

import { count, duration } from "../parts/format.ts";
import { visibleName } from "../parts/text.ts";
import { drawnBars, drawnMarks, panned, pixelsPerUnit, revealing, zoomed } from "./draw.ts";
import { barLabels, barsInOrder, barTitle, neighbourCommit, stepText } from "./layout.ts";
import { positionOf, ticksOf, timeAt } from "./time-scale.ts";

export type PlotProps = {
  readonly layout: TurnLayout;
  readonly label: string;
  /** The ordinal of the selected row. */
  readonly selected: number | null;
  /** The playhead, in milliseconds since the turn was accepted; `null`: the present. */
  readonly at: number | null;
  /** The bars on the critical path; `null`: not shown. */
  readonly critical: ReadonlySet<string> | null;
  /** The visible part of the axis; `null`: all of it. */
  readonly view: View | null;
  readonly onView: (view: View | null) => void;
  readonly onSelect: (ordinal: number) => void;
  readonly onScrub: (at: number | null) => void;
  readonly onHover: (hover: Hover | null) => void;
};

/** The visible part of the axis, in positions. */
export type View = { readonly from: number; readonly to: number };

/** The bars under the pointer, and where they are on the screen. */
export type Hover = { readonly bars: readonly Bar[]; readonly box: DOMRect };

const zoomFactor = 1.6;

export const Plot = memo(function Plot(props: PlotProps): ReactNode {
  const { layout, at, view, onView, onScrub, onHover } = props;
  const { scale } = layout;
  const plot = useRef<HTMLDivElement>(null);
  const width = useWidth(plot);
  const window = useMemo(
    (): Window => ({ from: view?.from ?? 0, to: Math.min(view?.to ?? scale.width, Math.max(scale.width, 1)), width }),
    [view, scale.width, width],
  );
  const show = ({ from, to }: Window): void => onView(from <= 0.5 && to >= scale.width - 0.5 ? null : { from, to });
  useWheel(plot, window, (next) => show(next), scale);
  const drag = useRef<{ readonly x: number; readonly window: Window } | null>(null);

  const onPointerDown = (event: PointerEvent<HTMLDivElement>): void => {
    if (event.button !== 0 || view === null) return;
    drag.current = { x: event.clientX, window };
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>): void => {
    const from = drag.current;
    if (from === null || Math.abs(event.clientX - from.x) < 3) return;
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) event.currentTarget.setPointerCapture(event.pointerId);
    onHover(null);
    show(panned(from.window, scale, from.x - event.clientX));
  };
  const endDrag = (): void => {
    drag.current = null;
  };
  const x = (time: number): number => (positionOf(scale, time) - window.from) * pixelsPerUnit(window);
  return (
    <div className="tl-body">
      <Names lanes={layout.lanes} hasSteps={layout.steps.length > 0} />
      <div
        className="tl-plot"
        ref={plot}
        data-pannable={view !== null}
        onPointerDown={onPointerDown}
        onPointerMove={onPointerMove}
        onPointerUp={endDrag}
        onPointerCancel={endDrag}
      >
        {width > 0 && (
          <>
            <Grid layout={layout} window={window} />
            <Axis layout={layout} window={window} at={at} onScrub={onScrub} />
            <Breaks layout={layout} window={window} />
            <Lanes {...props} window={window} show={show} />
            <Commits {...props} window={window} />
            <Steps layout={layout} window={window} />
            {layout.crashes.map((crash) => (
              <CrashLine key={crash.resumedAt} crash={crash} left={x(crash.time)} width={width} />
            ))}
            {at !== null && (
              <div className="tl-playhead tnum" style={{ transform: `translateX(${x(at)}px)` }}>
                <b>{duration(at)}</b>
              </div>
            )}
          </>
        )}
      </div>
    </div>
  );
});

const Names = memo(function Names({
  lanes,
  hasSteps,
}: {
  readonly lanes: readonly Lane[];
  readonly hasSteps: boolean;
}): ReactNode {
  return (
    <div className="tl-names" aria-hidden="true">
      <div className="tl-axis-space" />
      {lanes.map(({ kind, label }, index) => (
        <div key={index} className={`tl-name ${kind}`} title={visibleName(label)}>
          <span>{slotOf(lanes, index) === 1 ? visibleName(label) : `slot ${slotOf(lanes, index)}`}</span>
        </div>
      ))}
      <div className="tl-name">
        <span>commits</span>
      </div>
      {hasSteps && (
        <div className="tl-name tl-name-steps">
          <span>tokens</span>
        </div>
      )}
    </div>
  );
});

/** The number of a lane among the parallel slots of one tool, from 1. */
function slotOf(lanes: readonly Lane[], index: number): number {
  let slot = 1;
  while (lanes[index - slot]?.label === lanes[index]?.label && lanes[index - slot]?.kind === lanes[index]?.kind)
    slot += 1;
  return slot;
}

/** The axis with its marks. Dragging on it moves the playhead; a double click returns to the present. */
function Axis({
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
    if (direction !== null) onScrub(neighbourCommit(layout, at ?? end + 1, direction));
    else if (event.key === "Home") onScrub(0);
    else if (event.key === "End") onScrub(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className="tl-axis tnum"
      role="slider"
      tabIndex={0}
      aria-label="Playhead"
      aria-valuemin={0}
      aria-valuemax={Math.round(end)}
      aria-valuenow={Math.round(at ?? end)}
      aria-valuetext={at === null ? "the present" : `${duration(at)} after the start`}
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
              className={left < 14 ? "at-start" : left > window.width - 14 ? "at-end" : ""}
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
function Grid({ layout, window }: { readonly layout: TurnLayout; readonly window: Window }): ReactNode {
  if (layout.isOrderOnly) return null;
  return (
    <div className="tl-grid" aria-hidden="true">
      {visibleTicks(layout, window).map(({ time, left }) => (
        <i key={time} style={{ transform: `translateX(${left}px)` }} />
      ))}
    </div>
  );
}

/** Marks are at round times: `0.5 s`, `2 s`, `4 m`. */
function tickText(time: number, stepMs: number): string {
  if (time < 1000 || stepMs >= 60_000) return duration(time);
  const minutes = Math.floor(time / 60_000);
  const seconds = `${Number(((time % 60_000) / 1000).toFixed(3))} s`;
  return minutes === 0 ? seconds : `${minutes} m ${seconds}`;
}

/** Periods in which nothing happened, drawn shorter than they were. */
function Breaks({ layout, window }: { readonly layout: TurnLayout; readonly window: Window }): ReactNode {
  const perUnit = pixelsPerUnit(window);
  return layout.scale.segments.map(({ isBreak, at, width, from, to }) => {
    const left = (at - window.from) * perUnit;
    if (!isBreak || left > window.width || left + width * perUnit < 0) return null;
    return (
      <div key={from} className="tl-break tnum" style={{ left, width: width * perUnit }} title={duration(to - from)}>
        <b aria-hidden="true">//</b>
        <span>{duration(to - from)}</span>
      </div>
    );
  });
}

function Lanes({
  layout,
  label,
  selected,
  critical,
  window,
  show,
  onSelect,
  onHover,
  onView,
}: PlotProps & { readonly window: Window; readonly show: (window: Window) => void }): ReactNode {
  const [activeId, setActiveId] = useState<string | null>(null);
  const inOrder = useMemo(() => barsInOrder(layout), [layout]);
  const active =
    inOrder.find(({ id }) => id === activeId) ??
    inOrder.find(({ ordinal, kind }) => ordinal !== null && ordinal === selected && kind !== "discarded") ??
    null;
  const drawn = useMemo(() => layout.bars.map((bars) => drawnBars(bars, layout.scale, window)), [layout, window]);
  const activeDrawn = active === null ? undefined : drawn[active.lane]?.find(({ bars }) => bars.includes(active));

  const moveTo = (bar: Bar | undefined): void => {
    if (bar === undefined) return;
    setActiveId(bar.id);
    const next = revealing(window, layout.scale, bar.start, bar.end);
    if (next !== window) show(next);
    if (bar.ordinal !== null) onSelect(bar.ordinal);
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
      className="tl-lanes"
      role="listbox"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={activeDrawn === undefined ? undefined : drawnId(activeDrawn)}
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
          if (bar.ordinal !== null) onSelect(bar.ordinal);
        }
      }}
      onPointerOver={(event) => {
        const hit = at(event.target);
        onHover(hit === null ? null : { bars: hit.drawn.bars, box: hit.element.getBoundingClientRect() });
      }}
      onPointerLeave={() => onHover(null)}
      data-critical={critical !== null}
    >
      {layout.lanes.map((lane, index) => (
        <LaneRow
          key={index}
          index={index}
          lane={lane}
          drawn={drawn[index] ?? []}
          selected={selected}
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

const LaneRow = memo(function LaneRow({
  index,
  lane,
  drawn,
  selected,
  activeId,
  critical,
}: {
  readonly index: number;
  readonly lane: Lane;
  readonly drawn: readonly Drawn[];
  readonly activeId: string | null;
} & Pick<PlotProps, "selected" | "critical">): ReactNode {
  return (
    <div className="tl-lane" role="group" aria-label={visibleName(lane.label)}>
      {drawn.map((item, place) => {
        const [bar] = item.bars;
        if (bar === undefined) return null;
        const isGroup = item.bars.length > 1;
        const isSelected = item.bars.some(({ ordinal }) => ordinal !== null && ordinal === selected);
        const isCritical = critical !== null && item.bars.some(({ id }) => critical.has(id));
        const classes = ["tl-bar", isGroup ? groupKind(item.bars) : bar.kind];
        if (isGroup) classes.push("group");
        if (bar.isOpen) classes.push("open");
        if (bar.state === "failed" || bar.state === "cancelled" || bar.state === "superseded") classes.push(bar.state);
        if (isSelected) classes.push("selected");
        if (critical !== null) classes.push(isCritical ? "critical" : "aside");
        return (
          <div
            key={bar.id}
            id={drawnId(item)}
            className={classes.join(" ")}
            role="option"
            aria-selected={isSelected}
            aria-label={isGroup ? groupTitle(item.bars) : barTitle(bar)}
            data-active={activeId !== null && item.bars.some(({ id }) => id === activeId)}
            data-drawn={`${index}.${place}`}
            data-ordinal={bar.ordinal ?? undefined}
            style={{ transform: `translateX(${item.left}px)`, width: item.width }}
          >
            {!isGroup && bar.first !== null && item.width > 24 && (
              <i className="first" style={{ left: `${firstShare(bar) * 100}%` }} />
            )}
            <BarText texts={isGroup ? groupLabels(item.bars.length) : barLabels(bar)} item={item} />
          </div>
        );
      })}
    </div>
  );
});

/**
 * The longest text that fits into the visible part of a bar. The width of a text is estimated, because measuring would force a layout of the page.
 */
function BarText({
  texts,
  item: { left, width },
}: {
  readonly texts: readonly string[];
  readonly item: Drawn;
}): ReactNode {
  const hidden = Math.max(0, -left);
  const text = texts.find((candidate) => candidate.length * characterWidth + barPadding <= width - hidden);
  return text === undefined ? null : (
    <span aria-hidden="true" style={hidden === 0 ? undefined : { marginLeft: hidden }}>
      {text}
    </span>
  );
}

const characterWidth = 6.6;
const barPadding = 14;

function groupLabels(size: number): readonly string[] {
  return [`${count(size)} effects`, count(size)];
}

function drawnId({ bars }: Drawn): string {
  return `bar-${bars[0]?.id ?? ""}`;
}

function groupKind(bars: readonly Bar[]): string {
  return bars.some(({ kind }) => kind === "discarded") ? "discarded" : (bars[0]?.kind ?? "");
}

function groupTitle(bars: readonly Bar[]): string {
  return `${count(bars.length)} effects, steps ${(bars[0]?.step ?? 0) + 1} to ${(bars.at(-1)?.step ?? 0) + 1}`;
}

function firstShare({ start, end, first }: Bar): number {
  return first === null ? 0 : Math.max(0, Math.min(1, (first - start) / Math.max(1, end - start)));
}

/**
 * Rows of the journal as ticks: tall ones for effects, short ones for bookkeeping. All ticks are one path, because a long turn has as many of them as the plot has pixels. A
 * click selects the nearest.
 */
const Commits = memo(function Commits({
  layout,
  window,
  selected,
  onSelect,
}: Pick<PlotProps, "layout" | "selected" | "onSelect"> & { readonly window: Window }): ReactNode {
  const marks = drawnMarks(layout.commits, layout.scale, window, 3);
  const isVisible = selected !== null && !marks.some(({ mark }) => mark.ordinal === selected);
  const hidden = isVisible ? layout.commits.find(({ ordinal }) => ordinal === selected) : undefined;
  const selectedMark = [
    ...marks.filter(({ mark }) => mark.ordinal === selected),
    ...(hidden === undefined ? [] : drawnMarks([hidden], layout.scale, window, 0)),
  ];
  return (
    <svg
      className="tl-lane tl-commits"
      aria-hidden="true"
      onClick={(event) => {
        const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
        const [first, ...others] = marks;
        if (first === undefined) return;
        const nearestMark = others.reduce(
          (best, mark) => (Math.abs(mark.left - left) < Math.abs(best.left - left) ? mark : best),
          first,
        );
        if (Math.abs(nearestMark.left - left) < 12) onSelect(nearestMark.mark.ordinal);
      }}
    >
      <path d={marks.map(({ left, mark }) => tickPath(left, mark.isBookkeeping)).join("")} />
      <path className="selected" d={selectedMark.map(({ left }) => tickPath(left, false)).join("")} />
    </svg>
  );
});

function tickPath(left: number, isShort: boolean): string {
  return `M${left.toFixed(1)} ${isShort ? "17v4" : "9v12"}`;
}

const stepsHeight = 30;

/** Tokens and cost of each step: the height shows the tokens, the striped part those from a cache. */
const Steps = memo(function Steps({
  layout: { steps, scale },
  window,
}: Pick<PlotProps, "layout"> & { readonly window: Window }): ReactNode {
  if (steps.length === 0) return null;
  const perUnit = pixelsPerUnit(window);
  const x = (time: number): number => (positionOf(scale, time) - window.from) * perUnit;
  const most = steps.reduce((max, step) => Math.max(max, tokensOf(step)), 1);
  const labels: { readonly step: StepUsage; readonly left: number; readonly width: number }[] = [];
  let areas = "";
  let cachedAreas = "";
  let until = Number.NEGATIVE_INFINITY;
  for (const step of steps) {
    const [left, right] = [Math.max(-2, x(step.start)), Math.min(window.width + 2, x(step.end))];
    if (right < 0 || left > window.width || right - until < 1.5) continue;
    until = right;
    const width = Math.max(1.5, right - left - 1);
    const height = (tokensOf(step) / most) * stepsHeight;
    const cached = ((step.cachedInputTokens ?? 0) / most) * stepsHeight;
    areas += areaPath(left, width, height);
    if (cached > 0) cachedAreas += areaPath(left, width, cached);
    if (width > 76) labels.push({ step, left, width });
  }
  return (
    <div className="tl-lane tl-steps tnum" aria-hidden="true">
      <svg>
        <path d={areas} />
        <path className="cached" d={cachedAreas} />
      </svg>
      {labels.map(({ step, left, width }) => (
        <span key={step.step} style={{ transform: `translateX(${left}px)`, width }}>
          {stepText(step)}
        </span>
      ))}
    </div>
  );
});

function areaPath(left: number, width: number, height: number): string {
  return `M${left.toFixed(1)} ${(stepsHeight + 2).toFixed(1)}h${width.toFixed(1)}v${(-height).toFixed(1)}h${(-width).toFixed(1)}z`;
}

function tokensOf({ inputTokens, outputTokens }: StepUsage): number {
  return (inputTokens ?? 0) + (outputTokens ?? 0);
}

/** A dashed line where a process died, with its name and who went on. */
function CrashLine({
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
  const after = resumedAt > time ? ` after ${duration(resumedAt - time)}` : "";
  const title = `${died ?? "The process"} died. ${continued} went on${after}; ${replayed} recorded effects were replayed, none was performed again.`;
  return (
    <div
      className="tl-crash"
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

function useWidth(ref: RefObject<HTMLDivElement | null>): number {
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

/** Zooms with the wheel and Ctrl (which is also what a pinch sends), and pans with a horizontal wheel or Shift. A plain vertical wheel scrolls the lanes. */
function useWheel(
  ref: RefObject<HTMLDivElement | null>,
  window: Window,
  show: (window: Window) => void,
  scale: TurnLayout["scale"],
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
