// One lane with its bars. A bar shows the longest text that fits; bars that are too narrow are drawn as one.

import type { Drawn } from "./draw.ts";
import type { Bar, Lane } from "./layout.ts";
import type { PlotProps } from "./plot-types.ts";
import type { ReactNode } from "react";

import { memo } from "react";

import { countText, visibleName } from "../texts.ts";
import { barLabels, barTitle } from "./layout.ts";

export const LaneRow = memo(function LaneRow({
  id,
  index,
  lane,
  drawn,
  selected,
  selectedTurn,
  activeId,
  critical,
}: {
  /** The beginning of the ids of elements, which is unique on the page. */
  readonly id: string;
  readonly index: number;
  readonly lane: Lane;
  readonly drawn: readonly Drawn[];
  readonly activeId: string | null;
} & Pick<PlotProps, "selected" | "selectedTurn" | "critical">): ReactNode {
  return (
    <div className="everturn-tl-lane" role="group" aria-label={laneTitle(lane)} data-depth={lane.depth}>
      {drawn.map((item, place) => {
        const [bar] = item.bars;
        if (bar === undefined) return null;
        const isGroup = item.bars.length > 1;
        const isSelected = item.bars.some((each) => isSelectedBar(each, selected, selectedTurn));
        const isCritical = critical !== null && item.bars.some(({ id }) => critical.has(id));
        return (
          <div
            key={bar.id}
            id={`${id}${drawnId(item)}`}
            className="everturn-tl-bar"
            role="option"
            aria-selected={isSelected}
            aria-label={isGroup ? groupTitle(item.bars) : barTitle(bar)}
            data-kind={isGroup ? groupKind(item.bars) : bar.kind}
            data-state={bar.state}
            data-group={isGroup}
            data-open={bar.isOpen}
            data-path={critical === null ? undefined : isCritical ? "critical" : "aside"}
            data-active={activeId !== null && item.bars.some(({ id }) => id === activeId)}
            data-drawn={`${index}.${place}`}
            data-ordinal={bar.ordinal ?? undefined}
            data-turn={bar.turnId ?? undefined}
            style={{ transform: `translateX(${item.left}px)`, width: item.width }}
          >
            {!isGroup && bar.first !== null && item.width > 24 && <i style={{ width: `${firstShare(bar) * 100}%` }} />}
            <BarText texts={isGroup ? groupLabels(item.bars.length) : barLabels(bar)} item={item} />
          </div>
        );
      })}
    </div>
  );
});

/**
 * The longest text that fits into the visible part of a bar. The width of a text is estimated, because measuring would
 * force a layout of the page.
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
  return [`${countText(size)} effects`, countText(size)];
}

/** Whether a bar stands for the selected row. */
export function isSelectedBar(
  { ordinal, turnId }: Pick<Bar, "ordinal" | "turnId">,
  selected: number | null,
  selectedTurn: string | null,
): boolean {
  return ordinal !== null && ordinal === selected && turnId === selectedTurn;
}

function laneTitle({ label, parent }: Lane): string {
  return parent === null ? visibleName(label) : `${visibleName(label)} of the child agent ${visibleName(parent)}`;
}

/** The id of the element of a bar, among those of its timeline. */
export function drawnId({ bars }: Drawn): string {
  return bars[0]?.id ?? "";
}

function groupKind(bars: readonly Bar[]): Bar["kind"] | undefined {
  return bars.some(({ kind }) => kind === "discarded") ? "discarded" : bars[0]?.kind;
}

function groupTitle(bars: readonly Bar[]): string {
  return `${countText(bars.length)} effects, steps ${(bars[0]?.step ?? 0) + 1} to ${(bars.at(-1)?.step ?? 0) + 1}`;
}

function firstShare({ start, end, first }: Bar): number {
  return first === null ? 0 : Math.max(0, Math.min(1, (first - start) / Math.max(1, end - start)));
}
