// Tokens and cost of each step, below the lanes.

import type { Window } from "./draw.ts";
import type { StepUsage } from "./layout.ts";
import type { PlotProps } from "./plot-types.ts";
import type { ReactNode } from "react";

import { memo } from "react";

import { pixelsPerUnit } from "./draw.ts";
import { stepText } from "./layout.ts";
import { positionOf } from "./time-scale.ts";

const stepsHeight = 30;

/** Tokens and cost of each step: the height shows the tokens, the striped part those from a cache. */
export const StepTokens = memo(function StepTokens({
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
    <div className="everturn-tl-lane everturn-tl-steps" aria-hidden="true">
      <svg>
        <path d={areas} />
        <path data-cached d={cachedAreas} />
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
