// The rows of the journal as a table: every row in order, also bookkeeping, with its numbers. Only the visible rows are
// drawn.

import type { TimelineEffect, TurnTimeline } from "../../../core/model/internal.ts";
import type { KeyboardEvent, ReactNode } from "react";

import { useEffect, useId, useRef } from "react";

import { durationText, usageTexts, visibleName } from "../texts.ts";
import { useVirtualRows } from "../virtual-rows.ts";

const rowHeight = 26;

export function JournalList({
  timeline: { effects, turn },
  selected,
  label,
  onSelect,
}: {
  readonly timeline: TurnTimeline;
  readonly selected: number | null;
  readonly label: string;
  readonly onSelect: (ordinal: number) => void;
}): ReactNode {
  const scroll = useRef<HTMLDivElement>(null);
  const id = useId();
  const virtual = useVirtualRows({
    count: effects.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => rowHeight,
    overscan: 10,
  });
  const index = effects.findIndex(({ ordinal }) => ordinal === selected);
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index, { align: "auto" });
  }, [index, virtual]);
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = { ArrowDown: index + 1, ArrowUp: Math.max(0, index - 1), Home: 0, End: effects.length - 1 }[event.key];
    const effect = next === undefined ? undefined : effects[next];
    if (effect === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onSelect(effect.ordinal);
  };
  return (
    <div
      className="everturn-tl-journal"
      ref={scroll}
      role="listbox"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={index < 0 ? undefined : `${id}${selected}`}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" className="everturn-tl-journal-rows" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const effect = effects[item.index];
          if (effect === undefined) return null;
          const { ordinal } = effect;
          return (
            <div
              key={ordinal}
              id={`${id}${ordinal}`}
              role="option"
              aria-selected={ordinal === selected}
              aria-posinset={item.index + 1}
              aria-setsize={effects.length}
              className="everturn-tl-row"
              style={{ transform: `translateY(${item.start}px)` }}
              onClick={() => onSelect(ordinal)}
            >
              <Cells effect={effect} acceptedAt={turn.acceptedAt} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Cells({ effect, acceptedAt }: { readonly effect: TimelineEffect; readonly acceptedAt: number }): ReactNode {
  const { ordinal, kind, name, step, state, startedAt, endedAt, usage, text, discarded, failure } = effect;
  return (
    <>
      <span className="everturn-muted">{ordinal}</span>
      <span>
        <span className="everturn-tag" data-kind={kind} data-state={state}>
          {kind}
        </span>
      </span>
      <span className="everturn-mono">{name === null ? "" : visibleName(name)}</span>
      <span className="everturn-muted">step {step + 1}</span>
      <span className="everturn-muted">{startedAt === null ? "" : `+${durationText(startedAt - acceptedAt)}`}</span>
      <span>{startedAt === null || endedAt === null ? "" : durationText(endedAt - startedAt)}</span>
      <span className="everturn-tl-row-usage everturn-muted">
        {usage === null ? "" : `${usageTexts(usage).input} → ${usageTexts(usage).output}`}
      </span>
      <span className="everturn-tl-row-text everturn-muted" dir="auto">
        {state !== "ok" && <b data-state={state}>{state} </b>}
        {discarded.length > 0 && <b data-state="failed">{discarded.length} discarded </b>}
        {visibleName(failure?.message ?? text)}
      </span>
    </>
  );
}
