// The timeline of one turn: its heading with totals, zoom and the critical path, the plot or the rows of the journal, and
// the card of the bar under the pointer. It takes its data as properties, so that a recorded turn is shown without a
// server. Its look is in `everturn/react.css`.

import type { TurnTimeline } from "../../../core/model/internal.ts";
import type { LoadDetail } from "./hover-card.tsx";
import type { Crash, LayoutOptions, OpenEffect, Totals } from "./layout.ts";
import type { ChildTimelines } from "./nested.ts";
import type { Hover, View } from "./plot-types.ts";
import type { ReactNode } from "react";

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { systemClock } from "../../../core/clock/clock.ts";
import { startInterval } from "../../../core/clock/timer.ts";
import { Button, Toggle } from "../controls.tsx";
import { costText, countText, durationText } from "../texts.ts";
import { HoverCard } from "./hover-card.tsx";
import { JournalList } from "./journal-list.tsx";
import { criticalPath, layoutOf, neighbourCommit, totalsText } from "./layout.ts";
import { withChildren } from "./nested.ts";
import { openEffects } from "./open-effects.ts";
import { Plot } from "./plot.tsx";

/** Properties of {@link Timeline}. */
type TimelineProps = {
  /** All rows of the turn, for example of `readTimeline`. */
  readonly timeline: TurnTimeline;
  /** Effects that are being performed and have no row yet, as events show them. Default: those that the rows name. */
  readonly open?: readonly OpenEffect[];
  /** The clock of the server minus the clock of the page, in milliseconds. Default: 0. */
  readonly clockOffset?: number;
  /** When the next turn of the session was accepted, which ends waits of this one; `null`: there is none. Default. */
  readonly nextTurnAt?: number | null;
  /** The name of the turn, or a control that chooses one. Default: `Turn`. */
  readonly heading?: ReactNode;
  /** The accessible name of the bars. Default: `Effects of the turn`. */
  readonly label?: string;
  /** Timelines of child turns by their ids, whose lanes are below those of their calls. Default: none. */
  readonly childTurns?: ChildTimelines;
  /** The number of the selected row; `null`: none. Default: the component keeps it. */
  readonly selected?: number | null;
  /** The child turn that has the selected row; `null`: the turn itself. Default. */
  readonly selectedTurn?: string | null;
  /**
   * Called with the number of a row that is selected, and the child turn that has it; `null`: the turn itself.
   */
  readonly onSelect?: (ordinal: number, childTurn: string | null) => void;
  /** The playhead, in milliseconds since the turn was accepted; `null`: the present. Default: the component keeps it. */
  readonly at?: number | null;
  /** Called when the playhead moves. */
  readonly onScrub?: (at: number | null) => void;
  /**
   * Reads the stored data of a row for the card of a bar, for example with `effect` of the inspector. Default: the card
   * shows what the timeline has.
   */
  readonly load?: LoadDetail;
};

/** What a turn used, and the processes that died in it. */
type TimelineSummary = { readonly totals: Totals; readonly crashes: readonly Crash[] };

/** The totals that {@link Timeline} shows, for a page that shows them elsewhere. */
export function summarizeTimeline(timeline: TurnTimeline, options: LayoutOptions = {}): TimelineSummary {
  const { totals, crashes } = layoutOf(timeline, options);
  return { totals, crashes };
}

/**
 * The playhead of a {@link Timeline} after one step, for shortcuts of a page: at the commit before (`-1`) or after (`1`)
 * it. Before the first commit it is at the start of the turn; after the last one it shows the present, `null`.
 */
export function movePlayhead(timeline: TurnTimeline, at: number | null, direction: -1 | 1): number | null {
  return neighbourCommit(layoutOf(timeline), at, direction);
}

const noChildren: ChildTimelines = new Map();

/** How often open bars grow, in milliseconds. Long turns grow less often, because their layout costs more. */
const growMs = 120;
const slowGrowMs = 500;

/**
 * Shows what a turn did and when, from its journal: model calls, tools, child agents, waits, retries, crashes and
 * takeovers, on an axis that can be zoomed, with a playhead that moves from commit to commit. With the keyboard: arrow
 * keys move between the bars, plus and minus zoom, and on the axis they move the playhead.
 */
