// The timeline of one turn: its heading with totals, zoom and the critical path, the plot, and the card of the bar
// under the pointer. It takes its data as properties, so that a replay file is shown without a server.

import type { LoadDetail } from "./hover-card.tsx";
import type { OpenEffect } from "./layout.ts";
import type { ChildTimelines } from "./nested.ts";
import type { Hover, View } from "./plot-types.ts";
import type { TurnTimeline } from "everturn/client";
import type { ReactNode } from "react";

import { useCallback, useEffect, useMemo, useState } from "react";

import { cost, count, duration } from "../parts/format.ts";
import { Button, Toggle } from "../shell/button.tsx";
import { useShortcuts } from "../shell/keyboard.ts";
import { HoverCard } from "./hover-card.tsx";
import { JournalList } from "./journal-list.tsx";
import { criticalPath, layoutOf, neighbourCommit, totalsText } from "./layout.ts";
import "./timeline.css";
import { withChildren } from "./nested.ts";
import { Plot } from "./plot.tsx";

export type TimelineViewProps = {
  readonly timeline: TurnTimeline;
  readonly open: readonly OpenEffect[];
  /** The clock of the server minus the clock of the page, in milliseconds. */
  readonly clockOffset: number;
  readonly nextTurnAt: number | null;
  /** The name of the turn, or the switcher. */
  readonly heading: ReactNode;
  readonly label: string;
  /** Timelines of child turns, whose lanes are below those of their calls. Default: none. */
  readonly children?: ChildTimelines;
  readonly selected: number | null;
  /** The child turn that has the selected row. Default: `null`, the turn itself. */
  readonly selectedTurn?: string | null;
  readonly at: number | null;
  /** `child`: the child turn that has the row; `null`: the turn itself. */
  readonly onSelect: (ordinal: number, child: string | null) => void;
  readonly onScrub: (at: number | null) => void;
  readonly load: LoadDetail;
};

const noChildren: ChildTimelines = new Map();

/** How often open bars grow, in milliseconds. Long turns grow less often, because their layout costs more. */
const growMs = 120;
const slowGrowMs = 500;

