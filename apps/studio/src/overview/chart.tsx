// Charts of the overview: stacked bars over time, with titles of both axes. Colours repeat what the legend and a table for screen readers say.

import type { ReactNode, RefObject } from "react";

import { useEffect, useRef, useState } from "react";

import { count, duration } from "../parts/format.ts";
import { axisText, axisTimes, niceMaximum, periodText } from "./axis.ts";

/** A part of each bar. `className` gives its colour and pattern. */
export type Series = { readonly name: string; readonly className: string };

/** The values of one bar, by the name of the series. */
export type Bar = {
  readonly at: number;
  readonly label: string;
  readonly values: { readonly [series: string]: number };
};

const height = 164;
/** The width before the chart is measured. */
const firstWidth = 560;
const left = 68;
const bottom = 34;
/** Half of the width of the text of a time. */
const labelSpace = 22;

/**
 * Bars over a period. Every bucket of the period has a place, also those without values, so that the distances tell the
 * truth. `format` renders the values of the axis and of the hints.
 */
export function BarChart({
  title,
  measure,
  series,
  bars,
  from,
  until,
  bucketMs,
  format,
  empty,
}: {
  readonly title: string;
  /** What the values are, for the title of their axis, for example `tokens`. */
  readonly measure: string;
  readonly series: readonly Series[];
  readonly bars: readonly Bar[];
  readonly from: number;
  readonly until: number;
  readonly bucketMs: number;
  readonly format: (value: number) => string;
  /** What is shown if all values are zero. */
  readonly empty: string;
}): ReactNode {
  const figure = useRef<HTMLElement>(null);
  const width = useWidth(figure);
  const places = Math.max(1, Math.ceil((until - from) / bucketMs));
  const step = (width - left) / places;
  const most = Math.max(0, ...bars.map(totalOf));
  const highest = niceMaximum(most, format === duration ? "duration" : format === count ? "count" : "amount");
  const scale = (height - bottom - 8) / highest;
  const y = (value: number): number => height - bottom - value * scale;
  return (
    <figure className="chart" ref={figure}>
      <figcaption>
        <h2>{title}</h2>
        <span className="spacer" />
        {(most === 0 ? [] : series).map(({ name, className }) => (
          <span key={name} className="legend">
            <svg width="10" height="10" aria-hidden="true">
              <rect className={className} width="10" height="10" rx="2" />
            </svg>
            {name}
          </span>
        ))}
      </figcaption>
      {most === 0 ? (
        <p className="chart-empty">{empty}</p>
      ) : (
        <svg width={width} height={height} aria-hidden="true">
          <defs>
            <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="3" height="6" className="chart-crash" />
            </pattern>
          </defs>
          {[0, 0.5, 1].map((share) => (
            <g key={share}>
              <line x1={left} x2={width} y1={y(highest * share)} y2={y(highest * share)} className="grid" />
              <text x={left - 6} y={y(highest * share) + 4} textAnchor="end">
                {axisText(highest * share, format)}
              </text>
            </g>
          ))}
          {bars.map((bar) => (
            <Stack
              key={bar.at}
              bar={bar}
              series={series}
              x={left + Math.floor((bar.at - from) / bucketMs) * step}
              {...{ step, y, scale, format }}
            />
          ))}
          <text className="axis-title" textAnchor="middle" transform={`translate(11 ${y(highest / 2)}) rotate(-90)`}>
            {measure}
          </text>
          <text className="axis-title" x={width} y={height - 4} textAnchor="end">
            {`local time, a bar for ${periodText(bucketMs)}`}
          </text>
          {axisTimes(from, until, new Date(from).getTimezoneOffset()).map((at) => (
            <text key={at} {...tooltipPlace((at - from) / (until - from), width)} y={height - bottom + 15}>
              {tick(at, until - from)}
            </text>
          ))}
        </svg>
      )}
      <table className="visually-hidden">
        <caption>{`${title}: ${measure}, for ${periodText(bucketMs)} each`}</caption>
        <thead>
          <tr>
            <th scope="col">time</th>
            {series.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {bars.map((bar) => (
            <tr key={bar.at}>
              <th scope="row">{bar.label}</th>
              {series.map(({ name }) => (
                <td key={name}>{format(bar.values[name] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

/** The parts of one bar, from the bottom to the top. */
function Stack({
  bar,
  series,
  x,
  step,
  y,
  scale,
  format,
}: {
  readonly bar: Bar;
  readonly series: readonly Series[];
  readonly x: number;
  readonly step: number;
  readonly y: (value: number) => number;
  readonly scale: number;
  readonly format: (value: number) => string;
}): ReactNode {
  const parts: { readonly name: string; readonly className: string; readonly value: number; readonly top: number }[] =
    [];
  let top = 0;
  for (const { name, className } of series) {
    const value = bar.values[name] ?? 0;
    top += value;
    if (value > 0) parts.push({ name, className, value, top });
  }
  const gap = Math.min(2, step * 0.2);
  return parts.map((part) => (
    <rect
      key={part.name}
      className={part.className}
      x={x + gap / 2}
      width={Math.max(1, step - gap)}
      y={y(part.top)}
      height={Math.max(1, part.value * scale)}
    >
      <title>{`${bar.label}: ${format(part.value)} ${part.name}`}</title>
    </rect>
  ));
}

/**
 * The width of the content of an element, in pixels: the chart is drawn at its real size, so that its texts have the
 * size of other texts.
 */
function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(firstWidth);
  useEffect(() => {
    const { current } = element;
    if (current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setWidth(Math.max(200, Math.floor(entry.contentRect.width)));
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

function totalOf({ values }: Bar): number {
  return Object.values(values).reduce((sum, value) => sum + value, 0);
}

/** Where the text of a time is: centred, and inside of the chart at its ends. */
function tooltipPlace(
  share: number,
  width: number,
): { readonly x: number; readonly textAnchor: "start" | "middle" | "end" } {
  const x = left + (width - left) * share;
  return { x, textAnchor: x - left < labelSpace ? "start" : width - x < labelSpace ? "end" : "middle" };
}

/** A time of the axis: hours within two days, else dates. */
function tick(at: number, period: number): string {
  const date = new Date(at);
  return period <= 48 * 3_600_000
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
}
