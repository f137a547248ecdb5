// The rows of the journal as a table: every row in order, also bookkeeping, with its numbers. Only the visible rows are
// drawn.

import type { TimelineEffect } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";
import type { KeyboardEvent, ReactNode } from "react";

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";

import { tagOf } from "../inspector/effect-parts.ts";
import { inputText, outputText } from "../inspector/usage-text.ts";
import { duration } from "../parts/format.ts";
import { visibleName } from "../parts/text.ts";

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
  const virtual = useVirtualizer({
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
      className="tl-journal tnum"
      ref={scroll}
      role="listbox"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={index < 0 ? undefined : `row-${selected}`}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" className="tl-journal-rows" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const effect = effects[item.index];
          if (effect === undefined) return null;
          const { ordinal } = effect;
          return (
            <div
              key={ordinal}
              id={`row-${ordinal}`}
              role="option"
              aria-selected={ordinal === selected}
              aria-posinset={item.index + 1}
              aria-setsize={effects.length}
              className="tl-row"
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
      <span className="muted">{ordinal}</span>
      <span>
        <span className={`tag ${tagOf(effect)}`}>{kind}</span>
      </span>
      <span className="mono">{name === null ? "" : visibleName(name)}</span>
      <span className="muted">step {step + 1}</span>
      <span className="muted">{startedAt === null ? "" : `+${duration(startedAt - acceptedAt)}`}</span>
      <span>{startedAt === null || endedAt === null ? "" : duration(endedAt - startedAt)}</span>
      <span className="tl-row-usage muted">{usage === null ? "" : `${inputText(usage)} → ${outputText(usage)}`}</span>
      <span className="tl-row-text muted" dir="auto">
        {state !== "ok" && <b className={state === "waits" ? "wait" : "bad"}>{state} </b>}
        {discarded.length > 0 && <b className="bad">{discarded.length} discarded </b>}
        {visibleName(failure?.message ?? text)}
      </span>
    </>
  );
}
