// The plot of a layout: names at the left, then the axis, lanes with bars, commits and the tokens of each step. Only
// what is visible is drawn.
//
// Accessibility: the bars are the options of a list box whose groups are the lanes; arrow keys move between bars. The
// axis is a slider that moves the playhead by commits.

import type { Window } from "./draw.ts";
import type { PlotProps } from "./plot-types.ts";
import type { ReactNode } from "react";

import { memo, useMemo, useRef } from "react";

import { durationText } from "../texts.ts";
import { Axis, Grid } from "./axis.tsx";
import { Breaks, CrashLine } from "./breaks.tsx";
import { Commits } from "./commits.tsx";
import { pixelsPerUnit } from "./draw.ts";
import { isWhole, useGestures, useWheel, useWidth } from "./gestures.ts";
import { LaneNames } from "./lane-names.tsx";
import { Lanes } from "./lanes.tsx";
import { StepTokens } from "./step-tokens.tsx";
import { positionOf } from "./time-scale.ts";

/** The space that half of the label of the playhead needs, in pixels. */
const labelSpace = 36;

export const Plot = memo(function Plot(props: PlotProps): ReactNode {
  const { layout, at, view, onView, onScrub, onHover } = props;
  const { scale } = layout;
  const plot = useRef<HTMLDivElement>(null);
  const width = useWidth(plot);
  const window = useMemo(
    (): Window => ({ from: view?.from ?? 0, to: Math.min(view?.to ?? scale.width, Math.max(scale.width, 1)), width }),
    [view, scale.width, width],
  );
  const show = ({ from, to }: Window): void => onView(isWhole({ from, to }, scale) ? null : { from, to });
  useWheel(plot, window, show, scale);
  const gestures = useGestures(window, scale, { show, onBegin: () => onHover(null) });
  const x = (time: number): number => (positionOf(scale, time) - window.from) * pixelsPerUnit(window);
  return (
    <div className="everturn-tl-body">
      <LaneNames lanes={layout.lanes} hasSteps={layout.steps.length > 0} />
      <div className="everturn-tl-plot" ref={plot} data-pannable={view !== null} {...gestures}>
        {width > 0 && (
          <>
            <Grid layout={layout} window={window} />
            <Axis layout={layout} window={window} at={at} onScrub={onScrub} />
            <Breaks layout={layout} window={window} />
            <Lanes {...props} window={window} show={show} />
            <Commits {...props} window={window} />
            <StepTokens layout={layout} window={window} />
            {layout.crashes.map((crash) => (
              <CrashLine key={crash.resumedAt} crash={crash} left={x(crash.time)} width={width} />
            ))}
            {at !== null && (
              <div
                className="everturn-tl-playhead"
                data-side={x(at) < labelSpace ? "right" : x(at) > width - labelSpace ? "left" : "middle"}
                style={{ transform: `translateX(${x(at)}px)` }}
              >
                <b>{durationText(at)}</b>
              </div>
            )}
          </>
        )}
      </div>
    </div>
  );
});