export function Timeline(props: TimelineProps): ReactNode {
  const { timeline, open: givenEffects, clockOffset = 0, nextTurnAt = null, childTurns = noChildren } = props;
  const { heading = <b>Turn</b>, label = "Effects of the turn", selectedTurn: givenTurn = null, load } = props;
  const open = useMemo(() => givenEffects ?? openEffects(timeline), [givenEffects, timeline]);
  const [own, setOwn] = useState<{ readonly ordinal: number; readonly childTurn: string | null } | null>(null);
  const [ownAt, setOwnAt] = useState<number | null>(null);
  const selected = props.selected === undefined ? (own?.ordinal ?? null) : props.selected;
  const selectedTurn = props.selected === undefined ? (own?.childTurn ?? null) : givenTurn;
  const at = props.at === undefined ? ownAt : props.at;
  // Stable functions: the plot is drawn again when its properties change, which a movement of the pointer must not cause.
  const newest = useRef(props);
  newest.current = props;
  const onSelect = useCallback((ordinal: number, childTurn: string | null) => {
    setOwn({ ordinal, childTurn });
    newest.current.onSelect?.(ordinal, childTurn);
  }, []);
  const onScrub = useCallback((next: number | null) => {
    setOwnAt(next);
    newest.current.onScrub?.(next);
  }, []);
  const isOpen = nextTurnAt === null && (open.length > 0 || timeline.turn.status !== "ended" || isWaiting(timeline));
  const now = useNow(isOpen, timeline, clockOffset);
  const ofTurn = useMemo(() => layoutOf(timeline, { open, now, nextTurnAt }), [timeline, open, now, nextTurnAt]);
  const layout = useMemo(() => withChildren(ofTurn, timeline, childTurns, now), [ofTurn, timeline, childTurns, now]);
  const [view, setView] = useState<View | null>(null);
  const [isList, setIsList] = useState(false);
  const [isCritical, setIsCritical] = useState(false);
  const critical = useMemo(() => (isCritical ? criticalPath(layout) : null), [isCritical, layout]);
  const [hover, setHover] = useState<Hover | null>(null);
  const { turnId } = timeline.turn;
  useEffect(() => {
    setView(null);
    setOwn(null);
    setOwnAt(null);
  }, [turnId]);
  const zoom = (factor: number): void => {
    const from = view?.from ?? 0;
    const to = view?.to ?? layout.scale.width;
    const length = Math.max(5, (to - from) / factor);
    const middle = (from + to) / 2;
    const start = Math.max(0, Math.min(middle - length / 2, layout.scale.width - length));
    setView(length >= layout.scale.width ? null : { from: start, to: start + length });
  };
  const { totals } = layout;
  return (
    <div className="everturn-timeline">
      <div className="everturn-tl-head">
        {heading}
        <span className="everturn-tl-totals">{totalsText(totals).join(" · ")}</span>
        <span className="everturn-tl-more">
          {[
            `${countText(totals.steps)} ${totals.steps === 1 ? "step" : "steps"}`,
            ...(totals.firstTokenMs === null ? [] : [`first token ${durationText(totals.firstTokenMs)}`]),
            ...(totals.inputTokens === null && totals.outputTokens === null
              ? []
              : [`${countText((totals.inputTokens ?? 0) + (totals.outputTokens ?? 0))} tokens`]),
            ...(totals.cost === null ? [] : [costText(totals.cost)]),
          ].join(" · ")}
        </span>
        <span className="everturn-tl-space" />
        {at !== null && (
          <span className="everturn-tl-present">
            <Toggle isOn onClick={() => onScrub(null)}>
              at {durationText(at)} · back to the present
            </Toggle>
          </span>
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
            <span className="everturn-tl-critical">
              <Toggle isOn={isCritical} onClick={() => setIsCritical((value) => !value)}>
                critical path
              </Toggle>
            </span>
            <span className="everturn-tl-zoom" role="group" aria-label="Zoom">
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
      </div>
      {timeline.isJournalRemoved ? (
        <p className="everturn-tl-empty">
          The journal of this turn was removed, because its retention time has passed.
        </p>
      ) : timeline.effects.length === 0 && open.length === 0 && layout.lanes.length === 0 ? (
        <p className="everturn-tl-empty">No effect is recorded yet.</p>
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
          onHover={setHover}
        />
      )}
      {layout.isOrderOnly && (
        <p className="everturn-tl-note">
          An older release wrote this turn without times: the bars show the order only.
        </p>
      )}
      {view !== null && !isList && <Overview view={view} width={layout.scale.width} onView={setView} />}
      {hover !== null && !isList && (
        <HoverCard
          hover={hover}
          effectsOf={(child) => (child === null ? timeline : childTurns.get(child))?.effects ?? []}
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
    return startInterval(systemClock, isRunning ? every : 1000, () => setNow(systemClock.now() + clockOffset));
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
      className="everturn-tl-overview"
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
