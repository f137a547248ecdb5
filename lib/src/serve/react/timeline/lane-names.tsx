// The names of the lanes, at the left of the plot.

import type { Lane } from "./layout.ts";
import type { ReactNode } from "react";

import { memo } from "react";

import { visibleName } from "../texts.ts";

export const LaneNames = memo(function LaneNames({
  lanes,
  hasSteps,
}: {
  readonly lanes: readonly Lane[];
  readonly hasSteps: boolean;
}): ReactNode {
  return (
    <div className="everturn-tl-names" aria-hidden="true">
      <div className="everturn-tl-axis-space" />
      {lanes.map(({ kind, label, depth }, index) => (
        <div key={index} className="everturn-tl-name" data-kind={kind} data-depth={depth} title={visibleName(label)}>
          <span>{slotOf(lanes, index) === 1 ? visibleName(label) : `slot ${slotOf(lanes, index)}`}</span>
        </div>
      ))}
      <div className="everturn-tl-name">
        <span>commits</span>
      </div>
      {hasSteps && (
        <div className="everturn-tl-name everturn-tl-name-steps">
          <span>tokens</span>
        </div>
      )}
    </div>
  );
});

/** The number of a lane among the parallel slots of one tool, from 1. */
function slotOf(lanes: readonly Lane[], index: number): number {
  let slot = 1;
  const lane = lanes[index];
  const isSame = (other: Lane | undefined): boolean =>
    other?.label === lane?.label && other?.kind === lane?.kind && other?.depth === lane?.depth;
  while (isSame(lanes[index - slot])) slot += 1;
  return slot;
}