export function TimelineView(props: TimelineViewProps): ReactNode {
  const {
    timeline,
    open,
    nextTurnAt,
    heading,
    label,
    selected,
    selectedTurn = null,
    at,
    onSelect,
    onScrub,
    load,
  } = props;
  const { children = noChildren } = props;
  const isOpen = nextTurnAt === null && (open.length > 0 || timeline.turn.status !== "ended" || isWaiting(timeline));
  const now = useNow(isOpen, timeline, props.clockOffset);
  const own = useMemo(() => layoutOf(timeline, { open, now, nextTurnAt }), [timeline, open, now, nextTurnAt]);
  const layout = useMemo(() => withChildren(own, timeline, children, now), [own, timeline, children, now]);
  const [view, setView] = useState<View | null>(null);
  const [isList, setIsList] = useState(false);
  const [isCritical, setIsCritical] = useState(false);
  const critical = useMemo(() => (isCritical ? criticalPath(layout) : null), [isCritical, layout]);
  const [hover, setHover] = useState<Hover | null>(null);
  useEffect(() => setView(null), [timeline.turn.turnId]);
  const scrub = (direction: -1 | 1) => (): boolean | undefined => {
    if (layout.commits.length === 0) return false;
    if (direction === 1 && at === null) return false;
    onScrub(neighbourCommit(layout, at ?? layout.end + 1, direction) ?? (direction === 1 ? null : 0));
    return undefined;
  };
  useShortcuts({ ArrowLeft: scrub(-1), ArrowRight: scrub(1) });
  const zoom = (factor: number): void => {
    const from = view?.from ?? 0;
    const to = view?.to ?? layout.scale.width;
    const length = Math.max(5, (to - from) / factor);
    const middle = (from + to) / 2;
    const start = Math.max(0, Math.min(middle - length / 2, layout.scale.width - length));
    setView(length >= layout.scale.width ? null : { from: start, to: start + length });
  };
  const hide = useCallback((next: Hover | null) => setHover(next), []);
  const { totals } = layout;
  return (
    <div className="tl">
      <div className="tl-head">
        {heading}
        <span className="tnum tl-totals">{totalsText(totals).join(" · ")}</span>
        <span className="tnum tl-more">
          {[
            `${count(totals.steps)} ${totals.steps === 1 ? "step" : "steps"}`,
            ...(totals.firstTokenMs === null ? [] : [`first token ${duration(totals.firstTokenMs)}`]),
            ...(totals.inputTokens === null && totals.outputTokens === null
              ? []
              : [`${count((totals.inputTokens ?? 0) + (totals.outputTokens ?? 0))} tokens`]),
            ...(totals.cost === null ? [] : [cost(totals.cost)]),
          ].join(" · ")}
        </span>
        <span className="spacer" />
        {at !== null && (
          <Toggle look="tl-present" isOn onClick={() => onScrub(null)}>
            at {duration(at)} · back to the present
          </Toggle>
        )}
        <Toggle
          isOn={isList}
          title="Show the rows of the journal as a list"
          onClick={() => setIsList((value) => !value)}
        >
          rows
        </Toggle>
        {!isList && (
          <>
            <Toggle look="tl-critical" isOn={isCritical} onClick={() => setIsCritical((value) => !value)}>
              critical path
            </Toggle>
            <span className="tl-zoom" role="group" aria-label="Zoom">
              <Button look="quiet" aria-label="Zoom out" disabled={view === null} onClick={() => zoom(1 / 1.6)}>
                −
              </Button>
              <Button look="quiet" aria-label="Zoom in" onClick={() => zoom(1.6)}>
                +
              </Button>
              <Button look="quiet" disabled={view === null} onClick={() => setView(null)}>
                Fit
              </Button>
            </span>
          </>
        )}
        {at === null && <span className="kbd tl-keys">scrub ← →</span>}
      </div>
      {timeline.isJournalRemoved ? (
        <p className="tl-empty">The journal of this turn was removed, because its retention time has passed.</p>
      ) : timeline.effects.length === 0 && open.length === 0 && layout.lanes.length === 0 ? (
        <p className="tl-empty">No effect is recorded yet.</p>
      ) : isList ? (
        <JournalList
          timeline={timeline}
          selected={selectedTurn === null ? selected : null}
          label={label}
          onSelect={(ordinal) => onSelect(ordinal, null)}
        />
      ) : (
        <Plot
          layout={layout}
          label={label}
          selected={selected}
          selectedTurn={selectedTurn}
          at={at}
          critical={critical}
          view={view}
          onView={setView}
          onSelect={onSelect}
          onScrub={onScrub}
          onHover={hide}
        />
      )}
      {layout.isOrderOnly && (
        <p className="tl-note">An older release wrote this turn without times: the bars show the order only.</p>
      )}
      {view !== null && !isList && <Overview view={view} width={layout.scale.width} onView={setView} />}
      {hover !== null && !isList && (
        <HoverCard
          hover={hover}
          effectsOf={(turnId) => (turnId === null ? timeline : children.get(turnId))?.effects ?? []}
          load={load}
        />
      )}
    </div>
  );
}

function isWaiting({ effects }: TurnTimeline): boolean {
  return effects.some(({ state }) => state === "waits");
}

/** The present time of the server, which advances while something is open. */
function useNow(isOpen: boolean, timeline: TurnTimeline, clockOffset: number): number {
  const [now, setNow] = useState(timeline.now);
  const every = timeline.effects.length > 1000 ? slowGrowMs : growMs;
  const isRunning = timeline.turn.status !== "ended";
  useEffect(() => {
    if (!isOpen) return undefined;
    // A wait of a person is shown in seconds at most: it needs no smooth growth.
    const timer = setInterval(() => setNow(Date.now() + clockOffset), isRunning ? every : 1000);
    return () => clearInterval(timer);
  }, [isOpen, isRunning, every, clockOffset]);
  return isOpen ? Math.max(now, timeline.now) : timeline.now;
}

/** Where the visible part is in the turn. Dragging it pans. */
function Overview({
  view,
  width,
  onView,
}: {
  readonly view: View;
  readonly width: number;
  readonly onView: (view: View) => void;
}): ReactNode {
  const length = view.to - view.from;
  return (
    <div
      className="tl-overview"
      aria-hidden="true"
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => {
        if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
        const box = event.currentTarget.getBoundingClientRect();
        const middle = ((event.clientX - box.left) / box.width) * width;
        const from = Math.max(0, Math.min(width - length, middle - length / 2));
        onView({ from, to: from + length });
      }}
    >
      <i style={{ left: `${(view.from / width) * 100}%`, width: `${Math.max(1, (length / width) * 100)}%` }} />
    </div>
  );
}
